//! An object that a member could not apply, or that is not available there.

use flagship_api::condition::{Condition, Conditions};
use flagship_api::condition_type::work;
use flagship_api::names::{WorkBase, member_namespace};
use flagship_api::placement_status::{FailedResourcePlacement, PatchDetail};
use flagship_api::reason::work::manifest;

use super::facts::{BindingFacts, Facts};
use super::finding::{Evidence, Finding, State};
use super::hints::{edit, envelope_kind, on_member, spoken, typed};
use super::stuck::placement_of;
use super::{Cause, object};

/// What an API server's words mean, in the order they are tried.
const WORDS: &[(&str, Cause)] = &[
    ("admission webhook", Cause::WebhookDenied),
    ("failed calling webhook", Cause::WebhookDenied),
    ("ValidatingAdmissionPolicy", Cause::WebhookDenied),
    ("exceeded quota", Cause::QuotaExceeded),
    ("is immutable", Cause::FieldImmutable),
    ("may not change once set", Cause::FieldImmutable),
    ("updates to statefulset spec", Cause::FieldImmutable),
    ("pod updates may not change fields other than", Cause::FieldImmutable),
    ("no matches for kind", Cause::KindMissing),
    ("could not find the requested resource", Cause::KindMissing),
    ("failed to find the corresponding RESTMapping", Cause::KindMissing),
    ("owned by", Cause::OwnershipConflict),
    ("is invalid", Cause::ManifestInvalid),
    ("forbidden", Cause::MemberForbidden),
];

/// The first failed object of a binding, explained.
pub fn explain(facts: &Facts, bound: &BindingFacts) -> Option<Finding> {
    let failed = bound.status.failed_placements.first()?;
    let cluster = &bound.spec.target_cluster;
    let finding = if failed.condition.type_ == work::AVAILABLE {
        object::explain(facts, cluster, failed)
    } else {
        refused(bound, cluster, failed)
    };
    let work = format!("{}/{}", member_namespace(cluster), work_name(bound, &failed.condition));
    let says = format!("{}=False  {}", failed.condition.type_, failed.condition.reason);
    let mut seen = vec![Evidence::new("work", work, says).told_by(&failed.condition)];
    if let Some(envelope) = &failed.resource.envelope {
        let key = match envelope.namespace.as_str() {
            "" => envelope.name.clone(),
            namespace => format!("{namespace}/{}", envelope.name),
        };
        let kind = envelope_kind(envelope);
        let says = format!("carries {}", spoken(&failed.resource));
        seen.push(Evidence::new("envelope", format!("{kind} {key}"), says));
    }
    Some(finding.led_by(seen))
}

/// The work the binding complains of; the first one if it does not say.
fn work_name(bound: &BindingFacts, failed: &Condition) -> String {
    let summary = bound.status.conditions.of_type(&failed.type_);
    let named = summary.and_then(|summary| summary.message.strip_prefix("Work object "));
    let named = named.and_then(|rest| rest.split_once(' ')).map(|(name, _)| name.to_owned());
    named.unwrap_or_else(|| WorkBase::new(&placement_of(bound)).master())
}

/// The cause behind the words of a member's API server.
pub fn cause_of(reason: &str, message: &str) -> Cause {
    match reason {
        manifest::NOT_TAKEN_OVER | manifest::FAILED_TO_TAKE_OVER => Cause::OwnershipConflict,
        manifest::FOUND_DRIFTS | manifest::FOUND_DRIFTS_IN_DEGRADED_MODE => Cause::Drifted,
        manifest::DECODING_ERRED if message.contains("no matches for kind") => Cause::KindMissing,
        manifest::DECODING_ERRED | manifest::FOUND_GENERATE_NAME | manifest::DUPLICATED => {
            Cause::ManifestInvalid
        }
        _ if message.contains("namespaces \"") && message.contains("not found") => {
            Cause::NamespaceMissing
        }
        _ => {
            let said = unquoted(message);
            let known = WORDS.iter().find(|(words, _)| said.contains(words));
            known.map_or(Cause::ApplyFailed, |(_, cause)| *cause)
        }
    }
}

/// What the server says itself: names and values, which others chose, stand in quotes.
fn unquoted(message: &str) -> String {
    let mut said = String::with_capacity(message.len());
    let mut rest = message;
    while let Some((before, quoted)) = rest.split_once('"') {
        let mut escaped = false;
        let end = quoted.find(|letter| {
            let ends = letter == '"' && !escaped;
            escaped = letter == '\\' && !escaped;
            ends
        });
        // A single quotation mark is none.
        let Some(end) = end else { break };
        said.push_str(before);
        said.push_str("\"\"");
        rest = &quoted[end + 1..];
    }
    said.push_str(rest);
    said
}

