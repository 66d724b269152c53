//! The hub itself: its definitions, who leads, what one may do there, and the clocks.

use std::collections::BTreeMap;

use flagship_api::names::SYSTEM_NAMESPACE;
use flagship_api::{crd, kinds};
use jiff::SignedDuration;
use serde_json::Value;

use super::members::heard;
use super::{Check, Finding, HubContents, Right, Unlisted, count};

const AREA: &str = "hub";

/// Clocks may differ by this much: waits are not shortened by more (law S5).
const SKEW: SignedDuration = SignedDuration::from_secs(5);

/// A hub that passes nothing on for so long does not work.
const SILENCE: SignedDuration = SignedDuration::from_secs(30);

pub(super) fn checks(seen: &HubContents) -> Vec<Check> {
    vec![
        Check::new(AREA, "answers", seen.version.clone(), not_ready(seen)),
        definitions(seen),
        leads(seen),
        rights(seen),
        clocks(seen),
        readable(seen),
    ]
}

fn not_ready(seen: &HubContents) -> Vec<Finding> {
    let finding = |why: &String| {
        let fix = match why.contains("the disk of") {
            true => "make room on that disk; objects can still be deleted",
            false => "kubectl --context hub get --raw '/readyz?verbose', and the server's log",
        };
        Finding::new(format!("the API server is not ready: {why}"), fix)
    };
    seen.unready.iter().map(finding).collect()
}

fn definitions(seen: &HubContents) -> Check {
    let name = "definitions";
    let Some(found) = &seen.definitions else {
        return Check::skipped(AREA, name, "you may not read CustomResourceDefinitions");
    };
    let findings: Vec<Finding> = kinds::all()
        .iter()
        .filter_map(|info| {
            let wanted = crd::of(info.kind)?;
            let what = wrong_with(&wanted, found.get(&info.crd_name()))?;
            let fix = format!(
                "flagship crds {} | kubectl --context hub apply --server-side --force-conflicts -f -",
                info.plural
            );
            Some(Finding::new(format!("{} {what}", info.crd_name()), fix))
        })
        .collect();
    let all = kinds::all().len();
    Check::new(AREA, name, format!("all {all} are installed as this binary wants them"), findings)
}

/// What keeps a definition from being the one that is wanted.
fn wrong_with(wanted: &Value, found: Option<&Value>) -> Option<String> {
    let Some(found) = found else { return Some("is not installed".to_owned()) };
    let by_name = |definition: &Value| -> BTreeMap<String, Value> {
        let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
        let named = |v: &Value| Some((v["name"].as_str()?.to_owned(), v.clone()));
        versions.filter_map(named).collect()
    };
    let there = by_name(found);
    for (name, wanted) in by_name(wanted) {
        let Some(there) = there.get(&name).filter(|there| there["served"] == true) else {
            return Some(format!("does not serve {name}"));
        };
        if wanted["storage"] != there["storage"] {
            return Some(format!("does not store the version that is wanted; {name} differs"));
        }
        let schema = "openAPIV3Schema";
        if let Some(at) = lacks(&wanted["schema"][schema], &there["schema"][schema]) {
            return Some(format!("has another schema in {name}, at {at}"));
        }
    }
    let said = found["status"]["conditions"].as_array().into_iter().flatten();
    let established = said.clone().any(|c| c["type"] == "Established" && c["status"] == "True");
    (!established).then(|| "is not established".to_owned())
}

/// The first place where a schema lacks something that is wanted. What it has besides, and
/// how it is described, does not matter.
fn lacks(wanted: &Value, found: &Value) -> Option<String> {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            let told = wanted.iter().filter(|(key, value)| {
                // A property may be called so; what describes one is a text.
                !(key.as_str() == "description" && value.is_string())
            });
            told.into_iter().find_map(|(key, value)| {
                let below = lacks(value, found.get(key).unwrap_or(&Value::Null))?;
                Some(if below.is_empty() { key.clone() } else { format!("{key}.{below}") })
            })
        }
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            wanted.iter().zip(found).find_map(|(wanted, found)| lacks(wanted, found))
        }
        _ => (wanted != found).then(String::new),
    }
}

