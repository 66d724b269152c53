//! What a campaign has met: how often each fault was injected, and which transitions happened
//! within a few seconds of which fault.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::story::FAULTS;
use super::transitions::TRANSITIONS;

/// Faults that are no rules: machines, members and people.
pub const HAPPENINGS: [&str; 11] = [
    "crash",
    "clock jump",
    "two hubs",
    "skewed clock",
    "flapping member",
    "old generation reported",
    "silent member",
    "failing member",
    "regression",
    "malformed object",
    "leave",
];

/// Pairs that were never met and are told one by one.
const TOLD: usize = 40;

/// Counts of a story or of a whole campaign.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Coverage {
    /// How often each fault was injected.
    pub injected: BTreeMap<String, u64>,
    /// How often each transition happened.
    pub transitions: BTreeMap<String, u64>,
    /// How often a transition happened soon after a fault, by [`pair`].
    pub pairs: BTreeMap<String, u64>,
    /// What people did.
    pub steps: BTreeMap<String, u64>,
}

impl Coverage {
    /// Adds what another story has met.
    pub fn add(&mut self, other: &Self) {
        fn sum(into: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>) {
            for (key, count) in from {
                *into.entry(key.clone()).or_default() += count;
            }
        }
        sum(&mut self.injected, &other.injected);
        sum(&mut self.transitions, &other.transitions);
        sum(&mut self.pairs, &other.pairs);
        sum(&mut self.steps, &other.steps);
    }

    /// All faults by name.
    pub fn faults() -> impl Iterator<Item = &'static str> {
        FAULTS.into_iter().chain(HAPPENINGS)
    }

    /// The table of pairs: a row for each transition, a column for each fault, and what was
    /// never met.
    pub fn table(&self) -> String {
        let mut text = String::from("faults:\n");
        for (at, fault) in Self::faults().enumerate() {
            let count = self.injected.get(fault).copied().unwrap_or(0);
            text += &format!("  {:>2}  {fault:<26} {count:>10}\n", letter(at));
        }
        text += &format!("\n{:<22}{:>9}", "transition", "in all");
        for (at, _) in Self::faults().enumerate() {
            text += &format!("{:>6}", letter(at));
        }
        text.push('\n');
        let mut never = Vec::new();
        for transition in TRANSITIONS {
            let all = self.transitions.get(transition).copied().unwrap_or(0);
            text += &format!("{transition:<22}{:>9}", short(all));
            for fault in Self::faults() {
                let count = self.pairs.get(&pair(transition, fault)).copied().unwrap_or(0);
                text += &format!("{:>6}", short(count));
                if count == 0 {
                    never.push(pair(transition, fault));
                }
            }
            text.push('\n');
        }
        let cells = TRANSITIONS.len() * Self::faults().count();
        text += &format!("\n{} of {cells} pairs met", cells - never.len());
        if never.is_empty() {
            text.push('\n');
        } else {
            let more = never.len().saturating_sub(TOLD);
            never.truncate(TOLD);
            text += &format!(", never met:\n  {}\n", never.join("\n  "));
            if more > 0 {
                text += &format!("  and {more} more\n");
            }
        }
        text
    }
}

/// What a transition soon after a fault is called.
pub fn pair(transition: &str, fault: &str) -> String {
    format!("{transition} x {fault}")
}

fn letter(at: usize) -> String {
    let letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    letters.chars().nth(at).map_or_else(|| at.to_string(), |letter| letter.to_string())
}

/// A count in at most five places.
fn short(count: u64) -> String {
    match count {
        0 => "-".to_owned(),
        1..=99_999 => count.to_string(),
        100_000..=999_999 => format!("{}k", count / 1_000),
        _ => format!("{}M", count / 1_000_000),
    }
}
