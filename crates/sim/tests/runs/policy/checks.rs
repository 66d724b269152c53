//! Checks of policies on a hub with all its controllers, against a Prometheus of the test.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flagship_rules::record::Keep;
use flagship_runtime::network::{Answer, Call, Network};
use futures::future::BoxFuture;
use http::StatusCode;
use serde_json::{Value, json};

use super::clusters::policy;
use super::records::records;
use crate::update_run::story::{CLUSTER, SCOPES, Scope, Story, said, stage};
use flagship_sim::testing::{text, without_profiles};

/// A Prometheus that knows one number for each cluster.
#[derive(Debug, Default)]
struct Prometheus {
    /// By cluster, as Prometheus writes numbers; others are not known.
    values: Mutex<BTreeMap<String, String>>,
    behaves: Mutex<Behaviour>,
    asked: Mutex<Vec<(SocketAddr, Call)>>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum Behaviour {
    #[default]
    Answers,
    Refuses,
    Hangs,
}

impl Prometheus {
    fn knowing(values: &[(&str, &str)]) -> Arc<Self> {
        let all = Arc::new(Self::default());
        values.iter().for_each(|(cluster, value)| all.knows(cluster, value));
        all
    }

    fn knows(&self, cluster: &str, value: &str) {
        self.values.lock().expect("values").insert(cluster.to_owned(), value.to_owned());
    }

    fn behave(&self, how: Behaviour) {
        *self.behaves.lock().expect("behaviour") = how;
    }

    fn questions(&self) -> usize {
        self.asked.lock().expect("asked").len()
    }
}

impl Network for Prometheus {
    fn resolve(&self, host: String, _: u16) -> BoxFuture<'_, io::Result<Vec<IpAddr>>> {
        let written = host.parse().unwrap_or(IpAddr::from([10, 0, 0, 9]));
        Box::pin(async move { Ok(vec![written]) })
    }

    fn exchange(&self, to: SocketAddr, call: Call) -> BoxFuture<'_, Result<Answer, String>> {
        let body = String::from_utf8(call.body.to_vec()).expect("a form");
        // errors{cluster="m1"}
        let cluster = body.split("%22").nth(1).unwrap_or_default().to_owned();
        self.asked.lock().expect("asked").push((to, call));
        let how = *self.behaves.lock().expect("behaviour");
        let value = self.values.lock().expect("values").get(&cluster).cloned();
        Box::pin(async move {
            match how {
                Behaviour::Answers => {}
                Behaviour::Refuses => return Err("connection refused".to_owned()),
                Behaviour::Hangs => tokio::time::sleep(Duration::from_secs(3600)).await,
            }
            let series: Vec<Value> =
                value.iter().map(|value| json!({"metric": {}, "value": [0, value]})).collect();
            let data = json!({"resultType": "vector", "result": series});
            let body = json!({"status": "success", "data": data}).to_string();
            Ok(Answer { status: StatusCode::OK, body: body.into() })
        })
    }
}

async fn story(scope: Scope, prometheus: &Arc<Prometheus>) -> Story {
    let mut options = without_profiles();
    options.egress.allowed = "prometheus.monitoring:9090".parse().expect("a list");
    options.egress.network = Some(prometheus.clone());
    Story::begin_with(scope, options).await
}

/// A hub that may call these places in this world.
pub async fn asking(network: Arc<dyn Network>, allow: &str) -> Story {
    let mut options = without_profiles();
    options.egress.allowed = allow.parse().expect("a list");
    options.egress.network = Some(network);
    Story::begin_with(CLUSTER, options).await
}

pub fn check(more: Value) -> Value {
    let mut check = json!({"name": "errors", "after": "Stage", "for": "2m",
        "prometheus": {"url": "http://prometheus.monitoring:9090",
            "query": "errors{cluster=\"{{cluster}}\"}"},
        "pass": {"below": 0.01}});
    for (key, value) in more.as_object().into_iter().flatten() {
        check[key] = value.clone();
    }
    check
}

/// A policy `prod` with one check of the canary stage.
pub async fn checked(story: &Story, more: Value, then: &str) {
    let spec = json!({"selects": {"stages": ["canary"]}, "failure": {"then": then},
        "checks": [check(more)]});
    policy(story, "prod", spec).await;
}

fn progressing(story: &Story) -> String {
    story.said("r", "Progressing")
}

