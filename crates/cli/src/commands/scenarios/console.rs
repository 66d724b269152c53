//! The console on a fleet in this process: what the page is told, and what its verbs do.

use bytes::Bytes;
use expect_test::expect;
use flagship_console::{Answer, Console, Guard, Key};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use super::super::connect::Hub;
use super::super::console::shown;
use super::{CLUSTER, NAMESPACED, Scenario};

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

impl Scenario {
    pub(super) fn console(&self) -> Page<'_> {
        let members = self.fleet.clusters.members.keys();
        let members = members.map(|name| (name.clone(), self.member(name).client().clone()));
        self.console_on(Hub::of(self.hub().client().clone(), members.collect()))
    }

    /// The console of somebody.
    fn console_of(&self, who: &str) -> Page<'_> {
        self.console_on(self.reached_by(who))
    }

    fn console_on(&self, hub: Hub) -> Page<'_> {
        let guard = Guard::loopback(Key::read(KEY).unwrap(), 6441);
        Page { console: shown(hub, guard, &self.fleet.env), scenario: self }
    }
}

impl Scenario {
    /// The plan of the placement, as the page gets it.
    pub(super) async fn planned_on_page(&self) -> Value {
        let namespace = self.scope.space();
        let path = format!("/api/plan?placement=example-placement&namespace={namespace}");
        let page = self.console();
        page.json(&path).await
    }
}

/// A page that is open.
pub(super) struct Page<'a> {
    console: Console,
    scenario: &'a Scenario,
}

impl Page<'_> {
    async fn ask(
        &self,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        body: &str,
    ) -> Response<Answer> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1:6441")
            .header("cookie", format!("flagship-console-6441={KEY}"));
        for (name, value) in more {
            request = request.header(*name, *value);
        }
        let body = Full::new(Bytes::from(body.to_owned()));
        self.console.answer(request.body(body).unwrap()).await
    }

    pub(super) async fn json(&self, path: &str) -> Value {
        let answer = self.ask("GET", path, &[], "").await;
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        read(answer).await
    }

    /// A view once it says what is expected of it.
    pub(super) async fn until(&self, view: &str, says: impl Fn(&Value) -> bool) -> Value {
        let mut seen = Value::Null;
        for _ in 0..600 {
            seen = self.json(&format!("/api/view?view={view}")).await;
            if seen["head"]["loading"] == false && says(&seen["head"]) {
                return seen;
            }
            self.scenario.pass(1).await;
        }
        panic!("{view} never said so: {seen:#}");
    }

    async fn act(&self, act: Value) -> (StatusCode, Value) {
        let verb = [("x-flagship-verb", "1"), ("content-type", "application/json")];
        let answer = self.ask("POST", "/api/act", &verb, &act.to_string()).await;
        (answer.status(), read(answer).await)
    }
}

async fn read(answer: Response<Answer>) -> Value {
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

/// Without what only the moment decides.
pub(super) fn timeless(mut value: Value) -> Value {
    fn walk(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.remove("seconds");
                fields.values_mut().for_each(walk);
            }
            Value::Array(items) => items.iter_mut().for_each(walk),
            Value::String(text) => *text = flagship_sim::normal::normal(text),
            _ => {}
        }
    }
    walk(&mut value);
    value
}

fn waits(head: &Value) -> bool {
    head["phase"] == "waiting" && head["verbs"][0]["missing"].is_null()
}

#[tokio::test(start_paused = true)]
async fn the_page_is_told_what_status_prints() {
    for scope in [CLUSTER, NAMESPACED] {
        let tasks = json!({"afterStageTasks": [{"type": "Approval"}]});
        let scenario = Scenario::rolling(scope, tasks).await;
        scenario.until("example-run", "UpdateRunWaiting").await;
        let page = scenario.console();
        let run = format!("run=example-run&namespace={}", scope.space());
        page.until("home", |head| !head["needs"][0].is_null()).await;
        let shown = page.json(&format!("/api/status?{run}")).await;
        let printed = scenario.status("example-run -o json").await;
        let printed = printed.trim_end().trim_end_matches("[exit 4]");
        let printed: Value = serde_json::from_str(printed).unwrap();
        assert_eq!(timeless(shown), timeless(printed));
    }
}

