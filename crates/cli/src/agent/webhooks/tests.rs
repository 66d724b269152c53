//! An API server that asks over HTTPS is answered as one that asks in the process.

use std::sync::Arc;

use flagship_api::names::ObjectKey;
use flagship_apiserver::rest::Local;
use flagship_hub::admission::{Admission, Options};
use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use flagship_runtime::metrics::Metrics;
use flagship_sim::fleet::{Fleet, FleetConfig, HUB};
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::registration::{not_injected, register};
use super::review::Asked;
use super::shared::SharedCertificate;
use super::{Certificate, Judging, Reach, Trust, Webhooks, registration};

const CRP: &str = "clusterresourceplacements.placement.kubernetes-fleet.io";
const VALIDATING: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";
const MUTATING: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io";

fn placement(name: &str, spec: Value) -> Value {
    let mut object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement", "metadata": {"name": name}, "spec": spec});
    object["spec"]["resourceSelectors"] =
        json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]);
    object
}

fn lenient() -> Judging {
    let options = Options { pod_disruption_budgets: true, ..Options::default() };
    Judging { options, ..Judging::default() }
}

async fn names(user: &Local, resource: &str, name: &str) -> Vec<String> {
    let found = user.get(resource, "", name).await.expect("it was registered");
    let all = found["webhooks"].as_array().cloned().unwrap_or_default();
    all.iter().map(|one| one["name"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn an_api_server_that_asks_over_https_is_answered() {
    let fleet = Fleet::new(FleetConfig::of(0).without_admission().real_time()).await;
    let handle = fleet.handle(HUB);
    let (client, env) = (Client::in_process(handle.called_by("hub")), Env::system());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let reach = Reach::Here(listener.local_addr().unwrap());
    let webhooks =
        Webhooks::on(listener, &client, &env, lenient(), reach.clone(), Certificate::Own)
            .await
            .unwrap();
    let trust = webhooks.trust.clone();
    // Nobody leads, so nothing is registered but what this test registers itself.
    let metrics = Metrics::default();
    let hub = flagship_hub::Hub::new(client.clone(), env, metrics.clone(), Default::default());
    let _serving = webhooks.serve(hub, metrics.clone());
    // Twice, as a hub that starts again does.
    for _ in 0..2 {
        register(&client, &lenient(), &reach, &trust).await.unwrap();
    }
    let user = handle.local("user");
    let mutating = names(&user, MUTATING, "fleet-mutating-webhook-configuration").await;
    assert_eq!(mutating[0], "fleet.clusterresourceplacementv1beta1.mutating");
    assert_eq!(mutating.len(), 8);
    let validating = names(&user, VALIDATING, "fleet-validating-webhook-configuration").await;
    assert_eq!(validating.len(), 14);
    let owner = user.get(VALIDATING, "", "fleet-validating-webhook-configuration").await.unwrap();
    assert_eq!(owner["metadata"]["ownerReferences"][0]["name"], "fleet-system");

    let made = user.create(CRP, "", placement("web", json!({}))).await.unwrap();
    assert_eq!(made["spec"]["policy"], json!({"placementType": "PickAll"}));
    assert_eq!(made["spec"]["strategy"]["rollingUpdate"]["maxSurge"], "25%");
    let twice = json!({"policy": {"placementType": "PickFixed", "clusterNames": ["a", "a"]}});
    let refused = user.create(CRP, "", placement("twice", twice)).await.unwrap_err();
    assert_eq!(
        (refused.code, refused.reason, refused.message.as_str()),
        (
            403,
            "Forbidden",
            "admission webhook \"fleet.clusterresourceplacementv1beta1.validating\" denied the request: deny create/update v1beta1 CRP has invalid fields the placement policy field is invalid: cluster names must be unique for policy type PickFixed"
        )
    );
    // Both placements were completed and judged, and all four reviews are counted.
    let said = metrics.render();
    for path in ["mutate", "validate"] {
        let path =
            format!("/{path}-placement.kubernetes-fleet.io-v1beta1-clusterresourceplacement");
        let line = format!(
            "controller_runtime_webhook_requests_total{{code=\"200\",webhook=\"{path}\"}} 2"
        );
        assert!(said.lines().any(|one| one == line), "{line}: {said}");
    }
    assert!(said.contains("controller_runtime_webhook_latency_seconds_count"), "{said}");
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let refused = user.create("pods", "default", pod).await.unwrap_err();
    assert_eq!(
        refused.message,
        "admission webhook \"fleet.pod.validating\" denied the request: Pod default/p creation is disallowed in the fleet hub cluster"
    );
    // What is deleted comes as the old object.
    let member = json!({"apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "MemberCluster", "metadata": {"name": "m"},
        "spec": {"identity": {"kind": "User", "name": "m"}}});
    let members = "memberclusters.cluster.kubernetes-fleet.io";
    user.create(members, "", member).await.unwrap();
    user.delete(members, "", "m", Default::default()).await.unwrap();
}

#[tokio::test]
async fn two_hubs_fit_one_host() {
    let fleet = Fleet::new(FleetConfig::of(0).without_admission().real_time()).await;
    let (client, env) = (Client::in_process(fleet.handle(HUB).called_by("hub")), Env::system());
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let listen = async |host: &str| {
        let (reach, port) = (Reach::Here(taken), taken.port());
        Webhooks::listen(&client, &env, lenient(), reach, (host, port), Certificate::Own).await
    };
    let first = listen("127.0.0.1").await.unwrap();
    let _second = listen("127.0.0.2").await.unwrap();
    let refused = listen("127.0.0.1").await.err().unwrap().to_string();
    assert!(
        refused.contains("--webhook-port and --webhook-bind-address choose another place"),
        "{refused}"
    );
    drop(first);
}

// checklist fleet 12.40, 12.58
#[tokio::test]
async fn guard_rails_judge_by_the_sender_over_https() {
    let fleet = Fleet::new(FleetConfig::of(0).without_admission().real_time()).await;
    let handle = fleet.handle(HUB);
    let (client, env) = (Client::in_process(handle.called_by("hub")), Env::system());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let reach = Reach::Here(listener.local_addr().unwrap());
    let judging = Judging { guard_rails: Some(Arc::default()), ..lenient() };
    let webhooks =
        Webhooks::on(listener, &client, &env, judging.clone(), reach.clone(), Certificate::Own)
            .await
            .unwrap();
    let trust = webhooks.trust.clone();
    let hub = flagship_hub::Hub::new(client.clone(), env, Metrics::default(), Default::default());
    let _serving = webhooks.serve(hub, Metrics::default());
    register(&client, &judging, &reach, &trust).await.unwrap();
    let user = handle.local("user");
    const RAILS: &str = "fleet-guard-rail-webhook-configuration";
    let names = names(&user, VALIDATING, RAILS).await;
    assert_eq!((names.len(), names[5].as_str()), (6, "fleet.namespace.guardrail.validating"));

    let person = handle.local_as("ana", &["system:authenticated"]);
    let map = json!({"metadata": {"name": "c"}});
    let refused = person.create("configmaps", "fleet-system", map.clone()).await.unwrap_err();
    assert_eq!(
        (refused.code, refused.reason, refused.message.as_str()),
        (
            403,
            "Forbidden",
            "admission webhook \"fleet.fleetsystemnamespacedresources.guardrail.validating\" denied the request: user: 'ana' in 'groups: [system:authenticated]' is not allowed to CREATE resource /v1, Kind=ConfigMap/: fleet-system/c"
        )
    );
    person.create("configmaps", "default", map.clone()).await.unwrap();
    user.create("configmaps", "fleet-system", map).await.expect("system:masters is trusted");
    // Sent in v1, it is judged in v1beta1 and named as sent.
    let kind = |version: &str| json!({"group": "cluster.kubernetes-fleet.io", "version": version, "kind": "MemberCluster"});
    let asked = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {
        "uid": "u", "operation": "CREATE", "name": "m", "kind": kind("v1beta1"),
        "requestKind": kind("v1"), "userInfo": {"username": "ana", "groups": ["people"]},
        "object": {"metadata": {"name": "m", "annotations": {"fleet.azure.com/x": "y"}},
            "spec": {"identity": {"kind": "User", "name": "m"}}}}});
    let asked = Asked::read(asked.to_string().as_bytes()).unwrap();
    let admission = Admission::new(&client, Options::default());
    let answer = asked.guarded(&admission, &Default::default()).await;
    assert_eq!(
        answer["response"]["status"]["message"],
        "user: 'ana' in 'groups: [people]' is not allowed to CREATE resource cluster.kubernetes-fleet.io/v1, Kind=MemberCluster/: /m"
    );
    // Without guard rails the API server is no longer told to ask.
    register(&client, &lenient(), &reach, &trust).await.unwrap();
    assert!(user.get(VALIDATING, "", RAILS).await.is_err());
}

/// What an embedded hub refuses in the process, a real API server refuses by asking.
#[tokio::test]
async fn records_are_kept_from_everybody_but_the_hub_over_https() {
    let fleet = Fleet::new(FleetConfig::of(0).without_admission().real_time()).await;
    let handle = fleet.handle(HUB);
    let (client, env) = (Client::in_process(handle.called_by("hub")), Env::system());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let reach = Reach::Here(listener.local_addr().unwrap());
    let judging = Judging { hub_user: Some("hub-agent".to_owned()), ..lenient() };
    let made =
        Webhooks::on(listener, &client, &env, judging.clone(), reach.clone(), Certificate::Own);
    let webhooks = made.await.unwrap();
    let trust = webhooks.trust.clone();
    let hub = flagship_hub::Hub::new(client.clone(), env, Metrics::default(), Default::default());
    let serving = webhooks.serve(hub, Metrics::default());
    register(&client, &judging, &reach, &trust).await.unwrap();
    let people = ["system:authenticated"];
    let (hub, person) = (handle.local_as("hub-agent", &people), handle.local_as("ana", &people));
    let (admin, cleaner) = (
        handle.local("admin"),
        handle.local_as("system:serviceaccount:kube-system:namespace-controller", &people),
    );
    for (kind, plural, space) in [
        ("ClusterRolloutRecord", "clusterrolloutrecords", ""),
        ("RolloutRecord", "rolloutrecords", "default"),
    ] {
        let resource = format!("{plural}.flagship.dev");
        let plan = json!({"placement": "web", "strategy": "s", "snapshot": "0", "stages": [],
            "hash": ""});
        let object = |name: &str| {
            json!({"apiVersion": "flagship.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": space},
            "spec": {"run": {"name": name, "uid": "u"}, "part": 1, "entries": [], "plan": plan}})
        };
        let webhook = format!("flagship.{}.validating", kind.to_lowercase());
        let refused = |told: &str, why: &str| {
            let begins = format!("admission webhook \"{webhook}\" denied the request: {kind} ");
            assert!(told.starts_with(&begins) && told.contains(why), "{told}");
        };
        let told = person.create(&resource, space, object("r")).await.unwrap_err();
        assert_eq!((told.code, told.reason), (403, "Forbidden"));
        refused(&told.message, "r cannot be created: records tell what the hub did");
        let made = hub.create(&resource, space, object("r")).await.unwrap();
        let mut changed = made.clone();
        changed["spec"]["plan"]["snapshot"] = json!("7");
        for who in [&person, &admin, &cleaner] {
            let told = who.update(&resource, changed.clone()).await.unwrap_err();
            refused(&told.message, "r cannot be changed: a record stays as the hub wrote it");
        }
        let told = person.delete(&resource, space, "r", Default::default()).await.unwrap_err();
        refused(&told.message, "r cannot be deleted: it is the account of what a run did");
        hub.update(&resource, changed).await.unwrap();
        admin.delete(&resource, space, "r", Default::default()).await.unwrap();
        hub.create(&resource, space, object("s")).await.unwrap();
        cleaner.delete(&resource, space, "s", Default::default()).await.unwrap();
    }
    // The hub and what cleans up are not asked about at all: records are written, and namespaces
    // go, while no webhook answers.
    drop(serving);
    let late = json!({"apiVersion": "flagship.dev/v1alpha1", "kind": "RolloutRecord",
        "metadata": {"name": "late", "namespace": "default"},
        "spec": {"run": {"name": "late", "uid": "u"}, "part": 1, "entries": [],
            "plan": {"placement": "web", "strategy": "s", "snapshot": "0", "stages": [], "hash": ""}}});
    hub.create("rolloutrecords.flagship.dev", "default", late).await.unwrap();
    let gone = |who: Local| async move {
        who.delete("rolloutrecords.flagship.dev", "default", "late", Default::default()).await
    };
    assert!(gone(person).await.is_err(), "nobody else writes while nobody answers");
    gone(cleaner).await.unwrap();
}

