//! Properties that hold for every kind and every shape of JSON.
//!
//! Objects are random trees whose keys are those that the code looks for, so that
//! values of every type turn up exactly where another type is expected.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::addresses::ServiceRanges;
use super::*;

/// Every key and word that defaulting, preparation and validation know.
const WORDS: &[&str] = &[
    "metadata",
    "spec",
    "status",
    "template",
    "containers",
    "initContainers",
    "volumes",
    "name",
    "namespace",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "uid",
    "generation",
    "deletionTimestamp",
    "selector",
    "matchLabels",
    "matchExpressions",
    "key",
    "operator",
    "values",
    "In",
    "Exists",
    "resources",
    "limits",
    "requests",
    "cpu",
    "memory",
    "storage",
    "ports",
    "port",
    "containerPort",
    "hostPort",
    "nodePort",
    "protocol",
    "targetPort",
    "image",
    "env",
    "valueFrom",
    "fieldRef",
    "resourceFieldRef",
    "divisor",
    "envFrom",
    "prefix",
    "livenessProbe",
    "httpGet",
    "exec",
    "grpc",
    "lifecycle",
    "preStop",
    "volumeMounts",
    "mountPath",
    "subPath",
    "emptyDir",
    "sizeLimit",
    "configMap",
    "secret",
    "projected",
    "sources",
    "downwardAPI",
    "items",
    "hostPath",
    "path",
    "strategy",
    "rollingUpdate",
    "maxSurge",
    "maxUnavailable",
    "type",
    "RollingUpdate",
    "Recreate",
    "OnDelete",
    "updateStrategy",
    "volumeClaimTemplates",
    "replicas",
    "minReadySeconds",
    "progressDeadlineSeconds",
    "schedule",
    "jobTemplate",
    "completions",
    "parallelism",
    "completionMode",
    "Indexed",
    "podFailurePolicy",
    "rules",
    "onPodConditions",
    "clusterIP",
    "clusterIPs",
    "ipFamilies",
    "ipFamilyPolicy",
    "None",
    "ExternalName",
    "LoadBalancer",
    "NodePort",
    "ClusterIP",
    "externalTrafficPolicy",
    "Local",
    "healthCheckNodePort",
    "sessionAffinity",
    "ClientIP",
    "sessionAffinityConfig",
    "data",
    "binaryData",
    "stringData",
    "immutable",
    "webhooks",
    "clientConfig",
    "service",
    "url",
    "names",
    "kind",
    "plural",
    "group",
    "versions",
    "schema",
    "openAPIV3Schema",
    "conditions",
    "storedVersions",
    "roleRef",
    "subjects",
    "apiGroup",
    "ServiceAccount",
    "backend",
    "http",
    "paths",
    "pathType",
    "Prefix",
    "host",
    "ingress",
    "egress",
    "from",
    "to",
    "ipBlock",
    "cidr",
    "except",
    "endPort",
    "accessModes",
    "capacity",
    "hard",
    "min",
    "max",
    "default",
    "defaultRequest",
    "maxLimitRequestRatio",
    "Container",
    "Pod",
    "metrics",
    "resource",
    "behavior",
    "scaleUp",
    "tolerations",
    "affinity",
    "topologySpreadConstraints",
    "maxSkew",
    "activeDeadlineSeconds",
    "1",
    "500m",
    "1Gi",
    "10%",
    "-1",
    "10.0.0.0/8",
    "10.96.0.1",
    "* * * * *",
    "",
    "a/b",
    "é",
    "https://a.b/c",
    "subsets",
    "addresses",
    "endpoints",
    "matchConstraints",
    "resourceRules",
    "validations",
    "scopes",
    "Terminating",
    "apiVersion",
    "autoscaling/v1",
    "events.k8s.io/v1",
    "involvedObject",
    "parameters",
    "taints",
    "priorityClassName",
    "overhead",
];

fn word() -> impl Strategy<Value = &'static str> {
    prop::sample::select(WORDS)
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(vec![0_i64, 1, -1, 80, 70_000, i64::MAX, i64::MIN])
            .prop_map(Value::from),
        Just(Value::from(0.5)),
        Just(Value::from(u64::MAX)),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 6, |inner| {
        prop_oneof![
            2 => prop::collection::vec((word(), inner.clone()), 0..6).prop_map(|pairs| {
                let map: Map<String, Value> = pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
                Value::Object(map)
            }),
            1 => prop::collection::vec(inner, 0..4).prop_map(Value::Array),
        ]
    })
}

/// A random tree where the specification is wanted, below the usual frame.
fn object() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => json(),
        4 => (json(), json(), json()).prop_map(|(metadata, spec, status)| {
            json!({"metadata": metadata, "spec": spec, "status": status})
        }),
        4 => (json(), json(), json()).prop_map(|(containers, volumes, other)| {
            let spec = json!({"containers": [containers], "volumes": volumes, "tolerations": other});
            let template = json!({"metadata": {"labels": other}, "spec": spec});
            json!({"metadata": {"name": "a", "uid": "u"}, "spec": {
                "template": template, "jobTemplate": {"spec": {"template": template}},
                "containers": [containers], "selector": other, "limits": [other], "ports": [other],
            }, "webhooks": [other], "data": other, "rules": [other]})
        }),
    ]
}

