//! What an object looks like when it leaves the hub, and in which order.

use flagship_api::placement_status::ResourceIdentifier;
use serde_json::{Value, json};

use crate::placement::identifier;
use crate::placement::selection::{Kind, manifest, sort_key};

fn cleaned(object: Value) -> String {
    let api_version = object["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = Kind::new(group, version, object["kind"].as_str().unwrap());
    manifest(&kind, object).unwrap().text().to_owned()
}

// checklist 20.13
#[test]
fn metadata_status_and_local_annotations_are_removed() {
    let full = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "d", "namespace": "app", "labels": {"a": "b"}, "finalizers": ["f"],
            "generateName": "d-", "deletionGracePeriodSeconds": 30,
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "deployment.kubernetes.io/revision": "3", "note": "a<b",
            },
            "resourceVersion": "7", "generation": 3, "uid": "u", "selfLink": "/x",
            "deletionTimestamp": "2026-01-01T00:00:00Z", "managedFields": [],
            "ownerReferences": [{"name": "o"}], "creationTimestamp": null,
        },
        "spec": {"replicas": 3.0},
        "status": {"replicas": 3},
    });
    assert_eq!(
        cleaned(full),
        r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"note":"a\u003cb"},"deletionGracePeriodSeconds":30,"finalizers":["f"],"generateName":"d-","labels":{"a":"b"},"name":"d","namespace":"app"},"spec":{"replicas":3}}"#
    );
    let only_local = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "s", "labels": {}, "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{}"}},
    });
    assert_eq!(
        cleaned(only_local),
        r#"{"apiVersion":"v1","kind":"Secret","metadata":{"labels":{},"name":"s"}}"#
    );
}

// checklist 20.13
#[test]
fn a_service_loses_what_the_cluster_gave_it() {
    let service = |address: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {
            "clusterIP": address, "clusterIPs": [address], "healthCheckNodePort": 3,
            "ports": [{"port": 80, "nodePort": 30080}, {"port": 81}]}})
    };
    assert_eq!(
        cleaned(service("10.0.0.1")),
        r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"ports":[{"port":80},{"port":81}]}}"#
    );
    assert_eq!(
        cleaned(service("None")),
        r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"clusterIP":"None","clusterIPs":["None"],"ports":[{"port":80},{"port":81}]}}"#
    );
}

// checklist 20.13
#[test]
fn a_job_loses_the_marks_of_its_controller() {
    let job = |manual: bool| {
        let marks = json!({"controller-uid": "u", "batch.kubernetes.io/controller-uid": "u"});
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {
            "manualSelector": manual,
            "selector": {"matchLabels": marks},
            "template": {"metadata": {"creationTimestamp": null, "labels": marks}},
        }})
    };
    assert_eq!(
        cleaned(job(false)),
        r#"{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j"},"spec":{"manualSelector":false,"selector":{"matchLabels":{}},"template":{"metadata":{"labels":{}}}}}"#
    );
    let kept = cleaned(job(true));
    assert!(kept.contains("controller-uid") && kept.contains("creationTimestamp"), "{kept}");
}

#[test]
fn odd_content_is_carried_as_it_is() {
    let odd = json!({"apiVersion": "v1", "kind": "Service", "metadata": "text", "spec": [1]});
    assert_eq!(
        cleaned(odd),
        r#"{"apiVersion":"v1","kind":"Service","metadata":"text","spec":[1]}"#
    );
}

#[test]
fn a_manifest_tells_its_names() {
    let text = cleaned(json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "app"}}));
    let read = identifier(&flagship_api::raw_json::RawJson::from_text(text).unwrap());
    assert_eq!(
        (read.group.as_str(), read.version.as_str(), read.kind.as_str()),
        ("apps", "v1", "Deployment")
    );
    assert_eq!((read.namespace.as_str(), read.name.as_str()), ("app", "d"));
}

// checklist 20.14
#[test]
fn known_kinds_come_in_their_order_and_unknown_ones_last() {
    let ordered = "
        scheduling.k8s.io/v1 PriorityClass, v1 Namespace, networking.k8s.io/v1 NetworkPolicy,
        v1 ResourceQuota, v1 LimitRange, policy/v1 PodDisruptionBudget, v1 ServiceAccount,
        v1 Secret, v1 ConfigMap, storage.k8s.io/v1 StorageClass, v1 PersistentVolume,
        v1 PersistentVolumeClaim, apiextensions.k8s.io/v1 CustomResourceDefinition,
        rbac.authorization.k8s.io/v1 ClusterRole, rbac.authorization.k8s.io/v1 ClusterRoleBinding,
        rbac.authorization.k8s.io/v1 Role, rbac.authorization.k8s.io/v1 RoleBinding, v1 Service,
        apps/v1 DaemonSet, v1 Pod, v1 ReplicationController, apps/v1 ReplicaSet,
        apps/v1 Deployment, autoscaling/v1 HorizontalPodAutoscaler,
        autoscaling/v2 HorizontalPodAutoscaler, apps/v1 StatefulSet, batch/v1 Job,
        batch/v1 CronJob, networking.k8s.io/v1 IngressClass, networking.k8s.io/v1 Ingress,
        apiregistration.k8s.io/v1 APIService,
        admissionregistration.k8s.io/v1 MutatingWebhookConfiguration,
        admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration,
        v1 Zebra, a.example/v1 Gadget, a.example/v2 Apple, b.example/v1 Apple";
    let id = |line: &str, namespace: &str, name: &str| {
        let (api_version, kind) = line.trim().split_once(' ').unwrap();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        ResourceIdentifier {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            name: name.into(),
            namespace: namespace.into(),
            envelope: None,
        }
    };
    let want: Vec<ResourceIdentifier> = ordered
        .split(',')
        .flat_map(|line| {
            [id(line, "", "z"), id(line, "a", "b"), id(line, "a", "c"), id(line, "b", "a")]
        })
        .collect();
    let mut shuffled = want.clone();
    shuffled.reverse();
    shuffled.rotate_left(37);
    shuffled.sort_by_cached_key(sort_key);
    assert_eq!(shuffled, want);
}
