//! What is derived from placements: one policy in force, whole versions, one binding a
//! cluster, Works that belong to somebody.

use std::collections::{BTreeMap, BTreeSet};

use flagship_api::binding::BindingState;
use flagship_api::keys::label;
use flagship_api::names::{ObjectKey, cluster_of_namespace};

use super::{BindingSeen, Check, Finding, HubContents, Owned, count};
use flagship_rules::model::{PolicySnapshot, ResourceSnapshot};

const AREA: &str = "placements";

pub(super) fn checks(seen: &HubContents) -> Vec<Check> {
    let (placements, bindings) = (seen.placements.len(), seen.bindings.len());
    let in_force = match placements {
        0 => "no placements yet".to_owned(),
        some => format!("{} with one policy in force each", count(some, "placement")),
    };
    vec![
        Check::new(AREA, "policies", in_force, policies(seen)),
        Check::new(
            AREA,
            "versions",
            format!("{} of versions, all whole", count(seen.resources.len(), "object")),
            versions(seen),
        ),
        Check::new(
            AREA,
            "bindings",
            format!("{} that belong together", count(bindings, "binding")),
            bindings_belong(seen),
        ),
        Check::new(
            AREA,
            "works",
            format!("{} with a binding each", count(seen.works.len(), "work")),
            works(seen),
        ),
    ]
}

fn policies(seen: &HubContents) -> Vec<Finding> {
    let mut findings = orphans(seen, &seen.policies, "schedulingpolicysnapshots");
    let mut in_force: BTreeMap<&ObjectKey, Vec<&PolicySnapshot>> = BTreeMap::new();
    for policy in seen.policies.iter().filter(|policy| policy.value.latest) {
        if let Some(placement) = &policy.placement {
            in_force.entry(placement).or_default().push(&policy.value);
        }
    }
    for placement in seen.placements.iter().filter(|placement| !placement.deleting) {
        let key = placement.key();
        let mut latest = in_force.remove(&key).unwrap_or_default();
        latest.sort_by_key(|policy| number(policy.index.as_deref()));
        let names: Vec<&str> = latest.iter().map(|policy| policy.name.as_str()).collect();
        match names.as_slice() {
            [_] => {}
            [] => findings.push(Finding::of_absence(
                format!("{key} has no policy in force: the hub has not made its snapshot"),
                format!("flagship why placement {}", words(&key)),
            )),
            [first, ..] => {
                let resource = resource("schedulingpolicysnapshots", &key);
                let label = label::IS_LATEST_SNAPSHOT;
                findings.push(Finding::new(
                    format!("{key} has {} policies in force: {}", names.len(), names.join(", ")),
                    kubectl(&key, &format!("label {resource} {first} {label}=false --overwrite")),
                ));
            }
        }
    }
    findings
}

fn versions(seen: &HubContents) -> Vec<Finding> {
    let mut findings = orphans(seen, &seen.resources, "resourcesnapshots");
    let mut groups: BTreeMap<(&ObjectKey, &str), Vec<&ResourceSnapshot>> = BTreeMap::new();
    for snapshot in &seen.resources {
        let Some(placement) = &snapshot.placement else { continue };
        let index = snapshot.value.index.as_deref().unwrap_or_default();
        groups.entry((placement, index)).or_default().push(&snapshot.value);
    }
    let mut latest: BTreeMap<&ObjectKey, Vec<&str>> = BTreeMap::new();
    for ((placement, index), group) in &groups {
        if seen.placement(placement).is_none_or(|placement| placement.deleting) {
            continue;
        }
        let masters: Vec<&&ResourceSnapshot> = group.iter().filter(|s| s.hash.is_some()).collect();
        let resource = resource("resourcesnapshots", placement);
        let which = format!(
            "{}={},{}={index}",
            label::PARENT_PLACEMENT,
            placement.name,
            label::RESOURCE_INDEX
        );
        // The hub takes a new version as soon as the latest is gone.
        let fix = kubectl(placement, &format!("delete {resource} -l {which}"));
        let what = match masters.as_slice() {
            [] => format!("version {index} of {placement} has no first object"),
            [master] => {
                let expected = master.count.as_deref().and_then(|n| n.parse::<usize>().ok());
                match expected {
                    Some(expected) if expected == group.len() => String::new(),
                    Some(expected) => format!(
                        "version {index} of {placement} is incomplete: {} of {expected} objects",
                        group.len()
                    ),
                    None => format!("version {index} of {placement} does not say how many it has"),
                }
            }
            many => format!("version {index} of {placement} has {} first objects", many.len()),
        };
        if !what.is_empty() {
            findings.push(Finding::of_absence(what, fix));
        }
        if masters.iter().any(|master| master.latest) {
            latest.entry(placement).or_default().push(index);
        }
    }
    for (placement, mut indexes) in latest.into_iter().filter(|(_, found)| found.len() > 1) {
        indexes.sort_by_key(|index| number(Some(index)));
        let resource = resource("resourcesnapshots", placement);
        let label = label::IS_LATEST_SNAPSHOT;
        let which = format!("{}={}", label::PARENT_PLACEMENT, placement.name);
        let which = format!("{which},{}={}", label::RESOURCE_INDEX, indexes[0]);
        findings.push(Finding::new(
            format!("{placement} has {} latest versions: {}", indexes.len(), indexes.join(", ")),
            kubectl(placement, &format!("label {resource} -l {which} {label}=false --overwrite")),
        ));
    }
    findings
}

