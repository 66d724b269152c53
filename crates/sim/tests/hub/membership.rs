//! Stories of members that come and go, on a hub with all its controllers.

use std::time::Duration;

use expect_test::expect;
use flagship_sim::testing::{CLUSTERS, IMC, TestHub, WORK, text, without_placement};
use flagship_store::env::plan::{Effect, Rule, Verbs};
use flagship_store::env::{FaultOutcome as Fault, Point};
use serde_json::{Value, json};

const SPACE: &str = "fleet-member-m1";

async fn member(test: &TestHub, name: &str) {
    let spec = json!({"identity": {"kind": "User", "name": "agent"}, "heartbeatPeriodSeconds": 15});
    test.create(CLUSTERS, json!({"metadata": {"name": name}, "spec": spec})).await;
    test.settle().await;
}

/// `Type=Status Reason: message`.
fn conditions(test: &TestHub, name: &str) -> Vec<String> {
    let cluster = test.get(CLUSTERS, "", name);
    let all = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let line = |c: &Value| {
        let word = |key: &str| text(&c[key]);
        format!("{}={} {}: {}", word("type"), word("status"), word("reason"), word("message"))
    };
    all.iter().map(line).collect()
}

#[tokio::test(start_paused = true)]
async fn a_new_member_gets_a_place_of_its_own() {
    let test = TestHub::running(1).await;
    member(&test, "m1").await;
    let cluster = test.get(CLUSTERS, "", "m1");
    assert_eq!(
        cluster["metadata"]["finalizers"],
        json!(["kubernetes-fleet.io/membercluster-finalizer"])
    );
    assert_eq!(cluster["metadata"]["labels"], json!({"kubernetes-fleet.io/member-name": "m1"}));
    let namespace = test.get("namespaces", "", SPACE);
    assert_eq!(namespace["metadata"]["labels"]["kubernetes-fleet.io/is-fleet-resource"], "true");
    assert_eq!(namespace["metadata"]["ownerReferences"][0]["name"], "m1");
    let internal = test.get(IMC, SPACE, "m1");
    assert_eq!(internal["spec"], json!({"state": "Join", "heartbeatPeriodSeconds": 15}));
    let binding = test.get("rolebindings.rbac.authorization.k8s.io", SPACE, "fleet-rolebinding-m1");
    assert_eq!(
        binding["subjects"],
        json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "agent"}])
    );
    assert!(test.find("roles.rbac.authorization.k8s.io", SPACE, "fleet-role-m1").is_some());
    assert_eq!(
        conditions(&test, "m1"),
        [
            "ReadyToJoin=True MemberClusterReadyToJoin: Member cluster is ready to join the fleet",
            "Joined=Unknown MemberClusterJoinStateUnknown: Member cluster m1 has not reported all the expected agents, expected 1, got 0",
        ]
    );
    expect![[r#"
        Normal InternalMemberClusterCreated m1: Internal member cluster was created (x1)
        Normal MemberClusterReadyToJoin m1: member cluster ready to join (x1)
        Normal NamespaceCreated m1: Namespace was created (x1)
        Normal RoleBindingCreated m1: role binding was created (x1)
        Normal RoleCreated m1: role was created (x1)
        Warning MemberClusterJoinStateUnknown m1: member cluster join state unknown (x1)"#]]
    .assert_eq(&test.events("MemberCluster").join("\n"));
}

#[tokio::test(start_paused = true)]
async fn what_was_made_is_told_although_the_next_thing_was_refused() {
    let test = TestHub::running(7).await;
    let answer = Effect::Do(Fault::Answer { code: 403, retry_after: None });
    test.disturb(vec![Rule {
        who: "hub".to_owned(),
        resource: "roles.rbac.authorization.k8s.io".to_owned(),
        verbs: Verbs::Only(vec!["create".to_owned()]),
        ..Rule::at(Point::Request, answer)
    }]);
    member(&test, "m1").await;
    assert_eq!(
        test.events("MemberCluster"),
        ["Normal NamespaceCreated m1: Namespace was created (x1)"]
    );
    // Once it may go on it says the rest, and nothing twice.
    test.faults.heal();
    test.pass(300).await;
    test.joins("m1").await;
    test.settle().await;
    expect![[r#"
        Normal InternalMemberClusterCreated m1: Internal member cluster was created (x1)
        Normal MemberClusterJoined m1: member cluster joined (x1)
        Normal MemberClusterReadyToJoin m1: member cluster ready to join (x1)
        Normal NamespaceCreated m1: Namespace was created (x1)
        Normal RoleBindingCreated m1: role binding was created (x1)
        Normal RoleCreated m1: role was created (x1)
        Warning MemberClusterJoinStateUnknown m1: member cluster join state unknown (x1)"#]]
    .assert_eq(&test.events("MemberCluster").join("\n"));
    assert!(test.metrics.render().contains("join_result_counter{result=\"success\"} 1"));
}

#[tokio::test(start_paused = true)]
async fn what_the_agent_says_is_passed_on_and_lets_placements_in() {
    let test = TestHub::running(2).await;
    member(&test, "m1").await;
    test.places("web", json!({"placementType": "PickAll"})).await;
    test.settle().await;
    assert_eq!(test.bindings("web"), Vec::<String>::new());
    test.joins("m1").await;
    test.settle().await;
    assert!(
        conditions(&test, "m1").contains(
            &"Joined=True MemberClusterJoined: Member cluster has successfully joined the fleet"
                .to_owned()
        )
    );
    assert_eq!(test.bindings("web"), ["m1 Scheduled web-0"]);
}

#[tokio::test(start_paused = true)]
async fn what_somebody_breaks_is_mended() {
    let test = TestHub::running(3).await;
    member(&test, "m1").await;
    test.joins("m1").await;
    test.settle().await;
    let roles = "roles.rbac.authorization.k8s.io";
    let rules = test.get(roles, SPACE, "fleet-role-m1")["rules"].clone();
    test.patch(roles, SPACE, "fleet-role-m1", json!({"rules": []})).await;
    test.patch(IMC, SPACE, "m1", json!({"spec": {"state": "Leave"}})).await;
    test.delete("rolebindings.rbac.authorization.k8s.io", SPACE, "fleet-rolebinding-m1").await;
    let label = json!({"kubernetes-fleet.io/member-name": "other"});
    test.patch(CLUSTERS, "", "m1", json!({"metadata": {"labels": label}})).await;
    test.settle().await;
    assert_eq!(test.get(roles, SPACE, "fleet-role-m1")["rules"], rules);
    assert_eq!(test.get(IMC, SPACE, "m1")["spec"]["state"], "Join");
    let bindings = test.list("rolebindings.rbac.authorization.k8s.io", SPACE);
    assert_eq!(bindings.len(), 1);
    let cluster = test.get(CLUSTERS, "", "m1");
    assert_eq!(cluster["metadata"]["labels"]["kubernetes-fleet.io/member-name"], "m1");
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_somebody_strips_stays_off_until_the_next_heartbeat() {
    let world = TestHub::running(8).await;
    member(&world, "m1").await;
    let stripped = json!({"metadata": {"finalizers": []}});
    world.patch(CLUSTERS, "", "m1", stripped).await;
    world.settle().await;
    let finalizers = world.get(CLUSTERS, "", "m1")["metadata"]["finalizers"].clone();
    assert!(finalizers.is_null(), "{finalizers}");
    world.delete(CLUSTERS, "", "m1").await;
    assert!(world.find(CLUSTERS, "", "m1").is_none(), "what was asked for happens");
    member(&world, "m2").await;
    world.patch(CLUSTERS, "", "m2", json!({"metadata": {"finalizers": []}})).await;
    world.joins("m2").await;
    world.settle().await;
    assert!(world.get(CLUSTERS, "", "m2")["metadata"]["finalizers"].is_array());
}

#[tokio::test(start_paused = true)]
async fn a_member_that_leaves_takes_its_place_along() {
    let test = TestHub::running(4).await;
    member(&test, "m1").await;
    test.joins("m1").await;
    let work = json!({"metadata": {"name": "w", "namespace": SPACE,
        "finalizers": ["kubernetes-fleet.io/work-cleanup"]}, "spec": {}});
    test.create(WORK, work).await;
    test.delete(CLUSTERS, "", "m1").await;
    test.settle().await;
    assert_eq!(test.get(IMC, SPACE, "m1")["spec"]["state"], "Leave");
    assert!(test.find(WORK, SPACE, "w").is_some(), "it is asked first");
    test.leaves("m1").await;
    assert!(test.find(CLUSTERS, "", "m1").is_none());
    assert!(test.find("namespaces", "", SPACE).is_none());
    assert!(test.find(WORK, SPACE, "w").is_none());
    assert!(test.metrics.render().contains("leave_result_counter{result=\"success\"} 1"));
}

/// The garbage collector would delete the namespace as often as it is made: its owner is gone.
#[tokio::test(start_paused = true)]
async fn a_hub_that_has_not_seen_a_member_leave_makes_no_place_for_it() {
    let mut test = TestHub::running(9).await;
    member(&test, "m1").await;
    test.joins("m1").await;
    test.start("late", without_placement());
    test.settle().await;
    let ten_minutes = Effect::Do(Fault::Delay(Duration::from_secs(600)));
    let rule = Rule::at(Point::WatchEvent, ten_minutes);
    test.disturb(vec![Rule { who: "late".to_owned(), resource: CLUSTERS.to_owned(), ..rule }]);
    test.leaves("m1").await;
    assert!(test.find(CLUSTERS, "", "m1").is_none());
    test.pass(60).await;
    assert!(test.find("namespaces", "", SPACE).is_none());
    let made = test.writes("late").into_iter().find(|write| write.starts_with("create namespaces"));
    assert_eq!(made, None);
    // It is asked for again, and both hubs see it in the end.
    member(&test, "m1").await;
    test.pass(1200).await;
    assert!(test.find("namespaces", "", SPACE).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_member_that_does_not_answer_is_let_go_after_a_while() {
    let test = TestHub::running(5).await;
    member(&test, "m1").await;
    test.delete(CLUSTERS, "", "m1").await;
    test.pass(14 * 60).await;
    assert!(test.find(CLUSTERS, "", "m1").is_some());
    test.pass(2 * 60).await;
    assert!(test.find(CLUSTERS, "", "m1").is_none());
    assert!(test.find("namespaces", "", SPACE).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_the_hub_leaves_members_alone() {
    let mut test = TestHub::running(6).await;
    member(&test, "m1").await;
    test.joins("m1").await;
    member(&test, "m2").await;
    test.settle().await;
    test.kill("hub").await;
    test.start("again", without_placement());
    test.pass(3600).await;
    assert_eq!(test.writes("again"), Vec::<String>::new());
}
