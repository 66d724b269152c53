//! Members that join, and what holds up those that do not.
//!
//! A fleet serves although a member could not be registered: whoever has to repair that needs
//! its API. [`Joining::until`] tells who is left and why, [`Joining::go_on`] keeps trying.
//!
//! All members are looked at by one list, at the start and at the end. In between the hub's store
//! is watched, so that waiting costs as much time for each member in a large fleet as in a small
//! one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use flagship_api::cluster::MemberCluster;
use flagship_api::condition_type::member_cluster;
use flagship_api::names::ObjectKey;
use flagship_runtime::client::{Client, ResourceType, Selection};
use flagship_store::{Filter, Store, WatchEnd, WatchEvent, WatchFrom};
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::has_joined;

/// How soon members that the watch does not show as joined are listed again: what holds them up
/// may be nothing that a watch shows.
const POLL: Duration = Duration::from_secs(1);
/// Between two lists at least this many times what the last one took, so that looking at many
/// members takes little from what lets them join.
const POLL_SHARE: u32 = 20;
/// Members that are registered side by side.
const AT_ONCE: usize = 1024;
/// The same once it is known that somebody has to do something about it.
const RETRY: Duration = Duration::from_secs(5);

/// The members that have not joined yet.
pub struct Joining {
    hub: Client,
    /// The hub's objects, to see at once when a member has joined.
    store: Arc<Store>,
    members: Vec<Candidate>,
}

/// A member that has not joined yet.
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// Why it has not joined.
    pub why: String,
    registration: Value,
    has_joined: bool,
    /// Whether it waits for something that does not come by itself.
    is_held: bool,
}

impl Joining {
    /// Of these members, by their registrations, through a client of the hub.
    pub fn new(
        hub: Client,
        store: Arc<Store>,
        members: impl IntoIterator<Item = (String, Value)>,
    ) -> Self {
        let candidate = |(name, registration)| {
            let why = "it has not joined yet".to_owned();
            Candidate { name, why, registration, has_joined: false, is_held: false }
        };
        Self { hub, store, members: members.into_iter().map(candidate).collect() }
    }

    /// Registers all and waits until each has joined, or is held up by something that does
    /// not go away by itself, or until none has joined for as long as patience lasts.
    pub async fn until(&mut self, patience: Duration) {
        let mut last_joined = Instant::now();
        let mut left = self.members.len();
        loop {
            let begun = Instant::now();
            // Who is left when patience ends is in the list.
            if tokio::time::timeout_at(last_joined + patience, self.look()).await.is_err()
                || self.members.iter().all(|member| member.is_held)
            {
                return;
            }
            if self.members.len() < left {
                left = self.members.len();
                last_joined = Instant::now();
            }
            let pause = POLL.max(begun.elapsed() * POLL_SHARE);
            let end = (Instant::now() + pause).min(last_joined + patience);
            // Whether it was seen or the time was up, the next list says what is so.
            drop(tokio::time::timeout_at(end, self.all_seen()).await);
        }
    }

    /// Waits until the store has shown each member that is not held up as joined.
    async fn all_seen(&self) {
        let missing = self.members.iter().filter(|member| !member.is_held);
        let mut missing: BTreeSet<&str> = missing.map(|member| &*member.name).collect();
        let of = ResourceType::of::<MemberCluster>();
        let resource = format!("{}.{}", of.plural, of.group);
        while !missing.is_empty() {
            let from = WatchFrom::CurrentThenLive;
            // Only a start in the past can be too old.
            let Ok(mut shown) = self.store.watch(&resource, from, Filter::default()) else {
                return;
            };
            while let Some(event) = shown.next().await {
                if let WatchEvent::Added(object) | WatchEvent::Modified(object) = &event
                    && missing.contains(&*object.key.name)
                    && Glance::at(&object.json).has_joined()
                {
                    missing.remove(&*object.key.name);
                    if missing.is_empty() {
                        return;
                    }
                }
            }
            // One that is read too slowly is begun again.
            if shown.why_closed() != Some(WatchEnd::Lagged) {
                return;
            }
        }
    }

