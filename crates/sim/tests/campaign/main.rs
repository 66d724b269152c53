//! The campaign in small: that a seed always goes the same way, that what once broke a law does
//! so no more, and that the campaign can fail.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use flagship_fleet::{ClusterHost, Storage};
use flagship_sim::campaign::story::{Shape, draw};
use flagship_sim::campaign::{Bug, Story, Told, explained, tell};
use flagship_store::env::Env;

/// Seeds that are told once more, in another process.
const AGAIN: u64 = 2;

fn host() -> ClusterHost {
    ClusterHost::new(Env::simulated(0), Storage::Ephemeral)
}

fn told(story: &Story, host: &ClusterHost, words: bool) -> Told {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(tell(story, host, words))
}

fn small(seed: u64, host: &ClusterHost) -> Told {
    told(&draw(seed, Shape::SMALL), host, false)
}

/// The traces of these seeds, told side by side on two threads: which one tells a seed, and
/// after which others, is chance.
fn traces(seeds: &[u64]) -> Vec<String> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let host = host();
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&seed) = seeds.get(at) else { return };
                    let told = small(seed, &host);
                    let broken = told.violation.map(|b| format!(" {}: {}", b.law, b.what));
                    let line =
                        format!("{:016x} {}{}", told.hash, told.calls, broken.unwrap_or_default());
                    found.lock().expect("nobody panics with it").push((seed, line));
                }
            });
        }
    });
    let mut found = found.into_inner().expect("nobody panics with it");
    found.sort();
    found.iter().map(|(seed, line)| format!("{seed} {line}")).collect()
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/campaign").join(name)
}

fn stories(name: &str) -> Vec<(String, Story)> {
    let files = std::fs::read_dir(folder(name)).expect("the folder is committed");
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let read = |path: &PathBuf| {
        let text = std::fs::read(path).expect("a file");
        let story = serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        (path.file_stem().expect("a name").to_string_lossy().into_owned(), story)
    };
    paths.iter().map(read).collect()
}

#[test]
fn seeds_break_no_law() {
    let seeds: Vec<u64> = (0..4).collect();
    let broken: Vec<String> =
        traces(&seeds).into_iter().filter(|line| line.contains(": ")).collect();
    assert_eq!(broken, Vec::<String>::new());
}

/// What the test below starts.
#[test]
fn seeds_for_another_process() {
    if let Some(path) = std::env::var_os("FLAGSHIP_SIM_TRACES") {
        let seeds: Vec<u64> = (0..AGAIN).collect();
        std::fs::write(path, traces(&seeds).join("\n")).expect("a folder of ours");
    }
}

#[test]
fn a_seed_goes_the_same_way_in_another_process() {
    let path = std::env::temp_dir().join(format!("flagship-traces-{}", std::process::id()));
    let ended = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "seeds_for_another_process"])
        .env("FLAGSHIP_SIM_TRACES", &path)
        .output()
        .expect("this program runs");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    let theirs = std::fs::read_to_string(&path).expect("it was written");
    std::fs::remove_file(&path).expect("it is ours");
    let seeds: Vec<u64> = (0..AGAIN).collect();
    assert_eq!(theirs.lines().collect::<Vec<_>>(), traces(&seeds));
}

#[test]
fn what_broke_a_law_once_breaks_none_any_more() {
    let host = host();
    for (name, story) in stories("regressions") {
        let told = told(&story, &host, true);
        if let Some(broken) = &told.violation {
            panic!("{name}: {}", explained(broken, &told.words));
        }
    }
}

/// Planted bugs, and the law that the shrunk story of each breaks.
const PLANTED: [(&str, &str); 8] = [
    ("DoubleEviction", "S7"),
    ("DroppedEvent", "L7"),
    ("LeakedSecret", "S15"),
    ("LostWakeUp", "L1"),
    ("NoFence", "S11"),
    ("OneSlotTooMany", "S1"),
    ("SnapshotPruned", "S9"),
    ("StaleSuccess", "S12"),
];

/// With its bug a shrunk story breaks the law, without it none. Two of them are told with every
/// change, all of them with `FLAGSHIP_PLANTED=all`: a debug build takes a second for each.
#[test]
fn every_planted_bug_is_found_by_its_story() {
    let (all, host) = (std::env::var("FLAGSHIP_PLANTED").is_ok_and(|all| all == "all"), host());
    let stories = stories("planted");
    let names: Vec<&str> = stories.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, PLANTED.map(|(name, _)| name));
    for ((name, story), (_, law)) in stories.iter().zip(PLANTED) {
        if !all && !["OneSlotTooMany", "SnapshotPruned"].contains(&name.as_str()) {
            continue;
        }
        let found = told(story, &host, false).violation.map(|broken| broken.law);
        assert_eq!(found.as_deref(), Some(law), "{name}");
        let without = told(&Story { bug: None, ..story.clone() }, &host, true);
        if let Some(broken) = &without.violation {
            panic!("{name} without its bug: {}", explained(broken, &without.words));
        }
    }
}

// The campaign finds it by itself, not only by a story that was shrunk for it.
#[test]
fn a_missing_fence_is_found_within_ten_seeds() {
    let host = host();
    let law = (0..10).find_map(|seed| {
        let story = Story { bug: Some(Bug::NoFence), ..draw(seed, Shape::SMALL) };
        told(&story, &host, false).violation.map(|broken| broken.law)
    });
    assert_eq!(law.as_deref(), Some("S11"));
}
