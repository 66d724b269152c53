//! Stories told through `kube::Client`: the client that controllers use.

use std::collections::BTreeMap;
use std::time::Duration;

use flagship_apiserver::rest::{ClusterHandle, Server};
use flagship_store::env::Env;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch,
    PatchParams, PostParams, WatchParams,
};
use kube::core::PartialObjectMeta;
use kube::discovery::Discovery;
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Client, ResourceExt};

use crate::harness::gadget_definition;

fn cluster() -> (Server, ClusterHandle) {
    let server = Server::new(Env::simulated(7));
    let handle = server.add_cluster("hub");
    (server, handle)
}

fn client(handle: &ClusterHandle) -> Client {
    Client::new(handle.clone(), "default")
}

fn config(name: &str, value: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.data = Some(BTreeMap::from([("key".to_owned(), value.to_owned())]));
    map
}

#[tokio::test(start_paused = true)]
async fn a_config_map_is_created_read_changed_and_deleted() {
    let (_server, handle) = cluster();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&handle));
    let made = maps.create(&PostParams::default(), &config("a", "1")).await.unwrap();
    assert!(made.uid().is_some());
    assert_eq!(maps.get("a").await.unwrap(), made);

    let mut changed = made.clone();
    changed.data = config("a", "2").data;
    let changed = maps.replace("a", &PostParams::default(), &changed).await.unwrap();
    assert!(changed.resource_version() > made.resource_version());

    let stale = maps.replace("a", &PostParams::default(), &made).await.unwrap_err();
    let kube::Error::Api(status) = stale else { panic!("{stale:?}") };
    assert_eq!(status.reason, "Conflict");

    let patch = Patch::Merge(serde_json::json!({"data": {"key": "3"}}));
    let patched = maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(patched.data, config("a", "3").data);

    maps.delete("a", &DeleteParams::default()).await.unwrap().right().unwrap();
    assert_eq!(maps.get_opt("a").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn every_cluster_begins_with_four_namespaces() {
    let (_server, handle) = cluster();
    let all = Api::<Namespace>::all(client(&handle)).list(&ListParams::default()).await.unwrap();
    let names: Vec<String> = all.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_of_every_change_after_its_revision() {
    let (_server, handle) = cluster();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&handle));
    let made = maps.create(&PostParams::default(), &config("a", "1")).await.unwrap();
    let watch = maps
        .watch(&WatchParams::default().timeout(10), &made.resource_version().unwrap())
        .await
        .unwrap();
    maps.create(&PostParams::default(), &config("b", "1")).await.unwrap();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let seen: Vec<String> = watch
        .map_ok(|event| match event {
            kube::core::WatchEvent::Added(map) => format!("added {}", map.name_any()),
            kube::core::WatchEvent::Modified(map) => format!("modified {}", map.name_any()),
            kube::core::WatchEvent::Deleted(map) => format!("deleted {}", map.name_any()),
            kube::core::WatchEvent::Bookmark(_) => "bookmark".to_owned(),
            kube::core::WatchEvent::Error(error) => error.message,
        })
        .try_collect()
        .await
        .unwrap();
    assert_eq!(seen, ["added b", "deleted a", "bookmark"]);
}

async fn reflects(config_of: watcher::Config) {
    let (_server, handle) = cluster();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&handle));
    maps.create(&PostParams::default(), &config("a", "1")).await.unwrap();
    let (store, writer) = reflector::store();
    let stream = watcher(maps.clone(), config_of).default_backoff();
    let task = tokio::spawn(reflector(writer, stream).applied_objects().for_each(|_| async {}));
    store.wait_until_ready().await.unwrap();
    assert_eq!(store.len(), 1);
    maps.create(&PostParams::default(), &config("b", "1")).await.unwrap();
    // Past several re-watches, and the reflector still follows.
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(store.len(), 2);
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(store.state().iter().map(|map| map.name_any()).collect::<Vec<_>>(), ["b"]);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_reflector_follows_by_list_and_watch() {
    reflects(watcher::Config::default()).await;
}

#[tokio::test(start_paused = true)]
async fn a_reflector_follows_by_streaming_list() {
    reflects(watcher::Config::default().streaming_lists()).await;
}

