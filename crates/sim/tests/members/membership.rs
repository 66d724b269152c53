//! Stories of members that join and leave, told by real agents to a real hub.

#![allow(clippy::unwrap_used)] // a story that cannot be told has failed

use expect_test::expect;
use flagship_sim::fleet::{Fleet, FleetConfig, HUB};
use flagship_store::env::plan::{Effect, Rule};
use flagship_store::env::{FaultOutcome, Point};
use jiff::Timestamp;
use serde_json::json;

const MC: &str = "memberclusters";
const IMC: &str = "internalmemberclusters";

async fn heartbeat(fleet: &Fleet, member: &str) -> Timestamp {
    let space = format!("fleet-member-{member}");
    let internal = fleet.clusters.hub.get(IMC, &space, member).await;
    let beat = &internal["status"]["agentStatus"][0]["lastReceivedHeartbeat"];
    beat.as_str().unwrap().parse().unwrap()
}

// checklist fleet 12.1, 12.7, 12.10
#[tokio::test(start_paused = true)]
async fn members_join_and_say_what_they_have() {
    let fleet = Fleet::joined(FleetConfig::of(3)).await;
    let hub = &fleet.clusters.hub;
    assert_eq!(
        hub.conditions(MC, "", "member2").await,
        [
            "ReadyToJoin=True MemberClusterReadyToJoin: Member cluster is ready to join the fleet",
            "Joined=True MemberClusterJoined: Member cluster has successfully joined the fleet",
        ]
    );
    let member = hub.get(MC, "", "member2").await;
    let status = &member["status"];
    assert_eq!(status["properties"]["kubernetes-fleet.io/node-count"]["value"], "2");
    assert_eq!(status["properties"]["k8s.io/k8s-version"]["value"], "v1.34.0+flagship");
    assert_eq!(status["resourceUsage"]["capacity"], json!({"cpu": "16", "memory": "64Gi"}));
    assert_eq!(status["resourceUsage"]["available"], status["resourceUsage"]["allocatable"]);
    fleet.pass(1).await;
    expect![[r#"
        Normal InternalMemberClusterHealthy member2: internal member cluster healthy (x1)
        Normal InternalMemberClusterJoined member2: internal member cluster joined (x1)"#]]
    .assert_eq(&about(hub.events("InternalMemberCluster").await, "member2"));
    // Each agent counts itself, and the hub counts all of them.
    assert!(fleet.metrics.render().contains("join_result_counter{result=\"success\"} 6"));
}

fn about(events: Vec<String>, name: &str) -> String {
    let told: Vec<String> = events.into_iter().filter(|event| event.contains(name)).collect();
    told.join("\n")
}

// checklist fleet 12.17
#[tokio::test(start_paused = true)]
async fn heartbeats_keep_the_period_they_are_given_and_spread_a_little() {
    let fleet = Fleet::joined(FleetConfig::of(1)).await;
    let mut gaps = Vec::new();
    let mut last = heartbeat(&fleet, "member1").await;
    for _ in 0..320 {
        fleet.pass(1).await;
        let now = heartbeat(&fleet, "member1").await;
        if now != last {
            gaps.push(now.duration_since(last).as_secs());
            last = now;
        }
    }
    // Whole seconds on the wire, so a second more or less than the twentieth.
    assert!(gaps.len() >= 5 && gaps.iter().all(|gap| (56..=64).contains(gap)), "{gaps:?}");
    let spec = json!({"spec": {"heartbeatPeriodSeconds": 10}});
    fleet.clusters.hub.patch(MC, "", "member1", spec).await;
    fleet.pass(25).await;
    let then = heartbeat(&fleet, "member1").await;
    fleet.pass(30).await;
    assert!(heartbeat(&fleet, "member1").await.duration_since(then).as_secs() >= 20);
}

// checklist fleet 12.11
#[tokio::test(start_paused = true)]
async fn a_member_that_is_deleted_says_goodbye_and_is_gone() {
    let fleet = Fleet::joined(FleetConfig::of(2)).await;
    let hub = &fleet.clusters.hub;
    hub.apply(
        "
        apiVersion: placement.kubernetes-fleet.io/v1beta1
        kind: Work
        metadata:
          name: w
          namespace: fleet-member-member1
          finalizers: [kubernetes-fleet.io/work-cleanup]
        spec: {}
        ",
    )
    .await;
    hub.delete(MC, "", "member1").await;
    hub.goes(MC, "", "member1").await;
    hub.goes("namespaces", "", "fleet-member-member1").await;
    assert!(fleet.metrics.render().contains("leave_result_counter{result=\"success\"} 2"));
    hub.becomes(MC, "", "member2", "Joined", "True").await;
}

// checklist fleet 12.12, 12.13
#[tokio::test(start_paused = true)]
async fn a_member_whose_agent_is_down_is_let_go_after_a_quarter_of_an_hour() {
    let mut fleet = Fleet::joined(FleetConfig::of(1)).await;
    fleet.kill("member1").await;
    let hub = &fleet.clusters.hub;
    hub.delete(MC, "", "member1").await;
    fleet.pass(14 * 60).await;
    assert!(hub.find(MC, "", "member1").await.is_some());
    fleet.pass(2 * 60).await;
    assert!(hub.find(MC, "", "member1").await.is_none());
}

// checklist fleet 12.19
#[tokio::test(start_paused = true)]
async fn an_agent_that_starts_while_it_should_leave_leaves() {
    let mut fleet = Fleet::joined(FleetConfig::of(1)).await;
    fleet.stop(HUB).await;
    fleet.kill("member1").await;
    let space = "fleet-member-member1";
    let leave = json!({"spec": {"state": "Leave"}});
    fleet.clusters.hub.patch(IMC, space, "member1", leave).await;
    fleet.start("member1");
    fleet.pass(120).await;
    let internal = fleet.clusters.hub.get(IMC, space, "member1").await;
    let agent = &internal["status"]["agentStatus"][0];
    let joined = agent["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Joined");
    assert_eq!(joined.unwrap()["status"], "False");
    assert_eq!(joined.unwrap()["reason"], "InternalMemberClusterLeft");
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_was_away_hears_of_the_member_soon() {
    let fleet = Fleet::joined(FleetConfig::of(1)).await;
    let away = Effect::Do(FaultOutcome::Sever);
    let mut rule = Rule::at(Point::Request, away);
    rule.who = "member1".to_owned();
    rule.cluster = fleet.cluster_name(HUB);
    fleet.disturb(vec![rule]);
    fleet.pass(30 * 60).await;
    let silent = heartbeat(&fleet, "member1").await;
    fleet.faults.heal();
    fleet.pass(20).await;
    let heard = heartbeat(&fleet, "member1").await;
    assert!(heard.duration_since(silent).as_secs() > 25 * 60, "{silent} {heard}");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_waited_for_its_place_joins_within_two_seconds() {
    let mut fleet = Fleet::new(FleetConfig::of(1)).await;
    // What a hub with RBAC answers before it has made the member's Role.
    let answer = Effect::Do(FaultOutcome::Answer { code: 403, retry_after: None });
    let mut rule = Rule::at(Point::Request, answer);
    rule.who = "member1".to_owned();
    rule.cluster = fleet.cluster_name(HUB);
    fleet.disturb(vec![rule]);
    fleet.start(HUB);
    fleet.start("member1");
    fleet.invite("member1").await;
    fleet.pass(20 * 60).await;
    fleet.faults.heal();
    fleet.pass(2).await;
    let member = fleet.clusters.hub.get(MC, "", "member1").await;
    let joined = member["status"]["conditions"].as_array().unwrap().iter();
    let joined: Vec<_> = joined.filter(|c| c["type"] == "Joined").collect();
    assert_eq!(joined[0]["status"], "True");
}

#[tokio::test(start_paused = true)]
async fn new_namespaces_are_reported_before_the_next_heartbeat() {
    let mut config = FleetConfig::of(1);
    config.member.collect_namespaces = true;
    let fleet = Fleet::joined(config).await;
    let told = async || {
        let member = fleet.clusters.hub.get(MC, "", "member1").await;
        member["status"]["namespaces"].as_object().cloned().unwrap_or_default()
    };
    fleet.pass(5).await;
    let member = fleet.clusters.member("member1");
    member.apply("{apiVersion: v1, kind: Namespace, metadata: {name: app}}").await;
    fleet.pass(3).await;
    assert!(told().await.contains_key("app"));
    member.delete("namespaces", "", "app").await;
    fleet.pass(5).await;
    assert!(!told().await.contains_key("app"));
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let tell = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let fleet = Fleet::joined(FleetConfig::of(2).seeded(9).traced()).await;
            fleet.pass(200).await;
            let own = fleet.cluster_name("");
            let lines = fleet.trace.lines();
            lines.iter().map(|line| line.replace(&own, "")).collect::<Vec<_>>()
        })
    };
    let (one, two) = (tell(), tell());
    assert!(one.len() > 100);
    assert_eq!(one, two);
}
