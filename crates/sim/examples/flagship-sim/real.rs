//! A short campaign against a real API server: hubs reach it through a proxy that delays, cuts
//! and refuses, and watches of our own record every write that it accepts. The laws are asked
//! about that record afterwards, write by write.
//!
//! In real time, so it is not the same twice: the seed decides what goes wrong how often. The
//! proxy sits in this process, between a hub's client and the connection: a hub sees of a cut
//! or a lost reply what a broken connection shows, and the server saw the request or did not.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use flagship_api::kinds;
use flagship_hub::{Hub, Options};
use flagship_rules::placement::Batching;
use flagship_runtime::client::Client;
use flagship_runtime::env::{Entropy, Env};
use flagship_runtime::metrics::Metrics;
use flagship_sim::campaign::history::{Judged, Recorded, is_recorded, judged};
use flagship_sim::fleet::Cluster;
use flagship_sim::testing::{CLUSTER, WORK, without_profiles};
use flagship_store::ObjectKey;
use futures::{StreamExt, TryStreamExt};
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use jiff::{SignedDuration, Timestamp};
use kube::api::{Api, ApiResource, DynamicObject, WatchEvent, WatchParams};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower::BoxError;

/// Members, with the stage each is in and after how many seconds what it gets is ready.
const MEMBERS: [(&str, &str, u64); 4] =
    [("m1", "canary", 1), ("m2", "canary", 3), ("m3", "prod", 1), ("m4", "prod", 6)];

/// How long a run may take, and how long a fleet may take to rest.
const PATIENCE: Duration = Duration::from_secs(240);

/// How long nobody may write before a fleet counts as resting.
const REST: Duration = Duration::from_secs(30);

/// What came of it, in words, and whether all laws held.
pub async fn told(kubeconfig: &Path, seed: u64, rounds: u64) -> Result<(String, bool), String> {
    let plain = Client::from_kubeconfig(Some(kubeconfig), None).await;
    let plain = plain.map_err(|error| error.to_string())?;
    let people = Cluster::new("hub", plain.named("people"));
    prepare(&people).await;
    let (record, mut tasks): (Record, _) = (Arc::default(), JoinSet::new());
    for info in kinds::all() {
        let resource = format!("{}.{}", info.plural, info.group);
        if !is_recorded(CLUSTER, &resource) {
            continue;
        }
        let kind = ApiResource {
            group: info.group.to_owned(),
            version: "v1beta1".to_owned(),
            api_version: format!("{}/v1beta1", info.group),
            kind: info.kind.to_owned(),
            plural: info.plural.to_owned(),
        };
        let api = Api::all_with(plain.kube().clone(), &kind);
        let from = present(&api).await.map_err(|error| format!("{resource}: {error}"))?;
        tasks.spawn(watch(api, resource, from, record.clone()));
    }
    // Laws are asked from here on; the first write of a kind is its creation.
    make_placement(&people).await;
    let proxy = Proxy {
        inner: plain.kube().clone(),
        chance: Arc::new(Entropy::seeded(seed)),
        harms: Arc::new(AtomicBool::new(true)),
        counted: Arc::default(),
    };
    for number in 0..2 {
        tasks.spawn(hub(proxy.clone(), number));
    }
    for (name, stage, ready) in MEMBERS {
        people.apply_object(&member(name, stage)).await;
        tasks.spawn(play(people.clone(), name, ready));
    }
    for (name, ..) in MEMBERS {
        people.becomes("memberclusters", "", name, "Joined", "True").await;
    }
    let mut ends = BTreeMap::new();
    for round in 0..rounds {
        // The last one shows that everything works again.
        let harms = round + 1 < rounds;
        proxy.harms.store(harms, Ordering::Relaxed);
        let end = roll_out(&people, round, &proxy.chance).await;
        *ends.entry(end).or_insert(0) += 1;
    }
    let rests = rests(&record).await;
    tasks.shutdown().await;
    let recorded = std::mem::take(&mut *record.lock().expect("nobody panics with it"));
    let judged = judged(CLUSTER, recorded);
    let faults = proxy.counted.lock().expect("nobody panics with it").clone();
    let good = judged.broken.is_empty() && rests && !ends.contains_key(NO_END);
    Ok((report(&judged, &faults, &ends, rests), good))
}

const NO_END: &str = "did not end";

