//! What members, placements and people do on a [`TestHub`], and what is asked about it.

use serde_json::{Value, json};

use super::{CLUSTERS, CRB, CRP, CSPS, IMC, RP, SPS, TestHub, text};

impl TestHub {
    /// A cluster that has joined and is healthy.
    pub async fn cluster(&self, name: &str, labels: Value) {
        self.newcomer(name, labels).await;
        self.joins(name).await;
    }

    /// A cluster whose agent has not been heard of. Its place on the hub is there, so that
    /// it can be heard with and without controllers.
    pub async fn newcomer(&self, name: &str, labels: Value) {
        let object = json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {"identity": {"kind": "User", "name": name}},
        });
        let space = format!("fleet-member-{name}");
        let labels = json!({"kubernetes-fleet.io/is-fleet-resource": "true"});
        let namespace = json!({"metadata": {"name": space, "labels": labels}});
        self.create("namespaces", namespace).await;
        let meta = json!({"name": name, "namespace": space});
        let spec = json!({"state": "Join", "heartbeatPeriodSeconds": 60});
        self.create(IMC, json!({"metadata": meta, "spec": spec})).await;
        self.create(CLUSTERS, object).await;
    }

    pub async fn joins(&self, name: &str) {
        let agent = self.agent("True");
        self.agent_says(name, json!({"agentStatus": [agent]})).await;
    }

    /// Deletes a cluster, and its agent says goodbye.
    pub async fn leaves(&self, name: &str) {
        self.delete(CLUSTERS, "", name).await;
        self.settle().await;
        let agent = self.agent("False");
        self.agent_says(name, json!({"agentStatus": [agent]})).await;
        self.settle().await;
    }

    fn agent(&self, joined: &str) -> Value {
        let now = self.now();
        let condition = |kind: &str, status: &str| {
            json!({"type": kind, "status": status, "reason": "Agent", "message": "",
                "lastTransitionTime": now})
        };
        json!({"type": "MemberAgent", "lastReceivedHeartbeat": now,
            "conditions": [condition("Joined", joined), condition("Healthy", "True")]})
    }

    /// All clusters say that they are alive, once a minute for so many minutes.
    pub async fn heartbeats(&self, minutes: u64) {
        for _ in 0..minutes {
            for internal in self.list(IMC, "") {
                if let Some(agent) = internal["status"]["agentStatus"].get(0) {
                    let mut agent = agent.clone();
                    agent["lastReceivedHeartbeat"] = json!(self.now());
                    let name = text(&internal["metadata"]["name"]);
                    self.agent_says(&name, json!({"agentStatus": [agent]})).await;
                }
            }
            self.pass(60).await;
        }
    }

    pub fn now(&self) -> String {
        let now = self.env.now();
        format!("{}Z", now.to_string().split(['.', 'Z']).next().unwrap())
    }

    /// A cluster-scoped placement with its first policy.
    pub async fn places(&self, name: &str, policy: Value) {
        let selector = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]);
        let mut spec = json!({"resourceSelectors": selector});
        if !policy.is_null() {
            spec["policy"] = policy.clone();
        }
        self.create(CRP, json!({"metadata": {"name": name}, "spec": spec})).await;
        self.policy(name, 0, policy).await;
    }

    /// A namespaced placement with its first policy.
    pub async fn places_in(&self, space: &str, name: &str, policy: Value) {
        let selector = json!([{"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"}]);
        let meta = json!({"name": name, "namespace": space});
        let spec = json!({"resourceSelectors": selector, "policy": policy});
        self.create(RP, json!({"metadata": meta, "spec": spec})).await;
        let mut snapshot = snapshot(name, 0, policy);
        snapshot["metadata"]["namespace"] = json!(space);
        self.create(SPS, snapshot).await;
    }

    /// The policy of a placement from now on, as the placement controller would write it.
    pub async fn policy(&self, placement: &str, index: u64, policy: Value) {
        if index > 0 {
            let old = format!("{placement}-{}", index - 1);
            let labels = json!({"kubernetes-fleet.io/is-latest-snapshot": "false"});
            self.patch(CSPS, "", &old, json!({"metadata": {"labels": labels}})).await;
        }
        self.create(CSPS, snapshot(placement, index, policy)).await;
    }

    pub async fn wants(&self, snapshot: &str, clusters: u64) {
        let notes = json!({"kubernetes-fleet.io/number-of-clusters": clusters.to_string()});
        self.patch(CSPS, "", snapshot, json!({"metadata": {"annotations": notes}})).await;
    }

    /// What the rollout side does to a fresh binding.
    pub async fn bind_all(&self, placement: &str) {
        for binding in self.bindings_of(CRB, placement) {
            if binding["spec"]["state"] == "Scheduled" {
                let spec = json!({"state": "Bound", "resourceSnapshotName": "web-0-snapshot"});
                let name = binding["metadata"]["name"].as_str().unwrap();
                self.patch(CRB, "", name, json!({"spec": spec})).await;
            }
        }
    }

    pub fn bindings_of(&self, resource: &str, placement: &str) -> Vec<Value> {
        let mut all = self.list(resource, "");
        let parent = "kubernetes-fleet.io/parent-CRP";
        all.retain(|binding| binding["metadata"]["labels"][parent] == placement);
        all.sort_by_key(|binding| text(&binding["spec"]["targetCluster"]));
        all
    }

    /// `cluster state of policy`, with what else matters, by cluster.
    pub fn bindings(&self, placement: &str) -> Vec<String> {
        self.bindings_of(CRB, placement).iter().map(line).collect()
    }

    /// The name of the binding of a placement on a cluster.
    pub fn binding_on(&self, placement: &str, cluster: &str) -> String {
        let all = self.bindings_of(CRB, placement);
        let found = all.iter().find(|b| b["spec"]["targetCluster"] == cluster);
        text(&found.unwrap()["metadata"]["name"])
    }

    /// What a policy snapshot says, line by line.
    pub fn decision(&self, resource: &str, space: &str, snapshot: &str) -> String {
        let status = &self.get(resource, space, snapshot)["status"];
        let mut lines = Vec::new();
        for condition in status["conditions"].as_array().into_iter().flatten() {
            lines.push(format!(
                "{} {}: {} (generation {})",
                text(&condition["status"]),
                text(&condition["reason"]),
                text(&condition["message"]),
                status["observedCRPGeneration"],
            ));
        }
        for decision in status["targetClusters"].as_array().into_iter().flatten() {
            let mark = if decision["selected"] == true { "+" } else { "-" };
            lines.push(format!("{mark} {}", text(&decision["reason"])));
        }
        lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// One binding in a line.
pub fn line(binding: &Value) -> String {
    let spec = &binding["spec"];
    let previous =
        &binding["metadata"]["annotations"]["kubernetes-fleet.io/previous-binding-state"];
    let mut line = format!(
        "{} {} {}",
        text(&spec["targetCluster"]),
        text(&spec["state"]),
        text(&spec["schedulingPolicySnapshotName"])
    );
    if let Some(previous) = previous.as_str() {
        line.push_str(&format!(" was {previous}"));
    }
    if !binding["metadata"]["deletionTimestamp"].is_null() {
        line.push_str(" deleting");
    }
    line
}

fn snapshot(placement: &str, index: u64, policy: Value) -> Value {
    let mut notes = json!({"kubernetes-fleet.io/CRP-generation": (index + 1).to_string()});
    if let Some(count) = policy["numberOfClusters"].as_u64() {
        notes["kubernetes-fleet.io/number-of-clusters"] = json!(count.to_string());
    }
    let mut spec = json!({"policyHash": "aGFzaA=="});
    if !policy.is_null() {
        spec["policy"] = policy;
    }
    json!({
        "metadata": {
            "name": format!("{placement}-{index}"),
            "labels": {
                "kubernetes-fleet.io/parent-CRP": placement,
                "kubernetes-fleet.io/is-latest-snapshot": "true",
                "kubernetes-fleet.io/policy-index": index.to_string(),
            },
            "annotations": notes,
        },
        "spec": spec,
    })
}
