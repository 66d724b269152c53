//! Why an object that was applied does not become available: what its pods and events say.
//!
//! The agent of a member asks this and reports the answer with the Work ([`report`]), so
//! that people need no access to the member; whoever has access asks the same and sees the
//! pod itself. Nothing quoted here comes from a Secret, and only [`of_check`] quotes the output
//! of a container: a policy runs that container to hear what it says.

pub mod report;
#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::policy::checks::CHECK_FAILED;

/// Codes of causes, as `why` and the pages of reasons spell them.
pub mod code {
    /// The image's name cannot be read.
    pub const IMAGE_NAME_INVALID: &str = "IMAGE_NAME_INVALID";
    /// The registry does not have the image.
    pub const IMAGE_NOT_FOUND: &str = "IMAGE_NOT_FOUND";
    /// The registry wants credentials.
    pub const IMAGE_PULL_DENIED: &str = "IMAGE_PULL_DENIED";
    /// The image cannot be fetched for another reason.
    pub const IMAGE_PULL_FAILED: &str = "IMAGE_PULL_FAILED";
    /// A container ends again and again.
    pub const CRASH_LOOP: &str = "CRASH_LOOP";
    /// A container lacks a ConfigMap, Secret or key.
    pub const CONTAINER_CONFIG: &str = "CONTAINER_CONFIG";
    /// No node takes the pod.
    pub const POD_UNSCHEDULABLE: &str = "POD_UNSCHEDULABLE";
    /// A quota is used up.
    pub const QUOTA_EXCEEDED: &str = "QUOTA_EXCEEDED";
    /// An admission webhook or policy refused the pod.
    pub const WEBHOOK_DENIED: &str = "WEBHOOK_DENIED";
    /// No pod can be made.
    pub const POD_CREATION_FAILED: &str = "POD_CREATION_FAILED";
    /// A pod runs and is not ready.
    pub const POD_NOT_READY: &str = "POD_NOT_READY";

    /// All of them.
    pub const ALL: [&str; 11] = [
        IMAGE_NAME_INVALID,
        IMAGE_NOT_FOUND,
        IMAGE_PULL_DENIED,
        IMAGE_PULL_FAILED,
        CRASH_LOOP,
        CONTAINER_CONFIG,
        POD_UNSCHEDULABLE,
        QUOTA_EXCEEDED,
        WEBHOOK_DENIED,
        POD_CREATION_FAILED,
        POD_NOT_READY,
    ];
}

/// What was found inside an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// The cause, one of [`code`].
    pub code: &'static str,
    /// The pod that shows it; empty when there is none.
    pub pod: String,
    /// The container of it; empty when the pod as a whole shows it.
    pub container: String,
    /// The state of the pod in a word or two.
    pub says: String,
    /// One sentence. It stays the same while the trouble does.
    pub words: String,
}

/// The first true cause among the pods and events of an object. A pod that merely is not
/// ready yet gives way to any that cannot become so.
pub fn diagnose(pods: &[Value], events: &[Value]) -> Option<Diagnosis> {
    let mut troubled: Vec<Diagnosis> = pods.iter().filter_map(of_pod).collect();
    troubled.sort_by_key(|found| found.code == code::POD_NOT_READY);
    troubled.into_iter().next().or_else(|| of_events(events))
}

/// Lines of a check that are quoted, and characters of them.
const LINES: usize = 10;
const CHARACTERS: usize = 800;

