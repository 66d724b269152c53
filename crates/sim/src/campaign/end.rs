//! The laws of a fleet at rest: everybody has approved, all members work, nothing goes wrong.

use std::collections::BTreeSet;
use std::sync::Arc;

use flagship_api::binding::BindingState;
use flagship_fleet::{EmbeddedFleet, HUB};
use flagship_rules::update_run::laws;
use flagship_runtime::metrics::Metrics;
use flagship_store::{ObjectKey, Scope, Store};
use serde_json::Value;

use super::judge::{Inner, Judge, PLACEMENT};
use super::people::{HIDDEN, HIDDEN_STORED};
use super::story::{Story, What};
use super::tell::may_stay;
use super::transitions::is_signalled;

/// Asks the laws about a fleet at rest.
pub fn at_rest(story: &Story, judge: &Arc<Judge>, fleet: &EmbeddedFleet, metrics: &Metrics) {
    let store = fleet.handle(HUB).store().clone();
    let mut broken = no_panic(metrics);
    {
        let mut inner = judge.inner();
        inner.asked += 1;
        broken.extend(runs_rest(story, &inner, fleet));
        if story.hubs.len() == 1 {
            broken.extend(nothing_left(&inner));
        }
        broken.extend(converged(story, &inner));
    }
    broken.extend(no_leak(&store));
    broken.extend(malformed_are_told(story, &store));
    if let Some((law, what)) = broken.into_iter().next() {
        judge.broken(law, what);
    }
}

type Found = Vec<(&'static str, String)>;

/// L6: a pass that panics is a bug, and in a debug build a broken law.
fn no_panic(metrics: &Metrics) -> Found {
    let text = metrics.render();
    let lines = text.lines().filter(|line| line.starts_with("flagship_reconcile_panics_total{"));
    let some = lines.filter(|line| !line.ends_with(" 0"));
    some.map(|line| ("L6", format!("passes panicked: {line}"))).collect()
}

/// L1 to L4 and S16, of each run.
fn runs_rest(story: &Story, inner: &Inner, fleet: &EmbeddedFleet) -> Found {
    let mut found = Vec::new();
    let offset = inner.offsets.values().next().copied().unwrap_or_default();
    let now = fleet.env.now().checked_add(offset).unwrap_or_default();
    for run in inner.books.runs.values() {
        if run.deleting {
            found.push(("L4", format!("run {} is deleted and still there", run.name)));
            continue;
        }
        if !may_stay(run) {
            let text = laws::ending(&run.status);
            found.push(("L1", format!("run {} does not end:\n{text}", run.name)));
        }
        // Whose clock a wait is held against is not known where clocks differ.
        if story.hubs.iter().all(|offset| *offset == story.hubs[0]) {
            let told = laws::rest(&inner.books.seen(run, now));
            found
                .extend(told.into_iter().map(|b| (b.law, format!("run {}: {}", run.name, b.what))));
        }
    }
    found
}

/// L4: requests that a run made go with it.
fn nothing_left(inner: &Inner) -> Found {
    let living: BTreeSet<&str> = inner.books.runs.values().map(|run| run.uid.as_str()).collect();
    let left = inner.books.approvals.values().filter(|request| {
        request.run_uid.as_ref().is_some_and(|uid| !living.contains(uid.as_str()))
    });
    left.map(|request| ("L4", format!("{} outlives its run", request.name))).collect()
}

/// L5: every cluster that is chosen has what its binding says, and no other has anything.
fn converged(story: &Story, inner: &Inner) -> Found {
    let mut found = Vec::new();
    let books = &inner.books;
    for binding in books.bindings.values() {
        if !(binding.is(BindingState::Bound) && is_signalled(binding)) || binding.deleting {
            continue;
        }
        let (space, cluster) = (binding.member_namespace(), binding.cluster());
        let there = books.clusters.contains_key(&ObjectKey::new("", cluster));
        let index = binding.spec.resource_snapshot_name.split('-').nth(1).unwrap_or_default();
        let ours = books.works.iter().filter(|(key, work)| {
            *key.namespace == *space && work.owner().is_some_and(|owner| owner == binding.key())
        });
        let stamps: Vec<Option<String>> = ours.map(|(_, work)| work.stamp.index.clone()).collect();
        if there && (stamps.is_empty() || stamps.iter().any(|at| at.as_deref() != Some(index))) {
            let what = format!("{cluster} is to have {index} and has Works of {stamps:?}");
            found.push(("L5", what));
        }
    }
    // Works of another scope's placement have bindings that are not in these books.
    for (key, work) in books.works.iter().filter(|(key, _)| key.name.contains(PLACEMENT)) {
        let owner = work.owner().map(|owner| super::books::stored(&owner));
        if owner.is_none_or(|owner| !books.bindings.contains_key(&owner)) {
            found.push(("L5", format!("{}/{} belongs to nobody", key.namespace, key.name)));
        }
    }
    // A hub whose clock is ahead takes a member for silent.
    let in_time = story.hubs.iter().all(|offset| *offset == 0) && inner.skew.is_zero();
    let placed = books.placements.values().find(|placement| placement.name == PLACEMENT);
    if in_time && placed.is_some_and(|placement| !placement.deleting) {
        for cluster in books.clusters.values().filter(|cluster| !cluster.leaving) {
            let picked = |binding: &flagship_rules::model::Binding| {
                binding.cluster() == cluster.name
                    && binding.placement == PLACEMENT
                    && !binding.is_unscheduled()
            };
            let joined = cluster.agent.as_ref().is_some_and(|agent| agent.joined);
            if joined && !books.bindings.values().any(|binding| picked(binding)) {
                found.push(("L5", format!("{} is not chosen", cluster.name)));
            }
        }
    }
    found
}

/// S15: what a Secret holds stands in the Secret, in the snapshots and Works that bring it to
/// members, and nowhere else.
fn no_leak(store: &Store) -> Found {
    let mut found = Vec::new();
    let carries = ["secrets", "resourcesnapshots", "clusterresourcesnapshots", "works"];
    for resource in store.resources() {
        let plural = resource.split('.').next().unwrap_or_default();
        for stored in store.list(&resource, Scope::All).items {
            let holds = |text: &str| text.contains(HIDDEN) || text.contains(HIDDEN_STORED);
            let leaks = match carries.contains(&plural) {
                false => std::str::from_utf8(&stored.json).is_ok_and(holds),
                true => {
                    let object: Value = serde_json::from_slice(&stored.json).unwrap_or_default();
                    holds(&object["status"].to_string())
                }
            };
            if leaks {
                found.push(("S15", format!("{plural} {} shows a Secret", stored.key.name)));
            }
        }
    }
    found
}

/// L6: an object that nobody can read is told about.
fn malformed_are_told(story: &Story, store: &Store) -> Found {
    let names = story.steps.iter().filter_map(|step| match &step.what {
        What::Malformed(name) => Some(name),
        _ => None,
    });
    let events = store.list("events", Scope::All).items;
    let events: Vec<Value> =
        events.iter().filter_map(|stored| serde_json::from_slice(&stored.json).ok()).collect();
    let untold = names.filter(|name| {
        !events.iter().any(|event| event["involvedObject"]["name"] == name.as_str())
    });
    untold.map(|name| ("L6", format!("nobody was told that {name} cannot be read"))).collect()
}
