//! StatefulSet -> Pods with names and claims of their own, one after the other.
//!
//! Pods are made from the lowest ordinal up and removed from the highest down, each
//! only when its neighbours are well (`Parallel` lifts that). An update replaces
//! pods from the highest ordinal down to the partition. Claims are kept when pods go.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::claim;
use crate::facts::Pod;
use crate::object::{Fields, set};
use crate::plan::{Action, Note, Plan, Propagation};
use crate::pods::{BURST, from_template};
use crate::revision::{self, LABEL, Latest};

const SETS: &str = "statefulsets.apps";
const SOURCE: &str = "statefulset-controller";

/// What one StatefulSet looks like.
#[derive(Debug, Clone, Serialize)]
pub struct Observed {
    /// The StatefulSet.
    pub set: Value,
    /// Pods that it controls.
    pub pods: Vec<Pod>,
    /// Whole pods whose belonging is in question.
    pub strays: Vec<Value>,
    /// Names of all pods in the namespace, which may be in the way.
    pub taken: BTreeSet<String>,
    /// Its ControllerRevisions.
    pub revisions: Vec<Value>,
    /// Names of the claims in the namespace.
    pub claims: BTreeSet<String>,
    /// Why the last attempt to make something was refused.
    pub refusal: Option<String>,
    /// The present moment.
    pub now: Timestamp,
}

/// Decides the next moves for one StatefulSet.
pub fn plan(seen: &Observed) -> Plan {
    let set = &seen.set;
    // Only pods with a name of ours can be adopted; others that were ours are let go.
    let is_near = |p: &&Value| ordinal(set, p.name()).is_some() || p.controller_uid().is_some();
    let near: Vec<Value> = seen.strays.iter().filter(is_near).cloned().collect();
    let mut plan = Plan { actions: claim::settle(set, "pods", &near), ..Plan::default() };
    if !plan.actions.is_empty() || set.is_deleting() {
        return plan;
    }
    let update = revision::latest(set, &seen.revisions, &mut plan);
    let current = match set.text("/status/currentRevision") {
        "" => update.name.clone(),
        name => name.to_owned(),
    };
    let mut work = Work::of(seen, update, current, plan);
    work.arrange();
    work.report();
    work.plan
}

struct Work<'a> {
    seen: &'a Observed,
    update: Latest,
    current: String,
    first: i64,
    replicas: i64,
    partition: i64,
    delay: i64,
    plan: Plan,
}

impl<'a> Work<'a> {
    fn of(seen: &'a Observed, update: Latest, current: String, plan: Plan) -> Self {
        let set = &seen.set;
        Self {
            update,
            current,
            first: set.int("/spec/ordinals/start").unwrap_or(0),
            replicas: set.int("/spec/replicas").unwrap_or(1).max(0),
            partition: set.int("/spec/updateStrategy/rollingUpdate/partition").unwrap_or(0),
            delay: set.int("/spec/minReadySeconds").unwrap_or(0),
            seen,
            plan,
        }
    }

