//! Reads what each controller wants to see, from the store and the index.
//!
//! Objects are read from the store, which is the present. The index may be a little behind
//! it, and Deployments plan from what it says of their sets; a change names the version that
//! it is based on, so one that comes too late is refused and planned again. Objects are
//! parsed only when somebody looks at them, and not again when that is right after they
//! came in.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use flagship_apiserver::rest::ClusterHandle;
use flagship_store::{ObjectKey, Scope, Stored};
use jiff::Timestamp;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::fresh::Fresh;
use super::index::Index;
use super::key::{Controller, Key};
use crate::config::WorkloadConfig;
use crate::deployment::SetFacts;
use crate::object::{Fields, Labels};
use crate::plan::{Plan, Target};
use crate::work_counters::WorkCounters;
use crate::{
    claims, cronjob, daemonset, deployment, disruption, gc, job, kubelet, namespace, quota,
    references, replicaset, schedule, selector, service, statefulset,
};

/// Everything a look needs.
pub(super) struct View<'a> {
    pub cluster: &'a ClusterHandle,
    pub index: &'a Index,
    pub fresh: RefCell<&'a mut Fresh>,
    pub config: &'a WorkloadConfig,
    pub effort: &'a WorkCounters,
    pub refusal: Option<String>,
    pub now: Timestamp,
}

