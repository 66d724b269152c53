//! What a cluster counts of the requests that come over the network, for Prometheus.
//!
//! Names and labels are those of Kubernetes where it has them, so that its dashboards work.
//! What clients send is never a label: resources are those that are served, everything else
//! is a fixed word.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use flagship_base::machinery::gvk;
use flagship_metrics::{Counter, Gauge, Histogram, Metrics};
use tokio::time::Instant;

use super::cluster::{Cluster, ClusterHandle};
use crate::auth::RequestAttributes;

/// The format of Prometheus' text.
pub const MEDIA: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Bounds of spans in seconds, as Kubernetes has them for requests.
const SECONDS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

const TOTAL: &str = "apiserver_request_total";
const TOOK: &str = "apiserver_request_duration_seconds";
const UNDER_WAY: &str = "apiserver_longrunning_requests";

/// Paths below objects that are counted by their names.
const SUBRESOURCES: [&str; 14] = [
    "approval",
    "attach",
    "binding",
    "ephemeralcontainers",
    "eviction",
    "exec",
    "finalize",
    "log",
    "portforward",
    "proxy",
    "resize",
    "scale",
    "status",
    "token",
];

/// What was counted.
#[derive(Default)]
pub(crate) struct Counts {
    metrics: Metrics,
    /// So that a request is counted without putting its labels together again.
    series: Mutex<BTreeMap<Labels, Series>>,
}

/// What requests are told apart by.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Labels {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: &'static str,
    scope: &'static str,
    dry_run: &'static str,
}

struct Series {
    took: Histogram,
    codes: BTreeMap<u16, Counter>,
}

/// One request that is counted.
pub struct Counting {
    cluster: Arc<Cluster>,
    labels: Labels,
    begun: Instant,
    _under_way: UnderWay,
}

/// Counts as under way as long as it is there.
pub struct UnderWay(Gauge);

impl ClusterHandle {
    /// Counts a request from now on. `apply` tells one sort of patch from the others.
    pub fn count(&self, ask: &RequestAttributes, apply: bool, dry_run: bool) -> Counting {
        let cluster = self.cluster.clone();
        let labels = Labels::of(&cluster, ask, apply, dry_run);
        let kind = if labels.writes() { "mutating" } else { "readOnly" };
        let among = cluster.counts.metrics.gauge(
            "apiserver_current_inflight_requests",
            "Requests under way, watches left out.",
            &[("request_kind", kind)],
        );
        let under_way = UnderWay::among(among);
        Counting { cluster, labels, begun: Instant::now(), _under_way: under_way }
    }

    /// Everything there is to know, as Prometheus reads it.
    pub(super) fn metrics(&self) -> String {
        let (now, store) = (Metrics::default(), &self.cluster.store);
        for count in store.census() {
            let labels = [("resource", &*count.resource)];
            let objects = "Objects stored, by resource.";
            now.gauge("apiserver_storage_objects", objects, &labels).set(count.objects as f64);
            let watches = "Open watches, those inside the process included.";
            now.gauge("flagship_store_watches", watches, &labels).set(count.watches as f64);
        }
        let revision = "The last revision handed out.";
        now.gauge("flagship_store_revision", revision, &[]).set(store.revision() as f64);
        let built = [("git_version", super::documents::VERSION), ("major", "1"), ("minor", "34")];
        now.gauge("kubernetes_build_info", "Which version this is.", &built).set(1.0);
        self.cluster.counts.metrics.render() + &now.render()
    }
}