fn report(
    judged: &Judged,
    faults: &BTreeMap<&str, u64>,
    ends: &BTreeMap<String, u64>,
    rests: bool,
) -> String {
    let injected: u64 = faults.values().sum();
    let mut text = format!(
        "{} accepted writes recorded, laws asked {} times, {injected} faults injected\n\
         faults: {faults:?}\nruns: {ends:?}\ntransitions: {:?}\n",
        judged.writes, judged.asked, judged.transitions
    );
    if !rests {
        text += "S16: hubs still write although nothing changes\n";
    }
    judged.broken.iter().for_each(|broken| text += &format!("{broken}\n"));
    if judged.broken.is_empty() {
        text += "no law of a write was broken\n";
    }
    text
}

async fn prepare(people: &Cluster) {
    for info in kinds::all() {
        people.apply_object(&flagship_api::crd::definition(info)).await;
        let name = format!("{}.{}", info.plural, info.group);
        let served = |found: Option<&Value>| {
            let conditions = found.and_then(|found| found["status"]["conditions"].as_array());
            conditions.into_iter().flatten().any(|condition| {
                condition["type"] == "Established" && condition["status"] == "True"
            })
        };
        people.eventually("customresourcedefinitions", "", &name, served).await;
    }
    for name in ["fleet-system", "app"] {
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        people.apply_object(&space).await;
    }
}

async fn make_placement(people: &Cluster) {
    people.apply_object(&content(0)).await;
    let stage = |name: &str, at_once: Value| {
        json!({"name": name, "labelSelector": {"matchLabels": {"env": name}},
            "maxConcurrency": at_once})
    };
    let mut stages = json!([stage("canary", json!(1)), stage("prod", json!("50%"))]);
    stages[0]["afterStageTasks"] = json!([{"type": "Approval"}]);
    let strategy = ours("ClusterStagedUpdateStrategy", "plan", json!({"stages": stages}));
    people.apply_object(&strategy).await;
    let selectors = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]);
    let spec = json!({"resourceSelectors": selectors, "policy": {"placementType": "PickAll"},
        "strategy": {"type": "External"}});
    people.apply_object(&ours("ClusterResourcePlacement", "web", spec)).await;
}

fn ours(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind,
        "metadata": {"name": name}, "spec": spec})
}

fn content(version: u64) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "app"},
        "data": {"version": version.to_string()}})
}

fn member(name: &str, stage: &str) -> Value {
    json!({"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
        "metadata": {"name": name, "labels": {"env": stage}},
        "spec": {"identity": {"kind": "User", "name": format!("{name}-agent"),
            "apiGroup": "rbac.authorization.k8s.io"}, "heartbeatPeriodSeconds": 15}})
}

/// A new version, a run of it, a person who stops, resumes and approves. How it ended.
async fn roll_out(people: &Cluster, round: u64, chance: &Entropy) -> String {
    people.apply_object(&content(round + 1)).await;
    let (runs, name) = ("clusterstagedupdateruns", format!("r{round}"));
    let spec = json!({"placementName": "web", "stagedRolloutStrategyName": "plan", "state": "Run"});
    people.apply_object(&ours("ClusterStagedUpdateRun", &name, spec)).await;
    let steering = async {
        for _ in 0..chance.u64() % 3 {
            sleep(Duration::from_millis(500 + chance.u64() % 6000)).await;
            people.patch(runs, "", &name, json!({"spec": {"state": "Stop"}})).await;
            sleep(Duration::from_millis(500 + chance.u64() % 4000)).await;
            people.patch(runs, "", &name, json!({"spec": {"state": "Run"}})).await;
        }
        loop {
            for request in people.list("clusterapprovalrequests", "").await {
                approve(people, &request).await;
            }
            let run = people.get(runs, "", &name).await;
            let conditions = run["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let said = conditions.iter().find(|condition| {
                let refused = condition["type"] == "Initialized" && condition["status"] == "False";
                let ended = condition["type"] == "Succeeded" && condition["status"] != "Unknown";
                refused || ended
            });
            if let Some(said) = said {
                return said["reason"].as_str().unwrap_or_default().to_owned();
            }
            sleep(Duration::from_secs(1)).await;
        }
    };
    timeout(PATIENCE, steering).await.unwrap_or_else(|_| NO_END.to_owned())
}

