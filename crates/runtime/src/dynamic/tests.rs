//! Types that come, go and fail, against a server with a changing menu.

use std::convert::Infallible;
use std::sync::Mutex;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use kube::client::Body;
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use super::*;
use crate::fake::status;

/// A server whose discovery documents can be changed. Each resource has one object.
#[derive(Clone, Default)]
struct Menu(Arc<Mutex<Docs>>);

/// Plurals with their kinds.
type Types = Vec<(&'static str, &'static str)>;

#[derive(Default)]
struct Docs {
    /// Versions by group; a group of `None` fails.
    groups: BTreeMap<&'static str, Option<Vec<(&'static str, Types)>>>,
    aggregated: bool,
    down: bool,
    looks: u32,
}

impl Menu {
    fn set(
        &self,
        group: &'static str,
        versions: &[(&'static str, &[(&'static str, &'static str)])],
    ) {
        let versions = versions.iter().map(|(version, types)| (*version, types.to_vec())).collect();
        self.0.lock().unwrap().groups.insert(group, Some(versions));
    }

    fn fail(&self, group: &'static str) {
        self.0.lock().unwrap().groups.insert(group, None);
    }

    fn remove(&self, group: &'static str) {
        self.0.lock().unwrap().groups.remove(group);
    }

    fn answer(&self, path: &str) -> (u16, Value) {
        let mut docs = self.0.lock().unwrap();
        if docs.down {
            return (503, status(503, "ServiceUnavailable"));
        }
        let parts: Vec<_> = path.trim_start_matches('/').split('/').collect();
        match parts.as_slice() {
            ["api"] if docs.aggregated => (200, docs.list(|group| group.is_empty())),
            ["apis"] if docs.aggregated => {
                docs.looks += 1;
                (200, docs.list(|group| !group.is_empty()))
            }
            ["api"] => (
                200,
                json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
            ),
            ["apis"] => {
                docs.looks += 1;
                let names = docs.groups.keys().filter(|group| !group.is_empty());
                let groups: Vec<_> = names
                    .map(|group| {
                        let versions = docs.groups[group].clone().unwrap_or(vec![("v1", vec![])]);
                        let list: Vec<_> = versions.iter().map(|(version, _)| {
                        json!({"groupVersion": format!("{group}/{version}"), "version": version})
                    }).collect();
                        json!({"name": group, "versions": list, "preferredVersion": list[0]})
                    })
                    .collect();
                (200, json!({"kind": "APIGroupList", "groups": groups}))
            }
            ["api", version] => docs.resources("", version),
            ["apis", group, version] => docs.resources(group, version),
            ["apis", "apiextensions.k8s.io", ..] => (404, status(404, "NotFound")),
            _ => {
                let meta = json!({"name": "one", "uid": "u", "resourceVersion": "5"});
                let list =
                    json!({"metadata": {"resourceVersion": "7"}, "items": [{"metadata": meta}]});
                (200, list)
            }
        }
    }
}

impl Docs {
    fn list(&self, pick: impl Fn(&str) -> bool) -> Value {
        let groups = self.groups.iter().filter(|(group, _)| pick(group));
        let items: Vec<_> = groups
            .map(|(group, versions)| {
                let stale = versions.is_none();
                let versions = versions.clone().unwrap_or(vec![("v1", vec![])]);
                let versions: Vec<_> = versions
                    .iter()
                    .map(|(version, types)| {
                        let types: Vec<_> = types.iter().map(|(plural, kind)| json!({
                    "resource": plural, "scope": "Namespaced", "verbs": verbs(plural),
                    "responseKind": {"group": group, "version": version, "kind": kind},
                })).collect();
                        let freshness = if stale { "Stale" } else { "Current" };
                        json!({"version": version, "freshness": freshness, "resources": types})
                    })
                    .collect();
                json!({"metadata": {"name": group}, "versions": versions})
            })
            .collect();
        json!({"kind": "APIGroupDiscoveryList", "metadata": {}, "items": items})
    }

    fn resources(&self, group: &str, version: &str) -> (u16, Value) {
        let Some(Some(versions)) = self.groups.get(group) else {
            return (503, status(503, "ServiceUnavailable"));
        };
        let types = versions.iter().find(|(name, _)| *name == version).map(|(_, types)| types);
        let types: Vec<_> = types.into_iter().flatten().map(|(plural, kind)| json!({
            "name": plural, "singularName": "", "namespaced": true, "kind": kind, "verbs": verbs(plural),
        })).collect();
        (200, json!({"kind": "APIResourceList", "groupVersion": version, "resources": types}))
    }
}

fn verbs(plural: &str) -> Vec<&'static str> {
    if plural == "reviews" { vec!["create"] } else { vec!["get", "list", "watch"] }
}

type Frames = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

impl tower::Service<Request<Body>> for Menu {
    type Response = Response<Frames>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let (code, answer) = self.answer(request.uri().path());
        let body = if watch && code == 200 {
            stream::pending().boxed()
        } else {
            stream::iter([Ok(Frame::data(Bytes::from(answer.to_string())))]).boxed()
        };
        std::future::ready(Ok(Response::builder()
            .status(code)
            .body(StreamBody::new(body))
            .unwrap()))
    }
}

