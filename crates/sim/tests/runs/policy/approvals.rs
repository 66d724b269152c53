//! Approvals under a policy on a hub with all its controllers and its admission, in both scopes;
//! and the ways in which somebody might try to get past them.

use flagship_apiserver::rest::{DeleteOptions, Local, PatchKind, WriteOptions};
use flagship_fleet::HubAdmission;
use serde_json::{Value, json};

use super::clusters::policy;
use super::ways_past::{self, HASH, RECORDS, REQUEST, REQUESTS, RUNS, Try, WORDS, attempts};
use crate::update_run::story::{CLUSTER, SCOPES, Scope, Story, said};
use flagship_sim::testing::without_profiles;

/// A hub whose admission knows who sends, with a policy and two stages without any gate.
async fn story(scope: Scope, approvals: Value) -> Story {
    let mut options = without_profiles();
    options.update_runs.approvers_are_verified = true;
    let mut story = Story::prepared(scope, options).await;
    HubAdmission::install(&story.hub, &story.options);
    story.place("web", json!({"placementType": "PickAll"})).await;
    policy(&story, "strict", json!({"approvals": approvals})).await;
    story.two_stages().await;
    story.start_as("hub").await;
    story
}

/// Somebody from the network.
fn person(story: &Story, who: &str) -> Local {
    let (name, group) = who.split_once('@').unwrap_or((who, "nobody"));
    story.hub.local_as(name, &[group, "system:authenticated"])
}

fn requests(scope: Scope) -> &'static str {
    match scope.space {
        "" => "clusterapprovalrequests.placement.kubernetes-fleet.io",
        _ => "approvalrequests.placement.kubernetes-fleet.io",
    }
}

fn words(scope: Scope) -> (&'static str, &'static str) {
    match scope.space {
        "" => ("clusterapprovals.flagship.dev", "ClusterApproval"),
        _ => ("approvals.flagship.dev", "Approval"),
    }
}

async fn starts(story: &Story, who: &str, run: &str, more: Value) {
    let mut metadata = story.scope.meta(run);
    metadata["annotations"] = more;
    let runs = story.scope.runs();
    let info = flagship_api::kinds::find(&runs).expect("a kind of the table");
    let object = json!({"apiVersion": format!("{}/v1beta1", info.group), "kind": info.kind,
        "metadata": metadata,
        "spec": {"placementName": "web", "stagedRolloutStrategyName": "plan", "state": "Run"}});
    person(story, who).create(&runs, story.scope.space, object).await.expect("a run");
    story.soon().await;
}

/// What somebody says to a request; the spec may be changed.
fn word(story: &Story, request: &str, name: &str, more: &Value) -> Value {
    let found = story.get(requests(story.scope), story.scope.space, request);
    let mut object = ways_past::word(&found, name, more);
    object["kind"] = json!(words(story.scope).1);
    object["metadata"] = story.scope.meta(name);
    object
}

async fn says(story: &Story, who: &str, request: &str, more: Value) -> Result<Value, String> {
    let name = format!("{request}-{}", story.list(words(story.scope).0, "").len());
    let object = word(story, request, &name, &more);
    let user = person(story, who);
    let made = user.create(words(story.scope).0, story.scope.space, object).await;
    story.soon().await;
    made.map_err(|error| error.message)
}

/// How the gate before a stage stands, as the run says.
fn stands(story: &Story, stage: &str) -> String {
    let stage = story.stage("r", stage);
    let told = said(&stage["beforeStageTaskStatus"][0]["conditions"], "ApprovalRequestCreated");
    told.split_once(": ").map_or("", |(_, told)| told).to_owned()
}

fn begun(story: &Story) -> bool {
    story.holds()[1] != "m2 Scheduled"
}

