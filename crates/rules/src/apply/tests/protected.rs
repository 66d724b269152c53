//! What the agent itself lives by.

use expect_test::expect;
use serde_json::{Value, json};

use super::fixture::{Fixture, config_map};
use crate::apply::{Step, begin};

fn object(api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
    let mut metadata = json!({"name": name});
    if !namespace.is_empty() {
        metadata["namespace"] = json!(namespace);
    }
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata})
}

fn binding(kind: &str, namespace: &str, account: (&str, &str)) -> Value {
    let mut binding = object("rbac.authorization.k8s.io/v1", kind, namespace, "b");
    binding["roleRef"] = json!({"kind": "ClusterRole", "name": "cluster-admin"});
    binding["subjects"] =
        json!([{"kind": "ServiceAccount", "namespace": account.0, "name": account.1}]);
    binding
}

fn fixture(strategy: Value, manifests: &[Value]) -> Fixture {
    let mut fixture = Fixture::new(strategy, manifests);
    fixture.kinds.extend([
        ("AppliedWork", "appliedworks"),
        ("Lease", "leases"),
        ("ClusterRole", "clusterroles"),
        ("ClusterRoleBinding", "clusterrolebindings"),
    ]);
    fixture
}

// laws 2.7: a manifest that targets the agent's own namespace, role or definitions
#[test]
fn what_the_agent_lives_by_is_refused_and_the_rest_is_applied() {
    let placement = "placement.kubernetes-fleet.io/v1beta1";
    let mut fixture = fixture(
        json!({}),
        &[
            object(placement, "AppliedWork", "", "work"),
            object("placement.kubernetes-fleet.io/v1", "AppliedWork", "", "other"),
            object(
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                "",
                "appliedworks.placement.kubernetes-fleet.io",
            ),
            object("v1", "Namespace", "", "fleet-system"),
            object("apps/v1", "Deployment", "fleet-system", "member-agent"),
            object(
                "coordination.k8s.io/v1",
                "Lease",
                "kube-system",
                "136224848560.member.fleet.azure.com",
            ),
            binding("ClusterRoleBinding", "", ("fleet-system", "member-agent-sa")),
            config_map("good", json!({})),
            object("v1", "Namespace", "", "fleet-system-2"),
            binding("RoleBinding", "app", ("app", "runner")),
        ],
    );
    fixture.pass();
    assert_eq!(
        fixture.done(),
        ["Create Namespace fleet-system-2", "Create ConfigMap good", "Create RoleBinding b"]
    );
    expect![[r#"
        Applied=False SomeManifestsAreNotApplied: Failed to apply all manifests (3 of 10 manifests are applied)
        #0 AppliedWork work
          Applied=False ManifestApplyFailed @0: Failed to apply the manifest (error: failed to apply the manifest: AppliedWork work belongs to the member agent, and no placement may touch it)
        #1 AppliedWork other
          Applied=False ManifestApplyFailed @0: Failed to apply the manifest (error: failed to apply the manifest: AppliedWork other belongs to the member agent, and no placement may touch it)
        #2 CustomResourceDefinition appliedworks.placement.kubernetes-fleet.io
          Applied=False ManifestApplyFailed @0: Failed to apply the manifest (error: failed to apply the manifest: CustomResourceDefinition appliedworks.placement.kubernetes-fleet.io belongs to the member agent, and no placement may touch it)
        #3 Namespace fleet-system
          Applied=False ManifestApplyFailed @0: Failed to apply the manifest (error: failed to apply the manifest: Namespace fleet-system belongs to the member agent, and no placement may touch it)
        #4 Deployment member-agent
          Applied=False ManifestApplyFailed @0: Failed to apply the manifest (error: failed to apply the manifest: Deployment fleet-system/member-agent belongs to the member agent, and no placement may touch it)
        #5 Lease 136224848560.member.fleet.azure.com
          Applied=False ManifestApplyFailed @0: Failed to apply the manifest (error: failed to apply the manifest: Lease kube-system/136224848560.member.fleet.azure.com belongs to the member agent, and no placement may touch it)
        #6 ClusterRoleBinding b
          Applied=False ManifestApplyFailed @0: Failed to apply the manifest (error: failed to apply the manifest: ClusterRoleBinding b gives rights to the member agent, which no placement may)
        #7 ConfigMap good
          Applied=True Applied @0: Manifest has been applied successfully
          Available=True Available @0: Manifest is available
        #8 Namespace fleet-system-2
          Applied=True Applied @0: Manifest has been applied successfully
          Available=True Available @0: Manifest is available
        #9 RoleBinding b
          Applied=True Applied @0: Manifest has been applied successfully
          Available=True Available @0: Manifest is available
    "#]].assert_eq(&fixture.told());
}

#[test]
fn in_a_comparison_they_block_the_report() {
    let strategy = json!({"type": "ReportDiff"});
    let mut fixture = fixture(strategy, &[object("v1", "Namespace", "", "fleet-system")]);
    fixture.exists(object("v1", "Namespace", "", "fleet-system"));
    let before = fixture.member.clone();
    fixture.pass();
    assert_eq!(fixture.member, before, "no owner was added");
    expect![[r#"
        DiffReported=False SomeManifestsHaveNotReportedDiff: Failed to report diff on all manifests (0 of 1 manifests have reported diff)
        #0 Namespace fleet-system
          DiffReported=False FailedToReportDiff @0: An error blocks the diff reporting process (ManifestApplyFailed, error: failed to apply the manifest: Namespace fleet-system belongs to the member agent, and no placement may touch it)
    "#]].assert_eq(&fixture.told());
}

#[test]
fn an_agent_that_lives_elsewhere_is_at_home_there() {
    let fixture = fixture(
        json!({}),
        &[object("v1", "Namespace", "", "fleet-system"), object("v1", "Namespace", "", "agents")],
    );
    let terms = fixture.terms().at_home_in("agents");
    let manifests = fixture.read();
    assert!(matches!(begin(&manifests[0], &terms), Step::Find(_)));
    assert!(matches!(begin(&manifests[1], &terms), Step::Done(_)));
}

#[test]
fn objects_that_say_they_are_the_agents_are_not_taken_over() {
    let role = || object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "member-agent-role");
    let mut marked = role();
    marked["metadata"]["labels"] = json!({"flagship.dev/agent": ""});
    let ours = binding("ClusterRoleBinding", "", ("app", "runner"));
    let theirs = binding("ClusterRoleBinding", "", ("fleet-system", "member-agent-sa"));
    for (manifest, live) in [(role(), marked), (ours, theirs)] {
        let mut fixture = fixture(json!({}), &[manifest]);
        fixture.exists(live);
        let before = fixture.member.clone();
        fixture.pass();
        assert_eq!(fixture.member, before);
        assert_eq!(fixture.reasons(), ["FailedToTakeOver"]);
        let told = fixture.told();
        assert!(
            told.contains(
                "(error: failed to take over a pre-existing object: the object belongs to the \
                 member agent)"
            ),
            "{told}"
        );
    }
}
