//! Notification channels: what receivers get, when, and that no run waits for them.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flagship_runtime::network::{Answer, Call, Network};
use flagship_store::env::plan::{Effect, Rule, Verbs};
use flagship_store::env::{FaultOutcome, Point};
use futures::future::BoxFuture;
use http::StatusCode;
use ring::hmac;
use serde_json::{Value, json};

use super::clusters::policy;
use crate::update_run::story::{CLUSTER, SCOPES, Story, said, stage};
use flagship_sim::testing::{Scope, text, without_profiles};

const CHANNELS: &str = "notificationchannels.flagship.dev";
const KEY: &[u8] = b"topsecret";

/// The world outside: names, and one receiver that behaves as it is told.
#[derive(Debug, Default)]
pub struct Outside {
    names: Mutex<BTreeMap<String, Vec<IpAddr>>>,
    behaves: Mutex<Behaviour>,
    /// What arrived and was taken, in order.
    taken: Mutex<Vec<(SocketAddr, Call)>>,
    /// Tries, taken or not.
    tries: Mutex<usize>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub enum Behaviour {
    #[default]
    Takes,
    Refuses,
    Answers(u16),
    Hangs,
}

impl Outside {
    pub fn with(names: &[(&str, &[&str])]) -> Arc<Self> {
        let outside = Self::default();
        for (name, addresses) in names {
            outside.resolves(name, addresses);
        }
        Arc::new(outside)
    }

    pub fn resolves(&self, name: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|text| text.parse().expect("an address")).collect();
        self.names.lock().expect("names").insert(name.to_owned(), addresses);
    }

    fn behave(&self, how: Behaviour) {
        *self.behaves.lock().expect("behaviour") = how;
    }

    fn tries(&self) -> usize {
        *self.tries.lock().expect("tries")
    }

    fn bodies(&self) -> Vec<Value> {
        let taken = self.taken.lock().expect("taken");
        taken.iter().map(|(_, call)| serde_json::from_slice(&call.body).expect("JSON")).collect()
    }

    /// `event stage cluster` of what was taken.
    fn events(&self) -> Vec<String> {
        let word = |body: &Value, name: &str| text(&body["data"][name]);
        let line = |body: &Value| {
            let words = ["event", "stage", "cluster"].map(|name| word(body, name));
            words.join(" ").trim().to_owned()
        };
        self.bodies().iter().map(line).collect()
    }
}

impl Network for Outside {
    fn resolve(&self, host: String, _: u16) -> BoxFuture<'_, io::Result<Vec<IpAddr>>> {
        let written = host.parse().ok().map(|address| vec![address]);
        let found = written.or_else(|| self.names.lock().expect("names").get(&host).cloned());
        Box::pin(async move { found.ok_or_else(|| io::Error::other("no such host")) })
    }

    fn exchange(&self, to: SocketAddr, call: Call) -> BoxFuture<'_, Result<Answer, String>> {
        *self.tries.lock().expect("tries") += 1;
        let how = *self.behaves.lock().expect("behaviour");
        Box::pin(async move {
            let status = match how {
                Behaviour::Takes => 204,
                Behaviour::Refuses => return Err("connection refused".to_owned()),
                Behaviour::Answers(status) => status,
                Behaviour::Hangs => {
                    tokio::time::sleep(Duration::from_secs(3600)).await;
                    500
                }
            };
            if status == 204 {
                self.taken.lock().expect("taken").push((to, call));
            }
            let status = StatusCode::from_u16(status).expect("a status");
            Ok(Answer { status, body: Default::default() })
        })
    }
}

async fn story(scope: Scope, outside: &Arc<Outside>, allow: &str) -> Story {
    let mut options = without_profiles();
    options.egress.allowed = allow.parse().expect("a list");
    options.egress.network = Some(outside.clone());
    options.console_url = Some("https://console.example".to_owned());
    Story::begin_with(scope, options).await
}

async fn channel(story: &Story, name: &str, more: Value) {
    let mut spec = json!({"type": "CloudEvents", "url": "https://hooks.example/x"});
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    if spec["secretRef"].is_object() {
        spec.as_object_mut().expect("a spec").remove("url");
    }
    story.create(CHANNELS, json!({"metadata": {"name": name}, "spec": spec})).await;
    story.soon().await;
}

fn status(story: &Story, name: &str) -> Value {
    story.get(CHANNELS, "", name)["status"].clone()
}

fn ready(story: &Story, name: &str) -> String {
    said(&status(story, name)["conditions"], "Ready")
}