#[tokio::test(start_paused = true)]
async fn two_people_let_a_stage_begin_and_are_named() {
    for scope in SCOPES {
        let rules = json!({"required": 2, "groups": ["managers"], "reason": "Required"});
        let story = story(scope, rules).await;
        starts(&story, "carol", "r", json!({})).await;
        // The strategy asks for no approval; the policy does.
        assert_eq!(
            stands(&story, "canary"),
            "0 of 2 approvals; 2 missing, from 2 people, of group managers, with a reason"
        );
        let request = "r-before-canary";
        says(&story, "alice@managers", request, json!({"reason": "tested"})).await.unwrap();
        assert!(!begun(&story));
        assert!(stands(&story, "canary").starts_with("1 of 2 approvals, by alice (tested); 1"));
        says(&story, "bob@managers", request, json!({"reason": "read"})).await.unwrap();
        assert!(begun(&story), "{}", story.told("r"));
        let conditions = story.request(request)["status"]["conditions"].clone();
        assert_eq!(
            said(&conditions, "Approved"),
            "True RolloutPolicyApprovalsCounted: approved by alice (tested), bob (read)"
        );
        assert!(said(&conditions, "ApprovalAccepted").starts_with("True"));
        let records = match scope.space {
            "" => RECORDS,
            _ => "rolloutrecords.flagship.dev",
        };
        let record = story.get(records, scope.space, "r");
        let entries = record["spec"]["entries"].as_array().unwrap();
        let approved = entries.iter().find(|entry| entry["what"] == "Approved").unwrap();
        assert_eq!(approved["who"], json!({"name": "alice, bob", "known": "Admission"}));
        assert_eq!(record["spec"]["policies"][0]["spec"]["approvals"]["required"], 2);
        // The next stage asks anew, for both.
        story.works("m2").await;
        story.settle().await;
        assert!(stands(&story, "prod").starts_with("0 of 2 approvals"), "{}", story.told("r"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejection_holds_the_gate_until_it_is_taken_back() {
    for scope in SCOPES {
        let story = story(scope, json!({"required": 1})).await;
        starts(&story, "carol", "r", json!({})).await;
        let request = "r-before-canary";
        let no = json!({"decision": "Reject", "reason": "it leaks"});
        let made = says(&story, "bob", request, no).await.unwrap();
        says(&story, "alice", request, json!({})).await.unwrap();
        assert_eq!(stands(&story, "canary"), "rejected by bob (it leaks)");
        assert!(!begun(&story));
        let name = made["metadata"]["name"].as_str().unwrap();
        let delete = |who: &str| {
            let user = person(&story, who);
            async move { user.delete(words(scope).0, scope.space, name, DeleteOptions::default()).await }
        };
        let told = delete("alice").await.unwrap_err().message;
        assert!(told.contains("only who said it may take it back"), "{told}");
        delete("bob").await.unwrap();
        story.soon().await;
        assert!(begun(&story), "{}", story.told("r"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_is_enough_where_one_word_is_and_says_who_wrote_it() {
    for scope in SCOPES {
        let story = story(scope, json!({"required": 1, "groups": ["managers"]})).await;
        starts(&story, "carol", "r", json!({})).await;
        let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True",
            "reason": "ClusterApprovalRequestApproved", "message": "has been approved",
            "observedGeneration": 1, "lastTransitionTime": story.env.now().to_string()}]}});
        let patch = |who: &str| {
            let (user, patch) = (person(&story, who), approved.clone());
            async move {
                let (kind, options) = (PatchKind::Merge, WriteOptions::default());
                let at = (requests(scope), scope.space, "r-before-canary");
                user.patch(at.0, at.1, at.2, "status", kind, patch, &options).await
            }
        };
        let told = patch("eve@interns").await.unwrap_err().message;
        assert!(told.contains("eve is not of group managers (policy strict)"), "{told}");
        patch("alice@managers").await.unwrap();
        story.soon().await;
        assert!(begun(&story), "{}", story.told("r"));
        let conditions = story.request("r-before-canary")["status"]["conditions"].clone();
        assert!(said(&conditions, "Approved").ends_with("approved by alice"), "{conditions}");
    }
}

#[tokio::test(start_paused = true)]
async fn words_expire_and_where_the_policy_says_stop_the_run_ends() {
    let story = story(CLUSTER, json!({"required": 2, "expiresAfter": "1h"})).await;
    starts(&story, "carol", "r", json!({})).await;
    says(&story, "alice", "r-before-canary", json!({})).await.unwrap();
    story.pass(3601).await;
    says(&story, "bob", "r-before-canary", json!({})).await.unwrap();
    assert!(
        stands(&story, "canary").contains("1 of 2 approvals, by bob"),
        "{}",
        stands(&story, "canary")
    );
    assert!(stands(&story, "canary").contains("that of alice expired at"));
    says(&story, "alice", "r-before-canary", json!({})).await.unwrap();
    assert!(begun(&story), "{}", stands(&story, "canary"));

    let ends = json!({"required": 2, "expiresAfter": "1h", "then": "Stop"});
    let story = self::story(CLUSTER, ends).await;
    starts(&story, "carol", "r", json!({})).await;
    says(&story, "alice", "r-before-canary", json!({})).await.unwrap();
    story.pass(3700).await;
    let told = story.said("r", "Succeeded");
    assert!(told.contains("by alice expired before 2 were given, and policy strict"), "{told}");
    assert!(!begun(&story));
}

#[tokio::test(start_paused = true)]
async fn a_lead_who_breaks_the_glass_lets_one_stage_of_one_run_pass_a_freeze() {
    let glass = json!({"required": 2, "breakGlass": {"groups": ["leads"]}});
    let story = story(CLUSTER, glass).await;
    let freeze = json!({"metadata": {"name": "stop"}, "spec": {"reason": "incident 4711"}});
    story.create("freezes.flagship.dev", freeze).await;
    starts(&story, "carol", "r", json!({})).await;
    assert!(story.said("r", "Progressing").contains("UpdateRunFrozen"));
    let burns = json!({"breakGlass": true, "reason": "it burns"});
    says(&story, "eve@interns", "r-before-canary", burns.clone()).await.unwrap();
    assert!(!begun(&story));
    says(&story, "lea@leads", "r-before-canary", burns).await.unwrap();
    story.settle().await;
    assert!(begun(&story), "{} {}", story.told("r"), stands(&story, "canary"));
    let record = story.get(RECORDS, "", "r");
    let entries = record["spec"]["entries"].as_array().unwrap();
    let broke = entries.iter().find(|entry| entry["what"] == "GlassBroken").unwrap();
    assert_eq!((&broke["who"]["name"], &broke["text"]), (&json!("lea"), &json!("lea (it burns)")));
    story.works("m2").await;
    story.settle().await;
    assert_eq!(story.holds()[0], "m1 Scheduled", "the next stage is frozen as before");
    assert!(story.said("r", "Progressing").contains("UpdateRunFrozen"));
}

#[tokio::test(start_paused = true)]
async fn ways_to_get_past_the_policy() {
    let story = story(CLUSTER, ways_past::rules()).await;
    // A name that somebody writes on their own run is written over.
    starts(&story, "carol@managers", "r", json!({"flagship.dev/created-by": "zoe"})).await;
    let first = word(&story, REQUEST, "alice", &json!({"reason": "tested"}));
    person(&story, "alice@managers").create(WORDS, "", first).await.unwrap();
    story.soon().await;
    assert!(stands(&story, "canary").contains("1 of 2 approvals, by alice"));
    let all = attempts(&story.env.now().to_string());
    assert!(all.len() >= 30, "{}", all.len());
    for (at, (what, who, attempt, told)) in all.into_iter().enumerate() {
        let user = person(&story, who);
        let (kind, options) = (PatchKind::Merge, WriteOptions::default());
        let answer = match attempt {
            Try::Say(more) => {
                let object = word(&story, REQUEST, &format!("word-{at}"), &more);
                user.create(WORDS, "", object).await.map(|_| ())
            }
            Try::Make(resource, kind, spec) => {
                let object = json!({"apiVersion": "flagship.dev/v1alpha1", "kind": kind,
                    "metadata": {"name": format!("made-{at}")}, "spec": spec});
                user.create(resource, "", object).await.map(|_| ())
            }
            Try::Patch(resource, name, sub, patch) => {
                user.patch(resource, "", name, sub, kind, patch, &options).await.map(|_| ())
            }
            Try::Delete(resource, name) => {
                user.delete(resource, "", name, DeleteOptions::default()).await.map(|_| ())
            }
        };
        story.settle().await;
        assert!(!begun(&story), "{what} gets past the policy");
        let stored = answer.is_ok();
        let said = match answer {
            Ok(()) => refused_words(&story),
            Err(error) => format!("refused: {}", error.message),
        };
        match told.strip_prefix("refused: ") {
            Some(why) => assert!(!stored && said.contains(why), "{what}: {said}"),
            None => assert!(stored && said.contains(told), "{what}: {said}"),
        }
        // One word that does not count hides no other.
        if stored && story.find(WORDS, "", &format!("word-{at}")).is_some() {
            story.delete(WORDS, "", &format!("word-{at}")).await;
            story.soon().await;
        }
    }
    // The honest way is still open.
    for who in ["alice@managers", "bob@managers"] {
        says(&story, who, REQUEST, json!({"reason": "tested"})).await.unwrap();
    }
    assert!(begun(&story), "{}", stands(&story, "canary"));
}

/// How the gate stands, in the words of the run.
fn refused_words(story: &Story) -> String {
    stands(story, "canary")
}

#[tokio::test(start_paused = true)]
async fn whoever_lets_a_run_go_on_is_behind_it() {
    let rules = json!({"required": 1, "notAuthor": true});
    let story = story(CLUSTER, rules).await;
    starts(&story, "carol", "r", json!({})).await;
    let state = |who: &str, state: &str| {
        let (user, patch) = (person(&story, who), json!({"spec": {"state": state}}));
        async move {
            let (kind, options) = (PatchKind::Merge, WriteOptions::default());
            user.patch(RUNS, "", "r", "", kind, patch, &options).await.unwrap();
        }
    };
    for who in ["bob", "dan"] {
        state(who, "Stop").await;
        state(who, "Run").await;
    }
    story.settle().await;
    for who in ["carol", "bob", "dan"] {
        says(&story, who, REQUEST, json!({})).await.unwrap();
        assert!(!begun(&story), "{who} is behind the run");
    }
    says(&story, "alice", REQUEST, json!({})).await.unwrap();
    assert!(begun(&story), "{}", stands(&story, "canary"));
}

/// In a namespace of the same name nothing is said to a request of the whole cluster.
#[tokio::test(start_paused = true)]
async fn an_approval_of_another_scope_is_about_another_request() {
    let story = story(CLUSTER, json!({"required": 1})).await;
    starts(&story, "carol", "r", json!({})).await;
    let mut object = word(&story, REQUEST, "w", &json!({}));
    object["kind"] = json!("Approval");
    object["metadata"]["namespace"] = json!("app");
    person(&story, "alice").create("approvals.flagship.dev", "app", object).await.unwrap();
    story.settle().await;
    assert!(!begun(&story));
}

/// Whoever may write the status of runs is not who may approve: the record does not bear it out.
#[tokio::test(start_paused = true)]
async fn a_gate_that_only_the_status_of_the_run_calls_open_stays_closed() {
    let story = Story::begin(CLUSTER).await;
    policy(&story, "strict", json!({"approvals": {"required": 1}})).await;
    story.two_stages().await;
    story.run("r", json!({"state": "Run"})).await;
    for stage in [0, 1] {
        let mut status = story.object("r")["status"].clone();
        let gate = &mut status["stagesStatus"][stage]["beforeStageTaskStatus"][0]["conditions"];
        let open = json!({"type": "ApprovalRequestApproved", "status": "True", "reason": "x",
            "message": "", "observedGeneration": 1,
            "lastTransitionTime": story.env.now().to_string()});
        match gate.as_array_mut() {
            Some(told) => told.push(open),
            None => *gate = json!([open]),
        }
        story.user_patches(RUNS, "", "r", "status", json!({"status": status})).await;
        story.pass(120).await;
        assert!(!begun(&story), "{}", story.told("r"));
        let told = story.stage("r", ["canary", "prod"][stage])["beforeStageTaskStatus"].to_string();
        assert!(!told.contains("ApprovalRequestApproved"), "{told}");
    }
}

/// Where no admission vouches for names nobody counts, and no status does.
#[tokio::test(start_paused = true)]
async fn a_hub_without_webhooks_counts_nobody_and_believes_no_status() {
    let story = Story::begin(CLUSTER).await;
    policy(&story, "strict", json!({"approvals": {"required": 1}})).await;
    story.two_stages().await;
    story.run("r", json!({"state": "Run"})).await;
    story.approve(REQUEST).await;
    story.settle().await;
    assert!(!begun(&story), "a status is not a word");
    let by = json!({"by": {"user": "alice"}});
    story.create(WORDS, word(&story, REQUEST, "w", &by)).await;
    story.settle().await;
    assert!(!begun(&story));
    assert!(stands(&story, "canary").contains("--enable-webhook"), "{}", stands(&story, "canary"));
}

/// Whoever may patch a run may write its annotations where no webhook stops them: what it follows
/// is held against what the hub has written into its status.
#[tokio::test(start_paused = true)]
async fn a_run_on_a_hub_without_webhooks_is_not_taken_out_of_its_policies() {
    let adopted = "flagship.dev/adopted-policies";
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        policy(&story, "late", json!({"windows": [{"allow": "Sun 00:00-00:01"}]})).await;
        story.two_stages().await;
        story.run("r", json!({"state": "Run"})).await;
        let follows = story.said("r", "FollowsPolicies");
        assert!(
            follows
                .starts_with("True RolloutPoliciesAdopted: follows rollout policy late; the copy"),
            "{follows}"
        );
        let copy =
            story.object("r")["metadata"]["annotations"][adopted].as_str().unwrap().to_owned();
        let patch = |text: Value| {
            let story = &story;
            async move {
                let patch = json!({"metadata": {"annotations": {adopted: text}}});
                story.user_patches(&scope.runs(), scope.space, "r", "", patch).await;
                story.soon().await;
            }
        };
        let open = copy.replace("Sun 00:00-00:01", "Mon-Sun 00:00-24:00");
        assert_ne!(copy, open);
        for (text, told) in [
            (json!(null), "is gone or cannot be read"),
            (json!(open), "it has the right names and another content"),
            (json!("{}"), "is gone or cannot be read"),
            (json!(copy.replace("late", "early")), "says that it follows rollout policy early"),
        ] {
            patch(text).await;
            assert!(!begun(&story), "{}", story.told("r"));
            let said = story.said("r", "Progressing");
            assert!(
                said.starts_with(
                    "False UpdateRunPoliciesChanged: the update run follows rollout policy late"
                ),
                "{said}"
            );
            assert!(said.contains(told), "{said}");
        }
        patch(json!(copy)).await;
        assert!(story.said("r", "Progressing").contains("UpdateRunWindowClosed"));
        assert!(!begun(&story));
    }
}

/// The same of approvals: what people said to the run before does not open it.
#[tokio::test(start_paused = true)]
async fn a_run_whose_policies_are_gone_accepts_no_approval() {
    let story = Story::begin(CLUSTER).await;
    policy(&story, "strict", json!({"approvals": {"required": 1}})).await;
    story.two_stages().await;
    story.run("r", json!({"state": "Run"})).await;
    let patch = json!({"metadata": {"annotations": {"flagship.dev/adopted-policies": null}}});
    story.user_patches(RUNS, "", "r", "", patch).await;
    story
        .user_patches(REQUESTS, "", REQUEST, "", json!({"metadata": {"annotations": {HASH: null}}}))
        .await;
    story.approve(REQUEST).await;
    story.pass(120).await;
    assert!(!begun(&story), "{}", story.told("r"));
    let conditions = story.request(REQUEST)["status"]["conditions"].clone();
    assert_eq!(said(&conditions, "ApprovalAccepted"), "");
    assert!(story.said("r", "Progressing").starts_with("False UpdateRunPoliciesChanged"));
}
