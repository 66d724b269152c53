//! A cluster in a map, for tests of plans alone: applies actions as the server
//! would accept them, with versions, uids and generations, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::deployment::SetFacts;
use crate::facts::Pod;
use crate::object::{Fields, set, stamp};
use crate::plan::{Action, Plan};
use crate::{claim, deployment, replicaset};

/// The stored objects by resource, namespace and name.
#[derive(Debug, Clone)]
pub(crate) struct Fixture {
    pub objects: BTreeMap<(String, String, String), Value>,
    pub now: Timestamp,
    pub said: Vec<String>,
    next: u64,
}

impl Fixture {
    pub fn new() -> Self {
        let now = Timestamp::from_second(1_767_225_600).unwrap();
        Self { objects: BTreeMap::new(), now, said: Vec::new(), next: 0 }
    }

    pub fn pass(&mut self, seconds: i64) {
        self.now = Timestamp::from_second(self.now.as_second() + seconds).unwrap();
    }

    pub fn put(&mut self, resource: &str, mut object: Value) -> Value {
        self.next += 1;
        if object.name().is_empty() {
            let name = format!("{}{:05}", object.text("/metadata/generateName"), self.next);
            set(&mut object, &["metadata", "name"], json!(name));
        }
        set(&mut object, &["metadata", "uid"], json!(format!("uid-{}", self.next)));
        set(&mut object, &["metadata", "resourceVersion"], json!(self.next.to_string()));
        set(&mut object, &["metadata", "generation"], json!(1));
        set(&mut object, &["metadata", "creationTimestamp"], json!(stamp(self.now)));
        let key = (resource.to_owned(), object.namespace().to_owned(), object.name().to_owned());
        assert!(!self.objects.contains_key(&key), "{key:?} exists");
        self.objects.insert(key, object.clone());
        object
    }

    pub fn get(&self, resource: &str, name: &str) -> &Value {
        &self.objects[&(resource.to_owned(), "default".to_owned(), name.to_owned())]
    }

    pub fn edit(&mut self, resource: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.get(resource, name).clone();
        change(&mut object);
        self.write(resource, object, false);
    }

    pub fn list(&self, resource: &str) -> Vec<Value> {
        self.objects.iter().filter(|((r, ..), _)| r == resource).map(|(_, o)| o.clone()).collect()
    }

    pub fn pods(&self) -> Vec<Pod> {
        self.list("pods").iter().map(Pod::of).collect()
    }

    fn write(&mut self, resource: &str, mut object: Value, status_only: bool) {
        let key = (resource.to_owned(), object.namespace().to_owned(), object.name().to_owned());
        let old = self.objects.get(&key).unwrap_or_else(|| panic!("{key:?} is gone")).clone();
        let version = "/metadata/resourceVersion";
        assert_eq!(old.text(version), object.text(version), "stale write to {key:?}");
        if status_only {
            let (status, noted) =
                (object["status"].clone(), object["metadata"]["annotations"].clone());
            object = old.clone();
            object["status"] = status;
            if resource == "deployments.apps" && noted.is_object() {
                object["metadata"]["annotations"] = noted;
            }
        } else if old["spec"] != object["spec"] {
            object["metadata"]["generation"] = json!(old.generation() + 1);
        }
        if object == old {
            return;
        }
        self.next += 1;
        object["metadata"]["resourceVersion"] = json!(self.next.to_string());
        self.objects.insert(key, object);
    }

