//! One container's next state, from its last one and the time.
//!
//! Nothing is remembered outside the pod: when a container starts, ends, pulls
//! again or restarts follows from the times in its status. A restarted simulator
//! goes on where the last one stopped.

use std::time::Duration;

use flagship_base::backoff::Backoff;
use flagship_base::duration::GoDuration;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::behaviour::Script;
use crate::image;
use crate::object::{Fields, stamp, whole};

/// The waits before a container that keeps failing is started again.
const BACK_OFF: Backoff =
    Backoff { first: Duration::from_secs(10), longest: Duration::from_secs(300) };

/// What a kubelet knows when it looks at a container.
pub(super) struct Setting<'a> {
    pub pod: &'a Value,
    pub script: &'a Script,
    /// Whether the container's image cannot be pulled.
    pub image_missing: bool,
    /// Why its environment cannot be read.
    pub lacks: Option<&'a str>,
    /// When containers of this pod may start.
    pub starts: Timestamp,
    pub now: Timestamp,
    pub init: bool,
}

/// What becomes of a container.
pub(super) struct Step {
    pub status: Value,
    /// When it changes by itself.
    pub next: Option<Timestamp>,
    /// Warning?, reason, message.
    pub notes: Vec<(bool, &'static str, String)>,
}

impl Setting<'_> {
    /// The container's next status. `old` is `null` when it has none yet.
    pub fn step(&self, container: &Value, old: &Value) -> Step {
        let state = old.at("/state");
        if !state.at("/terminated").is_null() && !self.restarts(state.at("/terminated")) {
            return self.same(old);
        }
        if !state.at("/running").is_null() {
            return self.running(container, old);
        }
        if !state.at("/terminated").is_null() {
            return self.ended(container, old, state.at("/terminated").clone());
        }
        if state.text("/waiting/reason") == "CrashLoopBackOff" {
            return self.backing_off(container, old);
        }
        self.waiting(container, old)
    }

    fn same(&self, old: &Value) -> Step {
        let mut status = old.clone();
        status["ready"] = json!(self.init && old.int("/state/terminated/exitCode") == Some(0));
        Step { status, next: None, notes: Vec::new() }
    }

    /// Not started yet: creating, or an image is in the way.
    fn waiting(&self, container: &Value, old: &Value) -> Step {
        if self.now < self.starts {
            let status = self.status(container, old, &wait("ContainerCreating", ""), false);
            return Step { status, next: Some(self.starts), notes: Vec::new() };
        }
        let name = container.text("/image");
        let (reason, message, next) = match image::parse(name) {
            Err(why) => {
                let message = format!("Failed to apply default image tag {name:?}: {why}");
                ("InvalidImageName", message, None)
            }
            Ok(full) if self.image_missing => {
                if container.text("/imagePullPolicy") == "Never" {
                    let says = format!(
                        "Container image {name:?} is not present with pull policy of Never"
                    );
                    ("ErrImageNeverPull", says, None)
                } else {
                    self.pulling(name, &full)
                }
            }
            Ok(_) => match self.lacks {
                Some(why) => {
                    let again = self.now.checked_add(super::AGAIN).ok();
                    ("CreateContainerConfigError", why.to_owned(), again)
                }
                None => return self.start(container, old, None),
            },
        };
        let notes = if old.text("/state/waiting/reason") == reason {
            Vec::new()
        } else {
            image_notes(reason, name, &message)
        };
        let status = self.status(container, old, &wait(reason, &message), false);
        Step { status, next, notes }
    }

    /// Pull, fail, back off, pull again: a function of the time since the first try.
    fn pulling(&self, name: &str, full: &str) -> (&'static str, String, Option<Timestamp>) {
        let failed = format!(
            "rpc error: code = NotFound desc = failed to pull and unpack image {full:?}: \
             failed to resolve reference {full:?}: {full}: not found"
        );
        let elapsed = self.now.as_second().saturating_sub(self.starts.as_second());
        let (mut tried, mut count) = (0, 1);
        let mut gap = back_off(count);
        while tried + shown(gap) + gap <= elapsed {
            tried += shown(gap) + gap;
            count += 1;
            gap = back_off(count);
        }
        let at = |offset: i64| self.starts.checked_add(SignedDuration::from_secs(offset)).ok();
        if elapsed < tried + shown(gap) {
            ("ErrImagePull", failed, at(tried + shown(gap)))
        } else {
            let message = format!("Back-off pulling image {name:?}: ErrImagePull: {failed}");
            ("ImagePullBackOff", message, at(tried + shown(gap) + gap))
        }
    }

