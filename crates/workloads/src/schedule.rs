//! Finds a node for a pod, or says why there is none.
//!
//! The emptiest node that fits wins, which over many pods is round robin. Filters
//! run in the real scheduler's order and fail with its words; affinity between
//! pods and topology spread are not looked at.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::condition::{self, ConditionDraft, Style};
use crate::facts::Pod;
use crate::node::Node;
use crate::object::Fields;
use crate::plan::{Action, Note, Plan, Target};
use crate::resources::{Amounts, requests};
use crate::selector;

const SOURCE: &str = "default-scheduler";

/// How soon the claims of a pod are looked at again.
const AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// What the scheduler sees.
#[derive(Debug, Clone, Serialize)]
pub struct Observed {
    /// The pod to place.
    pub pod: Value,
    /// All nodes, with what is taken on each.
    pub nodes: Vec<(Node, Load)>,
    /// Why its claims keep it from any node.
    pub unbound: Option<String>,
    /// The present moment.
    pub now: Timestamp,
}

/// What the pods of a node have taken.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Load {
    /// How many there are.
    pub pods: i64,
    /// What they ask for together.
    pub requests: Amounts,
}

impl Load {
    /// Counts a pod that is on the node.
    pub fn add(&mut self, pod: &Pod) {
        self.pods += 1;
        crate::resources::add(&mut self.requests, &pod.requests);
    }

    /// Takes a pod off again.
    pub fn take(&mut self, pod: &Pod) {
        self.pods -= 1;
        for (name, amount) in &pod.requests {
            if let Some(sum) = self.requests.get_mut(name) {
                *sum -= amount;
            }
        }
    }
}

/// Binds the pod, or records why that is impossible.
pub fn plan(seen: &Observed) -> Plan {
    let pod = &seen.pod;
    let named = pod.text("/spec/schedulerName");
    if !pod.text("/spec/nodeName").is_empty() || pod.is_deleting() {
        return Plan::idle();
    }
    if !named.is_empty() && named != SOURCE {
        return Plan::wait(format!("left to scheduler {named}"));
    }
    if !pod.list("/spec/schedulingGates").is_empty() {
        let message = "Scheduling is blocked due to non-empty scheduling gates".to_owned();
        return refuse(seen, "SchedulingGated", message, false);
    }
    if let Some(why) = &seen.unbound {
        let all = seen.nodes.len();
        let message = format!(
            "0/{all} nodes are available: {why}. preemption: 0/{all} nodes are available: {all} Preemption is not helpful for scheduling."
        );
        let mut plan = refuse(seen, "Unschedulable", message, true);
        plan.wake_at(seen.now.checked_add(AGAIN).unwrap_or(Timestamp::MAX));
        return plan;
    }
    let asked = requests(pod);
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let (mut best, mut could_preempt): (Option<(&Node, i64)>, usize) = (None, 0);
    for (node, load) in &seen.nodes {
        match fit(pod, &asked, node, load) {
            Ok(()) => {
                if best.is_none_or(|(_, pods)| load.pods < pods) {
                    best = Some((node, load.pods));
                }
            }
            Err(why) => {
                could_preempt += usize::from(why.by_load);
                why.reasons.into_iter().for_each(|r| *reasons.entry(r).or_default() += 1);
            }
        }
    }
    match best {
        Some((node, _)) => bind(pod, &node.name),
        None => {
            let message = sentence(seen.nodes.len(), &reasons, could_preempt);
            refuse(seen, "Unschedulable", message, true)
        }
    }
}

fn bind(pod: &Value, node: &str) -> Plan {
    let mut plan = Plan::default();
    let place = format!("{}/{}", pod.namespace(), pod.name());
    let message = format!("Successfully assigned {place} to {node}");
    plan.act(Action::Bind { target: Target::of("pods", pod), node: node.to_owned() });
    plan.act(Action::Say(Note::normal(pod, SOURCE, "Scheduled", message)));
    plan
}

fn refuse(seen: &Observed, reason: &str, message: String, say: bool) -> Plan {
    let pod = &seen.pod;
    let mut plan = Plan::wait(message.clone());
    let mut conditions = pod.list("/status/conditions").to_vec();
    let draft =
        ConditionDraft { kind: "PodScheduled", status: "False", reason, message: message.clone() };
    condition::put(&mut conditions, Style::Probed, seen.now, &draft);
    let mut status = crate::object::status_of(pod);
    crate::object::set(&mut status, &["phase"], Value::String("Pending".into()));
    status["conditions"] = Value::Array(conditions);
    plan.status("pods", pod, status);
    if say && !plan.actions.is_empty() {
        plan.act(Action::Say(Note::warning(pod, SOURCE, "FailedScheduling", message)));
    }
    plan
}

