//! Requirements on cluster properties: their names, their values, and whether any cluster
//! could meet all of them.

use std::collections::BTreeMap;

use flagship_api::keys::property::RESOURCE_PREFIX;
use flagship_api::policy::{
    PropertySelectorOperator as Operator, PropertySelectorRequirement, PropertySorter,
};
use flagship_api::property::Capacity;
use flagship_base::go_number::quoted;
use flagship_base::names;
use flagship_base::quantity::Quantity;

use super::Mistakes;

/// Checks the requirements of one term.
pub fn check_requirements(wanted: &[PropertySelectorRequirement], mistakes: &mut Mistakes) {
    let mut by_name: BTreeMap<&str, Vec<(&Operator, Quantity)>> = BTreeMap::new();
    for requirement in wanted {
        let name = requirement.name.as_str();
        if let Err(error) = check_name(name) {
            mistakes.add(format!("invalid property name {name}: {error}"));
        }
        match read(requirement) {
            Ok(bound) => by_name.entry(name).or_default().push(bound),
            Err(error) => {
                mistakes.add(format!("invalid requirement on property {name}: {error}"));
            }
        }
    }
    for (name, bounds) in by_name {
        if let Err(error) = check_together(&bounds) {
            mistakes.add(format!("inconsistent requirements on property {name}: {error}"));
        }
    }
}

/// Checks what clusters are ranked by. Its order can only be one of two.
pub fn check_sorter(sorter: &PropertySorter, mistakes: &mut Mistakes) {
    if let Err(error) = check_name(&sorter.name) {
        mistakes.add(error);
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let whole = |name: &str| match names::qualified_name(name).as_slice() {
        [] => Ok(()),
        problems => Err(format!("property name {name} is not valid: {}", problems.join("; "))),
    };
    if let Some(resource) = name.strip_prefix(RESOURCE_PREFIX) {
        let Some((capacity, _)) = resource.split_once('-') else {
            return Err(format!(
                "invalid resource property name {name}, expected format is [PREFIX]/[CAPACITY_TYPE]-[RESOURCE_NAME]"
            ));
        };
        if capacity.parse::<Capacity>().is_err() {
            return Err(format!(
                "invalid capacity type in resource property name {name}, supported values are [allocatable available total]"
            ));
        }
        return whole(name);
    }
    let Some((first, rest)) = name.split_once('/') else { return whole(name) };
    let (domain, qualified) = (names::dns1123_subdomain(first), names::qualified_name(first));
    if !domain.is_empty() && !qualified.is_empty() {
        return Err(format!(
            "property name first segment {first} is not valid: it is neither a valid DNS subdomain ({}) nor a valid qualified name ({})",
            domain.join("; "),
            qualified.join("; ")
        ));
    }
    for segment in rest.split('/') {
        let problems = names::qualified_name(segment);
        if !problems.is_empty() {
            let problems = problems.join("; ");
            return Err(format!("property name segment {segment} is not valid: {problems}"));
        }
    }
    Ok(())
}

fn read(wanted: &PropertySelectorRequirement) -> Result<(&Operator, Quantity), String> {
    let operator = match &wanted.operator {
        Operator::Gt => "Gt",
        Operator::Ge => "Ge",
        Operator::Eq => "Eq",
        Operator::Ne => "Ne",
        Operator::Lt => "Lt",
        Operator::Le => "Le",
        Operator::Other(word) => return Err(format!("unsupported operator {word}")),
    };
    let [value] = wanted.values.as_slice() else {
        let got = wanted.values.len();
        return Err(format!("operator {operator} requires exactly one value, got {got}"));
    };
    let quantity = value.parse().map_err(|error| {
        format!("value {} is not a valid resource.Quantity: {error}", quoted(value))
    })?;
    Ok((&wanted.operator, quantity))
}

/// One end of what is allowed; `open` if the end itself is not.
#[derive(Clone, Copy)]
struct End {
    at: Quantity,
    open: bool,
}

/// Whether some value meets all requirements on one property.
fn check_together(bounds: &[(&Operator, Quantity)]) -> Result<(), String> {
    let mut exact: Option<Quantity> = None;
    let (mut lowest, mut highest): (Option<End>, Option<End>) = (None, None);
    for (operator, at) in bounds.iter().copied() {
        let open = matches!(operator, Operator::Gt | Operator::Lt);
        match operator {
            Operator::Eq => {
                if let Some(other) = exact.filter(|other| *other != at) {
                    return Err(format!("conflicting Eq values {other} and {at}"));
                }
                exact = Some(at);
            }
            Operator::Gt | Operator::Ge => {
                let tighter = |old: End| at > old.at || (at == old.at && open);
                if lowest.is_none_or(tighter) {
                    lowest = Some(End { at, open });
                }
            }
            Operator::Lt | Operator::Le => {
                let tighter = |old: End| at < old.at || (at == old.at && open);
                if highest.is_none_or(tighter) {
                    highest = Some(End { at, open });
                }
            }
            Operator::Ne | Operator::Other(_) => {}
        }
    }
    let excluded = |value| bounds.iter().any(|(op, at)| **op == Operator::Ne && *at == value);
    if let Some(value) = exact.filter(|value| excluded(*value)) {
        return Err(format!("conflicting Eq and Ne on same value {value}"));
    }
    if let (Some(low), Some(high)) = (lowest, highest)
        && (low.at > high.at || (low.at == high.at && (low.open || high.open)))
    {
        let (low, high) = (low.at, high.at);
        return Err(format!("lower bound ({low}) and upper bound ({high}) exclude all values"));
    }
    let Some(value) = exact else { return Ok(()) };
    if let Some(low) = lowest.filter(|low| value < low.at || (value == low.at && low.open)) {
        return Err(format!("eq value {value} violates lower bound {}", low.at));
    }
    if let Some(high) = highest.filter(|high| value > high.at || (value == high.at && high.open)) {
        return Err(format!("eq value {value} violates upper bound {}", high.at));
    }
    Ok(())
}
