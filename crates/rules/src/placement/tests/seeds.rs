//! Statuses people know from the documents that describe the system, word for word.

use flagship_api::condition::{Condition, Generation, draft};
use flagship_api::placement_status::{
    FailedResourcePlacement, PerClusterPlacementStatus, PlacementStatus, ResourceIdentifier,
};
use jiff::Timestamp;
use serde_json::json;

use super::fleet::Fixture;

/// As `kubectl describe` prints it, without its columns.
fn described(status: &PlacementStatus) -> String {
    let mut out = String::from("Status:\nConditions:\n");
    status.conditions.iter().for_each(|c| describe_condition(&mut out, c));
    if !status.observed_resource_index.is_empty() {
        out.push_str(&format!("Observed Resource Index: {}\n", status.observed_resource_index));
    }
    out.push_str("Placement Statuses:\n");
    status.placement_statuses.iter().for_each(|e| describe_entry(&mut out, e));
    out
}

fn describe_entry(out: &mut String, entry: &PerClusterPlacementStatus) {
    out.push_str(&format!("Cluster Name: {}\nConditions:\n", entry.cluster_name));
    entry.conditions.iter().for_each(|c| describe_condition(out, c));
    if !entry.failed_placements.is_empty() {
        out.push_str("Failed Placements:\n");
    }
    for failed in &entry.failed_placements {
        out.push_str("Condition:\n");
        describe_condition(out, &failed.condition);
        let FailedResourcePlacement { resource: r, .. } = failed;
        for (key, value) in [
            ("Group", &r.group),
            ("Kind", &r.kind),
            ("Name", &r.name),
            ("Namespace", &r.namespace),
            ("Version", &r.version),
        ] {
            out.push_str(&format!("{key}: {value}\n"));
        }
    }
}

fn describe_condition(out: &mut String, c: &Condition) {
    out.push_str(&format!("Last Transition Time: {}\n", c.last_transition_time.0));
    out.push_str(&format!("Message: {}\n", c.message));
    out.push_str(&format!("Observed Generation: {}\n", c.observed_generation.unwrap()));
    out.push_str(&format!("Reason: {}\nStatus: {}\nType: {}\n", c.reason, c.status, c.type_));
}

/// Lines without indentation and columns.
fn plain(text: &str) -> String {
    let lines = text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|l| !l.is_empty()).map(|l| format!("{l}\n")).collect()
}

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

fn waiting(mut fixture: Fixture, clusters: &[&str], since: &str) -> PlacementStatus {
    fixture.seen.now = at(since);
    fixture.step();
    fixture.schedule(clusters, &[]);
    fixture.step();
    fixture.status().clone()
}

fn external() -> serde_json::Value {
    json!({"policy": {"placementType": "PickAll"}, "strategy": {"type": "External"}})
}

/// Seed 004, cluster-scoped.
#[test]
fn a_cluster_placement_without_a_run() {
    let fixture = Fixture::crp(external()).named("example-placement");
    let status = waiting(fixture, &["member1", "member2"], "2026-01-08T00:19:58Z");
    assert_eq!(
        described(&status),
        plain(
            r#"
Status:
  Conditions:
    Last Transition Time:  2026-01-08T00:19:58Z
    Message:               found all cluster needed as specified by the scheduling policy, found 2 cluster(s)
    Observed Generation:   1
    Reason:                SchedulingPolicyFulfilled
    Status:                True
    Type:                  ClusterResourcePlacementScheduled
    Last Transition Time:  2026-01-08T00:19:58Z
    Message:               Rollout is controlled by an external controller and no resource snapshot name is observed across clusters, probably rollout has not started yet
    Observed Generation:   1
    Reason:                RolloutControlledByExternalController
    Status:                Unknown
    Type:                  ClusterResourcePlacementRolloutStarted
  Placement Statuses:
    Cluster Name:  member1
    Conditions:
      Last Transition Time:  2026-01-08T00:19:58Z
      Message:               Successfully scheduled resources for placement in "member1" (affinity score: 0, topology spread score: 0): picked by scheduling policy
      Observed Generation:   1
      Reason:                Scheduled
      Status:                True
      Type:                  Scheduled
      Last Transition Time:  2026-01-08T00:19:58Z
      Message:               In the process of deciding whether to roll out some version of the resources or not
      Observed Generation:   1
      Reason:                RolloutStartedUnknown
      Status:                Unknown
      Type:                  RolloutStarted
    Cluster Name:            member2
    Conditions:
      Last Transition Time:  2026-01-08T00:19:58Z
      Message:               Successfully scheduled resources for placement in "member2" (affinity score: 0, topology spread score: 0): picked by scheduling policy
      Observed Generation:   1
      Reason:                Scheduled
      Status:                True
      Type:                  Scheduled
      Last Transition Time:  2026-01-08T00:19:58Z
      Message:               In the process of deciding whether to roll out some version of the resources or not
      Observed Generation:   1
      Reason:                RolloutStartedUnknown
      Status:                Unknown
      Type:                  RolloutStarted
"#
        )
    );
}