    fn start(&self, container: &Value, old: &Value, last: Option<Value>) -> Step {
        let name = container.name_of();
        let notes = vec![
            (
                false,
                "Pulled",
                format!(
                    "Container image {:?} already present on machine",
                    container.text("/image")
                ),
            ),
            (false, "Created", format!("Created container: {name}")),
            (false, "Started", format!("Started container {name}")),
        ];
        let mut status = self.status(container, old, &running(self.now), false);
        if let Some(last) = last {
            status["lastState"] = json!({"terminated": last});
            status["restartCount"] = json!(old.int("/restartCount").unwrap_or(0) + 1);
        }
        let step = self.running(container, &status);
        Step { notes: notes.into_iter().chain(step.notes).collect(), ..step }
    }

    fn running(&self, container: &Value, old: &Value) -> Step {
        let since = old.time("/state/running/startedAt").unwrap_or(self.now);
        let mut next = None;
        if let Some((run, code)) = self.script.ends.filter(|_| !self.init) {
            let end = since.checked_add(run).unwrap_or(Timestamp::MAX);
            if self.now >= end {
                let reason = if code == 0 { "Completed" } else { "Error" };
                let mut ended = json!({
                    "exitCode": code, "reason": reason,
                    "startedAt": stamp(since), "finishedAt": stamp(end),
                    "containerID": old.at("/containerID").clone(),
                });
                if let Some(message) = &self.script.message {
                    ended["message"] = json!(message);
                }
                return self.ended(container, old, ended);
            }
            next = Some(end);
        }
        let ready_at = self
            .script
            .ready
            .map(|after| since.checked_add(after).unwrap_or(Timestamp::MAX))
            .filter(|_| !self.pod.is_deleting());
        let ready = ready_at.is_some_and(|at| at <= self.now);
        if let Some(at) = ready_at.filter(|at| *at > self.now) {
            next = Some(next.map_or(at, |n| n.min(at)));
        }
        let status = self.status(container, old, &running(since), ready || self.init);
        Step { status, next, notes: Vec::new() }
    }

    /// Ended: stays so, starts again at once, or backs off.
    fn ended(&self, container: &Value, old: &Value, ended: Value) -> Step {
        if !self.restarts(&ended) {
            let done = self.init && ended.int("/exitCode") == Some(0);
            let status = self.status(container, old, &json!({"terminated": ended}), done);
            return Step { status, next: None, notes: Vec::new() };
        }
        let count = old.int("/restartCount").unwrap_or(0);
        if count == 0 || ran_long(&ended) {
            return self.start(container, old, Some(ended));
        }
        let name = container.name_of();
        let (pod, space, uid) = (self.pod.name(), self.pod.namespace(), self.pod.uid());
        let wait_for = GoDuration::from_secs(back_off(count));
        let message = format!(
            "back-off {wait_for} restarting failed container={name} pod={pod}_{space}({uid})"
        );
        let mut status = self.status(container, old, &wait("CrashLoopBackOff", &message), false);
        status["lastState"] = json!({"terminated": ended});
        let note =
            format!("Back-off restarting failed container {name} in pod {pod}_{space}({uid})");
        let step = self.backing_off(container, &status);
        Step { notes: [(true, "BackOff", note)].into_iter().chain(step.notes).collect(), ..step }
    }

    fn backing_off(&self, container: &Value, old: &Value) -> Step {
        let count = old.int("/restartCount").unwrap_or(0);
        let ended = old.at("/lastState/terminated");
        let since = ended.time("/finishedAt").unwrap_or(self.now);
        let wait_for = SignedDuration::from_secs(back_off(count));
        let due = since.checked_add(wait_for).unwrap_or(Timestamp::MAX);
        if self.now >= due {
            return self.start(container, old, Some(ended.clone()));
        }
        Step { status: old.clone(), next: Some(due), notes: Vec::new() }
    }