#[test]
fn the_api_server_is_told_to_come_through_the_service_or_by_its_name() {
    let (name, namespace) = ("fleetwebhook".to_owned(), "fleet-system".to_owned());
    let service = Reach::Service { name: name.clone(), namespace: namespace.clone(), port: 9443 };
    let url = Reach::Url { name, namespace, port: 9443 };
    let config = |reach: &Reach| {
        let trust = Trust::Bundle("ca".to_owned());
        registration::entries(&lenient(), reach, &trust, true)[0]["clientConfig"].clone()
    };
    let path = "/mutate-placement.kubernetes-fleet.io-v1beta1-clusterresourceplacement";
    assert_eq!(
        config(&service),
        json!({"caBundle": "Y2E=", "service":
            {"name": "fleetwebhook", "namespace": "fleet-system", "port": 9443, "path": path}})
    );
    let at = format!("https://fleetwebhook.fleet-system.svc.cluster.local:9443{path}");
    assert_eq!(config(&url), json!({"caBundle": "Y2E=", "url": at}));
    for reach in [service, url] {
        assert_eq!(
            reach.names(),
            ["fleetwebhook.fleet-system.svc.cluster.local", "fleetwebhook.fleet-system.svc"]
        );
    }
}

#[tokio::test]
async fn a_hub_with_cert_manager_leaves_the_authority_to_it() {
    let fleet = Fleet::new(FleetConfig::of(0).without_admission()).await;
    let handle = fleet.handle(HUB);
    let client = Client::in_process(handle.called_by("hub"));
    let (name, namespace) = ("fleetwebhook".into(), "fleet".into());
    let reach = Reach::Service { name, namespace, port: 9443 };
    let (mutating, validating) =
        ("fleet-mutating-webhook-configuration", "fleet-validating-webhook-configuration");
    assert_eq!(
        not_injected(&client).await.unwrap(),
        format!("MutatingWebhookConfiguration {mutating} is not registered yet")
    );
    register(&client, &lenient(), &reach, &Trust::Injected).await.unwrap();
    assert_eq!(
        not_injected(&client).await.unwrap(),
        format!(
            "MutatingWebhookConfiguration {mutating} webhook \
            fleet.clusterresourceplacementv1beta1.mutating is missing CA bundle \
            (cert-manager injection pending)"
        )
    );
    let user = handle.local("cert-manager");
    for (resource, name) in [(MUTATING, mutating), (VALIDATING, validating)] {
        let mut found = user.get(resource, "", name).await.unwrap();
        assert_eq!(
            found["metadata"]["annotations"],
            json!({"cert-manager.io/inject-ca-from": "fleet/fleet-webhook-certificate"})
        );
        for webhook in found["webhooks"].as_array_mut().unwrap() {
            webhook["clientConfig"]["caBundle"] = json!("Y2E=");
        }
        user.update(resource, found).await.unwrap();
    }
    assert_eq!(not_injected(&client).await, None);
    // A hub that starts again does not take away what was injected.
    register(&client, &lenient(), &reach, &Trust::Injected).await.unwrap();
    assert_eq!(not_injected(&client).await, None);
}