/// Seed 000: three clusters. The document prints the conditions of a cluster-scoped
/// placement under the other scope's names; ours go by the scope.
#[test]
fn three_clusters_without_a_run() {
    for (fixture, prefix) in [
        (Fixture::crp(external()), "ClusterResourcePlacement"),
        (Fixture::rp(external()), "ResourcePlacement"),
    ] {
        let clusters = ["member1", "member2", "member3"];
        let status = waiting(fixture, &clusters, "2026-02-11T21:02:37Z");
        let wanted = plain(&format!(
            r#"
Status:
    Conditions:
    Last Transition Time:  2026-02-11T21:02:37Z
    Message:               found all cluster needed as specified by the scheduling policy, found 3 cluster(s)
    Observed Generation:   1
    Reason:                SchedulingPolicyFulfilled
    Status:                True
    Type:                  {prefix}Scheduled
    Last Transition Time:  2026-02-11T21:02:37Z
    Message:               Rollout is controlled by an external controller and no resource snapshot name is observed across clusters, probably rollout has not started yet
    Observed Generation:   1
    Reason:                RolloutControlledByExternalController
    Status:                Unknown
    Type:                  {prefix}RolloutStarted
    Placement Statuses:
"#
        ));
        assert!(described(&status).starts_with(&wanted), "{}", described(&status));
    }
}

/// Seed 004, namespaced.
#[test]
fn a_namespaced_placement_without_a_run() {
    let fixture = Fixture::rp(external()).named("web-app-placement");
    let status = waiting(fixture, &["member1", "member2"], "2026-01-08T20:24:59Z");
    let wanted = plain(
        r#"
Status:
  Conditions:
    Last Transition Time:  2026-01-08T20:24:59Z
    Message:               found all cluster needed as specified by the scheduling policy, found 2 cluster(s)
    Observed Generation:   1
    Reason:                SchedulingPolicyFulfilled
    Status:                True
    Type:                  ResourcePlacementScheduled
    Last Transition Time:  2026-01-08T20:24:59Z
    Message:               Rollout is controlled by an external controller and no resource snapshot name is observed across clusters, probably rollout has not started yet
    Observed Generation:   1
    Reason:                RolloutControlledByExternalController
    Status:                Unknown
    Type:                  ResourcePlacementRolloutStarted
  Placement Statuses:
    Cluster Name:  member1
    Conditions:
      Last Transition Time:  2026-01-08T20:24:59Z
      Message:               Successfully scheduled resources for placement in "member1" (affinity score: 0, topology spread score: 0): picked by scheduling policy
      Observed Generation:   1
      Reason:                Scheduled
      Status:                True
      Type:                  Scheduled
      Last Transition Time:  2026-01-08T20:24:59Z
      Message:               In the process of deciding whether to roll out some version of the resources or not
      Observed Generation:   1
      Reason:                RolloutStartedUnknown
      Status:                Unknown
      Type:                  RolloutStarted
"#,
    );
    assert!(described(&status).starts_with(&wanted), "{}", described(&status));
}

