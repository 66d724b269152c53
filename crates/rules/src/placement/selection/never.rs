//! What is never propagated: namespaces of the system, and objects clusters make by
//! themselves.

use std::collections::BTreeSet;

use flagship_api::keys::label;
use flagship_api::names::is_reserved_namespace;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::hub::{Hub, Kind, Watch};
use crate::placement::pass_error::PassError;

/// Namespaces an operator keeps on the hub, besides the reserved ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedNamespaces(BTreeSet<String>);

impl SkippedNamespaces {
    /// Reads `--skipped-propagating-namespaces`: names between `;` or `,`.
    pub fn read(option: &str) -> Self {
        let names = option.split([';', ',']).map(str::trim).filter(|name| !name.is_empty());
        Self(names.map(str::to_owned).collect())
    }

    /// Whether nothing of this namespace may leave the hub.
    pub fn keep_back(&self, namespace: &str) -> bool {
        namespace == "default" || is_reserved_namespace(namespace) || self.0.contains(namespace)
    }
}

/// Whether this object stays on the hub whatever selects it.
pub fn stays(
    hub: &dyn Hub,
    kind: &Kind,
    object: &Value,
    workloads_run_here: bool,
) -> Result<bool, PassError> {
    let metadata = &object["metadata"];
    if !metadata["deletionTimestamp"].is_null() {
        return Ok(true);
    }
    let names = (kind.group.as_str(), kind.version.as_str(), kind.kind.as_str());
    let name = metadata["name"].as_str().unwrap_or_default();
    Ok(match names {
        ("apps", "v1", "ReplicaSet" | "ControllerRevision") => {
            metadata["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty())
        }
        ("", "v1", "ConfigMap") => name == "kube-root-ca.crt",
        ("", "v1", "ServiceAccount") => name == "default",
        ("", "v1", "Secret") => object["type"] == "kubernetes.io/service-account-token",
        ("", "v1", "PersistentVolumeClaim") => workloads_run_here,
        ("", "v1", "Endpoints") => has_service(hub, metadata["namespace"].as_str(), name)?,
        ("discovery.k8s.io", "v1", "EndpointSlice") => {
            metadata["labels"].get(label::ENDPOINT_SLICE_MANAGED_BY).is_some()
        }
        _ => false,
    })
}

/// Endpoints of a Service are made again wherever the Service goes.
fn has_service(hub: &dyn Hub, namespace: Option<&str>, name: &str) -> Result<bool, PassError> {
    let service = Kind::new("", "v1", "Service");
    let service = hub.look_up(&service).map_err(PassError::Server)?;
    if service.watch != Watch::Synced {
        return Err(not_synced(&service.gvr()));
    }
    Ok(hub.get(service, namespace, name).map_err(PassError::Server)?.is_some())
}

/// Some objects of the type may not be visible yet.
pub fn not_synced(gvr: &str) -> PassError {
    PassError::Expected(format!("informer cache for {gvr} is not synced yet"))
}