impl Labels {
    fn of(cluster: &Cluster, ask: &RequestAttributes, apply: bool, dry_run: bool) -> Self {
        let (verb, at) = match ask {
            RequestAttributes::Resource { verb, at } => (verb.as_str(), Some(at)),
            RequestAttributes::Path { verb, .. } => (verb.as_str(), None),
        };
        let verb = match verb {
            "get" => "GET",
            "list" => "LIST",
            "watch" => "WATCH",
            "create" | "post" => "POST",
            "update" | "put" => "PUT",
            "patch" if apply => "APPLY",
            "patch" => "PATCH",
            "delete" => "DELETE",
            "deletecollection" => "DELETECOLLECTION",
            _ => "OTHER",
        };
        let dry_run = if dry_run { "All" } else { "" };
        let served = at.filter(|at| {
            cluster.registry.find(&at.group, &at.version, &at.resource).is_some()
                || crate::auth::Review::at(at).is_some()
        });
        let Some(at) = served else { return Self { verb, dry_run, ..Self::default() } };
        let named = |sub: &String| SUBRESOURCES.into_iter().find(|known| *known == sub.as_str());
        let scope = match (&at.name, &at.namespace) {
            (Some(_), _) => "resource",
            (None, Some(_)) => "namespace",
            (None, None) => "cluster",
        };
        Self {
            verb,
            group: at.group.clone(),
            version: at.version.clone(),
            resource: at.resource.clone(),
            subresource: at.subresource.as_ref().and_then(named).unwrap_or_default(),
            scope,
            dry_run,
        }
    }

    fn writes(&self) -> bool {
        !matches!(self.verb, "GET" | "LIST" | "WATCH")
    }

    /// As they are printed, in the order of their names.
    fn pairs(&self) -> [(&'static str, &str); 8] {
        [
            ("component", "apiserver"),
            ("dry_run", self.dry_run),
            ("group", &self.group),
            ("resource", &self.resource),
            ("scope", self.scope),
            ("subresource", self.subresource),
            ("verb", self.verb),
            ("version", &self.version),
        ]
    }
}

impl Counts {
    fn answered(&self, labels: &Labels, code: u16, seconds: f64) {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        if !series.contains_key(labels) {
            let took = self.metrics.histogram(
                TOOK,
                "How long requests took until their answer began.",
                SECONDS,
                &labels.pairs(),
            );
            series.insert(labels.clone(), Series { took, codes: BTreeMap::new() });
        }
        let Some(Series { took, codes }) = series.get_mut(labels) else { return };
        took.observe(seconds);
        let counter = codes.entry(code).or_insert_with(|| {
            let text = code.to_string();
            let pairs = labels.pairs();
            let help = "Requests that were answered, by what they asked for and their code.";
            self.metrics.counter(TOTAL, help, &with_code(&text, &pairs))
        });
        counter.inc();
    }
}

impl Counts {
    /// Drops the series of a resource that is no longer served.
    pub(super) fn forget(&self, resource: &str) {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        series.retain(|labels, Series { codes, .. }| {
            if gvk::qualified(&labels.resource, &labels.group) != resource {
                return true;
            }
            let pairs = labels.pairs();
            self.metrics.forget(TOOK, &pairs);
            self.metrics.forget(UNDER_WAY, &without_dry_run(&pairs));
            for code in codes.keys() {
                let text = code.to_string();
                self.metrics.forget(TOTAL, &with_code(&text, &pairs));
            }
            false
        });
    }
}

fn with_code<'a>(code: &'a str, pairs: &[(&'static str, &'a str)]) -> Vec<(&'static str, &'a str)> {
    [("code", code)].into_iter().chain(pairs.iter().copied()).collect()
}

fn without_dry_run<'a>(pairs: &[(&'static str, &'a str)]) -> Vec<(&'static str, &'a str)> {
    pairs.iter().copied().filter(|(name, _)| *name != "dry_run").collect()
}

impl Counting {
    /// The answer has begun; a watch goes on as long as what is given back is kept.
    pub fn answered(self, code: u16, watch: bool) -> Option<UnderWay> {
        let counts = &self.cluster.counts;
        counts.answered(&self.labels, code, self.begun.elapsed().as_secs_f64());
        watch.then(|| {
            let pairs = self.labels.pairs();
            let help = "Watches under way.";
            UnderWay::among(counts.metrics.gauge(UNDER_WAY, help, &without_dry_run(&pairs)))
        })
    }
}

