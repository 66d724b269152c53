//! A fleet with a bystander, and words for what happens beside it.

use std::sync::Arc;

use flagship_apiserver::rest::{Admission, Mutation, Review};
use flagship_base::machinery::status::ApiError;
use flagship_sim::fleet::{Cluster, Fleet, FleetConfig};
use flagship_sim::stories;
use serde_json::{Value, json};

pub const CRP: &str = "clusterresourceplacements";

pub struct Scene {
    pub fleet: Fleet,
}

impl Scene {
    /// Two members, and a placement that nobody means harm.
    pub async fn new() -> Self {
        Self::with(FleetConfig::of(2)).await
    }

    pub async fn with(config: FleetConfig) -> Self {
        let scene = Self { fleet: Fleet::joined(config).await };
        scene.namespace("bystander").await;
        scene.map("bystander", "settings", json!({"version": "1"})).await;
        scene.place("bystander", &[selector("", "v1", "Namespace", "bystander")], json!({})).await;
        scene.becomes("bystander", "Available", "True").await;
        scene
    }

    pub fn hub(&self) -> &Cluster {
        &self.fleet.clusters.hub
    }

    pub fn member(&self, name: &str) -> &Cluster {
        self.fleet.clusters.member(name)
    }

    pub async fn namespace(&self, name: &str) {
        self.hub()
            .apply_object(
                &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
            )
            .await;
    }

    pub async fn map(&self, namespace: &str, name: &str, data: Value) {
        let meta = json!({"name": name, "namespace": namespace});
        self.hub()
            .apply_object(
                &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}),
            )
            .await;
    }

    /// Cluster-scoped objects in an envelope, which no selector looks into.
    pub async fn envelope(&self, name: &str, objects: &[Value]) {
        let data: serde_json::Map<String, Value> =
            objects.iter().enumerate().map(|(at, one)| (format!("o{at}"), one.clone())).collect();
        self.hub()
            .apply_object(&json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1",
                "kind": "ClusterResourceEnvelope", "metadata": {"name": name}, "data": data}))
            .await;
    }

    /// Places what is selected on all members, all at once.
    pub async fn place(&self, name: &str, selectors: &[Value], apply: Value) {
        let mut strategy = json!({"type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": "100%", "unavailablePeriodSeconds": 1}});
        if apply != json!({}) {
            strategy["applyStrategy"] = apply;
        }
        self.hub()
            .apply_object(&json!({
                "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
                "kind": "ClusterResourcePlacement", "metadata": {"name": name},
                "spec": {"resourceSelectors": selectors,
                    "policy": {"placementType": "PickAll"}, "strategy": strategy}}))
            .await;
    }

    /// Waits for a condition of a placement.
    pub async fn becomes(&self, name: &str, kind: &str, status: &str) -> Value {
        let kind = format!("ClusterResourcePlacement{kind}");
        self.hub().becomes(CRP, "", name, &kind, status).await
    }

    /// Waits until something failed on a member, and tells it from there on: the condition
    /// that says so and what failed.
    pub async fn failing_on(&self, name: &str, member: &str) -> String {
        let failed = |found: Option<&Value>| {
            found.is_some_and(|crp| {
                stories::rows(&crp["status"], "placementStatuses").any(|one| {
                    one["clusterName"] == member
                        && stories::rows(one, "failedPlacements").next().is_some()
                })
            })
        };
        self.hub().eventually(CRP, "", name, failed).await;
        self.told(name, member).await
    }

    /// What a placement says of a member from `Applied` or `DiffReported` on.
    pub async fn told(&self, name: &str, member: &str) -> String {
        let told = stories::placement(self.hub(), name).await;
        let (_, rest) = told.split_once(&format!("\n{member}:\n")).unwrap_or_default();
        let own: Vec<&str> = rest.lines().take_while(|line| line.starts_with(' ')).collect();
        let begins = |line: &&str| {
            ["  Applied=", "  DiffReported=", "  Overridden=False", "  WorkSynchronized=False"]
                .iter()
                .any(|start| line.starts_with(start))
        };
        let from = own.iter().position(begins).unwrap_or(own.len());
        own[from..].iter().map(|line| format!("{}\n", line.trim_start_matches("  "))).collect()
    }

    /// The bystander is delivered, mended and told of as if nothing else was going on.
    pub async fn nothing_else_suffers(&self) {
        let version = self.fleet.env.now().to_string();
        self.map("bystander", "settings", json!({"version": version})).await;
        let arrived =
            |found: Option<&Value>| found.is_some_and(|map| map["data"]["version"] == version);
        for member in self.fleet.clusters.members() {
            member.eventually_within(10, "configmaps", "bystander", "settings", arrived).await;
        }
        let member = self.member("member1");
        member.delete("configmaps", "bystander", "settings").await;
        member.eventually_within(10, "configmaps", "bystander", "settings", arrived).await;
        self.becomes("bystander", "Available", "True").await;
    }

    /// Lets a hook see every write to a cluster; one of the same name is replaced.
    pub fn hook(&self, cluster: &str, hook: Hook) {
        self.fleet.handle(cluster).install_admission("hostile", Arc::new(hook));
    }
}

/// A webhook in this process.
#[derive(Default)]
pub struct Hook {
    /// Refuses with these words, if any.
    #[allow(clippy::type_complexity)]
    pub refuses: Option<Box<dyn Fn(&Review<'_>) -> Option<String> + Send + Sync>>,
    /// Changes what passes.
    #[allow(clippy::type_complexity)]
    pub changes: Option<Box<dyn Fn(&mut Mutation<'_>) + Send + Sync>>,
}

impl Admission for Hook {
    fn mutate(&self, review: &mut Mutation<'_>) -> Result<(), ApiError> {
        if let Some(changes) = &self.changes {
            changes(review);
        }
        Ok(())
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), ApiError> {
        let refused = self.refuses.as_ref().and_then(|refuses| refuses(review));
        refused.map_or(Ok(()), |why| {
            let says = format!("admission webhook \"guard.example.com\" denied the request: {why}");
            Err(ApiError::new(403, "Forbidden", says))
        })
    }
}

pub fn selector(group: &str, version: &str, kind: &str, name: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind, "name": name})
}

pub fn envelope_selector(name: &str) -> Value {
    selector("placement.kubernetes-fleet.io", "v1beta1", "ClusterResourceEnvelope", name)
}