#[tokio::test]
async fn every_replica_shows_the_certificate_of_the_secret() {
    let fleet = Fleet::new(FleetConfig::of(0).without_admission().real_time()).await;
    let handle = fleet.handle(HUB);
    let (client, env) = (Client::in_process(handle.called_by("hub")), Env::system());
    let secret = ObjectKey::namespaced("fleet-system", "fleet-webhook-certificate");
    let hub = flagship_hub::Hub::new(client.clone(), env, Metrics::default(), Default::default());
    let mut replicas = Vec::new();
    for _ in 0..2 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let reach = Reach::Here(listener.local_addr().unwrap());
        let certificate = Certificate::Shared(secret.clone());
        let env = Env::system();
        let made = Webhooks::on(listener, &client, &env, lenient(), reach.clone(), certificate);
        let webhooks = made.await.unwrap();
        let trust = webhooks.trust.clone();
        replicas.push((reach, trust, webhooks.serve(hub.clone(), Metrics::default())));
    }
    assert_eq!(replicas[0].1, replicas[1].1, "they trust the same authority");
    // What the first tells the API server holds for the second.
    let user = handle.local("user");
    for (number, replica) in [&replicas[0], &replicas[1]].into_iter().enumerate() {
        register(&client, &lenient(), &replica.0, &replicas[0].1).await.unwrap();
        let made = user.create(CRP, "", placement(&format!("web{number}"), json!({}))).await;
        assert_eq!(made.unwrap()["spec"]["policy"], json!({"placementType": "PickAll"}));
    }
}

