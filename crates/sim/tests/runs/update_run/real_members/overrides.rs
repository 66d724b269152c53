//! Overrides on their way with a run.

use expect_test::expect;
use serde_json::{Value, json};

use super::Team;
use crate::update_run::story::SCOPES;
use flagship_sim::testing::text;

fn labelling(value: &str) -> Value {
    let canary = json!([{"labelSelector": {"matchLabels": {"env": "canary"}}}]);
    let patch = json!([{"op": "add", "path": "/metadata/labels", "value": {"by": value}}]);
    json!({"overrideRules": [{"clusterSelector": {"clusterSelectorTerms": canary},
        "jsonPatchOverrides": patch}]})
}

fn setting(value: &str) -> Value {
    let patch = json!([{"op": "replace", "path": "/data/v", "value": value}]);
    json!({"overrideRules": [{"clusterSelector": {"clusterSelectorTerms": []},
        "jsonPatchOverrides": patch}]})
}

impl Team {
    /// An override of the namespace: only those who may place it have one.
    async fn wide(&self, value: &str) {
        let object = json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourceOverride",
            "metadata": {"name": "wide"},
            "spec": {"placement": {"name": "web"}, "policy": labelling(value),
                "clusterResourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]},
        });
        self.fleet.clusters.hub.apply_object(&object).await;
        self.fleet.pass(2).await;
    }

    /// An override of the ConfigMap, for the placement of this scope.
    async fn narrow(&self, value: &str) {
        let scope = if self.scope.space.is_empty() { "Cluster" } else { "Namespaced" };
        let object = json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceOverride",
            "metadata": {"name": "narrow", "namespace": "app"},
            "spec": {"placement": {"name": "web", "scope": scope}, "policy": setting(value),
                "resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"}]},
        });
        self.fleet.clusters.hub.apply_object(&object).await;
        self.fleet.pass(2).await;
    }

    /// The label that the wide override leaves on each member's namespace.
    async fn labels(&self) -> String {
        let mut labels = Vec::new();
        for member in ["m1", "m2", "m3"] {
            let found = self.fleet.clusters.member(member).find("namespaces", "", "app").await;
            let label = text(&found.unwrap_or_default()["metadata"]["labels"]["by"]);
            labels.push(if label.is_empty() { "-".to_owned() } else { label });
        }
        labels.join(" ")
    }
}

// checklist 13.7 overrides (CRO + RO; RO only in namespaced scope) visible on clusters and in
// status; changing them between runs
#[tokio::test(start_paused = true)]
async fn overrides_come_and_change_and_go_with_runs_only() {
    for scope in SCOPES {
        let team = Team::begin(scope).await;
        let wide = scope.space.is_empty();
        if wide {
            team.wide("a").await;
        }
        team.narrow("x").await;
        team.rolls_out("first", json!({})).await;
        assert_eq!(team.held().await, "x x x");
        let told = team.told().await;
        let label = "  overridden by wide-0\n";
        assert_eq!(told.matches(label).count(), usize::from(wide));
        assert_eq!(team.labels().await, if wide { "- a -" } else { "- - -" });
        expect![[r#"
            index 0, selected all
            completed, overridden
            m1 0: available, overridden
              overridden by app/narrow-0
            m2 0: available, overridden
              overridden by app/narrow-0
            m3 0: available, overridden
              overridden by app/narrow-0
        "#]]
        .assert_eq(&told.replace(label, ""));
        // Recorded in the run, cluster by cluster.
        let canary = team.status("first").await["stagesStatus"][0]["clusters"][0].clone();
        assert_eq!(
            canary["resourceOverrideSnapshots"],
            json!([{"name": "narrow-0", "namespace": "app"}])
        );
        let recorded = canary.get("clusterResourceOverrideSnapshots").cloned();
        assert_eq!(recorded, wide.then(|| json!(["wide-0"])));
        // A change waits for the next run, and so do those that are taken away.
        team.narrow("y").await;
        if wide {
            team.wide("b").await;
        }
        team.fleet.pass(60).await;
        assert_eq!((team.held().await, team.told().await), ("x x x".to_owned(), told));
        team.run("second", json!({})).await;
        assert_eq!(team.held().await, "x y x");
        // The version is the same, so only the overrides tell the clusters apart.
        assert_eq!(team.snapshots().await, ["web-0-snapshot"]);
        team.ends("second").await;
        assert_eq!(team.held().await, "y y y");
        if wide {
            assert_eq!(team.labels().await, "- b -");
            team.fleet.clusters.hub.delete("clusterresourceoverrides", "", "wide").await;
        }
        team.fleet.clusters.hub.delete("resourceoverrides", "app", "narrow").await;
        team.fleet.pass(60).await;
        assert_eq!(team.held().await, "y y y");
        team.rolls_out("third", json!({})).await;
        assert_eq!(team.held().await, "1 1 1");
        expect![[r#"
            index 0, selected all
            completed
            m1 0: available
            m2 0: available
            m3 0: available
        "#]]
        .assert_eq(&team.told().await);
    }
}
