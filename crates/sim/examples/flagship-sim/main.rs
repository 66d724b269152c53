//! The campaign: whole fleets under virtual time, each from one seed, held against the laws.
//!
//! ```text
//! cargo build --release -p flagship-sim --example flagship-sim
//! flagship sim --seeds 50000 --workers 2 --report campaign.txt
//! flagship sim --seed 17                tell one seed in words
//! flagship sim --replay FILE            tell a stored story in words
//! flagship sim --bugs                   plant every known bug and say after how many seeds it is found
//! flagship sim --members 1000 --hours 168
//! flagship sim --real KUBECONFIG         see scripts/real-faults
//! flagship sim --traces 200 --write crates/sim/tests/campaign/traces.txt
//! ```
//!
//! An example and not a binary: virtual time is a feature of tokio for tests, and what ships is
//! built without it (decision 19).

mod real;

use std::io::Write;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use flagship_fleet::{ClusterHost, Storage};
use flagship_sim::campaign::story::{Shape, draw, large};
use flagship_sim::campaign::traces::lines;
use flagship_sim::campaign::{
    BUGS, Bug, DiskReport, Report, Story, Told, Violation, explained, shrink, tell,
};
use flagship_store::env::Env as ServerEnv;

/// As in the binary that ships.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const HELP: &str = "\
Tells stories of whole fleets under virtual time and holds them against the laws.

  --seeds N         how many seeds (500)
  --from N          the first seed (0)
  --workers K       how many at a time (the number of cores)
  --small           small fleets
  --report FILE     where the report goes besides the terminal
  --resume FILE     where the sums so far are kept; a campaign that finds them goes on from there
  --regressions DIR where shrunk stories that break a law go
  --seed N          tell one seed in words
  --replay FILE     tell a stored story in words
  --calls FILE      with --seed or --replay, where every call of that story goes
  --bug NAME        plant a bug, and look for it in at most --seeds seeds
  --bugs            the same for every known bug
  --real KUBECONFIG a real API server behind a proxy that does harm; --seeds says how many runs
  --disk            the embedded store on a disk that fails, instead of fleets
  --traces N        tell N short seeds and print a line about the calls of each
  --write FILE      where these lines go instead; with --seed, where its story goes
  --members N       one large fleet, with --hours H of virtual time (168)
";

/// How many tellings a shrunk story may cost.
const TELLINGS: usize = 400;

/// How often a campaign keeps its sums.
const KEPT_EVERY: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Asked {
    seeds: Option<u64>,
    from: u64,
    workers: Option<usize>,
    small: bool,
    report: Option<PathBuf>,
    resume: Option<PathBuf>,
    regressions: Option<PathBuf>,
    seed: Option<u64>,
    replay: Option<PathBuf>,
    calls: Option<PathBuf>,
    bugs: Vec<Bug>,
    disk: bool,
    real: Option<PathBuf>,
    traces: Option<u64>,
    write: Option<PathBuf>,
    members: Option<u64>,
    hours: Option<u64>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        say(HELP);
        return ExitCode::SUCCESS;
    }
    let asked = match Asked::read(words.into_iter()) {
        Ok(asked) => asked,
        Err(wrong) => return refused(&format!("{wrong}; --help lists the options")),
    };
    let done = if let Some(path) = &asked.replay {
        match stored(path) {
            Ok(story) => in_words(&story, asked.calls.as_deref()),
            Err(wrong) => return refused(&wrong),
        }
    } else if let Some(seed) = asked.seed {
        let story = draw(seed, asked.shape());
        asked.write.as_deref().is_none_or(|path| keep(&story, path))
            && in_words(&story, asked.calls.as_deref())
    } else if let Some(kubeconfig) = &asked.real {
        on_a_real_server(kubeconfig, asked.from, asked.seeds.unwrap_or(6))
    } else if asked.disk {
        on_a_failing_disk(asked.from, asked.seeds.unwrap_or(500))
    } else if let Some(count) = asked.traces {
        traced(count, asked.write.as_deref())
    } else if let Some(members) = asked.members {
        one_large(members, asked.hours.unwrap_or(168), asked.from)
    } else if !asked.bugs.is_empty() {
        // Not a closure that stops at the first: each is to be found.
        let found = asked.bugs.iter().map(|bug| find(&asked, *bug)).filter(|found| *found).count();
        found == asked.bugs.len()
    } else {
        campaign(&asked)
    };
    if done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A call that cannot be taken.
fn refused(why: &str) -> ExitCode {
    drop(writeln!(std::io::stderr(), "{why}"));
    ExitCode::from(2)
}

