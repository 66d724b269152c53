//! What a node does with a pod: start it, report on it, restart it, stop it.
//!
//! A pod's whole future follows from its status and the time (see `containers`),
//! so a plan is a function of the pod, the clock and the script in its
//! annotations. Between two changes nothing is written.

mod containers;
#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};

use crate::behaviour::Script;
use crate::condition::{self, ConditionDraft, Style};
use crate::config::WorkloadConfig;
use crate::object::{Fields, set, stamp};
use crate::plan::{Action, Note, Plan, Propagation, Target};
use crate::references::Missing;
use containers::{Setting, Step};

const SOURCE: &str = "kubelet";

/// How soon a node looks again for what a pod refers to.
const AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// What a node sees of one of its pods.
#[derive(Debug, Clone, Serialize)]
pub struct Observed {
    /// The pod.
    pub pod: Value,
    /// Address of the node.
    pub host_ip: String,
    /// An address that is free on the node.
    pub free_ip: String,
    /// What the pod refers to and is not there.
    pub missing: Missing,
    /// The present moment.
    pub now: Timestamp,
}

/// Decides what the node does next with the pod.
pub fn plan(seen: &Observed, config: &WorkloadConfig) -> Plan {
    let pod = &seen.pod;
    let host = pod.text("/spec/nodeName");
    if host.is_empty() {
        return Plan::wait("not scheduled");
    }
    let script = Script::of(pod, config);
    if pod.is_deleting() {
        return stop(seen, &script);
    }
    if ["Succeeded", "Failed"].contains(&pod.text("/status/phase")) {
        return Plan::idle();
    }
    Look { seen, config, script, host }.plan()
}

/// A pod that is going takes its time, then its containers end and it is removed.
fn stop(seen: &Observed, script: &Script) -> Plan {
    let pod = &seen.pod;
    let grace = pod.int("/metadata/deletionGracePeriodSeconds").unwrap_or(0);
    if grace == 0 && !pod.list("/metadata/finalizers").is_empty() {
        // Stopped already; whoever holds it lets it go.
        return end_held(seen);
    }
    let ended = ["Succeeded", "Failed"].contains(&pod.text("/status/phase"));
    let takes = if ended { SignedDuration::ZERO } else { script.stops };
    let takes = takes.min(SignedDuration::from_secs(grace));
    let asked = pod
        .time("/metadata/deletionTimestamp")
        .and_then(|end| end.checked_sub(SignedDuration::from_secs(grace)).ok());
    let due = asked.and_then(|a| a.checked_add(takes).ok()).unwrap_or(seen.now);
    let mut plan = Plan::default();
    if due > seen.now {
        plan.wake_at(due);
        plan.waiting.push("containers are stopping".into());
        return plan;
    }
    let host = pod.text("/spec/nodeName");
    for status in pod.list("/status/containerStatuses") {
        if !status.at("/state/running").is_null() {
            let name = status.text("/name");
            let note = Note::normal(pod, SOURCE, "Killing", format!("Stopping container {name}"));
            plan.act(Action::Say(note.on(host).container(name, false)));
        }
    }
    if !pod.list("/metadata/finalizers").is_empty() && !ended {
        plan.actions.extend(end_held(seen).actions);
    }
    plan.act(Action::Delete {
        target: Target::of("pods", pod),
        propagation: Propagation::Background,
        grace: Some(0),
        then: None,
    });
    plan
}

/// A pod that stays after its containers have stopped says that they have: jobs wait
/// for that word before they let go.
fn end_held(seen: &Observed) -> Plan {
    let pod = &seen.pod;
    let mut plan = Plan::wait("held by a finalizer");
    if ["Succeeded", "Failed"].contains(&pod.text("/status/phase")) {
        return plan;
    }
    let mut status = crate::object::status_of(pod);
    let at = stamp(seen.now);
    let mut main = status.list("/containerStatuses").to_vec();
    end_containers(&mut main, 143, &at);
    set(&mut status, &["phase"], json!("Failed"));
    set(&mut status, &["containerStatuses"], json!(main));
    let mut conditions = status.list("/conditions").to_vec();
    for kind in ["Ready", "ContainersReady"] {
        let (reason, message) = ("PodFailed", String::new());
        let draft = ConditionDraft { kind, status: "False", reason, message };
        condition::put(&mut conditions, Style::Probed, seen.now, &draft);
    }
    set(&mut status, &["conditions"], json!(conditions));
    plan.status("pods", pod, status);
    plan
}

