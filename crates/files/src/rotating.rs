//! A log that is one file and a few older ones beside it: no larger than it may be, however
//! long the process runs.
//!
//! When the file is full it is renamed to a numbered one, `audit.log` to `audit.log.1`; what was
//! `.1` becomes `.2`, and the oldest is removed. A line is never torn in two.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A log that is being written.
#[derive(Debug)]
pub struct Rotating {
    path: PathBuf,
    file: File,
    size: u64,
    /// Bytes of one file.
    most: u64,
    /// How many older files are kept.
    kept: usize,
}

impl Rotating {
    /// Goes on with the file of this path, or begins it. A file has at most so many bytes, or
    /// one line; so many older ones are kept.
    pub fn open(path: &Path, most: u64, kept: usize) -> io::Result<Self> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            super::make_folder(folder)?;
        }
        let mut file = super::open_or_make(path)?;
        let size = file.seek(SeekFrom::End(0))?;
        Ok(Self { path: path.to_owned(), file, size, most, kept })
    }

    /// Writes lines, which end in a newline, into one file.
    pub fn write_lines(&mut self, lines: &[u8]) -> io::Result<()> {
        let more = lines.len() as u64;
        if self.size > 0 && self.size.saturating_add(more) > self.most {
            self.rotate()?;
        }
        let written = self.file.write_all(lines);
        // On a full disk a part may be there.
        self.size = self.file.stream_position()?;
        written
    }

    fn rotate(&mut self) -> io::Result<()> {
        super::remove_if_there(&self.older(self.kept))?;
        for number in (1..self.kept).rev() {
            rename_if_there(&self.older(number), &self.older(number + 1))?;
        }
        match self.kept {
            0 => super::remove_if_there(&self.path)?,
            _ => rename_if_there(&self.path, &self.older(1))?,
        }
        self.file = super::open_or_make(&self.path)?;
        self.size = self.file.seek(SeekFrom::End(0))?;
        Ok(())
    }

    fn older(&self, number: usize) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        name.into()
    }
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_makes_way_and_the_oldest_goes() {
        let folder = std::env::temp_dir().join(format!("flagship-rotating-{}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        let path = folder.join("audit.log");
        let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let mut log = Rotating::open(&path, 10, 2).unwrap();
        for line in ["aaaa\n", "bbbb\n", "cccc\n", "longer than a file may be\n", "dddd\n"] {
            log.write_lines(line.as_bytes()).unwrap();
        }
        assert_eq!(text("audit.log"), "dddd\n");
        assert_eq!(text("audit.log.1"), "longer than a file may be\n");
        assert_eq!(text("audit.log.2"), "cccc\n");
        assert!(!folder.join("audit.log.3").exists());
        // The next process goes on where this one ended.
        drop(log);
        let mut log = Rotating::open(&path, 10, 2).unwrap();
        log.write_lines(b"eeee\n").unwrap();
        assert_eq!(text("audit.log"), "dddd\neeee\n");
        let mut none = Rotating::open(&path, 10, 0).unwrap();
        none.write_lines(b"ffff\n").unwrap();
        assert_eq!((text("audit.log"), text("audit.log.1").len()), ("ffff\n".to_owned(), 26));
        fs::remove_dir_all(&folder).unwrap();
    }
}
