//! Copies the status of an applied resource from its one member to the selected object on the hub.
//!
//! Only for placements that ask for it and have a single cluster: two members would
//! write over each other forever. The strategy is looked at first, so that a placement
//! that never asked is never told what it does wrong.

use flagship_api::apply_strategy::{
    ReportBackDestination, ReportBackStrategy, ReportBackStrategyType,
};
use flagship_api::condition::{Conditions, Generation};
use flagship_api::condition_type::work::APPLIED;
use flagship_api::keys::label;
use flagship_api::placement::PlacementSpec;
use flagship_api::placement_status::ResourceIdentifier;
use flagship_api::policy::PlacementType;
use flagship_api::work::{ManifestCondition, Work, WorkResourceIdentifier};
use serde_json::{Map, Value};

/// Whether statuses of a placement come back to the selected objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    /// Nobody asked for it.
    Closed,
    /// Somebody did, and cannot have it: the policy picks more than one cluster.
    Refused(String),
    /// They do.
    Open,
}

/// A status on its way to the hub's own object.
#[derive(Debug, Clone, PartialEq)]
pub struct Copy {
    /// Which object.
    pub to: WorkResourceIdentifier,
    /// The new `.status`, or why it cannot be read.
    pub status: Result<Value, String>,
}

/// Whether a Work can have anything to copy.
pub fn is_asked_for(strategy: Option<&ReportBackStrategy>) -> bool {
    strategy.is_some_and(|strategy| {
        strategy.r#type == ReportBackStrategyType::Mirror
            && strategy.destination == Some(ReportBackDestination::OriginalResource)
    })
}

/// Whether a placement lets statuses back.
pub fn gate(spec: &PlacementSpec) -> Gate {
    let strategy = spec.strategy.as_ref().and_then(|s| s.report_back_strategy.as_ref());
    if !is_asked_for(strategy) {
        return Gate::Closed;
    }
    const TAIL: &str = "cannot back-report status to original resources";
    const HEAD: &str = "the scheduling policy in use is of the";
    let Some(policy) = &spec.policy else {
        return Gate::Refused(format!(
            "no scheduling policy specified (the PickAll type is in use); {TAIL}"
        ));
    };
    let refused = |what: &str| Gate::Refused(format!("{HEAD} {what}; {TAIL}"));
    match policy.placement_type.unwrap_or_default() {
        PlacementType::PickAll => refused("PickAll type"),
        PlacementType::PickFixed => match policy.cluster_names.len() {
            1 => Gate::Open,
            n => refused(&format!(
                "PickFixed type, but it has more than one target cluster ({n} clusters)"
            )),
        },
        PlacementType::PickN => match policy.number_of_clusters {
            Some(1) => Gate::Open,
            Some(_) => refused("PickN type, but the number of target clusters is not set to 1"),
            None => refused("PickN type, but no number of target clusters is specified"),
        },
    }
}

/// What a Work brings back: statuses of resources that are applied now, that the placement
/// still selects, and that exist on the hub in their own right.
pub fn copies(work: &Work, selected: &[ResourceIdentifier]) -> Vec<Copy> {
    let Some(status) = &work.status else { return Vec::new() };
    let wrapped = work
        .metadata
        .labels
        .as_ref()
        .is_some_and(|labels| labels.contains_key(label::ENVELOPE_TYPE));
    if wrapped || !status.conditions.is_true_at(APPLIED, Generation::of(&work.metadata)) {
        return Vec::new();
    }
    let chosen = status.manifest_conditions.iter().filter(|one| {
        selected.iter().any(|known| known.envelope.is_none() && is_same(&one.identifier, known))
    });
    chosen.filter_map(copy).collect()
}

fn copy(from: &ManifestCondition) -> Option<Copy> {
    let observed = from.back_reported_status.as_ref()?.observed_status.as_ref()?;
    let status = match observed.parse::<Map<String, Value>>() {
        Ok(mut wrapper) => Ok(wrapper.remove("status").filter(|status| !status.is_null())?),
        Err(error) => Err(format!("failed to unmarshal back-reported status: {error}")),
    };
    Some(Copy { to: from.identifier.clone(), status })
}

fn is_same(told: &WorkResourceIdentifier, known: &ResourceIdentifier) -> bool {
    told.group == known.group
        && told.version == known.version
        && told.kind == known.kind
        && told.namespace == known.namespace
        && told.name == known.name
}
