//! Update runs against the laws, and what hangs on runs: approvals, and evictions beside them.

use std::sync::Arc;

use jiff::SignedDuration;

use super::placements::{kubectl, resource, words};
use super::{Check, Finding, HubContents, count};
use flagship_rules::eviction::is_settled;
use flagship_rules::model::Cluster;
use flagship_rules::update_run::laws;
use flagship_rules::update_run::lifecycle::has_ended;
use flagship_rules::update_run::{Observed, OtherRun, Run};

const AREA: &str = "runs";

/// A hub answers an eviction at once.
const UNANSWERED: SignedDuration = SignedDuration::from_mins(1);

pub(super) fn checks(seen: &HubContents) -> Vec<Check> {
    let runs = count(seen.runs.len(), "run");
    vec![
        Check::new(AREA, "placements", format!("{runs} with a placement each"), placements(seen)),
        Check::new(AREA, "laws", "none is broken", broken(seen)),
        Check::new(
            AREA,
            "approvals",
            format!("{} with a run each", count(seen.approvals.len(), "request")),
            approvals(seen),
        ),
        Check::new(AREA, "evictions", "each has its answer", evictions(seen)),
    ]
}

fn placements(seen: &HubContents) -> Vec<Finding> {
    let open = seen.runs.iter().filter(|run| !run.deleting && !has_ended(&run.status));
    let lost = open.filter(|run| seen.placement(&run.placement_key()).is_none());
    let finding = |run: &Run| {
        let key = run.beside(&run.name);
        let what = format!("{key} rolls out {}, which is gone", run.placement_key());
        let resource = resource("stagedupdateruns", &key);
        Finding::of_absence(what, kubectl(&key, &format!("delete {resource} {}", key.name)))
    };
    lost.map(finding).collect()
}

/// The laws of one stored state, of every run.
fn broken(seen: &HubContents) -> Vec<Finding> {
    let mut findings = Vec::new();
    for run in seen.runs.iter().filter(|run| !run.deleting) {
        let key = run.beside(&run.name);
        let fix = match has_ended(&run.status) {
            true => format!("roll it out anew:  flagship run {}", words(&run.placement_key())),
            false => format!("stop it, look, go on:  flagship stop {}", words(&key)),
        };
        for broken in laws::state(&observed(seen, run)) {
            let what = format!("{key} breaks law {}: {}", broken.law, broken.what);
            findings.push(Finding::new(what, fix.clone()));
        }
    }
    findings
}

/// A run as its laws see it: what they do not look at is left out.
fn observed(seen: &HubContents, run: &Run) -> Observed {
    let placement = run.placement_key();
    let bindings = seen.bindings.iter().filter(|b| b.placement.as_ref() == Some(&placement));
    let others =
        seen.runs.iter().filter(|other| other.uid != run.uid && other.placement_key() == placement);
    Observed {
        placement: seen.placement(&placement).cloned(),
        bindings: bindings.map(|binding| binding.value.clone()).collect(),
        clusters: seen
            .members
            .keys()
            .map(|name| Arc::new(Cluster { name: name.clone(), ..Cluster::default() }))
            .collect(),
        rivals: others.map(OtherRun::of).collect(),
        ..Observed::of(run.clone(), seen.now)
    }
}

fn approvals(seen: &HubContents) -> Vec<Finding> {
    let mut findings = Vec::new();
    for request in &seen.approvals {
        let key = &request.key;
        let run = seen
            .runs
            .iter()
            .find(|run| run.namespace == key.namespace && run.name == request.value.run);
        let what = match (run, &request.value.run_uid) {
            (None, _) => format!("request {key} is for run {}, which is gone", request.value.run),
            (Some(run), Some(uid)) if *uid != run.uid => {
                format!("request {key} is for an earlier run called {}", run.name)
            }
            _ => continue,
        };
        let resource = match &key.namespace {
            None => resource("approvalrequests", key),
            Some(_) => format!("approvalrequests.{}", flagship_api::keys::group::PLACEMENT),
        };
        let fix = kubectl(key, &format!("delete {resource} {}", key.name));
        findings.push(Finding::of_absence(what, fix));
    }
    findings
}

fn evictions(seen: &HubContents) -> Vec<Finding> {
    let open = seen.evictions.iter().filter(|eviction| {
        !is_settled(&eviction.value) && seen.now.duration_since(eviction.created) > UNANSWERED
    });
    let fix = "flagship hub --enable-eviction-apis=true: no hub that serves evictions runs";
    let finding = |name: &str| Finding::new(format!("eviction {name} has no answer"), fix);
    open.map(|eviction| finding(&eviction.name)).collect()
}