impl View<'_> {
    /// Looks at one object through one controller.
    pub fn plan(&self, key: &Key) -> Plan {
        let (space, name) = (&*key.namespace, &*key.name);
        let found = match key.controller {
            Controller::Garbage => return self.garbage(name),
            Controller::Namespace => self.namespace(name),
            Controller::Deployment => self.deployment(space, name),
            Controller::ReplicaSet => self.replica_set("replicasets.apps", space, name),
            Controller::Replication => self.replica_set("replicationcontrollers", space, name),
            Controller::StatefulSet => self.stateful_set(space, name),
            Controller::DaemonSet => self.daemon_set(space, name),
            Controller::CronJob => self.cron_job(space, name),
            Controller::Job => return self.job(space, name),
            Controller::Scheduler => self.scheduler(space, name),
            Controller::Kubelet => self.kubelet(space, name),
            Controller::Service => self.service(space, name),
            Controller::Claim => self.claim(space, name),
            Controller::Volume => self.volume(name),
            Controller::Budget => self.budget(space, name),
            Controller::Quota => self.quota(space, name),
        };
        // Gone since: whoever is concerned has been told by another key.
        found.unwrap_or_default()
    }

    fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = ObjectKey::new(namespace, name);
        let stored = self.cluster.store().get(resource, &key)?;
        let fresh = self.fresh.borrow_mut().take(&stored);
        fresh.or_else(|| self.parse(&stored))
    }

    fn parse(&self, stored: &Stored) -> Option<Value> {
        self.effort.parse();
        parse(stored)
    }

    fn list(&self, resource: &str, namespace: &str) -> Vec<Arc<Stored>> {
        self.cluster.store().list(resource, Scope::Namespace(namespace)).items
    }

    /// Objects that `owner` controls, and free ones that its selector picks.
    fn family(&self, resource: &str, owner: &Value) -> (BTreeSet<String>, Vec<Value>) {
        let mut taken = BTreeSet::new();
        let mut family = Vec::new();
        for stored in self.list(resource, owner.namespace()) {
            taken.insert(stored.key.name.to_string());
            let owners = self.index.graph.get(&stored.head.uid).map_or(&[][..], |n| &n.owners);
            let controller = owners.iter().find(|o| o.controller);
            let is_near = match controller {
                Some(controller) => &*controller.uid == owner.uid(),
                None => selector::picks(owner.at("/spec/selector"), &labels_of(&stored)),
            };
            if is_near {
                family.extend(self.parse(&stored));
            }
        }
        (taken, family)
    }

    /// Whole pods whose belonging to `owner` is in question.
    fn strays(&self, owner: &Value) -> Vec<Value> {
        let wanted = &selector::of(owner);
        let space = owner.namespace();
        let index = self.index;
        let free = index.free_pods.iter().filter(|place| &*place.0 == space);
        let free = free.filter_map(|place| index.pods.get(place));
        let free = free.filter(|p| p.is_active() && selector::picks(wanted, &p.labels));
        let lost = index.pods_of(owner.uid());
        let lost = lost.iter().filter(|p| !selector::picks(wanted, &p.labels));
        free.chain(lost).filter_map(|p| self.get("pods", &p.namespace, &p.name)).collect()
    }

    fn garbage(&self, uid: &str) -> Plan {
        let Some(node) = self.index.graph.get(uid) else { return Plan::idle() };
        let mut absent = BTreeSet::new();
        for owner in &node.owners {
            let Some((resource, namespaced)) = self.resource_of(&owner.api_version, &owner.kind)
            else {
                continue;
            };
            let space = if namespaced { &*node.namespace } else { "" };
            let key = ObjectKey::new(space, &*owner.name);
            let found = self.cluster.store().get(&resource, &key);
            if found.is_none_or(|found| *found.head.uid != *owner.uid) {
                absent.insert(Arc::clone(&owner.uid));
            }
        }
        gc::plan(&self.index.graph, self, uid, &absent)
    }

    fn resource_of(&self, api_version: &str, kind: &str) -> Option<(Arc<str>, bool)> {
        let kinds = self.cluster.registry().all();
        let serves = |k: &flagship_apiserver::registry::Kind| {
            &*k.kind == kind && k.versions.iter().any(|v| &*v.api_version == api_version)
        };
        kinds.iter().find(|k| serves(k)).map(|k| (Arc::clone(&k.resource), k.namespaced))
    }

    fn namespace(&self, name: &str) -> Option<Plan> {
        let namespace = self.get("namespaces", "", name)?;
        let mut content = Vec::new();
        if namespace.is_deleting() {
            let kinds = self.cluster.registry().all();
            for kind in kinds.iter().filter(|k| k.namespaced) {
                for stored in self.list(&kind.resource, name) {
                    content.extend(item(&kind.resource, &stored));
                }
            }
        } else {
            let furniture = [("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt")];
            for (resource, object) in furniture {
                let key = ObjectKey::new(name, object);
                let stored = self.cluster.store().get(resource, &key);
                content.extend(stored.and_then(|stored| item(resource, &stored)));
            }
        }
        let (root_ca, refusal, now) = (self.config.root_ca.clone(), self.refusal.clone(), self.now);
        let seen = namespace::Observed { namespace, content, root_ca, refusal, now };
        Some(namespace::plan(&seen))
    }

    fn deployment(&self, space: &str, name: &str) -> Option<Plan> {
        let deployment = self.get("deployments.apps", space, name)?;
        let (wanted, uid) = (deployment.at("/spec/selector"), deployment.uid());
        let is_picked = |s: &Arc<SetFacts>| selector::picks(wanted, &s.labels);
        let (sets, lost): (Vec<_>, Vec<_>) =
            self.index.sets_of(uid).into_iter().partition(&is_picked);
        let free = self.index.free_sets_in(space).filter(|s| is_picked(s)).cloned();
        let strays = lost.into_iter().chain(free).map(|s| s.target.name.clone());
        let strays = strays.filter_map(|name| self.get("replicasets.apps", space, &name)).collect();
        let pods = sets.iter().flat_map(|set| self.index.pods_of(&set.target.uid)).collect();
        let taken = self.index.sets_named(space, name).map(|s| s.target.name.clone()).collect();
        let (refusal, now) = (self.refusal.clone(), self.now);
        let seen = deployment::Observed { sets, strays, taken, pods, refusal, now, deployment };
        Some(deployment::plan(&seen))
    }

    fn replica_set(&self, resource: &str, space: &str, name: &str) -> Option<Plan> {
        let set = self.get(resource, space, name)?;
        let pods = self.index.pods_of(set.uid());
        let strays = self.strays(&set);
        let (refusal, now) = (self.refusal.clone(), self.now);
        Some(replicaset::plan(&replicaset::Observed { set, pods, strays, refusal, now }))
    }

    fn stateful_set(&self, space: &str, name: &str) -> Option<Plan> {
        let set = self.get("statefulsets.apps", space, name)?;
        let (_, revisions) = self.family("controllerrevisions.apps", &set);
        let claims = self.list("persistentvolumeclaims", space);
        let seen = statefulset::Observed {
            pods: self.index.pods_of(set.uid()),
            strays: self.strays(&set),
            taken: self.index.pods_in(space).map(|p| p.name.clone()).collect(),
            claims: claims.iter().map(|c| c.key.name.to_string()).collect(),
            revisions,
            refusal: self.refusal.clone(),
            now: self.now,
            set,
        };
        Some(statefulset::plan(&seen))
    }

    fn daemon_set(&self, space: &str, name: &str) -> Option<Plan> {
        let set = self.get("daemonsets.apps", space, name)?;
        let (_, revisions) = self.family("controllerrevisions.apps", &set);
        let seen = daemonset::Observed {
            pods: self.index.pods_of(set.uid()),
            strays: self.strays(&set),
            nodes: self.index.nodes.values().cloned().collect(),
            revisions,
            refusal: self.refusal.clone(),
            now: self.now,
            set,
        };
        Some(daemonset::plan(&seen))
    }

    fn job(&self, space: &str, name: &str) -> Plan {
        let (refusal, now) = (self.refusal.clone(), self.now);
        let Some(job) = self.get("jobs.batch", space, name) else {
            let label = "batch.kubernetes.io/job-name";
            let left = self.index.pods_in(space);
            let left: Vec<_> =
                left.filter(|p| p.labels.get(label).is_some_and(|n| n == name)).cloned().collect();
            return job::release(&left);
        };
        // Pods of an earlier job of the same name have nobody left to count them.
        let orphans: Vec<_> = self
            .index
            .pods_in(space)
            .filter(|p| p.labels.get("batch.kubernetes.io/job-name").is_some_and(|n| n == name))
            .filter(|p| p.controller.as_deref() != Some(job.uid()) && p.deleting)
            .cloned()
            .collect();
        let release = job::release(&orphans);
        if !release.actions.is_empty() {
            return release;
        }
        let pods = self.index.pods_of(job.uid());
        job::plan(&job::Observed { job, pods, refusal, now })
    }

    fn cron_job(&self, space: &str, name: &str) -> Option<Plan> {
        let cron = self.get("cronjobs.batch", space, name)?;
        let owned = self.index.graph.dependents(cron.uid());
        let owned = owned.filter(|n| &*n.resource == "jobs.batch");
        let jobs = owned.filter_map(|n| self.get("jobs.batch", &n.namespace, &n.name)).collect();
        let (refusal, now) = (self.refusal.clone(), self.now);
        Some(cronjob::plan(&cronjob::Observed { cron, jobs, refusal, now }))
    }

    fn scheduler(&self, space: &str, name: &str) -> Option<Plan> {
        let pod = self.get("pods", space, name)?;
        let load = |name: &String| self.index.loads.get(name).cloned().unwrap_or_default();
        let nodes = self.index.nodes.iter().map(|(name, node)| (node.clone(), load(name)));
        let unbound =
            references::unbound(&pod, &|resource, name| self.beside(resource, space, name));
        let nodes = nodes.collect();
        Some(schedule::plan(&schedule::Observed { pod, nodes, unbound, now: self.now }))
    }

    fn kubelet(&self, space: &str, name: &str) -> Option<Plan> {
        let pod = self.get("pods", space, name)?;
        let named = pod.text("/spec/nodeName");
        if named.is_empty() {
            return None;
        }
        let Some(node) = self.index.nodes.get(named) else {
            return Some(kubelet::plan_lost(&pod, self.now));
        };
        let none = BTreeSet::new();
        let taken = self.index.addresses.get(&node.name).unwrap_or(&none);
        let (host_ip, free_ip) = (node.ip.clone(), node.free_ip(taken));
        let find = |resource: &str, name: &str| self.beside(resource, space, name);
        let missing = references::missing(&pod, &find);
        let seen = kubelet::Observed { pod, host_ip, free_ip, missing, now: self.now };
        Some(kubelet::plan(&seen, self.config))
    }

    fn service(&self, space: &str, name: &str) -> Option<Plan> {
        let slices = self.list("endpointslices.discovery.k8s.io", space);
        let is_ours = |s: &&Arc<Stored>| {
            s.head.labels.get("kubernetes.io/service-name") == Some(name)
                && s.head.labels.get("endpointslice.kubernetes.io/managed-by")
                    == Some(service::MANAGER)
        };
        let slices: Vec<Value> =
            slices.iter().filter(is_ours).filter_map(|s| self.parse(s)).collect();
        let endpoints = self.get("endpoints", space, name);
        let Some(object) = self.get("services", space, name) else {
            return Some(service::cleared(endpoints.as_ref(), &slices));
        };
        let wanted = object.strings("/spec/selector");
        let picks = |p: &&crate::facts::Pod| {
            !wanted.is_empty() && wanted.iter().all(|(k, v)| p.labels.get(k) == Some(v))
        };
        let seen = service::Observed {
            pods: self.index.pods_in(space).filter(picks).cloned().collect(),
            service: object,
            endpoints,
            slices,
            load_balancer: self.config.load_balancer,
        };
        Some(service::plan(&seen))
    }

    fn claim(&self, space: &str, name: &str) -> Option<Plan> {
        let claim = self.get("persistentvolumeclaims", space, name)?;
        let bound = claim.text("/spec/volumeName");
        let named = if bound.is_empty() { claims::volume_name(&claim) } else { bound.to_owned() };
        let volume = self.get("persistentvolumes", "", &named);
        let provision = self.config.provision_volumes;
        let find = |resource: &str, name: &str| self.beside(resource, space, name);
        let lacks_class = references::lacks_class(&claim, &find);
        let now = self.now;
        Some(claims::plan(&claims::Observed { claim, volume, provision, lacks_class, now }))
    }

    /// An object that one of the namespace refers to by its name.
    fn beside(&self, resource: &str, space: &str, name: &str) -> Option<Value> {
        let space = if resource == references::CLASSES { "" } else { space };
        self.get(resource, space, name)
    }

    fn volume(&self, name: &str) -> Option<Plan> {
        let volume = self.get("persistentvolumes", "", name)?;
        let claim = self.get(
            "persistentvolumeclaims",
            volume.text("/spec/claimRef/namespace"),
            volume.text("/spec/claimRef/name"),
        );
        Some(claims::plan_volume(&volume, claim.as_ref()))
    }

    fn budget(&self, space: &str, name: &str) -> Option<Plan> {
        let budget = self.get("poddisruptionbudgets.policy", space, name)?;
        let wanted = budget.at("/spec/selector").clone();
        let picks = |p: &&crate::facts::Pod| selector::picks(&wanted, &p.labels);
        let pods: Vec<_> = self.index.pods_in(space).filter(picks).cloned().collect();
        let mut expected = 0;
        let owners: BTreeSet<&str> = pods.iter().filter_map(|p| p.controller.as_deref()).collect();
        for uid in owners {
            let Some(node) = self.index.graph.get(uid) else { continue };
            let owner = self.get(&node.resource, &node.namespace, &node.name);
            expected += owner.and_then(|o| o.int("/spec/replicas")).unwrap_or(0);
        }
        Some(disruption::plan(&disruption::Observed { budget, pods, expected, now: self.now }))
    }

    fn quota(&self, space: &str, name: &str) -> Option<Plan> {
        let object = self.get("resourcequotas", space, name)?;
        let used = quota::used(&object, &|resource| {
            let stored = self.list(resource, space);
            stored.iter().filter_map(|s| self.parse(s)).collect()
        });
        Some(quota::plan(&object, &used))
    }
}