/// Why the Job of a check fails: how the last of its containers that failed has ended, and the
/// last lines that it wrote, which the kubelet keeps in the pod's status.
pub fn of_check(pods: &[Value]) -> Option<Diagnosis> {
    let ended = pods.iter().flat_map(|pod| containers(pod).map(move |one| (pod, one)));
    let ended = ended.filter_map(|(pod, one)| {
        let states = ["state", "lastState"].iter().map(|state| &one[state]["terminated"]);
        let failed = |ended: &&Value| ended["exitCode"].as_i64().is_some_and(|code| code != 0);
        Some((pod, one, states.filter(|ended| ended.is_object()).find(failed)?))
    });
    let last = ended.max_by_key(|(_, _, ended)| text(&ended["finishedAt"]));
    let (pod, container, ended) = last?;
    let name = text(&container["name"]);
    let code = ended["exitCode"].as_i64().unwrap_or_default();
    let why = ended["reason"].as_str().filter(|why| !["", "Error"].contains(why));
    let why = why.map_or_else(String::new, |why| format!(" ({why})"));
    let wrote = last_lines(&text(&ended["message"]));
    let wrote = if wrote.is_empty() { wrote } else { format!(": {wrote}") };
    Some(Diagnosis {
        code: CHECK_FAILED,
        pod: text(&pod["metadata"]["name"]),
        says: "Terminated".to_owned(),
        words: format!("container {name} ended with exit code {code}{why}{wrote}"),
        container: name,
    })
}

/// The end of a text in one line, its lines set apart.
fn last_lines(text: &str) -> String {
    let mut left = CHARACTERS;
    let lines = text.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(LINES);
    let mut kept: Vec<String> = Vec::new();
    for line in lines {
        let long = line.chars().count();
        if long > left {
            // Of a line that is too long the end is the news.
            let end = line.chars().skip(long.saturating_sub(left.saturating_sub(1)));
            kept.extend((left > 1).then(|| format!("…{}", end.collect::<String>())));
            break;
        }
        left -= long;
        kept.push(line.to_owned());
    }
    kept.reverse();
    kept.join(" | ")
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["initContainerStatuses", "containerStatuses"];
    lists.into_iter().filter_map(|list| pod["status"][list].as_array()).flatten()
}

fn of_pod(pod: &Value) -> Option<Diagnosis> {
    let name = text(&pod["metadata"]["name"]);
    let conditions = pod["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let unscheduled = conditions
        .iter()
        .find(|condition| condition["type"] == "PodScheduled" && condition["status"] == "False");
    if let Some(condition) = unscheduled {
        return Some(Diagnosis {
            code: code::POD_UNSCHEDULABLE,
            pod: name,
            container: String::new(),
            says: text(&condition["reason"]),
            words: text(&condition["message"]),
        });
    }
    let mut found: Vec<Diagnosis> =
        containers(pod).filter_map(|container| of_container(pod, &name, container)).collect();
    found.sort_by_key(|found| found.code == code::POD_NOT_READY);
    found.into_iter().next()
}

fn of_container(pod: &Value, pod_name: &str, container: &Value) -> Option<Diagnosis> {
    let state = &container["state"];
    let reason = text(&state["waiting"]["reason"]);
    let message = text(&state["waiting"]["message"]);
    let image = text(&container["image"]);
    let name = text(&container["name"]);
    let restarts = container["restartCount"].as_i64().unwrap_or(0);
    let is_ready = container["ready"] == true;
    let (code, words) = match reason.as_str() {
        "InvalidImageName" => (
            code::IMAGE_NAME_INVALID,
            format!("container {name}: image {image:?} is not a valid reference"),
        ),
        "ErrImagePull" | "ImagePullBackOff" | "ErrImageNeverPull" => {
            (of_pull(&message), format!("container {name}: image {image:?}: {message}"))
        }
        "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => {
            (code::CONTAINER_CONFIG, format!("container {name}: {message}"))
        }
        "CrashLoopBackOff" => (code::CRASH_LOOP, ended(&name, container)),
        // Between two restarts it waits for nothing, or runs for a moment.
        _ if !is_ready && keeps_ending(container, restarts) => {
            (code::CRASH_LOOP, ended(&name, container))
        }
        _ if state["running"].is_object() && container["ready"] == false => {
            (code::POD_NOT_READY, not_ready(pod, &name))
        }
        _ => return None,
    };
    let says = match reason.as_str() {
        "" if state["terminated"].is_object() => "Terminated".to_owned(),
        "" => "Running, not ready".to_owned(),
        reason => reason.to_owned(),
    };
    let says = if restarts > 0 { format!("{says}, {restarts} restarts") } else { says };
    Some(Diagnosis { code, pod: pod_name.to_owned(), container: name, says, words })
}

