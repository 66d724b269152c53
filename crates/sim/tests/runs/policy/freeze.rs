//! Freezes, in the middle of runs.

use serde_json::{Value, json};

use crate::update_run::story::{CLUSTER, SCOPES, Story, fixed, said, stage};

const FREEZES: &str = "freezes.flagship.dev";

async fn freeze(story: &Story, name: &str, more: Value) {
    let mut spec = json!({"reason": "incident 4711"});
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    let metadata = json!({"name": name, "annotations": {"flagship.dev/created-by": "alice"}});
    story.create(FREEZES, json!({"metadata": metadata, "spec": spec})).await;
    story.soon().await;
}

async fn lift(story: &Story, name: &str) {
    story.delete(FREEZES, "", name).await;
    story.soon().await;
}

const FROZEN: &str =
    "False UpdateRunFrozen: Frozen by alice until it is lifted, freeze stop: incident 4711";

#[tokio::test(start_paused = true)]
async fn clusters_under_way_finish_and_no_other_begins_until_the_freeze_is_lifted() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        story.run("r", json!({"state": "Run"})).await;
        freeze(&story, "stop", json!({})).await;
        assert_eq!(story.said("r", "Progressing"), FROZEN);
        story.works("m2").await;
        assert!(story.stage("r", "canary")["endTime"].is_string(), "what was begun finishes");
        story.pass(600).await;
        assert_eq!(story.said("r", "Progressing"), FROZEN);
        assert_eq!(story.holds()[0], "m1 Scheduled");
        assert!(story.stage("r", "prod").get("startTime").is_none());
        lift(&story, "stop").await;
        assert!(story.said("r", "Progressing").starts_with("True UpdateRunProgressing"));
        assert!(story.holds()[0].starts_with("m1 Bound"));
        story.all_work().await;
        assert!(story.said("r", "Succeeded").starts_with("True"));
        let told = "Normal UpdateRunFrozen r: Frozen by alice until it is lifted, freeze stop: incident 4711 (x1)";
        let events = story.events_of("StagedUpdateRun");
        assert!(events.iter().any(|event| event == told), "{events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_freeze_ends_by_itself_and_two_people_may_freeze() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        let soon = story.env.now().saturating_add(jiff::SignedDuration::from_secs(60)).unwrap();
        freeze(&story, "first", json!({"until": soon.to_string()})).await;
        freeze(&story, "stop", json!({})).await;
        story.run("r", json!({"state": "Run"})).await;
        // Of two, the one that lasts longest.
        assert_eq!(story.said("r", "Progressing"), FROZEN);
        lift(&story, "stop").await;
        let until = format!("Frozen by alice until {soon:.0}, freeze first: incident 4711");
        assert_eq!(story.said("r", "Progressing"), format!("False UpdateRunFrozen: {until}"));
        assert_eq!(story.holds()[1], "m2 Scheduled");
        story.pass(61).await;
        assert!(story.holds()[1].starts_with("m2 Bound"), "{}", story.told("r"));
        story.all_work().await;
        assert!(story.said("r", "Succeeded").starts_with("True"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_freeze_holds_only_what_it_selects_and_nothing_it_excepts() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        let excepted = match scope.space {
            "" => "r".to_owned(),
            space => format!("{space}/r"),
        };
        freeze(&story, "others", json!({"except": {"runs": [excepted]}})).await;
        let tier = json!({"strategies": {"matchLabels": {"tier": "production"}}});
        freeze(&story, "tier", json!({"selects": tier})).await;
        freeze(&story, "prod", json!({"selects": {"stages": ["prod*"]}})).await;
        story.run("r", json!({"state": "Run"})).await;
        // Nobody has labelled the strategy, and the stage is another.
        assert!(story.holds()[1].starts_with("m2 Bound"), "{}", story.told("r"));
        story.works("m2").await;
        assert!(story.said("r", "Progressing").contains("freeze prod"), "{}", story.told("r"));
        lift(&story, "prod").await;
        assert!(story.holds()[0].starts_with("m1 Bound"));
        let labels = json!({"metadata": {"labels": {"tier": "production"}}});
        story.patch(&scope.strategies(), scope.space, "plan", labels).await;
        story.works("m1").await;
        assert!(story.said("r", "Progressing").contains("freeze tier"), "{}", story.told("r"));
        assert_eq!(story.holds()[2], "m3 Scheduled");
        lift(&story, "tier").await;
        story.all_work().await;
        assert!(story.said("r", "Succeeded").starts_with("True"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_approval_given_while_frozen_counts_when_the_freeze_is_lifted() {
    let story = Story::begin(CLUSTER).await;
    let tasks = json!({"beforeStageTasks": [{"type": "Approval"}]});
    story.strategy(json!([stage("canary", tasks), stage("prod", json!({}))])).await;
    freeze(&story, "stop", json!({})).await;
    story.run("r", json!({"state": "Run"})).await;
    assert_eq!(story.said("r", "Progressing"), FROZEN);
    story.approve("r-before-canary").await;
    assert_eq!(story.said("r", "Progressing"), FROZEN);
    assert_eq!(story.holds()[1], "m2 Scheduled");
    let accepted =
        said(&story.request("r-before-canary")["status"]["conditions"], "ApprovalAccepted");
    assert!(accepted.starts_with("True"));
    lift(&story, "stop").await;
    assert!(story.holds()[1].starts_with("m2 Bound"));
}

#[tokio::test(start_paused = true)]
async fn a_frozen_run_removes_nothing() {
    let story = Story::picking(CLUSTER, fixed(&["m1", "m2", "m3"])).await;
    story.two_stages().await;
    story.first_version().await;
    let named = json!({"spec": {"policy": {"clusterNames": ["m2", "m3"]}}});
    story.patch(story.scope.placements, "", "web", named).await;
    story.settle().await;
    freeze(&story, "stop", json!({})).await;
    story.run("r", json!({"state": "Run"})).await;
    story.pass(60).await;
    assert_eq!(story.said("r", "Progressing"), FROZEN);
    assert!(story.binding("m1")["metadata"]["deletionTimestamp"].is_null());
    lift(&story, "stop").await;
    story.all_work().await;
    story.settle().await;
    assert_eq!(story.holds().len(), 2);
    assert!(story.said("r", "Succeeded").starts_with("True"), "{}", story.told("r"));
}

// The freeze is found by a hub that was not there when it was made.
#[tokio::test(start_paused = true)]
async fn a_freeze_outlives_its_hub() {
    let mut story = Story::begin(CLUSTER).await;
    story.two_stages().await;
    story.run("r", json!({"state": "Run"})).await;
    story.kill("hub").await;
    freeze(&story, "stop", json!({})).await;
    story.works("m2").await;
    story.start_as("next").await;
    story.pass(120).await;
    assert_eq!(story.said("r", "Progressing"), FROZEN);
    assert_eq!(story.holds()[0], "m1 Scheduled");
}

// Rule 7 of the extension: a hub on a server without our own kinds works as ever.
#[tokio::test(start_paused = true)]
async fn a_hub_works_without_the_definitions() {
    let mut story = Story::prepared(CLUSTER, flagship_sim::testing::without_profiles()).await;
    for info in flagship_api::kinds::policies() {
        let name = info.crd_name();
        story.delete("customresourcedefinitions.apiextensions.k8s.io", "", &name).await;
    }
    story.place("web", json!({"placementType": "PickAll"})).await;
    story.start_as("hub").await;
    story.two_stages().await;
    story.first_version().await;
}
