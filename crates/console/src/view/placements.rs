//! Placements: what is placed, which versions are where, and every run there was.

use std::collections::BTreeMap;

use flagship_api::names::ObjectKey;
use flagship_rules::update_run::lifecycle::{ended_at, is_finished, phase};
use serde_json::{Value, json};

use super::fleet::version;
use super::{Model, ViewInputs, millis};
use crate::commands::Act;
use crate::rights::Right;

/// Runs of a placement that are listed.
const MOST_RUNS: usize = 50;

/// All placements, each with its runs, newest first.
pub fn model(seen: &ViewInputs<'_>) -> Model {
    let mut versions: BTreeMap<ObjectKey, BTreeMap<i64, usize>> = BTreeMap::new();
    for (key, bound) in seen.mirror.bindings.all() {
        let placement = ObjectKey::new(key.namespace.as_deref(), &bound.placement);
        if let Some(version) = version(&bound) {
            *versions.entry(placement).or_default().entry(version).or_default() += 1;
        }
    }
    let mut model = Model::default();
    for (key, placement) in seen.mirror.placements.all() {
        let runs = seen.mirror.runs_of(&key);
        let last = runs.last().map(|(_, run)| run.facts.spec.staged_rollout_strategy_name.clone());
        let shown: Vec<Value> = runs
            .iter()
            .rev()
            .take(MOST_RUNS)
            .map(|(name, run)| {
                let status = &run.facts.status;
                let cells = || status.stages_status.iter().flat_map(|stage| &stage.clusters);
                json!({
                    "name": name,
                    "snapshot": status.resource_snapshot_index_used,
                    "phase": phase(&run.facts.spec, status),
                    "done": cells().filter(|cluster| is_finished(cluster)).count(),
                    "all": cells().count(),
                    "created": run.facts.created.map(millis),
                    "ended": ended_at(status).map(millis),
                })
            })
            .collect();
        let spec = &placement.spec;
        let rollout = spec.strategy.as_ref().and_then(|strategy| strategy.r#type);
        let objects = placement.status.selected_resources.len();
        let strategies = seen.mirror.strategies_beside(&key);
        let usual = last.filter(|last| strategies.contains(last));
        let usual = usual.or_else(|| strategies.first().cloned());
        let act = usual.as_ref().map(|strategy| Act::Run {
            namespace: key.namespace.clone(),
            placement: key.name.clone(),
            strategy: strategy.clone(),
            plan: String::new(),
        });
        let value = json!({
            "namespace": key.namespace,
            "name": key.name,
            "rollout": rollout,
            "objects": objects,
            "versions": versions.get(&key),
            "runs": shown,
            "runsInAll": runs.len(),
            "strategies": strategies,
            "strategy": usual,
            "command": act.map(|act| act.command()),
            "missing": seen.rights.missing(&Right::create_run(key.namespace.as_deref())),
        });
        model.push(key.to_string(), &value);
    }
    model
}
