//! RolloutPolicy: how runs must go, beyond the order that their strategy gives.
//!
//! Our own group, beside KubeFleet's: without a policy a run behaves as KubeFleet's. A policy
//! is read once, when a run is initialized. `Freeze`, which acts at once, is in `freeze`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::cel::rules;
use crate::crd::shape;
use crate::kinds::{Column, Version, kind};
use crate::null::or_default;

mod approvals;
mod checks;
mod windows;
pub use approvals::{ApprovalRules, BreakGlass, Expired, ReasonRule};
pub use checks::{
    After, Check, JobCheck, JobTemplate, JobTemplateMetadata, NotWorseThan, Pass, PrometheusQuery,
    Worse,
};
pub use windows::Window;

/// How the runs it selects must go.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "!has(self.selects) || !has(self.selects.stages) || size(self.selects.stages) == 0 || !has(self.clusters) || !(has(self.clusters.membership) || has(self.clusters.unmatched) || has(self.clusters.overtaken))",
        "clusters.membership, unmatched and overtaken count for whole runs: leave selects.stages out, or set them in a policy of their own",
    ),
    (
        "!has(self.selects) || !has(self.selects.stages) || size(self.selects.stages) == 0 || !has(self.failure) || !has(self.failure.budget) || !has(self.failure.budget.run)",
        "failure.budget.run counts for whole runs: leave selects.stages out, or set failure.budget.stage",
    ),
])))]
pub struct RolloutPolicySpec {
    /// Which runs; left out, all of them.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Selects::is_all")]
    pub selects: Selects,

    /// What becomes of clusters that join, leave, are silent or belong nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<ClusterRules>,

    /// When a cluster has failed, and what follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureRules>,

    /// Who may approve stages, and how many of them; left out, whoever may write requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvals: Option<ApprovalRules>,

    /// When clusters may begin; left out, always.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub windows: Vec<Window>,

    /// How a version proves itself on clusters and stages; left out, by being available.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-validations" = rules(&[(
        "self.all(check, self.exists_one(other, other.name == check.name))",
        "each check of a policy has a name of its own: rename one of them",
    )])))]
    pub checks: Vec<Check>,
}

/// Which runs are meant; everything that is set must match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Selects {
    /// Labels of the strategy that a run follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::label_selector")]
    pub strategies: Option<LabelSelector>,

    /// Labels of the placement that a run rolls out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::label_selector")]
    pub placements: Option<LabelSelector>,

    /// Labels of a run's namespace; selects no cluster-scoped run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::label_selector")]
    pub namespaces: Option<LabelSelector>,

    /// Names of stages, with * and ?; what is said then counts for these stages only.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 31), inner(length(min = 1, max = 63)), extend(
        "x-kubernetes-validations" = rules(&[(
            "self.all(stage, stage.matches('^[a-z0-9*?-]+$'))",
            "names of stages have lower-case letters and digits, and * and ? for any of them, such as prod*",
        )]),
    ))]
    pub stages: Vec<String>,
}

impl Selects {
    /// Whether nothing is left out.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }
}

/// What becomes of clusters that join, leave, are silent or belong nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "!has(self.unreachableAfter) || (has(self.unreachable) && self.unreachable != 'Wait')",
    "unreachableAfter says nothing while silent clusters are waited for: set unreachable to Skip or Fail",
)])))]
pub struct ClusterRules {
    /// Whether a run fails when clusters join or leave, or keeps the plan it began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub membership: Option<Membership>,

    /// What becomes of a selected cluster that no stage names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmatched: Option<Unmatched>,

    /// What becomes of a cluster without a heartbeat for unreachableAfter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<Unreachable>,

    /// How long a cluster may be silent, such as 3m, which it is if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = rules(DURATION)))]
    pub unreachable_after: Option<String>,

    /// Whether a run goes on that a newer one has overtaken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overtaken: Option<Overtaken>,

    /// In which order the clusters of a stage are updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
}

const DURATION: &[(&str, &str)] = &[(
    "self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) > duration('0s')",
    "must be a time longer than 0, such as 90s, 10m or 1h30m",
)];

