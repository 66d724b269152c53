//! Deployments: what a person does with kubectl on the hub arrives as Pods on the members,
//! stage by stage, or does not. Told in both scopes, as the troubleshooting guides tell it.

use flagship_rules::placement::selection::TypeRules;
use flagship_sim::fleet::{Fleet, FleetConfig};
use flagship_sim::stories::rows;
use serde_json::{Value, json};

use crate::update_run::story::{NAMESPACED, SCOPES, Scope, said};
use flagship_sim::testing::text;

const MEMBERS: [&str; 3] = ["member1", "member2", "member3"];

/// The Deployment `web` in namespace `app`, and the placement that brings it to members.
struct Shop {
    fleet: Fleet,
    scope: Scope,
}

impl Shop {
    /// Three members, `member2` is the staging one; nothing is rolled out yet.
    async fn open(scope: Scope) -> Self {
        let mut config = FleetConfig::of(3)
            .labelled("member1", "environment", "canary")
            .labelled("member2", "environment", "staging")
            .labelled("member3", "environment", "canary");
        config.workloads.missing_images = vec!["nginx:broken".to_owned()];
        config.hub.selection.types =
            TypeRules::read("", "v1/Namespace;apps/v1/Deployment").expect("two kinds");
        let shop = Self { fleet: Fleet::joined(config).await, scope };
        let hub = &shop.fleet.clusters.hub;
        hub.apply("{apiVersion: v1, kind: Namespace, metadata: {name: app}}").await;
        shop.deploy("nginx:1.20").await;
        let named = |stage: &str| json!({"matchLabels": {"environment": stage}});
        let stages = json!([
            {"name": "staging", "labelSelector": named("staging"), "afterStageTasks": [{"type": "Approval"}]},
            {"name": "canary", "labelSelector": named("canary"), "maxConcurrency": 2},
        ]);
        shop.apply(&scope.strategies(), "example-strategy", json!({"stages": stages})).await;
        let namespace = json!({"group": "", "kind": "Namespace", "version": "v1", "name": "app"});
        let selector = if scope.space == NAMESPACED.space {
            // Namespaces are not brought by what is in them.
            let mut alone = namespace;
            alone["selectionScope"] = json!("NamespaceOnly");
            let spec = json!({"resourceSelectors": [alone]});
            shop.apply_as("ClusterResourcePlacement", json!({"name": "ground"}), spec).await;
            let kind = "ClusterResourcePlacementAvailable";
            hub.becomes("clusterresourceplacements", "", "ground", kind, "True").await;
            json!({"group": "apps", "kind": "Deployment", "version": "v1", "name": "web"})
        } else {
            namespace
        };
        let spec = json!({"resourceSelectors": [selector],
            "policy": {"placementType": "PickAll"}, "strategy": {"type": "External"}});
        shop.apply(scope.placements, "example-placement", spec).await;
        shop.placement_becomes("Scheduled").await;
        shop
    }

    async fn apply(&self, resource: &str, name: &str, spec: Value) {
        let info = flagship_api::kinds::find(resource).expect("a kind of ours");
        self.apply_as(info.kind, self.scope.meta(name), spec).await;
    }