/// Options that decide what the program does, and those that go with them. The first that are
/// given decide; where none is it is a campaign.
const WORK: [(&[&str], &[&str]); 8] = [
    (&["--replay"], &["--calls"]),
    (&["--seed"], &["--calls", "--write", "--small"]),
    (&["--real"], &["--seeds", "--from"]),
    (&["--disk"], &["--seeds", "--from"]),
    (&["--traces"], &["--write"]),
    (&["--members"], &["--hours", "--from"]),
    (&["--bug", "--bugs"], &["--seeds", "--from", "--small", "--regressions"]),
    (&[], &["--seeds", "--from", "--workers", "--small", "--report", "--resume", "--regressions"]),
];

/// Refuses options that would be ignored.
fn fit_together(given: &[String]) -> Result<(), String> {
    let is_given = |option: &&str| given.iter().any(|word| word == option);
    let work = WORK.iter().find(|(decides, _)| decides.is_empty() || decides.iter().any(is_given));
    let Some((decides, with)) = work else { return Ok(()) };
    let fits = |word: &str| decides.contains(&word) || with.contains(&word);
    match (given.iter().find(|word| !fits(word)), decides.first()) {
        (None, _) => Ok(()),
        (Some(stray), None) => Err(format!("{stray} does not go with a campaign")),
        (Some(stray), Some(decides)) => Err(format!("{stray} does not go with {decides}")),
    }
}

impl Asked {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut asked = Self::default();
        let mut given = Vec::new();
        while let Some(word) = words.next() {
            given.push(word.clone());
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            let number = |text: String| {
                text.parse::<u64>().map_err(|_| format!("{word}: {text} is no number"))
            };
            let some = |text: String| match number(text)? {
                0 => Err(format!("{word}: none is too few")),
                count => Ok(count),
            };
            match word.as_str() {
                "--seeds" => asked.seeds = Some(some(value()?)?),
                "--from" => asked.from = number(value()?)?,
                "--workers" => asked.workers = usize::try_from(some(value()?)?).ok(),
                "--small" => asked.small = true,
                "--disk" => asked.disk = true,
                "--real" => asked.real = Some(value()?.into()),
                "--report" => asked.report = Some(value()?.into()),
                "--resume" => asked.resume = Some(value()?.into()),
                "--regressions" => asked.regressions = Some(value()?.into()),
                "--seed" => asked.seed = Some(number(value()?)?),
                "--replay" => asked.replay = Some(value()?.into()),
                "--calls" => asked.calls = Some(value()?.into()),
                "--traces" => asked.traces = Some(number(value()?)?),
                "--write" => asked.write = Some(value()?.into()),
                "--members" => asked.members = Some(number(value()?)?),
                "--hours" => asked.hours = Some(number(value()?)?),
                "--bugs" => asked.bugs.extend(BUGS),
                "--bug" => {
                    let name = value()?;
                    let known = BUGS.into_iter().find(|bug| format!("{bug:?}") == name);
                    asked.bugs.push(known.ok_or(format!("no bug is called {name}: {BUGS:?}"))?);
                }
                _ => return Err(format!("{word} is no option")),
            }
        }
        fit_together(&given)?;
        Ok(asked)
    }

    fn shape(&self) -> Shape {
        if self.small { Shape::SMALL } else { Shape::CAMPAIGN }
    }

    fn workers(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.workers.unwrap_or(cores).max(1)
    }
}

/// A server for the fleets of one thread, one after the other.
fn host() -> ClusterHost {
    ClusterHost::new(ServerEnv::simulated(0), Storage::Ephemeral)
}

/// Tells a story under paused time. A story that panics breaks a law, too.
fn told(story: &Story, host: &ClusterHost, words: bool) -> Result<Told, String> {
    let telling = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(tell(story, host, words))
    };
    std::panic::catch_unwind(AssertUnwindSafe(telling)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_else(|| "no text".to_owned())
    })
}

/// The law a story breaks, if it does, and how, without names and numbers: what a shrunk story
/// must do as well.
fn law(story: &Story, host: &ClusterHost) -> Option<String> {
    match told(story, host, false) {
        Ok(told) => told.violation.map(|broken| how(&broken)),
        Err(_) => Some("panic".to_owned()),
    }
}

fn how(broken: &Violation) -> String {
    let words = broken.what.lines().next().unwrap_or_default().split(' ');
    let words = words.filter(|word| !word.contains(|letter: char| letter.is_ascii_digit()));
    // Runs have names of one letter.
    let words: Vec<&str> = words.filter(|word| word.len() > 1).collect();
    format!("{}: {}", broken.law, words.join(" "))
}

