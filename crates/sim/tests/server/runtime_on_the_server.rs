//! The runtime on the embedded server: reflectors under faults, leases under
//! partitions, types that come and go, and controllers that race.
//!
//! Here, because neither crate may know the other.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flagship_api::names::ObjectKey;
use flagship_apiserver::rest::{ClusterHandle, Server};
use flagship_runtime::client::{Client, Precondition, Propagation, ResourceType, Selection};
use flagship_runtime::dynamic::{Dynamic, DynamicConfig, ServedType};
use flagship_runtime::effects::{PendingWrites, Writer};
use flagship_runtime::env::{Entropy, Env};
use flagship_runtime::error_action::Failure;
use flagship_runtime::events::{EventType, Recorder};
use flagship_runtime::lease::{Candidate, Ended, Leadership, LeaseConfig};
use flagship_runtime::metrics::Metrics;
use flagship_runtime::queue::{Outcome, Queue, QueueConfig, Workers};
use flagship_runtime::reflector::{Reflector, Store};
use flagship_sim::testing::sometimes;
use flagship_store::env::plan::{Effect, FaultPlan, Rule, Verbs, When};
use flagship_store::env::{self as server_env, FaultOutcome as Fault, Point};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{DynamicObject, GroupVersionKind, PartialObjectMeta};
use serde_json::json;
use tokio::time::{Instant, sleep};

/// One cluster whose faults can be changed, and an environment for its clients.
struct TestCluster {
    hub: ClusterHandle,
    plan: Arc<FaultPlan>,
    env: Env,
    _server: Server,
}

impl TestCluster {
    fn new(seed: u64) -> Self {
        let plain = server_env::Env::simulated(seed);
        let plan = Arc::new(FaultPlan::new(seed, plain.clock.clone(), Vec::new()));
        let server = Server::new(plain.with_faults(plan.clone()));
        let hub = server.add_cluster("hub");
        Self { hub, plan, env: Env::simulated(seed), _server: server }
    }

    fn client(&self, who: &str) -> Client {
        Client::in_process(self.hub.called_by(who)).named(who)
    }

    fn mirror(&self) -> Store<String> {
        let maps = self.client("mirror").of::<ConfigMap>();
        let reflector = Reflector::new(&self.env, maps, Selection::all(), |map: ConfigMap| {
            Some(format!("{}@{}", text(&map), map.metadata.resource_version?))
        });
        let store = reflector.store();
        tokio::spawn(reflector.run());
        store
    }
}

fn text(map: &ConfigMap) -> String {
    map.data.as_ref().and_then(|data| data.get("text").cloned()).unwrap_or_default()
}

