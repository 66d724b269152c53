//! A small fixture for placement stories: a placement, what it selects, what the scheduler
//! and the rollout say, and a controller that carries its own plans out.

use std::sync::Arc;

use flagship_api::binding::ResourceBindingSpec;
use flagship_api::condition::{Condition, ConditionStatus, Generation, draft};
use flagship_api::placement_status::{PlacementStatus, ResourceIdentifier};
use flagship_api::raw_json::RawJson;
use flagship_api::snapshot::ClusterDecision;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::hub::now;
use crate::model::{Binding, PolicySnapshot, ResourceSnapshot};
use crate::placement::policy_snapshots::PolicyAction;
use crate::placement::resource_snapshots::{Part, ResourceAction};
use crate::placement::selection::{Selected, Selection};
use crate::placement::{Action, Batching, Observed, Placement, Plan, plan};

pub struct Fixture {
    pub seen: Observed,
    /// Whether writing the mirror fails, and why.
    pub mirror_error: Option<String>,
}

impl Fixture {
    /// A ClusterResourcePlacement `web` with this spec.
    pub fn crp(spec: Value) -> Self {
        Self::new(None, spec)
    }

    /// A ResourcePlacement `app/web` with this spec.
    pub fn rp(spec: Value) -> Self {
        Self::new(Some("app"), spec)
    }

