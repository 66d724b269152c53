//! Determinism as a wall: a seed goes the same way whichever thread or process tells it, after
//! whichever others, and on any machine. The first step that went another way is named.
//!
//! `FLAGSHIP_TRACES=200` tells 200 seeds, otherwise a few are told; with `UPDATE_EXPECT=1` they
//! are written to `traces.txt`, with the sources they belong to: a change of a controller may
//! well change them. Where that file is, and is of these sources, they are held against it, too.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use flagship_sim::campaign::story::{Shape, draw};
use flagship_sim::campaign::{Story, Told};

use super::{folder, host, told};

/// How many are told with every change.
const FEW: u64 = 8;

/// After how many calls a trace is marked.
const CALLS: usize = 32;

/// Crates whose sources decide how a seed goes.
const CRATES: [&str; 16] = [
    "api",
    "apiserver",
    "base",
    "files",
    "fleet",
    "hub",
    "kinds",
    "member",
    "metrics",
    "patch",
    "rules",
    "runtime",
    "schema",
    "sim",
    "store",
    "workloads",
];

/// Short stories, with everything in them that could part: two members, faults, people.
fn short(seed: u64) -> Story {
    draw(seed, Shape::SHORT)
}

fn count() -> u64 {
    std::env::var("FLAGSHIP_TRACES").map_or(FEW, |count| count.parse().expect("a number"))
}

/// A trace in one line: its hash, its calls, and marks on the way to the hash.
fn line(seed: u64, told: &Told) -> String {
    let mut hash = FNV_OFFSET;
    let marks: Vec<String> = told
        .trace
        .chunks(CALLS)
        .map(|calls| {
            calls.iter().for_each(|call| mix(&mut hash, call.as_bytes()));
            format!("{:04x}", hash & 0xffff)
        })
        .collect();
    format!("{seed} {:016x} {} {}", told.hash, told.calls, marks.join(" "))
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

fn mix(hash: &mut u64, bytes: &[u8]) {
    for byte in bytes {
        *hash = (*hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
}

/// The traces of the first seeds, told side by side on two threads: which one tells a seed, and
/// after which others, is chance.
fn traces(count: u64) -> Vec<String> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let host = host();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed) as u64;
                    if seed >= count {
                        return;
                    }
                    let line = line(seed, &told(&short(seed), &host, true));
                    found.lock().expect("nobody panics with it").push((seed, line));
                }
            });
        }
    });
    let mut found = found.into_inner().expect("nobody panics with it");
    found.sort();
    found.into_iter().map(|(_, line)| line).collect()
}

/// Fails at the first seed that went another way, with its first calls that did.
fn must_agree(ours: &[String], theirs: &[&str], whose: &str) {
    let mut parted = ours.iter().zip(theirs).filter(|(ours, theirs)| ours != theirs);
    if let Some((ours, theirs)) = parted.next() {
        let marks = |line: &str| line.split(' ').skip(3).map(str::to_owned).collect::<Vec<_>>();
        let (mine, other) = (marks(ours), marks(theirs));
        let same = mine.iter().zip(&other).take_while(|(mine, other)| mine == other).count();
        let seed = ours.split(' ').next().and_then(|seed| seed.parse().ok()).unwrap_or_default();
        let calls = told(&short(seed), &host(), true).trace;
        let calls: Vec<&String> = calls.iter().skip(same * CALLS).take(CALLS).collect();
        panic!(
            "seed {seed} went another way {whose}, within {CALLS} calls after the first {}: \
             here they are\n{calls:#?}",
            same * CALLS
        );
    }
    assert_eq!(ours.len(), theirs.len(), "{whose}");
}

/// What the test below starts.
#[test]
fn seeds_for_another_process() {
    if let Some(path) = std::env::var_os("FLAGSHIP_SIM_TRACES") {
        std::fs::write(path, traces(count()).join("\n")).expect("a folder of ours");
    }
}

#[test]
fn a_seed_goes_the_same_way_in_another_process() {
    let path = std::env::temp_dir().join(format!("flagship-traces-{}", std::process::id()));
    let ended = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "wall::seeds_for_another_process"])
        .env("FLAGSHIP_SIM_TRACES", &path)
        .output()
        .expect("this program runs");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    let theirs = std::fs::read_to_string(&path).expect("it was written");
    std::fs::remove_file(&path).expect("it is ours");
    let ours = traces(count());
    must_agree(&ours, &theirs.lines().collect::<Vec<_>>(), "in another process");
    committed(&ours);
}

/// Against what another machine has written down, if it is of these sources.
fn committed(ours: &[String]) {
    let (path, sources) = (folder("traces.txt"), sources());
    if std::env::var_os("UPDATE_EXPECT").is_some() && ours.len() > 100 {
        let text = format!("sources {sources:016x}\n{}\n", ours.join("\n"));
        std::fs::write(path, text).expect("a folder of ours");
        return;
    }
    let Ok(text) = std::fs::read_to_string(path) else { return };
    let mut lines = text.lines();
    if lines.next() == Some(&format!("sources {sources:016x}")) {
        let theirs: Vec<&str> = lines.take(ours.len()).collect();
        must_agree(ours, &theirs, "where traces.txt was written");
    }
}

/// A hash over the sources that decide how a seed goes.
fn sources() -> u64 {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of crates");
    let mut files: Vec<PathBuf> = vec![crates.join("../Cargo.lock")];
    for name in CRATES {
        let mut folders = vec![crates.join(name).join("src")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("sources") {
                let path = entry.expect("a file").path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => files.push(path),
                }
            }
        }
    }
    files.sort();
    let mut hash = FNV_OFFSET;
    for file in files {
        mix(&mut hash, &std::fs::read(file).expect("a source"));
    }
    hash
}