fn map(name: &str, text: &str) -> ConfigMap {
    let object =
        json!({"metadata": {"namespace": "default", "name": name}, "data": {"text": text}});
    serde_json::from_value(object).unwrap()
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A user who creates, changes and deletes at random, undisturbed.
async fn user(client: Client, entropy: Entropy, steps: usize) {
    let maps = client.of::<ConfigMap>();
    for step in 0..steps {
        let key = ObjectKey::namespaced("default", &format!("map-{}", entropy.u64() % 6));
        match (maps.find(&key).await.unwrap(), entropy.u64() % 3) {
            (None, _) => drop(maps.create(&map(&key.name, &step.to_string())).await.unwrap()),
            (Some(old), 0) => {
                let precondition = Precondition::of(&old).unwrap();
                maps.delete(&precondition, Propagation::Background).await.unwrap();
            }
            (Some(old), _) => {
                let patch = json!({"data": {"text": step.to_string()}});
                maps.patch(&Precondition::of(&old).unwrap(), patch).await.unwrap();
            }
        }
        sleep(Duration::from_millis(entropy.u64() % 20_000)).await;
    }
}

fn faults_of_watching() -> Vec<Rule> {
    let rule = |point, effect, chance, verbs| sometimes("mirror", point, effect, chance, verbs);
    vec![
        rule(Point::WatchEvent, Effect::Do(Fault::Expire), 0.03, Verbs::Any),
        rule(Point::WatchEvent, Effect::Do(Fault::Sever), 0.05, Verbs::Any),
        rule(Point::WatchEvent, Effect::DelayUpTo(seconds(90)), 0.2, Verbs::Any),
        rule(Point::WatchStart, Effect::Do(Fault::Expire), 0.1, Verbs::Any),
        rule(Point::WatchStart, Effect::Do(Fault::Replay(5)), 0.3, Verbs::Any),
        rule(Point::Request, Effect::Do(Fault::Sever), 0.1, Verbs::Reads),
        rule(Point::Request, Effect::Do(Fault::Hang), 0.03, Verbs::Reads),
    ]
}

/// Lets a mirror run under faults, then heals; returns all it told, in order.
async fn mirrored(seed: u64) -> Vec<String> {
    let cluster = TestCluster::new(seed);
    let store = cluster.mirror();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let (log, begun) = (told.clone(), Instant::now());
    let subscription = store.subscribe(move |change| {
        let said = format!("{:?} {} {:?}", begun.elapsed(), change.key, change.new);
        log.lock().unwrap().push(said);
    });
    cluster.plan.replace(faults_of_watching());
    user(cluster.client("user"), Entropy::seeded(seed), 200).await;
    cluster.plan.heal();
    sleep(seconds(600)).await;
    let listed = cluster.client("user").of::<ConfigMap>().list(&Selection::all()).await.unwrap();
    let expected: Vec<_> = listed
        .items
        .iter()
        .map(|map| format!("{}@{}", text(map), map.metadata.resource_version.as_ref().unwrap()))
        .collect();
    let held: Vec<_> = store.all().iter().map(|(_, value)| value.to_string()).collect();
    assert_eq!(held, expected, "seed {seed}");
    drop(subscription);
    std::mem::take(&mut *told.lock().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_mirror_shows_what_a_list_shows_once_faults_end() {
    for seed in 0..6 {
        mirrored(seed).await;
    }
}

#[test]
fn the_same_seed_tells_the_same_changes_at_the_same_times() {
    let run = |seed| {
        let builder = &mut tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(mirrored(seed))
    };
    let (one, two, other) = (run(3), run(3), run(4));
    assert_eq!(one, two);
    assert_ne!(one, other);
}

#[tokio::test(start_paused = true)]
async fn a_list_is_streamed_from_the_embedded_server() {
    let cluster = TestCluster::new(1);
    let maps = cluster.client("user").of::<ConfigMap>();
    for n in 0..5 {
        maps.create(&map(&format!("m{n}"), "x")).await.unwrap();
    }
    // Plain lists never answer: only a streamed one can fill the mirror.
    let plain = Rule {
        who: "mirror".to_owned(),
        verbs: Verbs::Only(vec!["list".to_owned()]),
        ..Rule::at(Point::Request, Effect::Do(Fault::Hang))
    };
    cluster.plan.replace(vec![plain]);
    let store = cluster.mirror();
    store.synced().await;
    assert_eq!(store.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn racing_controllers_lose_no_update() {
    let cluster = TestCluster::new(1);
    cluster.client("user").of::<ConfigMap>().create(&map("count", "0")).await.unwrap();
    let unsure = |point, fault| Rule {
        who: "racer-*".to_owned(),
        verbs: Verbs::Writes,
        when: When::Chance(0.2),
        ..Rule::at(point, Effect::Do(fault))
    };
    let rules = [unsure(Point::PreCommit, Fault::Sever), unsure(Point::PostCommit, Fault::Sever)];
    cluster.plan.replace(rules.to_vec());
    let metrics = Metrics::default();
    let mut runs = Vec::new();
    for racer in 0..3 {
        let queue = Queue::new(QueueConfig::named("racer"), &metrics);
        let client = cluster.client(&format!("racer-{racer}"));
        // Marks of increments make a repeated one harmless, as fences do for bindings.
        (0..20).for_each(|n| queue.add(format!("racer-{racer}-{n}")));
        let workers = Workers::new(queue.clone(), 4, &metrics);
        runs.push(tokio::spawn(async move {
            let stop = async {
                sleep(seconds(3600)).await;
                queue.close();
            };
            let work = workers.run(move |mark: String| {
                let client = client.clone();
                async move { increment(&client, &mark).await }
            });
            tokio::join!(work, stop);
        }));
    }
    for run in runs {
        run.await.unwrap();
    }
    let key = ObjectKey::namespaced("default", "count");
    let count = cluster.client("user").of::<ConfigMap>().get(&key).await.unwrap();
    assert_eq!(text(&count), "60");
    assert_eq!(count.metadata.annotations.unwrap().len(), 60);
}

async fn increment(client: &Client, mark: &str) -> Result<Outcome, Failure> {
    let maps = client.of::<ConfigMap>();
    let mut count = maps.get(&ObjectKey::namespaced("default", "count")).await?;
    if count
        .metadata
        .annotations
        .get_or_insert_default()
        .insert(mark.to_owned(), String::new())
        .is_some()
    {
        return Ok(Outcome::Done);
    }
    let next = text(&count).parse::<u64>().unwrap() + 1;
    count.data = Some(BTreeMap::from([("text".to_owned(), next.to_string())]));
    maps.update(&count).await?;
    Ok(Outcome::Done)
}

#[tokio::test(start_paused = true)]
async fn two_hubs_never_lead_at_once_however_the_network_behaves() {
    for seed in 0..4 {
        let cluster = TestCluster::new(seed);
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": "fleet-system"}})).unwrap();
        cluster.client("user").of::<Namespace>().create(&namespace).await.unwrap();
        let cut = |who: &str, chance, effect| Rule {
            who: who.to_owned(),
            when: When::Chance(chance),
            ..Rule::at(Point::Request, effect)
        };
        cluster.plan.replace(vec![
            cut("hub-*", 0.5, Effect::Do(Fault::Hang)),
            cut("hub-*", 0.3, Effect::DelayUpTo(seconds(12))),
            Rule {
                verbs: Verbs::Writes,
                when: When::Chance(0.3),
                ..Rule::at(Point::PostCommit, Effect::DelayUpTo(seconds(12)))
            },
        ]);
        let leading: Arc<Mutex<BTreeMap<usize, Leadership>>> = Arc::default();
        let changes = Arc::new(Mutex::new(0));
        for hub in 0..3 {
            let client = cluster.client(&format!("hub-{hub}"));
            let config = LeaseConfig::new(&cluster.env, "hub", &format!("hub-{hub}"));
            let mut candidate = Candidate::new(&client, &cluster.env, config);
            let (leading, changes) = (leading.clone(), changes.clone());
            tokio::spawn(async move {
                loop {
                    let ended: Ended<()> = candidate
                        .lead(std::future::pending(), async |leadership| {
                            *changes.lock().unwrap() += 1;
                            leading.lock().unwrap().insert(hub, leadership);
                            std::future::pending::<()>().await;
                        })
                        .await;
                    assert_eq!(ended, Ended::Lost);
                }
            });
        }
        for _ in 0..10_000 {
            sleep(Duration::from_millis(100)).await;
            let leading = leading.lock().unwrap();
            let held: Vec<_> = leading.iter().filter(|(_, leader)| leader.is_held()).collect();
            assert!(held.len() <= 1, "seed {seed}");
        }
        assert!(*changes.lock().unwrap() > 3, "seed {seed}: the network was not bad enough");
    }
}

#[tokio::test(start_paused = true)]
async fn a_type_is_mirrored_as_soon_as_it_is_defined_and_dropped_when_it_is_gone() {
    let cluster = TestCluster::new(1);
    let user = cluster.client("user");
    let dynamic = Dynamic::new(
        &cluster.client("mirror"),
        &cluster.env,
        DynamicConfig { metadata_only: true, ..DynamicConfig::default() },
        |_: &ServedType| true,
        |_, object: PartialObjectMeta<DynamicObject>| object.metadata.name,
    );
    let registry = dynamic.registry();
    tokio::spawn(dynamic.run());
    registry.synced().await;
    let config_maps = GroupVersionKind::gvk("", "v1", "ConfigMap");
    let gadgets = GroupVersionKind::gvk("example.com", "v1", "Gadget");
    assert!(registry.store(&config_maps).unwrap().is_empty());
    assert!(registry.find(&gadgets).is_none());
    sleep(seconds(7)).await;

    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    }))
    .unwrap();
    user.of::<CustomResourceDefinition>().create(&definition).await.unwrap();
    sleep(seconds(3)).await;
    let found = registry.find(&gadgets).expect("found at once, not at the next regular look");
    let store = registry.store(&gadgets).unwrap();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = told.clone();
    let _subscription = registry.subscribe(move |served, change| {
        if served.resource.kind == "Gadget" {
            let sign = if change.new.is_some() { '+' } else { '-' };
            log.lock().unwrap().push(format!("{sign}{}", change.key));
        }
    });
    let objects = user.of_type::<DynamicObject>(found.resource.clone());
    let one: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "example.com/v1", "kind": "Gadget",
        "metadata": {"namespace": "default", "name": "one"},
    }))
    .unwrap();
    objects.create(&one).await.unwrap();
    sleep(seconds(1)).await;
    assert_eq!(store.len(), 1);

    let key = ObjectKey::cluster("gadgets.example.com");
    let definitions = user.of::<CustomResourceDefinition>();
    definitions.delete_anyway(&key, Propagation::Background).await.unwrap();
    sleep(seconds(100)).await;
    assert!(registry.find(&gadgets).is_none());
    assert!(registry.mirrors().iter().all(|(served, _)| served.resource != found.resource));
    assert_eq!(*told.lock().unwrap(), ["+default/one", "-default/one"]);
}

