//! A placement in a namespace reaches that namespace and nothing else, whatever its
//! snapshots say: a tenant may have written them.

use serde_json::{Value, json};

use super::fixture::{Fixture, map, raw};
use crate::work::Retry;

const FLEET: &str = "placement.kubernetes-fleet.io/v1beta1";

fn administrator(namespace: Value) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "evil", "namespace": namespace},
        "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}})
}

fn bare() -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "evil"}})
}

fn map_in(namespace: &str) -> Value {
    let mut map = map("evil", "1");
    map["metadata"]["namespace"] = namespace.into();
    map
}

fn envelope(kind: &str, namespace: Option<&str>, wrapped: Value) -> Value {
    let mut envelope = json!({"apiVersion": FLEET, "kind": kind, "metadata": {"name": "env"},
        "data": {"o": wrapped}});
    if let Some(namespace) = namespace {
        envelope["metadata"]["namespace"] = namespace.into();
    }
    envelope
}

fn told(cause: &str) -> String {
    format!(
        "WorkSynchronized False SyncWorkFailed: Failed to synchronize the work to the latest: \
         {cause}"
    )
}

#[test]
fn a_placement_in_a_namespace_places_nothing_else() {
    let only = "resourcePlacement app/web places only what is in its namespace, and ";
    let table = [
        (bare(), format!("{only}ClusterRoleBinding \"evil\" is cluster-scoped")),
        (administrator(Value::Null), format!("{only}Unknown \"\" is cluster-scoped")),
        (administrator("".into()), format!("{only}ClusterRoleBinding \"evil\" is cluster-scoped")),
        (
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "app"}}),
            format!("{only}Namespace \"app\" is cluster-scoped"),
        ),
        (
            map_in("kube-system"),
            format!(
                "{only}ConfigMap \"evil\" in namespace \"kube-system\" is in another namespace"
            ),
        ),
        (
            map_in("App"),
            format!("{only}ConfigMap \"evil\" in namespace \"App\" is in another namespace"),
        ),
        (
            map_in("app/../kube-system"),
            format!(
                "{only}ConfigMap \"evil\" in namespace \"app/../kube-system\" is in another \
                 namespace"
            ),
        ),
        (json!("text"), format!("{only}Unknown \"\" is cluster-scoped")),
        // Envelopes, by what they are and by what they hold.
        (
            envelope("ClusterResourceEnvelope", None, bare()),
            format!("{only}ClusterResourceEnvelope \"env\" holds cluster-scoped objects"),
        ),
        (
            envelope("ClusterResourceEnvelope", Some("app"), bare()),
            format!(
                "{only}ClusterResourceEnvelope \"env\" in namespace \"app\" holds cluster-scoped \
                 objects"
            ),
        ),
        (
            envelope("ResourceEnvelope", None, bare()),
            format!("{only}ResourceEnvelope \"env\" is cluster-scoped"),
        ),
        (
            envelope("ResourceEnvelope", Some("kube-system"), map_in("kube-system")),
            format!(
                "{only}ResourceEnvelope \"env\" in namespace \"kube-system\" is in another \
                 namespace"
            ),
        ),
        (
            envelope("ResourceEnvelope", Some("app"), bare()),
            "a cluster scope object o (evil) has been wrapped in a resource envelope app/env"
                .into(),
        ),
        (
            envelope("ResourceEnvelope", Some("app"), map_in("kube-system")),
            "a namespaced object o (kube-system/evil) in has been wrapped in a resource envelope \
             from another namespace (app/env)"
                .into(),
        ),
    ];
    for (bad, cause) in table {
        let mut fixture = Fixture::in_namespace().delivered(&[&[map("one", "1")]]);
        fixture.snapshot(1, &[&[map("one", "2")], &[bad]]);
        fixture.bind(1);
        assert_eq!(fixture.pass().trouble.unwrap().retry, Retry::Never, "{cause}");
        assert_eq!(fixture.works(), ["app.web-work (0, 1): one"], "{cause}");
        assert_eq!(fixture.last(), told(&cause));
    }
}

#[test]
fn what_stands_in_the_namespace_is_placed() {
    let wrapped = envelope("ResourceEnvelope", Some("app"), map("two", "2"));
    let fixture = Fixture::in_namespace().delivered(&[&[map("one", "1"), wrapped]]);
    assert!(fixture.last().starts_with("Applied False ApplyInProgress"), "{}", fixture.last());
    assert_eq!(fixture.works().len(), 2);
}

#[test]
fn a_placement_of_the_whole_cluster_is_not_held_to_a_namespace() {
    let group = [bare(), map_in("kube-system"), envelope("ClusterResourceEnvelope", None, bare())];
    let fixture = Fixture::cluster_wide().delivered(&[&group]);
    assert_eq!(fixture.works().len(), 2);
}

// A hub of an older release wrote these; no label of theirs tells.
#[test]
fn a_work_that_reaches_out_of_its_namespace_is_rendered_anew_or_removed() {
    for escaped in [bare(), map_in("kube-system")] {
        let mut fixture = Fixture::in_namespace().delivered(&[&[map("one", "1")]]);
        let carry = |fixture: &mut Fixture| {
            let work = fixture.objects.get_mut("app.web-work").unwrap();
            work.spec.workload.manifests = vec![raw(&map("one", "1")), raw(&escaped)];
            fixture.writes.clear();
        };
        carry(&mut fixture);
        fixture.pass();
        assert_eq!(fixture.writes, ["update app.web-work"]);
        assert_eq!(fixture.works(), ["app.web-work (0, 2): one"]);
        fixture.pass();
        assert_eq!(fixture.writes.len(), 1);
        // What it was made of is refused today.
        fixture.snapshot(1, &[&[map("one", "2"), escaped.clone()]]);
        fixture.bind(1);
        carry(&mut fixture);
        assert!(fixture.pass().trouble.is_some());
        assert_eq!(fixture.writes, ["delete app.web-work"]);
        assert!(fixture.works().is_empty());
        fixture.pass();
        assert_eq!(fixture.writes.len(), 1);
    }
}
