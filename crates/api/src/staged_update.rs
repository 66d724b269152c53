//! Staged updates: the strategy that says in which order clusters are updated,
//! and the run that carries one version through it.
//!
//! What a run reports is in `staged_update_status`, approvals in `approval`.

use flagship_base::duration::WAIT_TIME_PATTERN;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::crd::cel::{immutable, rules};
use crate::crd::shape;
use crate::crd::versions::Edits;
use crate::kinds::{Column, Version, condition, kind};
use crate::null::or_default;
use crate::staged_update_status::UpdateRunStatus;

/// What a run rolls out, in which order, and whether it may go on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "!(has(oldSelf.state) && oldSelf.state == 'Initialize' && self.state == 'Stop')",
        "invalid state transition: cannot transition from Initialize to Stop",
    ),
    (
        "!(has(oldSelf.state) && oldSelf.state == 'Run' && self.state == 'Initialize')",
        "invalid state transition: cannot transition from Run to Initialize",
    ),
    (
        "!(has(oldSelf.state) && oldSelf.state == 'Stop' && self.state == 'Initialize')",
        "invalid state transition: cannot transition from Stop to Initialize",
    ),
])))]
pub struct UpdateRunSpec {
    /// Placement whose resources are rolled out; in the run's own namespace if it has one.
    #[schemars(length(max = 255))]
    #[schemars(extend("x-kubernetes-validations" = immutable("placementName is immutable")))]
    pub placement_name: String,

    /// Index of the resource snapshot to roll out; left out, the latest is used or one is taken.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    #[schemars(extend("x-kubernetes-validations" = immutable("resourceSnapshotIndex is immutable")))]
    pub resource_snapshot_index: String,

    /// Strategy to follow; the run works from a copy taken when it is initialized.
    #[schemars(extend("x-kubernetes-validations" = immutable("stagedRolloutStrategyName is immutable")))]
    pub staged_rollout_strategy_name: String,

    /// Initialize plans the run and waits, Run carries it out, Stop lets running clusters finish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = UpdateRunState::default()))]
    pub state: Option<UpdateRunState>,
}

/// What a person wants a run to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
pub enum UpdateRunState {
    /// Compute the stages and wait.
    #[default]
    Initialize,
    /// Carry the stages out.
    Run,
    /// Start nothing more.
    Stop,
    /// Something else, which no schema of ours lets in. It is read all the same, so that the
    /// run can be told what is wrong with it.
    #[schemars(skip)]
    Other(String),
}

impl UpdateRunState {
    /// As it is written.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Initialize => "Initialize",
            Self::Run => "Run",
            Self::Stop => "Stop",
            Self::Other(text) => text,
        }
    }
}

impl Serialize for UpdateRunState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for UpdateRunState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let known = [Self::Initialize, Self::Run, Self::Stop];
        let known = known.into_iter().find(|state| state.as_str() == text);
        Ok(known.unwrap_or(Self::Other(text)))
    }
}

/// The stages of an update, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UpdateStrategySpec {
    /// Stages, carried out one after the other.
    #[serde(deserialize_with = "or_default")]
    #[schemars(length(max = 31))]
    pub stages: Vec<StageConfig>,
}

/// One stage: which clusters, how many at a time, and what must happen around it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageConfig {
    /// Name of the stage, unique within the strategy.
    #[schemars(length(max = 63), regex(pattern = "^[a-z0-9]+$"))]
    pub name: String,

    /// Clusters of the stage by label; an empty selector means all, none at all means no cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::label_selector")]
    pub label_selector: Option<LabelSelector>,

    /// Label whose number on each cluster orders the clusters; left out, they go by name.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub sorting_label_key: String,

    /// How many clusters are updated at once, as a number or a percentage of the stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::int_or_string", extend(
        "default" = 1,
        "pattern" = "^(100|[1-9][0-9]?)%$",
        "x-kubernetes-validations" = rules(&[(
            "self == null || type(self) != int || self >= 1",
            "maxConcurrency must be at least 1",
        )]),
    ))]
    pub max_concurrency: Option<IntOrString>,

    /// What must happen after the last cluster and before the next stage.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2), extend("x-kubernetes-validations" = rules(&[
        APPROVAL_HAS_NO_WAIT,
        (
            "!self.exists(e, e.type == 'TimedWait' && !has(e.waitTime))",
            "AfterStageTaskType is TimedWait, waitTime is required",
        ),
    ])))]
    pub after_stage_tasks: Vec<StageTask>,

    /// What must happen before the first cluster.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1), extend("x-kubernetes-validations" = rules(&[
        APPROVAL_HAS_NO_WAIT,
        ("!self.exists(e, e.type == 'TimedWait')", "BeforeStageTaskType cannot be TimedWait"),
    ])))]
    pub before_stage_tasks: Vec<StageTask>,
}