/// `what gate value` of the entries about checks.
pub fn entries(story: &Story) -> Vec<String> {
    let record = story.get(records(story.scope), story.scope.space, "r");
    let all = record["spec"]["entries"].as_array().cloned().unwrap_or_default();
    let own = all.iter().filter(|entry| text(&entry["what"]).starts_with("Check"));
    let line = |entry: &Value| {
        let words = [&entry["what"], &entry["gate"], &entry["measured"]["value"]].map(text);
        words.join(" ").trim().to_owned()
    };
    own.map(line).collect()
}

#[tokio::test(start_paused = true)]
async fn a_stage_is_not_done_before_its_check_has_held() {
    for scope in SCOPES {
        let prometheus = Prometheus::knowing(&[("m2", "0.004")]);
        let story = story(scope, &prometheus).await;
        checked(&story, json!({}), "Stop").await;
        story.two_stages().await;
        story.run("r", json!({"state": "Run"})).await;
        assert_eq!(prometheus.questions(), 0, "nothing is updated yet");
        story.works("m2").await;
        story.soon().await;
        let told = progressing(&story);
        assert!(
            told.starts_with("True UpdateRunChecking: checks of stage canary are not done: errors (policy prod): 0.004 of m2 is below 0.01 since 2026-"),
            "{told}"
        );
        story.pass(60).await;
        // One bad answer begins the time anew.
        prometheus.knows("m2", "0.02");
        story.pass(31).await;
        let told = progressing(&story);
        assert!(told.ends_with("0.02 of m2 is not below 0.01 (1 of 3 in a row)"), "{told}");
        prometheus.knows("m2", "0.005");
        story.pass(119).await;
        assert!(story.stage("r", "canary")["endTime"].is_null());
        assert_eq!(story.holds()[0], "m1 Scheduled");
        story.pass(60).await;
        assert!(story.stage("r", "canary")["endTime"].is_string(), "{}", progressing(&story));
        assert!(story.holds()[0].starts_with("m1 Bound"), "{:?}", story.holds());
        let asked = prometheus.questions();
        story.all_work().await;
        story.settle().await;
        assert!(story.said("r", "Succeeded").starts_with("True"), "{}", story.told("r"));
        assert_eq!(prometheus.questions(), asked, "production is not checked");
        let entries = entries(&story);
        assert_eq!(entries.first().map(String::as_str), Some("CheckMeasured prod/errors 0.004"));
        assert_eq!(entries.last().map(String::as_str), Some("CheckPassed prod/errors 0.005"));
        assert!(entries.contains(&"CheckMeasured prod/errors 0.02".to_owned()), "{entries:?}");
        let (to, call) = prometheus.asked.lock().expect("asked")[0].clone();
        assert_eq!(to.to_string(), "10.0.0.9:9090");
        assert_eq!((call.path.as_str(), call.method.as_str()), ("/api/v1/query", "POST"));
        assert_eq!(call.body, "query=errors%7Bcluster%3D%22m2%22%7D");
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_that_fails_is_a_failure_of_the_stage_and_what_follows_follows() {
    for (then, ends) in [
        (
            "Stop",
            "False UpdateRunFailed: cannot continue the updateRun: stage `canary` has not proved itself: Checks failed under policy prod: CHECK_FAILED, check errors: 0.02 of m2 is not below 0.01; 3 times in a row it was no good answer",
        ),
        (
            "Rollback",
            "False UpdateRunFailed: cannot continue the updateRun: stage `canary` has not proved itself: Checks failed under policy prod: CHECK_FAILED, check errors: 0.02 of m2 is not below 0.01; 3 times in a row it was no good answer; 1 cluster(s) go back to snapshot 0 in update run `r-rollback`, and snapshot 1 is quarantined",
        ),
    ] {
        let prometheus = Prometheus::knowing(&[("m2", "0")]);
        let story = story(CLUSTER, &prometheus).await;
        story.two_stages().await;
        story.run("first", json!({"state": "Run"})).await;
        story.all_work().await;
        checked(&story, json!({}), then).await;
        story.new_version("2").await;
        story.pass(1).await;
        prometheus.knows("m2", "0.02");
        story.run("r", json!({"state": "Run"})).await;
        story.works("m2").await;
        story.pass(70).await;
        assert_eq!(story.said("r", "Succeeded"), ends);
        assert_eq!(story.holds()[0], "m1 Bound web-0-snapshot", "nothing else began");
        story.all_work().await;
        story.pass(5).await;
        let back = story.holds()[1] == "m2 Bound web-0-snapshot";
        assert_eq!(back, then == "Rollback", "{:?}", story.holds());
        if then == "Rollback" {
            // What takes back is not held up by the check that sent it.
            assert!(story.said("r-rollback", "Succeeded").starts_with("True"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_may_go_on_does_and_fails_at_its_end() {
    let prometheus = Prometheus::knowing(&[("m2", "0.02")]);
    let story = story(CLUSTER, &prometheus).await;
    checked(&story, json!({}), "Continue").await;
    let waits = json!({"afterStageTasks": [{"type": "Approval"}]});
    story.strategy(json!([stage("canary", waits), stage("prod", json!({}))])).await;
    story.run("r", json!({"state": "Run"})).await;
    story.works("m2").await;
    assert!(story.requests().is_empty(), "nobody is asked before the checks are done");
    story.pass(70).await;
    assert_eq!(story.requests(), ["r-after-canary"]);
    story.approve("r-after-canary").await;
    story.all_work().await;
    story.settle().await;
    let told = said(&story.stage("r", "canary")["conditions"], "Succeeded");
    assert!(
        told.starts_with("True StageUpdatingSucceeded: Stage update completed successfully. Checks failed under policy prod: CHECK_FAILED"),
        "{told}"
    );
    let told = story.said("r", "Succeeded");
    assert!(told.starts_with("False UpdateRunFailed: cannot continue the updateRun: stage `canary` has not proved itself"), "{told}");
    assert!(story.holds().iter().all(|held| held.contains("Bound")), "all were updated");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_keeps_its_slot_until_its_check_has_passed() {
    let prometheus = Prometheus::knowing(&[("m1", "0.001"), ("m2", "0.02"), ("m3", "0.02")]);
    let story = story(CLUSTER, &prometheus).await;
    let spec = json!({"selects": {"stages": ["prod"]}, "failure": {"budget": {"stage": 1}},
        "checks": [check(json!({"after": "Cluster", "for": "1m"}))]});
    policy(&story, "prod", spec).await;
    story.two_stages().await;
    story.run("r", json!({"state": "Run"})).await;
    story.works("m2").await;
    story.works("m1").await;
    story.soon().await;
    let told = progressing(&story);
    assert!(told.starts_with("True UpdateRunChecking: checks of stage prod are not done: errors of m1 (policy prod): 0.001 of m1 is below 0.01"), "{told}");
    story.pass(30).await;
    assert_eq!(story.holds()[2], "m3 Scheduled", "one at a time, and m1 is under check");
    story.pass(40).await;
    assert!(story.holds()[2].starts_with("m3 Bound"), "{:?}", story.holds());
    story.works("m3").await;
    // Under check for as long as it takes: that is not stuck.
    story.pass(59).await;
    assert!(!progressing(&story).contains("Stuck"), "{}", progressing(&story));
    story.pass(10).await;
    assert_eq!(
        story.said("r", "Succeeded"),
        "True UpdateRunSucceeded: All stages are completed; failed within the budget: m3"
    );
    assert_eq!(entries(&story), ["CheckPassed prod/errors 0.001", "CheckFailed prod/errors 0.02"]);
}

#[tokio::test(start_paused = true)]
async fn silence_is_not_success() {
    let nan: &[(&str, &str)] = &[("m2", "NaN")];
    for (values, how, allow, why) in [
        (
            nan,
            Behaviour::Answers,
            "*",
            "no answer about m2: Prometheus answers NaN, which is no number",
        ),
        (&[][..], Behaviour::Answers, "*", "no answer about m2: Prometheus has no such series"),
        (
            &[("m2", "0")],
            Behaviour::Refuses,
            "*",
            "no answer about m2: prometheus.monitoring: connection refused",
        ),
        (
            &[("m2", "0")],
            Behaviour::Hangs,
            "*",
            "no answer about m2: prometheus.monitoring did not answer within 10 s",
        ),
        (&[("m2", "0")], Behaviour::Answers, "hooks.example", "--allow-egress"),
    ] {
        let prometheus = Prometheus::knowing(values);
        prometheus.behave(how);
        let story = asking(prometheus.clone(), allow).await;
        checked(&story, json!({}), "Stop").await;
        story.two_stages().await;
        story.run("r", json!({"state": "Run"})).await;
        story.works("m2").await;
        story.pass(100).await;
        let told = story.said("r", "Succeeded");
        assert!(told.starts_with("False") && told.contains(why), "{told}\nis not\n{why}");
        assert_eq!(story.holds()[0], "m1 Scheduled");
    }
}

/// A Prometheus that hangs holds up neither other runs nor other checks of the hub.
#[tokio::test(start_paused = true)]
async fn no_run_waits_for_an_answer() {
    let prometheus = Prometheus::knowing(&[]);
    prometheus.behave(Behaviour::Hangs);
    let story = story(CLUSTER, &prometheus).await;
    checked(&story, json!({}), "Stop").await;
    story.two_stages().await;
    story.run("r", json!({"state": "Run"})).await;
    story.works("m2").await;
    story.soon().await;
    assert!(progressing(&story).ends_with("not asked yet"), "{}", progressing(&story));
    // While the question is open, somebody stops the run.
    story.set_state("r", "Stop").await;
    assert!(progressing(&story).starts_with("False UpdateRunStopped"), "{}", progressing(&story));
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_begins_anew_and_what_was_decided_stands() {
    let prometheus = Prometheus::knowing(&[("m2", "0")]);
    let mut story = story(CLUSTER, &prometheus).await;
    checked(&story, json!({}), "Stop").await;
    let waits = json!({"afterStageTasks": [{"type": "Approval"}]});
    story.strategy(json!([stage("canary", waits), stage("prod", json!({}))])).await;
    story.run("r", json!({"state": "Run"})).await;
    story.works("m2").await;
    story.pass(100).await;
    story.kill("hub").await;
    story.start_as("hub").await;
    story.pass(100).await;
    assert!(story.requests().is_empty(), "only half of the time was seen by this hub");
    story.pass(30).await;
    assert_eq!(story.requests(), ["r-after-canary"]);
    // The verdict is in the record.
    prometheus.knows("m2", "1");
    story.kill("hub").await;
    story.start_as("hub").await;
    let asked = prometheus.questions();
    story.pass(300).await;
    assert_eq!(prometheus.questions(), asked);
    story.approve("r-after-canary").await;
    story.all_work().await;
    story.settle().await;
    assert!(story.said("r", "Succeeded").starts_with("True"), "{}", story.told("r"));
}

#[tokio::test(start_paused = true)]
async fn a_hub_without_records_checks_all_the_same() {
    let prometheus = Prometheus::knowing(&[("m2", "0")]);
    let mut options = without_profiles();
    options.egress.allowed = "prometheus.monitoring".parse().expect("a list");
    options.egress.network = Some(prometheus.clone());
    options.update_runs.records = Keep::Off;
    let story = Story::begin_with(CLUSTER, options).await;
    let short = check(json!({"name": "short", "for": null}));
    let spec = json!({"selects": {"stages": ["canary"]}, "checks": [check(json!({})), short]});
    policy(&story, "prod", spec).await;
    let waits = json!({"afterStageTasks": [{"type": "Approval"}]});
    story.strategy(json!([stage("canary", waits), stage("prod", json!({}))])).await;
    story.run("r", json!({"state": "Run"})).await;
    story.works("m2").await;
    story.pass(125).await;
    assert_eq!(story.requests(), ["r-after-canary"], "{}", progressing(&story));
    let asked = prometheus.questions();
    assert_eq!(asked, 6, "five times one and once the other");
    story.pass(600).await;
    assert_eq!(prometheus.questions(), asked, "what has passed is not asked again");
}

#[tokio::test(start_paused = true)]
async fn credentials_come_from_labelled_secrets() {
    let prometheus = Prometheus::knowing(&[("m2", "0")]);
    let story = story(CLUSTER, &prometheus).await;
    if story.find("namespaces", "", "fleet-system").is_none() {
        story.create("namespaces", json!({"metadata": {"name": "fleet-system"}})).await;
    }
    for (name, labels) in [("ours", json!({"flagship.dev/outgoing": "true"})), ("other", json!({}))]
    {
        let meta = json!({"name": name, "namespace": "fleet-system", "labels": labels});
        let data = json!({"token": "abc\n", "url": "http://prometheus.monitoring:9090/\n"});
        story.create("secrets", json!({"metadata": meta, "stringData": data})).await;
    }
    let of = |name: &str| {
        json!({"secretRef": {"name": name, "key": "url"}, "query": "x{c=\"{{cluster}}\"}",
            "caBundle": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==",
            "credentials": {"name": name, "key": "token"}})
    };
    checked(&story, json!({"prometheus": of("ours")}), "Stop").await;
    story.two_stages().await;
    story.run("r", json!({"state": "Run"})).await;
    story.works("m2").await;
    story.soon().await;
    let (_, call) = prometheus.asked.lock().expect("asked")[0].clone();
    assert_eq!(call.headers["authorization"], "Bearer abc");
    assert_eq!(call.path, "/api/v1/query");
    assert_eq!(call.trust.as_deref(), Some(&b"-----BEGIN CERTIFICATE-----\n"[..]));
    let patch = json!({"spec": {"checks": [check(json!({"prometheus": of("other")}))]}});
    story.patch("rolloutpolicies.flagship.dev", "", "prod", patch).await;
    story.pass(200).await;
    story.all_work().await;
    story.run("next", json!({"state": "Run"})).await;
    story.all_work().await;
    story.soon().await;
    let told = story.said("next", "Progressing");
    assert!(told.contains("Secret fleet-system/other is not labelled to be sent out"), "{told}");
    assert!(!told.contains("abc"), "{told}");
}

/// Begins a run over twenty clusters: canary has 4 of them, production 16.
pub async fn twenty(story: &Story) {
    for n in 4..=20 {
        let env = if n <= 6 { "canary" } else { "prod" };
        story.cluster(&format!("m{n}"), json!({"env": env})).await;
    }
    // They are scheduled before the run looks for them.
    for _ in 0..600 {
        if story.holds().len() == 20 {
            break;
        }
        story.soon().await;
    }
    let all = json!({"maxConcurrency": "100%"});
    story.strategy(json!([stage("canary", all.clone()), stage("prod", all)])).await;
    story.run("r", json!({"state": "Run"})).await;
}

/// The same under a check that compares, of clusters that are all alike.
async fn compared(prometheus: &Arc<Prometheus>) -> Story {
    let story = story(CLUSTER, prometheus).await;
    let pass = json!({"below": 0.01, "notWorseThan": "Rest", "by": "10%"});
    checked(&story, json!({"pass": pass}), "Stop").await;
    for n in 1..=20 {
        prometheus.knows(&format!("m{n}"), &format!("0.0010{n:02}"));
    }
    twenty(&story).await;
    story
}

pub const CANARY: [&str; 4] = ["m2", "m4", "m5", "m6"];

#[tokio::test(start_paused = true)]
async fn a_regression_shows_beside_the_clusters_that_are_not_updated() {
    let prometheus = Prometheus::knowing(&[]);
    let story = compared(&prometheus).await;
    for cluster in CANARY {
        prometheus.knows(cluster, "0.003");
        story.works(cluster).await;
    }
    story.pass(70).await;
    let told = story.said("r", "Succeeded");
    assert!(
        told.contains("0.003 on 4 updated is worse than 0.00101")
            && told.contains("on 16 other cluster(s) by more than 10% (medians, p 0.000)"),
        "{told}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_rises_everywhere_is_not_the_versions_fault() {
    let prometheus = Prometheus::knowing(&[]);
    let story = compared(&prometheus).await;
    for n in 1..=20 {
        prometheus.knows(&format!("m{n}"), &format!("0.0030{n:02}"));
    }
    for cluster in CANARY {
        story.works(cluster).await;
    }
    story.pass(130).await;
    assert!(story.stage("r", "canary")["endTime"].is_string(), "{}", progressing(&story));
    let last = entries(&story).pop().unwrap_or_default();
    assert!(last.starts_with("CheckPassed prod/errors 0.0030"), "{last}");
}

#[tokio::test(start_paused = true)]
async fn a_comparison_that_has_nobody_to_compare_with_is_refused_at_once() {
    let prometheus = Prometheus::knowing(&[]);
    let story = story(CLUSTER, &prometheus).await;
    checked(&story, json!({"pass": {"notWorseThan": "Rest"}}), "Stop").await;
    story.two_stages().await;
    story.run("r", json!({"state": "Run"})).await;
    let told = story.said("r", "Initialized");
    assert!(
        told.starts_with("False")
            && told.contains(
                "check `errors` of rollout policy `prod` can never pass in stage `canary`"
            ),
        "{told}"
    );
}
