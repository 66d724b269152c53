//! Which types are propagated, and how the options are read.

use crate::placement::selection::{BadTypeRules, Kind, TypeRules};

fn disabled(rules: &TypeRules, kind: &str) -> bool {
    let parts: Vec<&str> = kind.split('/').collect();
    match parts.as_slice() {
        [version, kind] => rules.disables(&Kind::new("", version, kind)),
        [group, version, kind] => rules.disables(&Kind::new(group, version, kind)),
        _ => panic!("{kind}"),
    }
}

#[test]
fn the_built_in_list() {
    let rules = TypeRules::default();
    for kind in [
        "v1/Pod",
        "v1/Node",
        "v1/Event",
        "events.k8s.io/v1/Event",
        "coordination.k8s.io/v1/Lease",
        "metrics.k8s.io/v1beta1/PodMetrics",
        "cluster.kubernetes-fleet.io/v1beta1/MemberCluster",
        "placement.kubernetes-fleet.io/v1beta1/Work",
        "placement.kubernetes-fleet.io/v1/ClusterResourcePlacement",
        "placement.kubernetes-fleet.io/v1beta1/ClusterResourcePlacementStatus",
        "networking.fleet.azure.com/v1alpha1/ServiceImport",
        "flagship.dev/v1alpha1/RolloutPolicy",
        "flagship.dev/v1alpha1/RolloutRecord",
        "flagship.dev/v1alpha1/Approval",
    ] {
        assert!(disabled(&rules, kind), "{kind}");
    }
    for kind in [
        "v1/Secret",
        "v2/Pod",
        "apps/v1/Deployment",
        "placement.kubernetes-fleet.io/v1beta1/ResourceEnvelope",
        "placement.kubernetes-fleet.io/v1beta1/ClusterResourceEnvelope",
        "networking.fleet.azure.com/v1alpha1/ServiceExport",
    ] {
        assert!(!disabled(&rules, kind), "{kind}");
    }
}

#[test]
fn skipped_types_are_added_to_the_built_in_ones() {
    let rules =
        TypeRules::read("example.com; apps/v1beta1; batch/v1/Job,CronJob; v1/Secret", "").unwrap();
    for kind in [
        "example.com/v1/Any",
        "apps/v1beta1/Deployment",
        "batch/v1/Job",
        "batch/v1/CronJob",
        "v1/Secret",
        "v1/Pod",
    ] {
        assert!(disabled(&rules, kind), "{kind}");
    }
    for kind in ["apps/v1/Deployment", "batch/v1/Other", "batch/v2/Job", "v1/ConfigMap"] {
        assert!(!disabled(&rules, kind), "{kind}");
    }
}

// checklist 20.11
#[test]
fn an_allow_list_starts_empty() {
    let rules = TypeRules::read("", "v1/Pod;apps/v1").unwrap();
    for (kind, off) in
        [("v1/Pod", false), ("apps/v1/Deployment", false), ("v1/Secret", true), ("apps/v2/A", true)]
    {
        assert_eq!(disabled(&rules, kind), off, "{kind}");
    }
}

// checklist 20.11
#[test]
fn options_that_make_no_sense_are_rejected() {
    for bad in ["a/b/C/d", "/v1", "v1/", "apps//Deployment", "apps/v1/Job,,CronJob", "v1/,"] {
        let error = TypeRules::read(bad, "").unwrap_err();
        assert_eq!(error, BadTypeRules::Entry(bad.into()));
        assert!(error.to_string().starts_with("cannot read "), "{error}");
    }
    assert_eq!(TypeRules::read("a", "b"), Err(BadTypeRules::Both));
    assert_eq!(TypeRules::read(" ", " "), Ok(TypeRules::default()));
}
