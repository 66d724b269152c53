//! Whether an applied object works, kind by kind.
//!
//! Asked of the object that the write returned, so an answer is at best one pass late. What
//! nobody can judge counts as working. Only the exact group, version and resource are known:
//! another version of the same kind is not judged.

mod workloads;

#[cfg(test)]
mod tests;

use flagship_api::condition_type::pod_disruption_budget::DISRUPTION_ALLOWED;
use flagship_api::reason::kubernetes::{INSUFFICIENT_PODS, SUFFICIENT_PODS};
use flagship_api::work::WorkResourceIdentifier;
use serde_json::Value;

use crate::policy::checks::jobs::is_check;

/// Whether an object works.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Availability {
    /// Nobody asked: it is not applied.
    #[default]
    Skipped,
    /// It works.
    Available,
    /// Not yet.
    NotYet,
    /// Nobody can tell for this kind; it counts as working.
    NotTrackable,
    /// Its status could not be read.
    Failed(String),
}

impl Availability {
    /// Whether it works, or counts as working.
    pub fn counts(&self) -> bool {
        matches!(self, Self::Available | Self::NotTrackable)
    }

    /// The word by which results are told apart.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Skipped => "Skipped",
            Self::Available => "Available",
            Self::NotYet => "NotYetAvailable",
            Self::NotTrackable => "NotTrackable",
            Self::Failed(_) => "Failed",
        }
    }

    fn when(works: bool) -> Self {
        if works { Self::Available } else { Self::NotYet }
    }
}

/// Judges an applied object.
pub fn assess(of: &WorkResourceIdentifier, object: &Value) -> Availability {
    let judged = match (of.group.as_str(), of.version.as_str(), of.resource.as_str()) {
        ("apps", "v1", "deployments") => workloads::deployment(object),
        ("apps", "v1", "statefulsets") => workloads::stateful_set(object),
        ("apps", "v1", "daemonsets") => workloads::daemon_set(object),
        ("", "v1", "services") => service(object),
        ("apiextensions.k8s.io", "v1", "customresourcedefinitions") => definition(object),
        ("policy", "v1", "poddisruptionbudgets") => budget(object),
        // Other Jobs count as working, as in KubeFleet.
        ("batch", "v1", "jobs") if is_check(object) => job(object),
        ("", "v1", resource) if CORE_DATA.contains(&resource) => return Availability::Available,
        (group, "v1", resource) if DATA.contains(&(group, resource)) => {
            return Availability::Available;
        }
        _ => return Availability::NotTrackable,
    };
    judged.unwrap_or_else(|Unreadable { kind, field }| {
        let why = format!("{field} is not of the expected type");
        Availability::Failed(format!("failed to convert the unstructured object to {kind}: {why}"))
    })
}

/// Resources of the core group that work as soon as they exist.
const CORE_DATA: [&str; 6] =
    ["namespaces", "secrets", "configmaps", "serviceaccounts", "limitranges", "resourcequotas"];

/// The same in other groups, all in version `v1`.
const DATA: [(&str, &str); 12] = [
    ("rbac.authorization.k8s.io", "roles"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("networking.k8s.io", "networkpolicies"),
    ("networking.k8s.io", "ingressclasses"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "storageclasses"),
    ("storage.k8s.io", "csistoragecapacities"),
    ("apps", "controllerrevisions"),
    ("scheduling.k8s.io", "priorityclasses"),
];

/// A field that is not what its kind says.
struct Unreadable {
    kind: &'static str,
    field: String,
}

/// Reads fields of one object; what is absent or null is empty, as a typed client has it.
struct Reader<'a> {
    kind: &'static str,
    object: &'a Value,
}

impl<'a> Reader<'a> {
    fn at(&self, pointer: &str) -> Option<&'a Value> {
        self.object.pointer(pointer).filter(|value| !value.is_null())
    }

    fn number(&self, pointer: &str) -> Result<i64, Unreadable> {
        self.optional_number(pointer).map(Option::unwrap_or_default)
    }

    fn optional_number(&self, pointer: &str) -> Result<Option<i64>, Unreadable> {
        let value = self.at(pointer).map(|value| value.as_i64().ok_or_else(|| self.odd(pointer)));
        value.transpose()
    }

    fn word(&self, pointer: &str) -> Result<&'a str, Unreadable> {
        let value = self.at(pointer).map(|value| value.as_str().ok_or_else(|| self.odd(pointer)));
        value.transpose().map(Option::unwrap_or_default)
    }

    fn list(&self, pointer: &str) -> Result<&'a [Value], Unreadable> {
        let list = |value: &'a Value| value.as_array().ok_or_else(|| self.odd(pointer));
        let value = self.at(pointer).map(list);
        value.transpose().map(|list| list.map(Vec::as_slice).unwrap_or_default())
    }

    /// Status and reason of the condition of this type.
    fn condition(&self, of_type: &str) -> Result<Option<(&'a str, &'a str)>, Unreadable> {
        let word = |entry: &'a Value, field| entry.get(field).and_then(Value::as_str);
        let conditions = self.list("/status/conditions")?;
        let found = conditions.iter().find(|entry| word(entry, "type") == Some(of_type));
        Ok(found.map(|entry| {
            (word(entry, "status").unwrap_or_default(), word(entry, "reason").unwrap_or_default())
        }))
    }

    /// Whether the controller of the object has seen its latest version.
    fn is_observed(&self) -> Result<bool, Unreadable> {
        Ok(self.number("/status/observedGeneration")? == self.number("/metadata/generation")?)
    }

    fn odd(&self, pointer: &str) -> Unreadable {
        Unreadable { kind: self.kind, field: pointer[1..].replace('/', ".") }
    }
}

fn service(object: &Value) -> Result<Availability, Unreadable> {
    let read = Reader { kind: "a service", object };
    match read.word("/spec/type")? {
        "" | "ClusterIP" | "NodePort" => {
            // A headless service has no address but says so, which is all there is to wait for.
            read.list("/spec/clusterIPs")?;
            Ok(Availability::when(!read.word("/spec/clusterIPs/0")?.is_empty()))
        }
        "LoadBalancer" => {
            read.list("/status/loadBalancer/ingress")?;
            let ip = read.word("/status/loadBalancer/ingress/0/ip")?;
            let hostname = read.word("/status/loadBalancer/ingress/0/hostname")?;
            Ok(Availability::when(!ip.is_empty() || !hostname.is_empty()))
        }
        _ => Ok(Availability::NotTrackable),
    }
}

fn definition(object: &Value) -> Result<Availability, Unreadable> {
    let read = Reader { kind: "a custom resource definition", object };
    let holds = |of_type| Ok(matches!(read.condition(of_type)?, Some(("True", _))));
    Ok(Availability::when(holds("Established")? && holds("NamesAccepted")?))
}

fn job(object: &Value) -> Result<Availability, Unreadable> {
    let read = Reader { kind: "a job", object };
    Ok(Availability::when(matches!(read.condition("Complete")?, Some(("True", _)))))
}

fn budget(object: &Value) -> Result<Availability, Unreadable> {
    let read = Reader { kind: "a pod disruption budget", object };
    let allowed = read.number("/status/disruptionsAllowed")?;
    let consistent = match read.condition(DISRUPTION_ALLOWED)? {
        Some(("True", SUFFICIENT_PODS)) => allowed > 0,
        Some(("False", INSUFFICIENT_PODS)) => allowed == 0,
        _ => false,
    };
    Ok(Availability::when(consistent && read.is_observed()?))
}
