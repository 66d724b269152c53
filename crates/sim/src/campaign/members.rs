//! The members of a story, played: they join, send heartbeats, report on the Works they are
//! given, and leave. What they report is a small model, not pods.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flagship_apiserver::rest::{ClusterHandle, Local, PatchKind, WriteOptions};
use flagship_runtime::env::Env;
use flagship_store::ObjectKey;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use super::judge::Judge;
use super::story::{Manner, MemberStory};
use crate::testing::{IMC, WORK};

/// How soon a report that was refused is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// How soon a member reports once nothing goes wrong any more.
const HEALED: Duration = Duration::from_secs(1);

/// All members of a fleet. Clones share them.
#[derive(Clone)]
pub struct Members {
    hub: ClusterHandle,
    env: Env,
    judge: Arc<Judge>,
    /// Seconds between heartbeats.
    heartbeat: u64,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    members: BTreeMap<String, MemberStory>,
    healed: bool,
    /// How many regressions of a member have not ended.
    down: BTreeMap<String, u32>,
}

impl Members {
    /// Nobody yet. Works that the hub writes come from the judge.
    pub fn new(
        hub: ClusterHandle,
        env: Env,
        judge: Arc<Judge>,
        mut works: UnboundedReceiver<ObjectKey>,
        heartbeat: u64,
    ) -> Self {
        let members = Self { hub, env, judge, heartbeat, state: Arc::default() };
        let listening = members.clone();
        tokio::spawn(async move {
            while let Some(work) = works.recv().await {
                let members = listening.clone();
                tokio::spawn(async move { members.delivered(work).await });
            }
        });
        members
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn user(&self, member: &str) -> Local {
        self.hub.local(member)
    }

    /// A member whose agent runs from now on. It joins when it is registered.
    pub fn start(&self, member: MemberStory) {
        let (members, name) = (self.clone(), member.name.clone());
        if self.state().members.insert(name.clone(), member).is_some() {
            return;
        }
        tokio::spawn(async move {
            loop {
                let joined = members.beats(&name).await;
                let pause = if joined { members.heartbeat } else { 2 };
                tokio::time::sleep(Duration::from_secs(pause)).await;
            }
        });
    }

    /// Looks at what the hub wants of a member now, not only with its next heartbeat.
    pub fn wake(&self, member: &str) {
        let (members, name) = (self.clone(), member.to_owned());
        tokio::spawn(async move {
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_secs(3)).await;
                members.beats(&name).await;
            }
        });
    }

    /// One heartbeat, or the goodbye. Whether the member is in the fleet.
    async fn beats(&self, member: &str) -> bool {
        let space = format!("fleet-member-{member}");
        let found = self.hub.store().get(IMC, &ObjectKey::new(space.as_str(), member));
        let Some(found) = found else { return false };
        let object: Value = serde_json::from_slice(&found.json).unwrap_or_default();
        let leaves = object["spec"]["state"] == "Leave";
        let now = self.now();
        let condition = |kind: &str, status: &str| {
            json!({"type": kind, "status": status, "reason": "Agent", "message": "",
                "lastTransitionTime": now})
        };
        let joined = if leaves { "False" } else { "True" };
        let agent = json!({"type": "MemberAgent", "lastReceivedHeartbeat": now,
            "conditions": [condition("Joined", joined), condition("Healthy", "True")]});
        let patch = json!({"status": {"agentStatus": [agent]}});
        let (options, kind) = (WriteOptions::default(), PatchKind::Merge);
        let user = self.user(member);
        let said = user.patch(IMC, &space, member, "status", kind, patch, &options).await;
        said.is_ok() && !leaves
    }

    /// Something new was delivered to a member.
    async fn delivered(&self, work: ObjectKey) {
        let Some(name) = work.namespace.strip_prefix("fleet-member-").map(str::to_owned) else {
            return;
        };
        let story = self.state().members.get(&name).cloned();
        let Some(story) = story else { return };
        if self.state().healed {
            tokio::time::sleep(HEALED).await;
            return self.report(&name, &work, Said::Works).await;
        }
        let ready = Duration::from_secs(story.ready);
        match story.manner {
            Manner::Plain => {
                tokio::time::sleep(ready).await;
                self.report(&name, &work, Said::Works).await;
            }
            Manner::Flaps(seconds) => {
                tokio::time::sleep(ready).await;
                self.report(&name, &work, Said::Works).await;
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                self.judge.happened("flapping member", &format!("{name} fails again"));
                self.report(&name, &work, Said::Fails).await;
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                self.report(&name, &work, Said::Works).await;
            }
            Manner::SpeaksOfThePast => {
                self.judge.happened("old generation reported", &format!("{name} speaks of before"));
                self.report(&name, &work, Said::Worked).await;
                tokio::time::sleep(ready + AGAIN).await;
                self.report(&name, &work, Said::Works).await;
            }
            Manner::Silent => self.judge.happened("silent member", &format!("{name} says nothing")),
            Manner::Fails => {
                self.judge.happened("failing member", &format!("{name} cannot apply"));
                tokio::time::sleep(ready).await;
                self.report(&name, &work, Said::CannotApply).await;
            }
        }
    }

    /// What a member runs fails by itself, and recovers.
    pub fn regress(&self, member: &str, seconds: u64) {
        let (members, name) = (self.clone(), member.to_owned());
        tokio::spawn(async move {
            members.judge.happened("regression", &format!("{name} fails by itself"));
            members.count_down(&name, |down| down + 1);
            members.report_all(&name, Said::Fails).await;
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            members.count_down(&name, |down| down.saturating_sub(1));
            members.report_all(&name, Said::Works).await;
        });
    }

    fn count_down(&self, member: &str, change: impl Fn(u32) -> u32) {
        let mut state = self.state();
        let down = state.down.entry(member.to_owned()).or_default();
        *down = change(*down);
    }

    /// From now on every member works, and says so.
    pub async fn heal(&self) {
        let names: Vec<String> = {
            let mut state = self.state();
            state.healed = true;
            state.down.clear();
            state.members.keys().cloned().collect()
        };
        for name in names {
            self.report_all(&name, Said::Works).await;
        }
    }

    async fn report_all(&self, member: &str, said: Said) {
        let space = format!("fleet-member-{member}");
        let works = self.hub.store().list(WORK, flagship_store::Scope::Namespace(&space)).items;
        for work in works {
            self.report(member, &work.key, said).await;
        }
    }

    /// Says something about a Work, until the hub has heard it or the Work is gone.
    async fn report(&self, member: &str, work: &ObjectKey, said: Said) {
        let (options, user) = (WriteOptions::default(), self.user(member));
        loop {
            let Some(stored) = self.hub.store().get(WORK, work) else { return };
            let object: Value = serde_json::from_slice(&stored.json).unwrap_or_default();
            let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
            let said = self.what_it_reports(member, said);
            let now = self.now();
            let condition = |kind: &str, status: &str, reason: &str| {
                let about = if said == Said::Worked { generation - 1 } else { generation };
                json!({"type": kind, "status": status, "reason": reason, "message": "",
                    "observedGeneration": about, "lastTransitionTime": now})
            };
            let conditions = match said {
                Said::Works | Said::Worked => json!([
                    condition("Applied", "True", "AllManifestsApplied"),
                    condition("Available", "True", "AllManifestsAvailable"),
                ]),
                Said::Fails => json!([
                    condition("Applied", "True", "AllManifestsApplied"),
                    condition("Available", "False", "SomeManifestsAreNotAvailable"),
                ]),
                Said::CannotApply => {
                    json!([condition("Applied", "False", "SomeManifestsAreNotApplied")])
                }
            };
            let patch = json!({"status": {"conditions": conditions}});
            let (space, name) = (&*work.namespace, &*work.name);
            let kind = PatchKind::Merge;
            match user.patch(WORK, space, name, "status", kind, patch, &options).await {
                Ok(_) => return,
                Err(error) if error.code == 404 => return,
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    /// What a member reports: that all is well once faults have ended, whatever it was about to
    /// say, and that it fails while it is down.
    fn what_it_reports(&self, member: &str, said: Said) -> Said {
        let state = self.state();
        let down = state.down.get(member).is_some_and(|n| *n > 0);
        match said {
            _ if state.healed => Said::Works,
            Said::Works if down => Said::Fails,
            said => said,
        }
    }

    fn now(&self) -> String {
        let now = self.env.now();
        format!("{}Z", now.to_string().split(['.', 'Z']).next().unwrap_or_default())
    }
}

/// What a member says of a Work.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    /// It is applied and available.
    Works,
    /// The same, of the generation before.
    Worked,
    /// It is applied and not available.
    Fails,
    /// It cannot be applied.
    CannotApply,
}