    /// Those that have not joined, and why.
    pub fn left(&self) -> &[Candidate] {
        &self.members
    }

    /// Tries again until all have joined.
    pub async fn go_on(mut self) {
        while !self.members.is_empty() {
            tokio::time::sleep(RETRY).await;
            self.look().await;
        }
    }

    /// Looks at all by one list. Each is noted by itself: a look may end at any wait.
    async fn look(&mut self) {
        let listed = match self.hub.of::<MemberCluster>().list(&Selection::all()).await {
            Ok(listed) => listed,
            Err(error) => {
                let why = format!("it cannot be read: {error}");
                return self.members.iter_mut().for_each(|member| member.hold(why.clone()));
            }
        };
        let unreadable: BTreeMap<&str, String> =
            listed.malformed.iter().map(|one| (&*one.name, one.to_string())).collect();
        let named =
            listed.items.into_iter().filter_map(|one| Some((one.metadata.name.clone()?, one)));
        let found: BTreeMap<String, MemberCluster> = named.collect();
        let mut missing: Vec<BoxFuture<'_, ()>> = Vec::new();
        for member in &mut self.members {
            match (unreadable.get(&*member.name), found.get(&member.name)) {
                (Some(why), _) => member.hold(format!("it cannot be read: {why}")),
                (None, Some(found)) => member.see(found),
                (None, None) => missing.push(Box::pin(member.register(&self.hub))),
            }
        }
        stream::iter(missing).buffer_unordered(AT_ONCE).collect::<()>().await;
        self.members.retain(|member| !member.has_joined);
    }
}

/// What says that a member has joined, read out of a stored object without the rest of it.
#[derive(Default, Deserialize)]
struct Glance {
    #[serde(default)]
    status: Conditions,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Conditions {
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    r#type: String,
    status: String,
}

impl Glance {
    /// What is there; nothing in what cannot be read, which the next list tells.
    fn at(json: &[u8]) -> Self {
        serde_json::from_slice(json).unwrap_or_default()
    }

    fn has_joined(&self) -> bool {
        let conditions = &self.status.conditions;
        conditions.iter().any(|one| one.r#type == member_cluster::JOINED && one.status == "True")
    }
}

impl Candidate {
    /// It waits for something that does not come by itself.
    fn hold(&mut self, why: String) {
        (self.is_held, self.why) = (true, why);
    }

    /// Notes whether it has joined. What stands on the hub stays as people left it: labels,
    /// taints, heartbeat.
    fn see(&mut self, found: &MemberCluster) {
        self.is_held = false;
        if found.metadata.deletion_timestamp.is_some() {
            let finalizers = found.metadata.finalizers.clone().unwrap_or_default();
            self.hold(format!("it is being deleted, held by {}", finalizers.join(", ")));
        } else {
            self.has_joined = has_joined(Some(found));
        }
    }

