//! What the shell remembers of a cluster: owners, pods and nodes, in small.
//!
//! Fed with every change of every resource; answers which controllers have to look
//! at what because of it. Whole objects are not kept: they are read from the store
//! when a controller looks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::key::{Controller, Key};
use crate::deployment::SetFacts;
use crate::facts::Pod;
use crate::gc::{self, Graph};
use crate::node::Node;
use crate::object::{Fields, Labels};
use crate::schedule::Load;
use crate::selector;

/// Namespace and name.
pub(super) type Place = (Arc<str>, Arc<str>);

/// The memory of one cluster.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub graph: Graph,
    pub pods: BTreeMap<Place, Pod>,
    /// Pods without a controller, which somebody may adopt.
    pub free_pods: BTreeSet<Place>,
    /// ReplicaSets, as their Deployments see them.
    sets: BTreeMap<Place, Arc<SetFacts>>,
    /// ReplicaSets without a controller.
    free_sets: BTreeSet<Place>,
    /// Pods that found no node.
    pub unscheduled: BTreeSet<Place>,
    pub nodes: BTreeMap<String, Node>,
    pub loads: BTreeMap<String, Load>,
    pub addresses: BTreeMap<String, BTreeSet<String>>,
    /// Namespaces that are going.
    pub going: BTreeSet<Arc<str>>,
    services: BTreeMap<Place, Labels>,
    budgets: BTreeMap<Place, Value>,
    quotas: BTreeSet<Place>,
    daemons: BTreeSet<Place>,
    adopters: BTreeSet<Key>,
}

impl Index {
    /// An object as it is now. Adds what has to be looked at.
    pub fn put(&mut self, resource: &Arc<str>, object: &Value, work: &mut BTreeSet<Key>) {
        let (namespace, name): Place = (object.namespace().into(), object.name().into());
        let node = gc::Node::of(resource, object);
        self.note_owner(&node, work);
        let check = self.graph.put(node);
        self.note_garbage(check, work);
        if self.going.contains(&namespace) {
            work.insert(Key::new(Controller::Namespace, "", &namespace));
        }
        if let Some(controller) = Controller::of_resource(resource) {
            work.insert(Key { controller, namespace: namespace.clone(), name: name.clone() });
        }
        let place = (namespace, name);
        match &**resource {
            "pods" => self.put_pod(place, object, work),
            "nodes" => {
                self.nodes.insert(object.name().to_owned(), Node::of(object));
                self.note_nodes(work);
            }
            "namespaces" if object.is_deleting() => {
                self.going.insert(place.1);
            }
            "services" => {
                self.services.insert(place, object.strings("/spec/selector"));
            }
            "persistentvolumes" => {
                let claim = object.at("/spec/claimRef");
                work.insert(Key::new(
                    Controller::Claim,
                    claim.text("/namespace"),
                    claim.text("/name"),
                ));
            }
            "poddisruptionbudgets.policy" => {
                self.budgets.insert(place, object.at("/spec/selector").clone());
            }
            "resourcequotas" => {
                self.quotas.insert(place);
            }
            "daemonsets.apps" => {
                self.adopters.insert(Key::new(Controller::DaemonSet, &place.0, &place.1));
                self.daemons.insert(place);
            }
            "deployments.apps"
            | "replicasets.apps"
            | "replicationcontrollers"
            | "statefulsets.apps" => {
                if &**resource == "replicasets.apps" {
                    self.put_set(&place, object);
                }
                if let Some(controller) = Controller::of_resource(resource) {
                    self.adopters.insert(Key::new(controller, &place.0, &place.1));
                }
            }
            _ => {}
        }
        // Whatever there is may be counted; pods are noted when what they count for changes.
        if &**resource != "pods" {
            self.note_quota(resource, object.namespace(), work);
        }
        self.note_endpoints(resource, object, work);
    }