/// Seed 003. The document of March 2025 shows an older wording; what it shows that still holds is
/// this: both clusters scheduled, neither started, and the placement waiting.
#[test]
fn the_older_document_in_todays_words() {
    for fixture in [Fixture::crp(external()), Fixture::rp(external())] {
        let prefix = if fixture.seen.placement.namespace.is_none() { "Cluster" } else { "" };
        let status = waiting(fixture, &["member1", "member2"], "2025-03-12T23:01:32Z");
        assert_eq!(status.observed_resource_index, "");
        let types: Vec<_> = status.conditions.iter().map(|c| c.type_.clone()).collect();
        assert_eq!(
            types,
            [
                format!("{prefix}ResourcePlacementScheduled"),
                format!("{prefix}ResourcePlacementRolloutStarted")
            ]
        );
        for entry in &status.placement_statuses {
            let short: Vec<_> =
                entry.conditions.iter().map(|c| (c.reason.as_str(), c.status.as_str())).collect();
            assert_eq!(short, [("Scheduled", "True"), ("RolloutStartedUnknown", "Unknown")]);
        }
    }
}

struct Stuck {
    fixture: Fixture,
    namespace: &'static str,
    deployment: &'static str,
    work: &'static str,
    run: &'static str,
    scheduled: &'static str,
    started: &'static str,
    looked: &'static str,
    manifest_generation: i64,
}

/// The entry of member2, stuck with an image that cannot be pulled.
fn stuck(case: Stuck) -> String {
    let mut fixture = case.fixture;
    fixture.seen.now = at(case.scheduled);
    fixture.step();
    fixture.snapshot_by_run();
    fixture.select(&["app", "more"]);
    fixture.snapshot_by_run();
    fixture.schedule(&["member1", "member2"], &[]);
    fixture.step();
    fixture.seen.now = at(case.started);
    fixture.deliver("member2", 1, "");
    let run = case.run;
    let tell = |fixture: &mut Fixture, kind: &'static str, good: bool, reason, message: String| {
        let now = fixture.seen.now;
        let draft = if good { draft(kind).is_true(reason) } else { draft(kind).is_false(reason) };
        let condition = draft.because(message).into_condition(Generation(1), now);
        fixture.bind("member2").status.conditions.push(condition);
    };
    tell(
        &mut fixture,
        "RolloutStarted",
        true,
        "RolloutStarted",
        format!(
            "Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: 1, updateRun: {run}"
        ),
    );
    fixture.step();
    fixture.seen.now = at(case.looked);
    for (kind, good, reason, message) in [
        (
            "Overridden",
            true,
            "NoOverrideSpecified",
            "No override rules are configured for the selected resources".to_owned(),
        ),
        (
            "WorkSynchronized",
            true,
            "AllWorkSynced",
            "All of the works are synchronized to the latest".to_owned(),
        ),
        (
            "Applied",
            true,
            "AllWorkHaveBeenApplied",
            "All corresponding work objects are applied".to_owned(),
        ),
        (
            "Available",
            false,
            "NotAllWorkAreAvailable",
            format!("Work object {} is not yet available", case.work),
        ),
    ] {
        tell(&mut fixture, kind, good, reason, message);
    }
    let now = fixture.seen.now;
    fixture.bind("member2").status.failed_placements = vec![FailedResourcePlacement {
        resource: ResourceIdentifier {
            group: "apps".into(),
            version: "v1".into(),
            kind: "Deployment".into(),
            name: case.deployment.into(),
            namespace: case.namespace.into(),
            envelope: None,
        },
        condition: draft("Available")
            .is_false("ManifestNotAvailableYet")
            .because("Manifest is not yet available; Fleet will check again later")
            .into_condition(Generation(case.manifest_generation), now),
    }];
    fixture.step();
    let mut out = String::new();
    describe_entry(&mut out, &fixture.status().placement_statuses[1]);
    out
}

