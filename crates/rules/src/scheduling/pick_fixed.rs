//! PickFixed: the clusters the policy names, if they exist and are eligible.
//!
//! Affinity, taints and spread do not apply. A named cluster that has the placement
//! counts as chosen even while it is unwell: the decision follows the binding.

use std::collections::BTreeSet;

use super::classify::Classes;
use super::cross_reference::Changes;
use super::decision::{self, Decision, Verdict};
use super::eligibility::ineligible;
use super::observed::Observed;
use super::{Action, Failure, Outcome, Remark};

/// One pass.
pub fn plan(seen: &Observed, classes: &Classes<'_>) -> Result<Outcome, Failure> {
    let names = seen.snapshot.policy.as_ref().map_or(&[][..], |p| &p.cluster_names);
    if names.is_empty() {
        // No status: a placement without targets stays pending. What an earlier list
        // had placed is let go.
        let actions = classes.obsolete.iter().copied().map(Action::release).collect();
        return Ok(Outcome { report: None, actions, again: false, remarks: Vec::new() });
    }
    let present: BTreeSet<&str> = classes.present_bindings().map(|b| b.cluster()).collect();
    let mut sorted = Sorted::default();
    let mut met = BTreeSet::new();
    for name in names.iter().map(String::as_str).filter(|name| met.insert(*name)) {
        match seen.cluster(name) {
            None => sorted.unknown.push(Decision::unknown(name)),
            Some(cluster) => match ineligible(cluster, seen.now) {
                None => sorted.valid.push(name),
                Some(why) if present.contains(name) => {
                    sorted.remarks.push(Remark::Unwell { cluster: name.to_owned(), why });
                    sorted.valid.push(name);
                }
                Some(why) => sorted.invalid.push(Decision::ineligible(name, &why)),
            },
        }
    }
    let verdict = Verdict {
        fulfilled: sorted.invalid.is_empty() && sorted.unknown.is_empty(),
        found: sorted.valid.len(),
    };
    let gaining: Vec<_> =
        sorted.valid.iter().copied().filter(|n| !present.contains(n)).map(|n| (n, None)).collect();
    let changes = Changes::between(&gaining, classes)?;
    let chosen = sorted.valid.iter().map(|name| Decision::picked(name, None));
    let mut decisions: Vec<Decision> = chosen.chain(sorted.invalid).chain(sorted.unknown).collect();
    decisions.truncate(decision::MOST_DECISIONS);
    Ok(Outcome {
        report: decision::report(&seen.snapshot, decisions, verdict),
        actions: changes.actions(true).collect(),
        again: false,
        remarks: sorted.remarks,
    })
}

#[derive(Default)]
struct Sorted<'a> {
    valid: Vec<&'a str>,
    invalid: Vec<Decision>,
    unknown: Vec<Decision>,
    remarks: Vec<Remark>,
}
