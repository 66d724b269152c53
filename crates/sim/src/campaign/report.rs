//! What a campaign has to say: how many stories, how fast, what was met, what was broken.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::coverage::Coverage;
use super::judge::Violation;
use super::tell::Told;

/// Sums over all stories of a campaign.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Which seeds were told.
    pub told: BTreeSet<u64>,
    /// How long it took until it was last interrupted.
    pub spent_before: Duration,
    /// Calls to API servers.
    pub calls: u64,
    /// Writes that were accepted.
    pub writes: u64,
    /// How often laws were asked.
    pub asked: u64,
    /// Virtual seconds.
    pub seconds: u64,
    /// What was met.
    pub coverage: Coverage,
    /// Seeds that broke a law, and what was seen.
    pub broken: Vec<(u64, Violation)>,
    /// Seeds that went another way when they were told again.
    pub parted: Vec<u64>,
}

impl Report {
    /// Adds a story.
    pub fn add(&mut self, seed: u64, told: &Told) {
        self.told.insert(seed);
        self.calls += told.calls;
        self.writes += told.writes;
        self.asked += told.asked;
        self.seconds += told.seconds;
        self.coverage.add(&told.coverage);
        self.broken.extend(told.violation.clone().map(|broken| (seed, broken)));
    }

    /// Faults injected in all.
    pub fn injected(&self) -> u64 {
        self.coverage.injected.values().sum()
    }

    /// A story that could not be told to its end.
    pub fn panicked(&mut self, seed: u64, text: String) {
        self.told.insert(seed);
        let broken = Violation { law: "panic".to_owned(), what: text, ..Violation::default() };
        self.broken.push((seed, broken));
    }

    fn rate(&self, spent: Duration) -> f64 {
        self.told.len() as f64 / (self.spent_before + spent).as_secs_f64().max(0.001)
    }

    /// One line, for a terminal that is watched.
    pub fn progress(&self, of: u64, spent: Duration) -> String {
        let part = self.told.len() as f64 / of.max(1) as f64;
        let filled = (part * 30.0) as usize;
        let rate = self.rate(spent);
        format!(
            "[{}{}] {}/{of} seeds, {rate:.1} a second, {} faults, {} broken",
            "#".repeat(filled.min(30)),
            ".".repeat(30 - filled.min(30)),
            self.told.len(),
            self.injected(),
            self.broken.len(),
        )
    }

    /// The whole report, in words.
    pub fn text(&self, spent: Duration) -> String {
        let rate = self.rate(spent);
        let mut text = format!(
            "{} seeds in {:.0} s ({rate:.1} a second), {:.1} virtual hours\n\
             {} calls, {} writes accepted, laws asked {} times, {} faults injected\n",
            self.told.len(),
            (self.spent_before + spent).as_secs_f64(),
            self.seconds as f64 / 3600.0,
            self.calls,
            self.writes,
            self.asked,
            self.injected(),
        );
        text += &format!("people: {:?}\n\n", self.coverage.steps);
        text += &self.coverage.table();
        text += &match self.broken.len() {
            0 => "\nno law was broken\n".to_owned(),
            number => format!("\n{number} seeds broke a law\n"),
        };
        for (seed, broken) in &self.broken {
            text += &format!("  seed {seed}: {} {} ({})\n", broken.law, broken.what, broken.at);
        }
        for seed in &self.parted {
            text += &format!("  seed {seed} went another way when it was told again\n");
        }
        text
    }
}

/// A broken law with everything one needs to understand it.
pub fn explained(broken: &Violation, words: &[String]) -> String {
    let mut text =
        format!("law {}: {}\nat {}, by {}\n", broken.law, broken.what, broken.at, broken.write);
    if !broken.after.is_empty() {
        text += &format!("\nbefore:\n{}\n\nafter:\n{}\n", broken.before, broken.after);
    }
    text + "\nwhat happened:\n" + &words.join("\n") + "\n"
}