fn bindings_belong(seen: &HubContents) -> Vec<Finding> {
    let mut findings = orphans(seen, &seen.bindings, "resourcebindings");
    let versions: BTreeSet<&ObjectKey> = seen.resources.iter().map(|found| &found.key).collect();
    let mut there: BTreeMap<(&ObjectKey, &str), Vec<&BindingSeen>> = BTreeMap::new();
    for binding in seen.bindings.iter().filter(|binding| !binding.value.deleting) {
        let Some(placement) = &binding.placement else { continue };
        let cluster = binding.value.cluster();
        let resource = resource("resourcebindings", &binding.key);
        if !seen.members.contains_key(cluster) {
            findings.push(Finding::of_absence(
                format!("binding {} is for {cluster}, which is no member", binding.key),
                kubectl(&binding.key, &format!("delete {resource} {}", binding.key.name)),
            ));
        }
        if binding.value.spec.state != BindingState::Unscheduled {
            there.entry((placement, cluster)).or_default().push(binding);
        }
        let snapshot = binding.value.spec.resource_snapshot_name.as_str();
        let named = binding.value.spec.state == BindingState::Bound && !snapshot.is_empty();
        let version = ObjectKey::new(binding.key.namespace.as_deref(), snapshot);
        if named && !versions.contains(&version) {
            findings.push(Finding::of_absence(
                format!("binding {} holds version {snapshot}, which is gone", binding.key),
                format!("roll out another:  flagship run {}", words(placement)),
            ));
        }
    }
    for ((placement, cluster), twins) in there.into_iter().filter(|(_, found)| found.len() > 1) {
        let mut names: Vec<&str> = twins.iter().map(|twin| twin.key.name.as_str()).collect();
        names.sort_unstable();
        let resource = resource("resourcebindings", placement);
        let unwritten = twins.iter().find(|twin| twin.value.status.conditions.is_empty());
        let spare = unwritten.map_or(names[names.len() - 1], |twin| &twin.key.name);
        findings.push(Finding::of_absence(
            format!("{placement} has {} bindings on {cluster}: {}", twins.len(), names.join(", ")),
            kubectl(placement, &format!("delete {resource} {spare}")),
        ));
    }
    findings
}

fn works(seen: &HubContents) -> Vec<Finding> {
    let bindings: BTreeMap<&ObjectKey, &BindingSeen> =
        seen.bindings.iter().map(|binding| (&binding.key, binding)).collect();
    let mut findings = Vec::new();
    for work in seen.works.iter().filter(|work| !work.value.deleting) {
        let fix = kubectl(&work.key, &format!("delete works.{} {}", GROUP, work.key.name));
        let owner = work.value.owner();
        let binding = owner.as_ref().and_then(|owner| bindings.get(owner));
        let home = work.key.namespace.as_deref().and_then(cluster_of_namespace);
        match (&owner, binding) {
            // What nobody labelled is nobody's business: people may write Works themselves.
            (None, _) => {}
            (Some(owner), None) => findings.push(Finding::of_absence(
                format!("work {} belongs to binding {owner}, which is gone", work.key),
                fix,
            )),
            (Some(owner), Some(binding)) if home != Some(binding.value.cluster()) => {
                let cluster = binding.value.cluster();
                findings.push(Finding::of_absence(
                    format!("work {} belongs to binding {owner}, which is for {cluster}", work.key),
                    fix,
                ));
            }
            _ => {}
        }
    }
    findings
}

/// Things whose placement is gone.
fn orphans<V>(seen: &HubContents, all: &[Owned<V>], plural: &str) -> Vec<Finding> {
    let placements: BTreeSet<ObjectKey> = seen.placements.iter().map(|p| p.key()).collect();
    let deleting: BTreeSet<&ObjectKey> = seen.deleting.iter().map(|object| &object.key).collect();
    let lost = all.iter().filter(|owned| {
        let placement = owned.placement.as_ref();
        placement.is_none_or(|placement| !placements.contains(placement))
            && !deleting.contains(&owned.key)
    });
    let finding = |owned: &Owned<V>| {
        let whose = match &owned.placement {
            Some(placement) => format!("belongs to placement {placement}, which is gone"),
            None => "says of no placement that it belongs to it".to_owned(),
        };
        let resource = resource(plural, &owned.key);
        Finding::of_absence(
            format!("{} {} {whose}", resource.split('.').next().unwrap_or_default(), owned.key),
            kubectl(&owned.key, &format!("delete {resource} {}", owned.key.name)),
        )
    };
    lost.map(finding).collect()
}

/// An index as a number, so that 10 comes after 9; what is none comes first.
fn number(index: Option<&str>) -> Option<u64> {
    index.and_then(|index| index.parse().ok())
}

const GROUP: &str = flagship_api::keys::group::PLACEMENT;

/// `clusterresourcebindings.group` or `resourcebindings.group`.
pub(super) fn resource(plural: &str, key: &ObjectKey) -> String {
    let prefix = if key.namespace.is_none() { "cluster" } else { "" };
    format!("{prefix}{plural}.{GROUP}")
}

/// A command for kubectl on the hub, in the namespace of an object.
pub(super) fn kubectl(key: &ObjectKey, what: &str) -> String {
    let namespace = key.namespace.as_deref();
    let flag = namespace.map(|namespace| format!("-n {namespace} ")).unwrap_or_default();
    format!("kubectl --context hub {flag}{what}")
}

/// An object as our own commands take it.
pub(super) fn words(key: &ObjectKey) -> String {
    match &key.namespace {
        Some(namespace) => format!("{} -n {namespace}", key.name),
        None => key.name.clone(),
    }
}
