//! The kinds of one scope, so that a story is told in both.

use serde_json::{Value, json};

use super::{CRB, CRP, RB, RP};

const PLACEMENT: &str = "placement.kubernetes-fleet.io";

/// The kinds of one scope.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    pub space: &'static str,
    pub placements: &'static str,
    pub bindings: &'static str,
    prefix: &'static str,
}

pub const CLUSTER: Scope = Scope { space: "", placements: CRP, bindings: CRB, prefix: "cluster" };
pub const NAMESPACED: Scope = Scope { space: "app", placements: RP, bindings: RB, prefix: "" };
/// Every story is told in both.
pub const SCOPES: [Scope; 2] = [CLUSTER, NAMESPACED];

impl Scope {
    fn named(&self, plural: &str) -> String {
        format!("{}{plural}.{PLACEMENT}", self.prefix)
    }

    pub fn runs(&self) -> String {
        self.named("stagedupdateruns")
    }

    pub fn strategies(&self) -> String {
        self.named("stagedupdatestrategies")
    }

    pub fn approvals(&self) -> String {
        self.named("approvalrequests")
    }

    pub fn snapshots(&self) -> String {
        self.named("resourcesnapshots")
    }

    /// The name with an empty or full namespace before a slash.
    pub fn slashed(&self, name: &str) -> String {
        format!("{}/{name}", self.space)
    }

    pub fn meta(&self, name: &str) -> Value {
        match self.space {
            "" => json!({"name": name}),
            space => json!({"name": name, "namespace": space}),
        }
    }
}