impl UnderWay {
    fn among(gauge: Gauge) -> Self {
        gauge.add(1.0);
        Self(gauge)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.add(-1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::Server;
    use flagship_store::env::Env;

    fn lines<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
        text.lines().filter(|line| line.starts_with(name)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_counted_by_what_is_served_and_never_by_what_was_sent() {
        let cluster = Server::new(Env::simulated(1)).add_cluster("hub");
        let ask = |method: &str, path: &str| RequestAttributes::of(method, path, "");
        let maps = ask("GET", "/api/v1/namespaces/a/configmaps");
        for code in [200, 200, 403] {
            cluster.count(&maps, false, false).answered(code, false);
        }
        let deployment = ask("PATCH", "/apis/apps/v1/namespaces/a/deployments/d/odd");
        cluster.count(&deployment, true, true).answered(200, false);
        cluster.count(&ask("GET", "/apis/odd/v1/odd/odd"), false, false).answered(404, false);
        cluster.count(&ask("BREW", "/coffee"), false, false).answered(405, false);
        let watch = cluster.count(&ask("GET", "/api/v1/watch/pods"), false, false);
        let watch = watch.answered(200, true);
        let under_way = cluster.count(&maps, false, false);
        let text = cluster.metrics();
        let total = lines(&text, "apiserver_request_total");
        assert_eq!(
            total,
            [
                r#"apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="configmaps",scope="namespace",subresource="",verb="LIST",version="v1"} 2"#,
                r#"apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="cluster",subresource="",verb="WATCH",version="v1"} 1"#,
                r#"apiserver_request_total{code="200",component="apiserver",dry_run="All",group="apps",resource="deployments",scope="resource",subresource="",verb="APPLY",version="v1"} 1"#,
                r#"apiserver_request_total{code="403",component="apiserver",dry_run="",group="",resource="configmaps",scope="namespace",subresource="",verb="LIST",version="v1"} 1"#,
                r#"apiserver_request_total{code="404",component="apiserver",dry_run="",group="",resource="",scope="",subresource="",verb="GET",version=""} 1"#,
                r#"apiserver_request_total{code="405",component="apiserver",dry_run="",group="",resource="",scope="",subresource="",verb="OTHER",version=""} 1"#,
            ]
        );
        let in_flight = lines(&text, "apiserver_current_inflight_requests");
        assert_eq!(
            in_flight[1],
            r#"apiserver_current_inflight_requests{request_kind="readOnly"} 1"#
        );
        assert!(lines(&text, "apiserver_longrunning_requests")[0].ends_with("} 1"), "{text}");
        let objects = lines(&text, "apiserver_storage_objects");
        assert!(objects.contains(&r#"apiserver_storage_objects{resource="namespaces"} 4"#));
        let revision = format!("flagship_store_revision {}", cluster.store().revision());
        assert_eq!(lines(&text, "flagship_store_revision"), [revision]);
        drop((watch, under_way));
        let text = cluster.metrics();
        assert!(lines(&text, "apiserver_longrunning_requests")[0].ends_with("} 0"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_is_gone_leaves_no_series() {
        let cluster = Server::new(Env::simulated(1)).add_cluster("hub");
        let definition = serde_json::json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "ships.example.com"},
            "spec": {"group": "example.com", "scope": "Cluster",
                "names": {"plural": "ships", "kind": "Ship"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
        let local = cluster.local("test");
        let definitions = "customresourcedefinitions.apiextensions.k8s.io";
        local.create(definitions, "", definition).await.unwrap();
        let ask = |path: &str| RequestAttributes::of("GET", path, "");
        let ships = cluster.count(&ask("/apis/example.com/v1/ships"), false, false);
        ships.answered(200, false);
        drop(
            cluster
                .count(&ask("/apis/example.com/v1/watch/ships"), false, false)
                .answered(200, true),
        );
        cluster.count(&ask("/api/v1/pods"), false, false).answered(200, false);
        assert!(cluster.metrics().contains("resource=\"ships\""));
        let options = crate::rest::DeleteOptions::default();
        local.delete(definitions, "", "ships.example.com", options).await.unwrap();
        let text = cluster.metrics();
        assert!(!text.contains("ships"), "{text}");
        assert!(text.contains("resource=\"pods\""));
    }
}