impl gc::Kinds for View<'_> {
    fn is_namespaced(&self, api_version: &str, kind: &str) -> Option<bool> {
        self.resource_of(api_version, kind).map(|(_, namespaced)| namespaced)
    }
}

/// A stored object as JSON. What the server stored parses.
pub(super) fn parse(stored: &Stored) -> Option<Value> {
    serde_json::from_slice(&stored.json).ok()
}

/// What the index has to know of an object: of most resources no more than metadata.
pub(super) fn parse_as(resource: &str, stored: &Stored) -> Option<Value> {
    #[derive(serde::Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    if is_read_whole(resource) {
        return parse(stored);
    }
    let only: Object = serde_json::from_slice(&stored.json).ok()?;
    Some(serde_json::json!({"metadata": only.metadata.0}))
}

/// Metadata without the managers of fields, which are most of it in many objects and which no
/// controller here asks for.
struct Metadata(Map<String, Value>);

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MetadataVisitor)
    }
}

struct MetadataVisitor;

impl<'de> Visitor<'de> for MetadataVisitor {
    type Value = Metadata;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Metadata, A::Error> {
        let mut metadata = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if key == "managedFields" {
                entries.next_value::<IgnoredAny>()?;
            } else {
                metadata.insert(key, entries.next_value()?);
            }
        }
        Ok(Metadata(metadata))
    }
}

/// Whether the index asks for more than metadata.
pub(super) fn is_read_whole(resource: &str) -> bool {
    Controller::of_resource(resource).is_some() || ["pods", "nodes"].contains(&resource)
}

fn labels_of(stored: &Stored) -> Labels {
    stored.head.labels.iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

fn item(resource: &str, stored: &Stored) -> Option<namespace::Item> {
    let object = parse(stored)?;
    let finalizers = object.list("/metadata/finalizers").iter();
    Some(namespace::Item {
        finalizers: finalizers.filter_map(|f| f.as_str().map(str::to_owned)).collect(),
        deleting: object.is_deleting(),
        target: Target::of(resource, &object),
    })
}
