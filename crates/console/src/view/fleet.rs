//! Clusters by placements: which version is where, who lags behind, who was changed by hand.

use std::collections::BTreeMap;

use flagship_api::condition::{ConditionStatus, Conditions};
use flagship_api::condition_type::{binding, member_cluster};
use flagship_api::names::{ObjectKey, SnapshotName};
use flagship_explain::clusters::own_labels;
use flagship_explain::why::{BindingFacts, silent_since};
use serde::Serialize;
use serde_json::json;

use super::{Model, ViewInputs, millis};

/// One cluster.
#[derive(Serialize)]
struct Line {
    labels: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    taints: Vec<String>,
    #[serde(skip_serializing_if = "is_true")]
    joined: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    silent: Option<i64>,
    #[serde(skip_serializing_if = "is_false")]
    leaving: bool,
    /// By column: the version and how it stands; nothing where the placement is not.
    has: Vec<Option<(String, u8)>>,
}

fn is_true(value: &bool) -> bool {
    *value
}

fn is_false(value: &bool) -> bool {
    !*value
}

/// How a version stands on a cluster.
const CURRENT: u8 = 0;
const BEHIND: u8 = 1;
const UPDATING: u8 = 2;
const FAILED: u8 = 3;
const DRIFTED: u8 = 4;
const SCHEDULED: u8 = 5;

/// A version, if it has a number, and how it stands.
type Stand = (Option<i64>, u8);

/// The matrix: a row for each cluster, a column for each placement.
pub fn model(seen: &ViewInputs<'_>) -> Model {
    let placements: Vec<ObjectKey> =
        seen.mirror.placements.all().into_iter().map(|(key, _)| (*key).clone()).collect();
    let column: BTreeMap<&ObjectKey, usize> =
        placements.iter().enumerate().map(|(at, key)| (key, at)).collect();
    let mut newest: Vec<Option<i64>> = vec![None; placements.len()];
    let mut there: BTreeMap<String, Vec<Option<Stand>>> = BTreeMap::new();
    for (key, bound) in seen.mirror.bindings.all() {
        let placement = ObjectKey::new(key.namespace.as_deref(), &bound.placement);
        let Some(&at) = column.get(&placement) else { continue };
        let version = version(&bound);
        newest[at] = newest[at].max(version);
        let row = there.entry(bound.spec.target_cluster.clone());
        row.or_insert_with(|| vec![None; placements.len()])[at] = Some((version, stands(&bound)));
    }
    let mut model = Model::default();
    let columns: Vec<_> = placements
        .iter()
        .zip(&newest)
        .map(
            |(key, newest)| json!({"namespace": key.namespace, "name": key.name, "newest": newest}),
        )
        .collect();
    model.set("placements", &columns);
    for (key, member) in seen.mirror.members.all() {
        let joined = member.status.conditions.of_type(member_cluster::JOINED);
        let has = there.remove(&key.name).unwrap_or_else(|| vec![None; placements.len()]);
        let has = has.into_iter().zip(&newest).map(|(cell, newest)| {
            cell.map(|(version, stands)| {
                let lags = stands == CURRENT && version < *newest;
                let told = version.map_or_else(String::new, |version| version.to_string());
                (told, if lags { BEHIND } else { stands })
            })
        });
        let taints = member.spec.taints.iter();
        let line = Line {
            labels: own_labels(&member.labels),
            taints: taints.map(|taint| format!("{}={}", taint.key, taint.value)).collect(),
            joined: joined
                .is_some_and(|joined| ConditionStatus::of(joined) == ConditionStatus::True),
            silent: silent_since(&member, seen.now).map(millis),
            leaving: member.leaving,
            has: has.collect(),
        };
        model.push(key.name.clone(), &line);
    }
    model
}

/// The version a binding carries.
pub fn version(bound: &BindingFacts) -> Option<i64> {
    match SnapshotName::read(&bound.placement, &bound.spec.resource_snapshot_name)? {
        SnapshotName::Master { index } => Some(index.get()),
        _ => None,
    }
}

/// How the placement stands on the cluster.
fn stands(bound: &BindingFacts) -> u8 {
    let says = |kind: &str| {
        bound.status.conditions.current(kind, bound.generation).map(ConditionStatus::of)
    };
    let failing = [binding::OVERRIDDEN, binding::WORK_SYNCHRONIZED, binding::APPLIED];
    if bound.spec.resource_snapshot_name.is_empty() {
        SCHEDULED
    } else if failing.iter().any(|kind| says(kind) == Some(ConditionStatus::False))
        || !bound.status.failed_placements.is_empty()
    {
        FAILED
    } else if !bound.status.drifted_placements.is_empty()
        || !bound.status.diffed_placements.is_empty()
    {
        DRIFTED
    } else if says(binding::AVAILABLE) == Some(ConditionStatus::True) {
        CURRENT
    } else {
        UPDATING
    }
}
