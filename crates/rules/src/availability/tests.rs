use flagship_api::work::WorkResourceIdentifier;
use serde_json::{Value, json};

use super::{Availability, assess};

fn judge(resource: (&str, &str, &str), object: &Value) -> Availability {
    let (group, version, resource) = resource;
    let of = WorkResourceIdentifier {
        group: group.into(),
        version: version.into(),
        resource: resource.into(),
        ..WorkResourceIdentifier::default()
    };
    assess(&of, object)
}

/// The object works as it is, and does not with any one of these changes.
fn works_unless(resource: (&str, &str, &str), good: &Value, changes: &[(&str, Value)]) {
    assert_eq!(judge(resource, good), Availability::Available, "{good}");
    for (pointer, value) in changes {
        let mut changed = good.clone();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        changed.pointer_mut(parent).unwrap()[field] = value.clone();
        assert_eq!(judge(resource, &changed), Availability::NotYet, "{pointer} = {value}");
    }
}

// checklist 8.1
#[test]
fn a_deployment_runs_all_its_replicas_in_the_latest_version() {
    let of = ("apps", "v1", "deployments");
    let good = json!({"metadata": {"generation": 3}, "spec": {"replicas": 2}, "status": {
        "observedGeneration": 3, "availableReplicas": 2, "updatedReplicas": 2, "unavailableReplicas": 0}});
    works_unless(
        of,
        &good,
        &[
            ("/status/observedGeneration", json!(2)),
            ("/status/availableReplicas", json!(1)),
            ("/status/updatedReplicas", json!(1)),
            ("/status/unavailableReplicas", json!(1)),
            ("/spec/replicas", json!(3)),
            ("/spec/replicas", json!(null)),
        ],
    );
    let one = json!({"metadata": {"generation": 1}, "spec": {}, "status": {"observedGeneration": 1, "availableReplicas": 1, "updatedReplicas": 1}});
    works_unless(of, &one, &[("/status", json!({}))]);
    let none = json!({"metadata": {"generation": 1}, "spec": {"replicas": 0}, "status": {"observedGeneration": 1}});
    works_unless(of, &none, &[]);
    assert_eq!(
        judge(of, &json!({"spec": {"replicas": "many"}})),
        Availability::Failed("failed to convert the unstructured object to a deployment: spec.replicas is not of the expected type".into())
    );
}

// checklist 8.1
#[test]
fn a_stateful_set_has_one_revision() {
    let good = json!({"metadata": {"generation": 3}, "spec": {"replicas": 2}, "status": {
        "observedGeneration": 3, "availableReplicas": 2, "currentReplicas": 2, "updatedReplicas": 2,
        "currentRevision": "a", "updateRevision": "a"}});
    works_unless(
        ("apps", "v1", "statefulsets"),
        &good,
        &[
            ("/status/observedGeneration", json!(2)),
            ("/status/availableReplicas", json!(1)),
            ("/status/currentReplicas", json!(1)),
            ("/status/updatedReplicas", json!(1)),
            ("/status/updateRevision", json!("b")),
            ("/spec/replicas", json!(null)),
        ],
    );
}

// checklist 8.1
#[test]
fn a_daemon_set_runs_on_every_node_it_should() {
    let good = json!({"metadata": {"generation": 3}, "status": {"observedGeneration": 3, "numberAvailable": 2,
        "desiredNumberScheduled": 2, "currentNumberScheduled": 2, "updatedNumberScheduled": 2}});
    works_unless(
        ("apps", "v1", "daemonsets"),
        &good,
        &[
            ("/status/observedGeneration", json!(2)),
            ("/status/numberAvailable", json!(1)),
            ("/status/desiredNumberScheduled", json!(3)),
            ("/status/updatedNumberScheduled", json!(1)),
        ],
    );
}

// checklist 8.1
#[test]
fn a_service_has_an_address() {
    let of = ("", "v1", "services");
    for kind in [json!(null), json!(""), json!("ClusterIP"), json!("NodePort")] {
        let good = json!({"spec": {"type": kind, "clusterIPs": ["10.0.0.1"]}});
        works_unless(
            of,
            &good,
            &[
                ("/spec/clusterIPs", json!([])),
                ("/spec/clusterIPs", json!([""])),
                ("/spec/clusterIPs", json!(null)),
            ],
        );
    }
    works_unless(of, &json!({"spec": {"clusterIPs": ["None"]}}), &[]);
    for ingress in [json!({"ip": "1.2.3.4"}), json!({"hostname": "lb.example.com"})] {
        let good = json!({"spec": {"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"]}, "status": {"loadBalancer": {"ingress": [ingress]}}});
        works_unless(
            of,
            &good,
            &[
                ("/status/loadBalancer/ingress", json!([])),
                ("/status/loadBalancer/ingress", json!([{}])),
                ("/status", json!({})),
            ],
        );
    }
    let by_name = json!({"spec": {"type": "ExternalName", "externalName": "x"}});
    assert_eq!(judge(of, &by_name), Availability::NotTrackable);
    assert!(matches!(judge(of, &json!({"spec": {"clusterIPs": "x"}})), Availability::Failed(_)));
}

