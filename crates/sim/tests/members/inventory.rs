//! Members as other tools read them: their ClusterProfiles, on a hub with real agents.

use flagship_sim::fleet::{Fleet, FleetConfig, HUB};
use serde_json::{Value, json};

const MC: &str = "memberclusters";
const PROFILES: &str = "clusterprofiles";
const SYSTEM: &str = "fleet-system";
const GUARD: &str = "kubernetes-fleet.io/cluster-profile-cleanup";

async fn fleet() -> Fleet {
    let mut config = FleetConfig::of(2);
    config.hub.controllers.inventory = true;
    Fleet::joined(config).await
}

fn health(profile: &Value) -> (&Value, &Value) {
    let condition = &profile["status"]["conditions"][0];
    assert_eq!(condition["type"], "ControlPlaneHealthy");
    (&condition["status"], &condition["reason"])
}

async fn becomes(fleet: &Fleet, name: &str, status: &str, reason: &str) {
    let told = (json!(status), json!(reason));
    let wanted = |found: Option<&Value>| {
        found.is_some_and(|profile| {
            profile["status"]["conditions"].is_array() && health(profile) == (&told.0, &told.1)
        })
    };
    fleet.clusters.hub.eventually(PROFILES, SYSTEM, name, wanted).await;
}

// checklist fleet 12.30
#[tokio::test(start_paused = true)]
async fn a_member_that_joined_is_found_in_the_inventory() {
    let fleet = fleet().await;
    let hub = &fleet.clusters.hub;
    becomes(&fleet, "member1", "True", "MemberClusterAPIServerHealthy").await;
    let profile = hub.get(PROFILES, SYSTEM, "member1").await;
    assert_eq!(profile["metadata"]["labels"], json!({"x-k8s.io/cluster-manager": "KubeFleet"}));
    let spec = json!({"displayName": "member1", "clusterManager": {"name": "KubeFleet"}});
    assert_eq!(profile["spec"], spec);
    let member = hub.get(MC, "", "member1").await;
    assert!(member["metadata"]["finalizers"].as_array().unwrap().contains(&json!(GUARD)));
    // What a person changes or deletes comes back.
    let changed = json!({"metadata": {"labels": {"x-k8s.io/cluster-manager": "me"}},
        "spec": {"displayName": "mine"}});
    hub.patch(PROFILES, SYSTEM, "member1", changed).await;
    hub.delete(PROFILES, SYSTEM, "member2").await;
    fleet.pass(5).await;
    let profile = hub.get(PROFILES, SYSTEM, "member1").await;
    assert_eq!(profile["spec"], spec);
    assert_eq!(profile["metadata"]["labels"]["x-k8s.io/cluster-manager"], "KubeFleet");
    becomes(&fleet, "member2", "True", "MemberClusterAPIServerHealthy").await;
}

// checklist fleet 12.31
#[tokio::test(start_paused = true)]
async fn a_silent_member_is_noticed_though_nothing_happens() {
    let mut fleet = fleet().await;
    becomes(&fleet, "member1", "True", "MemberClusterAPIServerHealthy").await;
    fleet.kill("member1").await;
    // The next heartbeat may be late by its whole period.
    fleet.pass(130).await;
    let hub = &fleet.clusters.hub;
    let profile = hub.get(PROFILES, SYSTEM, "member1").await;
    assert_eq!(health(&profile), (&json!("False"), &json!("MemberAgentHeartbeatLost")));
    let profile = hub.get(PROFILES, SYSTEM, "member2").await;
    assert_eq!(health(&profile).0, "True");
    fleet.start("member1");
    becomes(&fleet, "member1", "True", "MemberClusterAPIServerHealthy").await;
}

// The agents go on, and the new hub first sees what the old one noted of them ten minutes ago.
#[tokio::test(start_paused = true)]
async fn a_hub_that_was_away_calls_no_member_lost_that_was_there() {
    let mut fleet = fleet().await;
    let since = |profile: &Value| profile["status"]["conditions"][0]["lastTransitionTime"].clone();
    for name in ["member1", "member2"] {
        becomes(&fleet, name, "True", "MemberClusterAPIServerHealthy").await;
    }
    let before = since(&fleet.clusters.hub.get(PROFILES, SYSTEM, "member1").await);
    for outage in [65, 600] {
        fleet.kill(HUB).await;
        fleet.pass(outage).await;
        fleet.start(HUB);
        fleet.pass(300).await;
        let hub = &fleet.clusters.hub;
        for name in ["member1", "member2"] {
            let profile = hub.get(PROFILES, SYSTEM, name).await;
            assert_eq!(health(&profile).0, "True");
        }
        let profile = hub.get(PROFILES, SYSTEM, "member1").await;
        assert_eq!(since(&profile), before, "after {outage} s without a hub");
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_leaves_takes_its_profile_along() {
    let fleet = fleet().await;
    becomes(&fleet, "member1", "True", "MemberClusterAPIServerHealthy").await;
    let hub = &fleet.clusters.hub;
    hub.delete(MC, "", "member1").await;
    hub.goes(PROFILES, SYSTEM, "member1").await;
    hub.goes(MC, "", "member1").await;
    assert!(hub.find(PROFILES, SYSTEM, "member2").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_publishes_no_longer_still_lets_members_go() {
    let mut fleet = fleet().await;
    becomes(&fleet, "member1", "True", "MemberClusterAPIServerHealthy").await;
    fleet.stop(HUB).await;
    let mut options = FleetConfig::of(0).hub.clone();
    options.controllers.inventory = false;
    fleet.start_hub(HUB, HUB, options);
    let hub = &fleet.clusters.hub;
    hub.delete(MC, "", "member1").await;
    hub.goes(MC, "", "member1").await;
}
