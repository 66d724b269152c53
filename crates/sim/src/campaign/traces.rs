//! Traces of short stories, a line for each, to hold one telling against another: of the same
//! program in another process, or of a program of another day.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::story::{Shape, Story, draw};
use super::tell::Told;

/// After how many calls a trace is marked.
pub const CALLS: usize = 32;

/// Short stories, with everything in them that could part: two members, faults, people.
pub fn short(seed: u64) -> Story {
    draw(seed, Shape::SHORT)
}

/// A trace in one line: its hash, its calls, and marks on the way to the hash. Only for a story
/// that was told in words.
pub fn line(seed: u64, told: &Told) -> String {
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

/// After how many calls two lines of one seed part at the earliest.
pub fn same_calls(one: &str, other: &str) -> usize {
    let marks = |line: &str| line.split(' ').skip(3).map(str::to_owned).collect::<Vec<_>>();
    let (one, other) = (marks(one), marks(other));
    one.iter().zip(&other).take_while(|(one, other)| one == other).count() * CALLS
}

/// The lines of the first seeds, told side by side by tellers on two threads: which one tells a
/// seed, and after which others, is chance.
pub fn lines<T: Fn(&Story) -> Told>(count: u64, teller: impl Fn() -> T + Sync) -> Vec<String> {
    let (next, found) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let tell = teller();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= count {
                        return;
                    }
                    let line = line(seed, &tell(&short(seed)));
                    found.lock().expect("nobody panics with it").push((seed, line));
                }
            });
        }
    });
    let mut found = found.into_inner().expect("nobody panics with it");
    found.sort();
    found.into_iter().map(|(_, line)| line).collect()
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

fn mix(hash: &mut u64, bytes: &[u8]) {
    for byte in bytes {
        *hash = (*hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
}