/// A hub that leads renews its lease; one without a lease shows by what it passes on.
fn leads(seen: &HubContents) -> Check {
    let name = "leads";
    let start = "start it:  flagship hub --kubeconfig HUB --leader-elect=true   (or: flagship up)";
    if !seen.namespaces.contains(SYSTEM_NAMESPACE) {
        let what = format!("namespace {SYSTEM_NAMESPACE} is missing: a hub keeps its lease there");
        let fix = format!("kubectl --context hub create namespace {SYSTEM_NAMESPACE}");
        // Only namespaces matter here, whatever else could not be listed.
        let by_absence = seen.unlisted.contains_key("namespaces");
        return Check::new(AREA, name, "", vec![Finding { by_absence, ..Finding::new(what, fix) }]);
    }
    if let Some(lease) = &seen.lease {
        let ago = lease.renewed.map(|renewed| seen.now.duration_since(renewed));
        let fresh = ago.is_some_and(|ago| ago <= lease.lasts);
        let said = match ago {
            Some(ago) => format!("{} renewed its lease {}s ago", lease.holder, ago.as_secs()),
            None => "nobody holds the lease".to_owned(),
        };
        let findings = if fresh { vec![] } else { vec![Finding::new(said.clone(), start)] };
        return Check::new(AREA, name, said, findings);
    }
    let behind = seen.heartbeats.iter().filter_map(|(member, beat)| {
        let passed_on = seen.members.get(member).and_then(heard);
        let behind = (*beat)?.duration_since(passed_on?);
        (behind > SILENCE).then_some((behind, member))
    });
    match behind.max() {
        Some((_, member)) => {
            let what = format!("no hub passes on what {member} says");
            Check::new(AREA, name, "", vec![Finding::new(what, start)])
        }
        None if seen.members.is_empty() => {
            Check::skipped(AREA, name, "there is no lease, and no member to tell by")
        }
        None => Check::new(AREA, name, "it passes on what members say (it holds no lease)", vec![]),
    }
}

fn rights(seen: &HubContents) -> Check {
    let name = "rights";
    if seen.rights.is_empty() {
        return Check::skipped(AREA, name, "the server does not say what you may do");
    }
    let denied = seen.rights.iter().filter(|right| !right.allowed);
    let findings = denied.map(|Right { verb, resource, .. }| {
        let what = format!("you may not {verb} {resource}");
        let fix = format!(
            "let an administrator grant it:  kubectl --context hub create clusterrole \
             flagship-{verb} --verb={verb} --resource={resource}, and bind it to you"
        );
        Finding::new(what, fix)
    });
    let findings = findings.collect();
    Check::new(AREA, name, "you may do what flagship's commands do", findings)
}

fn clocks(seen: &HubContents) -> Check {
    let name = "clocks";
    let Some(hub) = seen.hub_time else {
        return Check::skipped(AREA, name, "the hub does not say what time it is");
    };
    let fix = "synchronise the clocks, for instance with chrony: waits are counted by them";
    let mut findings = Vec::new();
    let ahead = seen.now.duration_since(hub);
    if ahead.abs() > SKEW {
        let word = if ahead.is_negative() { "behind" } else { "ahead of" };
        let seconds = ahead.abs().as_secs();
        findings.push(Finding::new(format!("this machine is {seconds}s {word} the hub"), fix));
    }
    for (member, beat) in &seen.heartbeats {
        let ahead = beat.map(|beat| beat.duration_since(hub)).unwrap_or_default();
        if ahead > SKEW {
            let what = format!("{member} is {}s ahead of the hub", ahead.as_secs());
            findings.push(Finding::new(what, fix));
        }
    }
    Check::new(AREA, name, "they agree within 5s", findings)
}

/// A kind that could not be listed, unless another check says so.
fn unlisted(seen: &HubContents, kind: &str, why: &Unlisted) -> Option<Finding> {
    match why {
        Unlisted::NotServed => {
            let missing = seen.definitions.as_ref().is_some_and(|all| !all.contains_key(kind));
            let fix = "restart the hub's API server, and see what it logs about this definition";
            (!missing).then(|| Finding::new(format!("{kind} is not served"), fix))
        }
        Unlisted::Forbidden(says) => {
            let fix = "let an administrator grant you to list it: other checks need it";
            Some(Finding::new(says, fix))
        }
        Unlisted::Failed(says) => {
            let fix = format!("kubectl --context hub get {kind} -A   (and see the server's log)");
            Some(Finding::new(format!("{kind} cannot be listed: {says}"), fix))
        }
    }
}

fn readable(seen: &HubContents) -> Check {
    let fix = "correct the field with kubectl edit: nobody can act on it as it is";
    let objects = seen.unreadable.iter().map(|what| Finding::new(what, fix));
    let kinds = seen.unlisted.iter().filter_map(|(kind, why)| unlisted(seen, kind, why));
    let findings = objects.chain(kinds).collect();
    let objects = seen.placements.len() + seen.bindings.len() + seen.works.len() + seen.runs.len();
    let says = match objects {
        0 => "nothing to read yet".to_owned(),
        some => format!("{} can be read", count(some, "object")),
    };
    Check::new(AREA, "objects", says, findings)
}