fn in_words(story: &Story, calls: Option<&Path>) -> bool {
    match told(story, &host(), true) {
        Err(panic) => {
            say(&format!("the story panicked: {panic}"));
            false
        }
        Ok(told) => {
            match &told.violation {
                Some(broken) => say(&explained(broken, &told.words)),
                None => say(&format!("{}\nno law was broken", told.words.join("\n"))),
            }
            say(&format!("trace {:016x}, {} calls, {} s", told.hash, told.calls, told.seconds));
            let kept = calls.is_none_or(|path| write(path, &told.trace.join("\n")));
            kept && told.violation.is_none()
        }
    }
}

fn stored(path: &Path) -> Result<Story, String> {
    let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let read = serde_json::from_slice(&text);
    read.map_err(|error| format!("{}: this is no stored story: {error}", path.display()))
}

/// Writes a story to a file, from which it can be told again.
fn keep(story: &Story, path: &Path) -> bool {
    write(path, &serde_json::to_string_pretty(story).unwrap_or_default())
}

fn write(path: &Path, text: &str) -> bool {
    let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    let written = folder.and_then(|()| std::fs::write(path, text));
    if let Err(error) = &written {
        say(&format!("{}: {error}", path.display()));
    }
    written.is_ok()
}

/// Many seeds, side by side.
fn campaign(asked: &Asked) -> bool {
    let (seeds, began) = (asked.seeds.unwrap_or(500), clock());
    let report = match asked.resume.as_deref().map_or_else(|| Ok(Report::default()), resumed) {
        Ok(report) => Mutex::new(report),
        Err(wrong) => {
            say(&wrong);
            return false;
        }
    };
    let asked_for = asked.from..asked.from.saturating_add(seeds);
    if let Some(seed) = lock(&report).told.iter().find(|seed| !asked_for.contains(seed)) {
        let Range { start, end } = asked_for;
        say(&format!(
            "--resume: the file holds seed {seed}, and this campaign tells {start} to {}; give it \
             the --from and --seeds that it began with, or another file",
            end - 1
        ));
        return false;
    }
    // A campaign whose sums cannot be kept is not begun.
    if let Some(path) = &asked.resume
        && let Err(wrong) = keep_sums(&lock(&report), Duration::ZERO, path)
    {
        say(&format!("--resume: {wrong}"));
        return false;
    }
    let next = AtomicU64::new(0);
    let save = || {
        if let Some(path) = &asked.resume
            && let Err(wrong) = keep_sums(&lock(&report), began.elapsed(), path)
        {
            say(&wrong);
        }
    };
    let finished = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..asked.workers())
            .map(|_| {
                scope.spawn(|| {
                    let host = host();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= seeds {
                            return;
                        }
                        let seed = asked.from + number;
                        if !lock(&report).told.contains(&seed) {
                            one(asked, seed, &host, &report);
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut kept = began;
            while !finished.load(Ordering::Relaxed) {
                // A thread of its own that only prints and keeps.
                std::thread::park_timeout(Duration::from_secs(2));
                let line = lock(&report).progress(seeds, began.elapsed());
                drop(write!(std::io::stderr(), "\r{line}"));
                if kept.elapsed() > KEPT_EVERY {
                    save();
                    kept = clock();
                }
            }
        });
        for worker in workers {
            drop(worker.join());
        }
        finished.store(true, Ordering::Relaxed);
    });
    save();
    let report = lock(&report);
    let text = report.text(began.elapsed()) + &memory();
    say(&format!("\n{text}"));
    if let Some(path) = &asked.report
        && let Err(error) = std::fs::write(path, &text)
    {
        say(&format!("{}: {error}", path.display()));
    }
    report.broken.is_empty() && report.parted.is_empty()
}

/// What an earlier campaign has kept, if there was one.
fn resumed(path: &Path) -> Result<Report, String> {
    match std::fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Report::default()),
        Err(error) => Err(format!("{}: {error}", path.display())),
        Ok(text) => {
            serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))
        }
    }
}