    /// An object that is gone, as it last was.
    pub fn remove(&mut self, resource: &Arc<str>, object: &Value, work: &mut BTreeSet<Key>) {
        let place: Place = (object.namespace().into(), object.name().into());
        let node = gc::Node::of(resource, object);
        self.note_owner(&node, work);
        let check = self.graph.remove(&node.uid);
        self.note_garbage(check, work);
        if self.going.contains(&place.0) {
            work.insert(Key::new(Controller::Namespace, "", &place.0));
        }
        let key = |controller| Key::new(controller, &place.0, &place.1);
        match &**resource {
            "pods" => self.remove_pod(&place, work),
            "replicasets.apps" => {
                self.sets.remove(&place);
                self.free_sets.remove(&place);
            }
            "nodes" => {
                self.nodes.remove(object.name());
                self.note_nodes(work);
                let lost = self.pods.iter().filter(|(_, pod)| pod.node == object.name());
                work.extend(lost.map(|((ns, name), _)| Key::new(Controller::Kubelet, ns, name)));
            }
            "namespaces" => {
                self.going.remove(&place.1);
            }
            "services" => {
                self.services.remove(&place);
                work.insert(key(Controller::Service));
            }
            "poddisruptionbudgets.policy" => {
                self.budgets.remove(&place);
            }
            "resourcequotas" => {
                self.quotas.remove(&place);
            }
            // What is released when its owner has gone.
            "jobs.batch" => {
                work.insert(key(Controller::Job));
            }
            "persistentvolumeclaims" => {
                let volume = object.text("/spec/volumeName");
                work.insert(Key::new(Controller::Volume, "", volume));
            }
            // A namespace gets its account and certificate back.
            "serviceaccounts" | "configmaps" => {
                work.insert(Key::new(Controller::Namespace, "", &place.0));
            }
            _ => {}
        }
        if let Some(controller) = Controller::of_resource(resource) {
            self.adopters.remove(&key(controller));
            self.daemons.remove(&place);
        }
        self.note_quota(resource, &place.0, work);
        self.note_endpoints(resource, object, work);
    }

    /// The pods that an owner controls.
    pub fn pods_of(&self, uid: &str) -> Vec<Pod> {
        self.controlled(uid, "pods").filter_map(|place| self.pods.get(&place)).cloned().collect()
    }

    /// The ReplicaSets that an owner controls.
    pub fn sets_of(&self, uid: &str) -> Vec<Arc<SetFacts>> {
        let places = self.controlled(uid, "replicasets.apps");
        places.filter_map(|place| self.sets.get(&place)).cloned().collect()
    }

    /// The ReplicaSets of a namespace that nobody controls.
    pub fn free_sets_in(&self, namespace: &str) -> impl Iterator<Item = &Arc<SetFacts>> {
        let here = in_namespace(namespace);
        let free = self.free_sets.range(here.clone()..);
        let free = free.take_while(move |place| place.0 == here.0);
        free.filter_map(|place| self.sets.get(place))
    }

    /// The ReplicaSets of a namespace whose names begin like this.
    pub fn sets_named(&self, namespace: &str, front: &str) -> impl Iterator<Item = &Arc<SetFacts>> {
        let from: Place = (namespace.into(), front.into());
        let named = self.sets.range(from.clone()..);
        let named = named.take_while(move |(p, _)| p.0 == from.0 && p.1.starts_with(&*from.1));
        named.map(|(_, set)| set)
    }

    fn controlled(&self, uid: &str, resource: &str) -> impl Iterator<Item = Place> {
        let is_controller =
            move |n: &gc::Node| n.owners.iter().any(|o| o.controller && &*o.uid == uid);
        let owned = self.graph.dependents(uid);
        let owned = owned.filter(move |n| &*n.resource == resource && is_controller(n));
        owned.map(|n| (n.namespace.clone(), n.name.clone()))
    }

    /// The pods of a namespace.
    pub fn pods_in(&self, namespace: &str) -> impl Iterator<Item = &Pod> {
        let here = in_namespace(namespace);
        let pods = self.pods.range(here.clone()..);
        pods.take_while(move |(place, _)| place.0 == here.0).map(|(_, pod)| pod)
    }

    fn put_set(&mut self, place: &Place, object: &Value) {
        let facts = SetFacts::of(object);
        if facts.controller.is_none() {
            self.free_sets.insert(place.clone());
        } else {
            self.free_sets.remove(place);
        }
        self.sets.insert(place.clone(), Arc::new(facts));
    }

    fn put_pod(&mut self, place: Place, object: &Value, work: &mut BTreeSet<Key>) {
        let pod = Pod::of(object);
        if self.pods.get(&place) == Some(&pod) {
            // Only what kubelets read has changed.
            if !pod.node.is_empty() {
                work.insert(Key::new(Controller::Kubelet, &place.0, &place.1));
            }
            return;
        }
        self.forget_load(&place, work);
        let next = if pod.node.is_empty() { Controller::Scheduler } else { Controller::Kubelet };
        work.insert(Key::new(next, &place.0, &place.1));
        self.note_followers(&pod, work);
        if pod.controller.is_none() {
            self.free_pods.insert(place.clone());
            self.note_adopters(&place.0, work);
        } else {
            self.free_pods.remove(&place);
        }
        if pod.node.is_empty() && pod.is_active() {
            self.unscheduled.insert(place.clone());
        } else {
            self.unscheduled.remove(&place);
        }
        if !pod.node.is_empty() && !pod.phase.is_final() {
            self.loads.entry(pod.node.clone()).or_default().add(&pod);
            if !pod.ip.is_empty() {
                self.addresses.entry(pod.node.clone()).or_default().insert(pod.ip.clone());
            }
        } else if pod.phase.is_final() {
            self.note_room(work);
        }
        self.note_quota("pods", &place.0, work);
        self.pods.insert(place, pod);
    }

