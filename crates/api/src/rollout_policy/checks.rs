//! The section `checks` of a policy: how a version proves itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::DURATION;
use crate::crd::cel::rules;
use crate::notification_channel::SecretRef;

/// A question that is asked again and again after a cluster or a stage was updated, and what
/// the answers must be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "!has(self.pass.notWorseThan) || self.prometheus.query.contains('{{cluster}}')",
        "clusters can only be compared where each is asked for itself: name {{cluster}} in the query, such as cluster=\"{{cluster}}\"",
    ),
])))]
pub struct Check {
    /// Its name.
    #[schemars(length(min = 1, max = 63), extend("x-kubernetes-validations" = rules(&[(
        "self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')",
        "must have lower-case letters, digits and - only, such as error-rate",
    )])))]
    pub name: String,

    /// Whether every cluster must pass before it is done, or all of a stage before that is.
    pub after: After,

    /// The question, for a Prometheus or what speaks like one.
    pub prometheus: PrometheusQuery,

    /// What the answers must be.
    pub pass: Pass,

    /// How long answers must be good without a break, such as 5m; left out, one good answer does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = rules(DURATION)))]
    pub r#for: Option<String>,

    /// How often it is asked, such as 30s, which it is if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = rules(&[(
        "self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('1h')",
        "must be a time between 1s and 1h, such as 30s",
    )])))]
    pub interval: Option<String>,
}

/// After what a check is asked.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum After {
    /// After each cluster, which keeps its slot until it has passed.
    Cluster,
    /// After the last cluster of a stage, for all of its clusters together.
    Stage,
}

/// A question for a Prometheus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "has(self.url) != has(self.secretRef)",
    "say which Prometheus to ask, once: set url, or secretRef where the URL is itself a secret",
)])))]
pub struct PrometheusQuery {
    /// Where it is, such as http://prometheus.monitoring:9090; the hub must be allowed to go there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = rules(&[(
        "self.matches('^https?://[^@/?#]+(/[^?#]*)?$')",
        "must be an http or https URL without user, query and fragment, such as http://prometheus.monitoring:9090",
    )])))]
    pub url: Option<String>,

    /// The Secret that holds the URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,

    /// The Secret with a bearer token, or with a whole Authorization header (Basic or Bearer).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<SecretRef>,

    /// PromQL that answers one number; {{cluster}}, {{stage}} and {{run}} stand for their names.
    #[schemars(length(min = 1, max = 4096), extend("x-kubernetes-validations" = rules(&[(
        r"self.matches('^([^{]|[{][^{]|[{][{](cluster|stage|run)[}][}])*$')",
        "has a field that nobody fills: there are {{cluster}}, {{stage}} and {{run}}",
    )])))]
    pub query: String,
}

/// What answers must be. Everything that is set must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "has(self.below) || has(self.above) || has(self.notWorseThan)",
        "say what a good answer is: set below, above or notWorseThan",
    ),
    (
        "!has(self.below) || !has(self.above) || self.above < self.below",
        "no number is above the one and below the other: set above to less than below",
    ),
    (
        "has(self.notWorseThan) || (!has(self.by) && !has(self.worse))",
        "by and worse say nothing without notWorseThan: set notWorseThan to Rest",
    ),
])))]
pub struct Pass {
    /// The answer must be less than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<f64>,

    /// The answer must be more than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<f64>,

    /// With what answers of updated clusters are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_worse_than: Option<NotWorseThan>,

    /// How much worse the median may be, such as 10%; left out, not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), extend("x-kubernetes-validations" = rules(&[(
        "self.matches('^[0-9]{1,4}([.][0-9]{1,6})?%$')",
        "must be a percentage, such as 10%",
    )])))]
    pub by: Option<String>,

    /// Which answers are worse; left out, higher ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worse: Option<Worse>,
}

/// With what updated clusters are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NotWorseThan {
    /// The clusters of the run that are not updated yet, at the same time.
    Rest,
}

/// Which answers are worse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Worse {
    /// Higher ones, as of errors and latencies.
    #[default]
    Higher,
    /// Lower ones, as of successes.
    Lower,
}