type Log = Arc<Mutex<Vec<String>>>;

fn mirror(menu: &Menu) -> (Registry<()>, Log, DynamicSubscription) {
    let reflector = ReflectorConfig { streamed_lists: false, ..ReflectorConfig::default() };
    let config = DynamicConfig { reflector, ..DynamicConfig::default() };
    let wanted = |found: &ServedType| found.resource.plural != "events";
    let dynamic = Dynamic::new(
        &Client::in_process(menu.clone()),
        &Env::simulated(1),
        config,
        wanted,
        |_, _: PartialObjectMeta<DynamicObject>| Some(()),
    );
    let registry = dynamic.registry();
    let log = Log::default();
    let (told, begun) = (log.clone(), tokio::time::Instant::now());
    let known = registry.clone();
    let subscription = registry.subscribe(move |served, change| {
        // Handlers may ask back.
        known.mirrors();
        let sign = if change.new.is_some() { '+' } else { '-' };
        let seconds = begun.elapsed().as_secs();
        told.lock().unwrap().push(format!("{seconds}s {sign}{} {}", served.resource, change.key));
    });
    tokio::spawn(dynamic.run());
    (registry, log, subscription)
}

fn names(registry: &Registry<()>) -> String {
    let mirrors = registry.mirrors();
    mirrors.iter().map(|(served, _)| served.resource.to_string()).collect::<Vec<_>>().join(" ")
}