/// Why a node does not fit.
struct Misfit {
    reasons: Vec<String>,
    /// Fewer pods would help.
    by_load: bool,
}

fn fit(pod: &Value, asked: &Amounts, node: &Node, load: &Load) -> Result<(), Misfit> {
    let never = |reason: String| Err(Misfit { reasons: vec![reason], by_load: false });
    let tolerations = pod.list("/spec/tolerations");
    let cordon =
        serde_json::json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"});
    if node.unschedulable && !is_tolerated(&cordon, tolerations) {
        return never("node(s) were unschedulable".into());
    }
    let not_ready =
        serde_json::json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let implied = (!node.ready).then_some(&not_ready);
    let hard = |t: &&Value| ["NoSchedule", "NoExecute"].contains(&t.text("/effect"));
    let mut taints = node.taints.iter().chain(implied).filter(hard);
    if let Some(taint) = taints.find(|t| !is_tolerated(t, tolerations)) {
        let (key, value) = (taint.text("/key"), taint.text("/value"));
        return never(format!("node(s) had untolerated taint {{{key}: {value}}}"));
    }
    if !is_wanted(pod, node) {
        return never("node(s) didn't match Pod's node affinity/selector".into());
    }
    let mut reasons = Vec::new();
    let room = |name: &str| node.allocatable.get(name).copied();
    if room("pods").is_some_and(|limit| i128::from(load.pods + 1) * 1_000 > limit) {
        reasons.push("Too many pods".to_owned());
    }
    for (name, amount) in asked.iter().filter(|(_, amount)| **amount > 0) {
        let used = load.requests.get(name).copied().unwrap_or(0);
        if used + amount > room(name).unwrap_or(0) {
            reasons.push(format!("Insufficient {name}"));
        }
    }
    let by_load = asked.iter().all(|(name, amount)| *amount <= room(name).unwrap_or(0));
    if reasons.is_empty() { Ok(()) } else { Err(Misfit { reasons, by_load }) }
}

/// Whether one of the tolerations covers a taint.
pub fn is_tolerated(taint: &Value, tolerations: &[Value]) -> bool {
    tolerations.iter().any(|t| {
        let (key, effect) = (t.text("/key"), t.text("/effect"));
        (effect.is_empty() || effect == taint.text("/effect"))
            && (key.is_empty() || key == taint.text("/key"))
            && match t.text("/operator") {
                "Exists" => true,
                _ => !key.is_empty() && t.text("/value") == taint.text("/value"),
            }
    })
}

/// `nodeSelector` and required node affinity.
pub fn is_wanted(pod: &Value, node: &Node) -> bool {
    let wanted = pod.strings("/spec/nodeSelector");
    let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let affinity = pod.at(required);
    let term = |term: &Value| {
        let fields = crate::object::Labels::from([("metadata.name".to_owned(), node.name.clone())]);
        let (by_label, by_field) = (term.list("/matchExpressions"), term.list("/matchFields"));
        !(by_label.is_empty() && by_field.is_empty())
            && by_label.iter().all(|rule| selector::holds(rule, &node.labels))
            && by_field.iter().all(|rule| selector::holds(rule, &fields))
    };
    wanted.iter().all(|(key, value)| node.labels.get(key) == Some(value))
        && (affinity.is_null() || affinity.list("/nodeSelectorTerms").iter().any(term))
}