// checklist 8.1
#[test]
fn a_definition_is_established_under_its_names() {
    let conditions = |established: &str, accepted: &str| json!({"status": {"conditions": [{"type": "NamesAccepted", "status": accepted}, {"type": "Established", "status": established}]}});
    let of = ("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    works_unless(of, &conditions("True", "True"), &[("/status/conditions", json!([]))]);
    for (established, accepted) in [("False", "True"), ("True", "False"), ("Unknown", "True")] {
        assert_eq!(judge(of, &conditions(established, accepted)), Availability::NotYet);
    }
    assert_eq!(judge(of, &json!({})), Availability::NotYet);
}

// checklist 8.1
#[test]
fn a_disruption_budget_agrees_with_itself() {
    let of = ("policy", "v1", "poddisruptionbudgets");
    let budget = |allowed: i64, status: &str, reason: &str| {
        json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 2, "disruptionsAllowed": allowed,
            "conditions": [{"type": "DisruptionAllowed", "status": status, "reason": reason}]}})
    };
    let changes = [("/status/observedGeneration", json!(1)), ("/status/conditions", json!([]))];
    works_unless(of, &budget(1, "True", "SufficientPods"), &changes);
    works_unless(of, &budget(0, "False", "InsufficientPods"), &changes);
    for (allowed, status, reason) in [
        (0, "True", "SufficientPods"),
        (1, "False", "InsufficientPods"),
        (1, "True", "SyncFailed"),
        (0, "False", "SyncFailed"),
    ] {
        assert_eq!(
            judge(of, &budget(allowed, status, reason)),
            Availability::NotYet,
            "{allowed} {status} {reason}"
        );
    }
}

// checklist 8.1
#[test]
fn data_works_at_once() {
    for (group, resources) in [
        (
            "",
            &[
                "namespaces",
                "secrets",
                "configmaps",
                "serviceaccounts",
                "limitranges",
                "resourcequotas",
            ][..],
        ),
        (
            "rbac.authorization.k8s.io",
            &["roles", "clusterroles", "rolebindings", "clusterrolebindings"],
        ),
        ("networking.k8s.io", &["networkpolicies", "ingressclasses"]),
        ("storage.k8s.io", &["csidrivers", "csinodes", "storageclasses", "csistoragecapacities"]),
        ("apps", &["controllerrevisions"]),
        ("scheduling.k8s.io", &["priorityclasses"]),
    ] {
        for resource in resources {
            assert_eq!(
                judge((group, "v1", resource), &json!({})),
                Availability::Available,
                "{resource}"
            );
            assert_eq!(
                judge((group, "v1beta1", resource), &json!({})),
                Availability::NotTrackable,
                "{resource}"
            );
        }
    }
}

// checklist 8.1
#[test]
fn nobody_judges_the_rest() {
    for of in [
        ("batch", "v1", "jobs"),
        ("batch", "v1", "cronjobs"),
        ("", "v1", "pods"),
        ("apps", "v1", "replicasets"),
        ("networking.k8s.io", "v1", "ingresses"),
        ("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"),
        ("apiregistration.k8s.io", "v1", "apiservices"),
        ("autoscaling", "v2", "horizontalpodautoscalers"),
        ("", "v1", "persistentvolumes"),
        ("", "v1", "persistentvolumeclaims"),
        ("example.com", "v1", "deployments"),
        ("apps", "v1beta2", "deployments"),
        ("policy", "v1beta1", "poddisruptionbudgets"),
    ] {
        assert_eq!(judge(of, &json!({})), Availability::NotTrackable, "{of:?}");
        assert!(judge(of, &json!({})).counts());
    }
}

// checklist 8.1
#[test]
fn nobody_asks_about_what_is_not_applied() {
    assert_eq!(Availability::default(), Availability::Skipped);
    assert!(!Availability::Skipped.counts());
}

#[test]
fn a_job_is_waited_for_where_it_is_a_check_and_counts_as_working_elsewhere() {
    let of = ("batch", "v1", "jobs");
    let job = |annotations: Value, kind: &str, status: &str| {
        json!({"metadata": {"annotations": annotations},
            "status": {"conditions": [{"type": kind, "status": status}]}})
    };
    let check = || json!({"flagship.dev/check": "{}"});
    assert_eq!(judge(of, &job(check(), "Complete", "True")), Availability::Available);
    for (kind, status) in
        [("Complete", "False"), ("Failed", "True"), ("SuccessCriteriaMet", "True")]
    {
        assert_eq!(judge(of, &job(check(), kind, status)), Availability::NotYet, "{kind} {status}");
        assert_eq!(judge(of, &job(json!({}), kind, status)), Availability::NotTrackable);
    }
}
