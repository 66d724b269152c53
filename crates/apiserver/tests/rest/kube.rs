//! Stories told through `kube::Client`: the client that controllers use.

use std::collections::BTreeMap;
use std::time::Duration;

use flagship_apiserver::env::Env;
use flagship_apiserver::rest::{ClusterHandle, Server};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Client, ResourceExt};

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
