//! Clusters that take too long: said at the right moment, taken back when they recover.

use std::time::Duration;

use flagship_hub::Options;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::update_run::story::{SCOPES, Story, said, stage};
use flagship_sim::testing::text;

const STUCK: &str = "False UpdateRunStuck: The updateRun is stuck waiting for m2 cluster(s) in stage canary to finish updating, please check placement status for potential errors";

// scenarios 11 and 13; checklist 13.5 apply failure -> stays stuck (condition + metric)
#[tokio::test(start_paused = true)]
async fn a_cluster_that_fails_is_stuck_exactly_five_minutes_after_its_start() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        story.run("r", json!({"state": "Run"})).await;
        story.reports("m2", "Applied", "True", "AllWorkHaveBeenApplied").await;
        story.reports("m2", "Available", "False", "NotAllWorkAreAvailable").await;
        story.pass(298).await;
        assert!(story.said("r", "Progressing").starts_with("True"));
        story.pass(3).await;
        assert_eq!(story.said("r", "Progressing"), STUCK);
        assert_eq!(story.said("r", "Succeeded"), "");
        let time =
            |c: &serde_json::Value| text(&c["lastTransitionTime"]).parse::<Timestamp>().unwrap();
        let status = story.object("r")["status"].clone();
        let started = &status["stagesStatus"][0]["clusters"][0]["conditions"][0];
        assert_eq!(
            (text(&started["type"]), text(&started["message"])),
            ("Started".into(), "Cluster update started".into())
        );
        let waited = time(&status["conditions"][1]).duration_since(time(started));
        assert_eq!(waited, SignedDuration::from_mins(5));
        let canary = story.stage("r", "canary");
        assert_eq!(
            said(&canary["conditions"], "Progressing"),
            "True StageUpdatingStarted: Clusters in the stage started updating"
        );
        assert!(story.stage("r", "prod").get("conditions").is_none());
        let metrics = story.metrics.render();
        let stuck = format!(
            "fleet_workload_update_run_status_last_timestamp_seconds{{namespace=\"{}\",name=\"r\",state=\"Run\",condition=\"Progressing\",status=\"False\",reason=\"UpdateRunStuck\",failureType=\"internal_error\"}}",
            scope.space
        );
        assert!(metrics.contains(&stuck), "{metrics}");
        // The member repairs it; the same run goes on at once.
        story.works("m2").await;
        assert!(story.said("r", "Progressing").starts_with("True UpdateRunProgressing"));
        assert!(story.holds()[0].starts_with("m1 Bound"));
        story.all_work().await;
        assert!(story.said("r", "Succeeded").starts_with("True"));
    }
}

// scenario 12
#[tokio::test(start_paused = true)]
async fn a_stopping_run_can_be_stuck_too() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        story.run("r", json!({"state": "Run"})).await;
        story.set_state("r", "Stop").await;
        assert!(story.said("r", "Progressing").starts_with("Unknown UpdateRunStopping"));
        story.pass(301).await;
        assert_eq!(story.said("r", "Progressing"), STUCK);
        assert_eq!(story.object("r")["spec"]["state"], "Stop");
        story.works("m2").await;
        assert!(story.said("r", "Progressing").starts_with("False UpdateRunStopped"));
    }
}

// checklist 13.5 in-sync but failing: a new run over it counts the time too (12.4)
#[tokio::test(start_paused = true)]
async fn a_second_run_over_a_failing_cluster_gets_stuck_by_its_own_clock() {
    for scope in SCOPES {
        let options = Options {
            update_runs: flagship_rules::update_run::Options {
                stuck_after: SignedDuration::from_secs(30),
                ..Default::default()
            },
            ..Options::default()
        };
        let story = Story::begin_with(scope, options).await;
        story.two_stages().await;
        story.run("r", json!({"state": "Run"})).await;
        story.reports("m2", "Available", "False", "NotAllWorkAreAvailable").await;
        story.delete(&scope.runs(), scope.space, "r").await;
        story.pass(100).await;
        story.run("again", json!({"state": "Run"})).await;
        assert!(story.said("again", "Progressing").starts_with("True"));
        tokio::time::sleep(Duration::from_secs(31)).await;
        assert!(story.said("again", "Progressing").starts_with("False UpdateRunStuck"));
        // The start signal of the first run still stands.
        let signal = said(&story.binding("m2")["status"]["conditions"], "RolloutStarted");
        assert!(signal.ends_with("updateRun: r"), "{signal}");
    }
}

// checklist 13.5 ReportDiff success path; DiffReported=False -> stuck
#[tokio::test(start_paused = true)]
async fn a_reported_difference_is_success_and_a_missing_report_is_not() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        let strategy = json!({"spec": {"strategy": {"applyStrategy": {"type": "ReportDiff"}}}});
        story.patch(scope.placements, scope.space, "web", strategy).await;
        story.settle().await;
        story.run("r", json!({"state": "Run"})).await;
        assert_eq!(story.binding("m2")["spec"]["applyStrategy"]["type"], "ReportDiff");
        story.reports("m2", "DiffReported", "True", "AllWorkDiffReported").await;
        assert!(story.holds()[0].starts_with("m1 Bound"));
        story.reports("m1", "DiffReported", "False", "NotAllWorkDiffReported").await;
        story.pass(301).await;
        let stuck = story.said("r", "Progressing");
        assert!(stuck.contains("stuck waiting for m1 cluster(s) in stage prod"), "{stuck}");
        story.reports("m1", "DiffReported", "True", "AllWorkDiffReported").await;
        story.reports("m3", "DiffReported", "True", "AllWorkDiffReported").await;
        assert!(story.said("r", "Succeeded").starts_with("True"));
    }
}

// checklist 13.5 stuck names: more than three
#[tokio::test(start_paused = true)]
async fn many_stuck_clusters_are_named_by_three() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        for name in ["a1", "a2", "a3", "a4"] {
            story.cluster(name, json!({"env": "edge"})).await;
        }
        story.settle().await;
        let edge = stage("edge", json!({"maxConcurrency": 9}));
        story.strategy(json!([edge, stage("canary", json!({})), stage("prod", json!({}))])).await;
        story.run("r", json!({"state": "Run"})).await;
        story.pass(301).await;
        let stuck = story.said("r", "Progressing");
        assert!(stuck.contains("waiting for a1, a2, a3... cluster(s) in stage edge"), "{stuck}");
    }
}
