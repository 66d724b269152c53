//! Defaults of Deployment, ReplicaSet, StatefulSet, DaemonSet and ReplicationController.

use serde_json::{Value, json};

use super::super::json::{Fill, Object};
use super::{fill_text, pod, storage};

pub(super) fn deployment(object: &mut Object) {
    let Some(spec) = object.child_or_new("spec") else { return };
    spec.fill("replicas", 1);
    spec.fill("revisionHistoryLimit", 10);
    spec.fill("progressDeadlineSeconds", 600);
    if let Some(strategy) = spec.child_or_new("strategy") {
        fill_text(strategy, "type", "RollingUpdate");
        if strategy.text("type") == "RollingUpdate"
            && let Some(rolling) = strategy.child_or_new("rollingUpdate")
        {
            rolling.fill("maxUnavailable", "25%");
            rolling.fill("maxSurge", "25%");
        }
    }
    pod::template_in(spec, "template");
}

pub(super) fn replica_set(object: &mut Object) {
    let Some(spec) = object.child_or_new("spec") else { return };
    spec.fill("replicas", 1);
    if spec.has("template") {
        pod::template_in(spec, "template");
    }
}

pub(super) fn stateful_set(object: &mut Object) {
    let Some(spec) = object.child_or_new("spec") else { return };
    spec.fill("replicas", 1);
    spec.fill("revisionHistoryLimit", 10);
    fill_text(spec, "podManagementPolicy", "OrderedReady");
    if let Some(strategy) = spec.child_or_new("updateStrategy") {
        if strategy.text("type").is_empty() {
            fill_text(strategy, "type", "RollingUpdate");
            strategy.child_or_new("rollingUpdate");
        }
        // A strategy that names its type and nothing else stays without a partition.
        if strategy.text("type") == "RollingUpdate"
            && let Some(rolling) = strategy.child("rollingUpdate")
        {
            rolling.fill("partition", 0);
        }
    }
    if let Some(retention) = spec.child_or_new("persistentVolumeClaimRetentionPolicy") {
        fill_text(retention, "whenDeleted", "Retain");
        fill_text(retention, "whenScaled", "Retain");
    }
    for claim in spec.children("volumeClaimTemplates") {
        fill_text(claim, "apiVersion", "v1");
        fill_text(claim, "kind", "PersistentVolumeClaim");
        storage::claim(claim);
    }
    pod::template_in(spec, "template");
}

pub(super) fn daemon_set(object: &mut Object) {
    let Some(spec) = object.child_or_new("spec") else { return };
    spec.fill("revisionHistoryLimit", 10);
    if let Some(strategy) = spec.child_or_new("updateStrategy") {
        fill_text(strategy, "type", "RollingUpdate");
        if strategy.text("type") == "RollingUpdate"
            && let Some(rolling) = strategy.child_or_new("rollingUpdate")
        {
            rolling.fill("maxUnavailable", 1);
            rolling.fill("maxSurge", 0);
        }
    }
    pod::template_in(spec, "template");
}

pub(super) fn replication_controller(object: &mut Object) {
    let Some(spec) = object.child_or_new("spec") else { return };
    spec.fill("replicas", 1);
    if !spec.has("template") {
        return;
    }
    pod::template_in(spec, "template");
    let labels = template_labels(spec);
    if spec.get("selector").is_none_or(|s| s == &json!({})) && !labels.is_null() {
        spec.insert("selector".to_owned(), labels.clone());
    }
    inherit_labels(object, labels);
}

/// Labels of the template, or null.
pub(super) fn template_labels(spec: &Object) -> Value {
    let metadata = spec.get("template").and_then(|template| template.get("metadata"));
    metadata.and_then(|metadata| metadata.get("labels")).cloned().unwrap_or_default()
}

/// An owner without labels takes those of its template.
pub(super) fn inherit_labels(object: &mut Object, labels: Value) {
    let Some(metadata) = object.child_or_new("metadata") else { return };
    if labels.is_object() && metadata.get("labels").is_none_or(|l| l == &json!({})) {
        metadata.insert("labels".to_owned(), labels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_deployment_gets_everything_a_real_server_writes() {
        let mut object = json!({"spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}},
        }});
        deployment(object.as_object_mut().unwrap());
        assert_eq!(
            object,
            json!({"spec": {
                "replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
                "selector": {"matchLabels": {"app": "web"}},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {
                        "containers": [{
                            "name": "web", "image": "nginx", "imagePullPolicy": "Always", "resources": {},
                            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                        }],
                        "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                        "securityContext": {}, "terminationGracePeriodSeconds": 30,
                    },
                },
            }})
        );
    }

    #[test]
    fn a_recreate_strategy_has_no_rolling_update() {
        let mut object = json!({"spec": {"strategy": {"type": "Recreate"}}});
        deployment(object.as_object_mut().unwrap());
        assert_eq!(object["spec"]["strategy"], json!({"type": "Recreate"}));
    }

    #[test]
    fn a_stateful_set_fills_its_claims() {
        let mut object = json!({"spec": {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}
        }}]}});
        stateful_set(object.as_object_mut().unwrap());
        let spec = &object["spec"];
        assert_eq!(
            spec["updateStrategy"],
            json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
        );
        assert_eq!(
            spec["persistentVolumeClaimRetentionPolicy"],
            json!({"whenDeleted": "Retain", "whenScaled": "Retain"})
        );
        assert_eq!(
            spec["volumeClaimTemplates"][0],
            json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
                    "volumeMode": "Filesystem",
                },
                "status": {"phase": "Pending"},
            })
        );
    }
}