#[test]
fn a_cluster_that_is_stuck() {
    let told = stuck(Stuck {
        fixture: Fixture::crp(external()).named("example-placement"),
        namespace: "test-namespace",
        deployment: "nginx-deployment",
        work: "example-placement-work",
        run: "example-run",
        scheduled: "2026-01-12T22:37:57Z",
        started: "2026-01-12T22:44:08Z",
        looked: "2026-01-12T22:44:08Z",
        manifest_generation: 1,
    });
    assert_eq!(
        told,
        plain(
            r#"
    Cluster Name:            member2
    Conditions:
      Last Transition Time:  2026-01-12T22:37:57Z
      Message:               Successfully scheduled resources for placement in "member2" (affinity score: 0, topology spread score: 0): picked by scheduling policy
      Observed Generation:   1
      Reason:                Scheduled
      Status:                True
      Type:                  Scheduled
      Last Transition Time:  2026-01-12T22:44:08Z
      Message:               Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: 1, updateRun: example-run
      Observed Generation:   1
      Reason:                RolloutStarted
      Status:                True
      Type:                  RolloutStarted
      Last Transition Time:  2026-01-12T22:44:08Z
      Message:               No override rules are configured for the selected resources
      Observed Generation:   1
      Reason:                NoOverrideSpecified
      Status:                True
      Type:                  Overridden
      Last Transition Time:  2026-01-12T22:44:08Z
      Message:               All of the works are synchronized to the latest
      Observed Generation:   1
      Reason:                AllWorkSynced
      Status:                True
      Type:                  WorkSynchronized
      Last Transition Time:  2026-01-12T22:44:08Z
      Message:               All corresponding work objects are applied
      Observed Generation:   1
      Reason:                AllWorkHaveBeenApplied
      Status:                True
      Type:                  Applied
      Last Transition Time:  2026-01-12T22:44:08Z
      Message:               Work object example-placement-work is not yet available
      Observed Generation:   1
      Reason:                NotAllWorkAreAvailable
      Status:                False
      Type:                  Available
    Failed Placements:
      Condition:
        Last Transition Time:  2026-01-12T22:44:08Z
        Message:               Manifest is not yet available; Fleet will check again later
        Observed Generation:   1
        Reason:                ManifestNotAvailableYet
        Status:                False
        Type:                  Available
      Group:                   apps
      Kind:                    Deployment
      Name:                    nginx-deployment
      Namespace:               test-namespace
      Version:                 v1
"#
        )
    );
}

#[test]
fn a_cluster_of_a_namespaced_placement_that_is_stuck() {
    let told = stuck(Stuck {
        fixture: Fixture::rp(external()).named("web-app-placement"),
        namespace: "my-app-namespace",
        deployment: "web-app",
        work: "my-app-namespace.web-app-placement-work",
        run: "web-app-rollout-v1-21",
        scheduled: "2026-01-08T22:34:44Z",
        started: "2026-01-08T22:35:56Z",
        looked: "2026-01-08T22:39:51Z",
        manifest_generation: 2,
    });
    assert_eq!(
        told,
        plain(
            r#"
    Cluster Name:              member2
    Conditions:
      Last Transition Time:  2026-01-08T22:34:44Z
      Message:               Successfully scheduled resources for placement in "member2" (affinity score: 0, topology spread score: 0): picked by scheduling policy
      Observed Generation:   1
      Reason:                Scheduled
      Status:                True
      Type:                  Scheduled
      Last Transition Time:  2026-01-08T22:35:56Z
      Message:               Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: 1, updateRun: web-app-rollout-v1-21
      Observed Generation:   1
      Reason:                RolloutStarted
      Status:                True
      Type:                  RolloutStarted
      Last Transition Time:  2026-01-08T22:39:51Z
      Message:               No override rules are configured for the selected resources
      Observed Generation:   1
      Reason:                NoOverrideSpecified
      Status:                True
      Type:                  Overridden
      Last Transition Time:  2026-01-08T22:39:51Z
      Message:               All of the works are synchronized to the latest
      Observed Generation:   1
      Reason:                AllWorkSynced
      Status:                True
      Type:                  WorkSynchronized
      Last Transition Time:  2026-01-08T22:39:51Z
      Message:               All corresponding work objects are applied
      Observed Generation:   1
      Reason:                AllWorkHaveBeenApplied
      Status:                True
      Type:                  Applied
      Last Transition Time:  2026-01-08T22:39:51Z
      Message:               Work object my-app-namespace.web-app-placement-work is not yet available
      Observed Generation:   1
      Reason:                NotAllWorkAreAvailable
      Status:                False
      Type:                  Available
    Failed Placements:
      Condition:
        Last Transition Time:  2026-01-08T22:39:51Z
        Message:               Manifest is not yet available; Fleet will check again later
        Observed Generation:   2
        Reason:                ManifestNotAvailableYet
        Status:                False
        Type:                  Available
      Group:                   apps
      Kind:                    Deployment
      Name:                    web-app
      Namespace:               my-app-namespace
      Version:                 v1
"#
        )
    );
}