/// Running containers end with a code.
fn end_containers(containers: &mut [Value], code: i64, at: &str) {
    for container in containers {
        let since = container.at("/state/running/startedAt").clone();
        if !since.is_null() {
            let ended = json!({"terminated": {"exitCode": code, "reason": "Error",
                "startedAt": since, "finishedAt": at,
                "containerID": container.at("/containerID").clone()}});
            set(container, &["state"], ended);
        }
        set(container, &["ready"], json!(false));
        set(container, &["started"], json!(false));
    }
}

/// A pod whose node is gone is removed, as the pod collector does after a while.
pub fn plan_lost(pod: &Value, now: Timestamp) -> Plan {
    let mut plan = Plan::wait("its node does not exist");
    let due = pod.created().and_then(|c| c.checked_add(SignedDuration::from_secs(40)).ok());
    match due.filter(|due| *due > now) {
        Some(due) => plan.wake_at(due),
        None => plan.act(Action::Delete {
            target: Target::of("pods", pod),
            propagation: Propagation::Background,
            grace: Some(0),
            then: None,
        }),
    }
    plan
}

struct Look<'a> {
    seen: &'a Observed,
    config: &'a WorkloadConfig,
    script: Script,
    host: &'a str,
}

impl Look<'_> {
    fn plan(&self) -> Plan {
        let (pod, now) = (&self.seen.pod, self.seen.now);
        let mut plan = Plan::default();
        let started = pod.time("/status/startTime").unwrap_or(now);
        if let Some(limit) = pod.int("/spec/activeDeadlineSeconds") {
            let end = started.checked_add(SignedDuration::from_secs(limit));
            let end = end.unwrap_or(Timestamp::MAX);
            if end <= now {
                self.fail(&mut plan);
                return plan;
            }
            plan.wake_at(end);
        }
        let mut starts = started.checked_add(self.script.starts).unwrap_or(Timestamp::MAX);
        if !self.seen.missing.mounts.is_empty() && pod.text("/status/podIP").is_empty() {
            // Nothing starts before all volumes are mounted; that is tried again and again.
            starts = starts.max(now.checked_add(AGAIN).unwrap_or(Timestamp::MAX));
            plan.wake_at(starts);
            if pod.list("/status/containerStatuses").is_empty() {
                for why in &self.seen.missing.mounts {
                    let note = Note::warning(pod, SOURCE, "FailedMount", why.clone());
                    plan.act(Action::Say(note.on(self.host)));
                }
            }
        }
        let init = self.steps("initContainers", "initContainerStatuses", starts, &mut plan);
        let initialized = init.iter().all(|s| s.is_true("/ready"));
        let mut main = if initialized {
            self.steps("containers", "containerStatuses", starts, &mut plan)
        } else {
            self.held("PodInitializing")
        };
        if now < starts && !init.is_empty() {
            main = self.held("PodInitializing");
        }
        let status = self.status(&init, &main, starts);
        plan.status("pods", pod, status);
        // What is said comes after what it is about.
        plan.actions.sort_by_key(|a| matches!(a, Action::Say(_)));
        plan
    }

    /// Every container of a list, one step further.
    fn steps(&self, list: &str, statuses: &str, starts: Timestamp, plan: &mut Plan) -> Vec<Value> {
        let pod = &self.seen.pod;
        let init = list == "initContainers";
        let old = pod.list(&format!("/status/{statuses}"));
        let mut all = Vec::new();
        let mut blocked = false;
        for container in pod.list(&format!("/spec/{list}")) {
            let name = container.text("/name");
            let found = old.iter().find(|s| s.text("/name") == name).unwrap_or(&Value::Null);
            if blocked {
                all.push(self.waiting(container, "PodInitializing"));
                continue;
            }
            let image_missing =
                self.script.image_missing || self.config.is_missing(container.text("/image"));
            let setting = Setting {
                pod,
                script: &self.script,
                image_missing,
                lacks: self.seen.missing.containers.get(name).map(String::as_str),
                starts,
                now: self.seen.now,
                init,
            };
            let mut step = setting.step(container, found);
            if init {
                step = self.finish_init(container, step);
                blocked = !step.status.is_true("/ready");
            }
            if let Some(next) = step.next {
                plan.wake_at(next);
            }
            for (warning, reason, message) in step.notes {
                let note = Note { warning, ..Note::normal(pod, SOURCE, reason, message) };
                plan.act(Action::Say(note.on(self.host).container(name, init)));
            }
            all.push(step.status);
        }
        all
    }

    /// An init container is done as soon as it runs, unless it is a sidecar.
    fn finish_init(&self, container: &Value, mut step: Step) -> Step {
        let runs = !step.status.at("/state/running").is_null();
        if runs && container.text("/restartPolicy") != "Always" {
            let at = step.status.at("/state/running/startedAt").clone();
            step.status["state"] = json!({"terminated": {
                "exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at,
                "containerID": step.status.at("/containerID").clone()}});
            step.status["ready"] = json!(true);
            step.status["started"] = json!(false);
            step.next = None;
        }
        step
    }

    fn held(&self, reason: &str) -> Vec<Value> {
        let containers = self.seen.pod.list("/spec/containers");
        containers.iter().map(|c| self.waiting(c, reason)).collect()
    }

    fn waiting(&self, container: &Value, reason: &str) -> Value {
        json!({
            "name": container.at("/name").clone(), "image": container.at("/image").clone(),
            "imageID": "", "lastState": {}, "ready": false, "restartCount": 0, "started": false,
            "state": {"waiting": {"reason": reason}},
        })
    }

    fn status(&self, init: &[Value], main: &[Value], starts: Timestamp) -> Value {
        let (pod, now) = (&self.seen.pod, self.seen.now);
        let mut status = crate::object::status_of(pod);
        let phase = phase(pod, init, main);
        status["phase"] = json!(phase);
        status["hostIP"] = json!(self.seen.host_ip);
        status["hostIPs"] = json!([{"ip": self.seen.host_ip}]);
        if status.at("/startTime").is_null() {
            status["startTime"] = json!(stamp(now));
        }
        let has_sandbox = now >= starts;
        if has_sandbox && status.text("/podIP").is_empty() {
            let shares_host = pod.is_true("/spec/hostNetwork");
            let ip = if shares_host { &self.seen.host_ip } else { &self.seen.free_ip };
            status["podIP"] = json!(ip);
            status["podIPs"] = json!([{"ip": ip}]);
        }
        if status.text("/qosClass").is_empty() {
            status["qosClass"] = json!(qos(pod));
        }
        if !init.is_empty() {
            status["initContainerStatuses"] = json!(init);
        }
        status["containerStatuses"] = json!(main);
        status["conditions"] = json!(self.conditions(phase, init, main, has_sandbox));
        status
    }

    fn conditions(&self, phase: &str, init: &[Value], main: &[Value], sandbox: bool) -> Vec<Value> {
        let (pod, now) = (&self.seen.pod, self.seen.now);
        let names = |list: &[Value]| {
            let unready = list.iter().filter(|s| !s.is_true("/ready"));
            unready.map(|s| s.text("/name").to_owned()).collect::<Vec<_>>().join(" ")
        };
        let say = |kind, status, reason, message: String| ConditionDraft {
            kind,
            status,
            reason,
            message,
        };
        let (unready, uninitialized) = (names(main), names(init));
        let ended = match phase {
            "Succeeded" => Some("PodCompleted"),
            "Failed" => Some("PodFailed"),
            _ => None,
        };
        let containers_ready = |kind| match ended {
            Some(reason) => say(kind, "False", reason, String::new()),
            None if unready.is_empty() => say(kind, "True", "", String::new()),
            None => {
                let message = format!("containers with unready status: [{unready}]");
                say(kind, "False", "ContainersNotReady", message)
            }
        };
        let old = pod.list("/status/conditions");
        let closed_gate = pod
            .list("/spec/readinessGates")
            .iter()
            .map(|g| g.text("/conditionType"))
            .find(|gate| !condition::is_true(old, gate));
        let mut ready = containers_ready("Ready");
        if let Some(gate) = closed_gate.filter(|_| ready.status == "True") {
            let message =
                format!("corresponding condition of pod readiness gate {gate:?} does not exist.");
            ready = say("Ready", "False", "ReadinessGatesNotReady", message);
        }
        let drafts = [
            say(
                "PodReadyToStartContainers",
                if sandbox && ended.is_none() { "True" } else { "False" },
                "",
                String::new(),
            ),
            match ended {
                Some(reason) if reason == "PodCompleted" => {
                    say("Initialized", "True", reason, String::new())
                }
                _ if uninitialized.is_empty() => say("Initialized", "True", "", String::new()),
                _ => {
                    let message = format!("containers with incomplete status: [{uninitialized}]");
                    say("Initialized", "False", "ContainersNotInitialized", message)
                }
            },
            ready,
            containers_ready("ContainersReady"),
            say("PodScheduled", "True", "", String::new()),
        ];
        let mut all: Vec<Value> = Vec::new();
        for draft in &drafts {
            // Kept in this order, with the old one's time.
            let mut one: Vec<Value> =
                condition::find(old, draft.kind).cloned().into_iter().collect();
            condition::put(&mut one, Style::Probed, now, draft);
            all.append(&mut one);
        }
        let is_foreign = |c: &&Value| !drafts.iter().any(|d| d.kind == c.text("/type"));
        all.extend(old.iter().filter(is_foreign).cloned());
        all
    }

    fn fail(&self, plan: &mut Plan) {
        let pod = &self.seen.pod;
        let mut status = crate::object::status_of(pod);
        let message = "Pod was active on the node longer than the specified deadline";
        status["phase"] = json!("Failed");
        status["reason"] = json!("DeadlineExceeded");
        status["message"] = json!(message);
        let at = stamp(self.seen.now);
        let mut main = status.list("/containerStatuses").to_vec();
        end_containers(&mut main, 137, &at);
        let init = status.list("/initContainerStatuses").to_vec();
        status["conditions"] = json!(self.conditions("Failed", &init, &main, true));
        status["containerStatuses"] = json!(main);
        plan.status("pods", pod, status);
        let note = Note::normal(pod, SOURCE, "DeadlineExceeded", message);
        plan.act(Action::Say(note.on(self.host)));
    }
}

