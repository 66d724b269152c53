//! What a member has to offer, summed up from its nodes, pods and namespaces.
//!
//! Amounts are exact; a pod counts from the moment it is bound to a node until it has
//! finished, so that two placements do not both count on the same core. Only processor
//! and memory are reported, as the scheduler compares no other.
//!
//! When this is collected, and what is said if it cannot be, is in `agent`.

mod from_api;
pub mod provider;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use flagship_api::cluster::{PropertyValue, ResourceUsage};
use flagship_api::condition::{ConditionDraft, draft, wire_time};
use flagship_api::condition_type::member_cluster as kind;
use flagship_api::keys::property;
use flagship_api::quantity;
use flagship_api::reason::properties as reason;
use flagship_base::quantity::Quantity;
use jiff::Timestamp;

/// Most namespaces that are reported.
pub const MOST_NAMESPACES: usize = 200;

/// Everything one collection looks at.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    /// The present moment.
    pub now: Timestamp,
    /// Version of the member's API server, if it could be asked.
    pub version: Option<&'a str>,
    /// All nodes.
    pub nodes: Vec<&'a Node>,
    /// All pods that take room.
    pub pods: Vec<&'a Amounts>,
    /// All namespaces by name; `None` if they are not to be reported.
    pub namespaces: Option<Vec<(&'a str, &'a Namespace)>>,
}

/// Processor and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amounts {
    /// Cores.
    pub cpu: Quantity,
    /// Bytes.
    pub memory: Quantity,
}

/// What a node offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// What it has.
    pub capacity: Amounts,
    /// What of it pods may use.
    pub allocatable: Amounts,
}

/// A namespace that is not on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// When it was made: the oldest are reported if there are too many.
    pub created: Option<Timestamp>,
    /// Name of the AppliedWork that owns it; empty if none does.
    pub applied_work: String,
}

/// What a member has to offer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Collected {
    /// Facts by name.
    pub properties: BTreeMap<String, PropertyValue>,
    /// Amounts.
    pub resource_usage: ResourceUsage,
    /// Namespaces with their AppliedWorks.
    pub namespaces: BTreeMap<String, String>,
    /// How the collection went, where that is not obvious.
    pub conditions: Vec<ConditionDraft>,
}

impl Amounts {
    /// Nothing.
    pub const ZERO: Self = Self { cpu: Quantity::ZERO, memory: Quantity::ZERO };

    fn plus(self, other: Self) -> Self {
        Self { cpu: self.cpu.plus(other.cpu), memory: self.memory.plus(other.memory) }
    }

    /// What is left; never less than nothing.
    fn without(self, other: Self) -> Self {
        let left = |have: Quantity, taken: Quantity| have.minus(taken).max(Quantity::ZERO);
        Self { cpu: left(self.cpu, other.cpu), memory: left(self.memory, other.memory) }
    }

    fn listed(self) -> BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity> {
        let rows = [("cpu", self.cpu), ("memory", self.memory)];
        rows.into_iter().map(|(name, amount)| (name.to_owned(), quantity::write(amount))).collect()
    }
}

/// Sums up what a member has to offer.
pub fn collect(seen: &Observed<'_>) -> Collected {
    let time = wire_time(seen.now);
    let fact = |name: &str, value: String| {
        (name.to_owned(), PropertyValue { value, observation_time: time.clone() })
    };
    let mut properties = BTreeMap::from([fact(property::NODE_COUNT, seen.nodes.len().to_string())]);
    properties.extend(seen.version.map(|version| fact(property::K8S_VERSION, version.to_owned())));
    let sum = |of: fn(&Node) -> Amounts| {
        seen.nodes.iter().fold(Amounts::ZERO, |sum, node| sum.plus(of(node)))
    };
    let allocatable = sum(|node| node.allocatable);
    let taken = seen.pods.iter().fold(Amounts::ZERO, |sum, pod| sum.plus(**pod));
    let resource_usage = ResourceUsage {
        capacity: sum(|node| node.capacity).listed(),
        allocatable: allocatable.listed(),
        available: allocatable.without(taken).listed(),
        observation_time: Some(time.clone()),
    };
    let mut collected = Collected { properties, resource_usage, ..Collected::default() };
    if let Some(namespaces) = &seen.namespaces {
        list_namespaces(namespaces, &mut collected);
    }
    collected
}

fn list_namespaces(all: &[(&str, &Namespace)], into: &mut Collected) {
    let mut by_age: Vec<_> = all.iter().collect();
    by_age.sort_by_key(|(name, namespace)| (namespace.created, *name));
    let tracked = by_age.iter().take(MOST_NAMESPACES);
    into.namespaces = tracked
        .map(|(name, namespace)| ((*name).to_owned(), namespace.applied_work.clone()))
        .collect();
    let subject = draft(kind::NAMESPACE_COLLECTION_SUCCEEDED);
    into.conditions.push(if all.len() > MOST_NAMESPACES {
        subject.is_false(reason::NAMESPACES_DEGRADED).because(
            "Namespaces are collected in a degraded mode since the number of namespaces reaches the track limit",
        )
    } else {
        subject
            .is_true(reason::NAMESPACES_SUCCEEDED)
            .because("All namespaces have been collected successfully")
    });
}