    pub fn apply(&mut self, plan: Plan) -> bool {
        let acted = !plan.actions.is_empty();
        for action in plan.actions {
            match action {
                Action::Create { resource, object, then, .. } => {
                    let made = self.put(resource, object);
                    self.said.extend(then.map(|n| n.message.replace("{name}", made.name())));
                }
                Action::Replace { resource, object } => self.write(&resource, object, false),
                Action::Merge { target, version, patch } => {
                    let key = (target.resource.clone(), target.namespace, target.name);
                    let mut object = self.objects[&key].clone();
                    assert_eq!(object.uid(), target.uid);
                    set(&mut object, &["metadata", "resourceVersion"], json!(version));
                    merge(&mut object, &patch);
                    self.write(&target.resource, object, false);
                }
                Action::ReplaceStatus { resource, object } => self.write(resource, object, true),
                Action::Finalize { object } => self.write("namespaces", object, false),
                Action::Delete { target, then, .. } => {
                    let key = (target.resource, target.namespace, target.name);
                    assert_eq!(self.objects[&key].uid(), target.uid);
                    self.objects.remove(&key);
                    self.said.extend(then.map(|n| n.message));
                }
                Action::Bind { target, node } => {
                    self.edit("pods", &target.name, |p| p["spec"]["nodeName"] = json!(node));
                }
                Action::Amend { target, amendment } => {
                    let key = (target.resource.clone(), target.namespace, target.name);
                    let mut object = self.objects[&key].clone();
                    crate::gc::amend_object(&mut object, &amendment);
                    self.write(&target.resource, object, false);
                }
                Action::Say(note) => self.said.push(note.message),
            }
        }
        acted
    }

    pub fn see_deployment(&self, name: &str) -> deployment::Observed {
        let deployment = self.get("deployments.apps", name);
        let is_settled = |set: &Value| {
            let claim = claim::decide(deployment, deployment.at("/spec/selector"), set);
            claim == claim::Claim::Keep
        };
        let all = self.list("replicasets.apps");
        let taken = all.iter().map(|s| s.name().to_owned()).collect::<BTreeSet<_>>();
        let (sets, strays): (Vec<Value>, Vec<Value>) = all.into_iter().partition(is_settled);
        deployment::Observed {
            deployment: deployment.clone(),
            sets: sets.iter().map(|s| Arc::new(SetFacts::of(s))).collect(),
            strays,
            taken,
            pods: self.pods(),
            refusal: None,
            now: self.now,
        }
    }

    pub fn see_set(&self, set: &Value) -> replicaset::Observed {
        let ours = |p: &Pod| p.controller.as_deref() == Some(set.uid());
        replicaset::Observed {
            set: set.clone(),
            pods: self.pods().into_iter().filter(ours).collect(),
            strays: vec![],
            refusal: None,
            now: self.now,
        }
    }

    /// One pass of every ReplicaSet; whether any acted.
    pub fn turn_sets(&mut self) -> bool {
        let mut acted = false;
        for set in self.list("replicasets.apps") {
            let plan = replicaset::plan(&self.see_set(&set));
            acted |= self.apply(plan);
        }
        acted
    }

    /// Lets the deployment and its sets run until neither acts.
    pub fn settle(&mut self, name: &str) {
        for _ in 0..200 {
            let plan = deployment::plan(&self.see_deployment(name));
            let deployment_acted = self.apply(plan);
            let sets_acted = self.turn_sets();
            if !deployment_acted && !sets_acted {
                return;
            }
        }
        panic!("does not settle: {:?}", self.said);
    }

    /// Marks pods as running and ready, those that `pick` chooses.
    pub fn ready(&mut self, pick: impl Fn(&Value) -> bool) {
        for mut pod in self.list("pods").into_iter().filter(|p| pick(p)) {
            pod["status"] = json!({"phase": "Running", "conditions":
                [{"type": "Ready", "status": "True", "lastTransitionTime": stamp(self.now)}]});
            self.write("pods", pod, true);
        }
    }
}

/// What a merge patch without removals does.
fn merge(object: &mut Value, patch: &Value) {
    match patch.as_object() {
        Some(fields) => fields.iter().for_each(|(key, value)| merge(&mut object[key], value)),
        None => *object = patch.clone(),
    }
}

/// A small deployment in `default`.
pub(crate) fn web(replicas: i64, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas, "revisionHistoryLimit": 2, "progressDeadlineSeconds": 600,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": image}]}},
        },
    })
}
