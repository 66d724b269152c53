//! Is the fleet in order? Holds a snapshot of the hub against what must be so.
//!
//! Every check ends in findings, and every finding names what to do about it. Objects are
//! read one list after the other while controllers work on, so a finding of one look may
//! be a moment between two writes: [`agreed`] keeps only what two looks have seen.
//!
//! Why one run, placement or cluster is not done is a question for `why`; the laws
//! themselves are beside the rules they bind.

mod hub;
mod hub_contents;
mod leftovers;
mod members;
mod placements;
mod runs;

#[cfg(test)]
mod tests;

use serde::Serialize;

pub use hub_contents::{
    ApprovalSeen, BindingSeen, Deleting, EvictionSeen, HubContents, LeaseSeen, MemberSeen, Owned,
    Reached, Right, Unlisted, WorkSeen,
};

/// Everything that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// One for each thing that must be so, in the order they are told.
    pub checks: Vec<Check>,
}

/// One thing that must be so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What it is about: `hub`, `members`, `placements`, `runs`.
    pub area: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What was found in order; or why nobody could look.
    pub says: String,
    /// Whether nobody could look.
    pub skipped: bool,
    /// What is not in order.
    pub findings: Vec<Finding>,
}

/// Something that is not in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was seen.
    pub what: String,
    /// What to do about it.
    pub fix: String,
    /// Whether it is one only because something else was not found.
    #[serde(skip)]
    pub by_absence: bool,
}

impl Report {
    /// Whether there is nothing to fix.
    pub fn is_healthy(&self) -> bool {
        self.findings() == 0
    }

    /// How many things are not in order.
    pub fn findings(&self) -> usize {
        self.checks.iter().map(|check| check.findings.len()).sum()
    }
}

impl Check {
    /// In order, unless findings say otherwise.
    pub fn new(
        area: &'static str,
        name: &'static str,
        says: impl Into<String>,
        findings: Vec<Finding>,
    ) -> Self {
        Self { area, name, says: says.into(), skipped: false, findings }
    }

    /// Nobody could look.
    pub fn skipped(area: &'static str, name: &'static str, why: impl Into<String>) -> Self {
        Self { area, name, says: why.into(), skipped: true, findings: Vec::new() }
    }
}

impl Finding {
    /// What was seen, and what to do about it.
    pub fn new(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what: what.into(), fix: fix.into(), by_absence: false }
    }

    /// The same, for what is wrong only because something else was not found: a left-over.
    pub fn of_absence(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { by_absence: true, ..Self::new(what, fix) }
    }
}

/// Looks at everything.
pub fn examine(seen: &HubContents) -> Report {
    let mut checks = hub::checks(seen);
    checks.extend(members::checks(seen));
    checks.extend(placements::checks(seen));
    checks.extend(runs::checks(seen));
    checks.push(leftovers::check(seen));
    if let Some(gap) = seen.gap() {
        checks.iter_mut().for_each(|check| withhold(check, &gap));
    }
    Report { checks }
}

/// Takes back what the check found only because it missed something: what could not be read
/// is not absent.
fn withhold(check: &mut Check, gap: &str) {
    let before = check.findings.len();
    check.findings.retain(|finding| !finding.by_absence);
    if check.findings.is_empty() && before > 0 {
        let why = format!("nobody can tell what is missing or left over: {gap}");
        *check = Check::skipped(check.area, check.name, why);
    }
}

/// What both looks agree on: a finding of the second that the first has seen too.
pub fn agreed(first: &Report, mut second: Report) -> Report {
    for check in &mut second.checks {
        let before =
            first.checks.iter().find(|was| (was.area, was.name) == (check.area, check.name));
        let before = before.map_or(&[][..], |was| &was.findings);
        check.findings.retain(|finding| before.contains(finding));
    }
    second
}

/// `3 placements`, `1 placement`, `no placements`.
fn count(number: usize, what: &str) -> String {
    match number {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        many => format!("{many} {what}s"),
    }
}