#[tokio::test]
async fn a_certificate_is_replaced_before_it_ends_and_the_old_authority_stays_trusted() {
    let fleet = Fleet::new(FleetConfig::of(0).without_admission()).await;
    let client = Client::in_process(fleet.handle(HUB).called_by("hub"));
    let secret = ObjectKey::namespaced("fleet-system", "hooks");
    let names = |name: &str| vec![name.to_owned()];
    let at = |years: i64, name: &str| {
        let (env, _) = fleet.env.skewed(SignedDuration::from_hours(24 * 365 * years));
        SharedCertificate::new(&client, &env, secret.clone(), names(name))
    };
    let first = at(0, "hooks.svc").obtain().await.unwrap();
    assert!(at(0, "hooks.svc").obtain().await.unwrap() == first, "it is kept");
    assert!(at(9, "hooks.svc").obtain().await.unwrap() == first, "it lasts");
    let second = at(10, "hooks.svc").obtain().await.unwrap();
    assert!(second.shown != first.shown);
    assert!(second.bundle.ends_with(first.authority()));
    assert_ne!(second.authority(), first.authority());
    // Another name needs another certificate; of authorities the last two are trusted.
    let third = at(10, "other.svc").obtain().await.unwrap();
    assert!(third.bundle.ends_with(second.authority()));
    assert!(!third.bundle.contains(first.authority()));
}
