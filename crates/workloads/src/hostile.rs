//! Every plan survives every shape of JSON: nothing here may panic, whatever
//! stands in an object.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::config::WorkloadConfig;
use crate::deployment::SetFacts;
use crate::facts::Pod;
use crate::node::Node;
use crate::{
    claims, cronjob, daemonset, deployment, disruption, gc, job, kubelet, namespace, quota,
    references, replicaset, schedule, service, statefulset,
};

/// One object with something of everything that any controller reads.
fn everything() -> Value {
    let template = json!({"metadata": {"labels": {"app": "x"}, "annotations": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "nginx", "ports": [{"containerPort": 1}],
            "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}, "env": []}],
            "initContainers": [{"name": "i", "image": "b"}], "restartPolicy": "Never",
            "volumes": [], "tolerations": [], "nodeSelector": {"a": "b"},
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchExpressions": [], "matchFields": []}]}}}}});
    let mut spec = template["spec"].clone();
    let more = json!({
        "replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": template,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1, "maxUnavailable": 1}},
        "progressDeadlineSeconds": 600, "revisionHistoryLimit": 1, "minReadySeconds": 1,
        "completions": 2, "parallelism": 2, "backoffLimit": 3, "completionMode": "Indexed",
        "activeDeadlineSeconds": 30, "ttlSecondsAfterFinished": 5,
        "ports": [{"port": 80, "targetPort": "http", "name": "p"}], "type": "LoadBalancer",
        "clusterIP": "10.0.0.1", "hard": {"pods": "1", "requests.cpu": "2"}, "minAvailable": "50%",
        "finalizers": ["kubernetes"], "accessModes": ["ReadWriteOnce"], "volumeName": "",
        "resources": {"requests": {"storage": "1Gi"}}, "claimRef": {"uid": "u"},
        "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {}}], "serviceName": "s",
        "ordinals": {"start": 0}, "nodeName": "node-1", "podCIDR": "10.244.1.0/24", "taints": [],
        "readinessGates": [{"conditionType": "g"}],
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    json!({
        "apiVersion": "v1", "kind": "Thing",
        "metadata": {"name": "x-0", "namespace": "default", "uid": "u", "generation": 1,
            "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "x"}, "annotations": {"workloads.flagship.dev/run-for": "1s",
                "deployment.kubernetes.io/revision": "1"},
            "ownerReferences": [{"uid": "u", "controller": true, "kind": "ReplicaSet"}],
            "finalizers": ["batch.kubernetes.io/job-tracking"]},
        "spec": spec, "data": {"spec": {"template": {}}}, "revision": 1,
        "status": {"phase": "Running", "replicas": 1, "conditions": [{"type": "Progressing",
                "status": "True", "lastUpdateTime": "2026-01-01T00:00:00Z"}],
            "startTime": "2026-01-01T00:00:00Z", "succeeded": 1, "completedIndexes": "0-1",
            "uncountedTerminatedPods": {"succeeded": ["a"]}, "collisionCount": 0,
            "containerStatuses": [{"name": "c", "restartCount": 1, "state":
                {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, "lastState": {}}],
            "initContainerStatuses": [], "loadBalancer": {"ingress": []}, "currentRevision": "r",
            "disruptedPods": {"x-0": "2026-01-01T00:00:00Z"}, "addresses": [], "allocatable": {"cpu": "1"}},
        "subsets": [], "endpoints": [], "ports": [],
    })
}

/// Puts `with` in the place of the `at`-th value of a tree.
fn replace(tree: &mut Value, at: &mut usize, with: &Value) -> bool {
    if *at == 0 {
        *tree = with.clone();
        return true;
    }
    *at -= 1;
    match tree {
        Value::Object(map) => map.values_mut().any(|child| replace(child, at, with)),
        Value::Array(list) => list.iter_mut().any(|child| replace(child, at, with)),
        _ => false,
    }
}

fn look_at(object: &Value, other: &Value) {
    let now = Timestamp::from_second(1_767_225_700).unwrap();
    let config = WorkloadConfig { load_balancer: true, ..WorkloadConfig::default() };
    let pods = vec![Pod::of(object), Pod::of(other)];
    let node = Node::of(object);
    let refusal = None;
    let (one, two) = (object.clone(), other.clone());
    let objects = vec![two.clone()];
    deployment::plan(&deployment::Observed {
        deployment: one.clone(),
        sets: vec![Arc::new(SetFacts::of(other))],
        strays: objects.clone(),
        taken: BTreeSet::new(),
        pods: pods.clone(),
        refusal: refusal.clone(),
        now,
    });
    replicaset::plan(&replicaset::Observed {
        set: one.clone(),
        pods: pods.clone(),
        strays: objects.clone(),
        refusal: refusal.clone(),
        now,
    });
    statefulset::plan(&statefulset::Observed {
        set: one.clone(),
        pods: pods.clone(),
        strays: vec![],
        taken: BTreeSet::new(),
        revisions: objects.clone(),
        claims: BTreeSet::new(),
        refusal: refusal.clone(),
        now,
    });
    daemonset::plan(&daemonset::Observed {
        set: one.clone(),
        pods: pods.clone(),
        strays: vec![],
        nodes: vec![node.clone()],
        revisions: objects.clone(),
        refusal: refusal.clone(),
        now,
    });
    job::plan(&job::Observed { job: one.clone(), pods: pods.clone(), refusal, now });
    schedule::plan(&schedule::Observed {
        pod: one.clone(),
        nodes: vec![(node, schedule::Load::default())],
        unbound: references::unbound(object, &|_, _| Some(other.clone())),
        now,
    });
    kubelet::plan(
        &kubelet::Observed {
            pod: one.clone(),
            host_ip: String::new(),
            free_ip: String::new(),
            missing: references::missing(object, &|_, _| Some(other.clone())),
            now,
        },
        &config,
    );
    kubelet::plan_lost(object, now);
    cronjob::plan(&cronjob::Observed {
        cron: one.clone(),
        jobs: vec![two.clone()],
        refusal: None,
        now,
    });
    service::plan(&service::Observed {
        service: one.clone(),
        pods: pods.clone(),
        endpoints: Some(two.clone()),
        slices: objects,
        load_balancer: true,
    });
    claims::plan(&claims::Observed {
        claim: one.clone(),
        volume: Some(two.clone()),
        provision: true,
        lacks_class: references::lacks_class(object, &|_, _| Some(other.clone())),
        now,
    });
    claims::plan(&claims::Observed {
        claim: one.clone(),
        volume: None,
        provision: true,
        lacks_class: None,
        now,
    });
    claims::plan_volume(object, Some(other));
    disruption::plan(&disruption::Observed { budget: one.clone(), pods, expected: 2, now });
    let used = quota::used(object, &|_| vec![two.clone()]);
    quota::plan(object, &used);
    quota::excess(object, "pods", other, Some(object), &|_| vec![]);
    namespace::plan(&namespace::Observed {
        namespace: one,
        content: vec![],
        root_ca: String::new(),
        refusal: None,
        now,
    });
    gc::Node::of(&"things".into(), object);
    for amendment in [
        crate::plan::Amendment::DropFinalizer("x".into()),
        crate::plan::Amendment::DropOwners(vec!["u".into()]),
        crate::plan::Amendment::UnblockOwners,
    ] {
        gc::amend_object(&mut two.clone(), &amendment);
    }
}

#[test]
fn huge_numbers_are_met_with_small_plans() {
    for pointer in [
        "/spec/replicas",
        "/spec/parallelism",
        "/spec/completions",
        "/spec/minReadySeconds",
        "/spec/strategy/rollingUpdate/maxSurge",
        "/spec/ordinals/start",
        "/spec/progressDeadlineSeconds",
        "/spec/activeDeadlineSeconds",
        "/metadata/generation",
        "/status/collisionCount",
    ] {
        for number in [json!(i64::MAX), json!(i64::MIN), json!("99999999999999%")] {
            let mut object = everything();
            object["spec"]["podManagementPolicy"] = json!("Parallel");
            object["metadata"]["uid"] = json!("other");
            *object.pointer_mut(pointer).unwrap() = number;
            look_at(&object, &everything());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_shape_of_an_object_makes_a_plan_panic(
        places in prop::collection::vec((0_usize..260, 0_usize..9), 1..4),
        deleting in any::<bool>(),
    ) {
        let odd = [json!(null), json!("text"), json!(-7), json!([]), json!({}), json!([1, {"a": 2}]),
            json!({"type": "x"}), json!(i64::MAX), json!(true)];
        let whole = everything();
        let mut bent = whole.clone();
        if deleting {
            bent["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        for (mut at, which) in places {
            replace(&mut bent, &mut at, &odd[which]);
        }
        look_at(&bent, &whole);
        look_at(&whole, &bent);
        look_at(&bent, &bent);
    }
}
