//! What the member agent itself lives by, which no Work may touch.
//!
//! A Work that took over an AppliedWork would own what another Work brought; one that took
//! over the agent's namespace would delete the agent with its placement. So manifests of
//! such objects are refused by name, and objects that say they are the agent's are not
//! taken over. Whose objects others are is decided in `owners` and `take_over`.

use flagship_api::keys::{group, own};
use flagship_api::kinds::FleetKind;
use flagship_api::names::{HUB_LEASE, MEMBER_LEASE};
use flagship_api::work::{AppliedWork, WorkResourceIdentifier};
use serde_json::Value;

use super::owners::APPLIED_WORK;

/// Why no Work may touch what this manifest names; `home` is the namespace of the agent.
pub(super) fn refused(of: &WorkResourceIdentifier, object: &Value, home: &str) -> Option<String> {
    let WorkResourceIdentifier { group, kind, namespace, name, .. } = of;
    let belongs = match (group.as_str(), kind.as_str()) {
        (group::PLACEMENT, APPLIED_WORK) => true,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            *name == AppliedWork::INFO.crd_name()
        }
        ("", "Namespace") => name == home,
        ("coordination.k8s.io", "Lease") => [HUB_LEASE, MEMBER_LEASE].contains(&name.as_str()),
        _ => false,
    };
    let place = match namespace.as_str() {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    };
    if belongs || namespace == home {
        return Some(format!("{place} belongs to the member agent, and no placement may touch it"));
    }
    let gives = group == RBAC && binds_agent(object, home);
    gives.then(|| format!("{place} gives rights to the member agent, which no placement may"))
}

/// Whether an object on the member is the agent's own.
pub(super) fn is_agents(live: &Value, home: &str) -> bool {
    let marked = live.pointer("/metadata/labels").and_then(|labels| labels.get(own::AGENT));
    marked.is_some() || binds_agent(live, home)
}

const RBAC: &str = "rbac.authorization.k8s.io";

/// Whether a role binding names a service account of the agent's namespace.
fn binds_agent(binding: &Value, home: &str) -> bool {
    let subjects = binding.get("subjects").and_then(Value::as_array);
    subjects.into_iter().flatten().any(|subject| {
        let word = |field: &str| subject.get(field).and_then(Value::as_str).unwrap_or_default();
        word("kind") == "ServiceAccount" && word("namespace") == home
    })
}