    fn new(namespace: Option<&str>, mut spec: Value) -> Self {
        if spec["resourceSelectors"].is_null() {
            spec["resourceSelectors"] =
                json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]);
        }
        let placement = Placement {
            namespace: namespace.map(str::to_owned),
            name: "web".into(),
            uid: "u-1".into(),
            generation: 1,
            deleting: false,
            has_finalizer: true,
            spec: serde_json::from_value(spec).unwrap(),
            status: PlacementStatus::default(),
        };
        let seen = Observed {
            now: now(),
            placement,
            selection: Ok(selection(&["app"])),
            policy_snapshots: vec![],
            resource_snapshots: vec![],
            bindings: vec![],
            indexes_in_runs: vec![],
            mirror: None,
            batching: Batching::NONE,
        };
        Self { seen, mirror_error: None }
    }

    pub fn named(mut self, name: &str) -> Self {
        self.seen.placement.name = name.into();
        self
    }

    pub fn select(&mut self, names: &[&str]) {
        self.seen.selection = Ok(selection(names));
    }

    pub fn edit(&mut self, change: impl FnOnce(&mut Value)) {
        let mut spec = serde_json::to_value(&self.seen.placement.spec).unwrap();
        change(&mut spec);
        self.seen.placement.spec = serde_json::from_value(spec).unwrap();
        self.seen.placement.generation += 1;
    }

    pub fn later(&mut self, seconds: i64) {
        self.seen.now += SignedDuration::from_secs(seconds);
    }

    /// The scheduler answers this generation: chosen clusters, then others with reasons.
    pub fn schedule(&mut self, chosen: &[&str], others: &[(&str, &str)]) {
        let generation = self.seen.placement.generation;
        let found = chosen.len();
        let picked = chosen.iter().map(|cluster| ClusterDecision {
            cluster_name: (*cluster).into(),
            selected: true,
            cluster_score: None,
            reason: format!(
                "Successfully scheduled resources for placement in \"{cluster}\" (affinity score: 0, topology spread score: 0): picked by scheduling policy"
            ),
        });
        let refused = others.iter().map(|(cluster, reason)| ClusterDecision {
            cluster_name: (*cluster).into(),
            selected: false,
            cluster_score: None,
            reason: (*reason).into(),
        });
        let (truth, reason, message) = if others.is_empty() {
            let message = format!(
                "found all cluster needed as specified by the scheduling policy, found {found} cluster(s)"
            );
            (ConditionStatus::True, "SchedulingPolicyFulfilled", message)
        } else {
            let message = format!(
                "could not find all clusters needed as specified by the scheduling policy, found {found} cluster(s) instead"
            );
            (ConditionStatus::False, "SchedulingPolicyUnfulfilled", message)
        };
        let now = self.seen.now;
        let latest = self.seen.policy_snapshots.iter_mut().find(|s| s.latest).expect("a snapshot");
        let latest = Arc::make_mut(latest);
        latest.status.observed_crp_generation = generation;
        latest.status.target_clusters = picked.chain(refused).map(Arc::new).collect();
        draft("Scheduled").is(truth, reason).because(message).set(
            &mut latest.status.conditions,
            Generation(1),
            now,
        );
    }

    /// The binding of a cluster, made if need be, on the latest policy snapshot.
    pub fn bind(&mut self, cluster: &str) -> &mut Binding {
        let policy_snapshot =
            self.seen.policy_snapshots.iter().find(|s| s.latest).expect("a snapshot").name.clone();
        let bindings = &mut self.seen.bindings;
        if !bindings.iter().any(|b| b.cluster() == cluster) {
            let spec = ResourceBindingSpec {
                target_cluster: cluster.into(),
                scheduling_policy_snapshot_name: policy_snapshot,
                ..ResourceBindingSpec::default()
            };
            let name = format!("web-{cluster}");
            bindings.push(Arc::new(Binding { name, generation: 1, spec, ..Binding::default() }));
        }
        Arc::make_mut(bindings.iter_mut().find(|b| b.cluster() == cluster).unwrap())
    }

    /// Binds a cluster to a version and says how far it has come, as in
    /// `RolloutStarted=True Applied=False`; nothing means all went well.
    pub fn deliver(&mut self, cluster: &str, index: u32, conditions: &str) {
        let name = &self.seen.placement.name;
        let (snapshot, now) = (format!("{name}-{index}-snapshot"), self.seen.now);
        let binding = self.bind(cluster);
        binding.spec.resource_snapshot_name = snapshot;
        binding.status.conditions.clear();
        for (kind, truth) in conditions.split_whitespace().map(|c| c.split_once('=').unwrap()) {
            let condition = said(kind, truth, binding.generation, now);
            binding.status.conditions.push(condition);
        }
    }

    /// Decides one pass. Whatever a story tells of a cluster-scoped placement holds of a
    /// namespaced one, under its own prefix (checklist 20.37); only the copy of the status
    /// has no twin.
    pub fn plan(&self) -> Plan {
        let plan = plan(&self.seen);
        if self.seen.placement.namespace.is_none() && !self.seen.placement.is_mirrored() {
            let twin = crate::placement::plan(&narrowed(&self.seen));
            assert_eq!(
                spoken(&twin),
                spoken(&plan).replace("ClusterResourcePlacement", "ResourcePlacement")
            );
        }
        plan
    }

    /// Carries one plan out, as the shell would.
    pub fn step(&mut self) -> Plan {
        let plan = self.plan();
        let mut failed = None;
        for action in plan.actions.clone() {
            match action {
                Action::Status(status) => {
                    if failed.is_none() {
                        self.seen.placement.status = status;
                    }
                }
                Action::Mirror(mirror) => match &self.mirror_error {
                    None => self.seen.mirror = Some(mirror.status),
                    Some(error) => {
                        let (placement, now) = (&self.seen.placement, self.seen.now);
                        failed = Some(crate::placement::mirror::after_failure(
                            placement, &mirror, error, now,
                        ));
                    }
                },
                other => self.apply(other),
            }
        }
        if let Some(Some(status)) = failed {
            self.seen.placement.status = status;
        }
        plan
    }

    /// Carries out only the first so many writes of a plan.
    pub fn crash(&mut self, after: usize) {
        for action in self.plan().actions.into_iter().take(after) {
            match action {
                Action::Status(status) => self.seen.placement.status = status,
                Action::Mirror(mirror) => self.seen.mirror = Some(mirror.status),
                other => self.apply(other),
            }
        }
    }

    fn apply(&mut self, action: Action) {
        let seen = &mut self.seen;
        match action {
            Action::AddFinalizer => seen.placement.has_finalizer = true,
            Action::RemoveFinalizer => seen.placement.has_finalizer = false,
            Action::DeletePolicySnapshots => seen.policy_snapshots.clear(),
            Action::DeleteResourceSnapshots => seen.resource_snapshots.clear(),
            Action::Policy(PolicyAction::Create(new)) => {
                seen.policy_snapshots.push(Arc::new(PolicySnapshot {
                    name: new.name,
                    generation: 1,
                    index: Some(new.index),
                    latest: true,
                    hash: new.hash,
                    placement_generation: Some(new.placement_generation.to_string()),
                    number_of_clusters: new.number_of_clusters.map(|n| n.to_string()),
                    ..PolicySnapshot::default()
                }));
            }
            Action::Policy(PolicyAction::Delete { name }) => {
                seen.policy_snapshots.retain(|s| s.name != name);
            }
            Action::Policy(PolicyAction::Retire { name }) => {
                let found = seen.policy_snapshots.iter_mut().find(|s| s.name == name).unwrap();
                Arc::make_mut(found).latest = false;
            }
            Action::Policy(PolicyAction::Refresh {
                name,
                placement_generation,
                number_of_clusters,
            }) => {
                let found = seen.policy_snapshots.iter_mut().find(|s| s.name == name).unwrap();
                let found = Arc::make_mut(found);
                found.latest = true;
                found.placement_generation = Some(placement_generation.to_string());
                if let Some(number) = number_of_clusters {
                    found.number_of_clusters = Some(number.to_string());
                }
            }
            Action::Resources(ResourceAction::Create(new)) => {
                let (hash, count, subindex) = match new.part {
                    Part::Master { hash, count, .. } => (Some(hash), Some(count.to_string()), None),
                    Part::Sub { subindex } => (None, None, Some(subindex)),
                };
                let selected = &seen.selection.as_ref().unwrap().resources[new.resources];
                seen.resource_snapshots.push(Arc::new(ResourceSnapshot {
                    name: new.name,
                    created: seen.now,
                    index: Some(new.index),
                    latest: hash.is_some(),
                    hash,
                    count,
                    subindex,
                    detected: None,
                    quarantine: None,
                    resources: selected.iter().map(|s| s.id.clone()).collect(),
                    enveloped: vec![],
                }));
            }
            Action::Resources(ResourceAction::Delete { name }) => {
                seen.resource_snapshots.retain(|s| s.name != name);
            }
            Action::Resources(ResourceAction::Mark { name, latest }) => {
                let found = seen.resource_snapshots.iter_mut().find(|s| s.name == name).unwrap();
                Arc::make_mut(found).latest = latest;
            }
            Action::Resources(ResourceAction::Stamp { name, at }) => {
                let found = seen.resource_snapshots.iter_mut().find(|s| s.name == name).unwrap();
                Arc::make_mut(found).detected = Some(at);
            }
            Action::Mirror(_) | Action::Status(_) => unreachable!("the caller's"),
        }
    }

    /// An update run takes a snapshot of what is selected.
    pub fn snapshot_by_run(&mut self) {
        use crate::placement::resource_snapshots::{self, Snapshots};
        let seen = Snapshots {
            placement: &self.seen.placement.name,
            existing: &self.seen.resource_snapshots,
            limit: 10,
            bindings: &self.seen.bindings,
            indexes_in_runs: &[],
            now: self.seen.now,
        };
        let selection = self.seen.selection.clone().unwrap();
        let plan = resource_snapshots::plan(&seen, &selection, None).unwrap();
        for action in plan.actions {
            self.apply(Action::Resources(action));
        }
    }

    pub fn status(&self) -> &PlacementStatus {
        &self.seen.placement.status
    }

    /// The placement's conditions, one per line: `Type@generation Status Reason: Message`.
    pub fn told(&self) -> String {
        lines(&self.status().conditions)
    }

    /// The conditions of one cluster, with its index.
    pub fn told_of(&self, cluster: &str) -> String {
        let entry = self.status().placement_statuses.iter().find(|e| e.cluster_name == cluster);
        let entry = entry.expect("the cluster has an entry");
        format!("index {:?}\n{}", entry.observed_resource_index, lines(&entry.conditions))
    }

    /// The placement's conditions in short: `RolloutStarted=True Applied=False`.
    pub fn in_short(&self) -> String {
        let prefix = match self.seen.placement.namespace {
            None => "ClusterResourcePlacement",
            Some(_) => "ResourcePlacement",
        };
        let short =
            |c: &Condition| format!("{}={}", c.type_.strip_prefix(prefix).unwrap(), c.status);
        self.status().conditions.iter().map(short).collect::<Vec<_>>().join(" ")
    }

    pub fn clusters(&self) -> Vec<&str> {
        self.status().placement_statuses.iter().map(|e| e.cluster_name.as_str()).collect()
    }
}