/// Whether the container has ended before and was started again, or has just ended badly.
fn keeps_ending(container: &Value, restarts: i64) -> bool {
    let ended_now = container["state"]["terminated"]["exitCode"].as_i64();
    let ended_before = container["lastState"]["terminated"].is_object();
    ended_now.is_some_and(|code| code != 0) || (restarts > 0 && ended_before)
}

/// How it ended; how often would change the sentence with every restart.
fn ended(name: &str, container: &Value) -> String {
    let code = ["lastState", "state"]
        .iter()
        .find_map(|state| container[state]["terminated"]["exitCode"].as_i64());
    let said = code.map_or_else(String::new, |code| format!(", last with exit code {code}"));
    format!("container {name} keeps ending{said}")
}

/// A probe is blamed only if there is one.
fn not_ready(pod: &Value, container: &str) -> String {
    let spec = pod["spec"]["containers"].as_array().into_iter().flatten();
    let spec = spec.into_iter().find(|one| one["name"] == container);
    let has = |probe: &str| spec.is_some_and(|spec| spec[probe].is_object());
    if has("startupProbe") && !has("readinessProbe") {
        format!("container {container} runs, and its startup probe has not succeeded")
    } else if has("readinessProbe") {
        format!("container {container} runs, and its readiness probe has not succeeded")
    } else {
        format!("container {container} runs and is not ready yet; it has no readiness probe")
    }
}

fn of_pull(message: &str) -> &'static str {
    let message = message.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if has(&["denied", "unauthorized", "authentication required", "forbidden"]) {
        code::IMAGE_PULL_DENIED
    } else if has(&["not found", "manifest unknown", "does not exist"]) {
        code::IMAGE_NOT_FOUND
    } else {
        code::IMAGE_PULL_FAILED
    }
}

/// No pod at all: the events say who refused it.
fn of_events(events: &[Value]) -> Option<Diagnosis> {
    let refused = events.iter().rev().find(|event| {
        event["type"] == "Warning" && matches!(event["reason"].as_str(), Some("FailedCreate"))
    })?;
    let words = text(&refused["message"]);
    let words = words.trim_start_matches("(combined from similar events): ");
    let words = words.trim_start_matches("Error creating: ").to_owned();
    let has = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
    let code = if has(&["admission webhook", "failed calling webhook", "ValidatingAdmissionPolicy"])
    {
        code::WEBHOOK_DENIED
    } else if has(&["exceeded quota"]) {
        code::QUOTA_EXCEEDED
    } else {
        code::POD_CREATION_FAILED
    };
    let says = text(&refused["reason"]);
    Some(Diagnosis { code, pod: String::new(), container: String::new(), says, words })
}

/// The plural of kinds that have pods, and of a few more that say something about themselves.
pub fn plural_of(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "Deployment" => "deployments",
        "StatefulSet" => "statefulsets",
        "DaemonSet" => "daemonsets",
        "ReplicaSet" => "replicasets",
        "Job" => "jobs",
        "Service" => "services",
        _ => return None,
    })
}

/// The labels that the pods of an object have, as a query; nothing for kinds without pods.
pub fn selector(object: &Value) -> Option<String> {
    let labels = object["spec"]["selector"]["matchLabels"].as_object()?;
    let pairs: Vec<String> = labels
        .iter()
        .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
        .collect();
    (!pairs.is_empty()).then(|| pairs.join(","))
}

/// Whether an event is about an object, or about the ReplicaSets and pods named after it.
pub fn is_about(event: &Value, name: &str) -> bool {
    let about = event["involvedObject"]["name"].as_str().unwrap_or_default();
    let rest = about.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