const CLUSTERS: &[(&str, &str)] = &[(
    "type(self) == string ? self.matches('^(100|[0-9]{1,2})%$') : self >= 0",
    "must be a number of clusters, 0 or more, or a percentage of them, such as 2%",
)];

/// When clusters join or leave under a run.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Membership {
    /// The run fails, as in KubeFleet.
    Fail,
    /// Newcomers wait for the next run, and leavers are skipped.
    Frozen,
}

/// When a selected cluster is named by no stage.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Unmatched {
    /// The run is refused, as in KubeFleet.
    Fail,
    /// The cluster is left out.
    Skip,
}

/// When a cluster is silent.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Unreachable {
    /// The run waits, as in KubeFleet.
    Wait,
    /// The cluster is skipped.
    Skip,
    /// The cluster has failed.
    Fail,
}

/// When a newer run has updated clusters of an older one.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Overtaken {
    /// The older run may take them back, as in KubeFleet.
    Allow,
    /// The older run fails and takes nothing back.
    Fail,
}

/// In which order the clusters of a stage are updated.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Order {
    /// By the sorting label of the strategy, as in KubeFleet.
    Label,
    /// By chance, which is recorded.
    Random,
    /// The most different clusters first.
    Diverse,
}

/// When a cluster has failed, and what follows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "!has(self.retryAfter) || (has(self.retries) && self.retries > 0)",
        "retryAfter says nothing without retries: set retries to 1 or more",
    ),
    (
        "!has(self.retries) || self.retries == 0 || has(self.progressDeadline) || (has(self.finalCauses) && self.finalCauses == 'Fail')",
        "retries say nothing while no cluster fails: set progressDeadline, or finalCauses to Fail",
    ),
])))]
pub struct FailureRules {
    /// How long a cluster may take, such as 10m; left out, for ever, as in KubeFleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = rules(DURATION)))]
    pub progress_deadline: Option<String>,

    /// Whether causes that time does not heal, such as a bad image name, fail a cluster at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_causes: Option<FinalCauses>,

    /// How many clusters may fail before nothing more begins; left out, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<FailureBudget>,

    /// What follows when more clusters have failed than the budget allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Then>,

    /// How often a cluster is tried again before it counts as failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10))]
    pub retries: Option<i32>,

    /// How long to wait before a cluster is tried again, such as 1m, which it is if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = rules(DURATION)))]
    pub retry_after: Option<String>,
}

/// How many clusters may fail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailureBudget {
    /// Of the whole run, as a number or a percentage of its clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::int_or_string", extend("x-kubernetes-validations" = rules(CLUSTERS)))]
    pub run: Option<IntOrString>,

    /// Of one stage, as a number or a percentage of its clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::int_or_string", extend("x-kubernetes-validations" = rules(CLUSTERS)))]
    pub stage: Option<IntOrString>,
}

/// What causes that time does not heal are worth.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum FinalCauses {
    /// They are waited out like any other.
    Wait,
    /// The cluster has failed once the same cause was seen for 30 seconds.
    Fail,
}

/// What follows a spent budget.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Then {
    /// The run fails where it stands.
    Stop,
    /// The run fails, and the clusters it has moved go back to what they had, in a run of its
    /// own that is called like it with -rollback behind.
    Rollback,
    /// The run goes on, and fails at its end with the list of clusters.
    Continue,
}

kind! {
    /// How the runs it selects must go: clusters that come and go, failures, budgets.
    pub struct RolloutPolicy {
        /// How the runs it selects must go.
        spec: defaulted RolloutPolicySpec,
    }
    group: flagship, version: "v1alpha1", scope: Cluster,
    plural: "rolloutpolicies", short: ["rpol"], status_subresource: false,
    versions: [
        Version::named("v1alpha1").columns(&[
            Column::text("Membership", ".spec.clusters.membership"),
            Column::text("Deadline", ".spec.failure.progressDeadline"),
            Column::text("Budget", ".spec.failure.budget.run"),
            Column::text("Then", ".spec.failure.then"),
            Column::AGE,
        ]),
    ],
    rules: &[],
}
