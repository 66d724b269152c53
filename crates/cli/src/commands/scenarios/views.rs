//! Views of the whole fleet and of history, names as kubectl has them, and what is told to
//! whoever has no access to members.

use std::time::Duration;

use expect_test::expect;
use flagship_store::env::plan::{Effect, Rule};
use flagship_store::env::{FaultOutcome, Point};
use serde_json::{Value, json};

use super::{CLUSTER, Hub, NAMESPACED, Scenario, container};

/// The image that no registry has, as scenarios configure it.
const MISSING: &str = "nginx:1.28-typo";

#[tokio::test(start_paused = true)]
async fn the_cause_is_told_without_access_to_members() {
    let scenario = Scenario::begin(CLUSTER).await;
    scenario.deploy_with(json!({}), container(MISSING)).await;
    scenario.gets_stuck(json!({"type": "External"})).await;
    expect![[r#"
        example-run is stuck in stage staging: member2 has not become available for <age>.

          cause  IMAGE_NOT_FOUND  Deployment test-namespace/nginx-deployment cannot start a pod
          because  container nginx: image "nginx:1.28-typo": rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/library/nginx:1.28-typo": failed to resolve reference "docker.io/library/nginx:1.28-typo": docker.io/library/nginx:1.28-typo: not found

          run  example-run  Progressing=False  UpdateRunStuck
          binding  example-placement-member2-<hash>  Available=False  NotAllWorkAreAvailable
          work  fleet-member-member2/example-placement-work  Available=False  ManifestNotAvailableYet
          object  Deployment test-namespace/nginx-deployment  (member2)  not available

          fix  correct the image on the hub:  kubectl --context hub -n test-namespace set image deployment.apps/nginx-deployment nginx=IMAGE
          then  roll the fix out:  flagship run example-placement
          more  flagship explain IMAGE_NOT_FOUND
        [exit 3]
    "#]].assert_eq(&scenario.asked("example-run", std::iter::empty()).await);
    expect![[r#"
        example-run  example-placement (snapshot 0)  STUCK  stage 1 of 2  0/3 clusters  <clock>

          staging  ! member2 <clock> IMAGE_NOT_FOUND
          canary  · member1  · member3

          next: example-run is stuck in stage staging: member2 has not become available for <age>. kubectl --context hub -n test-namespace set image deployment.apps/nginx-deployment nginx=IMAGE
        [exit 3]
    "#]].assert_eq(&scenario.status("example-run").await);
    let works = scenario.hub().list("Work", "fleet-member-member2").await;
    let note = &works[0]["metadata"]["annotations"]["flagship.dev/failure-causes"];
    expect![[r#"
        [{"group":"apps","kind":"Deployment","namespace":"test-namespace","name":"nginx-deployment","cause":"IMAGE_NOT_FOUND","container":"nginx","says":"container nginx: image \"nginx:1.28-typo\": rpc error: code = NotFound desc = failed to pull and unpack image \"docker.io/library/nginx:1.28-typo\": failed to resolve reference \"docker.io/library/nginx:1.28-typo\": docker.io/library/nginx:1.28-typo: not found"}]
    "#]].assert_eq(&flagship_sim::normal::normal(note.as_str().unwrap()));
    // What was mended is no longer reported.
    scenario.deploy("nginx:1.27").await;
    scenario.run("fixed-run", "Run").await;
    scenario.until("fixed-run", "UpdateRunSucceeded").await;
    scenario.pass(30).await;
    let works = scenario.hub().list("Work", "fleet-member-member2").await;
    let notes = &works[0]["metadata"]["annotations"];
    assert_eq!(notes["flagship.dev/failure-causes"], json!(null), "{notes:#}");
}

/// Members that take every request and answer none are waited for together, and not for long.
#[tokio::test(start_paused = true)]
async fn members_that_do_not_answer_are_waited_for_two_seconds_side_by_side() {
    let scenario = Scenario::begin(CLUSTER).await;
    scenario.deploy_with(json!({}), container(MISSING)).await;
    let all = json!({"name": "all", "maxConcurrency": 3, "labelSelector": {}});
    scenario.place(json!({"type": "External"})).await;
    scenario.stages(json!([all])).await;
    scenario.run("example-run", "Run").await;
    scenario.until("example-run", "UpdateRunStuck").await;
    scenario.pass(10).await;
    let late = |member: &str| {
        let effect = Effect::Do(FaultOutcome::Delay(Duration::from_secs(3600)));
        let cluster = scenario.fleet.cluster_name(member);
        Rule { cluster, ..Rule::at(Point::Request, effect) }
    };
    scenario.fleet.disturb(["member1", "member2", "member3"].map(late).into());
    let begun = scenario.fleet.env.now();
    let told = scenario.why("example-run").await;
    let took = scenario.fleet.env.now().duration_since(begun).as_millis();
    assert!((2_000..3_000).contains(&took), "{took} ms");
    // What agents reported is enough.
    assert!(told.contains("3 stuck: 3 IMAGE_NOT_FOUND") && told.contains("[exit 3]"), "{told}");
    // The board is drawn from the hub alone, although there is a way to the members.
    let reached = scenario.fleet.clusters.members.keys();
    let reached = reached.map(|name| (name.clone(), scenario.member(name).client().clone()));
    let hub = Hub::of(scenario.hub().client().clone(), reached.collect());
    let (begun, mut out) = (scenario.fleet.env.now(), Vec::new());
    scenario.typed::<super::Status>("example-run").answer(&hub, begun, &mut out).await.unwrap();
    let told = String::from_utf8(out).unwrap();
    assert!(told.contains("! member2") && told.contains("IMAGE_NOT_FOUND"), "{told}");
    assert_eq!(scenario.fleet.env.now(), begun);
}

/// What a first look costs the hub: every kind is read once, and reports of agents only where the
/// hub has given no sign of life.
#[tokio::test(start_paused = true)]
async fn a_look_at_a_run_reads_every_kind_once() {
    let scenario = Scenario::with(CLUSTER, |config| config.traced = true).await;
    scenario.deploy_with(json!({}), container(MISSING)).await;
    scenario.gets_stuck(json!({"type": "External"})).await;
    let hub = scenario.reached_by("reader");
    let told_before = scenario.fleet.trace.lines().len();
    let mut out = Vec::new();
    let command = scenario.typed::<super::Status>("example-run");
    command.answer(&hub, scenario.fleet.env.now(), &mut out).await.unwrap();
    let lines = scenario.fleet.trace.lines().split_off(told_before);
    let asked = lines.iter().filter_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let resource = words[3].split('/').nth(1)?.split('.').next()?;
        (words[1] == "reader").then(|| format!("{} {resource}", words[2]))
    });
    let mut asked: Vec<String> = asked.collect();
    asked.sort();
    expect![[r#"
        [
            "get clusterresourceplacements",
            "get clusterstagedupdateruns",
            "get leases",
            "list clusterapprovalrequests",
            "list clusterresourcebindings",
            "list clusterschedulingpolicysnapshots",
            "list clusterstagedupdateruns",
            "list memberclusters",
            "list works",
        ]
    "#]]
    .assert_debug_eq(&asked);
}

#[tokio::test(start_paused = true)]
async fn a_crash_loop_is_told_without_access_too() {
    let scenario = Scenario::begin(CLUSTER).await;
    let crash = json!({"workloads.flagship.dev/crash-loop": "true"});
    scenario.deploy_with(crash, container("nginx:1.27")).await;
    scenario.gets_stuck(json!({"type": "External"})).await;
    let told = scenario.asked("example-run", std::iter::empty()).await;
    assert!(told.contains("CRASH_LOOP"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_is_not_done_while_nothing_is_there() {
    let scenario = Scenario::begin(CLUSTER).await;
    let told = scenario.why("cluster member1").await;
    assert!(told.contains("nothing is placed on it"), "{told}");
    scenario.place(json!({"type": "External"})).await;
    expect![[r#"
        member1 is healthy; example-placement has chosen it, and nothing of it is there.

          cause  RUN_MISSING  its strategy is External: nothing comes until a run brings it

          binding  example-placement-member1-<hash>  Scheduled, no conditions yet

          look  see what a run would do:  flagship plan example-placement
          fix  start one:  flagship run example-placement
          more  flagship explain RUN_MISSING
        [exit 4]
    "#]]
    .assert_eq(&scenario.why("cluster/member1").await);
    scenario.strategy(json!({"afterStageTasks": [{"type": "Approval"}]})).await;
    scenario.run("example-run", "Run").await;
    scenario.until("example-run", "UpdateRunWaiting").await;
    expect![[r#"
        member1 is healthy; example-placement is not on it yet, its turn in example-run comes.

          cause  IN_PROGRESS  it is moving

          binding  example-placement-member1-<hash>  Scheduled, no conditions yet

          look  see what the run waits for:  flagship why example-run
          more  flagship explain IN_PROGRESS
        [exit 4]
    "#]]
    .assert_eq(&scenario.why("member member1").await);
    let told = scenario.why("member member2").await;
    assert!(told.contains("member2 is healthy; 1 placement(s) are on it."), "{told}");
}

#[tokio::test(start_paused = true)]
async fn watch_stays_with_a_stuck_run_unless_told_otherwise() {
    let scenario = Scenario::begin(CLUSTER).await;
    scenario.deploy_with(json!({}), container(MISSING)).await;
    scenario.gets_stuck(json!({"type": "External"})).await;
    scenario.pass(10).await;
    expect![[r#"
        example-run  example-placement (snapshot 0)  STUCK  stage 1 of 2  0/3 clusters  IMAGE_NOT_FOUND
        [exit 3]
    "#]].assert_eq(&scenario.watch("example-run --until stuck").await);
    let staying =
        tokio::time::timeout(Duration::from_secs(60), scenario.watch("example-run")).await;
    assert!(staying.is_err(), "{staying:?}");
}

#[tokio::test(start_paused = true)]
async fn stop_on_a_stuck_run_leaves_a_sign() {
    let scenario = Scenario::begin(CLUSTER).await;
    scenario.deploy_with(json!({}), container(MISSING)).await;
    scenario.gets_stuck(json!({"type": "External"})).await;
    scenario.stop("example-run").await;
    scenario.pass(20).await;
    expect![[r#"
        example-run  example-placement (snapshot 0)  STUCK, STOPPING  stage 1 of 2  0/3 clusters  <clock>

          staging  ! member2 <clock> IMAGE_NOT_FOUND
          canary  · member1  · member3

          next: example-run was told to stop and is stuck in stage staging: member2, begun before the stop, has not become available for <age>. kubectl --context hub -n test-namespace set image deployment.apps/nginx-deployment nginx=IMAGE
        [exit 3]
    "#]].assert_eq(&scenario.status("example-run").await);
}

#[tokio::test(start_paused = true)]
async fn mixed_versions_and_the_failed_run_are_told_of_a_placement() {
    let scenario = Scenario::rolling(CLUSTER, json!({})).await;
    scenario.until("example-run", "UpdateRunSucceeded").await;
    scenario.deploy("nginx:1.28").await;
    scenario.strategy(json!({"afterStageTasks": [{"type": "Approval"}]})).await;
    scenario.run("second-run", "Run").await;
    scenario.until("second-run", "UpdateRunWaiting").await;
    scenario.hub().delete("ClusterStagedUpdateRun", "", "second-run").await;
    scenario.pass(5).await;
    expect![[r#"
        example-placement has mixed versions: snapshot 1 on 1 cluster(s), snapshot 0 on 2 cluster(s).

          cause  MIXED_VERSIONS  no run is under way that would bring them together

          placement example-placement  ClusterResourcePlacementRolloutStarted=Unknown  RolloutControlledByExternalController
          version  snapshot 0  member1, member3
          version  snapshot 1  member2

          fix  bring all to what is on the hub now:  flagship run example-placement
          look  see which runs there were:  flagship history example-placement
          more  flagship explain MIXED_VERSIONS
        [exit 4]
    "#]].assert_eq(&scenario.why("example-placement").await);
    scenario.run_with("third-run", json!({"resourceSnapshotIndex": "77"})).await;
    scenario.until("third-run", "UpdateRunInitializedFailed").await;
    expect![[r#"
        example-placement has mixed versions: snapshot 1 on 1 cluster(s), snapshot 0 on 2 cluster(s); its last run third-run could not be initialized: example-placement has no snapshot 77.

          cause  SNAPSHOT_MISSING  the resource snapshot does not exist
          because  no resourceSnapshots with index `77` found for placement `/example-placement`

          placement example-placement  ClusterResourcePlacementRolloutStarted=Unknown  RolloutControlledByExternalController
          version  snapshot 0  member1, member3
          version  snapshot 1  member2

          look  see which versions exist:  kubectl --context hub get clusterresourcesnapshots -l kubernetes-fleet.io/parent-CRP=example-placement
          then  roll out what is on the hub now:  flagship run example-placement
          more  flagship explain SNAPSHOT_MISSING
        [exit 5]
    "#]].assert_eq(&scenario.why("example-placement").await);
}

#[tokio::test(start_paused = true)]
async fn status_without_a_name_shows_runs_what_they_wait_for_and_which_version_is_where() {
    let scenario = Scenario::begin(CLUSTER).await;
    expect![[r#"
        No run has been started yet.

        There is no placement yet. 3 cluster(s).
        [exit 0]
    "#]]
    .assert_eq(&scenario.status("").await);
    scenario.place(json!({"type": "External"})).await;
    scenario.strategy(json!({"afterStageTasks": [{"type": "Approval"}]})).await;
    scenario.run("example-run", "Run").await;
    scenario.until("example-run", "UpdateRunWaiting").await;
    expect![[r#"
        RUN  PLACEMENT  SNAPSHOT  STATE  CLUSTERS
        example-run  example-placement  0  WAITING  1/3

        example-run waits for an approval after stage staging for <age>.
          flagship approve example-run staging

        PLACEMENT  VERSION  CLUSTERS
        example-placement  snapshot 0  1: member2
                            nothing yet  2: member1, member3
        [exit 0]
    "#]]
    .assert_eq(&scenario.status("").await);
}

#[tokio::test(start_paused = true)]
async fn history_has_dates_strategies_and_who_approved() {
    let scenario =
        Scenario::rolling(CLUSTER, json!({"afterStageTasks": [{"type": "Approval"}]})).await;
    expect![[r#"
        example-run does not ask for an approval of stage staging yet; waiting up to <age>
        example-run-after-staging approved
        follow it:  flagship watch example-run
        [exit 0]
    "#]]
    .assert_eq(&scenario.approve("csur/example-run staging --comment tested").await);
    scenario.until("example-run", "UpdateRunSucceeded").await;
    expect![[r#"
        RUN  SNAPSHOT  STRATEGY  STATE  CLUSTERS  CREATED  TIME  APPROVED
        example-run  0  example-strategy  Succeeded  3/3  <moment>  <clock>  staging (tested (by user))
        [exit 0]
    "#]].assert_eq(&scenario.history("crp/example-placement").await);
}

#[tokio::test(start_paused = true)]
async fn names_are_taken_as_kubectl_has_them_and_other_kinds_are_named() {
    let scenario =
        Scenario::rolling(NAMESPACED, json!({"afterStageTasks": [{"type": "Approval"}]})).await;
    scenario.until("example-run", "UpdateRunWaiting").await;
    let plain = scenario.why("example-run").await;
    assert!(plain.contains("APPROVAL_MISSING"), "{plain}");
    assert_eq!(scenario.why("sur/example-run").await, plain);
    assert_eq!(
        scenario.why("stagedupdaterun.placement.kubernetes-fleet.io/example-run").await,
        plain
    );
    assert_eq!(scenario.why("my-app-namespace/example-run").await, plain);
    expect![[r#"
        my-app-namespace/example-placement is a placement, not a run.
        see its last run:  flagship status -n my-app-namespace example-run
        see how the placement is:  flagship why placement -n my-app-namespace example-placement
        [exit 5]
    "#]]
    .assert_eq(&scenario.status("example-placement").await);
    expect![[r#"
        error: my-app-namespace/example-placement is said to be a placement; a run is wanted here
    "#]]
    .assert_eq(&scenario.status("rp/example-placement").await);
}

#[tokio::test(start_paused = true)]
async fn a_plan_says_that_the_delete_stage_takes_all_clusters_at_once() {
    let scenario = Scenario::begin(CLUSTER).await;
    let fixed = |names: &[&str]| json!({"placementType": "PickFixed", "clusterNames": names});
    let all = fixed(&["member1", "member2", "member3"]);
    scenario.place_with(json!({"policy": all, "strategy": {"type": "External"}})).await;
    scenario.strategy(json!({})).await;
    scenario.pass(5).await;
    scenario.run("example-run", "Run").await;
    scenario.until("example-run", "UpdateRunSucceeded").await;
    let fewer = json!({"spec": {"policy": fixed(&["member2"])}});
    scenario.patch("ResourcePlacement", "example-placement", fewer).await;
    scenario.pass(10).await;
    expect![[r#"
        Rolling out example-placement with strategy example-strategy

        STAGE  CLUSTERS  AT ONCE  GATES
        staging  member2  1
        canary  none, skipped  1
        remove  member1 member3  all

        3 cluster(s), 0 approval(s).

        now:  snapshot 0 on 3
        changes:  none, against snapshot 0

        start it:  flagship run example-placement --strategy example-strategy --plan 081e8aa2e6b85502ad8a2511803bd389.031014b1dcd84413
        [exit 0]
    "#]]
    .assert_eq(&scenario.plan("example-placement").await);
}

/// The document that a command printed in front of its exit code.
fn document(told: &str) -> Value {
    serde_json::from_str(told.split("[exit").next().unwrap()).unwrap()
}

// Seen once: member1, member10, member2, and ages as words in JSON.
#[tokio::test(start_paused = true)]
async fn members_stand_in_natural_order_and_programs_get_moments_and_labels() {
    let scenario = Scenario::with(CLUSTER, |config| {
        config.members = ["member10", "member2", "member1"].map(str::to_owned).into();
    })
    .await;
    let told = scenario.clusters("").await;
    let first = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
    let names: Vec<String> = told.lines().skip(1).map(first).collect();
    assert_eq!(names[..3], ["member1", "member2", "member10"], "{told}");
    let told = scenario.clusters("-o json").await;
    let rows = document(&told);
    assert_eq!(rows[2]["name"], "member10");
    assert_eq!(rows[1]["labels"]["environment"], "staging");
    assert_eq!(rows[1]["lastHeartbeat"], "<moment>");
    assert_eq!([&rows[1]["state"], &rows[1]["cause"]], ["done", "NOTHING_PLACED"]);
}

#[tokio::test(start_paused = true)]
async fn programs_get_moments_and_objects_of_runs_and_placements() {
    let scenario =
        Scenario::rolling(CLUSTER, json!({"afterStageTasks": [{"type": "Approval"}]})).await;
    scenario.until("example-run", "UpdateRunWaiting").await;
    let told = document(&scenario.status("-o json").await);
    let run = &told["runs"][0];
    assert_eq!([&run["created"], &told["at"]], ["<moment>", "<moment>"]);
    assert_eq!([&run["phase"], &run["cause"]], ["waiting", "APPROVAL_MISSING"]);
    let placement = json!({"name": "example-placement",
        "versions": [{"snapshot": 0, "clusters": ["member2"]}], "empty": ["member1", "member3"]});
    assert_eq!(told["placements"], json!([placement]));
    let told = document(&scenario.status("example-run -o json").await);
    let cell = &told["board"]["stages"][0]["cells"][0];
    assert_eq!([&cell["started"], &cell["ended"]], ["<moment>", "<moment>"], "{cell}");
    assert_eq!(told["finding"]["evidence"][0]["condition"]["at"], "<moment>");
    scenario.approve("example-run").await;
    scenario.until("example-run", "UpdateRunSucceeded").await;
    let told = document(&scenario.history("example-placement -o json").await);
    let past = &told[0];
    assert_eq!([&past["created"], &past["ended"]], ["<moment>", "<moment>"], "{past}");
    assert_eq!(
        [&past["approvals"][0]["stage"], &past["approvals"][0]["at"]],
        ["staging", "<moment>"]
    );
}

// Commands are pasted, so they are never broken; neither is a word.
#[tokio::test(start_paused = true)]
async fn what_commands_print_fits_any_terminal() {
    let scenario = Scenario::begin(CLUSTER).await;
    scenario.deploy_with(json!({}), container(MISSING)).await;
    scenario.gets_stuck(json!({"type": "External"})).await;
    scenario.pass(10).await;
    for width in [100, 60, 40] {
        crate::commands::frame::WIDTH.set(Some(width));
        for told in [
            scenario.why("example-run").await,
            scenario.why("example-placement").await,
            scenario.plan("example-placement").await,
            scenario.clusters("").await,
            scenario.status("example-run").await,
            scenario.status("").await,
            scenario.history("example-placement").await,
        ] {
            for line in told.lines() {
                // What is named instead of shown is as long as what it stands for.
                let line = line.replace("<clock>", "00:31").replace("<age>", "31s");
                let line = line.replace("<hash>", "e1a567da");
                let line = line.trim();
                let is_command = line.contains("kubectl ") || line.contains("flagship ");
                // A name stands behind the word that says what it is.
                let last = line.split(' ').next_back().map_or(0, |word| word.chars().count());
                let is_word = last + "placement".len() + 3 > width;
                let fits = line.chars().count() <= width;
                assert!(fits || is_command || is_word, "{width}: {line}\n\n{told}");
            }
        }
        crate::commands::frame::WIDTH.set(None);
    }
}

/// What changes is told by object and field, and the run that was looked at is the one that
/// starts, or none.
#[tokio::test(start_paused = true)]
async fn a_plan_says_what_changes_and_only_that_plan_is_started() {
    for scope in [CLUSTER, NAMESPACED] {
        let scenario = Scenario::begin(scope).await;
        scenario.place(json!({"type": "External"})).await;
        scenario.strategy(json!({})).await;
        let placement = "example-placement";
        scenario.start(&format!("{placement} --name first")).await;
        scenario.until("first", "UpdateRunSucceeded").await;
        scenario.deploy("nginx:1.28").await;
        scenario.pass(60).await;
        let planned = scenario.plan(placement).await;
        for said in [
            "now:  snapshot 0 on 3",
            "changes:  1 object(s), against snapshot 0",
            "/nginx-deployment  restarts 3 pod(s) a cluster",
            "spec.template.spec.containers[nginx].image: nginx:1.27 → nginx:1.28",
            "pods that restart: 9 on all clusters",
        ] {
            assert!(planned.contains(said), "{said} is not in\n{planned}");
        }
        let hash = planned.split("--plan ").nth(1).and_then(|rest| rest.split_whitespace().next());
        let hash = hash.expect("the plan has a hash").to_owned();
        scenario.deploy("nginx:1.29").await;
        scenario.pass(60).await;
        let refused = scenario.start(&format!("{placement} --plan {hash}")).await;
        assert!(
            refused.contains("nothing was created: since that plan was made, the content changed"),
            "{refused}"
        );
        scenario.deploy("nginx:1.28").await;
        scenario.pass(60).await;
        let started = scenario.start(&format!("{placement} --name second --plan {hash}")).await;
        assert!(started.contains("second created"), "{started}");
        scenario.until("second", "UpdateRunSucceeded").await;
    }
}
