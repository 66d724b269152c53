//! Pods: what `READY`, `STATUS` and `RESTARTS` say.
//!
//! The status is the most telling reason anywhere in the pod: of the pod itself, of an
//! init container that has not finished, of a container that waits or has ended.

use flagship_base::machinery::time;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::object::Object;
use super::{AGE, NAME, Printer};
use crate::Kind;

pub(super) fn printer(kind: Kind) -> Option<&'static Printer> {
    const POD: Printer = Printer {
        columns: &[
            NAME,
            ("Ready", "string", 0),
            ("Status", "string", 0),
            ("Restarts", "string", 0),
            AGE,
            ("IP", "string", 1),
            ("Node", "string", 1),
            ("Nominated Node", "string", 1),
            ("Readiness Gates", "string", 1),
        ],
        cells,
    };
    (kind == Kind::Pod).then_some(&POD)
}

/// A pod that is done says so in its row.
pub(super) fn row_conditions(value: &Value) -> Option<Value> {
    if value["kind"] != "Pod" {
        return None;
    }
    let (reason, message) = match value["status"]["phase"].as_str()? {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    let condition =
        json!({"type": "Completed", "status": "True", "reason": reason, "message": message});
    Some(json!([condition]))
}

fn cells(pod: &Object<'_>) -> Vec<Value> {
    let Summary { ready, total, status, restarts } = Summary::of(pod);
    let restarted = match restarts {
        Restarts { count, last: Some(last) } if count != 0 => {
            format!("{count} ({} ago)", super::human(pod.now.duration_since(last)))
        }
        Restarts { count, .. } => count.to_string(),
    };
    vec![
        pod.name(),
        json!(format!("{ready}/{total}")),
        json!(status),
        json!(restarted),
        pod.age(),
        pod.text_or("/status/podIPs/0/ip", "<none>"),
        pod.text_or("/spec/nodeName", "<none>"),
        pod.text_or("/status/nominatedNodeName", "<none>"),
        json!(readiness_gates(pod)),
    ]
}

fn readiness_gates(pod: &Object<'_>) -> String {
    let gates = pod.list("/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates.iter().filter_map(|gate| gate["conditionType"].as_str());
    format!("{}/{}", open.filter(|kind| pod.is_true(kind)).count(), gates.len())
}

#[derive(Default, Clone, Copy)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count += container["restartCount"].as_i64().unwrap_or_default();
        let ended = container["lastState"]["terminated"]["finishedAt"].as_str();
        self.last = self.last.max(ended.and_then(time::parse));
    }
}

struct Summary {
    ready: usize,
    total: usize,
    status: String,
    restarts: Restarts,
}

impl Summary {
    fn of(pod: &Object<'_>) -> Self {
        let mut status = match pod.text("/status/reason") {
            "" => pod.text("/status/phase").to_owned(),
            reason => reason.to_owned(),
        };
        if pod.condition("PodScheduled").is_some_and(|c| c["reason"] == "SchedulingGated") {
            "SchedulingGated".clone_into(&mut status);
        }
        let inits = pod.list("/spec/initContainers");
        let sidecars = inits.iter().filter(|container| is_sidecar(container)).count();
        let total = pod.list("/spec/containers").len() + sidecars;
        let (mut ready, mut all, mut of_sidecars) = (0, Restarts::default(), Restarts::default());
        let mut pending = None;
        for (index, container) in pod.list("/status/initContainerStatuses").iter().enumerate() {
            all.add(container);
            let sidecar =
                inits.iter().any(|init| init["name"] == container["name"] && is_sidecar(init));
            if sidecar {
                of_sidecars.add(container);
            }
            let state = &container["state"];
            if state["terminated"].is_object() && state["terminated"]["exitCode"] == 0 {
                continue;
            }
            if sidecar && container["started"] == true {
                ready += usize::from(container["ready"] == true);
                continue;
            }
            let waiting = state["waiting"]["reason"].as_str().unwrap_or_default();
            let why = match ended(state) {
                Some(why) => why,
                None if !waiting.is_empty() && waiting != "PodInitializing" => waiting.to_owned(),
                None => format!("{index}/{}", inits.len()),
            };
            pending = Some(format!("Init:{why}"));
            break;
        }
        let initialized = pod.is_true("Initialized");
        let mut restarts = all;
        if let Some(pending) = &pending {
            status.clone_from(pending);
        }
        if pending.is_none() || initialized {
            restarts = of_sidecars;
            let mut running = false;
            // The first container has the last word.
            for container in pod.list("/status/containerStatuses").iter().rev() {
                restarts.add(container);
                let state = &container["state"];
                let waiting = state["waiting"]["reason"].as_str().unwrap_or_default();
                if !waiting.is_empty() {
                    waiting.clone_into(&mut status);
                } else if let Some(why) = ended(state) {
                    status = why;
                } else if container["ready"] == true && state["running"].is_object() {
                    running = true;
                    ready += 1;
                }
            }
            if status == "Completed" && running {
                let whole = if pod.is_true("Ready") { "Running" } else { "NotReady" };
                whole.clone_into(&mut status);
            }
        }
        if pod.is_deleting() {
            let done = matches!(pod.text("/status/phase"), "Succeeded" | "Failed");
            if pod.text("/status/reason") == "NodeLost" {
                "Unknown".clone_into(&mut status);
            } else if !done {
                "Terminating".clone_into(&mut status);
            }
        }
        Self { ready, total, status, restarts }
    }
}

