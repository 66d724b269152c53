//! Members that join, and what holds up those that do not.
//!
//! A fleet serves although a member could not be registered: whoever has to repair that needs
//! its API. [`Joining::until`] tells who is left and why, [`Joining::go_on`] keeps trying.

use std::time::Duration;

use flagship_api::cluster::MemberCluster;
use flagship_api::names::ObjectKey;
use flagship_runtime::client::Client;
use serde_json::Value;

use super::has_joined;

/// How soon a member that has not joined is looked at again.
const POLL: Duration = Duration::from_millis(10);
/// The same once it is known that somebody has to do something about it.
const RETRY: Duration = Duration::from_secs(5);

/// The members that have not joined yet.
pub struct Joining {
    hub: Client,
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
    pub fn new(hub: Client, members: impl IntoIterator<Item = (String, Value)>) -> Self {
        let candidate = |(name, registration)| {
            let why = "it has not joined yet".to_owned();
            Candidate { name, why, registration, has_joined: false, is_held: false }
        };
        Self { hub, members: members.into_iter().map(candidate).collect() }
    }

    /// Registers all and waits until each has joined, or is held up by something that does
    /// not go away by itself, or until patience ends.
    pub async fn until(&mut self, patience: Duration) {
        let joining = async {
            loop {
                self.look().await;
                if self.members.iter().all(|member| member.is_held) {
                    return;
                }
                tokio::time::sleep(POLL).await;
            }
        };
        // Who is left when patience ends is in the list.
        drop(tokio::time::timeout(patience, joining).await);
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

    async fn look(&mut self) {
        // Each is noted by itself: a look may end at any wait.
        for member in &mut self.members {
            member.has_joined = member.look(&self.hub).await;
        }
        self.members.retain(|member| !member.has_joined);
    }
}

impl Candidate {
    /// Registers the member unless it is there. Whether it has joined.
    async fn look(&mut self, hub: &Client) -> bool {
        let (clusters, key) = (hub.of::<MemberCluster>(), ObjectKey::cluster(&self.name));
        let held = match clusters.find(&key).await {
            Err(error) => Some(format!("it cannot be read: {error}")),
            Ok(Some(found)) if found.metadata.deletion_timestamp.is_some() => {
                let finalizers = found.metadata.finalizers.unwrap_or_default();
                Some(format!("it is being deleted, held by {}", finalizers.join(", ")))
            }
            // What stands on the hub stays as people left it: labels, taints, heartbeat.
            Ok(Some(found)) => {
                if has_joined(Some(&found)) {
                    return true;
                }
                None
            }
            // Somebody removed it: it is registered again.
            Ok(None) => match clusters.apply(&key, &self.registration, true).await {
                Ok(_) => None,
                Err(error) => Some(format!("it cannot be registered: {error}")),
            },
        };
        self.is_held = held.is_some();
        if let Some(held) = held {
            self.why = held;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use flagship_apiserver::rest::Local;
    use flagship_store::durable::Durable;
    use serde_json::json;

    use super::*;
    use crate::{EmbeddedFleet, FleetSpec, HUB, Storage};

    const PATIENCE: Duration = Duration::from_secs(60);
    const MEMBERS: &str = "memberclusters.cluster.kubernetes-fleet.io";
    const WEBHOOKS: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";

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
    async fn neither_a_webhook_that_refuses_everything_nor_a_held_member_keeps_a_fleet_down() {
        let folder = std::env::temp_dir().join(format!("flagship-joining-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&folder));
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("data.redb");
        let (fleet, joining) = started(&file).await;
        assert!(joining.left().is_empty());
        let user = fleet.handle(HUB).local("user");
        hold(&user, json!(["example.com/hold"])).await;
        user.delete(MEMBERS, "", "member1", Default::default()).await.unwrap();
        // Nobody listens there, and that counts as a refusal.
        let everything = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]);
        let webhook = json!({"metadata": {"name": "closed"}, "webhooks": [{
            "name": "closed.example.com", "rules": everything, "failurePolicy": "Fail",
            "clientConfig": {"url": "https://127.0.0.1:1/"}, "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "timeoutSeconds": 1,
        }]});
        user.create(WEBHOOKS, "", webhook).await.unwrap();
        let map = json!({"metadata": {"name": "probe"}});
        assert!(user.create("configmaps", "default", map.clone()).await.is_err());
        fleet.shutdown().await;

        let (fleet, mut joining) = started(&file).await;
        let told: Vec<_> = joining.left().iter().map(|left| (&*left.name, &*left.why)).collect();
        let [("member1", why)] = told.as_slice() else { panic!("{told:?}") };
        assert!(why.starts_with("it is being deleted, held by example.com/hold"), "{why}");
        // The API is there to repair both, and the next look finds the member back.
        let user = fleet.handle(HUB).local("user");
        assert!(user.create("configmaps", "default", map).await.is_err());
        user.delete(WEBHOOKS, "", "closed", Default::default()).await.unwrap();
        hold(&user, json!([])).await;
        joining.until(PATIENCE).await;
        assert!(joining.left().is_empty());
        fleet.shutdown().await;
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
