//! Service -> Endpoints and EndpointSlices, from the pods it selects.
//!
//! Both are written because both are still read. Slices are named after the service
//! and a number, so that the same pods always make the same objects.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use crate::facts::Pod;
use crate::hash;
use crate::object::{Fields, controller_ref, means_the_same, set, status_of};
use crate::plan::{Action, Plan, Target};

const SLICES: &str = "endpointslices.discovery.k8s.io";
/// Marks slices that this controller keeps.
pub const MANAGER: &str = "endpointslice-controller.k8s.io";
/// Endpoints in one slice.
const SLICE: usize = 100;

/// What one Service looks like.
#[derive(Debug, Clone, Serialize)]
pub struct Observed {
    /// The Service.
    pub service: Value,
    /// Pods that it selects.
    pub pods: Vec<Pod>,
    /// Its Endpoints, if there are any.
    pub endpoints: Option<Value>,
    /// Its EndpointSlices.
    pub slices: Vec<Value>,
    /// Whether load balancers get addresses.
    pub load_balancer: bool,
}

/// Decides the next moves for one Service.
pub fn plan(seen: &Observed) -> Plan {
    let service = &seen.service;
    let mut plan = Plan::default();
    if service.is_deleting() {
        return plan;
    }
    balance(seen, &mut plan);
    // Without a selector, endpoints are somebody else's.
    let selects = !service.strings("/spec/selector").is_empty();
    if !selects || service.text("/spec/type") == "ExternalName" {
        return plan;
    }
    let mut pods: Vec<&Pod> =
        seen.pods.iter().filter(|p| !p.ip.is_empty() && !p.phase.is_final()).collect();
    pods.sort_by(|a, b| a.ip.cmp(&b.ip).then(a.name.cmp(&b.name)));
    write_endpoints(seen, &pods, &mut plan);
    write_slices(seen, &pods, &mut plan);
    plan
}

/// Removes what a service that is gone has left behind.
pub fn cleared(endpoints: Option<&Value>, slices: &[Value]) -> Plan {
    let mut plan = Plan::default();
    let managed = endpoints.filter(|e| e.at("/metadata/labels").get(OURS).is_some());
    for (resource, object) in
        managed.map(|e| ("endpoints", e)).into_iter().chain(slices.iter().map(|s| (SLICES, s)))
    {
        plan.act(delete(resource, object));
    }
    plan
}

/// Marks Endpoints that this controller keeps.
const OURS: &str = "endpoints.kubernetes.io/managed-by";

fn delete(resource: &str, object: &Value) -> Action {
    Action::delete(Target::of(resource, object))
}

/// A load balancer's address, where the cluster has load balancers.
fn balance(seen: &Observed, plan: &mut Plan) {
    let service = &seen.service;
    let mut status = status_of(service);
    let wants = service.text("/spec/type") == "LoadBalancer";
    if wants && seen.load_balancer {
        if status.list("/loadBalancer/ingress").is_empty() {
            // The service's own address tells them apart: 10.96.3.7 becomes 172.31.3.7.
            let own: Vec<&str> = service.text("/spec/clusterIP").split('.').collect();
            let [_, _, third, fourth] = own[..] else {
                plan.waiting.push("no cluster address yet".into());
                return;
            };
            let ip = format!("172.31.{third}.{fourth}");
            status["loadBalancer"] = json!({"ingress": [{"ip": ip, "ipMode": "VIP"}]});
        }
    } else if wants {
        plan.waiting.push("this cluster has no load balancers".into());
        return;
    } else if !status.list("/loadBalancer/ingress").is_empty() {
        status["loadBalancer"] = json!({});
    }
    plan.status("services", service, status);
}

/// The ports of a service as one pod offers them. `None` if it lacks a named one.
fn ports(service: &Value, pod: &Pod) -> Option<Vec<Value>> {
    let one = |port: &Value| {
        let protocol = port.at("/protocol").as_str().unwrap_or("TCP");
        let number = match port.at("/targetPort") {
            Value::Number(n) => n.as_i64(),
            Value::String(name) => pod
                .ports
                .iter()
                .find(|(n, p, _)| n == name && p == protocol)
                .map(|(.., number)| *number),
            _ => port.int("/port"),
        }?;
        let mut made = json!({"name": port.text("/name"), "port": number, "protocol": protocol});
        if let Some(app) = port.get("appProtocol") {
            made["appProtocol"] = app.clone();
        }
        Some(made)
    };
    service.list("/spec/ports").iter().map(one).collect()
}

