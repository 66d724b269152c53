//! Placements that choose more clusters, or fewer.

use expect_test::expect;
use serde_json::json;

use super::{Team, external};
use crate::update_run::story::{SCOPES, fixed};

// checklist 13.7 PickFixed: add a cluster, then shrink to one (empty canary stage skipped,
// two clusters cleaned in the deletion stage)
#[tokio::test(start_paused = true)]
async fn a_fixed_choice_grows_and_shrinks() {
    for scope in SCOPES {
        let team = Team::placing(scope, external(fixed(&["m1", "m2"]))).await;
        team.rolls_out("first", json!({})).await;
        assert_eq!(team.held().await, "1 1 -");
        expect![[r#"
            index 0, selected all
            completed
            m1 0: available
            m2 0: available
        "#]]
        .assert_eq(&team.told().await);
        // Those that stay show their version, and that nobody has said what becomes of it.
        team.place(external(fixed(&["m1", "m2", "m3"]))).await;
        expect![[r#"
            index -, selected nothing
            undecided: different resource snapshot versions are observed across clusters
            m1 0: pending
            m2 0: pending
            m3 -: pending
        "#]]
        .assert_eq(&team.told().await);
        team.rolls_out("wider", json!({"resourceSnapshotIndex": "0"})).await;
        assert_eq!(team.held().await, "1 1 1");
        expect![[r#"
            index 0, selected all
            completed
            m1 0: available
            m2 0: available
            m3 0: available
        "#]]
        .assert_eq(&team.told().await);
        team.place(external(fixed(&["m3"]))).await;
        assert_eq!(team.held().await, "1 1 1");
        expect![[r#"
            index 0, selected all
            undecided: cluster m3 is in RolloutStarted Unknown state
            m3 0: pending
        "#]]
        .assert_eq(&team.told().await);
        team.rolls_out("narrower", json!({"resourceSnapshotIndex": "0"})).await;
        assert_eq!(team.withdrawn("narrower").await, ["m1", "m2"]);
        let canary = team.status("narrower").await["stagesStatus"][0].clone();
        assert_eq!(canary["conditions"][1]["reason"], "StageUpdatingSkippedNoClusters");
        team.fleet.pass(10).await;
        assert_eq!(team.held().await, "- - 1");
        expect![[r#"
            index 0, selected all
            completed
            m3 0: available
        "#]]
        .assert_eq(&team.told().await);
    }
}

// checklist 13.7 PickN 1 -> 3 -> 2 on the same policy snapshot
#[tokio::test(start_paused = true)]
async fn a_number_of_clusters_grows_and_shrinks_on_one_policy() {
    let pick = |n: u64| external(json!({"placementType": "PickN", "numberOfClusters": n}));
    for scope in SCOPES {
        let team = Team::placing(scope, pick(1)).await;
        team.rolls_out("one", json!({})).await;
        assert_eq!(team.held().await, "- - 1");
        expect![[r#"
            index 0, selected all
            completed
            m3 0: available
        "#]]
        .assert_eq(&team.told().await);
        team.place(pick(3)).await;
        expect![[r#"
            index -, selected nothing
            undecided: different resource snapshot versions are observed across clusters
            m2 -: pending
            m1 -: pending
            m3 0: available
        "#]]
        .assert_eq(&team.told().await);
        team.rolls_out("three", json!({})).await;
        assert_eq!(team.held().await, "1 1 1");
        let all = team.told().await;
        team.place(pick(2)).await;
        // Nothing is taken away before a run says so.
        assert_eq!(team.held().await, "1 1 1");
        let two = team.told().await;
        expect![[r#"
            index 0, selected all
            completed
            m2 0: available
            m3 0: available
        "#]]
        .assert_eq(&two);
        assert!(all.starts_with(two.split("m2").next().unwrap_or_default()), "{all}");
        team.rolls_out("two", json!({})).await;
        assert_eq!(team.withdrawn("two").await, ["m1"]);
        team.fleet.pass(10).await;
        assert_eq!((team.held().await, team.told().await), ("- 1 1".to_owned(), two));
        for run in ["one", "three", "two"] {
            assert_eq!(team.status(run).await["policySnapshotIndexUsed"], "0", "{run}");
        }
    }
}