fn is_sidecar(init: &Value) -> bool {
    init["restartPolicy"] == "Always"
}

/// Why a container ended, if it has.
fn ended(state: &Value) -> Option<String> {
    let ended = state["terminated"].as_object()?;
    let number = |key: &str| ended.get(key).and_then(Value::as_i64).unwrap_or_default();
    Some(match ended.get("reason").and_then(Value::as_str).unwrap_or_default() {
        "" if number("signal") != 0 => format!("Signal:{}", number("signal")),
        "" => format!("ExitCode:{}", number("exitCode")),
        reason => reason.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(status: Value) -> String {
        let pod = json!({
            "kind": "Pod",
            "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "containers": [{"name": "a"}, {"name": "b"}],
                "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
            },
            "status": status,
        });
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        let cells = cells(&Object { value: &pod, now });
        let texts: Vec<&str> = cells[1..4].iter().filter_map(Value::as_str).collect();
        texts.join(" | ")
    }

    #[test]
    fn the_most_telling_reason_is_the_status() {
        let running = json!({"running": {}});
        let waits = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let ends =
            |reason: &str, code: i64| json!({"terminated": {"reason": reason, "exitCode": code}});
        let restarted = json!({"terminated": {"finishedAt": "2026-01-01T00:30:00Z"}});
        let table = [
            (json!({"phase": "Pending"}), "0/3 | Pending | 0"),
            (json!({"phase": "Failed", "reason": "Evicted"}), "0/3 | Evicted | 0"),
            (
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
                "0/3 | SchedulingGated | 0",
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"waiting": {"reason": "PodInitializing"}}}]}),
                "0/3 | Init:0/2 | 0",
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "restartCount": 2, "state": ends("Error", 1)}]}),
                "0/3 | Init:Error | 2",
            ),
            (
                json!({"phase": "Running", "initContainerStatuses": [
                    {"name": "i", "restartCount": 2, "state": ends("Completed", 0)},
                    {"name": "s", "started": true, "ready": true, "state": running},
                ], "containerStatuses": [
                    {"name": "a", "ready": true, "state": running},
                    {"name": "b", "ready": true, "state": running, "restartCount": 1, "lastState": restarted},
                ]}),
                "3/3 | Running | 1 (30m ago)",
            ),
            (
                json!({"phase": "Running", "containerStatuses": [
                    {"name": "a", "state": waits, "restartCount": 4}, {"name": "b", "ready": true, "state": running},
                ]}),
                "1/3 | CrashLoopBackOff | 4",
            ),
            (
                json!({"phase": "Running", "containerStatuses": [
                    {"name": "a", "state": ends("Completed", 0)}, {"name": "b", "ready": true, "state": running},
                ]}),
                "1/3 | NotReady | 0",
            ),
            (
                json!({"phase": "Failed", "containerStatuses": [{"name": "a", "state": ends("", 3)}]}),
                "0/3 | ExitCode:3 | 0",
            ),
        ];
        for (status, want) in table {
            assert_eq!(shown(status.clone()), want, "{status}");
        }
    }

    #[test]
    fn a_pod_that_is_done_says_so_in_its_row() {
        let of = |phase: &str| row_conditions(&json!({"kind": "Pod", "status": {"phase": phase}}));
        assert_eq!(of("Running"), None);
        assert_eq!(of("Failed").unwrap()[0]["reason"], "Failed");
    }
}