/// `0/2 nodes are available: 2 Insufficient cpu. …`, as the scheduler ends its search.
fn sentence(nodes: usize, reasons: &BTreeMap<String, usize>, could_preempt: usize) -> String {
    if nodes == 0 {
        return "no nodes available to schedule pods".into();
    }
    let mut counted: Vec<String> = reasons.iter().map(|(r, n)| format!("{n} {r}")).collect();
    counted.sort();
    let mut preemption = Vec::new();
    if could_preempt > 0 {
        preemption.push(format!("{could_preempt} No preemption victims found for incoming pod"));
    }
    if nodes > could_preempt {
        let rest = nodes - could_preempt;
        preemption.push(format!("{rest} Preemption is not helpful for scheduling"));
    }
    preemption.sort();
    format!(
        "0/{nodes} nodes are available: {}. no new claims to deallocate, preemption: 0/{nodes} nodes are available: {}.",
        counted.join(", "),
        preemption.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WorkloadConfig;
    use serde_json::json;

    fn nodes(count: u32) -> Vec<(Node, Load)> {
        let config = WorkloadConfig { node_cpu: 2, ..WorkloadConfig::default() };
        let now = Timestamp::from_second(0).unwrap();
        (1..=count)
            .map(|n| (Node::of(&crate::node::make(n, &config, now)), Load::default()))
            .collect()
    }

    #[allow(clippy::needless_pass_by_value)] // reads better at the call
    fn seen(spec: Value, nodes: Vec<(Node, Load)>) -> Observed {
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "namespace": "default", "uid": "u"}, "spec": spec});
        Observed { pod, nodes, unbound: None, now: Timestamp::from_second(0).unwrap() }
    }

    fn asks(cpu: &str) -> Value {
        json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]})
    }

    fn outcome(seen: &Observed) -> String {
        let plan = plan(seen);
        match plan.actions.first() {
            Some(Action::Bind { node, .. }) => node.clone(),
            _ => plan.waiting.join("; "),
        }
    }

    #[test]
    fn the_emptiest_fitting_node_wins() {
        let mut all = nodes(3);
        all[0].1.pods = 2;
        all[1].1.pods = 1;
        all[2].1.pods = 1;
        assert_eq!(outcome(&seen(asks("1"), all.clone())), "node-2");
        all[1].1.requests.insert("cpu".into(), 1_500);
        assert_eq!(outcome(&seen(asks("1"), all)), "node-3");
    }

    #[test]
    fn misfits_are_counted_in_the_schedulers_words() {
        let plain = nodes(2);
        let mut full = nodes(2);
        full.iter_mut().for_each(|(_, load)| {
            load.requests.insert("cpu".into(), 1_500);
        });
        let mut mixed = nodes(3);
        mixed[0].0.unschedulable = true;
        mixed[1].0.taints = vec![json!({"key": "gpu", "value": "yes", "effect": "NoSchedule"})];
        let selective = json!({"containers": [], "nodeSelector": {"zone": "a"}});
        for (spec, nodes, expected) in [
            (
                asks("4"),
                plain,
                "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
            ),
            (
                asks("1"),
                full,
                "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.",
            ),
            (
                selective.clone(),
                mixed,
                "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint {gpu: yes}, 1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
            ),
            (selective, vec![], "no nodes available to schedule pods"),
        ] {
            assert_eq!(outcome(&seen(spec, nodes)), expected);
        }
    }

    #[test]
    fn tolerations_and_affinity_open_nodes() {
        let mut all = nodes(2);
        all[0].0.taints = vec![json!({"key": "gpu", "value": "yes", "effect": "NoSchedule"})];
        all[1].0.unschedulable = true;
        let tolerant =
            json!({"containers": [], "tolerations": [{"key": "gpu", "operator": "Exists"}]});
        assert_eq!(outcome(&seen(tolerant, all.clone())), "node-1");
        let daemon = json!({"containers": [], "tolerations": [{"operator": "Exists"}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["node-2"]}]}]}}}});
        assert_eq!(outcome(&seen(daemon, all)), "node-2");
    }

    #[test]
    fn a_pod_whose_claims_are_unbound_waits() {
        let why = Some("persistentvolumeclaim \"data\" not found".to_owned());
        let waits = Observed { unbound: why, ..seen(asks("1"), nodes(2)) };
        assert_eq!(
            outcome(&waits),
            "0/2 nodes are available: persistentvolumeclaim \"data\" not found. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        );
        assert!(super::plan(&waits).wake.is_some(), "it looks again");
    }

    #[test]
    fn an_unschedulable_pod_says_so_once() {
        let first = seen(asks("64"), nodes(1));
        let plan = super::plan(&first);
        let [Action::ReplaceStatus { object, .. }, Action::Say(note)] = &plan.actions[..] else {
            panic!("{plan:?}");
        };
        assert_eq!(note.reason, "FailedScheduling");
        assert_eq!(object["status"]["conditions"][0]["reason"], "Unschedulable");
        let again = Observed { pod: object.clone(), ..first };
        assert!(super::plan(&again).actions.is_empty());
    }
}
