//! DaemonSet -> one Pod on every node that wants it.
//!
//! Pods are aimed at their node by affinity and placed by the scheduler, as in a
//! real cluster. An update removes old pods within `maxUnavailable`; `maxSurge` is
//! treated as one pod that may be unavailable.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::claim;
use crate::deployment::{Round, resolve};
use crate::facts::Pod;
use crate::node::Node;
use crate::object::{Fields, set};
use crate::plan::{Action, Note, Plan};
use crate::pods::{from_template, remove};
use crate::revision::{self, LABEL};
use crate::schedule::{is_tolerated, is_wanted};

const SETS: &str = "daemonsets.apps";
const SOURCE: &str = "daemonset-controller";

/// What one DaemonSet looks like.
#[derive(Debug, Clone, Serialize)]
pub struct Observed {
    /// The DaemonSet.
    pub set: Value,
    /// Pods that it controls.
    pub pods: Vec<Pod>,
    /// Whole pods whose belonging is in question.
    pub strays: Vec<Value>,
    /// All nodes.
    pub nodes: Vec<Node>,
    /// Its ControllerRevisions.
    pub revisions: Vec<Value>,
    /// Why the last attempt to make a pod was refused.
    pub refusal: Option<String>,
    /// The present moment.
    pub now: Timestamp,
}

/// Decides the next moves for one DaemonSet.
pub fn plan(seen: &Observed) -> Plan {
    let owner = &seen.set;
    let mut plan = Plan { actions: claim::settle(owner, "pods", &seen.strays), ..Plan::default() };
    if !plan.actions.is_empty() || owner.is_deleting() {
        return plan;
    }
    let latest = revision::latest(owner, &seen.revisions, &mut plan);
    let mut here: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for pod in &seen.pods {
        here.entry(place(pod)).or_default().push(pod);
    }
    let template = pod_of(owner, "", &latest.hash);
    let mut counts = Counts::default();
    let delay = owner.int("/spec/minReadySeconds").unwrap_or(0);
    let mut outdated = Vec::new();
    for node in &seen.nodes {
        let mut pods = here.remove(node.name.as_str()).unwrap_or_default();
        pods.sort_by_key(|p| (p.deleting, p.created, p.uid.clone()));
        if !wants(&template, node) {
            counts.misscheduled += usize::from(pods.iter().any(|p| !p.deleting));
            let misplaced = pods.iter().filter(|p| !p.deleting);
            misplaced.for_each(|p| plan.act(remove(SOURCE, owner, p)));
            continue;
        }
        counts.desired += 1;
        let Some(pod) = pods.iter().find(|p| !p.deleting) else {
            // The old one leaves before the new one comes.
            if pods.is_empty() && seen.refusal.is_none() {
                plan.act(make(owner, &node.name, &latest.hash));
            }
            continue;
        };
        pods.iter()
            .skip(1)
            .filter(|p| !p.deleting)
            .for_each(|p| plan.act(remove(SOURCE, owner, p)));
        if pod.phase.is_final() {
            let message = format!(
                "Found failed daemon pod {}/{} on node {}, will try to kill it",
                pod.namespace, pod.name, node.name
            );
            plan.act(Action::Say(Note::warning(owner, SOURCE, "FailedDaemonPod", message)));
            plan.act(remove(SOURCE, owner, pod));
            continue;
        }
        counts.current += 1;
        counts.ready += usize::from(pod.is_ready());
        let available = pod.is_available(delay, seen.now);
        counts.available += usize::from(available);
        if let Some(next) = pod.available_at(delay, seen.now) {
            plan.wake_at(next);
        }
        if pod.labels.get(LABEL) == Some(&latest.hash) {
            counts.updated += 1;
        } else {
            outdated.push((available, *pod));
        }
    }
    // Pods of nodes that are gone.
    for pod in here.into_values().flatten().filter(|p| !p.deleting) {
        plan.act(remove(SOURCE, owner, pod));
    }
    roll(owner, &counts, &mut outdated, &mut plan);
    plan.waiting.extend(seen.refusal.clone());
    let in_use = [latest.name.as_str()];
    if counts.updated == counts.desired {
        revision::forget(owner, &seen.revisions, &in_use, &mut plan);
    }
    plan.status(SETS, owner, counts.status(owner));
    plan
}

#[derive(Default)]
struct Counts {
    desired: usize,
    current: usize,
    ready: usize,
    available: usize,
    updated: usize,
    misscheduled: usize,
}

impl Counts {
    fn status(&self, owner: &Value) -> Value {
        let mut status = json!({
            "currentNumberScheduled": self.current, "desiredNumberScheduled": self.desired,
            "numberMisscheduled": self.misscheduled, "numberReady": self.ready,
            "observedGeneration": owner.generation(),
        });
        for (field, number) in [
            ("updatedNumberScheduled", self.updated),
            ("numberAvailable", self.available),
            ("numberUnavailable", self.desired.saturating_sub(self.available)),
        ] {
            if number > 0 {
                status[field] = json!(number);
            }
        }
        status
    }
}

/// Removes outdated pods: those that serve nobody at once, others within the budget.
fn roll(owner: &Value, counts: &Counts, outdated: &mut [(bool, &Pod)], plan: &mut Plan) {
    if owner.text("/spec/updateStrategy/type") == "OnDelete" {
        return;
    }
    let limit = match owner.at("/spec/updateStrategy/rollingUpdate/maxUnavailable") {
        Value::Null => json!(1),
        value => value.clone(),
    };
    let desired = i64::try_from(counts.desired).unwrap_or(i64::MAX);
    let limit = resolve(&limit, desired, Round::Up).max(1);
    let missing = i64::try_from(counts.desired - counts.available.min(counts.desired)).unwrap_or(0);
    let mut left = (limit - missing).max(0);
    outdated.sort_by_key(|(available, pod)| (*available, pod.name.clone()));
    for (available, pod) in outdated.iter() {
        if *available {
            if left == 0 {
                continue;
            }
            left -= 1;
        }
        plan.act(remove(SOURCE, owner, pod));
    }
}