#[tokio::test(start_paused = true)]
async fn an_approval_on_the_page_lets_the_run_go_on_and_the_stream_tells_it() {
    let tasks = json!({"afterStageTasks": [{"type": "Approval"}]});
    let scenario = Scenario::rolling(CLUSTER, tasks).await;
    let page = scenario.console();
    let home = page.until("home", |head| head["needs"][0]["sort"] == "approval").await;
    let line = &home["head"]["needs"][0];
    assert_eq!(line["next"], "flagship approve example-run staging");
    assert_eq!(line["run"]["name"], "example-run");
    let run = page.until("run&name=example-run", waits).await;
    assert_eq!(run["keys"], json!(["member2", "member1", "member3"]));
    assert_eq!(run["rows"][0][0], 2, "staging is done");
    let verb = &run["head"]["verbs"][0];
    assert_eq!(verb["label"], "Approve staging");
    assert_eq!(verb["effect"], "Begins 2 clusters in canary now, 1 at a time.");
    let stream = page.ask("GET", "/events?view=run&name=example-run", &[], "").await;
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let mut stream = stream.into_body();
    let first = next_event(&mut stream).await;
    assert!(first.contains("event: whole"), "{first}");
    let (status, said) = page.act(verb["act"].clone()).await;
    assert_eq!(status, StatusCode::OK, "{said}");
    assert!(said["said"].as_str().unwrap().starts_with("example-run-after-staging approved"));
    let mut told = String::new();
    while !told.contains("\"phase\":\"succeeded\"") {
        told = next_event(&mut stream).await;
        assert!(!told.contains("event: whole"), "only what changed: {told}");
    }
    // Whoever saw the first event and lost the connection is told the rest.
    let seen = first.split("id: ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
    let back = [("last-event-id", seen)];
    let again = page.ask("GET", "/events?view=run&name=example-run", &back, "").await;
    let missed = next_event(&mut again.into_body()).await;
    assert!(missed.contains("\"phase\":\"succeeded\"") && !missed.contains("event: whole"));
    let again = page.act(verb["act"].clone()).await;
    assert_eq!(again.0, StatusCode::CONFLICT, "{}", again.1);
    assert!(again.1["error"].as_str().unwrap().contains("will ask for no approval"));
}

/// What a card says, and what each of its verbs does or lacks.
fn card(run: &Value) -> String {
    let card = &run["head"]["approvals"][0];
    let people = |of: &Value| -> String {
        let all = of.as_array().cloned().unwrap_or_default();
        let one = |who: &Value| format!("{} ({})", who["user"], who["reason"]).replace('"', "");
        all.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let text = |of: &Value| of.as_str().unwrap_or_default().to_owned();
    let mut told = format!(
        "{} {}: {} of {} [{}], wants {}\n",
        text(&card["side"]),
        text(&card["stage"]),
        card["approved"].as_array().map_or(0, Vec::len),
        card["required"],
        people(&card["approved"]),
        text(&card["wanted"]),
    );
    if card["rejected"].is_object() {
        told += &format!("rejected by {}\n", people(&json!([card["rejected"]])));
    }
    let may = match text(&card["mayNot"]) {
        why if why.is_empty() => "may".to_owned(),
        why => format!("may not: {why}"),
    };
    told += &format!("{} {may}\n", text(&card["viewer"]));
    for verb in card["verbs"].as_array().into_iter().flatten() {
        let [label, effect, missing, reason] =
            ["label", "effect", "missing", "reason"].map(|field| text(&verb[field]));
        let does = if missing.is_empty() { format!("{effect} (reason {reason})") } else { missing };
        told += &format!("{label}: {does}\n");
    }
    told
}

#[tokio::test(start_paused = true)]
async fn a_card_says_who_has_approved_and_what_this_person_may_do_about_it() {
    let scenario = Scenario::begin(CLUSTER).await;
    let approvals = json!({"required": 2, "users": ["alice", "bob"], "reason": "Required"});
    let stages = json!({"stages": ["staging"]});
    scenario.policy("careful", json!({"selects": stages, "approvals": approvals})).await;
    scenario.place(json!({"type": "External"})).await;
    scenario.strategy(json!({})).await;
    scenario.run("example-run", "Run").await;
    scenario.until("example-run", "UpdateRunWaiting").await;
    let (alice, bob, eve) =
        (scenario.console_of("alice"), scenario.console_of("bob"), scenario.console_of("eve"));
    let view = "run&name=example-run";
    let asked = |head: &Value| {
        let verbs = head["approvals"][0]["verbs"].as_array().cloned().unwrap_or_default();
        let waits = verbs.iter().any(|verb| verb["missing"] == "Your rights are being checked.");
        !verbs.is_empty() && !waits && head["approvals"][0]["viewer"] != ""
    };
    let seen = eve.until(view, asked).await;
    expect![[r#"
        before staging: 0 of 2 [], wants 2 people, alice or bob, with a reason
        eve may not: eve is not alice or bob (policy careful).
        Approve staging: eve is not alice or bob (policy careful).
        Reject staging: eve is not alice or bob (policy careful).
    "#]]
    .assert_eq(&card(&seen));
    let labels = seen["head"]["verbs"].as_array().into_iter().flatten();
    let labels: Vec<&Value> = labels.map(|verb| &verb["label"]).collect();
    assert_eq!(labels, ["Stop", "Roll back"], "approving is on the card");
    let home = eve
        .until("home", |head| head["needs"][0]["mayNot"] != "Your rights are being checked.")
        .await;
    assert_eq!(home["head"]["needs"][0]["mayNot"], "eve is not alice or bob (policy careful).");
    let seen = alice.until(view, asked).await;
    expect![[r#"
        before staging: 0 of 2 [], wants 2 people, alice or bob, with a reason
        alice may
        Approve staging: Counts as 1 of 2 approvals; 1 more is missing then. When all are there: Begins 1 cluster in staging now. (reason required)
        Reject staging: Keeps the gate closed, whoever approves, until you approve or delete what you said. (reason required)
    "#]].assert_eq(&card(&seen));
    let verb = |seen: &Value, at: usize, reason: &str| {
        let mut act = seen["head"]["approvals"][0]["verbs"][at]["act"].clone();
        act["reason"] = json!(reason);
        act
    };
    // What is disabled on the page is refused behind it, too.
    let (status, said) = eve.act(verb(&seen, 0, "mine")).await;
    assert_eq!(status, StatusCode::CONFLICT, "{said}");
    let (status, said) = alice.act(verb(&seen, 0, "")).await;
    assert_eq!(status, StatusCode::CONFLICT, "{said}");
    assert!(said["error"].as_str().unwrap().contains("wants a reason"), "{said}");
    let mut old = verb(&seen, 0, "tested");
    old["plan"] = json!("0123");
    let (_, said) = alice.act(old).await;
    assert!(said["error"].as_str().unwrap().contains("and not about 0123"), "{said}");
    let (status, said) = alice.act(verb(&seen, 0, "tested")).await;
    assert_eq!(status, StatusCode::OK, "{said}");
    let given = |count: usize| {
        move |head: &Value| head["approvals"][0]["approved"].as_array().map(Vec::len) == Some(count)
    };
    let seen = alice.until(view, given(1)).await;
    expect![[r#"
        before staging: 1 of 2 [alice (tested)], wants 2 people, alice or bob, with a reason
        alice may not: You have approved it.
        Approve staging: You have approved it.
        Reject staging: Keeps the gate closed, whoever approves, until you approve or delete what you said. (reason required)
    "#]].assert_eq(&card(&seen));
    // Somebody says no, and takes it back by saying yes.
    let seen = bob.until(view, |head| asked(head) && given(1)(head)).await;
    let (status, said) = bob.act(verb(&seen, 1, "risky")).await;
    assert_eq!(status, StatusCode::OK, "{said}");
    let rejected = |head: &Value| head["approvals"][0]["rejected"].is_object();
    let seen = alice.until(view, rejected).await;
    expect![[r#"
        before staging: 1 of 2 [alice (tested)], wants 2 people, alice or bob, with a reason
        rejected by bob (risky)
        alice may not: You have approved it.
        Approve staging: You have approved it.
        Reject staging: Keeps the gate closed, whoever approves, until you approve or delete what you said. (reason required)
    "#]].assert_eq(&card(&seen));
    let seen = bob.until(view, rejected).await;
    let effect = seen["head"]["approvals"][0]["verbs"][0]["effect"].as_str().unwrap_or_default();
    assert_eq!(effect, "Takes your rejection back. Begins 1 cluster in staging now.");
    scenario.pass(2).await;
    let (status, said) = bob.act(verb(&seen, 0, "read the notes")).await;
    assert_eq!(status, StatusCode::OK, "{said}");
    bob.until(view, |head| head["approvals"].as_array().is_some_and(Vec::is_empty)).await;
    scenario.until("example-run", "UpdateRunSucceeded").await;
}

#[tokio::test(start_paused = true)]
async fn breaking_the_glass_is_offered_to_those_who_may_and_to_nobody_else() {
    for (groups, scope) in [(json!(["sre"]), CLUSTER), (json!(["system:masters"]), NAMESPACED)] {
        let may = groups[0] != "sre";
        let scenario = Scenario::begin(scope).await;
        let approvals =
            json!({"required": 1, "users": ["alice"], "breakGlass": {"groups": groups}});
        let stages = json!({"stages": ["staging"]});
        scenario.policy("careful", json!({"selects": stages, "approvals": approvals})).await;
        scenario.place(json!({"type": "External"})).await;
        scenario.strategy(json!({})).await;
        scenario.run("example-run", "Run").await;
        scenario.until("example-run", "UpdateRunWaiting").await;
        let page = scenario.console_of("bob");
        let view = format!("run&name=example-run&namespace={}", scope.space());
        let seen = page.until(&view, |head| head["approvals"][0]["viewer"] == "bob").await;
        let verbs = seen["head"]["approvals"][0]["verbs"].as_array().cloned().unwrap_or_default();
        assert_eq!(verbs.len(), if may { 3 } else { 2 }, "{verbs:#?}");
        let mut act = verbs[0]["act"].clone();
        (act["breakGlass"], act["reason"]) = (json!(true), json!("the site is down"));
        let (status, said) = page.act(act.clone()).await;
        if !may {
            assert!(said["error"].as_str().unwrap().contains("may not break the glass"), "{said}");
            continue;
        }
        assert_eq!(
            (status, &verbs[2]["act"]["breakGlass"]),
            (StatusCode::OK, &json!(true)),
            "{said}"
        );
        scenario.until("example-run", "UpdateRunSucceeded").await;
    }
}

async fn next_event(stream: &mut Answer) -> String {
    loop {
        let frame = stream.frame().await.unwrap().unwrap();
        let text = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
        if text != ":\n\n" {
            return text;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stuck_run_is_explained_down_to_the_pod_and_can_be_stopped() {
    let scenario = Scenario::begin(CLUSTER).await;
    scenario.deploy("nginx:1.28:latest").await;
    scenario.gets_stuck(json!({"type": "External"})).await;
    let page = scenario.console();
    let home = page.until("home", |head| head["needs"][0]["cause"] == "IMAGE_NAME_INVALID").await;
    assert_eq!(home["head"]["needs"][0]["sort"], "stuck");
    // The agent's report on the hub names the cause at once, a look at the member the pod.
    let names_the_pod = |head: &Value| {
        let evidence = head["finding"]["evidence"].as_array();
        evidence.and_then(|steps| steps.last()).is_some_and(|step| step["kind"] == "pod")
    };
    let run = page.until("run&name=example-run", names_the_pod).await;
    assert_eq!(run["head"]["finding"]["cause"], "IMAGE_NAME_INVALID");
    let rows = run["rows"].as_array().into_iter().flatten();
    let stuck: Vec<&Value> = rows.filter(|cell| cell[3] == "IMAGE_NAME_INVALID").collect();
    assert_eq!(stuck.len(), 1, "{run:#}");
    assert_eq!(stuck[0][0], 5, "drawn as stuck");
    let drawer = page.until("cluster&name=member2", |head| !head["member"].is_null()).await;
    assert_eq!(drawer["head"]["member"]["pods"][0]["reason"], "InvalidImageName");
    let fleet = page.until("fleet", |_| true).await;
    let at = fleet["keys"].as_array().unwrap().iter().position(|key| key == "member2").unwrap();
    assert_eq!(fleet["rows"][at]["has"], json!([["0", 3]]), "failed");
    let verbs = run["head"]["verbs"].as_array().unwrap();
    let labels: Vec<&Value> = verbs.iter().map(|verb| &verb["label"]).collect();
    assert_eq!(labels, ["Stop", "Roll back"]);
    assert_eq!(
        verbs[1]["missing"],
        "No other version of example-placement was rolled out completely."
    );
    assert_eq!(
        verbs[0]["effect"],
        "Begins no further cluster: 2 clusters keep what they have. member2 under way goes on until done."
    );
    let (status, said) = page.act(verbs[0]["act"].clone()).await;
    assert_eq!(status, StatusCode::OK, "{said}");
    page.until("run&name=example-run", |head| head["verbs"][0]["label"] == "Resume").await;
}

#[tokio::test(start_paused = true)]
async fn what_is_not_a_verb_is_refused_and_does_nothing() {
    let scenario = Scenario::begin(CLUSTER).await;
    let page = scenario.console();
    for (act, why) in [
        (json!({"verb": "delete", "run": "x"}), "this is no verb"),
        (json!({"verb": "stop", "run": "--help"}), "begins with a dash"),
        (json!({"verb": "stop", "run": "nothing"}), "there is no run nothing"),
        (json!("stop"), "this is no verb"),
    ] {
        let (status, said) = page.act(act).await;
        assert!(status.is_client_error(), "{said}");
        assert!(said["error"].as_str().unwrap().contains(why), "{said}");
    }
    let answer = page.ask("GET", "/?key=wrong", &[("cookie", "")], "").await;
    assert_eq!(answer.status(), StatusCode::OK, "the cookie still counts");
    let policy = answer.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'self'; frame-ancestors 'none'"), "{policy}");
}