    async fn apply_as(&self, kind: &str, metadata: Value, spec: Value) {
        let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind,
            "metadata": metadata, "spec": spec});
        self.fleet.clusters.hub.apply_object(&object).await;
    }

    async fn deploy(&self, image: &str) {
        let labels = json!({"app": "web"});
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "app"},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": image}]}}},
        });
        self.fleet.clusters.hub.apply_object(&object).await;
    }

    async fn run(&self, name: &str) {
        let spec = json!({"placementName": "example-placement",
            "stagedRolloutStrategyName": "example-strategy", "state": "Run"});
        self.apply(&self.scope.runs(), name, spec).await;
    }

    async fn set_state(&self, run: &str, state: &str) {
        let patch = json!({"spec": {"state": state}});
        self.fleet.clusters.hub.patch(&self.scope.runs(), self.scope.space, run, patch).await;
        self.fleet.pass(5).await;
    }

    async fn approve(&self, request: &str) {
        let (hub, resource, space) =
            (&self.fleet.clusters.hub, self.scope.approvals(), self.scope.space);
        hub.eventually(&resource, space, request, |found| found.is_some()).await;
        let approved = json!({"type": "Approved", "status": "True", "reason": "approved",
            "message": "approved", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        hub.patch_status(&resource, space, request, json!({"conditions": [approved]})).await;
    }

    async fn succeeds(&self, run: &str) {
        let hub = &self.fleet.clusters.hub;
        hub.becomes(&self.scope.runs(), self.scope.space, run, "Succeeded", "True").await;
    }

    /// A run from its creation to its end.
    async fn rolls_out(&self, run: &str) {
        self.run(run).await;
        self.approve(&format!("{run}-after-staging")).await;
        self.succeeds(run).await;
    }

    async fn placement_becomes(&self, what: &str) -> Value {
        let cluster = if self.scope.space.is_empty() { "Cluster" } else { "" };
        let kind = format!("{cluster}ResourcePlacement{what}");
        let (placements, space) = (self.scope.placements, self.scope.space);
        let hub = &self.fleet.clusters.hub;
        hub.becomes(placements, space, "example-placement", &kind, "True").await
    }

    /// The images that run on the members; `-` where nothing does.
    async fn images(&self) -> String {
        let mut images = Vec::new();
        for member in MEMBERS {
            let found = self.fleet.clusters.member(member).find("deployments", "app", "web").await;
            let image = found.map(|found| {
                text(&found["spec"]["template"]["spec"]["containers"][0]["image"])
                    .trim_start_matches("nginx:")
                    .to_owned()
            });
            images.push(image.unwrap_or_else(|| "-".to_owned()));
        }
        images.join(" ")
    }

    async fn status(&self, run: &str) -> Value {
        let run = self.fleet.clusters.hub.get(&self.scope.runs(), self.scope.space, run).await;
        run["status"].clone()
    }

    async fn progress(&self, run: &str) -> String {
        said(&self.status(run).await["conditions"], "Progressing")
    }

    /// What the placement says of a member.
    async fn told_of(&self, member: &str) -> Value {
        let (placements, space) = (self.scope.placements, self.scope.space);
        let placement = self.fleet.clusters.hub.get(placements, space, "example-placement").await;
        let mut clusters = rows(&placement["status"], "placementStatuses");
        clusters.find(|c| c["clusterName"] == member).cloned().unwrap_or_default()
    }

    /// A good version is everywhere, and a run brings a bad one.
    async fn stuck(scope: Scope) -> Self {
        let shop = Self::open(scope).await;
        shop.rolls_out("good").await;
        shop.deploy("nginx:broken").await;
        shop.run("example-run").await;
        shop.fleet.pass(310).await;
        assert_eq!(shop.progress("example-run").await, STUCK);
        shop
    }
}

const STUCK: &str = "False UpdateRunStuck: The updateRun is stuck waiting for member2 cluster(s) in stage staging to finish updating, please check placement status for potential errors";

// checklist 13.7 omitted index: snapshot 0 created, staging first, approvals, the rest
#[tokio::test(start_paused = true)]
async fn a_version_reaches_real_members_stage_by_stage() {
    for scope in SCOPES {
        let shop = Shop::open(scope).await;
        shop.run("example-run").await;
        let (approvals, space) = (scope.approvals(), scope.space);
        let request = "example-run-after-staging";
        shop.fleet.clusters.hub.eventually(&approvals, space, request, |f| f.is_some()).await;
        assert_eq!(shop.images().await, "- 1.20 -");
        shop.approve(request).await;
        shop.succeeds("example-run").await;
        assert_eq!(shop.images().await, "1.20 1.20 1.20");
        let placement = shop.placement_becomes("Available").await;
        assert_eq!(placement["status"]["observedResourceIndex"], "0");
        // An edit alone changes nothing; the next run takes it along.
        shop.deploy("nginx:1.21").await;
        shop.fleet.pass(120).await;
        assert_eq!(shop.images().await, "1.20 1.20 1.20");
        shop.rolls_out("second").await;
        assert_eq!(shop.images().await, "1.21 1.21 1.21");
    }
}

// checklist 11.2, scenario 11: an image that cannot be pulled
#[tokio::test(start_paused = true)]
async fn an_image_that_cannot_be_pulled_stops_the_run_at_its_first_stage() {
    for scope in SCOPES {
        let shop = Shop::stuck(scope).await;
        let told = shop.status("example-run").await;
        assert_eq!(said(&told["conditions"], "Succeeded"), "");
        let staging = &told["stagesStatus"][0];
        assert_eq!(
            said(&staging["conditions"], "Progressing"),
            "True StageUpdatingStarted: Clusters in the stage started updating"
        );
        assert_eq!(
            said(&staging["clusters"][0]["conditions"], "Started"),
            "True ClusterUpdatingStarted: Cluster update started"
        );
        assert!(told["stagesStatus"][1].get("conditions").is_none());
        assert_eq!(shop.images().await, "1.20 broken 1.20");
        let sick = shop.told_of("member2").await;
        assert!(said(&sick["conditions"], "Applied").starts_with("True"), "{sick:#}");
        let work = match scope.space {
            "" => "example-placement-work".to_owned(),
            space => format!("{space}.example-placement-work"),
        };
        let told = said(&sick["conditions"], "Available");
        let expected =
            format!("False NotAllWorkAreAvailable: Work object {work} is not yet available");
        assert!(told.starts_with(&expected), "{told}");
        let failed = &sick["failedPlacements"][0];
        assert_eq!(
            [&failed["kind"], &failed["name"], &failed["condition"]["reason"]].map(text),
            ["Deployment", "web", "ManifestNotAvailableYet"]
        );
    }
}

// checklist 11.2, scenario 13: a new run with a working image takes over from the stuck one
#[tokio::test(start_paused = true)]
async fn a_new_run_takes_over_from_a_stuck_one() {
    for scope in SCOPES {
        let shop = Shop::stuck(scope).await;
        shop.deploy("nginx:1.21").await;
        shop.rolls_out("repair").await;
        let lost = said(&shop.status("example-run").await["conditions"], "Succeeded");
        assert!(
            lost.contains("the binding of the updating cluster `member2` in the stage `staging`"),
            "{lost}"
        );
        assert_eq!(shop.images().await, "1.21 1.21 1.21");
        // What is over can be deleted, and takes its request along.
        let (hub, runs) = (&shop.fleet.clusters.hub, scope.runs());
        hub.delete(&runs, scope.space, "example-run").await;
        hub.eventually(&runs, scope.space, "example-run", |found| found.is_none()).await;
        assert_eq!(shop.images().await, "1.21 1.21 1.21");
    }
}

// checklist 11.2, scenarios 12 and 13: stopping does not end the wait; once the image is
// there, the same run says that it has stopped, and goes on when told to
#[tokio::test(start_paused = true)]
async fn a_stuck_run_that_is_stopped_waits_for_its_cluster_and_goes_on_after_the_repair() {
    for scope in SCOPES {
        let shop = Shop::stuck(scope).await;
        shop.set_state("example-run", "Stop").await;
        assert_eq!(shop.progress("example-run").await, STUCK);
        // Somebody gives the pods on the member an image that can be pulled.
        let member = shop.fleet.clusters.member("member2");
        for pod in member.list("pods", "app").await {
            let name = text(&pod["metadata"]["name"]);
            let image = json!({"spec": {"containers": [{"name": "web", "image": "nginx:1.21"}]}});
            member.patch("pods", "app", &name, image).await;
        }
        shop.fleet.pass(60).await;
        assert_eq!(
            shop.progress("example-run").await,
            "False UpdateRunStopped: The update run has been stopped"
        );
        assert_eq!(shop.images().await, "1.20 broken 1.20");
        shop.set_state("example-run", "Run").await;
        assert_eq!(
            shop.progress("example-run").await,
            "False UpdateRunWaiting: The updateRun is waiting for after-stage tasks in stage staging to complete"
        );
    }
}
