//! The order of applying.

use serde_json::{Value, json};

use super::fixture::Fixture;
use crate::apply::{ApplyOptions, Manifest, Untried, Verdict, waves};

fn of(group: &str, resource: &str) -> Manifest {
    let mut manifest = Fixture::new(
        json!({}),
        &[json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}})],
    )
    .read()
    .remove(0);
    manifest.identifier.group = group.into();
    manifest.identifier.resource = resource.into();
    manifest.untried = None;
    manifest
}

fn terms(strategy: &Value) -> ApplyOptions {
    Fixture::new(strategy.clone(), &[]).terms()
}

// checklist 3.1
#[test]
fn what_others_need_comes_first() {
    let table: [(&str, &[&str]); 7] = [
        ("", &["namespaces", "priorityclasses"]),
        (
            "",
            &[
                "networkpolicies",
                "resourcequotas",
                "limitranges",
                "podsecuritypolicies",
                "poddisruptionbudgets",
                "serviceaccounts",
                "secrets",
                "configmaps",
                "storageclasses",
                "persistentvolumes",
                "persistentvolumeclaims",
                "customresourcedefinitions",
                "ingressclasses",
            ],
        ),
        ("rbac.authorization.k8s.io", &["clusterroles", "roles"]),
        ("rbac.authorization.k8s.io", &["clusterrolebindings", "rolebindings"]),
        (
            "apps",
            &[
                "services",
                "daemonsets",
                "pods",
                "replicationcontrollers",
                "replicasets",
                "deployments",
                "horizontalpodautoscalers",
                "statefulsets",
                "jobs",
                "cronjobs",
                "ingresses",
            ],
        ),
        (
            "admissionregistration.k8s.io",
            &["apiservices", "validatingwebhookconfigurations", "mutatingwebhookconfigurations"],
        ),
        ("", &["endpoints", "events"]),
    ];
    // The last come first in the Work.
    let mut manifests = Vec::new();
    let mut expected = Vec::new();
    for (group, resources) in table.iter().rev() {
        let from = manifests.len();
        manifests.extend(resources.iter().map(|resource| of(group, resource)));
        expected.insert(0, (from..manifests.len()).collect::<Vec<_>>());
    }
    assert_eq!(waves(&manifests, &terms(&json!({}))), expected);
}

// checklist 3.1
#[test]
fn a_familiar_name_in_a_foreign_group_goes_last() {
    let manifests = [
        of("example.com", "namespaces"),
        of("example.com", "widgets"),
        of("batch", "jobs"),
        of("", "namespaces"),
    ];
    assert_eq!(waves(&manifests, &terms(&json!({}))), [vec![3], vec![2], vec![0, 1]]);
    // All groups that have places.
    for group in [
        "",
        "networking.k8s.io",
        "scheduling.k8s.io",
        "policy",
        "storage.k8s.io",
        "apiextensions.k8s.io",
        "rbac.authorization.k8s.io",
        "apps",
        "autoscaling",
        "apiregistration.k8s.io",
        "admissionregistration.k8s.io",
        "batch",
    ] {
        let order = waves(&[of("x.io", "y"), of(group, "roles")], &terms(&json!({})));
        assert_eq!(order, [vec![1], vec![0]], "{group}");
    }
}

// checklist 3.1
#[test]
fn manifests_in_trouble_have_no_wave() {
    let mut bad = of("", "namespaces");
    bad.untried = Some(Untried { verdict: Verdict::Duplicated, error: String::new() });
    assert_eq!(waves(&[bad, of("", "pods")], &terms(&json!({}))), [vec![1]]);
    assert_eq!(waves(&[], &terms(&json!({}))), Vec::<Vec<usize>>::new());
}

// checklist 3.1
#[test]
fn a_comparison_is_one_wave() {
    let manifests = [of("", "pods"), of("", "namespaces"), of("x.io", "y")];
    assert_eq!(waves(&manifests, &terms(&json!({"type": "ReportDiff"}))), [vec![0, 1, 2]]);
}
