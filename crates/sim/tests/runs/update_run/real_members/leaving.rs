//! Members that leave the fleet and come back.

use expect_test::expect;
use serde_json::json;

use super::Team;
use crate::update_run::story::SCOPES;

impl Team {
    /// A member leaves, and its binding is withdrawn.
    async fn leaves(&self, member: &str) {
        let hub = &self.fleet.clusters.hub;
        hub.delete("memberclusters", "", member).await;
        hub.goes("memberclusters", "", member).await;
        self.fleet.pass(10).await;
    }

    async fn comes_back(&self, member: &str) {
        self.fleet.invite(member).await;
        self.fleet.all_joined().await;
        self.fleet.pass(10).await;
    }

    /// Every binding: `cluster state snapshot`.
    async fn bindings(&self) -> Vec<String> {
        let all = self.fleet.clusters.hub.list(self.scope.bindings, self.scope.space).await;
        let mut lines: Vec<String> = Vec::new();
        for binding in all {
            if binding["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"] == "web" {
                let words = ["targetCluster", "state", "resourceSnapshotName"];
                let words = words.map(|word| flagship_sim::testing::text(&binding["spec"][word]));
                lines.push(words.join(" ").trim().to_owned());
            }
        }
        lines.sort();
        lines
    }
}

// checklist 13.7 member leave: binding Unscheduled, deleted by the next run, resources kept;
// rejoin after that, with an orphan that was cleaned up
#[tokio::test(start_paused = true)]
async fn a_member_that_left_keeps_what_it_has_and_is_forgotten_by_the_next_run() {
    for scope in SCOPES {
        let team = Team::begin(scope).await;
        team.rolls_out("first", json!({})).await;
        team.leaves("m1").await;
        assert_eq!(team.bindings().await[0], "m1 Unscheduled web-0-snapshot");
        expect![[r#"
            index 0, selected all
            completed
            m2 0: available
            m3 0: available
        "#]]
        .assert_eq(&team.told().await);
        team.rolls_out("second", json!({})).await;
        assert_eq!(team.withdrawn("second").await, ["m1"]);
        assert_eq!(team.bindings().await, ["m2 Bound web-0-snapshot", "m3 Bound web-0-snapshot"]);
        assert_eq!(team.held().await, "1 1 1");
        // Somebody sweeps the member before it comes back.
        team.fleet.clusters.member("m1").delete("namespaces", "", "app").await;
        team.fleet.clusters.member("m1").goes("namespaces", "", "app").await;
        team.comes_back("m1").await;
        assert_eq!(team.bindings().await[0], "m1 Scheduled");
        expect![[r#"
            index -, selected nothing
            undecided: different resource snapshot versions are observed across clusters
            m1 -: pending
            m2 0: available
            m3 0: available
        "#]]
        .assert_eq(&team.told().await);
        team.rolls_out("third", json!({})).await;
        assert_eq!(team.held().await, "1 1 1");
    }
}

// checklist 13.7 rejoin before a run: with unchanged resources, with changed resources
#[tokio::test(start_paused = true)]
async fn a_member_that_comes_back_early_is_updated_again() {
    for scope in SCOPES {
        let team = Team::begin(scope).await;
        team.rolls_out("first", json!({})).await;
        let completed = team.told().await;
        team.leaves("m1").await;
        team.comes_back("m1").await;
        // The old binding is revived; nobody vouches for what it says.
        assert_eq!(team.bindings().await[0], "m1 Bound web-0-snapshot");
        expect![[r#"
            index 0, selected all
            undecided: cluster m1 is in RolloutStarted Unknown state
            m1 0: pending
            m2 0: available
            m3 0: available
        "#]]
        .assert_eq(&team.told().await);
        team.rolls_out("same", json!({})).await;
        assert_eq!(team.withdrawn("same").await, [] as [String; 0]);
        assert_eq!((team.held().await, team.told().await), ("1 1 1".to_owned(), completed));
        // Once more, with another version by then.
        team.leaves("m1").await;
        team.edit("2").await;
        team.comes_back("m1").await;
        assert_eq!(team.held().await, "1 1 1");
        team.rolls_out("changed", json!({})).await;
        assert_eq!(team.held().await, "2 2 2");
        assert_eq!(team.bindings().await[0], "m1 Bound web-1-snapshot");
    }
}
