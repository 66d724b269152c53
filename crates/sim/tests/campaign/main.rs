//! The campaign in small: that a seed always goes the same way, that what once broke a law does
//! so no more, and that the campaign can fail.

mod disk;
mod wall;

use std::path::{Path, PathBuf};

use flagship_fleet::{ClusterHost, Storage};
use flagship_sim::campaign::story::{Shape, draw};
use flagship_sim::campaign::{Bug, Story, Told, explained, tell};
use flagship_store::env::Env;

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
    let host = host();
    for seed in 0..4 {
        let told = told(&draw(seed, Shape::SMALL), &host, true);
        if let Some(broken) = &told.violation {
            panic!("seed {seed}: {}", explained(broken, &told.words));
        }
    }
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
const PLANTED: [(&str, &str); 12] = [
    ("AnyGeneration", "S3"),
    ("DoubleEviction", "S7"),
    ("DroppedEvent", "L1"),
    ("LeakedSecret", "S15"),
    ("LostWakeUp", "L1"),
    ("NoFence", "S11"),
    ("OneSlotTooMany", "S1"),
    ("RecordLast", "S1"),
    ("RestlessRecord", "S16"),
    ("SnapshotPruned", "S9"),
    ("StaleSuccess", "S12"),
    ("WrongClock", "S5"),
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
