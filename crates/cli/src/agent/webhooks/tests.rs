//! An API server that asks over HTTPS is answered as one that asks in the process.

use flagship_apiserver::rest::Local;
use flagship_hub::admission::Options;
use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use flagship_runtime::metrics::Metrics;
use flagship_sim::fleet::{Fleet, FleetConfig, HUB};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{Reach, Webhooks, registration};

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

fn lenient() -> Options {
    Options { pod_disruption_budgets: true, ..Options::default() }
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
    let webhooks = Webhooks::on(listener, &client, &env, lenient(), reach.clone()).unwrap();
    let ca = webhooks.authority.certificate_pem().to_owned();
    // Nobody leads, so nothing is registered but what this test registers itself.
    let hub = flagship_hub::Hub::new(client.clone(), env, Metrics::default(), Default::default());
    let _serving = webhooks.serve(hub);
    // Twice, as a hub that starts again does.
    for _ in 0..2 {
        registration::register(&client, lenient(), &reach, &ca).await.unwrap();
    }
    let user = handle.local("user");
    let mutating = names(&user, MUTATING, "fleet-mutating-webhook-configuration").await;
    assert_eq!(mutating, ["fleet.clusterresourceplacementv1beta1.mutating"]);
    let validating = names(&user, VALIDATING, "fleet-validating-webhook-configuration").await;
    assert_eq!(validating.len(), 9);
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

#[test]
fn the_api_server_is_told_to_come_through_the_service_or_by_its_name() {
    let (name, namespace) = ("fleetwebhook".to_owned(), "fleet-system".to_owned());
    let service = Reach::Service { name: name.clone(), namespace: namespace.clone() };
    let url = Reach::Url { name, namespace };
    let config = |reach: &Reach| {
        let all = registration::configuration("c", lenient(), reach, "ca", true);
        all["webhooks"][0]["clientConfig"].clone()
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
