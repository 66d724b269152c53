//! Who may touch what a hub lives on: guard rails and admission policies of an embedded hub.

use flagship_apiserver::rest::{DeleteOptions, Local, PatchKind, WriteOptions};
use flagship_base::machinery::status::ApiError;
use flagship_fleet::HubAdmission;
use flagship_hub::{Options, policies};
use flagship_rules::admission::guard_rails;
use flagship_runtime::client::Client;
use flagship_sim::fleet::{Fleet, FleetConfig, HUB};
use flagship_sim::testing::{CLUSTERS, TestHub, WORK};
use serde_json::{Value, json};

const POLICIES: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
const BINDINGS: &str = "validatingadmissionpolicybindings.admissionregistration.k8s.io";
const PEOPLE: &[&str] = &["system:authenticated"];

async fn guarded(seed: u64) -> (TestHub, Local) {
    let rails = guard_rails::Options { administrators: vec!["root".into()], ..Default::default() };
    let options = Options { guard_rails: Some(rails), ..Options::default() };
    let test_hub = TestHub::running(seed).await;
    HubAdmission::install(&test_hub.hub, &options);
    let person = test_hub.hub.local_as("ana", PEOPLE);
    (test_hub, person)
}

fn told<T: std::fmt::Debug>(refused: Result<T, ApiError>) -> String {
    let refused = refused.expect_err("it is refused");
    format!("{} {}: {}", refused.code, refused.reason, refused.message)
}

fn denial(rail: &str, rest: &str) -> String {
    format!(
        "403 Forbidden: admission webhook \"{rail}\" denied the request: user: 'ana' in 'groups: [system:authenticated]' is not allowed to {rest}"
    )
}

async fn patch(who: &Local, at: (&str, &str, &str, &str), patch: Value) -> Result<Value, ApiError> {
    let (resource, namespace, name, sub) = at;
    let options = WriteOptions::default();
    who.patch(resource, namespace, name, sub, PatchKind::Merge, patch, &options).await
}

fn config_map() -> Value {
    json!({"metadata": {"name": "c"}, "data": {"a": "b"}})
}

// checklist fleet 12.40, 12.44, 12.45
#[tokio::test(start_paused = true)]
async fn what_the_fleet_lives_on_is_kept_from_people() {
    let (test_hub, person) = guarded(91).await;
    let system = "fleet.fleetsystemnamespacedresources.guardrail.validating";
    assert_eq!(
        told(person.create("configmaps", "fleet-system", config_map()).await),
        denial(system, "CREATE resource /v1, Kind=ConfigMap/: fleet-system/c")
    );
    person.create("configmaps", "app", config_map()).await.expect("it is no matter of the fleet");
    for groups in [&["system:masters"][..], &["system:serviceaccounts"], &["system:nodes"]] {
        let trusted = test_hub.hub.local_as("somebody", groups);
        let object = json!({"metadata": {"generateName": "c-"}});
        trusted.create("configmaps", "fleet-system", object).await.expect("they are trusted");
    }
    let root = test_hub.hub.local_as("root", PEOPLE);
    root.create("configmaps", "fleet-system", config_map()).await.expect("it is on the list");
    assert_eq!(
        told(person.delete("configmaps", "fleet-system", "c", DeleteOptions::default()).await),
        denial(system, "DELETE resource /v1, Kind=ConfigMap/: fleet-system/c")
    );
    let space = json!({"metadata": {"name": "kube-mine"}});
    assert_eq!(
        told(person.create("namespaces", "", space).await),
        denial(
            "fleet.namespace.guardrail.validating",
            "CREATE resource /v1, Kind=Namespace/: /kube-mine"
        )
    );
    let definitions = "customresourcedefinitions.apiextensions.k8s.io";
    let account = test_hub.hub.local_as("system:serviceaccount:a:b", &["system:serviceaccounts"]);
    let name = "works.placement.kubernetes-fleet.io";
    let refused = told(account.delete(definitions, "", name, DeleteOptions::default()).await);
    assert!(refused.contains("fleet.customresourcedefinition.guardrail.validating"), "{refused}");
}