fn kind() -> impl Strategy<Value = Kind> {
    (0..catalog().len()).prop_map(|index| catalog()[index].id)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_whatever_the_shape(kind in kind(), first in object(), second in object()) {
        let (mut new, mut old) = (first.clone(), second.clone());
        let mut addresses = ServiceRanges::default();
        default_object(kind, &mut old);
        drop(prepare_create(kind, &mut old, &mut addresses));
        addresses.observe(&old);
        default_object(kind, &mut new);
        drop(prepare_update(kind, &mut new, &old, &mut addresses));
        drop(validate_create(kind, &old));
        drop(validate_update(kind, &new, &old));
        let mut other = first.clone();
        prepare_status_update(kind, &mut other, &old);
        prepare_finalize(&mut other, &second);
        drop(selectable_fields(kind, &new));
        drop(quota::usage_of(kind, &new));
        quota::in_scope(kind, &new, &old);
        drop(quota::unstated("q", kind, &new, &old));
        limits::apply_defaults(kind, &mut new, &second);
        drop(limits::violations(kind, &new, &second));
        if let Some(scale) = scale::scale_of(kind, &new) {
            scale::apply_scale(&mut new, &scale);
        }
        for (group, version) in kind.info().served() {
            let mut shown = first.clone();
            convert::to_storage(kind, &mut shown);
            convert::from_storage(kind, &format!("{group}/{version}"), &mut shown);
        }
    }

    #[test]
    fn defaulting_twice_is_defaulting_once(kind in kind(), object in object()) {
        let mut once = object;
        default_object(kind, &mut once);
        let mut twice = once.clone();
        default_object(kind, &mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn an_unchanged_object_passes_an_update(kind in kind(), object in object()) {
        let mut old = object;
        default_object(kind, &mut old);
        let mut addresses = ServiceRanges::default();
        if prepare_create(kind, &mut old, &mut addresses).is_err() || !validate_create(kind, &old).is_empty() {
            return Ok(());
        }
        let mut new = old.clone();
        default_object(kind, &mut new);
        prop_assert!(prepare_update(kind, &mut new, &old, &mut addresses).is_ok());
        prop_assert_eq!(&new, &old);
        prop_assert!(validate_update(kind, &new, &old).is_empty());
    }
}

/// Small manifests of every family, as people write them: applying one a second time
/// must change nothing and be refused by nobody.
#[test]
fn applying_an_unchanged_manifest_changes_nothing() {
    let pod = json!({"containers": [{"name": "c", "image": "nginx", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": 1}}}]});
    let template =
        json!({"metadata": {"labels": {"app": "web"}, "creationTimestamp": null}, "spec": pod});
    let selector = json!({"matchLabels": {"app": "web"}});
    let once =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}});
    let manifests = [
        (Kind::Namespace, json!({})),
        (Kind::ConfigMap, json!({"data": {"a": "b"}})),
        (Kind::Secret, json!({"stringData": {"a": "b"}})),
        (Kind::Pod, json!({"spec": pod})),
        (Kind::Service, json!({"spec": {"ports": [{"port": 80}], "selector": {"app": "web"}}})),
        (Kind::Service, json!({"spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}})),
        (Kind::Service, json!({"spec": {"clusterIP": "None", "selector": {"app": "web"}}})),
        (Kind::Deployment, json!({"spec": {"selector": selector, "template": template}})),
        (Kind::ReplicaSet, json!({"spec": {"selector": selector, "template": template}})),
        (Kind::DaemonSet, json!({"spec": {"selector": selector, "template": template}})),
        (
            Kind::StatefulSet,
            json!({"spec": {"serviceName": "web", "selector": selector, "template": template}}),
        ),
        (Kind::Job, json!({"spec": {"template": once}})),
        (
            Kind::CronJob,
            json!({"spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": once}}}}),
        ),
        (
            Kind::PersistentVolumeClaim,
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}}),
        ),
        (
            Kind::Ingress,
            json!({"spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}}),
        ),
        (Kind::NetworkPolicy, json!({"spec": {"podSelector": {}}})),
        (Kind::PodDisruptionBudget, json!({"spec": {"minAvailable": 1, "selector": selector}})),
        (
            Kind::HorizontalPodAutoscaler,
            json!({"spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}}}),
        ),
        (
            Kind::Role,
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
        ),
        (
            Kind::RoleBinding,
            json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]}),
        ),
        (Kind::StorageClass, json!({"provisioner": "a.b/c"})),
        (Kind::PriorityClass, json!({"value": 5})),
        (Kind::Lease, json!({"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}})),
        (
            Kind::LimitRange,
            json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}}),
        ),
        (Kind::ResourceQuota, json!({"spec": {"hard": {"pods": 5}}})),
    ];
    for (kind, manifest) in manifests {
        let mut created = manifest.clone();
        created["metadata"] = json!({"name": "web", "uid": "u"});
        if kind.info().namespaced {
            created["metadata"]["namespace"] = json!("default");
        }
        let mut addresses = ServiceRanges::default();
        default_object(kind, &mut created);
        prepare_create(kind, &mut created, &mut addresses).unwrap();
        assert_eq!(validate_create(kind, &created), [], "{kind:?}");
        // A merge patch with the same manifest, as `kubectl apply` sends it.
        let mut again = created.clone();
        let mut patch = manifest.clone();
        if kind == Kind::Secret {
            patch = json!({"stringData": manifest["stringData"]});
        }
        json_patch::merge(&mut again, &patch);
        default_object(kind, &mut again);
        prepare_update(kind, &mut again, &created, &mut addresses).unwrap();
        // Admission added tolerations that the patch does not mention; lists are
        // replaced here, which strategic merge would not do.
        if kind != Kind::Pod {
            assert_eq!(again, created, "{kind:?}");
        }
        assert_eq!(validate_update(kind, &again, &created), [], "{kind:?}");
    }
}
