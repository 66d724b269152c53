//! Evictions and budgets that could never do what they say.

use flagship_api::eviction::{
    ClusterResourcePlacementDisruptionBudget, ClusterResourcePlacementEviction,
};
use flagship_api::policy::PlacementType;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Answer, Context, Request, read};

/// Judges a new eviction. One of a placement that nobody knows is judged when it is
/// carried out.
pub fn eviction(request: &Request<'_>, context: &dyn Context) -> Result<Answer, Answer> {
    let object: ClusterResourcePlacementEviction = read(request.object)?;
    let name = &object.spec.placement_name;
    let Some(placement) = context.placement(name) else { return Ok(unknown(name)) };
    if placement.deleting {
        return Ok(Answer::Denied(format!("cluster resource placement {name} is being deleted")));
    }
    if placement.picks() == PlacementType::PickFixed {
        return Ok(Answer::Denied(
            "cluster resource placement policy type PickFixed is not supported".to_owned(),
        ));
    }
    Ok(Answer::Allowed(String::new()))
}

/// Judges a budget, which has the name of its placement.
pub fn budget(request: &Request<'_>, context: &dyn Context) -> Result<Answer, Answer> {
    let object: ClusterResourcePlacementDisruptionBudget = read(request.object)?;
    let Some(placement) = context.placement(request.name) else { return Ok(unknown(request.name)) };
    let all = placement.picks() == PlacementType::PickAll;
    let unsupported = "cluster resource placement policy type PickAll is not supported with";
    Ok(match (&object.spec.max_unavailable, &object.spec.min_available) {
        (Some(most), _) if all => {
            Answer::Denied(format!("{unsupported} any specified max unavailable {}", written(most)))
        }
        (_, Some(least @ IntOrString::String(_))) if all => Answer::Denied(format!(
            "{unsupported} min available as a percentage {}",
            written(least)
        )),
        _ => Answer::Allowed(String::new()),
    })
}

fn unknown(placement: &str) -> Answer {
    Answer::Allowed(format!("there is no ClusterResourcePlacement {placement} yet"))
}

fn written(amount: &IntOrString) -> String {
    match amount {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.clone(),
    }
}