/// Something that must happen before or after a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageTask {
    /// TimedWait lets time pass, Approval waits for a person.
    pub r#type: StageTaskType,

    /// How long a TimedWait lasts, such as 30m or 1h30m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = WAIT_TIME_PATTERN))]
    pub wait_time: Option<String>,
}

/// What kind of thing must happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StageTaskType {
    /// Time must pass.
    TimedWait,
    /// A person must approve.
    Approval,
}

const APPROVAL_HAS_NO_WAIT: (&str, &str) = (
    "!self.exists(e, e.type == 'Approval' && has(e.waitTime))",
    "AfterStageTaskType is Approval, waitTime is not allowed",
);

kind! {
    /// Rolls one version of a ClusterResourcePlacement out, stage by stage.
    pub struct ClusterStagedUpdateRun {
        /// What to roll out, in which order, and whether to go on.
        spec: required UpdateRunSpec,
        /// How far the run has come, stage by stage and cluster by cluster.
        status: optional UpdateRunStatus,
    }
    group: placement, version: "v1beta1", scope: Cluster,
    plural: "clusterstagedupdateruns", short: ["csur"], status_subresource: true,
    versions: [
        Version::named("v1beta1").columns(RUN_COLUMNS),
        Version::named("v1").columns(RUN_COLUMNS),
        Version::named("v1alpha1").columns(RUN_COLUMNS_V1ALPHA1).edited(run_v1alpha1),
    ],
    rules: NAME_FITS_A_LABEL,
}

kind! {
    /// Says in which order the clusters of a ClusterResourcePlacement are updated.
    pub struct ClusterStagedUpdateStrategy {
        /// The stages, in order.
        spec: required UpdateStrategySpec,
    }
    group: placement, version: "v1beta1", scope: Cluster,
    plural: "clusterstagedupdatestrategies", short: ["csus"], status_subresource: true,
    versions: [
        Version::named("v1beta1"),
        Version::named("v1"),
        Version::named("v1alpha1").edited(strategy_v1alpha1),
    ],
    rules: &[],
}

kind! {
    /// Rolls one version of a ResourcePlacement out, stage by stage.
    pub struct StagedUpdateRun {
        /// What to roll out, in which order, and whether to go on.
        spec: required UpdateRunSpec,
        /// How far the run has come, stage by stage and cluster by cluster.
        status: optional UpdateRunStatus,
    }
    group: placement, version: "v1beta1", scope: Namespaced,
    plural: "stagedupdateruns", short: ["sur"], status_subresource: true,
    versions: [
        Version::named("v1beta1").columns(RUN_COLUMNS),
        Version::named("v1").columns(RUN_COLUMNS),
    ],
    rules: NAME_FITS_A_LABEL,
}

kind! {
    /// Says in which order the clusters of a ResourcePlacement are updated.
    pub struct StagedUpdateStrategy {
        /// The stages, in order.
        spec: required UpdateStrategySpec,
    }
    group: placement, version: "v1beta1", scope: Namespaced,
    plural: "stagedupdatestrategies", short: ["sus"], status_subresource: false,
    versions: [Version::named("v1beta1"), Version::named("v1")],
    rules: &[],
}

impl From<ClusterStagedUpdateStrategy> for UpdateStrategySpec {
    fn from(strategy: ClusterStagedUpdateStrategy) -> Self {
        strategy.spec
    }
}

impl From<StagedUpdateStrategy> for UpdateStrategySpec {
    fn from(strategy: StagedUpdateStrategy) -> Self {
        strategy.spec
    }
}

/// A run's name becomes a label value on its approval requests.
const NAME_FITS_A_LABEL: &[(&str, &str)] =
    &[("size(self.metadata.name) < 64", "metadata.name max length is 63")];