async fn after(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn basic(aggregated: bool) -> Menu {
    let menu = Menu::default();
    menu.0.lock().unwrap().aggregated = aggregated;
    menu.set("", &[("v1", &[("configmaps", "ConfigMap"), ("events", "Event")])]);
    menu.set(
        "apps",
        &[
            ("v1", &[("deployments", "Deployment"), ("reviews", "Review")]),
            ("v1beta1", &[("deployments", "Deployment"), ("oldthings", "OldThing")]),
        ],
    );
    menu
}

#[tokio::test(start_paused = true)]
async fn wanted_types_are_mirrored_in_the_version_the_server_prefers() {
    for aggregated in [true, false] {
        let menu = basic(aggregated);
        let (registry, log, _subscription) = mirror(&menu);
        assert_eq!(
            registry.readiness().to_string(),
            "resource informer not ready: no resources registered"
        );
        registry.synced().await;
        assert_eq!(
            names(&registry),
            "configmaps/v1 deployments.apps/v1 oldthings.apps/v1beta1",
            "aggregated {aggregated}"
        );
        assert_eq!(registry.readiness(), Readiness::Ready);
        let mut told = log.lock().unwrap().clone();
        told.sort();
        assert_eq!(
            told,
            [
                "0s +configmaps/v1 one",
                "0s +deployments.apps/v1 one",
                "0s +oldthings.apps/v1beta1 one"
            ]
        );
        let gvk = |version, kind| GroupVersionKind::gvk("apps", version, kind);
        let old = registry.find(&gvk("v1beta1", "Deployment")).unwrap();
        assert!(!old.preferred, "other versions are known, but not mirrored");
        assert!(registry.store(&gvk("v1beta1", "Deployment")).is_none());
        assert_eq!(registry.store(&gvk("v1", "Deployment")).unwrap().len(), 1);
        assert!(registry.find(&gvk("v1", "Review")).is_some());
        assert!(registry.find(&gvk("v1", "Nothing")).is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_type_is_given_up_after_three_sure_looks_without_it() {
    let menu = basic(true);
    let (registry, log, _subscription) = mirror(&menu);
    registry.synced().await;
    log.lock().unwrap().clear();
    menu.remove("apps");
    after(61).await;
    assert_eq!(names(&registry), "configmaps/v1 deployments.apps/v1 oldthings.apps/v1beta1");
    assert!(registry.find(&GroupVersionKind::gvk("apps", "v1", "Deployment")).is_none());
    after(30).await;
    assert_eq!(names(&registry), "configmaps/v1");
    assert_eq!(
        *log.lock().unwrap(),
        ["90s -deployments.apps/v1 one", "90s -oldthings.apps/v1beta1 one"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_no_longer_preferred_keeps_its_mirror_while_it_is_served() {
    let menu = basic(true);
    let (registry, log, _subscription) = mirror(&menu);
    registry.synced().await;
    log.lock().unwrap().clear();
    menu.set(
        "apps",
        &[("v2", &[("deployments", "Deployment")]), ("v1", &[("deployments", "Deployment")])],
    );
    after(600).await;
    assert_eq!(names(&registry), "configmaps/v1 deployments.apps/v1 deployments.apps/v2");
    let preferred = |(served, _): &(ServedType, _)| served.preferred;
    let preferences: Vec<_> = registry.mirrors().iter().map(preferred).collect();
    assert_eq!(preferences, [true, false, true], "as the last look found them");
    menu.set("apps", &[("v2", &[("deployments", "Deployment")])]);
    after(100).await;
    assert_eq!(names(&registry), "configmaps/v1 deployments.apps/v2");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_says_the_same_again_is_not_read_again() {
    let menu = basic(true);
    let client = Client::in_process(menu.clone());
    let mut looks = Looks::default();
    let first = looks.look(&client).await;
    assert!(Arc::ptr_eq(&first, &looks.look(&client).await));
    menu.set("batch", &[("v1", &[("jobs", "Job")])]);
    let second = looks.look(&client).await;
    assert_eq!(second.types.len(), first.types.len() + 1);
    menu.0.lock().unwrap().down = true;
    assert!(looks.look(&client).await.blind);
    menu.0.lock().unwrap().down = false;
    assert_eq!(looks.look(&client).await, second);
}

#[tokio::test(start_paused = true)]
async fn a_failing_group_keeps_what_it_had() {
    for aggregated in [true, false] {
        let menu = basic(aggregated);
        let (registry, log, _subscription) = mirror(&menu);
        registry.synced().await;
        log.lock().unwrap().clear();
        menu.fail("apps");
        menu.set("batch", &[("v1", &[("jobs", "Job")])]);
        after(600).await;
        assert_eq!(
            names(&registry),
            "configmaps/v1 deployments.apps/v1 oldthings.apps/v1beta1 jobs.batch/v1"
        );
        assert!(registry.find(&GroupVersionKind::gvk("apps", "v1", "Deployment")).is_some());
        assert_eq!(*log.lock().unwrap(), ["30s +jobs.batch/v1 one"]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_absence_that_ends_in_time_counts_for_nothing() {
    let menu = basic(true);
    let (registry, log, _subscription) = mirror(&menu);
    registry.synced().await;
    log.lock().unwrap().clear();
    for _ in 0..5 {
        menu.remove("apps");
        after(60).await;
        menu.set("apps", &[("v1", &[("deployments", "Deployment")])]);
        after(30).await;
    }
    assert!(names(&registry).contains("deployments.apps/v1"));
    assert!(!log.lock().unwrap().iter().any(|line| line.contains("-deployments")));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_changes_nothing_and_is_asked_sooner() {
    let menu = basic(true);
    let (registry, log, _subscription) = mirror(&menu);
    registry.synced().await;
    log.lock().unwrap().clear();
    menu.0.lock().unwrap().down = true;
    after(600).await;
    assert!(log.lock().unwrap().is_empty());
    menu.set("batch", &[("v1", &[("jobs", "Job")])]);
    menu.0.lock().unwrap().down = false;
    after(31).await;
    assert_eq!(log.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_look_can_be_had_at_once_and_is_repeated_shortly_after() {
    let menu = basic(true);
    let (registry, log, _subscription) = mirror(&menu);
    registry.synced().await;
    log.lock().unwrap().clear();
    let before = menu.0.lock().unwrap().looks;
    menu.set("batch", &[("v1", &[("jobs", "Job")])]);
    registry.look_now();
    after(1).await;
    assert_eq!(*log.lock().unwrap(), ["0s +jobs.batch/v1 one"]);
    after(2).await;
    assert_eq!(menu.0.lock().unwrap().looks - before, 2);
    after(20).await;
    assert_eq!(menu.0.lock().unwrap().looks - before, 2);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_subscription_hears_nothing_of_new_types() {
    let menu = basic(true);
    let (registry, log, subscription) = mirror(&menu);
    registry.synced().await;
    drop(subscription);
    log.lock().unwrap().clear();
    menu.set("batch", &[("v1", &[("jobs", "Job")])]);
    after(60).await;
    assert!(names(&registry).contains("jobs"));
    assert!(log.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_late_subscriber_is_told_of_all_types_and_may_ask_back() {
    let (registry, _, _subscription) = mirror(&basic(true));
    registry.synced().await;
    let log = Log::default();
    let (told, known) = (log.clone(), registry.clone());
    let _late = registry.subscribe(move |served, _| {
        let ResourceType { group, version, kind, .. } = &served.resource;
        let found = known.find(&GroupVersionKind::gvk(group, version, kind));
        told.lock().unwrap().push(found.unwrap().resource.to_string());
    });
    assert_eq!(
        *log.lock().unwrap(),
        ["configmaps/v1", "deployments.apps/v1", "oldthings.apps/v1beta1"]
    );
}

#[test]
fn a_group_that_only_measures_is_not_missed() {
    let failed = ["metrics.k8s.io", "apps"].map(|group| (group.to_owned(), "503".to_owned()));
    let found = Discovered { failed: failed.into(), ..Discovered::default() };
    assert_eq!(found.missed().map(|(group, _)| group.as_str()).collect::<Vec<_>>(), ["apps"]);
    // Nobody takes its types for gone all the same.
    assert!(!found.is_sure_about("metrics.k8s.io"));
}
