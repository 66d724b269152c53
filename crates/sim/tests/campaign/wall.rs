//! Determinism as a wall: a seed goes the same way whichever thread or process tells it, after
//! whichever others, and on any machine. The first calls that went another way are named.
//!
//! Two things can fail here, and the words say which. Two tellings by this very program that
//! differ are a nondeterministic branch, a bug. Tellings that agree with each other and not with
//! `traces.txt` are drift: what the controllers ask of their API servers has changed since, as
//! it may, and the file is written anew. `FLAGSHIP_TRACES=200` tells all of them, otherwise a
//! few are told.

use std::process::Command;

use flagship_sim::campaign::Story;
use flagship_sim::campaign::traces::{CALLS, lines, same_calls, short};

use super::{folder, host, told};

/// How many are told with every change.
const FEW: u64 = 8;

/// How `traces.txt` is written anew.
const RENEW: &str = "cargo run --release -p flagship-sim --example flagship-sim -- \
     --traces 200 --write crates/sim/tests/campaign/traces.txt";

fn count() -> u64 {
    std::env::var("FLAGSHIP_TRACES").map_or(FEW, |count| count.parse().expect("a number"))
}

fn traces() -> Vec<String> {
    lines(count(), || {
        let host = host();
        move |story: &Story| told(story, &host, true)
    })
}

/// The first seed of which two lines differ, and its calls from there on.
fn parted(ours: &[String], theirs: &[&str]) -> Option<String> {
    let mut parted = ours.iter().zip(theirs).filter(|(ours, theirs)| ours != theirs);
    let (ours, theirs) = parted.next()?;
    let (seed, same) = (ours.split(' ').next()?, same_calls(ours, theirs));
    let calls = told(&short(seed.parse().ok()?), &host(), true).trace;
    let calls: Vec<&String> = calls.iter().skip(same).take(CALLS).collect();
    Some(format!(
        "seed {seed} parts within {CALLS} calls after the first {same}; here they are\n{calls:#?}"
    ))
}

/// What the test below starts.
#[test]
fn seeds_for_another_process() {
    if let Some(path) = std::env::var_os("FLAGSHIP_SIM_TRACES") {
        std::fs::write(path, traces().join("\n")).expect("a folder of ours");
    }
}

#[test]
fn a_seed_goes_the_same_way_in_another_process_and_as_it_was_written_down() {
    let path = std::env::temp_dir().join(format!("flagship-traces-{}", std::process::id()));
    let ended = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "wall::seeds_for_another_process"])
        .env("FLAGSHIP_SIM_TRACES", &path)
        .output()
        .expect("this program runs");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    let theirs = std::fs::read_to_string(&path).expect("it was written");
    std::fs::remove_file(&path).expect("it is ours");
    let ours = traces();
    if let Some(parted) = parted(&ours, &theirs.lines().collect::<Vec<_>>()) {
        panic!(
            "NONDETERMINISM: this program has told a seed twice, and not alike. This is a bug, \
             not a file to be written anew: {parted}"
        );
    }
    let path = folder("traces.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() && ours.len() > 100 {
        std::fs::write(path, ours.join("\n") + "\n").expect("a folder of ours");
        return;
    }
    let committed = std::fs::read_to_string(path).expect("traces.txt is committed");
    if let Some(parted) = parted(&ours, &committed.lines().collect::<Vec<_>>()) {
        panic!(
            "DRIFT: two processes told every seed alike, but not as traces.txt says: what \
             controllers ask of their API servers has changed since it was written. If that is \
             meant, renew it:\n{RENEW}\n{parted}"
        );
    }
}