const RUN_COLUMNS: &[Column] = &[
    PLACEMENT,
    RESOURCE_INDEX,
    POLICY_INDEX,
    INITIALIZED,
    Column::text("Progressing", condition!("Progressing", "status")),
    SUCCEEDED,
    Column::AGE,
    STRATEGY,
];
const RUN_COLUMNS_V1ALPHA1: &[Column] =
    &[PLACEMENT, RESOURCE_INDEX, POLICY_INDEX, INITIALIZED, SUCCEEDED, Column::AGE, STRATEGY];

const PLACEMENT: Column = Column::text("Placement", ".spec.placementName");
const RESOURCE_INDEX: Column =
    Column::text("Resource-Snapshot-Index", ".spec.resourceSnapshotIndex");
const POLICY_INDEX: Column =
    Column::text("Policy-Snapshot-Index", ".status.policySnapshotIndexUsed");
const INITIALIZED: Column = Column::text("Initialized", condition!("Initialized", "status"));
const SUCCEEDED: Column = Column::text("Succeeded", condition!("Succeeded", "status"));
const STRATEGY: Column = Column::wide("Strategy", ".spec.stagedRolloutStrategyName");

/// v1alpha1 had runs that start at once and never stop: no state, a fixed spec.
fn run_v1alpha1(edits: &mut Edits) {
    edits
        .object_rules(&[("size(self.metadata.name) < 128", "metadata.name max length is 127")])
        .rules("spec", &[("self == oldSelf", "The spec field is immutable")])
        .without_rules("spec.placementName")
        .without_rules("spec.resourceSnapshotIndex")
        .without_rules("spec.stagedRolloutStrategyName")
        .require("spec.resourceSnapshotIndex")
        .remove("spec.state")
        .remove("status.resourceSnapshotIndexUsed")
        .remove("beforeStageTaskStatus");
    strategy_v1alpha1(edits);
}

/// It also took a bare 0 for no wait.
fn zero_or_wait_time() -> String {
    format!("^(?:0|{})$", WAIT_TIME_PATTERN.trim_matches(['^', '$']))
}

/// v1alpha1 had one cluster at a time and nothing before a stage.
fn strategy_v1alpha1(edits: &mut Edits) {
    edits
        .remove("stages.beforeStageTasks")
        .remove("stages.maxConcurrency")
        .without_rules("stages.afterStageTasks")
        .set("afterStageTasks.waitTime", "pattern", zero_or_wait_time());
}

#[cfg(test)]
mod tests {
    use regex::Regex;
    use serde_json::Value;

    use super::*;
    use crate::crd;
    use crate::kinds::FleetKind;

    /// A field of a stage, as the stored version's schema has it.
    fn stage_field(pointer: &str) -> Value {
        let definition = crd::definition(ClusterStagedUpdateStrategy::INFO);
        let stage =
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/stages/items";
        definition.pointer(&format!("{stage}/properties/{pointer}")).unwrap().clone()
    }

    fn check_pattern(pointer: &str, accepted: &[&str], refused: &[&str]) {
        let pattern = Regex::new(stage_field(pointer)["pattern"].as_str().unwrap()).unwrap();
        for (texts, fits) in [(accepted, true), (refused, false)] {
            for text in texts {
                assert_eq!(pattern.is_match(text), fits, "{text}");
            }
        }
    }

    #[test]
    fn a_concurrency_in_quotes_is_a_percentage_from_1_to_100() {
        check_pattern(
            "maxConcurrency",
            &["1%", "9%", "10%", "50%", "99%", "100%"],
            &[
                "", "%", "0", "0%", "50", "01%", "-1%", "101%", "1000%", "1.5%", "50%%", " 50%",
                "１%",
            ],
        );
    }

    #[test]
    fn a_concurrency_without_quotes_is_at_least_1() {
        let rules = stage_field("maxConcurrency")["x-kubernetes-validations"].clone();
        assert_eq!(rules[0]["rule"], "self == null || type(self) != int || self >= 1");
        assert_eq!(rules[0]["message"], "maxConcurrency must be at least 1");
    }

    #[test]
    fn a_wait_is_hours_minutes_and_seconds() {
        check_pattern(
            "afterStageTasks/items/properties/waitTime",
            &["0s", "1h30m", "1.5h", "90s", "1m1m"],
            &["", "1", "0", "0abc", "1d", "01h", "-1s", "1ms", "1h 30m"],
        );
    }
}