    /// Registers it, for the first time or because somebody removed it.
    async fn register(&mut self, hub: &Client) {
        self.is_held = false;
        let key = ObjectKey::cluster(&self.name);
        let applied = hub.of::<MemberCluster>().apply(&key, &self.registration, true).await;
        if let Err(error) = applied {
            self.hold(format!("it cannot be registered: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use flagship_apiserver::rest::Local;
    use flagship_runtime::env::Env;
    use flagship_store::durable::Durable;
    use flagship_store::env::Env as ServerEnv;
    use serde_json::json;

    use super::*;
    use crate::{EmbeddedFleet, FleetSpec, HUB, Storage};

    const PATIENCE: Duration = Duration::from_secs(60);
    const MEMBERS: &str = "memberclusters.cluster.kubernetes-fleet.io";
    const WEBHOOKS: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";
    const POLICIES: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
    const BINDINGS: &str = "validatingadmissionpolicybindings.admissionregistration.k8s.io";

    async fn started(file: &Path) -> (EmbeddedFleet, Joining) {
        let mut spec = FleetSpec::named(vec!["member1".to_owned(), "member2".to_owned()]);
        let canary = [("environment".to_owned(), "canary".to_owned())].into();
        spec.labels.insert("member1".to_owned(), canary);
        let storage = Storage::Durable(Durable::open(file).unwrap());
        let mut fleet = EmbeddedFleet::builder(spec).storage(storage).build().await.unwrap();
        fleet.start_controllers();
        let mut joining = fleet.joining(fleet.unguarded_client(HUB, "flagship"));
        joining.until(PATIENCE).await;
        (fleet, joining)
    }

    /// Has a webhook and an admission policy refuse everything that anybody writes.
    async fn close(user: &Local) {
        let everything = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]);
        // Nobody listens there, and that counts as a refusal.
        let webhook = json!({"metadata": {"name": "closed"}, "webhooks": [{
            "name": "closed.example.com", "rules": everything, "failurePolicy": "Fail",
            "clientConfig": {"url": "https://127.0.0.1:1/"}, "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "timeoutSeconds": 1,
        }]});
        user.create(WEBHOOKS, "", webhook).await.unwrap();
        let policy = json!({"metadata": {"name": "closed"}, "spec": {"failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": everything},
            "validations": [{"expression": "false", "message": "nothing at all"}]}});
        user.create(POLICIES, "", policy).await.unwrap();
        let binding = json!({"metadata": {"name": "closed"},
            "spec": {"policyName": "closed", "validationActions": ["Deny"]}});
        user.create(BINDINGS, "", binding).await.unwrap();
        assert!(user.create("configmaps", "default", probe()).await.is_err());
    }

    async fn open(user: &Local) {
        user.delete(WEBHOOKS, "", "closed", Default::default()).await.unwrap();
        user.delete(BINDINGS, "", "closed", Default::default()).await.unwrap();
    }

    fn probe() -> Value {
        json!({"metadata": {"name": "probe"}})
    }

    async fn hold(user: &Local, finalizers: Value) {
        update(user, |member| member["metadata"]["finalizers"] = finalizers.clone()).await;
    }

    /// Puts what a person set beside what is there.
    async fn change(user: &Local, set: &Value) {
        update(user, |member| {
            member["metadata"]["labels"] = set["metadata"]["labels"].clone();
            member["spec"]["heartbeatPeriodSeconds"] =
                set["spec"]["heartbeatPeriodSeconds"].clone();
        })
        .await;
    }

    async fn update(user: &Local, change: impl Fn(&mut Value)) {
        // The hub may write meanwhile.
        loop {
            let mut member = user.get(MEMBERS, "", "member1").await.unwrap();
            change(&mut member);
            match user.update(MEMBERS, member).await {
                Err(error) if error.code == 409 => {}
                updated => return drop(updated.unwrap()),
            }
        }
    }

    #[tokio::test]
    async fn what_a_person_changed_on_a_member_survives_a_restart() {
        let folder = std::env::temp_dir().join(format!("flagship-labels-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&folder));
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("data.redb");
        let (fleet, _) = started(&file).await;
        let user = fleet.handle(HUB).local("user");
        let labels = json!({"metadata": {"labels": {"environment": "mine", "team": "a"}},
            "spec": {"heartbeatPeriodSeconds": 33}});
        change(&user, &labels).await;
        fleet.shutdown().await;

        let (fleet, joining) = started(&file).await;
        assert!(joining.left().is_empty());
        let user = fleet.handle(HUB).local("user");
        let member = user.get(MEMBERS, "", "member1").await.unwrap();
        assert_eq!(member["metadata"]["labels"]["environment"], "mine");
        assert_eq!(member["metadata"]["labels"]["team"], "a");
        assert_eq!(member["spec"]["heartbeatPeriodSeconds"], 33);
        fleet.shutdown().await;
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[tokio::test]
    async fn neither_refusals_of_everything_nor_a_held_member_keep_a_fleet_down() {
        let folder = std::env::temp_dir().join(format!("flagship-joining-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&folder));
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("data.redb");
        let (fleet, joining) = started(&file).await;
        assert!(joining.left().is_empty());
        let user = fleet.handle(HUB).local("user");
        hold(&user, json!(["example.com/hold"])).await;
        user.delete(MEMBERS, "", "member1", Default::default()).await.unwrap();
        close(&user).await;
        fleet.shutdown().await;

        let (fleet, mut joining) = started(&file).await;
        let told: Vec<_> = joining.left().iter().map(|left| (&*left.name, &*left.why)).collect();
        let [("member1", why)] = told.as_slice() else { panic!("{told:?}") };
        assert!(why.starts_with("it is being deleted, held by example.com/hold"), "{why}");
        // The API is there to repair both, and the next look finds the member back.
        let user = fleet.handle(HUB).local("user");
        assert!(user.create("configmaps", "default", probe()).await.is_err());
        open(&user).await;
        hold(&user, json!([])).await;
        joining.until(PATIENCE).await;
        assert!(joining.left().is_empty());
        fleet.shutdown().await;
        std::fs::remove_dir_all(&folder).unwrap();
    }

    // The hub's controllers are refused as everybody is, so nobody joins until that is repaired.
    // Their back-off has grown meanwhile, at most to about as long as they were refused.
    #[tokio::test(start_paused = true)]
    async fn members_are_registered_although_everything_is_refused() {
        let spec = FleetSpec::named(vec!["member1".to_owned()]);
        let building = EmbeddedFleet::builder(spec);
        let building = building.clock(Env::simulated(1), ServerEnv::simulated(1));
        let mut fleet = building.build().await.unwrap();
        let user = fleet.handle(HUB).local("user");
        close(&user).await;
        fleet.start_controllers();
        let mut joining = fleet.joining(fleet.unguarded_client(HUB, "flagship"));
        joining.until(PATIENCE).await;
        let told: Vec<_> = joining.left().iter().map(|left| (&*left.name, &*left.why)).collect();
        assert_eq!(told, [("member1", "it has not joined yet")]);
        assert!(user.get(MEMBERS, "", "member1").await.is_ok());
        open(&user).await;
        tokio::time::timeout(PATIENCE * 3, joining.go_on()).await.expect("it joins");
        let member = user.get(MEMBERS, "", "member1").await.unwrap();
        let conditions = member["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let joined = |one: &Value| one["type"] == "Joined" && one["status"] == "True";
        assert!(conditions.iter().any(joined), "{member:#}");
    }

    #[tokio::test]
    async fn a_definition_that_ours_does_not_fit_any_more_does_not_keep_a_fleet_down() {
        const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
        let folder = std::env::temp_dir().join(format!("flagship-misfit-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&folder));
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("data.redb");
        let (fleet, _) = started(&file).await;
        let user = fleet.handle(HUB).local("user");
        let mut definition = user.get(DEFINITIONS, "", MEMBERS).await.unwrap();
        // Stored objects may be of this version from now on, so that it cannot be left out.
        let mut later = definition["spec"]["versions"][0].clone();
        definition["spec"]["versions"][0]["storage"] = json!(false);
        (later["name"], later["storage"]) = (json!("v9"), json!(true));
        definition["spec"]["versions"].as_array_mut().unwrap().push(later);
        user.update(DEFINITIONS, definition).await.unwrap();
        fleet.shutdown().await;

        let (fleet, _) = started(&file).await;
        let user = fleet.handle(HUB).local("user");
        let definition = user.get(DEFINITIONS, "", MEMBERS).await.unwrap();
        assert_eq!(definition["status"]["storedVersions"], json!(["v1beta1", "v9"]));
        assert!(user.create("configmaps", "default", probe()).await.is_ok());
        fleet.shutdown().await;
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
