//! NotificationChannel: where transitions of runs are told.
//!
//! A channel reads what the records of runs say. Secrets it names are those of the hub's own
//! namespace that are labelled for it: whoever may create channels must not be able to send
//! any Secret anywhere.

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::crd::cel::rules;
use crate::crd::shape;
use crate::kinds::{Column, Version, condition, kind};
use crate::null::or_default;
use crate::rollout_policy::Selects;

/// Where transitions are told, which, and in which form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "has(self.url) != has(self.secretRef)",
        "say where to send to, once: set url, or secretRef where the URL is itself a secret",
    ),
    (
        "!has(self.template) || self.type != 'CloudEvents'",
        "the form of a CloudEvent is fixed: leave template out, or set type to Slack or Webhook",
    ),
])))]
pub struct NotificationChannelSpec {
    /// The form of what is sent.
    pub r#type: ChannelType,

    /// Where to, such as https://hooks.example.com/flagship; the hub must be allowed to go there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = rules(&[(
        "self.matches('^https?://[^@/?#]+([/?][^#]*)?$')",
        "must be an http or https URL without user and fragment, such as https://hooks.example.com/flagship",
    )])))]
    pub url: Option<String>,

    /// The Secret that holds the URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,

    /// Authorities in PEM that the receiver's certificate must come from; left out, those of the hub's
    /// machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::ca_bundle")]
    pub ca_bundle: Option<ByteString>,

    /// The Secret with the key that signs what is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_secret_ref: Option<SecretRef>,

    /// Which transitions are told; left out, all of them.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub events: Vec<RunEvent>,

    /// Of which runs; left out, of all.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Selects::is_all")]
    pub selects: Selects,

    /// The text, with fields such as {{run}} in it; left out, the hub's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048), extend("x-kubernetes-validations" = rules(&[(
        r"self.matches('^([^{]|[{][^{]|[{][{](event|run|placement|snapshot|stage|cluster|text|who|next|link)[}][}])*$')",
        "has a field that nobody fills: there are {{event}}, {{run}}, {{placement}}, {{snapshot}}, {{stage}}, {{cluster}}, {{text}}, {{who}}, {{next}} and {{link}}",
    )])))]
    pub template: Option<String>,
}

/// The form of what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ChannelType {
    /// A CloudEvent 1.0 in structured JSON mode.
    CloudEvents,
    /// A message that Slack and what is compatible with it show.
    Slack,
    /// The fields of the transition as plain JSON.
    Webhook,
}

/// A key of a Secret in the hub's own namespace, fleet-system, that has the label
/// flagship.dev/outgoing: "true".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// Key of its data.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// A transition of a run that can be told.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum RunEvent {
    /// The run began.
    RunStarted,
    /// A stage waits for somebody to approve.
    GateWaiting,
    /// Somebody approved.
    Approved,
    /// A cluster failed.
    ClusterFailed,
    /// The run goes on without a cluster.
    ClusterSkipped,
    /// A stage is over.
    StageDone,
    /// A cluster takes longer than it should.
    Stuck,
    /// More clusters have failed than may.
    BudgetSpent,
    /// What a run brought was taken back.
    RolledBack,
    /// A freeze holds the run.
    Frozen,
    /// No freeze holds it any more.
    Unfrozen,
    /// Somebody stopped the run.
    Stopped,
    /// Somebody let it go on.
    Resumed,
    /// The run is done.
    Succeeded,
    /// The run has failed.
    Failed,
}

/// How telling goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotificationChannelStatus {
    /// How many transitions the receiver has taken.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delivered: i64,

    /// How many were given up after an hour of tries.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: i64,

    /// Why the last try failed; left out when the last one did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub last_error: Option<String>,

    /// Since when no try has succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::time")]
    pub failing_since: Option<Time>,

    /// Records made up to this moment are told to their end, but for those below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::time")]
    pub told_until: Option<Time>,

    /// How far runs are told whose records may go on.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5000))]
    pub runs: Vec<ToldRun>,

    /// What became of the last message that flagship notify test asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<ChannelTest>,

    /// Whether what is told arrives.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shape::condition_list")]
    pub conditions: Vec<Condition>,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// How far a run is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToldRun {
    /// UID of the run.
    #[schemars(length(max = 64))]
    pub uid: String,

    /// Number of the last entry of its record that was told or is nothing to tell.
    pub n: i64,

    /// When it was told to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::time")]
    pub done: Option<Time>,
}

/// What became of a message that somebody asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChannelTest {
    /// What the annotation flagship.dev/test-notification said.
    #[schemars(length(max = 128))]
    pub id: String,

    /// Why it did not arrive; left out when it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub error: Option<String>,
}

kind! {
    /// Tells transitions of runs: as CloudEvents, to Slack, or to any web hook.
    pub struct NotificationChannel {
        /// Where, which, and in which form.
        spec: required NotificationChannelSpec,
        /// How telling goes.
        status: optional NotificationChannelStatus,
    }
    group: flagship, version: "v1alpha1", scope: Cluster,
    plural: "notificationchannels", short: ["nch"], status_subresource: true,
    versions: [
        Version::named("v1alpha1").columns(&[
            Column::text("Type", ".spec.type"),
            Column::text("Ready", condition!("Ready", "status")),
            Column::text("Delivered", ".status.delivered"),
            Column::text("Failed", ".status.failed"),
            Column::wide("Last-Error", ".status.lastError"),
            Column::AGE,
        ]),
    ],
    rules: &[],
}
