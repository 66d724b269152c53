//! Placements and bindings in a word each, and plans in a line for each write.
//!
//! A binding is told as `cluster State snapshot flags...`; its name is that of the cluster
//! unless `as=name` says otherwise.

use std::sync::Arc;

use flagship_api::binding::ResourceBindingSpec;
use flagship_api::condition::{Condition, ConditionStatus, Generation, draft};
use flagship_api::condition_type::binding as kind;
use flagship_api::defaults::effective_apply_strategy;
use flagship_api::placement::PlacementSpec;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::model::{Binding, ResourceSnapshot};
use crate::placement::Placement;
use crate::rollout::{Action, Observed, Plan, Waiting, plan};

pub fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// A cluster-scoped placement `web` whose latest resources are `web-1-snapshot`.
pub fn fixture(spec: Value, bindings: &[&str]) -> Observed {
    let mut whole = json!({"resourceSelectors": []});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let spec: PlacementSpec = serde_json::from_value(whole).unwrap();
    Observed {
        now: now(),
        placement: Placement::of_spec("web", spec),
        bindings: bindings.iter().map(|told| binding(told)).collect(),
        resource_snapshots: vec![Arc::new(snapshot(0, false)), Arc::new(snapshot(1, true))],
        clusters: Default::default(),
        cluster_overrides: vec![],
        overrides: vec![],
    }
}

/// A snapshot, to be changed.
pub fn snapshot_at(seen: &mut Observed, at: usize) -> &mut ResourceSnapshot {
    Arc::make_mut(&mut seen.resource_snapshots[at])
}

pub fn snapshot(index: usize, latest: bool) -> ResourceSnapshot {
    ResourceSnapshot {
        name: format!("web-{index}-snapshot"),
        index: Some(index.to_string()),
        latest,
        hash: Some("hash".into()),
        count: Some("1".into()),
        ..ResourceSnapshot::default()
    }
}

/// PickN, with the given limits.
pub fn pick_n(number: u32, unavailable: Value, surge: Value) -> Value {
    json!({
        "policy": {"placementType": "PickN", "numberOfClusters": number},
        "strategy": {"type": "RollingUpdate", "rollingUpdate":
            {"maxUnavailable": unavailable, "maxSurge": surge}},
    })
}

pub fn binding(told: &str) -> Binding {
    let words: Vec<&str> = told.split(' ').collect();
    let [cluster, state, snapshot, flags @ ..] = words.as_slice() else { panic!("{told}") };
    let name = flags.iter().find_map(|flag| flag.strip_prefix("as=")).unwrap_or(cluster);
    let mut binding = Binding {
        name: (*name).to_owned(),
        generation: 3,
        spec: ResourceBindingSpec {
            state: serde_json::from_value(json!(state)).unwrap(),
            resource_snapshot_name: match *snapshot {
                "-" => String::new(),
                index => format!("web-{index}-snapshot"),
            },
            scheduling_policy_snapshot_name: "web-0".into(),
            target_cluster: (*cluster).to_owned(),
            apply_strategy: Some(effective_apply_strategy(None)),
            ..ResourceBindingSpec::default()
        },
        ..Binding::default()
    };
    if *state == "Bound" {
        binding.says(kind::ROLLOUT_STARTED, "True RolloutStarted", 3);
    }
    for flag in flags {
        binding.flag(flag);
    }
    binding
}

