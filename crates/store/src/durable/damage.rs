//! Files that were damaged at random: none is served as if it were whole, none ends the
//! process, and each refusal says what to do.
//!
//! `FLAGSHIP_DAMAGES=1000` tries that many after a clean stop and as many after a kill.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::tests::{Scratch, put};
use super::*;
use crate::{Change, Encoded, Expect, ObjectKey, Scope, Write};

/// Everything that a file holds, by cluster, resource and name.
type Content = BTreeMap<String, Vec<u8>>;

/// A file as it lies on the disk, with its mark.
struct Image {
    file: Vec<u8>,
    mark: Vec<u8>,
}

impl Image {
    fn of(scratch: &Scratch) -> Self {
        let mark = std::fs::read(mark::place(&scratch.0)).unwrap();
        Self { file: std::fs::read(&scratch.0).unwrap(), mark }
    }

    fn put(&self, scratch: &Scratch) {
        std::fs::write(&scratch.0, &self.file).unwrap();
        std::fs::write(mark::place(&scratch.0), &self.mark).unwrap();
    }
}

const CLUSTERS: [&str; 2] = ["hub", "member1"];

fn content(durable: &Durable) -> Result<Content, DurableError> {
    let mut all = Content::new();
    for cluster in CLUSTERS {
        let store = durable.store(cluster, Env::simulated(1), Limits::default())?;
        for resource in ["pods", "secrets"] {
            for one in store.list(resource, Scope::All).items {
                let name = format!("{cluster} {resource} {}", one.key.name);
                all.insert(name, one.json.to_vec());
            }
        }
    }
    Ok(all)
}

fn delete(store: &Store, name: &str) -> u64 {
    let key = ObjectKey::new("default", name);
    let there = store.get("pods", &key).unwrap();
    let change = Change::Delete { head: there.head.clone(), json: Encoded::stored(&there.json) };
    let expect = Expect::At(there.revision);
    store.commit(Write { resource: &"pods".into(), key, expect, change }).unwrap().revision
}

/// A file with a history: many batches, replaced and deleted objects, large ones. As it was
/// earlier, after a kill, after a clean stop, and what is in it.
async fn written(scratch: &Scratch) -> (Image, Image, Image, Content) {
    let durable = Durable::open(&scratch.0).unwrap();
    let mut earlier = None;
    for round in 0..4_u64 {
        for cluster in CLUSTERS {
            let store = durable.store(cluster, Env::simulated(1), Limits::default()).unwrap();
            let mut last = 0;
            for number in 0..40 {
                last = put(&store, "pods", &format!("pod-{number}"), round);
                if number % 8 == 0 {
                    let long = format!("{}-{number}", "secret".repeat(300));
                    last = put(&store, "secrets", &long, round);
                }
            }
            if round == 2 {
                last = delete(&store, "pod-7");
            }
            store.settled(last).await.unwrap();
        }
        earlier.get_or_insert_with(|| Image::of(scratch));
    }
    let killed = Image::of(scratch);
    let truth = content(&durable).unwrap();
    durable.close().unwrap();
    drop(durable);
    (earlier.unwrap(), killed, Image::of(scratch), truth)
}

/// Damages an image in one of the ways that disks, file systems and people do.
fn damage(image: &mut Image, earlier: &Image, random: &mut Rng) -> String {
    let pages = image.file.len() / 4096;
    let page = random.usize(0..pages);
    let at = page * 4096;
    let bytes = &mut image.file;
    match random.usize(0..9) {
        0 => {
            let (at, bit) = (random.usize(0..bytes.len()), random.u32(0..8));
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of byte {at} flipped")
        }
        1 => {
            let (at, bit) = (random.usize(0..320), random.u32(0..8));
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of byte {at} of the header flipped")
        }
        2 => {
            let length = random.usize(1..64);
            let at = random.usize(0..bytes.len() - length);
            random.fill(&mut bytes[at..at + length]);
            format!("{length} bytes from {at} replaced")
        }
        3 => {
            bytes[at..at + 4096].fill(0);
            format!("page {page} zeroed")
        }
        4 => {
            let other = random.usize(0..pages) * 4096;
            bytes.copy_within(other..other + 4096, at);
            format!("page {page} replaced by the one at {other}")
        }
        5 => {
            let old = random.usize(0..earlier.file.len() / 4096) * 4096;
            bytes[old..old + 4096].copy_from_slice(&earlier.file[old..old + 4096]);
            format!("an older page at {old}")
        }
        6 => {
            let length = random.usize(0..bytes.len());
            bytes.truncate(length);
            format!("cut off at {length}")
        }
        7 => {
            bytes.clone_from(&earlier.file);
            "an older file".to_owned()
        }
        _ => {
            let sector = at + 512 * random.usize(0..8);
            random.fill(&mut bytes[sector..sector + 512]);
            format!("sector at {sector} replaced")
        }
    }
}

fn damages() -> u64 {
    let asked = std::env::var("FLAGSHIP_DAMAGES").ok();
    asked.map_or(24, |count| count.parse().expect("FLAGSHIP_DAMAGES is a number"))
}

