//! What is kept of nodes, pods and namespaces.

use std::collections::BTreeMap;

use flagship_api::keys::group;
use flagship_api::quantity;
use flagship_base::quantity::Quantity;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;

use super::{Amounts, Namespace, Node};

impl Node {
    /// Reads a node. An amount that cannot be read counts as nothing.
    pub fn read(node: &core::Node) -> Self {
        let status = node.status.as_ref();
        Self {
            capacity: amounts(status.and_then(|status| status.capacity.as_ref())),
            allocatable: amounts(status.and_then(|status| status.allocatable.as_ref())),
        }
    }
}

impl Amounts {
    /// What a pod has asked for, if it is bound to a node and has not finished.
    pub fn of_pod(pod: &core::Pod) -> Option<Self> {
        let spec = pod.spec.as_ref()?;
        spec.node_name.as_ref().filter(|node| !node.is_empty())?;
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if matches!(phase, Some("Succeeded" | "Failed")) {
            return None;
        }
        let asked = spec.containers.iter().map(|container| {
            amounts(container.resources.as_ref().and_then(|needs| needs.requests.as_ref()))
        });
        Some(asked.fold(Self::ZERO, Self::plus))
    }
}

impl Namespace {
    /// Reads a namespace, unless it is on its way out.
    pub fn read(namespace: &core::Namespace) -> Option<Self> {
        let meta = &namespace.metadata;
        if meta.deletion_timestamp.is_some() {
            return None;
        }
        let mut owners = meta.owner_references.iter().flatten();
        let owner = owners.find(|owner| {
            owner.kind == "AppliedWork" && owner.api_version == group::PLACEMENT_V1BETA1
        });
        Some(Self {
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            applied_work: owner.map(|owner| owner.name.clone()).unwrap_or_default(),
        })
    }
}

fn amounts(listed: Option<&BTreeMap<String, WireQuantity>>) -> Amounts {
    let amount = |name: &str| {
        let wire = listed.and_then(|listed| listed.get(name));
        wire.and_then(|wire| quantity::read(wire).ok()).unwrap_or(Quantity::ZERO)
    };
    Amounts { cpu: amount("cpu"), memory: amount("memory") }
}
