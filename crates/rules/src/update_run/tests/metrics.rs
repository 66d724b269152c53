//! What the metrics say along the way.

use flagship_api::staged_update::UpdateRunState::{Initialize, Run};
use serde_json::json;

use super::fixture::{Fixture, both_scopes, strategy};
use crate::update_run::{Measured, Plan};

fn told(plan: &Plan) -> String {
    let series = plan.series.as_ref().unwrap();
    [&series.state, &series.condition, &series.status, &series.reason, &series.failure_type]
        .map(String::as_str)
        .join(" ")
}

#[test]
fn status_gauge_from_waiting_to_succeeded() {
    both_scopes(|mut fixture| {
        fixture.strategy = Some(strategy(json!([
            {"name": "all", "labelSelector": {}, "maxConcurrency": 3,
             "beforeStageTasks": [{"type": "Approval"}]},
        ])));
        let run = fixture.create("r", "1", Run);
        assert_eq!(told(&fixture.settle(run)), "Run Progressing False UpdateRunWaiting none");
        fixture.later(20);
        fixture.approve();
        let plan = fixture.step(run);
        assert_eq!(told(&plan), "Run Progressing True UpdateRunProgressing none");
        let task_type = "beforeStage".to_owned();
        assert_eq!(plan.measured, [Measured::Approval { task_type, seconds: 20.0 }]);
        fixture.later(7);
        fixture.available();
        let plan = fixture.step(run);
        assert_eq!(plan.measured, [Measured::Stage { seconds: 7.0 }]);
        assert_eq!(told(&fixture.settle(run)), "Run Succeeded True UpdateRunSucceeded none");
    });
}

#[test]
fn failure_type_classification_for_each_reason() {
    let failed = |change: fn(&mut Fixture), index: &str| {
        let mut fixture = Fixture::new(None);
        let run = fixture.create("r", index, Initialize);
        fixture.later(5);
        change(&mut fixture);
        told(&fixture.settle(run))
    };
    let (user, ours) = ("user_error", "internal_error");
    let head = "Initialize Initialized False UpdateRunInitializedFailed";
    assert_eq!(failed(|_| {}, "9"), format!("{head} {user}"));
    assert_eq!(failed(|w| w.policy_snapshots.clear(), "1"), format!("{head} {ours}"));
    assert_eq!(
        failed(|_| {}, "1"),
        "Initialize Initialized True UpdateRunInitializedSuccessfully none"
    );
}