// checklist fleet 12.41, 12.42, 12.58
#[tokio::test(start_paused = true)]
async fn members_are_changed_by_those_who_may() {
    let (test_hub, person) = guarded(92).await;
    let member = json!({"apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "MemberCluster", "metadata": {"name": "m1"},
        "spec": {"identity": {"kind": "User", "name": "m1-agent"}}});
    person.create(CLUSTERS, "", member).await.expect("anybody may bring a member");
    test_hub.settle().await;
    let rail = "fleet.membercluster.guardrail.validating";
    let status = json!({"status": {"conditions": [{"type": "Joined", "status": "True",
        "reason": "Mine", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    assert_eq!(
        told(patch(&person, (CLUSTERS, "", "m1", "status"), status).await),
        denial(
            rail,
            "UPDATE resource cluster.kubernetes-fleet.io/v1beta1, Kind=MemberCluster/status: /m1"
        )
    );
    let claim = json!({"metadata": {"annotations": {"fleet.azure.com/x": "y"}}});
    assert_eq!(
        told(patch(&person, (CLUSTERS, "", "m1", ""), claim).await),
        format!(
            "403 Forbidden: admission webhook \"{rail}\" denied the request: no user is allowed to add a fleet pre-fixed annotation to an upstream member cluster"
        )
    );
    patch(&person, (CLUSTERS, "", "m1", ""), json!({"spec": {"heartbeatPeriodSeconds": 30}}))
        .await
        .expect("a spec of no service's member is anybody's");
}

// checklist fleet 12.43
#[tokio::test(start_paused = true)]
async fn a_members_namespace_is_its_agents() {
    let (test_hub, person) = guarded(93).await;
    let spec = json!({"identity": {"kind": "User", "name": "m1-agent"}});
    test_hub.create(CLUSTERS, json!({"metadata": {"name": "m1"}, "spec": spec})).await;
    test_hub.settle().await;
    let work = |name: &str| {
        json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "Work",
            "metadata": {"name": name}, "spec": {}})
    };
    let space = "fleet-member-m1";
    assert_eq!(
        told(person.create(WORK, space, work("w")).await),
        denial(
            "fleet.fleetmembernamespacedresources.guardrail.validating",
            "CREATE resource placement.kubernetes-fleet.io/v1beta1, Kind=Work/: fleet-member-m1/w"
        )
    );
    let agent = test_hub.hub.local_as("m1-agent", PEOPLE);
    agent.create(WORK, space, work("w")).await.expect("it is the agent's own");
    let other = test_hub.hub.local_as("m2-agent", PEOPLE);
    told(patch(&other, (WORK, space, "w", ""), json!({"metadata": {"labels": {"a": "b"}}})).await);
}

// checklist fleet 12.51
#[tokio::test(start_paused = true)]
async fn policies_are_installed_kept_and_taken_away() {
    let test_hub = TestHub::new(94).await;
    let client = Client::in_process(test_hub.hub.called_by("hub"));
    // Twice, as a hub that starts again does.
    for _ in 0..2 {
        policies::install(&client, &test_hub.env, &policies::Config::default()).await.unwrap();
    }
    assert_eq!((test_hub.list(POLICIES, "").len(), test_hub.list(BINDINGS, "").len()), (2, 2));
    let pod = json!({"metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let refused = told(test_hub.user.create("pods", "app", pod.clone()).await);
    assert!(
        refused.ends_with("creating pods and replicas is disallowed in the fleet hub cluster"),
        "{refused}"
    );
    test_hub.user.create("pods", "fleet-system", pod).await.expect("the namespace is reserved");
    let person = test_hub.hub.local_as("ana", PEOPLE);
    let account = json!({"metadata": {"name": "mine"}});
    let refused = told(person.create("serviceaccounts", "fleet-system", account.clone()).await);
    assert!(refused.contains("writing service accounts in reserved namespaces"), "{refused}");
    person.create("serviceaccounts", "app", account).await.expect("no reserved namespace");
    // A policy that is no longer wanted goes; what others made stays.
    let other = json!({"metadata": {"name": "others"}, "spec": {"matchConstraints": {
        "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["nodes"],
            "operations": ["CREATE"]}]}, "validations": [{"expression": "true"}]}});
    test_hub.user.create(POLICIES, "", other).await.unwrap();
    let config = policies::Config { accounts: None, ..Default::default() };
    policies::install(&client, &test_hub.env, &config).await.unwrap();
    assert_eq!((test_hub.list(POLICIES, "").len(), test_hub.list(BINDINGS, "").len()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn an_embedded_fleet_has_the_guard_rails_and_policies_it_is_told_to_have() {
    let mut config = FleetConfig::of(0);
    config.hub_admission = true;
    config.policies = Some(policies::Config::default());
    config.hub.guard_rails = Some(guard_rails::Options::default());
    let fleet = Fleet::new(config).await;
    assert_eq!(fleet.clusters.hub.list(POLICIES, "").await.len(), 2);
    let person = fleet.handle(HUB).local_as("ana", PEOPLE);
    let refused = told(person.create("configmaps", "fleet-system", config_map()).await);
    assert!(refused.contains("guardrail.validating"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn records_are_written_by_the_hub_alone() {
    let test_hub = TestHub::running(94).await;
    HubAdmission::install(&test_hub.hub, &Options::default());
    let (hub, kind) = (test_hub.hub.local("flagship-hub"), "clusterrolloutrecords.flagship.dev");
    let record = || {
        json!({"apiVersion": "flagship.dev/v1alpha1", "kind": "ClusterRolloutRecord",
            "metadata": {"name": "r"},
            "spec": {"run": {"name": "r", "uid": "u"}, "part": 1,
                "plan": {"placement": "p", "strategy": "s", "snapshot": "0", "stages": [],
                    "hash": ""}, "entries": []}})
    };
    let root = test_hub.hub.local_as("root", &["system:masters", "system:authenticated"]);
    let ana = test_hub.hub.local_as("ana", PEOPLE);
    let edit = json!({"spec": {"plan": {"snapshot": "9"}}});
    for who in [&root, &ana] {
        let refused = told(who.create(kind, "", record()).await);
        assert!(refused.contains("the hub alone writes them"), "{refused}");
    }
    hub.create(kind, "", record()).await.expect("it is the hub's");
    for who in [&root, &ana] {
        let refused = told(patch(who, (kind, "", "r", ""), edit.clone()).await);
        assert!(refused.contains("a record stays as the hub wrote it"), "{refused}");
    }
    let refused = told(ana.delete(kind, "", "r", DeleteOptions::default()).await);
    assert!(refused.contains("an administrator (group system:masters) may delete it"), "{refused}");
    patch(&hub, (kind, "", "r", ""), edit).await.expect("it is the hub's");
    root.delete(kind, "", "r", DeleteOptions::default()).await.expect("administrators may");
}
