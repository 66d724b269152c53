//! An object that was applied and does not work: what do its pods and events say?
//!
//! Whoever can look at the member sees the pod itself; otherwise the member's agent has
//! reported what it saw. Both come from `flagship_rules::diagnosis`.

use flagship_api::placement_status::FailedResourcePlacement;
use flagship_rules::diagnosis::{Diagnosis, diagnose};
use serde_json::Value;

use super::Cause;
use super::facts::{Facts, MemberView};
use super::finding::{Finding, State};
use super::hints::{edit, kubectl, on_member, spoken, typed};

/// Why it is not available.
pub fn explain(facts: &Facts, cluster: &str, failed: &FailedResourcePlacement) -> Finding {
    let resource = &failed.resource;
    let name = spoken(resource);
    let empty = MemberView::default();
    let view = facts.members.get(cluster).unwrap_or(&empty);
    let ready = view.object.as_ref().map_or_else(|| "not available".to_owned(), readiness);
    let found = seen(view).or_else(|| reported(facts, cluster, failed));
    let describe =
        on_member(cluster, &resource.namespace, &format!("describe {}", typed(resource)));
    let Some(found) = found else {
        let because = match view.blind.as_str() {
            "" => failed.condition.message.clone(),
            blind => format!("{cluster} could not be looked at: {blind}"),
        };
        return Finding::new(State::Stuck, Cause::ObjectNotReady, "")
            .what(format!("{name} is not available on {cluster}"))
            .because(because)
            .saw("object", format!("{name}  ({cluster})"), ready)
            .hint("look", "see the object on the member", describe);
    };
    let mut finding = Finding::new(State::Stuck, found.cause, "")
        .what(format!("{name} {}", doing(found.cause)))
        .because(found.words.clone())
        .saw("object", format!("{name}  ({cluster})"), ready);
    if !found.pod.is_empty() {
        finding = finding.saw("pod", found.pod.clone(), found.says.clone());
    }
    fixes(finding, cluster, failed, &found, describe)
}

/// What was found inside the object.
struct Found {
    cause: Cause,
    /// The pod that shows it; empty when there is none, or only the agent has seen it.
    pod: String,
    container: String,
    says: String,
    words: String,
}

/// What was seen on the member itself.
fn seen(view: &MemberView) -> Option<Found> {
    let Diagnosis { code, pod, container, says, words } = diagnose(&view.pods, &view.events)?;
    Some(Found { cause: Cause::read(code)?, pod, container, says, words })
}

/// What the member's agent reported of the object.
fn reported(facts: &Facts, cluster: &str, failed: &FailedResourcePlacement) -> Option<Found> {
    let resource = &failed.resource;
    let found = facts.reports.get(cluster)?.iter().find(|reported| {
        reported.is_about(&resource.group, &resource.kind, &resource.namespace, &resource.name)
    })?;
    Some(Found {
        // A newer agent may know more causes than we do.
        cause: Cause::read(&found.cause).unwrap_or(Cause::ObjectNotReady),
        pod: String::new(),
        container: found.container.clone(),
        says: String::new(),
        words: found.says.clone(),
    })
}

fn doing(cause: Cause) -> &'static str {
    match cause {
        Cause::CrashLoop => "starts and ends again and again",
        Cause::PodNotReady => "runs and does not become ready",
        Cause::PodUnschedulable => "finds no node",
        Cause::QuotaExceeded | Cause::WebhookDenied | Cause::PodCreationFailed => {
            "cannot create a pod"
        }
        _ => "cannot start a pod",
    }
}

fn fixes(
    finding: Finding,
    cluster: &str,
    failed: &FailedResourcePlacement,
    found: &Found,
    describe: String,
) -> Finding {
    let resource = &failed.resource;
    let namespace = (!resource.namespace.is_empty()).then_some(resource.namespace.as_str());
    match found.cause {
        Cause::ImageNameInvalid | Cause::ImageNotFound if resource.envelope.is_some() => {
            finding.hint("fix", "correct the image in the envelope on the hub", edit(resource))
        }
        Cause::ImageNameInvalid | Cause::ImageNotFound => finding.hint(
            "fix",
            "correct the image on the hub",
            kubectl(namespace, &format!("set image {} {}=IMAGE", typed(resource), found.container)),
        ),
        Cause::ImagePullDenied if !found.pod.is_empty() => finding.hint(
            "look",
            "see which pull secrets the pod has",
            on_member(cluster, &resource.namespace, &format!("describe pod {}", found.pod)),
        ),
        Cause::CrashLoop => {
            // Only the agent has seen the pod: kubectl picks one of the object's.
            let of = match found.pod.as_str() {
                "" => typed(resource),
                pod => pod.to_owned(),
            };
            let logs = format!("logs {of} -c {} --previous", found.container);
            let command = on_member(cluster, &resource.namespace, &logs);
            finding.hint("look", "read what the container said", command)
        }
        Cause::QuotaExceeded => finding.hint(
            "look",
            "see what is used up",
            on_member(cluster, &resource.namespace, "describe resourcequota"),
        ),
        Cause::PodUnschedulable => {
            finding.hint("look", "see the nodes", on_member(cluster, "", "get nodes"))
        }
        _ => finding.hint("look", "see the object on the member", describe),
    }
}

/// `0/3 ready`, for the kinds that count.
fn readiness(object: &Value) -> String {
    let status = &object["status"];
    let ready = status["readyReplicas"].as_i64().or_else(|| status["numberReady"].as_i64());
    let wanted =
        object["spec"]["replicas"].as_i64().or_else(|| status["desiredNumberScheduled"].as_i64());
    let ready = ready.unwrap_or(0);
    match (wanted, status["updatedReplicas"].as_i64()) {
        // The old pods still serve, which is not what was asked for.
        (Some(wanted), Some(updated)) if updated < wanted && ready > 0 => {
            format!("{ready}/{wanted} ready, {updated} of the new version")
        }
        (Some(wanted), _) => format!("{ready}/{wanted} ready"),
        (None, _) => "not available".to_owned(),
    }
}
