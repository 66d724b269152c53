//! Freeze: nothing that it selects begins until it is lifted or ends.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::cel::rules;
use crate::crd::shape;
use crate::kinds::{Column, Version, kind};
use crate::null::or_default;
use crate::rollout_policy::Selects;

/// What stands still, why, and until when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FreezeSpec {
    /// Why nothing may begin, for those who wait.
    #[schemars(length(max = 1024), extend("x-kubernetes-validations" = rules(&[(
        "size(self) > 0",
        "say why nothing may begin, such as: incident 4711",
    )])))]
    pub reason: String,

    /// Which runs stand still; left out, all of them.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Selects::is_all")]
    pub selects: Selects,

    /// When it ends by itself; left out, when somebody deletes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::time")]
    pub until: Option<Time>,

    /// What goes on all the same.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Except::is_empty")]
    pub except: Except,
}

/// What goes on although everything else stands still.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Except {
    /// Runs by name, with namespace/ before it if they are namespaced.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), inner(length(min = 1, max = 127)), extend(
        "x-kubernetes-validations" = rules(&[(
            "self.all(run, run.matches('^([a-z0-9-]+/)?[a-z0-9.-]+$'))",
            "runs are named as web-3, or as team/web-3 in a namespace",
        )]),
    ))]
    pub runs: Vec<String>,
}

impl Except {
    /// Whether nothing goes on.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

kind! {
    /// Stops the line: no cluster of the runs it selects begins until it is lifted or ends.
    pub struct Freeze {
        /// What stands still, why, and until when.
        spec: required FreezeSpec,
    }
    group: flagship, version: "v1alpha1", scope: Cluster,
    plural: "freezes", short: ["frz"], status_subresource: false,
    versions: [
        Version::named("v1alpha1").columns(&[
            Column::text("Reason", ".spec.reason"),
            Column::text("By", r".metadata.annotations.flagship\.dev/created-by"),
            Column::text("Until", ".spec.until"),
            Column::AGE,
        ]),
    ],
    rules: &[],
}