    fn restarts(&self, ended: &Value) -> bool {
        match self.pod.text("/spec/restartPolicy") {
            "Never" => false,
            "OnFailure" => ended.int("/exitCode") != Some(0),
            _ => !self.init,
        }
    }

    fn status(&self, container: &Value, old: &Value, state: &Value, ready: bool) -> Value {
        let is_running = !state.at("/running").is_null();
        let count = old.int("/restartCount").unwrap_or(0);
        let name = container.name_of();
        let mut status = json!({
            "name": name, "image": container.at("/image").clone(), "imageID": "",
            "lastState": match old.at("/lastState") { Value::Null => json!({}), last => last.clone() },
            "ready": ready, "restartCount": count, "started": is_running, "state": state,
        });
        if is_running || !status.at("/state/terminated").is_null() {
            let full = image::parse(container.text("/image")).unwrap_or_default();
            let repository = image::repository(&full);
            // As the runtime calls it, once it has it.
            status["image"] = json!(full);
            status["imageID"] = json!(format!("{repository}@sha256:{}", digest(&full, "")));
            let restarted = status.time("/state/running/startedAt").map_or(0, Timestamp::as_second);
            let salt = format!("{name}{count}{restarted}");
            status["containerID"] = match old.at("/containerID") {
                Value::String(id) if old.at("/state/running") == status.at("/state/running") => {
                    json!(id)
                }
                Value::String(id) if !status.at("/state/terminated").is_null() => json!(id),
                _ => json!(format!("containerd://{}", digest(self.pod.uid(), &salt))),
            };
        }
        status
    }
}

/// How long a failed pull is shown as such before the back-off is.
fn shown(gap: i64) -> i64 {
    (gap / 2).min(15)
}

/// Seconds before the `count`-th restart after the first.
fn back_off(count: i64) -> i64 {
    let before = u32::try_from(count.saturating_sub(1).max(0)).unwrap_or(u32::MAX);
    i64::try_from(BACK_OFF.after(before).as_secs()).unwrap_or(i64::MAX)
}

/// After ten minutes of running, a crash counts as the first again.
fn ran_long(ended: &Value) -> bool {
    match (ended.time("/startedAt"), ended.time("/finishedAt")) {
        (Some(from), Some(to)) => to.as_second() - from.as_second() >= 600,
        _ => false,
    }
}

fn wait(reason: &str, message: &str) -> Value {
    let mut waiting = json!({"reason": reason});
    if !message.is_empty() {
        waiting["message"] = json!(message);
    }
    json!({"waiting": waiting})
}

fn running(since: Timestamp) -> Value {
    json!({"running": {"startedAt": stamp(whole(since))}})
}

fn image_notes(reason: &str, name: &str, message: &str) -> Vec<(bool, &'static str, String)> {
    let error = (true, "Failed", format!("Error: {reason}"));
    match reason {
        "InvalidImageName" => vec![(true, "InspectFailed", message.to_owned()), error],
        "ErrImageNeverPull" => vec![(true, "ErrImageNeverPull", message.to_owned()), error],
        "ErrImagePull" => vec![
            (false, "Pulling", format!("Pulling image {name:?}")),
            (true, "Failed", format!("Failed to pull image {name:?}: {message}")),
            error,
        ],
        "CreateContainerConfigError" => vec![(true, "Failed", format!("Error: {message}"))],
        _ => vec![(false, "BackOff", format!("Back-off pulling image {name:?}")), error],
    }
}

/// Sixty-four hex digits that differ where their inputs do; nobody verifies them.
fn digest(text: &str, salt: &str) -> String {
    (0_u64..4)
        .map(|part| {
            let mut state = 0xcbf2_9ce4_8422_2325_u64 ^ part;
            for byte in text.bytes().chain(salt.bytes()) {
                state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
            format!("{:016x}", state ^ (state >> 29))
        })
        .collect()
}

trait Named {
    fn name_of(&self) -> &str;
}

impl Named for Value {
    /// A container's own name, which stands outside of any metadata.
    fn name_of(&self) -> &str {
        self.text("/name")
    }
}