fn target(pod: &Pod) -> Value {
    json!({"kind": "Pod", "name": pod.name, "namespace": pod.namespace, "uid": pod.uid})
}

/// Pods that offer the same ports.
#[derive(Default)]
struct Subset {
    ready: Vec<Value>,
    unready: Vec<Value>,
    ports: Vec<Value>,
}

fn write_endpoints(seen: &Observed, pods: &[&Pod], plan: &mut Plan) {
    let service = &seen.service;
    let unready_too = service.is_true("/spec/publishNotReadyAddresses");
    // Pods with the same ports share a subset.
    let mut subsets: BTreeMap<String, Subset> = BTreeMap::new();
    for pod in pods.iter().filter(|p| !p.deleting || unready_too) {
        let Some(mut ports) = ports(service, pod) else { continue };
        for port in &mut ports {
            if port.text("/name").is_empty()
                && let Some(map) = port.as_object_mut()
            {
                map.remove("name");
            }
        }
        let mut address = json!({"ip": pod.ip, "nodeName": pod.node, "targetRef": target(pod)});
        if !pod.hostname.is_empty() && service.text("/spec/clusterIP") == "None" {
            address["hostname"] = json!(pod.hostname);
        }
        let subset = subsets.entry(json!(ports).to_string()).or_default();
        subset.ports = ports;
        if pod.is_ready() || unready_too {
            subset.ready.push(address);
        } else {
            subset.unready.push(address);
        }
    }
    let subsets: Vec<Value> = subsets
        .into_values()
        .map(|Subset { ready, unready, ports }| {
            let mut subset = json!({"ports": ports});
            for (field, list) in [("addresses", ready), ("notReadyAddresses", unready)] {
                if !list.is_empty() {
                    subset[field] = json!(list);
                }
            }
            subset
        })
        .collect();
    let mut labels = service.labels();
    labels.insert(OURS.into(), "endpoint-controller".into());
    if service.text("/spec/clusterIP") == "None" {
        labels.insert("service.kubernetes.io/headless".into(), String::new());
    }
    let wanted = json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": service.name(), "namespace": service.namespace(), "labels": labels},
        "subsets": subsets,
    });
    put(plan, "endpoints", wanted, seen.endpoints.as_ref(), &["subsets"]);
}

fn write_slices(seen: &Observed, pods: &[&Pod], plan: &mut Plan) {
    let service = &seen.service;
    let unready_too = service.is_true("/spec/publishNotReadyAddresses");
    let mut groups: BTreeMap<String, (Vec<Value>, Vec<Value>)> = BTreeMap::new();
    for pod in pods {
        let Some(ports) = ports(service, pod) else { continue };
        let serving = pod.is_ready();
        let mut endpoint = json!({
            "addresses": [pod.ip],
            "conditions": {"ready": (serving && !pod.deleting) || unready_too,
                "serving": serving, "terminating": pod.deleting},
            "nodeName": pod.node, "targetRef": target(pod),
        });
        if !pod.hostname.is_empty() {
            endpoint["hostname"] = json!(pod.hostname);
        }
        let group = groups.entry(json!(ports).to_string()).or_default();
        group.1 = ports;
        group.0.push(endpoint);
    }
    let mut wanted = Vec::new();
    for (endpoints, ports) in groups.into_values() {
        wanted.extend(endpoints.chunks(SLICE).map(|part| (part.to_vec(), ports.clone())));
    }
    if wanted.is_empty() {
        wanted.push((Vec::new(), Vec::new()));
    }
    let mut kept = Vec::new();
    for (number, (endpoints, ports)) in wanted.into_iter().enumerate() {
        let tail: String = hash::of_template(&json!([service.uid(), number]), None);
        let name = format!("{}-{}", service.name(), tail.get(..5).unwrap_or(&tail));
        let mut labels = service.labels();
        labels.insert("kubernetes.io/service-name".into(), service.name().into());
        labels.insert("endpointslice.kubernetes.io/managed-by".into(), MANAGER.into());
        if service.text("/spec/clusterIP") == "None" {
            labels.insert("service.kubernetes.io/headless".into(), String::new());
        }
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "namespace": service.namespace(), "labels": labels,
                "ownerReferences": [controller_ref(service)]},
            "addressType": "IPv4", "endpoints": endpoints, "ports": ports,
        });
        let found = seen.slices.iter().find(|s| s.name() == name);
        put(plan, SLICES, slice, found, &["endpoints", "ports"]);
        kept.push(name);
    }
    for slice in seen.slices.iter().filter(|s| !kept.iter().any(|name| name == s.name())) {
        plan.act(delete(SLICES, slice));
    }
}

