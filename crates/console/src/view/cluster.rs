//! One cluster: how the hub knows it, what is on it, and what is wrong with it.

use flagship_api::condition::{Condition, Conditions};
use flagship_api::condition_type::member_cluster;
use flagship_explain::why::{BindingFacts, MemberView, explain, last_heartbeat, silent_since};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::fleet::version;
use super::{Model, ViewInputs, millis};

/// Pods and events that are shown.
const MOST: usize = 20;

/// The cluster, or that there is none.
pub fn model(seen: &ViewInputs<'_>, name: &str) -> Model {
    let mut model = Model::default();
    let mut facts = seen.mirror.about_cluster(name, seen.now);
    seen.looks.add_to(&mut facts);
    model.set("name", &name);
    model.set("finding", &explain(&facts));
    let Some(member) = facts.clusters.get(name) else {
        model.set("missing", &true);
        return model;
    };
    let heard = [last_heartbeat(member), member.reported].into_iter().flatten().max();
    model.set("heard", &heard.map(millis));
    model.set("period", &member.spec.heartbeat_period_seconds.unwrap_or(60));
    model.set("silent", &silent_since(member, seen.now).map(millis));
    let joined = member.status.conditions.of_type(member_cluster::JOINED);
    model.set("joined", &joined.map(condition));
    model.set("leaving", &member.leaving);
    model.set("labels", &member.labels);
    let taints = member.spec.taints.iter();
    let taints: Vec<String> =
        taints.map(|taint| format!("{}={}:{:?}", taint.key, taint.value, taint.effect)).collect();
    model.set("taints", &taints);
    let properties = member.status.properties.iter();
    let properties: Vec<(&String, &String)> =
        properties.map(|(name, property)| (name, &property.value)).collect();
    model.set("properties", &properties);
    let usage = &member.status.resource_usage;
    let capacity: Vec<Value> = usage
        .allocatable
        .iter()
        .map(|(name, all)| {
            let free = usage.available.get(name).map(|free| free.0.clone());
            json!({"name": name, "all": all.0, "free": free})
        })
        .collect();
    model.set("capacity", &capacity);
    let placed: Vec<Value> = facts.bindings.iter().map(placement).collect();
    model.set("placements", &placed);
    model.set("member", &facts.members.get(name).map(|view| member_shown(view, seen.now)));
    model
}

fn condition(found: &Condition) -> Value {
    json!({
        "type": found.type_,
        "status": found.status,
        "reason": found.reason,
        "message": found.message,
        "since": millis(found.last_transition_time.0),
    })
}

fn placement(bound: &BindingFacts) -> Value {
    let failed = bound.status.failed_placements.iter().map(|failed| {
        let object = &failed.resource;
        json!({"kind": object.kind, "namespace": object.namespace, "name": object.name,
            "condition": condition(&failed.condition)})
    });
    let differs = bound.status.drifted_placements.iter().map(|drifted| {
        let object = &drifted.resource;
        // A Secret's values are nobody's to read here.
        let fields: Vec<Value> = drifted
            .observed_drifts
            .iter()
            .map(|field| match object.kind.as_str() {
                "Secret" => json!({"path": field.path, "hub": "changed", "member": "changed"}),
                _ => json!({"path": field.path, "hub": field.value_in_hub,
                    "member": field.value_in_member}),
            })
            .collect();
        json!({"kind": object.kind, "namespace": object.namespace, "name": object.name,
            "fields": fields})
    });
    let conditions: Vec<Value> = bound.status.conditions.iter().map(condition).collect();
    json!({
        "namespace": bound.key.namespace,
        "name": bound.placement,
        "binding": bound.key.name,
        "state": bound.spec.state,
        "version": version(bound),
        "conditions": conditions,
        "failed": failed.collect::<Vec<Value>>(),
        "drifted": differs.collect::<Vec<Value>>(),
    })
}

/// What the member itself shows: the object that fails, its pods and their events.
fn member_shown(view: &MemberView, now: Timestamp) -> Value {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pods = view.pods.iter().take(MOST).map(|pod| {
        let statuses = pod["status"]["containerStatuses"].as_array();
        let waiting = statuses.into_iter().flatten().find_map(|container| {
            let waiting = &container["state"]["waiting"];
            (!waiting.is_null()).then(|| (text(&waiting["reason"]), text(&waiting["message"])))
        });
        let (reason, message) = waiting.unwrap_or_default();
        json!({"name": pod["metadata"]["name"], "phase": pod["status"]["phase"],
            "reason": reason, "message": message})
    });
    let events = view.events.iter().rev().take(MOST).map(|event| {
        let at: Option<Timestamp> = text(&event["lastTimestamp"]).parse().ok();
        json!({"type": event["type"], "reason": event["reason"], "message": event["message"],
            "about": event["involvedObject"]["name"], "count": event["count"],
            "at": at.unwrap_or(now).as_millisecond()})
    });
    let object = view.object.as_ref().map(|object| {
        json!({"kind": object["kind"], "name": object["metadata"]["name"],
            "namespace": object["metadata"]["namespace"],
            "wanted": object["spec"]["replicas"], "ready": object["status"]["readyReplicas"]})
    });
    json!({"blind": view.blind, "object": object, "pods": pods.collect::<Vec<Value>>(),
        "events": events.collect::<Vec<Value>>()})
}