/// The node a pod is on or aimed at.
fn place(pod: &Pod) -> &str {
    if pod.node.is_empty() { &pod.aimed_at } else { &pod.node }
}

fn wants(pod: &Value, node: &Node) -> bool {
    let tolerations = pod.list("/spec/tolerations");
    let hard = |t: &&Value| ["NoSchedule", "NoExecute"].contains(&t.text("/effect"));
    is_wanted(pod, node) && node.taints.iter().filter(hard).all(|t| is_tolerated(t, tolerations))
}

/// A pod of the set; aimed at `node` unless that is empty.
fn pod_of(owner: &Value, node: &str, hash: &str) -> Value {
    let mut pod = from_template(owner, owner.at("/spec/template"));
    set(&mut pod, &["metadata", "labels", LABEL], json!(hash));
    set(&mut pod, &["metadata", "labels", "pod-template-generation"], json!("1"));
    let mut tolerations = pod.list("/spec/tolerations").to_vec();
    for (name, effect) in [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ] {
        let key = format!("node.kubernetes.io/{name}");
        tolerations.push(json!({"key": key, "operator": "Exists", "effect": effect}));
    }
    set(&mut pod, &["spec", "tolerations"], json!(tolerations));
    if !node.is_empty() {
        let aim = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        let path =
            ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
        let pointer = format!("/{}/nodeSelectorTerms", path.join("/"));
        let mut terms = pod.list(&pointer).to_vec();
        if terms.is_empty() {
            terms.push(json!({}));
        }
        terms.iter_mut().for_each(|t| set(t, &["matchFields"], json!([aim])));
        set(&mut pod, &[path[0], path[1], path[2], path[3], "nodeSelectorTerms"], json!(terms));
    }
    pod
}

fn make(owner: &Value, node: &str, hash: &str) -> Action {
    Action::Create {
        resource: "pods",
        object: pod_of(owner, node, hash),
        then: Some(Note::normal(owner, SOURCE, "SuccessfulCreate", "Created pod: {name}")),
        refused: Some(Note::warning(owner, SOURCE, "FailedCreate", "Error creating: ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WorkloadConfig;
    use crate::fixture::Fixture;

    struct Story {
        fixture: Fixture,
        nodes: Vec<Node>,
    }

    impl Story {
        fn of(nodes: u32) -> Self {
            let mut fixture = Fixture::new();
            let config = WorkloadConfig::default();
            fixture.put("daemonsets.apps", json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
                "metadata": {"name": "agent", "namespace": "default"},
                "spec": {"selector": {"matchLabels": {"app": "agent"}},
                    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
                    "template": {"metadata": {"labels": {"app": "agent"}},
                        "spec": {"containers": [{"name": "a", "image": "agent:1"}]}}}}));
            let now = fixture.now;
            let nodes =
                (1..=nodes).map(|n| Node::of(&crate::node::make(n, &config, now))).collect();
            Self { fixture, nodes }
        }

        fn turn(&mut self) -> bool {
            let fixture = &self.fixture;
            let seen = Observed {
                set: fixture.get("daemonsets.apps", "agent").clone(),
                pods: fixture.pods(),
                strays: vec![],
                nodes: self.nodes.clone(),
                revisions: fixture.list("controllerrevisions.apps"),
                refusal: None,
                now: fixture.now,
            };
            let plan = super::plan(&seen);
            self.fixture.apply(plan)
        }

        fn settle(&mut self) {
            for _ in 0..50 {
                if !self.turn() {
                    return;
                }
            }
            panic!("does not settle");
        }

        fn places(&self) -> Vec<String> {
            let mut all: Vec<String> =
                self.fixture.pods().iter().map(|p| place(p).to_owned()).collect();
            all.sort();
            all
        }
    }

    #[test]
    fn every_node_that_wants_it_gets_one() {
        let mut story = Story::of(3);
        story.nodes[1].taints = vec![json!({"key": "gpu", "effect": "NoSchedule"})];
        story.nodes[2].unschedulable = true;
        story.settle();
        assert_eq!(story.places(), ["node-1", "node-3"], "cordons do not keep daemons away");
        let status = &story.fixture.get("daemonsets.apps", "agent")["status"];
        assert_eq!(status["desiredNumberScheduled"], 2);
        assert_eq!(status["numberUnavailable"], 2);
    }

    #[test]
    fn pods_follow_nodes_that_come_and_go() {
        let mut story = Story::of(2);
        story.settle();
        story.nodes.remove(0);
        story.settle();
        assert_eq!(story.places(), ["node-2"]);
    }

    #[test]
    fn an_update_goes_one_node_at_a_time() {
        let mut story = Story::of(3);
        story.settle();
        story.fixture.ready(|_| true);
        story.settle();
        story.fixture.edit("daemonsets.apps", "agent", |s| {
            s["spec"]["template"]["spec"]["containers"][0]["image"] = json!("agent:2");
        });
        for round in 1..=3 {
            story.settle();
            let ready = story.fixture.pods().iter().filter(|p| p.is_ready()).count();
            assert_eq!(ready, 2, "round {round}");
            story.fixture.ready(|p| p["status"].is_null());
        }
        story.settle();
        let status = &story.fixture.get("daemonsets.apps", "agent")["status"];
        assert_eq!(status["updatedNumberScheduled"], 3);
        assert_eq!(status["numberAvailable"], 3);
    }
}
