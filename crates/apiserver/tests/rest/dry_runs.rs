//! What a dry run says about a manifest that was applied already: nothing to do.

use serde_json::{Value, json};

use crate::harness::TestServer;

/// The path of the collection, and a small manifest as people write it.
fn manifests() -> Vec<(&'static str, Value)> {
    let pod = json!({"containers": [{
        "name": "c", "image": "nginx", "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": 1, "memory": "1024Mi"}},
    }]});
    let template =
        json!({"metadata": {"labels": {"app": "web"}, "creationTimestamp": null}, "spec": pod});
    let selector = json!({"matchLabels": {"app": "web"}});
    let workload = json!({"selector": selector, "template": template});
    let stateful = json!({"serviceName": "web", "selector": selector, "template": template});
    let once =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}});
    let service = json!({"ports": [{"port": 80}], "selector": {"app": "web"}});
    let claim =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}});
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let target = json!({"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"});
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
    vec![
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({"kind": "Deployment", "spec": workload}),
        ),
        (
            "/apis/apps/v1/namespaces/default/replicasets",
            json!({"kind": "ReplicaSet", "spec": workload}),
        ),
        (
            "/apis/apps/v1/namespaces/default/daemonsets",
            json!({"kind": "DaemonSet", "spec": workload}),
        ),
        (
            "/apis/apps/v1/namespaces/default/statefulsets",
            json!({"kind": "StatefulSet", "spec": stateful}),
        ),
        (
            "/apis/batch/v1/namespaces/default/jobs",
            json!({"kind": "Job", "spec": {"template": once}}),
        ),
        (
            "/apis/batch/v1/namespaces/default/cronjobs",
            json!({"kind": "CronJob", "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": once}}}}),
        ),
        ("/api/v1/namespaces", json!({"kind": "Namespace"})),
        ("/api/v1/namespaces/default/pods", json!({"kind": "Pod", "spec": pod})),
        ("/api/v1/namespaces/default/configmaps", json!({"kind": "ConfigMap", "data": {"a": "b"}})),
        ("/api/v1/namespaces/default/secrets", json!({"kind": "Secret", "stringData": {"a": "b"}})),
        ("/api/v1/namespaces/default/services", json!({"kind": "Service", "spec": service})),
        ("/api/v1/namespaces/default/serviceaccounts", json!({"kind": "ServiceAccount"})),
        (
            "/api/v1/namespaces/default/persistentvolumeclaims",
            json!({"kind": "PersistentVolumeClaim", "spec": claim}),
        ),
        (
            "/api/v1/namespaces/default/resourcequotas",
            json!({"kind": "ResourceQuota", "spec": {"hard": {"pods": 5}}}),
        ),
        (
            "/api/v1/namespaces/default/limitranges",
            json!({"kind": "LimitRange", "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}}),
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
            json!({"kind": "Ingress", "spec": {"defaultBackend": backend}}),
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
            json!({"kind": "NetworkPolicy", "spec": {"podSelector": {}}}),
        ),
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            json!({"kind": "PodDisruptionBudget", "spec": {"minAvailable": 1, "selector": selector}}),
        ),
        (
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
            json!({"kind": "HorizontalPodAutoscaler", "spec": {"maxReplicas": 3, "scaleTargetRef": target}}),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
            json!({"kind": "Role", "rules": [rule]}),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
            json!({
                "kind": "RoleBinding",
                "roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"},
                "subjects": [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}],
            }),
        ),
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            json!({"kind": "StorageClass", "provisioner": "a.b/c"}),
        ),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            json!({"kind": "PriorityClass", "value": 5}),
        ),
    ]
}

fn without_managers(mut object: Value) -> Value {
    object["metadata"].as_object_mut().unwrap().remove("managedFields");
    object
}

#[tokio::test]
async fn a_manifest_that_was_applied_shows_no_difference() {
    for (path, mut manifest) in manifests() {
        let api = TestServer::new();
        let version = path.trim_start_matches("/apis/").trim_start_matches("/api/");
        let version = version.split("/namespaces").next().unwrap();
        let version = match version.matches('/').count() {
            2 => version.rsplit_once('/').unwrap().0,
            _ => version,
        };
        manifest["apiVersion"] = json!(version);
        manifest["metadata"] = json!({"name": "web", "labels": {"team": "a"}});
        api.post(&format!("{path}?fieldManager=me"), manifest.clone()).await.ok(201);
        let one = format!("{path}/web");
        let before = api.get(&one).await.ok(200);
        let shown = without_managers(before.clone());
        let dry = format!("{one}?dryRun=All&fieldManager=me");
        for how in ["strategic", "apply"] {
            let force = if how == "apply" { "&force=true" } else { "" };
            let at = format!("{dry}{force}");
            let reply = api.patch(how, &at, manifest.clone()).await;
            assert_eq!(without_managers(reply.ok(200)), shown, "{how} {path}");
        }
        for sent in [before.clone(), shown.clone(), manifest.clone()] {
            // A few kinds are only replaced by those who name a revision.
            let reply = api.put(&dry, sent.clone()).await;
            if sent == manifest && reply.code == 422 {
                continue;
            }
            assert_eq!(without_managers(reply.ok(200)), shown, "put {path}");
        }
        assert_eq!(api.get(&one).await.ok(200), before, "a dry run writes nothing: {path}");

        // Without the dry run nothing happens either, and the next dry run says so again.
        let mine = format!("{one}?fieldManager=me");
        let again = api.patch("strategic", &mine, manifest.clone()).await.ok(200);
        assert_eq!(again, before, "{path}");
        let apply = format!("{one}?fieldManager=other&force=true");
        let applied = api.patch("apply", &apply, manifest.clone()).await.ok(200);
        let mut same = without_managers(applied.clone());
        same["metadata"]["resourceVersion"] = shown["metadata"]["resourceVersion"].clone();
        assert_eq!(same, shown, "only owners changed: {path}");
        let dry = api.patch("apply", &format!("{apply}&dryRun=All"), manifest).await.ok(200);
        assert_eq!(dry, applied, "{path}");
    }
}
