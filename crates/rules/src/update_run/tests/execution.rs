//! Clusters, stages and windows, with every write held against the laws.

use expect_test::expect;
use flagship_api::staged_update::UpdateRunState::Run;

use super::world::both_scopes;

#[test]
fn single_stage_run_without_tasks_succeeds() {
    both_scopes(|mut world| {
        let run = world.create("r", "1", Run);
        world.run_to_the_end(run);
        expect![[r#"
            run: Initialized=True/UpdateRunInitializedSuccessfully Progressing=False/UpdateRunSucceeded Succeeded=True/UpdateRunSucceeded
              canary: Progressing=False/StageUpdatingSucceeded Succeeded=True/StageUpdatingSucceeded
                m2: Started=True/ClusterUpdatingStarted Succeeded=True/ClusterUpdatingSucceeded
              prod: Progressing=False/StageUpdatingSucceeded Succeeded=True/StageUpdatingSucceeded
                m3: Started=True/ClusterUpdatingStarted Succeeded=True/ClusterUpdatingSucceeded
                m1: Started=True/ClusterUpdatingStarted Succeeded=True/ClusterUpdatingSucceeded
              kubernetes-fleet.io/deleteStage: Progressing=False/StageUpdatingSucceeded Succeeded=True/StageUpdatingSucceeded
        "#]]
        .assert_eq(&world.told(run));
        assert_eq!(world.snapshots(), ["web-1-snapshot"; 3]);
    });
}