impl Binding {
    fn flag(&mut self, flag: &str) {
        match flag.split_once('=') {
            None => match flag {
                "deleting" => self.deleting = true,
                "ready" => self.says(kind::AVAILABLE, "True AllWorkAreAvailable", 3),
                "ready-before" => self.says(kind::AVAILABLE, "True AllWorkAreAvailable", 2),
                "unavailable" => self.unavailable("Work object web-work is not yet available"),
                "checking" => {
                    self.unavailable(
                        "Work object web-work has not yet completed availability check",
                    );
                }
                "broken" => {
                    self.says(kind::APPLIED, "False NotAllWorkHaveBeenApplied", 3);
                    self.status.conditions.last_mut().unwrap().message =
                        "Work object web-work has failed to apply".into();
                }
                "applying" => self.says(kind::APPLIED, "False ApplyInProgress", 3),
                "not-overridden" => self.says(kind::OVERRIDDEN, "False OverriddenFailed", 3),
                "not-synced" => self.says(kind::WORK_SYNCHRONIZED, "False SyncWorkFailed", 3),
                "pending" => self.says(kind::APPLIED, "False ApplyPending", 3),
                "diff" => self.says(kind::DIFF_REPORTED, "True AllWorkHaveDiffReported", 3),
                "no-diff" => self.says(kind::DIFF_REPORTED, "False NotAllWorkHaveDiffReported", 3),
                "held" => self.says(kind::ROLLOUT_STARTED, "False RolloutNotStartedYet", 3),
                "unsaid" => self.status.conditions.retain(|c| c.type_ != kind::ROLLOUT_STARTED),
                "said-before" => self.says(kind::ROLLOUT_STARTED, "True RolloutStarted", 2),
                "no-strategy" => self.spec.apply_strategy = None,
                _ => panic!("{flag}"),
            },
            Some(("as", _)) => {}
            Some(("was", state)) => self.previous = Some(state.to_owned()),
            // Untrackable, and that many seconds ago.
            Some(("since", seconds)) => {
                self.says(kind::AVAILABLE, "True NotAllWorkAreAvailabilityTrackable", 3);
                let ago = SignedDuration::from_secs(seconds.parse().unwrap());
                self.status.conditions.last_mut().unwrap().last_transition_time.0 = now() - ago;
            }
            Some(("wide", names)) => {
                self.spec.cluster_resource_override_snapshots =
                    names.split(',').map(str::to_owned).collect();
            }
            Some(_) => panic!("{flag}"),
        }
    }

    fn unavailable(&mut self, message: &str) {
        self.says(kind::AVAILABLE, "False NotAllWorkAreAvailable", 3);
        self.status.conditions.last_mut().unwrap().message = message.into();
    }

    fn says(&mut self, kind: &'static str, told: &str, generation: i64) {
        let (status, reason) = told.split_once(' ').unwrap();
        let truth = if status == "True" { ConditionStatus::True } else { ConditionStatus::False };
        self.status.conditions.retain(|c| c.type_ != kind);
        let condition: Condition = draft(kind)
            .is(truth, reason.to_owned())
            .into_condition(Generation(generation), now() - SignedDuration::from_hours(1));
        self.status.conditions.push(condition);
    }
}

/// A plan in words: each write, then why the rest waits, then pause and wake.
pub fn told(plan: &Plan) -> Vec<String> {
    let mut lines: Vec<String> = plan.steps.iter().flatten().map(action).collect();
    lines.extend(plan.waiting.iter().map(waiting));
    if let Some(pause) = plan.pause {
        lines.push(format!("pause {}s", pause.as_secs()));
    }
    if let Some(wake) = plan.wake {
        lines.push(format!("wake in {}ms", wake.as_millis()));
    }
    if plan.again {
        lines.push("again".to_owned());
    }
    lines.extend(plan.trouble.as_ref().map(ToString::to_string));
    lines
}

/// What is planned, in words.
pub fn decided(seen: &Observed) -> Vec<String> {
    told(&plan(seen))
}

/// Only the writes.
pub fn writes(seen: &Observed) -> Vec<String> {
    plan(seen).steps.iter().flatten().map(action).collect()
}

fn action(action: &Action) -> String {
    match action {
        Action::PushStrategy { binding, .. } => format!("strategy {binding}"),
        Action::HoldBack { binding } => format!("hold {binding}"),
        Action::Confirm { binding } => format!("confirm {binding}"),
        Action::Remove { binding } => format!("remove {binding}"),
        Action::Deliver { binding, snapshot, overrides, strategy } => {
            let mut line = format!("deliver {snapshot} to {binding}");
            let narrow =
                overrides.narrow.iter().map(|key| format!("{}/{}", key.namespace, key.name));
            let names: Vec<String> = overrides.wide.iter().cloned().chain(narrow).collect();
            if !names.is_empty() {
                line.push_str(&format!(" with {}", names.join(" ")));
            }
            if strategy.is_some() {
                line.push_str(" and the strategy");
            }
            line
        }
    }
}

fn waiting(waiting: &Waiting) -> String {
    match waiting {
        Waiting::ForResources => "nothing selected yet".to_owned(),
        Waiting::ForDeletion { cluster } => format!("{cluster} waits for a deletion"),
        Waiting::ForBudget { held_back, kept, removable, addable } => {
            format!("{held_back} held back, {kept} kept: removable {removable}, addable {addable}")
        }
    }
}
