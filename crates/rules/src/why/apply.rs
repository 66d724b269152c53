//! An object that a member could not apply, or that is not available there.

use flagship_api::condition_type::work;
use flagship_api::names::{WorkBase, member_namespace};
use flagship_api::placement_status::{FailedResourcePlacement, PatchDetail};
use flagship_api::reason::work::manifest;

use super::facts::{BindingFacts, Facts};
use super::finding::{Finding, State};
use super::hints::{kubectl, on_member, spoken, typed};
use super::{Cause, object};

/// What an API server's words mean, in the order they are tried.
const WORDS: &[(&str, Cause)] = &[
    ("admission webhook", Cause::WebhookDenied),
    ("failed calling webhook", Cause::WebhookDenied),
    ("ValidatingAdmissionPolicy", Cause::WebhookDenied),
    ("exceeded quota", Cause::QuotaExceeded),
    ("immutable", Cause::FieldImmutable),
    ("updates to statefulset spec", Cause::FieldImmutable),
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
    let work_name =
        format!("{}/{}", member_namespace(cluster), WorkBase::new(&placement_key(bound)).master());
    let finding = if failed.condition.type_ == work::AVAILABLE {
        object::explain(facts, cluster, failed)
    } else {
        refused(bound, cluster, failed)
    };
    let seen = super::finding::Evidence {
        what: "work",
        name: work_name,
        says: format!("{}=False  {}", failed.condition.type_, failed.condition.reason),
    };
    Some(finding.led_by(vec![seen]))
}

fn placement_key(bound: &BindingFacts) -> flagship_api::names::ObjectKey {
    flagship_api::names::ObjectKey::new(bound.key.namespace.as_deref(), &bound.placement)
}

/// The cause behind the words of a member's API server.
pub fn cause_of(reason: &str, message: &str) -> Cause {
    match reason {
        manifest::NOT_TAKEN_OVER | manifest::FAILED_TO_TAKE_OVER => Cause::OwnershipConflict,
        manifest::FOUND_DRIFTS | manifest::FOUND_DRIFTS_IN_DEGRADED_MODE => Cause::Drifted,
        manifest::DECODING_ERRED | manifest::FOUND_GENERATE_NAME | manifest::DUPLICATED => {
            Cause::ManifestInvalid
        }
        _ if message.contains("namespaces \"") && message.contains("not found") => {
            Cause::NamespaceMissing
        }
        _ => WORDS
            .iter()
            .find(|(words, _)| message.contains(words))
            .map_or(Cause::ApplyFailed, |(_, cause)| *cause),
    }
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
    let edit = kubectl(
        (!resource.namespace.is_empty()).then_some(resource.namespace.as_str()),
        &format!("edit {}", typed(resource)),
    );
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
        Cause::OwnershipConflict | Cause::Drifted => {
            finding.hint("look", "see the object on the member", get)
        }
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
        None => failed.condition.message.clone(),
    }
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
