//! Overrides in a rollout: who gets which, and when that makes a binding out of date.

use std::sync::Arc;

use flagship_api::placement_status::ResourceIdentifier;
use serde_json::{Value, json};

use super::fixture::{decided, fixture, snapshot_at, writes};
use crate::model::{Cluster, ResourceSnapshot};
use crate::overrides::tests::{delete_rule, narrow, wide};
use crate::rollout::Observed;

fn resource(kind: &str, namespace: &str, name: &str) -> ResourceIdentifier {
    ResourceIdentifier {
        version: "v1".into(),
        kind: kind.into(),
        name: name.into(),
        namespace: namespace.into(),
        ..ResourceIdentifier::default()
    }
}

/// Clusters `c1` and `c2`, of which `c1` is in production, and a namespace with a ConfigMap.
fn overridden(bindings: &[&str]) -> Observed {
    let spec = json!({"strategy": {"rollingUpdate": {"maxUnavailable": 2, "maxSurge": 0}}});
    let mut seen = fixture(spec, bindings);
    let latest = snapshot_at(&mut seen, 1);
    latest.resources = vec![resource("Namespace", "", "app"), resource("ConfigMap", "app", "cm")];
    for (name, env) in [("c1", "prod"), ("c2", "canary")] {
        let mut cluster = Cluster { name: name.into(), ..Cluster::default() };
        cluster.labels.set("env", env);
        seen.clusters.insert(name.into(), Arc::new(cluster));
    }
    seen
}

fn everywhere() -> Value {
    json!([delete_rule(None)])
}

// checklist 12 rollout decisions: matching overrides are recorded in name order.
#[test]
fn overrides_are_recorded_in_the_order_of_names() {
    let mut seen = overridden(&["c1 Scheduled -", "c2 Scheduled -"]);
    seen.cluster_overrides = vec![
        wide("a-9", "/v1/Namespace/app", everywhere()),
        wide("b-10", "/v1/Namespace/app", everywhere()),
        wide("aa-0", "/v1/Namespace/app", json!([delete_rule(Some("prod"))])),
        wide("z-0", "/v1/Namespace/other", everywhere()),
    ];
    seen.overrides = vec![narrow("ro-0", "/v1/ConfigMap/cm", everywhere())];
    assert_eq!(
        writes(&seen),
        [
            "deliver web-1-snapshot to c1 with a-9 aa-0 b-10 app/ro-0",
            "deliver web-1-snapshot to c2 with a-9 b-10 app/ro-0",
        ]
    );
}

// checklist 12 rollout decisions: empty override lists equal absent ones.
#[test]
fn a_binding_is_out_of_date_when_its_overrides_are_others() {
    let mut seen = overridden(&["c1 Bound 1 ready wide=a-0", "c2 Bound 1 ready"]);
    seen.cluster_overrides =
        vec![wide("a-0", "/v1/Namespace/app", json!([delete_rule(Some("prod"))]))];
    assert_eq!(decided(&seen), [""; 0]);
    // A new version of the override.
    seen.cluster_overrides =
        vec![wide("a-1", "/v1/Namespace/app", json!([delete_rule(Some("prod"))]))];
    assert_eq!(writes(&seen), ["deliver web-1-snapshot to c1 with a-1"]);
    // checklist 12 overrides: override deletion reverts.
    seen.cluster_overrides.clear();
    assert_eq!(writes(&seen), ["deliver web-1-snapshot to c1"]);
}

// ours (11.2 #8): readers pick the highest index when two are latest.
#[test]
fn of_two_latest_snapshots_of_one_override_the_newer_counts() {
    let mut seen = overridden(&["c1 Scheduled -"]);
    seen.cluster_overrides = vec![
        wide("a-10", "/v1/Namespace/app", everywhere()),
        wide("a-9", "/v1/Namespace/app", everywhere()),
        wide("b-1", "/v1/Namespace/elsewhere", everywhere()),
        wide("b-0", "/v1/Namespace/app", everywhere()),
    ];
    assert_eq!(writes(&seen), ["deliver web-1-snapshot to c1 with a-10"]);
}

// checklist 12 rollout decisions: cluster of a binding missing while overrides exist.
#[test]
fn a_cluster_nobody_knows_is_looked_for_again_only_if_overrides_need_it() {
    let mut seen = overridden(&["c3 Scheduled -"]);
    assert_eq!(writes(&seen), ["deliver web-1-snapshot to c3"]);
    seen.cluster_overrides = vec![wide("z-0", "/v1/Namespace/other", everywhere())];
    assert_eq!(writes(&seen), ["deliver web-1-snapshot to c3"]);
    seen.cluster_overrides = vec![wide("a-0", "/v1/Namespace/app", everywhere())];
    assert_eq!(
        decided(&seen),
        [
            "expected behavior which can be recovered by itself: member cluster c3 of c3 is not found"
        ]
    );
}

#[test]
fn overrides_wait_until_all_resources_are_there() {
    let mut seen = overridden(&["c1 Scheduled -"]);
    snapshot_at(&mut seen, 1).count = Some("2".into());
    assert_eq!(writes(&seen), ["deliver web-1-snapshot to c1"]);
    seen.cluster_overrides = vec![wide("a-0", "/v1/Namespace/app", everywhere())];
    assert_eq!(
        decided(&seen),
        [
            "expected behavior which can be recovered by itself: not all resource snapshot in the same \
          index group are created: resource snapshots are still being created for the \
          masterResourceSnapshot web-1-snapshot, total snapshot in the index group = 2, num Of \
          existing snapshot in the group= 1, placement = web"
        ]
    );
    let mut rest = ResourceSnapshot::clone(&seen.resource_snapshots[1]);
    rest.name = "web-1-0".into();
    rest.hash = None;
    rest.count = None;
    rest.subindex = Some("0".into());
    seen.resource_snapshots.push(Arc::new(rest));
    assert_eq!(writes(&seen), ["deliver web-1-snapshot to c1 with a-0"]);
    snapshot_at(&mut seen, 1).count = Some("many".into());
    assert_eq!(
        decided(&seen),
        [
            "unexpected behavior which cannot be handled by the controller: master resource snapshot \
          web-1-snapshot for placement web has an invalid snapshot count many or err strconv.Atoi: parsing \"many\": invalid syntax"
        ]
    );
}

#[test]
fn what_is_inside_an_envelope_can_be_overridden() {
    let mut seen = overridden(&["c1 Scheduled -"]);
    snapshot_at(&mut seen, 1).resources.clear();
    seen.cluster_overrides = vec![wide("a-0", "/v1/PersistentVolume/pv", everywhere())];
    assert_eq!(writes(&seen), ["deliver web-1-snapshot to c1"]);
    snapshot_at(&mut seen, 1).enveloped = vec![resource("PersistentVolume", "", "pv")];
    assert_eq!(writes(&seen), ["deliver web-1-snapshot to c1 with a-0"]);
}

#[test]
fn a_selector_nobody_can_read_stops_the_pass() {
    let mut seen = overridden(&["c1 Scheduled -"]);
    let rules = json!([{"clusterSelector": {"clusterSelectorTerms": [
        {"labelSelector": {"matchExpressions": [{"key": "env", "operator": "Near"}]}},
    ]}, "overrideType": "Delete"}]);
    seen.cluster_overrides = vec![wide("a-0", "/v1/Namespace/app", rules)];
    let told = decided(&seen);
    assert!(
        told[0].starts_with(
            "failed to process the request due to a client error: override snapshot a-0: invalid \
             cluster label selector &LabelSelector{"
        ),
        "{told:?}"
    );
}