    fn pod(&self, ordinal: i64) -> Option<&'a Pod> {
        let name = format!("{}-{ordinal}", self.seen.set.name());
        self.seen.pods.iter().find(|p| p.name == name)
    }

    fn is_well(&self, pod: &Pod) -> bool {
        !pod.deleting && pod.is_available(self.delay, self.seen.now)
    }

    fn arrange(&mut self) {
        let seen = self.seen;
        let parallel = seen.set.text("/spec/podManagementPolicy") == "Parallel";
        let mut made = 0;
        for ordinal in self.first..self.first + self.replicas {
            let done = match self.pod(ordinal) {
                None => {
                    self.make(ordinal);
                    made += 1;
                    false
                }
                Some(pod) if pod.phase.is_final() && !pod.deleting => {
                    self.remove(pod);
                    false
                }
                Some(pod) => {
                    if let Some(next) = pod.available_at(self.delay, seen.now) {
                        self.plan.wake_at(next);
                    }
                    self.is_well(pod)
                }
            };
            if !done && (!parallel || made >= BURST) {
                self.plan.waiting.push(format!("{}-{ordinal} is not well", seen.set.name()));
                return;
            }
        }
        let mut beyond: Vec<(i64, &Pod)> = seen
            .pods
            .iter()
            .filter_map(|p| Some((ordinal(&seen.set, &p.name)?, p)))
            .filter(|(o, _)| !(self.first..self.first + self.replicas).contains(o))
            .collect();
        beyond.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        for (_, pod) in beyond {
            if !pod.deleting {
                self.remove(pod);
            }
            if !parallel {
                return;
            }
        }
        self.roll();
    }

    /// Replaces one outdated pod, the highest first.
    fn roll(&mut self) {
        if self.seen.set.text("/spec/updateStrategy/type") == "OnDelete" {
            return;
        }
        let lowest = self.first.max(self.partition);
        for ordinal in (lowest..self.first + self.replicas).rev() {
            let Some(pod) = self.pod(ordinal) else { return };
            if revision_of(pod) != self.update.name && !pod.deleting {
                self.remove(pod);
                return;
            }
            if !self.is_well(pod) {
                return;
            }
        }
    }

    fn make(&mut self, ordinal: i64) {
        let set_object = &self.seen.set;
        let name = format!("{}-{ordinal}", set_object.name());
        if let Some(why) = &self.seen.refusal {
            self.plan.waiting.push(why.clone());
            return;
        }
        if self.seen.taken.contains(&name) {
            self.plan.waiting.push(format!("the name {name} is taken"));
            return;
        }
        let old = ordinal < self.partition && self.current != self.update.name;
        let template =
            old.then(|| revision::template(&self.seen.revisions, &self.current)).flatten();
        let label = if template.is_some() { &self.current } else { &self.update.name };
        let mut pod =
            from_template(set_object, template.unwrap_or(set_object.at("/spec/template")));
        crate::object::unset(&mut pod, &["metadata", "generateName"]);
        set(&mut pod, &["metadata", "name"], json!(name));
        for (key, value) in [
            (LABEL, label.clone()),
            ("statefulset.kubernetes.io/pod-name", name.clone()),
            ("apps.kubernetes.io/pod-index", ordinal.to_string()),
        ] {
            set(&mut pod, &["metadata", "labels", key], json!(value));
        }
        set(&mut pod, &["spec", "hostname"], json!(name));
        let service = set_object.text("/spec/serviceName");
        if !service.is_empty() {
            set(&mut pod, &["spec", "subdomain"], json!(service));
        }
        let mut volumes = pod.list("/spec/volumes").to_vec();
        for template in set_object.list("/spec/volumeClaimTemplates") {
            let claim = format!("{}-{name}", template.name());
            volumes.retain(|v| v.text("/name") != template.name());
            volumes.push(
                json!({"name": template.name(), "persistentVolumeClaim": {"claimName": claim}}),
            );
            if !self.seen.claims.contains(&claim) {
                self.make_claim(template, &claim, &name);
            }
        }
        if !volumes.is_empty() {
            set(&mut pod, &["spec", "volumes"], json!(volumes));
        }
        let owner = set_object.name();
        self.plan.act(Action::Create {
            resource: "pods",
            object: pod,
            then: Some(Note::normal(
                set_object,
                SOURCE,
                "SuccessfulCreate",
                format!("create Pod {name} in StatefulSet {owner} successful"),
            )),
            refused: Some(Note::warning(
                set_object,
                SOURCE,
                "FailedCreate",
                format!("create Pod {name} in StatefulSet {owner} failed error: "),
            )),
        });
    }

    fn make_claim(&mut self, template: &Value, claim: &str, pod: &str) {
        let owner = &self.seen.set;
        let mut object = template.clone();
        set(&mut object, &["apiVersion"], json!("v1"));
        set(&mut object, &["kind"], json!("PersistentVolumeClaim"));
        crate::object::unset(&mut object, &["status"]);
        set(&mut object, &["metadata", "name"], json!(claim));
        set(&mut object, &["metadata", "namespace"], json!(owner.namespace()));
        for (key, value) in owner.strings("/spec/selector/matchLabels") {
            set(&mut object, &["metadata", "labels", &key], json!(value));
        }
        let set_name = owner.name();
        self.plan.act(Action::Create {
            resource: "persistentvolumeclaims",
            object,
            then: Some(Note::normal(
                owner,
                SOURCE,
                "SuccessfulCreate",
                format!("create Claim {claim} Pod {pod} in StatefulSet {set_name} success"),
            )),
            refused: Some(Note::warning(
                owner,
                SOURCE,
                "FailedCreate",
                format!(
                    "create Claim {claim} for Pod {pod} in StatefulSet {set_name} failed error: "
                ),
            )),
        });
    }

    fn remove(&mut self, pod: &Pod) {
        let owner = &self.seen.set;
        let message = format!("delete Pod {} in StatefulSet {} successful", pod.name, owner.name());
        self.plan.act(Action::Delete {
            target: pod.target(),
            propagation: Propagation::Background,
            grace: None,
            then: Some(Note::normal(owner, SOURCE, "SuccessfulDelete", message)),
        });
    }

    fn report(&mut self) {
        let (owner, now) = (&self.seen.set, self.seen.now);
        let pods: Vec<&Pod> = self.seen.pods.iter().collect();
        let count = |test: &dyn Fn(&Pod) -> bool| pods.iter().filter(|p| test(p)).count();
        let is_on = |p: &Pod, name: &str| !p.deleting && revision_of(p) == name;
        let ready = count(&|p| p.is_ready());
        let updated = count(&|p| is_on(p, &self.update.name));
        let wanted = usize::try_from(self.replicas).unwrap_or(0);
        let rolled = updated == wanted && ready == wanted && pods.len() == wanted;
        if rolled && self.partition <= self.first {
            self.current.clone_from(&self.update.name);
        }
        let mut status = json!({
            "observedGeneration": owner.generation(),
            "replicas": pods.len(),
            "availableReplicas": count(&|p| p.is_available(self.delay, now)),
            "currentRevision": self.current, "updateRevision": self.update.name,
            "collisionCount": owner.int("/status/collisionCount").unwrap_or(0),
        });
        for (field, number) in [
            ("readyReplicas", ready),
            ("updatedReplicas", updated),
            ("currentReplicas", count(&|p| is_on(p, &self.current))),
        ] {
            if number > 0 {
                status[field] = json!(number);
            }
        }
        let mut in_use: Vec<&str> = pods.iter().map(|p| revision_of(p)).collect();
        in_use.extend([self.current.as_str(), self.update.name.as_str()]);
        revision::forget(owner, &self.seen.revisions, &in_use, &mut self.plan);
        self.plan.status(SETS, owner, status);
    }
}

