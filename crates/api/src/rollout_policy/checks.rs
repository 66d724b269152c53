//! The section `checks` of a policy: how a version proves itself.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::DURATION;
use crate::crd::cel::rules;
use crate::crd::shape;
use crate::notification_channel::SecretRef;

/// How a version proves itself after a cluster or a stage was updated: by what a Prometheus
/// answers, or by a Job on the updated clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "has(self.prometheus) != has(self.job)",
        "say how it is checked, once: set prometheus for a question, or job for a Job on the updated clusters",
    ),
    (
        "has(self.prometheus) == has(self.pass)",
        "pass says what a Prometheus must answer: set it with prometheus, and leave it out with job, whose success is the verdict",
    ),
    (
        "!has(self.job) || (!has(self.__for__) && !has(self.interval))",
        "a Job is run once: leave out for and interval, and say in job.timeout how long it may take",
    ),
    (
        "!has(self.pass) || !has(self.pass.notWorseThan) || !has(self.prometheus) || self.prometheus.query.contains('{{cluster}}')",
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusQuery>,

    /// The Job that is run on each updated cluster, and must succeed on all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobCheck>,

    /// What the answers of a Prometheus must be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass: Option<Pass>,

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

impl Check {
    /// Whether updated clusters are compared with those that are not updated yet.
    pub fn compares(&self) -> bool {
        self.pass.as_ref().is_some_and(|pass| pass.not_worse_than.is_some())
    }

    /// Whether each updated cluster is looked at by itself.
    pub fn is_per_cluster(&self) -> bool {
        self.prometheus.as_ref().is_none_or(|asked| asked.query.contains("{{cluster}}"))
    }
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

    /// Authorities in PEM that the server's certificate must come from; left out, those of the hub's
    /// machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::ca_bundle")]
    pub ca_bundle: Option<ByteString>,

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

/// A Job that is run on each updated cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobCheck {
    /// The namespace on the updated clusters, such as one that the placement brings.
    #[schemars(length(min = 1, max = 63), extend("x-kubernetes-validations" = rules(&[
        (
            "self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')",
            "must be the name of a namespace, such as web",
        ),
        (
            "!self.startsWith('kube-') && !self.startsWith('fleet-')",
            "namespaces that begin with kube- or fleet- are not for Jobs of checks: name another",
        ),
    ])))]
    pub namespace: String,

    /// How long the Job may take on a cluster, such as 5m; left out, 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = rules(&[(
        "self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",
        "must be a time between 1s and 24h, such as 5m",
    )])))]
    pub timeout: Option<String>,

    /// The Job, as a CronJob has it.
    pub template: JobTemplate,
}

/// A Job without its name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobTemplate {
    /// Labels and annotations of the Job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JobTemplateMetadata>,

    /// What a Job of batch/v1 has as its spec.
    #[schemars(schema_with = "shape::any_object")]
    pub spec: Value,
}

/// Labels and annotations of a Job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobTemplateMetadata {
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
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