/// Keeps the sums so far, all or nothing.
fn keep_sums(report: &Report, spent: Duration, path: &Path) -> Result<(), String> {
    let sums = Report { spent_before: report.spent_before + spent, ..report.clone() };
    let beside = path.with_extension("new");
    let text = serde_json::to_vec(&sums).map_err(|error| error.to_string())?;
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

/// One seed of a campaign. One in a hundred is told twice.
fn one(asked: &Asked, seed: u64, host: &ClusterHost, report: &Mutex<Report>) {
    let story = draw(seed, asked.shape());
    let first = match told(&story, host, false) {
        Ok(first) => first,
        Err(panic) => {
            say(&format!("\nseed {seed} panicked: {panic}"));
            return lock(report).panicked(seed, panic);
        }
    };
    let parted = seed.is_multiple_of(100)
        && told(&story, host, false).map(|again| again.hash) != Ok(first.hash);
    {
        let mut report = lock(report);
        report.add(seed, &first);
        report.parted.extend(parted.then_some(seed));
    }
    let Some(broken) = &first.violation else { return };
    say(&format!("\nseed {seed} breaks {}: {}", broken.law, broken.what));
    if let Some(folder) = &asked.regressions {
        let found = how(broken);
        let small = shrink(&story, TELLINGS, |story| law(story, host).as_ref() == Some(&found));
        let path = folder.join(format!("{}-{seed}.json", broken.law));
        if keep(&small, &path) {
            say(&format!("  shrunk: flagship sim --replay {}", path.display()));
        }
    }
}

/// Plants a bug and looks for it.
fn find(asked: &Asked, bug: Bug) -> bool {
    let (host, began) = (host(), clock());
    for number in 0..asked.seeds.unwrap_or(500) {
        let seed = asked.from + number;
        let story = Story { bug: Some(bug), ..draw(seed, asked.shape()) };
        let Some(found) = law(&story, &host) else { continue };
        // What the seed breaks without the bug is not the bug.
        if law(&Story { bug: None, ..story.clone() }, &host).is_some() {
            continue;
        }
        let spent = began.elapsed().as_secs_f64();
        say(&format!("{bug:?}: {found} at seed {seed}, after {} seeds, {spent:.1} s", number + 1));
        let small = shrink(&story, TELLINGS, |story| law(story, &host).as_ref() == Some(&found));
        say(&format!(
            "  shrunk to {} members, {} stages, {} faults, {} steps",
            small.members.len(),
            small.stages.len(),
            small.faults.len(),
            small.steps.len()
        ));
        if let Some(folder) = &asked.regressions {
            keep(&small, &folder.join(format!("{bug:?}.json")));
        }
        return true;
    }
    say(&format!("{bug:?}: not found in {} seeds", asked.seeds.unwrap_or(500)));
    false
}

/// Through a proxy that does harm, in real time.
fn on_a_real_server(kubeconfig: &Path, seed: u64, rounds: u64) -> bool {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.expect("a runtime").block_on(real::told(kubeconfig, seed, rounds)) {
        Ok((text, good)) => {
            say(&text);
            good
        }
        Err(wrong) => {
            say(&wrong);
            false
        }
    }
}

fn on_a_failing_disk(from: u64, seeds: u64) -> bool {
    let mut report = DiskReport::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    for seed in from..from + seeds {
        let folder = std::env::temp_dir().join(format!("flagship-disk-{}", std::process::id()));
        if let Err(error) = std::fs::create_dir(&folder) {
            say(&format!("{}: {error}", folder.display()));
            return false;
        }
        runtime.block_on(report.tell(seed, &folder));
        drop(std::fs::remove_dir_all(&folder));
    }
    say(&report.text());
    report.broken.is_empty()
}

/// Lines by which `tests/campaign/wall.rs` knows a nondeterministic branch, or a change.
fn traced(count: u64, path: Option<&Path>) -> bool {
    let lines = lines(count, || {
        let host = host();
        move |story: &Story| told(story, &host, true).unwrap_or_else(|panic| panic!("{panic}"))
    });
    let text = lines.join("\n") + "\n";
    let Some(path) = path else {
        say(text.trim_end());
        return true;
    };
    let written = std::fs::write(path, text);
    if let Err(error) = &written {
        say(&format!("{}: {error}", path.display()));
    }
    written.is_ok()
}

fn one_large(members: u64, hours: u64, seed: u64) -> bool {
    let began = clock();
    let story = large(seed, members, hours);
    let told = match told(&story, &host(), false) {
        Ok(told) => told,
        Err(panic) => {
            say(&format!("the story panicked: {panic}"));
            return false;
        }
    };
    let mut report = Report::default();
    report.add(seed, &told);
    say(&(report.text(began.elapsed()) + &memory()));
    told.violation.is_none()
}

fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    most.map_or_else(String::new, |most| format!("memory at most: {}\n", most.trim()))
}

#[expect(clippy::disallowed_methods, reason = "how long a campaign takes is the machine's time")]
fn clock() -> Instant {
    Instant::now()
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whoever reads may have seen enough, as `head` has.
fn say(text: &str) {
    drop(writeln!(std::io::stdout(), "{text}"));
}
