//! The fuzzers' laws on the seeds we keep and on random bytes.
//!
//! `cargo fuzz` starts from the same seeds; an input it finds becomes a file in
//! `corpus/`, and is then checked here for ever.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::path::Path;

use flagship_api::{fuzz_harness, kinds};
use proptest::prelude::*;

mod invent;

type Check = fn(&[u8]);

const TARGETS: [(&str, Check); 5] = [
    ("durations", fuzz_harness::durations),
    ("quantities", fuzz_harness::quantities),
    ("int_or_string", fuzz_harness::int_or_string),
    ("selectors", fuzz_harness::selectors),
    ("objects", fuzz_harness::objects),
];

#[test]
fn the_laws_hold_on_every_seed() {
    for (target, check) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(target);
        let mut seeds = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            check(&std::fs::read(entry.unwrap().path()).unwrap());
            seeds += 1;
        }
        assert!(seeds > 5, "{target} has lost its seeds");
    }
}

/// Checks the laws on these bytes for every kind, whatever they say they are.
fn check_as_every_kind(bytes: &[u8]) {
    for info in kinds::all() {
        fuzz_harness::reader_of(info.kind).unwrap()(bytes);
    }
}

#[test]
fn every_kind_reads_or_refuses_every_seed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/objects");
    for entry in std::fs::read_dir(folder).unwrap() {
        check_as_every_kind(&std::fs::read(entry.unwrap().path()).unwrap());
    }
}

#[test]
fn every_seed_cut_anywhere_is_read_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/objects");
    for name in ["run", "placement", "list"] {
        let seed = std::fs::read(folder.join(name)).unwrap();
        for end in 0..seed.len() {
            fuzz_harness::objects(&seed[..end]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_laws_hold_on_invented_objects_that_were_damaged(
        kind in 0..kinds::all().len(),
        choices in prop::collection::vec(any::<u8>(), 0..600),
        at in any::<prop::sample::Index>(),
        flip in any::<u8>(),
        cut in prop::bool::weighted(0.2),
    ) {
        let kind = kinds::all()[kind].kind;
        let invented = invent::object_of(&invent::definition(kind), &choices);
        let mut bytes = serde_json::to_vec(&invented).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if cut {
            bytes.truncate(at);
        }
        fuzz_harness::reader_of(kind).unwrap()(&bytes);
        fuzz_harness::objects(&bytes);
    }

    #[test]
    fn every_kind_reads_or_refuses_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        check_as_every_kind(&bytes);
    }

    #[test]
    fn the_laws_hold_on_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        for (_, check) in TARGETS {
            check(&bytes);
        }
    }

    #[test]
    fn the_laws_hold_on_likely_text(text in "[-+]?[0-9.eE%]{0,8}(ns|us|ms|s|m|h|d|Ki|Gi|n|u|k|%)?") {
        for (_, check) in TARGETS {
            check(text.as_bytes());
        }
    }
}
