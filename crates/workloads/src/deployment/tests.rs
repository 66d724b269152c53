//! Rollouts told on a map of objects: what is said, what is counted, what is kept.

use expect_test::expect;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::fixture::{Fixture, web};

fn deployed(replicas: i64) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.put("deployments.apps", web(replicas, "nginx:1"));
    fixture.settle("web");
    fixture.ready(|_| true);
    fixture.settle("web");
    fixture
}

fn conditions(fixture: &Fixture) -> Vec<String> {
    let deployment = fixture.get("deployments.apps", "web");
    let say = |c: &Value| {
        format!(
            "{}={} {}: {}",
            c.text("/type"),
            c.text("/status"),
            c.text("/reason"),
            c.text("/message")
        )
    };
    deployment.list("/status/conditions").iter().map(say).collect()
}

fn set_image(fixture: &mut Fixture, image: &str) {
    fixture.edit("deployments.apps", "web", |d| {
        d["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    });
}

/// Hashes differ from those of a real cluster and mean nothing to a reader.
fn neat(fixture: &Fixture, lines: &[String]) -> String {
    let mut text = lines.join("\n");
    let mut sets = fixture.list("replicasets.apps");
    sets.sort_by_key(|s| {
        s.text("/metadata/annotations/deployment.kubernetes.io~1revision").to_owned()
    });
    for set in sets {
        let revision = set.annotation("deployment.kubernetes.io/revision").unwrap_or("?");
        text = text.replace(set.name(), &format!("web-r{revision}"));
    }
    text
}

#[test]
fn a_first_rollout_says_what_it_does() {
    let fixture = deployed(3);
    let said: Vec<String> = fixture.said.iter().filter(|s| !s.contains("pod")).cloned().collect();
    expect!["Scaled up replica set web-r1 from 0 to 3"].assert_eq(&neat(&fixture, &said));
    expect![[r#"
        Available=True MinimumReplicasAvailable: Deployment has minimum availability.
        Progressing=True NewReplicaSetAvailable: ReplicaSet "web-r1" has successfully progressed."#]]
    .assert_eq(&neat(&fixture, &conditions(&fixture)));
    let status = &fixture.get("deployments.apps", "web")["status"];
    for field in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
        assert_eq!(status[field], 3, "{field}");
    }
    assert_eq!(status["observedGeneration"], 1);
    assert!(status.get("unavailableReplicas").is_none());
    let deployment = fixture.get("deployments.apps", "web");
    assert_eq!(deployment.annotation("deployment.kubernetes.io/revision"), Some("1"));
}

#[test]
fn before_any_pod_is_ready_it_is_unavailable_and_progressing() {
    let mut fixture = Fixture::new();
    fixture.put("deployments.apps", web(3, "nginx:1"));
    fixture.settle("web");
    expect![[r#"
        Available=False MinimumReplicasUnavailable: Deployment does not have minimum availability.
        Progressing=True ReplicaSetUpdated: ReplicaSet "web-r1" is progressing."#]]
    .assert_eq(&neat(&fixture, &conditions(&fixture)));
    assert_eq!(fixture.get("deployments.apps", "web")["status"]["unavailableReplicas"], 3);
}

#[test]
fn a_bad_image_stops_at_the_unavailability_budget_and_then_times_out() {
    let mut fixture = deployed(10);
    set_image(&mut fixture, "nginx:bad");
    fixture.settle("web");
    // 3 more, 2 fewer: 8 good pods stay and 5 bad ones wait.
    let good = fixture.pods().iter().filter(|p| p.is_ready()).count();
    assert_eq!((good, fixture.pods().len()), (8, 13));
    fixture.pass(601);
    fixture.settle("web");
    expect![[r#"
        Available=True MinimumReplicasAvailable: Deployment has minimum availability.
        Progressing=False ProgressDeadlineExceeded: ReplicaSet "web-r2" has timed out progressing."#]]
    .assert_eq(&neat(&fixture, &conditions(&fixture)));
}

#[test]
fn the_plan_wakes_for_the_deadline_and_not_after_it() {
    let mut fixture = deployed(1);
    let plan = super::plan(&fixture.see_deployment("web"));
    assert_eq!(plan, Plan::idle(), "complete");
    set_image(&mut fixture, "nginx:bad");
    fixture.settle("web");
    let plan = super::plan(&fixture.see_deployment("web"));
    assert_eq!(plan.wake.map(|w| w.as_second() - fixture.now.as_second()), Some(601));
    fixture.pass(601);
    fixture.settle("web");
    assert_eq!(super::plan(&fixture.see_deployment("web")), Plan::idle());
}

#[test]
fn going_back_finds_the_old_set_and_gives_it_a_new_revision() {
    let mut fixture = deployed(2);
    set_image(&mut fixture, "nginx:2");
    for _ in 0..10 {
        fixture.settle("web");
        fixture.ready(|p| p["status"].is_null());
    }
    set_image(&mut fixture, "nginx:1");
    for _ in 0..10 {
        fixture.settle("web");
        fixture.ready(|p| p["status"].is_null());
    }
    fixture.settle("web");
    let sets = fixture.list("replicasets.apps");
    assert_eq!(sets.len(), 2);
    let first = sets
        .iter()
        .find(|s| s.text("/spec/template/spec/containers/0/image") == "nginx:1")
        .unwrap();
    assert_eq!(first.annotation("deployment.kubernetes.io/revision"), Some("3"));
    assert_eq!(first.annotation("deployment.kubernetes.io/revision-history"), Some("1"));
    assert_eq!(first["spec"]["replicas"], 2);
}

#[test]
fn history_is_kept_up_to_its_limit() {
    let mut fixture = deployed(1);
    for round in 2..8 {
        set_image(&mut fixture, &format!("nginx:{round}"));
        for _ in 0..6 {
            fixture.settle("web");
            fixture.ready(|p| p["status"].is_null());
        }
        fixture.settle("web");
    }
    let mut revisions: Vec<i64> = fixture
        .list("replicasets.apps")
        .iter()
        .filter_map(|s| s.annotation("deployment.kubernetes.io/revision")?.parse().ok())
        .collect();
    revisions.sort_unstable();
    assert_eq!(revisions, [5, 6, 7]);
}

#[test]
fn recreate_waits_until_old_pods_are_gone() {
    let mut fixture = Fixture::new();
    let mut object = web(2, "nginx:1");
    object["spec"]["strategy"] = json!({"type": "Recreate"});
    fixture.put("deployments.apps", object);
    fixture.settle("web");
    fixture.ready(|_| true);
    fixture.settle("web");
    set_image(&mut fixture, "nginx:2");
    let plan = super::plan(&fixture.see_deployment("web"));
    fixture.apply(plan);
    // The old set is empty by its spec, its pods are not gone yet.
    let plan = super::plan(&fixture.see_deployment("web"));
    assert!(plan.waiting[0].starts_with("old pod"), "{plan:?}");
    assert_eq!(fixture.list("replicasets.apps").len(), 1);
    fixture.settle("web");
    assert_eq!(fixture.list("replicasets.apps").len(), 2);
    assert_eq!(fixture.pods().len(), 2);
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let mut fixture = deployed(2);
    fixture.edit("deployments.apps", "web", |d| d["spec"]["paused"] = json!(true));
    set_image(&mut fixture, "nginx:2");
    fixture.edit("deployments.apps", "web", |d| d["spec"]["replicas"] = json!(4));
    fixture.settle("web");
    assert_eq!(fixture.list("replicasets.apps").len(), 1);
    assert_eq!(fixture.pods().len(), 4);
    assert!(
        conditions(&fixture)
            .contains(&"Progressing=Unknown DeploymentPaused: Deployment is paused".to_owned()),
        "{:?}",
        conditions(&fixture)
    );
    fixture.edit("deployments.apps", "web", |d| d["spec"]["paused"] = json!(false));
    fixture.settle("web");
    assert_eq!(fixture.list("replicasets.apps").len(), 2);
}

#[test]
fn scaling_during_a_rollout_shares_the_new_pods_out() {
    let mut fixture = deployed(10);
    set_image(&mut fixture, "nginx:2");
    fixture.settle("web");
    fixture.edit("deployments.apps", "web", |d| d["spec"]["replicas"] = json!(15));
    fixture.settle("web");
    let mut sizes: Vec<i64> =
        fixture.list("replicasets.apps").iter().filter_map(|s| s.int("/spec/replicas")).collect();
    sizes.sort_unstable();
    assert_eq!(sizes.iter().sum::<i64>(), 19, "15 and a surge of 4: {sizes:?}");
    assert_eq!(sizes, [7, 12]);
}

#[test]
fn a_taken_name_is_hashed_again() {
    let mut fixture = Fixture::new();
    let deployment = fixture.put("deployments.apps", web(1, "nginx:1"));
    let name = sets::make(&deployment, 1, 0, Budget::recreate(1)).name().to_owned();
    let mut seen = fixture.see_deployment("web");
    seen.taken.insert(name.clone());
    let [Action::ReplaceStatus { object, .. }] = &super::plan(&seen).actions[..] else {
        panic!("only the collision is counted");
    };
    assert_eq!(object["status"]["collisionCount"], 1);
    seen.deployment = object.clone();
    let made = super::plan(&seen);
    let Action::Create { object, .. } = &made.actions[0] else { panic!("{made:?}") };
    assert_ne!(object.name(), name);
}

#[test]
fn a_free_matching_set_is_adopted_before_anything_else() {
    let mut fixture = Fixture::new();
    let deployment = fixture.put("deployments.apps", web(1, "nginx:1"));
    let mut free = sets::make(&deployment, 1, 0, Budget::recreate(1));
    free["metadata"]["ownerReferences"] = json!([]);
    fixture.put("replicasets.apps", free);
    let plan = super::plan(&fixture.see_deployment("web"));
    let [Action::Replace { object, .. }] = &plan.actions[..] else { panic!("{plan:?}") };
    assert_eq!(object.controller_uid(), Some(deployment.uid()));
    fixture.settle("web");
    assert_eq!(fixture.list("replicasets.apps").len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Pods become ready, fail and come back in any order while images change: the
    /// rollout itself never takes availability below its floor or size above its ceiling.
    #[test]
    fn a_rollout_keeps_its_budget(
        replicas in 1_i64..8,
        surge in prop_oneof![(0_i64..4).prop_map(|n| json!(n)), Just(json!("25%")), Just(json!("50%"))],
        unavailable in prop_oneof![(1_i64..4).prop_map(|n| json!(n)), Just(json!("34%")), Just(json!(0))],
        moves in prop::collection::vec((0_u8..5, any::<prop::sample::Index>()), 1..30),
    ) {
        let mut fixture = Fixture::new();
        let mut object = web(replicas, "nginx:0");
        object["spec"]["strategy"]["rollingUpdate"] = json!({"maxSurge": surge, "maxUnavailable": unavailable});
        fixture.put("deployments.apps", object);
        fixture.settle("web");
        fixture.ready(|_| true);
        fixture.settle("web");
        let budget = budget_of(fixture.get("deployments.apps", "web"));
        for (step, (kind, at)) in moves.into_iter().enumerate() {
            let available = |w: &Fixture| w.pods().iter().filter(|p| p.is_ready()).count() as i64;
            let before = available(&fixture);
            let mut broken = 0;
            match kind {
                0 => set_image(&mut fixture, &format!("nginx:{step}")),
                1 | 2 => {
                    let pods = fixture.list("pods");
                    if !pods.is_empty() {
                        let name = at.get(&pods).name().to_owned();
                        fixture.ready(|p| p.name() == name);
                    }
                }
                3 => {
                    let pods = fixture.list("pods");
                    if !pods.is_empty() {
                        let pod = at.get(&pods).clone();
                        broken = i64::from(Pod::of(&pod).is_ready());
                        fixture.edit("pods", pod.name(), |p| p["status"] = json!({"phase": "Running"}));
                    }
                }
                _ => { fixture.turn_sets(); }
            }
            // One pass of the deployment over possibly stale sets, then everything.
            let plan = super::plan(&fixture.see_deployment("web"));
            fixture.apply(plan);
            fixture.settle("web");
            let total: i64 = fixture.list("replicasets.apps").iter().filter_map(|s| s.int("/spec/replicas")).sum();
            prop_assert!(total <= budget.ceiling(), "{total} pods of {budget:?}");
            let after = available(&fixture);
            // What broke by itself is not the rollout's doing.
            prop_assert!(after >= budget.floor().min(before - broken), "{after} of {budget:?}, had {before}");
        }
    }
}