    fn remove_pod(&mut self, place: &Place, work: &mut BTreeSet<Key>) {
        self.forget_load(place, work);
        self.free_pods.remove(place);
        self.unscheduled.remove(place);
        if let Some(pod) = self.pods.remove(place) {
            self.note_followers(&pod, work);
            self.note_room(work);
            // A Deployment that recreates waits for pods, not only for its sets.
            let set = pod.controller.as_deref().and_then(|uid| self.graph.get(uid)).cloned();
            if let Some(set) = set {
                self.note_owner(&set, work);
            }
        }
    }

    fn forget_load(&mut self, place: &Place, work: &mut BTreeSet<Key>) {
        let Some(pod) = self.pods.get(place).cloned() else { return };
        self.note_followers(&pod, work);
        if pod.node.is_empty() || pod.phase.is_final() {
            return;
        }
        if let Some(load) = self.loads.get_mut(&pod.node) {
            load.take(&pod);
        }
        if let Some(taken) = self.addresses.get_mut(&pod.node) {
            taken.remove(&pod.ip);
        }
    }

    /// The controller of an object looks at it.
    fn note_owner(&self, node: &gc::Node, work: &mut BTreeSet<Key>) {
        let before = self.graph.get(&node.uid).map_or(&[][..], |n| &n.owners);
        for owner in node.owners.iter().chain(before).filter(|o| o.controller) {
            if let Some(controller) = Controller::of_kind(&owner.kind) {
                work.insert(Key::new(controller, &node.namespace, &owner.name));
            }
        }
        let is_set = matches!(&*node.resource, "replicasets.apps" | "controllerrevisions.apps");
        if is_set && !node.owners.iter().any(|o| o.controller) {
            self.note_adopters(&node.namespace, work);
        }
    }

    fn note_garbage(&self, uids: BTreeSet<gc::Uid>, work: &mut BTreeSet<Key>) {
        work.extend(uids.into_iter().map(|uid| Key {
            controller: Controller::Garbage,
            namespace: "".into(),
            name: uid,
        }));
    }

    fn note_adopters(&self, namespace: &str, work: &mut BTreeSet<Key>) {
        work.extend(self.adopters.iter().filter(|k| &*k.namespace == namespace).cloned());
    }

    /// Services and budgets that select a pod.
    fn note_followers(&self, pod: &Pod, work: &mut BTreeSet<Key>) {
        let is_here = |place: &Place| *place.0 == *pod.namespace;
        for (place, wanted) in self.services.iter().filter(|(place, _)| is_here(place)) {
            let picks = wanted.iter().all(|(k, v)| pod.labels.get(k) == Some(v));
            if !wanted.is_empty() && picks {
                work.insert(Key::new(Controller::Service, &place.0, &place.1));
            }
        }
        for (place, wanted) in self.budgets.iter().filter(|(place, _)| is_here(place)) {
            if selector::picks(wanted, &pod.labels) {
                work.insert(Key::new(Controller::Budget, &place.0, &place.1));
            }
        }
    }

    /// Room on a node may help a pod that found none.
    fn note_room(&self, work: &mut BTreeSet<Key>) {
        let waiting = self.unscheduled.iter();
        work.extend(waiting.map(|(ns, name)| Key::new(Controller::Scheduler, ns, name)));
    }

    fn note_nodes(&self, work: &mut BTreeSet<Key>) {
        self.note_room(work);
        let daemons = self.daemons.iter();
        work.extend(daemons.map(|(ns, name)| Key::new(Controller::DaemonSet, ns, name)));
    }

    fn note_quota(&self, resource: &str, namespace: &str, work: &mut BTreeSet<Key>) {
        if resource == "resourcequotas" {
            return;
        }
        let here = self.quotas.iter().filter(|(ns, _)| **ns == *namespace);
        work.extend(here.map(|(ns, name)| Key::new(Controller::Quota, ns, name)));
    }

    /// Endpoints that somebody changed are put right by their service.
    fn note_endpoints(&self, resource: &str, object: &Value, work: &mut BTreeSet<Key>) {
        let service = match resource {
            "endpoints" => object.name(),
            "endpointslices.discovery.k8s.io" => object
                .at("/metadata/labels")
                .get("kubernetes.io/service-name")
                .and_then(Value::as_str)
                .unwrap_or(""),
            _ => return,
        };
        if self.services.contains_key(&(object.namespace().into(), service.into())) {
            work.insert(Key::new(Controller::Service, object.namespace(), service));
        }
    }
}

/// Before all places of a namespace.
fn in_namespace(namespace: &str) -> Place {
    (namespace.into(), "".into())
}
