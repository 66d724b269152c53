//! An object that was applied and does not work: what do its pods and events say?

use flagship_api::placement_status::FailedResourcePlacement;
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
    let found = troubled_pod(view).or_else(|| event_refusal(view));
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
    /// The pod that shows it; empty when there is none.
    pod: String,
    container: String,
    says: String,
    words: String,
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
        Cause::ImagePullDenied => finding.hint(
            "look",
            "see which pull secrets the pod has",
            on_member(cluster, &resource.namespace, &format!("describe pod {}", found.pod)),
        ),
        Cause::CrashLoop => finding.hint(
            "look",
            "read what the container said",
            on_member(
                cluster,
                &resource.namespace,
                &format!("logs {} -c {} --previous", found.pod, found.container),
            ),
        ),
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

fn troubled_pod(view: &MemberView) -> Option<Found> {
    view.pods.iter().find_map(of_pod)
}

fn of_pod(pod: &Value) -> Option<Found> {
    let name = text(&pod["metadata"]["name"]);
    let conditions = pod["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let unscheduled = conditions
        .iter()
        .find(|condition| condition["type"] == "PodScheduled" && condition["status"] == "False");
    if let Some(condition) = unscheduled {
        return Some(Found {
            cause: Cause::PodUnschedulable,
            pod: name,
            container: String::new(),
            says: text(&condition["reason"]),
            words: text(&condition["message"]),
        });
    }
    let containers = ["initContainerStatuses", "containerStatuses"]
        .iter()
        .filter_map(|list| pod["status"][list].as_array())
        .flatten();
    for container in containers {
        if let Some(found) = of_container(&name, container) {
            return Some(found);
        }
    }
    None
}

fn of_container(pod: &str, container: &Value) -> Option<Found> {
    let waiting = &container["state"]["waiting"];
    let reason = text(&waiting["reason"]);
    let message = text(&waiting["message"]);
    let image = text(&container["image"]);
    let name = text(&container["name"]);
    let restarts = container["restartCount"].as_i64().unwrap_or(0);
    let ended = &container["lastState"]["terminated"];
    let (cause, words) = match reason.as_str() {
        "InvalidImageName" => (
            Cause::ImageNameInvalid,
            format!("container {name}: image {image:?} is not a valid reference"),
        ),
        "ErrImagePull" | "ImagePullBackOff" | "ErrImageNeverPull" => {
            (pull_cause(&message), format!("container {name}: image {image:?}: {message}"))
        }
        "CrashLoopBackOff" => {
            let code = ended["exitCode"]
                .as_i64()
                .or_else(|| container["state"]["terminated"]["exitCode"].as_i64());
            let said = code.map_or_else(String::new, |code| format!(" with exit code {code}"));
            (Cause::CrashLoop, format!("container {name} ended {restarts} time(s), last{said}"))
        }
        "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => {
            (Cause::ContainerConfig, format!("container {name}: {message}"))
        }
        _ if container["state"]["running"].is_object() && container["ready"] == false => (
            Cause::PodNotReady,
            format!("container {name} runs, and its readiness probe has not succeeded"),
        ),
        _ => return None,
    };
    let says = if reason.is_empty() { "Running, not ready".to_owned() } else { reason };
    let says = if restarts > 0 { format!("{says}, {restarts} restarts") } else { says };
    Some(Found { cause, pod: pod.to_owned(), container: name, says, words })
}

fn pull_cause(message: &str) -> Cause {
    let message = message.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if has(&["denied", "unauthorized", "authentication required", "forbidden"]) {
        Cause::ImagePullDenied
    } else if has(&["not found", "manifest unknown", "does not exist"]) {
        Cause::ImageNotFound
    } else {
        Cause::ImagePullFailed
    }
}

/// No pod at all: the events say who refused it.
fn event_refusal(view: &MemberView) -> Option<Found> {
    let refused = view.events.iter().rev().find(|event| {
        event["type"] == "Warning" && matches!(event["reason"].as_str(), Some("FailedCreate"))
    })?;
    let words = text(&refused["message"]);
    let words = words.trim_start_matches("(combined from similar events): ");
    let words = words.trim_start_matches("Error creating: ").to_owned();
    let cause = match super::apply::cause_of("", &words) {
        cause @ (Cause::QuotaExceeded | Cause::WebhookDenied) => cause,
        _ => Cause::PodCreationFailed,
    };
    Some(Found {
        cause,
        pod: String::new(),
        container: String::new(),
        says: text(&refused["reason"]),
        words,
    })
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

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