/// The same placement in a namespace.
fn narrowed(seen: &Observed) -> Observed {
    let mut seen = seen.clone();
    seen.placement.namespace = Some("app".into());
    for condition in &mut seen.placement.status.conditions {
        condition.type_ = condition.type_.replace("ClusterResourcePlacement", "ResourcePlacement");
    }
    seen
}

/// All that a plan says and does, as text.
fn spoken(plan: &Plan) -> String {
    let mut fields = serde_json::to_value(plan).unwrap();
    // A trouble may name the placement, which is called otherwise in a namespace.
    fields["trouble"] = json!(plan.trouble.is_some());
    fields.to_string()
}

pub fn lines(conditions: &[Condition]) -> String {
    let line = |c: &Condition| {
        let generation = c.observed_generation.unwrap();
        format!("{}@{generation} {} {}: {}\n", c.type_, c.status, c.reason, c.message)
    };
    conditions.iter().map(line).collect()
}

/// Everything a binding can say when all is well.
pub const AVAILABLE: &str =
    "RolloutStarted=True Overridden=True WorkSynchronized=True Applied=True Available=True";

/// A binding's condition in the words of whoever writes it.
pub fn said(kind: &str, truth: &str, generation: i64, now: Timestamp) -> Condition {
    let (reason, message) = match (kind, truth) {
        ("RolloutStarted", "True") => (
            "RolloutStarted",
            "Detected the new changes on the resources and started the rollout process",
        ),
        ("RolloutStarted", "False") => (
            "RolloutNotStartedYet",
            "The resources cannot be updated to the latest because of the rollout strategy",
        ),
        ("Overridden", "True") => {
            ("NoOverrideSpecified", "No override rules are configured for the selected resources")
        }
        ("Overridden", "False") => {
            ("OverriddenFailed", "Failed to apply the override rules on the resources: oops")
        }
        ("WorkSynchronized", "True") => {
            ("AllWorkSynced", "All of the works are synchronized to the latest")
        }
        ("WorkSynchronized", "False") => {
            ("SyncWorkFailed", "Failed to synchronize the work to the latest: oops")
        }
        ("Applied", "True") => {
            ("AllWorkHaveBeenApplied", "All corresponding work objects are applied")
        }
        ("Applied", "False") => {
            ("NotAllWorkHaveBeenApplied", "Work object web-work has failed to apply")
        }
        ("Available", "True") => {
            ("AllWorkAreAvailable", "All corresponding work objects are available")
        }
        ("Available", "False") => {
            ("NotAllWorkAreAvailable", "Work object web-work is not yet available")
        }
        ("DiffReported", "True") => {
            ("AllWorkHaveDiffReported", "All corresponding work objects have reported diff")
        }
        ("DiffReported", "False") => {
            ("NotAllWorkHaveDiffReported", "Work object web-work has failed to report diff")
        }
        _ => ("Whatever", "nobody knows"),
    };
    let truth = match truth {
        "True" => ConditionStatus::True,
        "False" => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    };
    draft(kind.to_owned())
        .is(truth, reason)
        .because(message)
        .into_condition(Generation(generation), now)
}

/// Namespaces of these names, selected.
pub fn selection(names: &[&str]) -> Selection {
    let resources = names.iter().map(|name| {
        let text = json!({"metadata": {"name": name}}).to_string();
        Selected { id: namespace_id(name), manifest: RawJson::from_text(text).unwrap() }
    });
    Selection { resources: resources.collect(), ..Selection::default() }
}

pub fn namespace_id(name: &str) -> ResourceIdentifier {
    ResourceIdentifier {
        version: "v1".into(),
        kind: "Namespace".into(),
        name: name.into(),
        ..ResourceIdentifier::default()
    }
}