async fn approve(people: &Cluster, request: &Value) {
    let (meta, status) = (&request["metadata"], &request["status"]);
    let mut said = status["conditions"].as_array().cloned().unwrap_or_default();
    if said.iter().any(|condition| condition["type"] == "Approved") {
        return;
    }
    said.push(json!({"type": "Approved", "status": "True", "reason": "lgtm", "message": "",
        "observedGeneration": meta["generation"], "lastTransitionTime": now()}));
    let name = meta["name"].as_str().unwrap_or_default();
    people.patch_status("clusterapprovalrequests", "", name, json!({"conditions": said})).await;
}

fn now() -> String {
    Env::system().now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A hub behind the proxy that dies every now and then, as long as things go wrong.
async fn hub(proxy: Proxy, number: u64) {
    let client = proxy.client().named(&format!("hub{number}"));
    let mut options = Options { batching: Batching::NONE, ..without_profiles() };
    options.update_runs.stuck_after = SignedDuration::from_secs(20);
    loop {
        let hub = Hub::new(client.clone(), Env::system(), Metrics::default(), options.clone());
        let life = Duration::from_millis(10_000 + proxy.chance.u64() % 40_000);
        let mut living = std::pin::pin!(hub.run(std::future::pending()));
        while timeout(life, living.as_mut()).await.is_err() {
            if proxy.harms.load(Ordering::Relaxed) {
                proxy.count("crash");
                break;
            }
        }
    }
}

/// A member: it says that it lives, and that what it was given works.
async fn play(people: Cluster, name: &'static str, ready: u64) {
    let space = format!("fleet-member-{name}");
    loop {
        let condition = |kind: &str| {
            json!({"type": kind, "status": "True", "reason": "Agent", "message": "",
                "lastTransitionTime": now()})
        };
        let agent = json!({"type": "MemberAgent", "lastReceivedHeartbeat": now(),
            "conditions": [condition("Joined"), condition("Healthy")]});
        let internal = "internalmemberclusters";
        if people.find(internal, &space, name).await.is_some() {
            people.patch_status(internal, &space, name, json!({"agentStatus": [agent]})).await;
        }
        for _ in 0..10 {
            for work in people.list(WORK, &space).await {
                answer(&people, &space, &work, ready).await;
            }
            sleep(Duration::from_secs(1)).await;
        }
    }
}

async fn answer(people: &Cluster, space: &str, work: &Value, ready: u64) {
    let (meta, generation) = (&work["metadata"], &work["metadata"]["generation"]);
    let said = work["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let told = said.iter().any(|condition| condition["observedGeneration"] == *generation);
    if told || meta.get("deletionTimestamp").is_some() {
        return;
    }
    sleep(Duration::from_secs(ready)).await;
    let condition = |kind: &str, reason: &str| {
        json!({"type": kind, "status": "True", "reason": reason, "message": "",
            "observedGeneration": generation, "lastTransitionTime": now()})
    };
    let conditions = json!([
        condition("Applied", "AllManifestsApplied"),
        condition("Available", "AllManifestsAvailable"),
    ]);
    let name = meta["name"].as_str().unwrap_or_default();
    // It may be gone by now.
    if people.find(WORK, space, name).await.is_some() {
        people.patch_status(WORK, space, name, json!({"conditions": conditions})).await;
    }
}

/// Every write that watches have shown so far.
type Record = Arc<Mutex<Vec<Recorded>>>;

/// The revision a kind is at. A server that has just learned of the kind asks for patience.
async fn present(api: &Api<DynamicObject>) -> Result<String, kube::Error> {
    let mut tries = 0;
    loop {
        match api.list_metadata(&Default::default()).await {
            Ok(listed) => return Ok(listed.metadata.resource_version.unwrap_or_default()),
            Err(error) if tries >= 30 => return Err(error),
            Err(_) => sleep(Duration::from_secs(1)).await,
        }
        tries += 1;
    }
}

/// Records all writes of one kind, each once.
async fn watch(api: Api<DynamicObject>, resource: String, mut from: String, record: Record) {
    loop {
        let Ok(events) = api.watch(&WatchParams::default().timeout(280), &from).await else {
            sleep(Duration::from_secs(1)).await;
            continue;
        };
        let mut events = std::pin::pin!(events);
        while let Ok(Some(event)) = events.try_next().await {
            let (object, is) = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, true),
                WatchEvent::Deleted(object) => (object, false),
                WatchEvent::Bookmark(mark) => {
                    from = mark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(_) => break,
            };
            let meta = &object.metadata;
            let Some(version) = meta.resource_version.clone() else { continue };
            let namespace = meta.namespace.as_deref().unwrap_or_default();
            let key = ObjectKey::new(namespace, meta.name.as_deref().unwrap_or_default());
            let json = is.then(|| serde_json::to_vec(&object).unwrap_or_default());
            let (revision, at) = (version.parse().unwrap_or(0), Env::system().now());
            let write = Recorded { revision, at, resource: resource.clone(), key, json };
            record.lock().expect("nobody panics with it").push(write);
            from = version;
        }
    }
}

/// Whether nobody writes any more but about the lives of members.
async fn rests(record: &Record) -> bool {
    let last = || -> Timestamp {
        let record = record.lock().expect("nobody panics with it");
        let written = record.iter().filter(|write| !write.resource.starts_with("membercluster"));
        written.map(|write| write.at).max().unwrap_or_default()
    };
    let resting = async {
        while Env::system().now().duration_since(last()).unsigned_abs() < REST {
            sleep(Duration::from_secs(1)).await;
        }
    };
    timeout(PATIENCE, resting).await.is_ok()
}

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// Between a hub and its API server.
#[derive(Clone)]
struct Proxy {
    inner: kube::Client,
    chance: Arc<Entropy>,
    /// Whether anything goes wrong at present.
    harms: Arc<AtomicBool>,
    counted: Arc<Mutex<BTreeMap<&'static str, u64>>>,
}

impl Proxy {
    fn client(&self) -> Client {
        let proxy = self.clone();
        Client::in_process(tower::service_fn(move |request| {
            let proxy = proxy.clone();
            async move { proxy.pass(request).await }
        }))
    }

    fn count(&self, fault: &'static str) {
        *self.counted.lock().expect("nobody panics with it").entry(fault).or_default() += 1;
    }

    async fn send(&self, request: Request<Body>) -> Result<Answer, BoxError> {
        let answer = self.inner.send(request).await?;
        Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
    }

    async fn pass(&self, request: Request<Body>) -> Result<Answer, BoxError> {
        if !self.harms.load(Ordering::Relaxed) {
            return self.send(request).await;
        }
        let writes = *request.method() != Method::GET;
        let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        // Out of a thousand.
        let fault = match self.chance.u64() % 1000 {
            0..60 => "slow request",
            60..85 => "429 with Retry-After",
            85..110 => "503",
            110..130 => "refused connection",
            130..160 if writes => "409 conflict",
            160..180 if writes => "500, not done",
            180..220 if writes => "reply lost, done",
            220..225 if writes => "no answer",
            130..430 if watches => "watch cut",
            _ => return self.send(request).await,
        };
        self.count(fault);
        match fault {
            "slow request" => sleep(Duration::from_millis(self.chance.u64() % 3000)).await,
            "429 with Retry-After" => return Ok(refusal(429, "TooManyRequests")),
            "503" => return Ok(refusal(503, "ServiceUnavailable")),
            "500, not done" => return Ok(refusal(500, "InternalError")),
            "409 conflict" => return Ok(refusal(409, "Conflict")),
            "refused connection" => return Err("connection refused by the proxy".into()),
            // The hub gives up before that; what it asked for is done when nobody waits.
            "no answer" => sleep(Duration::from_secs(60)).await,
            _ => {}
        }
        let answer = self.send(request).await?;
        match fault {
            "reply lost, done" => Err("connection cut by the proxy before the reply".into()),
            "watch cut" => {
                let span = Duration::from_millis(200 + self.chance.u64() % 8000);
                let (parts, body) = answer.into_parts();
                let shown = body.into_data_stream();
                let cut = futures::stream::once(async {
                    Err(BoxError::from("connection cut by the proxy"))
                });
                let shown = shown.take_until(sleep(span)).chain(cut);
                let frames = shown.map_ok(http_body::Frame::data);
                Ok(Response::from_parts(parts, StreamBody::new(frames).boxed_unsync()))
            }
            _ => Ok(answer),
        }
    }
}

/// What an API server says that refuses.
fn refusal(code: u16, reason: &str) -> Answer {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "the proxy refuses", "reason": reason, "code": code});
    let builder = Response::builder().status(code).header("Content-Type", "application/json");
    let builder = if code == 429 { builder.header("Retry-After", "1") } else { builder };
    let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {});
    builder.body(body.boxed_unsync()).expect("a plain answer")
}