fn gadgets(client: Client) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("example.com", "v1", "Gadget");
    Api::default_namespaced_with(client, &ApiResource::from_gvk(&gvk))
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_installed_and_used_through_the_client() {
    let (_server, handle) = cluster();
    let client = client(&handle);
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crd: CustomResourceDefinition = serde_json::from_value(gadget_definition()).unwrap();
    let apply = PatchParams::apply("installer").force();
    definitions.patch("gadgets.example.com", &apply, &Patch::Apply(&crd)).await.unwrap();
    let established = await_condition(
        definitions.clone(),
        "gadgets.example.com",
        conditions::is_crd_established(),
    );
    established.await.unwrap();

    let api = gadgets(client.clone());
    let object = serde_json::from_value(crate::harness::gadget("g", 3)).unwrap();
    let mut object: DynamicObject = api.create(&PostParams::default(), &object).await.unwrap();
    assert_eq!(object.data["spec"]["color"], "red");
    object.data["status"] = serde_json::json!({"ready": true});
    let shown = api.replace_status("g", &PostParams::default(), &object).await.unwrap();
    assert_eq!(shown.data["status"]["ready"], true);
    let scale = api.get_scale("g").await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(3));

    let bad = Patch::Merge(serde_json::json!({"spec": {"size": -1}}));
    let refused = api.patch("g", &PatchParams::default(), &bad).await.unwrap_err();
    let kube::Error::Api(status) = refused else { panic!("{refused:?}") };
    assert_eq!(status.reason, "Invalid");
    assert_eq!(status.details.unwrap().causes[0].field, "spec.size");

    let uid = definitions.get("gadgets.example.com").await.unwrap().uid().unwrap();
    let gone = conditions::is_deleted(&uid);
    let deleted = await_condition(definitions.clone(), "gadgets.example.com", gone);
    definitions.delete("gadgets.example.com", &DeleteParams::default()).await.unwrap();
    deleted.await.unwrap();
    let gone = api.get("g").await.unwrap_err();
    assert!(matches!(gone, kube::Error::Api(status) if status.code == 404));
}

#[tokio::test(start_paused = true)]
async fn metadata_is_watched_without_its_object() {
    let (_server, handle) = cluster();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&handle));
    maps.create(&PostParams::default(), &config("a", "1")).await.unwrap();
    let partial: Api<PartialObjectMeta<ConfigMap>> = Api::default_namespaced(client(&handle));
    let mut events = Box::pin(watcher(partial, watcher::Config::default()).applied_objects());
    let first: PartialObjectMeta<ConfigMap> = events.next().await.unwrap().unwrap();
    assert_eq!(first.name_any(), "a");
    maps.create(&PostParams::default(), &config("b", "1")).await.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap().name_any(), "b");
}

#[tokio::test(start_paused = true)]
async fn the_client_discovers_what_is_served() {
    let (_server, handle) = cluster();
    let local = handle.local("test");
    local
        .create("customresourcedefinitions.apiextensions.k8s.io", "", gadget_definition())
        .await
        .unwrap();
    let plain = Discovery::new(client(&handle)).run().await.unwrap();
    let merged = Discovery::new(client(&handle)).run_aggregated().await.unwrap();
    for discovery in [plain, merged] {
        for (group, version, kind) in
            [("", "v1", "Pod"), ("apps", "v1", "Deployment"), ("example.com", "v1", "Gadget")]
        {
            let gvk = GroupVersionKind::gvk(group, version, kind);
            let (resource, capabilities) = discovery.resolve_gvk(&gvk).unwrap();
            assert!(capabilities.supports_operation("watch"), "{}", resource.plural);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_reflector_survives_the_wiping_of_its_cluster() {
    let (server, handle) = cluster();
    // Through the whole server, so that the client reaches whatever stands there now.
    let service = tower::util::MapRequest::new(
        server.service(),
        |mut request: http::Request<kube::client::Body>| {
            let target =
                request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
            *request.uri_mut() = format!("/clusters/hub{target}").parse().unwrap();
            request
        },
    );
    let maps: Api<ConfigMap> = Api::default_namespaced(Client::new(service, "default"));
    maps.create(&PostParams::default(), &config("before", "1")).await.unwrap();
    for n in 0..10 {
        maps.create(&PostParams::default(), &config(&format!("filler-{n}"), "1")).await.unwrap();
    }
    let (store, writer) = reflector::store();
    let stream = watcher(maps.clone(), watcher::Config::default()).default_backoff();
    let task = tokio::spawn(reflector(writer, stream).applied_objects().for_each(|_| async {}));
    store.wait_until_ready().await.unwrap();
    assert_eq!(store.len(), 11);
    drop(handle);
    server.add_cluster("hub");
    maps.create(&PostParams::default(), &config("after", "1")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(store.state().iter().map(|map| map.name_any()).collect::<Vec<_>>(), ["after"]);
    task.abort();
}