#[tokio::test(start_paused = true)]
async fn a_pass_waits_for_a_lagging_cache_to_show_its_write() {
    let cluster = TestCluster::new(1);
    let (store, client) = (cluster.mirror(), cluster.client("hub"));
    store.synced().await;
    let lag = Rule {
        who: "mirror".to_owned(),
        ..Rule::at(Point::WatchEvent, Effect::Do(Fault::Delay(seconds(5))))
    };
    cluster.plan.replace(vec![lag]);
    let (pass, leadership) = (ObjectKey::cluster("web"), Leadership::uncontested());
    let seen = PendingWrites::default();
    seen.shown_by(ResourceType::of::<ConfigMap>(), &store);
    let writer = Writer::new(&client, &leadership, &seen, &pass);
    writer.create(&map("a", "x")).await.unwrap();
    let key = ObjectKey::namespaced("default", "a");
    assert!(store.get(&key).is_none());
    seen.caught_up(&pass).await;
    assert!(store.get(&key).is_some());

    let stored = client.of::<ConfigMap>().get(&key).await.unwrap();
    writer
        .delete::<ConfigMap>(&Precondition::of(&stored).unwrap(), Propagation::Background)
        .await
        .unwrap();
    assert!(store.get(&key).is_some());
    seen.caught_up(&pass).await;
    assert!(store.get(&key).is_none());
}

#[tokio::test(start_paused = true)]
async fn repeated_events_are_one_object_with_a_count() {
    let cluster = TestCluster::new(1);
    let client = cluster.client("hub");
    let about = client.of::<ConfigMap>().create(&map("a", "x")).await.unwrap();
    let recorder =
        Recorder::new(&client, &cluster.env, &Metrics::default(), "placement-controller");
    let running = recorder.clone();
    tokio::spawn(async move { running.run().await });
    for _ in 0..4 {
        recorder.note(&about, EventType::Warning, "Stuck", "still waiting for member1");
        sleep(seconds(60)).await;
    }
    let events = client.of::<Event>().list(&Selection::namespace("default")).await.unwrap();
    assert_eq!(recorder.dropped(), 0);
    assert_eq!(events.items.len(), 1);
    let event = &events.items[0];
    assert_eq!((event.count, event.reason.as_deref()), (Some(4), Some("Stuck")));
    assert_eq!(event.involved_object.uid, about.metadata.uid);
}