#[tokio::test]
async fn no_damaged_file_is_served() {
    let scratch = Scratch::new("random");
    let (earlier, killed, stopped, truth) = written(&scratch).await;
    let mut refused = 0;
    for (how, whole) in [("a clean stop", &stopped), ("a kill", &killed)] {
        whole.put(&scratch);
        assert_eq!(content(&Durable::open(&scratch.0).unwrap()).unwrap(), truth, "{how}");
        for seed in 0..damages() {
            let mut image = Image { file: whole.file.clone(), mark: whole.mark.clone() };
            let what = damage(&mut image, &earlier, &mut Rng::with_seed(seed));
            let case = format!("seed {seed} after {how}: {what}");
            image.put(&scratch);
            match Durable::open(&scratch.0).and_then(|durable| content(&durable)) {
                // Nothing that counts was hit.
                Ok(read) => assert!(read == truth, "{case}: served as truth"),
                Err(refusal) => {
                    refused += 1;
                    let text = refusal.to_string();
                    assert!(text.contains("flagship restore --salvage"), "{case}: {text}");
                    let left = std::fs::read(&scratch.0).unwrap();
                    assert!(left == image.file, "{case}: a refused file was changed");
                }
            }
        }
    }
    assert!(refused >= damages() / 2, "only {refused} damages were found");
    println!("{} damages: {refused} refused, the others hit nothing that counts", 2 * damages());
}

// Each record in such a page is whole; only the page is not the one that belongs there.
#[tokio::test]
async fn no_page_of_before_is_served_and_no_letter_of_another() {
    let scratch = Scratch::new("pages");
    let (earlier, killed, stopped, truth) = written(&scratch).await;
    let needle = b"\"name\":\"pod-";
    let holds = |page: &[u8]| page.windows(needle.len()).any(|window| window == needle);
    let mut refused = 0;
    for (how, whole) in [("a clean stop", &stopped), ("a kill", &killed)] {
        let pages = earlier.file.chunks_exact(4096).zip(whole.file.chunks_exact(4096));
        let other = pages.enumerate().filter(|(_, (old, now))| old != now && holds(now));
        for (number, (old, now)) in other {
            let mut turned = now.to_vec();
            let at = turned.windows(needle.len()).position(|window| window == needle).unwrap();
            turned[at + needle.len()] ^= 1;
            for page in [old, &turned] {
                let mut image = Image { file: whole.file.clone(), mark: whole.mark.clone() };
                image.file[number * 4096..][..4096].copy_from_slice(page);
                image.put(&scratch);
                match Durable::open(&scratch.0).and_then(|durable| content(&durable)) {
                    Ok(read) => assert!(read == truth, "page {number} after {how} is served"),
                    Err(_) => refused += 1,
                }
            }
        }
    }
    assert!(refused > 4, "only {refused} pages were refused");
}

#[test]
fn a_panic_over_a_file_is_a_damage_of_it() {
    let told = check::guarded(|| -> Result<(), Unusable> { panic!("page 7 is no page") });
    let Err(Unusable::Damaged(told)) = told else { panic!("{told:?}") };
    assert_eq!(told, "its pages make no sense (page 7 is no page)");
}

#[tokio::test]
async fn what_can_be_read_of_a_damaged_file_is_saved() {
    let (scratch, saved) = (Scratch::new("salvage"), Scratch::new("saved"));
    let (_, killed, stopped, truth) = written(&scratch).await;
    let keys = Keys::default();
    for (whole, seeds) in [(&stopped, 0..8), (&killed, 8..16)] {
        for seed in seeds {
            let random = &mut Rng::with_seed(seed);
            let mut image = Image { file: whole.file.clone(), mark: whole.mark.clone() };
            // One page in the middle, or the header.
            let at =
                if seed % 4 == 0 { 0 } else { 4096 * random.usize(2..image.file.len() / 4096) };
            random.fill(&mut image.file[at..at + 512]);
            image.put(&scratch);
            if Durable::open(&scratch.0).is_ok() {
                continue;
            }
            drop(std::fs::remove_file(&saved.0));
            let told = salvage(&scratch.0, &saved.0, &keys).unwrap();
            let read = content(&Durable::open(&saved.0).unwrap()).unwrap();
            assert!(read.len() * 2 > truth.len(), "seed {seed}: {} of {}", read.len(), truth.len());
            assert!(told.saved >= read.len());
            for (name, text) in &truth {
                let name_alone = name.split(' ').next_back().unwrap();
                let is_told = told.lost.iter().chain(&told.doubtful).any(|one| {
                    one.contains(name_alone)
                        || one.starts_with("what the tables")
                        || one.starts_with("the last ")
                });
                assert!(
                    read.get(name) == Some(text) || is_told,
                    "seed {seed}: {name} went silently"
                );
            }
            // And it can be put in the place of the damaged one.
            let aside = restore(&saved.0, &scratch.0, &keys).unwrap().unwrap();
            assert!(std::fs::read(aside).unwrap() == image.file);
            assert_eq!(content(&Durable::open(&scratch.0).unwrap()).unwrap(), read);
        }
    }
}

#[tokio::test]
async fn a_running_server_finds_what_happened_to_its_file() {
    let scratch = Scratch::new("scrub");
    let durable = Durable::open(&scratch.0).unwrap();
    let store = durable.store("hub", Env::simulated(1), Limits::default()).unwrap();
    let mut last = 0;
    for number in 0..50 {
        last = put(&store, "pods", &format!("pod-{number}"), 1);
    }
    store.settled(last).await.unwrap();
    durable.scrub().unwrap();
    assert_eq!(store.trouble(), None);
    let mut bytes = std::fs::read(&scratch.0).unwrap();
    let needle = b"\"name\":\"pod-33\"";
    while let Some(at) = bytes.windows(needle.len()).position(|window| window == needle) {
        bytes[at + 8] = b'x';
    }
    let file = std::fs::OpenOptions::new().write(true).open(&scratch.0).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap();
    let told = durable.scrub().unwrap_err().to_string();
    assert!(told.contains("is damaged"), "{told}");
    // Whoever asks how the server is hears of it, too.
    assert_eq!(store.trouble(), Some(told));
}
