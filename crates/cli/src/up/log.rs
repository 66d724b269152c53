//! What `up` logs: everything to a file in the data folder, warnings also to the terminal.
//!
//! The file is replaced when it is full, and two older ones are kept. A warning that comes
//! again and again is shown once in a while. On a full disk the file misses lines; the
//! terminal does not.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use flagship_explain::printable::printable;
use flagship_files::Rotating;
use flagship_runtime::env::Env;
use jiff::{SignedDuration, Timestamp};
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// The names of the log and of what is kept of it, in the data folder.
pub const NAMES: [&str; 3] = ["flagship.log", "flagship.log.1", "flagship.log.2"];

/// Bytes after which a file is replaced.
const LARGEST: u64 = 4 << 20;
/// How long a warning is not shown again.
const QUIET: SignedDuration = SignedDuration::from_mins(10);
/// Warnings that are remembered for that.
const REMEMBERED: usize = 32;

/// Logs to a folder from here on. Where that cannot be written, warnings are still shown.
pub fn begin(folder: &Path) {
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(Level::INFO)
        .with_ansi(false)
        .with_target(false)
        .with_writer(Log::new(folder, io::stderr()))
        .finish();
    // A second start in one process keeps the first one's log.
    drop(tracing::subscriber::set_global_default(subscriber));
}

/// The file and the terminal.
struct Log<T>(Arc<Mutex<State<T>>>);

struct State<T> {
    file: LogFile,
    terminal: T,
    env: Env,
    /// What was shown, and when.
    shown: VecDeque<(Timestamp, String)>,
}

/// One line to be logged.
struct Line<'a, T> {
    log: &'a Log<T>,
    level: Level,
}

impl<T: Write> Log<T> {
    fn new(folder: &Path, terminal: T) -> Self {
        let file = LogFile { folder: folder.to_owned(), open: None };
        let (env, shown) = (Env::system(), VecDeque::new());
        Self(Arc::new(Mutex::new(State { file, terminal, env, shown })))
    }
}

impl<'a, T: Write + 'a> MakeWriter<'a> for Log<T> {
    type Writer = Line<'a, T>;

    fn make_writer(&'a self) -> Self::Writer {
        Line { log: self, level: Level::INFO }
    }

    fn make_writer_for(&'a self, about: &Metadata<'_>) -> Self::Writer {
        Line { log: self, level: *about.level() }
    }
}

impl<T: Write> Write for Line<'_, T> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut state = self.log.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever logs can do nothing about a disk that is full.
        drop(state.file.write(line));
        if self.level <= Level::WARN {
            let now = state.env.now();
            drop(state.show(&String::from_utf8_lossy(line), self.level, now));
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<T: Write> State<T> {
    /// Shows a warning without its time and level, unless it was shown a moment ago.
    fn show(&mut self, line: &str, level: Level, now: Timestamp) -> io::Result<()> {
        let said = line.split_once(level.as_str()).map_or(line, |(_, said)| said).trim();
        self.shown.retain(|(at, _)| now.duration_since(*at) < QUIET);
        if self.shown.iter().any(|(_, shown)| shown == said) {
            return Ok(());
        }
        if self.shown.len() == REMEMBERED {
            self.shown.pop_front();
        }
        self.shown.push_back((now, said.to_owned()));
        let word = if level == Level::ERROR { "error" } else { "warning" };
        writeln!(self.terminal, "{word}: {}", printable(said, false))
    }
}

/// The file, which is opened with the first line: before that its folder may not be there.
struct LogFile {
    folder: PathBuf,
    open: Option<Rotating>,
}

impl LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let log = match &mut self.open {
            Some(log) => log,
            None if self.folder.is_dir() => {
                let path = self.folder.join(NAMES[0]);
                self.open.insert(Rotating::open(&path, LARGEST, NAMES.len() - 1)?)
            }
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        log.write_lines(line)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("flagship-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        fs::create_dir(&path).unwrap();
        path
    }

    #[test]
    fn the_log_is_bounded_and_goes_on_after_a_restart() {
        let path = folder("log");
        let line = vec![b'x'; 1 << 20];
        for _ in 0..5 {
            let mut log = LogFile { folder: path.clone(), open: None };
            (0..4).for_each(|_| log.write(&line).unwrap());
        }
        let lengths = NAMES.map(|name| fs::metadata(path.join(name)).unwrap().len());
        assert_eq!(lengths, [LARGEST; 3]);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 3);
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn warnings_are_shown_once_in_a_while_and_everything_is_in_the_file() {
        let path = folder("shown");
        let log = Log::new(&path, Vec::new());
        let say = |level, said: &str| {
            let line = format!("2026-11-16T10:00:00Z {level:>5} {said}\n");
            Line { log: &log, level }.write_all(line.as_bytes()).unwrap();
        };
        say(Level::INFO, "started");
        say(Level::WARN, "the disk is full");
        say(Level::WARN, "the disk is full");
        say(Level::ERROR, "a restart would fail\u{1b}[2J");
        let mut state = log.0.lock().unwrap();
        let shown = String::from_utf8(std::mem::take(&mut state.terminal)).unwrap();
        assert_eq!(shown.lines().count(), 2, "{shown}");
        assert!(shown.starts_with("warning: the disk is full\nerror: a restart would"), "{shown}");
        assert!(!shown.contains('\u{1b}'), "{shown:?}");
        let later = state.env.now() + QUIET;
        state.show("10:00 WARN the disk is full", Level::WARN, later).unwrap();
        assert_eq!(state.terminal, b"warning: the disk is full\n");
        let written = fs::read_to_string(path.join(NAMES[0])).unwrap();
        assert_eq!(written.lines().count(), 4, "{written}");
        fs::remove_dir_all(&path).unwrap();
    }
}