async fn signing_key(story: &Story, labels: Value) {
    if story.find("namespaces", "", "fleet-system").is_none() {
        story.create("namespaces", json!({"metadata": {"name": "fleet-system"}})).await;
    }
    let meta = json!({"name": "hooks", "namespace": "fleet-system", "labels": labels});
    let secret = json!({"metadata": meta, "stringData": {"key": "topsecret",
        "url": "https://hooks.example/from-secret\n"}});
    story.create("secrets", secret).await;
}

fn hooks() -> Arc<Outside> {
    Outside::with(&[("hooks.example", &["203.0.113.7"])])
}

const WAITS: [&str; 9] = [
    "RunStarted",
    "StageDone canary",
    "GateWaiting prod",
    "Stopped",
    "Resumed",
    "Approved prod",
    "Stuck",
    "StageDone prod",
    "Succeeded",
];

// The receiver checks signature, order and duplicates.
#[tokio::test(start_paused = true)]
async fn a_receiver_gets_every_transition_once_in_order_and_signed() {
    for scope in SCOPES {
        let outside = hooks();
        let story = story(scope, &outside, "hooks.example").await;
        signing_key(&story, json!({"flagship.dev/outgoing": "true"})).await;
        let signing = json!({"name": "hooks", "key": "key"});
        let trust = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==";
        channel(&story, "ops", json!({"signingSecretRef": signing, "caBundle": trust})).await;
        let approval = json!({"beforeStageTasks": [{"type": "Approval"}]});
        story.strategy(json!([stage("canary", json!({})), stage("prod", approval)])).await;
        story.run("r", json!({"state": "Run"})).await;
        story.works("m2").await;
        story.set_state("r", "Stop").await;
        story.set_state("r", "Run").await;
        story.approve("r-before-prod").await;
        story.pass(400).await;
        story.all_work().await;
        story.settle().await;
        assert_eq!(outside.events(), WAITS);
        let bodies = outside.bodies();
        let mut ids: Vec<String> = bodies.iter().map(|body| text(&body["id"])).collect();
        ids.dedup();
        assert_eq!(ids.len(), WAITS.len());
        let numbers: Vec<i64> =
            bodies.iter().map(|body| body["data"]["n"].as_i64().expect("a number")).collect();
        assert!(numbers.is_sorted(), "{numbers:?}");
        let run =
            if scope.space.is_empty() { "r".to_owned() } else { format!("{}/r", scope.space) };
        for body in &bodies {
            assert_eq!(body["specversion"], "1.0");
            assert_eq!(body["subject"], json!(run));
            let link = format!("https://console.example/#/run/{run}");
            assert_eq!(text(&body["data"]["link"]), link);
        }
        for (to, call) in outside.taken.lock().expect("taken").iter() {
            assert_eq!(
                (to.to_string().as_str(), call.tls.as_deref()),
                ("203.0.113.7:443", Some("hooks.example"))
            );
            assert_eq!(call.trust.as_deref(), Some(&b"-----BEGIN CERTIFICATE-----\n"[..]));
            let of = |name: &str| call.headers[name].to_str().expect("text").to_owned();
            let signed = [of("x-flagship-timestamp").as_bytes(), b".", &call.body].concat();
            let key = hmac::Key::new(hmac::HMAC_SHA256, KEY);
            let hex: String = hmac::sign(&key, &signed)
                .as_ref()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(of("x-flagship-signature"), format!("v1={hex}"));
        }
        assert_eq!(status(&story, "ops")["delivered"], 9);
        assert!(ready(&story, "ops").starts_with("True Delivered"), "{}", ready(&story, "ops"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_is_down_for_fifty_minutes_loses_nothing_and_delays_no_run() {
    let outside = hooks();
    let story = story(CLUSTER, &outside, "hooks.example").await;
    channel(&story, "ops", json!({})).await;
    channel(&story, "slow", json!({"url": "http://hooks.example:8080"})).await;
    outside.behave(Behaviour::Hangs);
    story.two_stages().await;
    story.run("r", json!({"state": "Run"})).await;
    story.all_work().await;
    // The run is done before the first try has even timed out.
    assert!(story.said("r", "Succeeded").starts_with("True"), "{}", story.told("r"));
    assert_eq!(outside.tries(), 2);
    story.pass(60).await;
    outside.behave(Behaviour::Answers(503));
    story.pass(50 * 60).await;
    assert_eq!(outside.events(), Vec::<String>::new());
    assert!(
        ready(&story, "ops")
            .starts_with("False DeliveryFailed: the receiver answers 503 Service Unavailable"),
        "{}",
        ready(&story, "ops")
    );
    assert!(outside.tries() < 2 * 30, "back-off: {} tries", outside.tries());
    outside.behave(Behaviour::Takes);
    story.pass(5 * 60).await;
    let mut events = outside.events();
    events.sort();
    let each = ["RunStarted", "StageDone canary", "StageDone prod", "Succeeded"];
    let twice: Vec<&str> = each.iter().flat_map(|event| [*event, *event]).collect();
    assert_eq!(events, twice);
    let after = status(&story, "ops");
    assert_eq!((&after["delivered"], &after["failed"]), (&json!(4), &Value::Null));
    assert!(after["lastError"].is_null() && after["failingSince"].is_null(), "{after}");
}

#[tokio::test(start_paused = true)]
async fn what_was_tried_for_an_hour_is_counted_and_the_rest_goes_on() {
    let outside = hooks();
    let story = story(CLUSTER, &outside, "hooks.example").await;
    channel(&story, "ops", json!({"events": ["RunStarted", "Succeeded"]})).await;
    outside.behave(Behaviour::Refuses);
    story.two_stages().await;
    story.run("r", json!({"state": "Run"})).await;
    story.pass(65 * 60).await;
    assert_eq!(status(&story, "ops")["failed"], 1);
    assert!(ready(&story, "ops").contains("hooks.example: connection refused"));
    outside.behave(Behaviour::Takes);
    story.all_work().await;
    story.settle().await;
    assert_eq!(outside.events(), ["Succeeded"]);
    let after = status(&story, "ops");
    assert_eq!((&after["delivered"], &after["failed"]), (&json!(1), &json!(1)));
}

// A hub that dies between a message and its note sends it again, under the same id, and the
// next one goes on from there.
#[tokio::test(start_paused = true)]
async fn a_hub_killed_between_send_and_note_sends_the_same_again_and_nothing_is_left_out() {
    let outside = hooks();
    let mut story = story(CLUSTER, &outside, "hooks.example").await;
    channel(&story, "ops", json!({})).await;
    let approval = json!({"beforeStageTasks": [{"type": "Approval"}]});
    story.strategy(json!([stage("canary", json!({})), stage("prod", approval)])).await;
    // No note is ever written.
    let hangs = Rule::at(Point::Request, Effect::Do(FaultOutcome::Hang));
    let notes = Rule {
        resource: CHANNELS.to_owned(),
        verbs: Verbs::Writes,
        who: "hub".to_owned(),
        ..hangs
    };
    story.disturb(vec![notes]);
    story.run("r", json!({"state": "Run"})).await;
    assert!(!outside.events().is_empty());
    story.kill("hub").await;
    story.disturb(Vec::new());
    story.start_as("next").await;
    story.works("m2").await;
    story.kill("next").await;
    story.approve("r-before-prod").await;
    story.start_as("third").await;
    story.all_work().await;
    story.settle().await;
    let mut seen = Vec::new();
    for body in outside.bodies() {
        let id = (text(&body["id"]), text(&body["data"]["event"]));
        if !seen.contains(&id) {
            seen.push(id);
        }
    }
    let events: Vec<&str> = seen.iter().map(|(_, event)| event.as_str()).collect();
    assert_eq!(
        events,
        ["RunStarted", "StageDone", "GateWaiting", "Approved", "StageDone", "Succeeded"]
    );
    assert!(outside.bodies().len() > seen.len(), "something was sent twice");
}

#[tokio::test(start_paused = true)]
async fn failures_and_rollbacks_are_told_and_only_what_is_selected() {
    let outside = hooks();
    let story = story(CLUSTER, &outside, "hooks.example").await;
    story.two_stages().await;
    story.first_version().await;
    story.new_version("2").await;
    story.settle().await;
    let failure = json!({"progressDeadline": "1m", "then": "Rollback"});
    policy(&story, "calm", json!({"failure": failure})).await;
    channel(
        &story,
        "ops",
        json!({"events": ["ClusterFailed", "BudgetSpent", "Failed", "RolledBack"]}),
    )
    .await;
    let tier = json!({"strategies": {"matchLabels": {"tier": "other"}}});
    channel(&story, "others", json!({"selects": tier, "url": "https://hooks.example/other"})).await;
    story.run("r", json!({"state": "Run"})).await;
    story.pass(90).await;
    story.all_work().await;
    story.settle().await;
    assert_eq!(
        outside.events(),
        ["ClusterFailed canary m2", "BudgetSpent", "Failed", "RolledBack"]
    );
    assert_eq!(status(&story, "others")["delivered"], Value::Null);
}

// SSRF: whoever may create a channel gains no way to what the hub can reach.
#[tokio::test(start_paused = true)]
async fn hostile_channels_are_refused_and_say_what_to_change() {
    let outside = hooks();
    outside.resolves("rebound.example", &["169.254.169.254"]);
    outside.resolves("both.example", &["203.0.113.7", "127.0.0.1"]);
    outside.resolves("elsewhere.test", &["203.0.113.9"]);
    let allow = "*.example,hooks.example";
    let story = story(CLUSTER, &outside, allow).await;
    signing_key(&story, json!({})).await;
    let table = [
        (
            json!({"url": "http://169.254.169.254/latest"}),
            "169.254.169.254 is a metadata service of a cloud, which is never called; change the URL",
        ),
        (
            json!({"url": "https://rebound.example/x"}),
            "metadata service of a cloud, which is never called; change the URL",
        ),
        (json!({"url": "https://both.example/x"}), "add 127.0.0.1 to --allow-egress of the hub"),
        (
            json!({"url": "https://elsewhere.test/x"}),
            "add elsewhere.test:443 to its flag --allow-egress",
        ),
        (json!({"url": "http://[::1]:8080/"}), "add [::1]:8080 to its flag --allow-egress"),
        (
            json!({"secretRef": {"name": "hooks", "key": "url"}}),
            "kubectl label -n fleet-system secret hooks flagship.dev/outgoing=true",
        ),
        (
            json!({"secretRef": {"name": "none", "key": "url"}}),
            "Secret fleet-system/none is not there; create it",
        ),
        (
            json!({"signingSecretRef": {"name": "hooks", "key": "key"}}),
            "is not labelled to be sent out",
        ),
    ];
    for (at, (spec, _)) in table.iter().enumerate() {
        channel(&story, &format!("c{at}"), spec.clone()).await;
    }
    story.two_stages().await;
    story.run("r", json!({"state": "Run"})).await;
    story.all_work().await;
    assert!(story.said("r", "Succeeded").starts_with("True"));
    for (at, (spec, why)) in table.iter().enumerate() {
        let told = ready(&story, &format!("c{at}"));
        assert!(told.starts_with("False Refused: "), "{spec}: {told}");
        assert!(told.contains(why), "{spec}: {told}");
    }
    assert_eq!(outside.tries(), 0, "nobody was called");
    // Redirects are answers like any other.
    outside.behave(Behaviour::Answers(302));
    channel(&story, "sent-on", json!({})).await;
    story.run("again", json!({"state": "Run"})).await;
    assert!(ready(&story, "sent-on").contains("302 Found, and redirects are not followed"));
    // What is right again is tried at once.
    outside.behave(Behaviour::Takes);
    let labels = json!({"metadata": {"labels": {"flagship.dev/outgoing": "true"}}});
    story.patch("secrets", "fleet-system", "hooks", labels).await;
    story.patch(CHANNELS, "", "c5", json!({"spec": {"events": ["RunStarted"]}})).await;
    story.soon().await;
    assert!(ready(&story, "c5").starts_with("True"), "{}", ready(&story, "c5"));
    assert!(
        outside.taken.lock().expect("taken").iter().any(|(_, call)| call.path == "/from-secret")
    );
}

#[tokio::test(start_paused = true)]
async fn a_test_message_is_sent_once_when_somebody_asks() {
    let outside = hooks();
    let story = story(CLUSTER, &outside, "hooks.example").await;
    channel(&story, "ops", json!({"type": "Slack"})).await;
    let ask =
        |id: &str| json!({"metadata": {"annotations": {"flagship.dev/test-notification": id}}});
    story.patch(CHANNELS, "", "ops", ask("1")).await;
    story.settle().await;
    assert_eq!(status(&story, "ops")["test"], json!({"id": "1"}));
    assert!(text(&outside.bodies()[0]["text"]).contains("nothing has happened"));
    outside.behave(Behaviour::Refuses);
    story.patch(CHANNELS, "", "ops", ask("2")).await;
    story.pass(600).await;
    let told = status(&story, "ops");
    assert_eq!(told["test"], json!({"id": "2", "error": "hooks.example: connection refused"}));
    assert_eq!(outside.tries(), 2);
}

// A channel tells nothing of what was over before it was made, and what it does not tell of is
// not recorded for it.
#[tokio::test(start_paused = true)]
async fn without_channels_nothing_is_recorded_and_old_runs_are_not_told() {
    let outside = hooks();
    let story = story(CLUSTER, &outside, "hooks.example").await;
    story.two_stages().await;
    story.first_version().await;
    assert!(story.list(super::records::records(CLUSTER), "").is_empty());
    channel(&story, "ops", json!({})).await;
    story.pass(120).await;
    assert_eq!(outside.tries(), 0);
    story.new_version("2").await;
    story.settle().await;
    story.run("r", json!({"state": "Run"})).await;
    assert_eq!(outside.events(), ["RunStarted"]);
    assert_eq!(story.list(super::records::records(CLUSTER), "").len(), 1);
}