/// The phase follows from the containers alone.
fn phase(pod: &Value, init: &[Value], main: &[Value]) -> &'static str {
    if init.iter().any(|s| !s.is_true("/ready")) {
        return "Pending";
    }
    let never_ran =
        |s: &Value| !s.at("/state/waiting").is_null() && s.at("/lastState/terminated").is_null();
    if main.iter().any(never_ran) {
        return "Pending";
    }
    if main.iter().any(|s| !s.at("/state/running").is_null()) {
        return "Running";
    }
    let codes: Option<Vec<i64>> =
        main.iter().map(|s| s.int("/state/terminated/exitCode")).collect();
    let all_well = codes.as_ref().is_some_and(|codes| codes.iter().all(|c| *c == 0));
    match (pod.text("/spec/restartPolicy"), codes) {
        ("Never" | "OnFailure", Some(_)) if all_well => "Succeeded",
        ("Never", Some(_)) => "Failed",
        _ => "Running",
    }
}

/// `Guaranteed` when every container limits what it requests, `BestEffort` when none asks.
fn qos(pod: &Value) -> &'static str {
    let all: Vec<&Value> =
        pod.list("/spec/containers").iter().chain(pod.list("/spec/initContainers")).collect();
    let asks = |c: &&&Value| {
        ["requests", "limits"].iter().any(|kind| {
            let list = c.at("/resources").get(*kind).and_then(Value::as_object);
            list.is_some_and(|l| l.contains_key("cpu") || l.contains_key("memory"))
        })
    };
    if !all.iter().any(|c| asks(&c)) {
        return "BestEffort";
    }
    let is_bound = |c: &&Value| {
        ["cpu", "memory"].iter().all(|name| {
            let limit = c.at("/resources/limits").get(*name);
            let request = c.at("/resources/requests").get(*name);
            let milli = crate::resources::milli;
            limit.is_some() && request.is_none_or(|r| limit.map(milli) == Some(milli(r)))
        })
    };
    if all.iter().all(is_bound) { "Guaranteed" } else { "Burstable" }
}