/// The name of the revision a pod was made from.
fn revision_of(pod: &Pod) -> &str {
    pod.labels.get(LABEL).map_or("", String::as_str)
}

/// The ordinal in a pod's name, if it is a name of this set.
fn ordinal(set: &Value, pod: &str) -> Option<i64> {
    pod.strip_prefix(set.name())?.strip_prefix('-')?.parse().ok().filter(|o| *o >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    fn db(replicas: i64) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": "db", "namespace": "default"},
            "spec": {"replicas": replicas, "serviceName": "db", "revisionHistoryLimit": 10,
                "selector": {"matchLabels": {"app": "db"}},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}],
                "template": {"metadata": {"labels": {"app": "db"}},
                    "spec": {"containers": [{"name": "db", "image": "db:1"}]}}}})
    }

    fn turn(fixture: &mut Fixture) -> bool {
        let set = fixture.get("statefulsets.apps", "db").clone();
        let seen = Observed {
            pods: fixture.pods(),
            strays: vec![],
            taken: BTreeSet::new(),
            revisions: fixture.list("controllerrevisions.apps"),
            claims: fixture
                .list("persistentvolumeclaims")
                .iter()
                .map(|c| c.name().to_owned())
                .collect(),
            refusal: None,
            now: fixture.now,
            set,
        };
        fixture.apply(super::plan(&seen))
    }

    fn settle(fixture: &mut Fixture) {
        for _ in 0..50 {
            if !turn(fixture) {
                return;
            }
        }
        panic!("does not settle: {:?}", fixture.said);
    }

    fn names(fixture: &Fixture) -> Vec<String> {
        fixture.pods().into_iter().map(|p| p.name).collect()
    }

    fn grow(fixture: &mut Fixture) {
        for _ in 0..8 {
            settle(fixture);
            fixture.ready(|p| p["status"].is_null());
        }
        settle(fixture);
    }

    #[test]
    fn pods_come_one_after_the_other_with_their_claims() {
        let mut fixture = Fixture::new();
        fixture.put("statefulsets.apps", db(3));
        settle(&mut fixture);
        assert_eq!(names(&fixture), ["db-0"]);
        settle(&mut fixture);
        assert_eq!(names(&fixture), ["db-0"], "the second waits for the first");
        grow(&mut fixture);
        assert_eq!(names(&fixture), ["db-0", "db-1", "db-2"]);
        let claims: Vec<String> =
            fixture.list("persistentvolumeclaims").iter().map(|c| c.name().to_owned()).collect();
        assert_eq!(claims, ["data-db-0", "data-db-1", "data-db-2"]);
        let status = &fixture.get("statefulsets.apps", "db")["status"];
        assert_eq!(
            (status["readyReplicas"].as_i64(), status["updatedReplicas"].as_i64()),
            (Some(3), Some(3))
        );
        assert_eq!(status["currentRevision"], status["updateRevision"]);
        assert_eq!(fixture.said[0], "create Claim data-db-0 Pod db-0 in StatefulSet db success");
        assert_eq!(fixture.said[1], "create Pod db-0 in StatefulSet db successful");
    }

    #[test]
    fn parallel_pods_come_at_once() {
        let mut fixture = Fixture::new();
        let mut set = db(3);
        set["spec"]["podManagementPolicy"] = json!("Parallel");
        fixture.put("statefulsets.apps", set);
        settle(&mut fixture);
        assert_eq!(names(&fixture).len(), 3);
    }

    #[test]
    fn scaling_down_takes_the_highest_and_keeps_claims() {
        let mut fixture = Fixture::new();
        fixture.put("statefulsets.apps", db(3));
        grow(&mut fixture);
        fixture.edit("statefulsets.apps", "db", |s| s["spec"]["replicas"] = json!(1));
        settle(&mut fixture);
        assert_eq!(names(&fixture), ["db-0"]);
        assert_eq!(fixture.list("persistentvolumeclaims").len(), 3);
    }

    #[test]
    fn updates_go_from_the_top_down_to_the_partition() {
        let mut fixture = Fixture::new();
        fixture.put("statefulsets.apps", db(3));
        grow(&mut fixture);
        fixture.edit("statefulsets.apps", "db", |s| {
            s["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!(1);
            s["spec"]["template"]["spec"]["containers"][0]["image"] = json!("db:2");
        });
        turn(&mut fixture);
        assert_eq!(names(&fixture), ["db-0", "db-1"], "the highest goes first");
        grow(&mut fixture);
        let images: Vec<String> = fixture
            .list("pods")
            .iter()
            .map(|p| p.text("/spec/containers/0/image").to_owned())
            .collect();
        assert_eq!(images, ["db:1", "db:2", "db:2"]);
        // A pod below the partition that dies comes back as it was.
        fixture.objects.remove(&("pods".into(), "default".into(), "db-0".into()));
        grow(&mut fixture);
        assert_eq!(fixture.get("pods", "db-0").text("/spec/containers/0/image"), "db:1");
        let status = &fixture.get("statefulsets.apps", "db")["status"];
        assert_ne!(status["currentRevision"], status["updateRevision"]);
        fixture.edit("statefulsets.apps", "db", |s| {
            s["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!(0);
        });
        grow(&mut fixture);
        let status = &fixture.get("statefulsets.apps", "db")["status"];
        assert_eq!(status["currentRevision"], status["updateRevision"]);
        assert_eq!(status["currentReplicas"], 3);
    }

    #[test]
    fn a_failed_pod_is_replaced() {
        let mut fixture = Fixture::new();
        fixture.put("statefulsets.apps", db(1));
        grow(&mut fixture);
        fixture.edit("pods", "db-0", |p| p["status"] = json!({"phase": "Failed"}));
        settle(&mut fixture);
        assert!(fixture.get("pods", "db-0")["status"].is_null());
    }
}