fn refused(bound: &BindingFacts, cluster: &str, failed: &FailedResourcePlacement) -> Finding {
    let resource = &failed.resource;
    let name = spoken(resource);
    let cause = cause_of(&failed.condition.reason, &failed.condition.message);
    let finding = Finding::new(State::Stuck, cause, "")
        .what(format!("{name} was not applied on {cluster}: {}", cause.title()))
        .because(words(bound, failed))
        .saw("object", format!("{name}  ({cluster})"), failed.condition.reason.clone());
    let get = on_member(cluster, &resource.namespace, &format!("get {} -o yaml", typed(resource)));
    let edit = edit(resource);
    match cause {
        Cause::WebhookDenied => finding
            .hint(
                "look",
                "see the webhooks of the member",
                on_member(
                    cluster,
                    "",
                    "get validatingwebhookconfigurations,mutatingwebhookconfigurations",
                ),
            )
            .hint("fix", "correct the object on the hub", edit),
        Cause::FieldImmutable => finding.hint("fix", "set the field back on the hub", edit).hint(
            "or",
            "let it be made anew: delete it on the member",
            on_member(cluster, &resource.namespace, &format!("delete {}", typed(resource))),
        ),
        Cause::KindMissing => finding
            .hint("look", "see what the member serves", on_member(cluster, "", "api-resources"))
            .hint("fix", "select the CustomResourceDefinition in the placement too", ""),
        Cause::NamespaceMissing => finding.hint(
            "fix",
            "create the namespace on the member, or select it in the placement",
            on_member(cluster, "", &format!("create namespace {}", resource.namespace)),
        ),
        Cause::OwnershipConflict if failed.condition.reason == manifest::NOT_TAKEN_OVER => {
            finding.hint("look", "see the object on the member", get).hint(
                "fix",
                "delete it there, and it is made anew",
                on_member(cluster, &resource.namespace, &format!("delete {}", typed(resource))),
            )
        }
        Cause::OwnershipConflict => finding.hint("look", "see the object on the member", get).hint(
            "fix",
            "take it away from its owner, or name another object",
            "",
        ),
        Cause::Drifted => finding.hint(
            "fix",
            "set it back on the member",
            on_member(cluster, &resource.namespace, &format!("edit {}", typed(resource))),
        ),
        Cause::QuotaExceeded => finding.hint(
            "look",
            "see what is used up",
            on_member(cluster, &resource.namespace, "describe resourcequota"),
        ),
        _ => finding.hint("fix", "correct the object on the hub", edit),
    }
}

/// The refusal itself; for a drift, the first field that differs.
fn words(bound: &BindingFacts, failed: &FailedResourcePlacement) -> String {
    let drift = bound
        .status
        .drifted_placements
        .iter()
        .find(|drifted| drifted.resource == failed.resource)
        .and_then(|drifted| drifted.observed_drifts.first());
    let diff = bound
        .status
        .diffed_placements
        .iter()
        .find(|diffed| diffed.resource == failed.resource)
        .and_then(|diffed| diffed.observed_diffs.first());
    match drift.or(diff) {
        Some(detail) => differing(detail),
        None => bare(&failed.condition.message),
    }
}

/// What the member's API server said, without the layers that handed it on.
fn bare(message: &str) -> String {
    const LAYERS: [&str; 11] = [
        "Failed to apply the manifest (error: ",
        "failed to apply the manifest: ",
        "failed to decode manifest: ",
        "failed to find GVR from member cluster client REST mapping: ",
        "failed to take over a pre-existing object: ",
        "failed to create manifest object: ",
        "failed to patch the manifest object: ",
        "failed to apply the manifest object: ",
        "failed to process the request due to a client error: ",
        "error returned by the API server: ",
        "cannot apply manifest: ",
    ];
    let mut rest = message;
    let mut wrapped = false;
    while let Some(layer) = LAYERS.iter().find(|layer| rest.starts_with(**layer)) {
        wrapped |= layer.ends_with("(error: ");
        rest = &rest[layer.len()..];
    }
    let rest = if wrapped { rest.strip_suffix(')').unwrap_or(rest) } else { rest };
    owners(rest).unwrap_or_else(|| rest.to_owned())
}

/// `… (existingOwnerRefs: [{APIVersion:v1 Kind:ConfigMap Name:landlord …}])`, as people say it.
fn owners(words: &str) -> Option<String> {
    let (said, listed) = words.split_once(" (existingOwnerRefs: ")?;
    let field = |entry: &str, name: &str| {
        let (_, rest) = entry.split_once(name)?;
        rest.split_whitespace().next().map(str::to_owned)
    };
    let entries = listed
        .split('{')
        .filter_map(|entry| Some(format!("{} {}", field(entry, "Kind:")?, field(entry, "Name:")?)));
    let owners: Vec<String> = entries.collect();
    (!owners.is_empty()).then(|| format!("{said}: {}", owners.join(", ")))
}

fn differing(detail: &PatchDetail) -> String {
    format!(
        "{}: {} on the member, {} on the hub",
        detail.path,
        quoted(&detail.value_in_member),
        quoted(&detail.value_in_hub)
    )
}

fn quoted(value: &str) -> String {
    if value.is_empty() { "nothing".to_owned() } else { format!("{value:?}") }
}