/// Creates the object, or brings the given fields and the labels up to date.
fn put(
    plan: &mut Plan,
    resource: &'static str,
    wanted: Value,
    found: Option<&Value>,
    fields: &[&str],
) {
    let Some(found) = found else {
        plan.act(Action::Create { resource, object: wanted, then: None, refused: None });
        return;
    };
    let mut object = found.clone();
    for field in fields {
        set(&mut object, &[field], wanted[*field].clone());
    }
    set(&mut object, &["metadata", "labels"], wanted["metadata"]["labels"].clone());
    if !means_the_same(&object, found) {
        plan.act(Action::Replace { resource: resource.into(), object });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, ip: &str, ready: bool) -> Pod {
        let mut pod =
            Pod::of(&json!({"metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"containers": [{"ports": [{"name": "http", "containerPort": 8080}]}]}}));
        pod.ip = ip.into();
        pod.node = "node-1".into();
        pod.ready_since = ready.then(|| jiff::Timestamp::from_second(0).unwrap());
        pod
    }

    fn seen(kind: &str, pods: Vec<Pod>) -> Observed {
        let service = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "web", "namespace": "default", "uid": "s"},
            "spec": {"type": kind, "selector": {"app": "web"}, "clusterIP": "10.96.3.7",
                "ports": [{"name": "web", "port": 80, "targetPort": "http"}]}});
        Observed { service, pods, endpoints: None, slices: vec![], load_balancer: false }
    }

    #[test]
    fn ready_and_unready_pods_stand_apart() {
        let seen = seen(
            "ClusterIP",
            vec![
                pod("b", "10.0.0.2", false),
                pod("a", "10.0.0.1", true),
                pod("starting", "", false),
            ],
        );
        let plan = plan(&seen);
        let [Action::Create { object: endpoints, .. }, Action::Create { object: slice, .. }] =
            &plan.actions[..]
        else {
            panic!("{plan:?}")
        };
        let subset = &endpoints["subsets"][0];
        assert_eq!(subset["addresses"][0]["ip"], "10.0.0.1");
        assert_eq!(subset["notReadyAddresses"][0]["ip"], "10.0.0.2");
        assert_eq!(subset["ports"], json!([{"name": "web", "port": 8080, "protocol": "TCP"}]));
        let ready: Vec<&Value> =
            slice.list("/endpoints").iter().map(|e| e.at("/conditions/ready")).collect();
        assert_eq!(ready, [&json!(true), &json!(false)]);
    }

    #[test]
    fn the_second_look_changes_nothing() {
        let mut seen = seen("ClusterIP", vec![pod("a", "10.0.0.1", true)]);
        for action in plan(&seen).actions {
            let Action::Create { resource, object, .. } = action else { panic!("{action:?}") };
            if resource == "endpoints" {
                seen.endpoints = Some(object);
            } else {
                seen.slices.push(object);
            }
        }
        assert_eq!(plan(&seen), Plan::idle());
        seen.pods[0].ready_since = None;
        assert_eq!(plan(&seen).actions.len(), 2);
    }

    #[test]
    fn many_pods_fill_several_slices() {
        let pods =
            (0..250).map(|n| pod(&format!("p{n}"), &format!("10.0.{}.{}", n / 200, n % 200), true));
        let plan = plan(&seen("ClusterIP", pods.collect()));
        let slices = plan
            .actions
            .iter()
            .filter(|a| matches!(a, Action::Create { resource, .. } if *resource == SLICES));
        assert_eq!(slices.count(), 3);
    }

    #[test]
    fn load_balancers_stay_pending_unless_asked_for() {
        let mut seen = seen("LoadBalancer", vec![]);
        let waits = plan(&seen);
        assert_eq!(waits.waiting, ["this cluster has no load balancers"]);
        seen.load_balancer = true;
        let Action::ReplaceStatus { object, .. } = &plan(&seen).actions[0] else {
            panic!("no status")
        };
        assert_eq!(object["status"]["loadBalancer"]["ingress"][0]["ip"], "172.31.3.7");
    }
}
