//! What must not be created on a hub: it has no nodes, and what a user means to place
//! would come to life here.

use flagship_api::names::is_reserved_namespace;

use super::{Answer, Options, Request};

/// Judges a new object that is none of ours. `None` for kinds nobody minds.
pub fn workload(request: &Request<'_>, options: Options) -> Option<Answer> {
    let kind = (request.kind.group.as_str(), request.kind.kind.as_str());
    let minded = match kind {
        ("", "Pod") | ("apps", "ReplicaSet") => !options.workloads_run_here,
        ("policy", "PodDisruptionBudget") => !options.pod_disruption_budgets,
        _ => false,
    };
    if !minded {
        return None;
    }
    let Request { namespace, name, .. } = request;
    if is_reserved_namespace(namespace) {
        return Some(Answer::Allowed(String::new()));
    }
    Some(Answer::Denied(match kind.1 {
        "Pod" => format!("Pod {namespace}/{name} creation is disallowed in the fleet hub cluster"),
        "ReplicaSet" => {
            format!(
                "ReplicaSet {namespace}/{name} creation is disallowed in the fleet hub cluster."
            )
        }
        _ => format!(
            "PDBs {namespace}/{name} cannot be directly created in the hub cluster due to potential side effects; to place a PDB to member clusters, consider wrapping it in a resource envelope."
        ),
    }))
}
