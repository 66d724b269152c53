//! What a Work says, and when it says it again.

use expect_test::expect;
use flagship_api::apply_strategy::{ReportBackStrategy, ReportBackStrategyType};
use serde_json::{Value, json};

use super::fixture::{Fixture, config_map, custom, deployment, start};
use crate::apply::{Outcome, Verdict, complete, report};
use crate::availability::Availability;
use std::collections::BTreeMap;

/// Makes the Deployment on the member run what it was told.
fn runs(fixture: &mut Fixture) {
    let generation = fixture.live("Deployment web")["metadata"]["generation"].clone();
    fixture.edit(
        "Deployment web",
        &json!({"status": {"observedGeneration": generation, "availableReplicas": 2, "updatedReplicas": 2}}),
    );
}

// checklist 9.1
#[test]
fn a_work_becomes_available_when_its_manifests_do() {
    let mut fixture = Fixture::new(json!({}), &[deployment("a:1"), config_map("c", json!({}))]);
    fixture.pass();
    expect![[r#"
        Applied=True AllManifestsApplied: All the specified manifests have been applied
        Available=False SomeManifestsAreNotAvailable: Some manifests are not available (1 of 2 manifests are available)
        #0 Deployment web
          Applied=True Applied @1: Manifest has been applied successfully
          Available=False ManifestNotAvailableYet @1: Manifest is not yet available; Fleet will check again later
        #1 ConfigMap c
          Applied=True Applied @0: Manifest has been applied successfully
          Available=True Available @0: Manifest is available
    "#]].assert_eq(&fixture.told());
    runs(&mut fixture);
    fixture.pass();
    expect![[r#"
        Applied=True AllManifestsApplied: All the specified manifests have been applied
        Available=True AllManifestsAvailable: All of the applied manifests are available
        #0 Deployment web
          Applied=True Applied @1: Manifest has been applied successfully
          Available=True Available @1: Manifest is available
        #1 ConfigMap c
          Applied=True Applied @0: Manifest has been applied successfully
          Available=True Available @0: Manifest is available
    "#]]
    .assert_eq(&fixture.told());
    // A kind nobody can judge counts, and the reason says so.
    fixture.manifests(&[deployment("a:1"), custom(json!({}))]);
    fixture.pass();
    expect![[r#"
        Applied=True AllManifestsApplied: All the specified manifests have been applied
        Available=True WorkNotTrackable: Some of the applied manifests cannot be tracked for availability
        #0 Deployment web
          Applied=True Applied @1: Manifest has been applied successfully
          Available=True Available @1: Manifest is available
        #1 Widget w
          Applied=True Applied @1: Manifest has been applied successfully
          Available=True NotTrackable @1: Manifest's availability is not trackable; Fleet assumes that the applied manifest is available
    "#]].assert_eq(&fixture.told());
}

// checklist 9.1
#[test]
fn an_empty_work_is_done() {
    let mut fixture = Fixture::new(json!({}), &[]);
    fixture.pass();
    expect![[r#"
        Applied=True AllManifestsApplied: All the specified manifests have been applied
        Available=True AllManifestsAvailable: All of the applied manifests are available
    "#]]
    .assert_eq(&fixture.told());
    fixture.strategy(json!({"type": "ReportDiff"}));
    fixture.pass();
    expect![[r#"
        DiffReported=True AllManifestsDiffReported: All the specified manifests have reported diff
    "#]]
    .assert_eq(&fixture.told());
}

// checklist 9.1
#[test]
fn available_is_not_said_of_what_is_not_applied() {
    let mut fixture = Fixture::new(json!({}), &[config_map("c", json!({}))]);
    fixture.pass();
    fixture.manifests(&[config_map("c", json!({})), json!("broken")]);
    fixture.pass();
    expect![[r#"
        Applied=False SomeManifestsAreNotApplied: Failed to apply all manifests (1 of 2 manifests are applied)
        #0 ConfigMap c
          Applied=True Applied @0: Manifest has been applied successfully
          Available=True Available @0: Manifest is available
        #1
          Applied=False DecodingErred @0: Failed to apply the manifest (error: failed to decode manifest: failed to unmarshal JSON: not an object)
    "#]].assert_eq(&fixture.told());
}

/// A manifest whose pass ended like this.
fn outcome(verdict: Verdict, availability: Availability) -> Outcome {
    let mut fixture = Fixture::new(json!({}), &[config_map("c", json!({}))]);
    let mut outcome = fixture.pass().remove(0);
    outcome.verdict = verdict;
    outcome.availability = availability;
    outcome.error = Some("why".to_owned());
    outcome
}

fn told(strategy: Value, outcome: Outcome) -> String {
    let mut fixture = Fixture::new(strategy, &[config_map("c", json!({}))]);
    let terms = fixture.terms();
    let report =
        report(&fixture.work, &fixture.applied, &terms, &[outcome], fixture.options, fixture.now);
    fixture.work.status = Some(report.status);
    fixture.told().lines().filter_map(|line| line.strip_prefix("  ")).collect::<Vec<_>>().join("\n")
        + "\n"
}

// checklist 9.1
#[test]
fn every_verdict_has_its_words() {
    use Verdict::*;
    let all = [
        Applied,
        AppliedWithFailedDriftDetection,
        DecodingErred,
        FoundGenerateName,
        Duplicated,
        FailedToFind,
        FailedToTakeOver,
        NotTakenOver,
        FailedToRunDriftDetection,
        FoundDrifts,
        FoundDriftsInDegradedMode,
        ApplyFailed,
        NoDiffFound,
        FoundDiff,
        FoundDiffInDegradedMode,
        FailedToReportDiff,
    ];
    let applying: String = all
        .iter()
        .map(|verdict| told(json!({}), outcome(*verdict, Availability::Skipped)))
        .collect();
    expect![[r#"
          Applied=True Applied @0: Manifest has been applied successfully
          Applied=True AppliedWithFailedDriftDetection @0: AppliedWithFailedDriftDetection
          Applied=False DecodingErred @0: Failed to apply the manifest (error: why)
          Applied=False FoundGenerateName @0: Failed to apply the manifest (error: why)
          Applied=False Duplicated @0: Failed to apply the manifest (error: why)
          Applied=False FailedToFindObjInMemberCluster @0: Failed to apply the manifest (error: why)
          Applied=False FailedToTakeOver @0: Failed to apply the manifest (error: why)
          Applied=False NotTakenOver @0: Failed to apply the manifest (error: why)
          Applied=False FailedToRunDriftDetection @0: Failed to apply the manifest (error: why)
          Applied=False FoundDrifts @0: Failed to apply the manifest (error: why)
          Applied=False FoundDriftsInDegradedMode @0: Failed to apply the manifest (error: why)
          Applied=False ManifestApplyFailed @0: Failed to apply the manifest (error: why)
          Applied=False ManifestApplyFailed @0: An unexpected apply result is yielded (NoDiffFound, error: why)
          Applied=False ManifestApplyFailed @0: An unexpected apply result is yielded (FoundDiff, error: why)
          Applied=False ManifestApplyFailed @0: An unexpected apply result is yielded (FoundDiffInDegradedMode, error: why)
          Applied=False ManifestApplyFailed @0: An unexpected apply result is yielded (FailedToReportDiff, error: why)
    "#]].assert_eq(&applying);
    let comparing: String = all
        .iter()
        .map(|verdict| {
            told(json!({"type": "ReportDiff"}), outcome(*verdict, Availability::Skipped))
        })
        .collect();
    expect![[r#"
          DiffReported=False FailedToReportDiff @0: An error blocks the diff reporting process (Applied, error: why)
          DiffReported=False FailedToReportDiff @0: An error blocks the diff reporting process (AppliedWithFailedDriftDetection, error: why)
          DiffReported=False FailedToReportDiff @0: An error blocks the diff reporting process (DecodingErred, error: why)
          DiffReported=False FailedToReportDiff @0: An error blocks the diff reporting process (FoundGenerateName, error: why)
          DiffReported=False FailedToReportDiff @0: An error blocks the diff reporting process (Duplicated, error: why)
          DiffReported=False FailedToReportDiff @0: An error blocks the diff reporting process (FailedToFindObjInMemberCluster, error: why)
          DiffReported=False FailedToReportDiff @0: An error blocks the diff reporting process (FailedToTakeOver, error: why)
          DiffReported=False FailedToReportDiff @0: An error blocks the diff reporting process (NotTakenOver, error: why)
          DiffReported=False FailedToReportDiff @0: An error blocks the diff reporting process (FailedToRunDriftDetection, error: why)
          DiffReported=False FailedToReportDiff @0: An error blocks the diff reporting process (FoundDrifts, error: why)
          DiffReported=False FailedToReportDiff @0: An error blocks the diff reporting process (FoundDriftsInDegradedMode, error: why)
          DiffReported=False FailedToReportDiff @0: An error blocks the diff reporting process (ManifestApplyFailed, error: why)
          DiffReported=True NoDiffFound @0: No diff has been found between the hub cluster and the member cluster
          DiffReported=True FoundDiff @0: Diff has been found between the hub cluster and the member cluster
          DiffReported=True FoundDiffInDegradedMode @0: Diff has been found in degraded mode: cannot perform partial comparison as the member cluster API server rejected the manifest object (object is invalid)
          DiffReported=False FailedToReportDiff @0: Failed to report the diff between the hub cluster and the member cluster (error = why)
    "#]].assert_eq(&comparing);
}

// checklist 9.1
#[test]
fn every_availability_has_its_words() {
    let all = [
        Availability::Available,
        Availability::NotYet,
        Availability::NotTrackable,
        Availability::Failed("odd".into()),
        Availability::Skipped,
    ];
    let text: String = all
        .into_iter()
        .map(|availability| told(json!({}), outcome(Verdict::Applied, availability)))
        .collect();
    expect![[r#"
          Applied=True Applied @0: Manifest has been applied successfully
          Available=True Available @0: Manifest is available
          Applied=True Applied @0: Manifest has been applied successfully
          Available=False ManifestNotAvailableYet @0: Manifest is not yet available; Fleet will check again later
          Applied=True Applied @0: Manifest has been applied successfully
          Available=True NotTrackable @0: Manifest's availability is not trackable; Fleet assumes that the applied manifest is available
          Applied=True Applied @0: Manifest has been applied successfully
          Available=False Failed @0: Failed to track the availability of the applied manifest (error = odd)
          Applied=True Applied @0: Manifest has been applied successfully
    "#]].assert_eq(&text);
}

// checklist 9.1
#[test]
fn nothing_is_written_while_nothing_changes() {
    let mut fixture = Fixture::new(
        json!({}),
        &[deployment("a:1"), json!("broken"), json!({"kind": 7}), custom(json!({}))],
    );
    fixture.kinds.remove("Widget");
    fixture.pass();
    for _ in 0..3 {
        fixture.later(60);
        fixture.pass();
    }
    assert_eq!(fixture.reports, 1);
    // A drift is looked at anew each time.
    let full = json!({"comparisonOption": "FullComparison"});
    let mut fixture = Fixture::new(full, &[config_map("c", json!({}))]);
    fixture.pass();
    fixture.edit("ConfigMap c", &json!({"data": {"theirs": "x"}}));
    for _ in 0..3 {
        fixture.later(60);
        fixture.pass();
    }
    assert_eq!(fixture.reports, 4);
}

// checklist 9.1
#[test]
fn the_member_remembers_only_what_is_applied_and_which_object_it_became() {
    let mut fixture = Fixture::new(json!({}), &[json!("broken"), config_map("c", json!({}))]);
    fixture.pass();
    assert_eq!(
        serde_json::to_value(&fixture.applied).unwrap(),
        json!({"appliedResources": [{"ordinal": 1, "version": "v1", "kind": "ConfigMap", "resource": "configmaps",
            "namespace": "app", "name": "c", "uid": "ConfigMap c-uid"}]})
    );
}

#[test]
fn of_duplicates_the_first_keeps_its_time() {
    let twice = [config_map("c", json!({})), config_map("c", json!({}))];
    let mut fixture = Fixture::new(json!({}), &twice);
    fixture.pass();
    fixture.later(60);
    fixture.pass();
    let status = fixture.work.status.clone().unwrap();
    for entry in &status.manifest_conditions {
        assert_eq!(entry.conditions[0].last_transition_time.0, start());
    }
    assert_eq!(fixture.reasons(), ["Applied", "Duplicated"]);
    assert_eq!(fixture.reports, 1);
}

#[test]
fn an_object_that_was_made_anew_counts_from_one_again() {
    let mut fixture = Fixture::new(json!({}), &[deployment("a:1")]);
    fixture.pass();
    fixture.manifests(&[deployment("a:2")]);
    fixture.pass();
    assert!(fixture.told().contains("Applied=True Applied @2"));
    fixture.member.clear();
    fixture.pass();
    assert!(fixture.told().contains("Applied=True Applied @1"), "{}", fixture.told());
}

fn mirror(fixture: &mut Fixture, on: bool) {
    let r#type = if on { ReportBackStrategyType::Mirror } else { ReportBackStrategyType::Disabled };
    fixture.work.spec.report_back_strategy = Some(ReportBackStrategy { r#type, destination: None });
}

fn mirrored(fixture: &Fixture) -> Value {
    let status = serde_json::to_value(&fixture.work.status).unwrap();
    status["manifestConditions"][0]["backReportedStatus"].clone()
}

// checklist 9.2
#[test]
fn status_comes_back_as_long_as_it_is_asked_for() {
    let mut fixture = Fixture::new(json!({}), &[deployment("a:1")]);
    mirror(&mut fixture, true);
    fixture.pass();
    assert_eq!(mirrored(&fixture), Value::Null, "no status, nothing to say");
    runs(&mut fixture);
    fixture.pass();
    let first = mirrored(&fixture);
    assert_eq!(
        first,
        json!({"observationTime": "2026-01-01T12:00:00Z", "observedStatus": {"apiVersion": "apps/v1", "kind": "Deployment",
            "status": {"observedGeneration": 1, "availableReplicas": 2, "updatedReplicas": 2}}})
    );
    fixture.later(60);
    fixture.edit("Deployment web", &json!({"status": {"availableReplicas": 1}}));
    fixture.pass();
    let second = mirrored(&fixture);
    assert_eq!(second["observedStatus"]["status"]["availableReplicas"], json!(1));
    assert_eq!(second["observationTime"], json!("2026-01-01T12:01:00Z"));
    // Ours: what nobody keeps up to date is not left standing.
    mirror(&mut fixture, false);
    fixture.pass();
    assert_eq!(mirrored(&fixture), Value::Null);
    mirror(&mut fixture, true);
    fixture.pass();
    fixture.edit(
        "Deployment web",
        &json!({"metadata": {"deletionTimestamp": "2026-01-01T12:00:00Z"}}),
    );
    fixture.pass();
    assert_eq!(mirrored(&fixture), Value::Null, "it is no longer applied");
}

// checklist 9.2
#[test]
fn an_outcome_without_an_object_is_tolerated() {
    let mut fixture = Fixture::new(json!({}), &[config_map("c", json!({}))]);
    mirror(&mut fixture, true);
    let mut outcome = outcome(Verdict::Applied, Availability::Available);
    outcome.live = None;
    let terms = fixture.terms();
    let report =
        report(&fixture.work, &fixture.applied, &terms, &[outcome], fixture.options, fixture.now);
    assert_eq!(report.status.manifest_conditions[0].back_reported_status, None);
    assert_eq!(report.status.manifest_conditions[0].conditions[0].observed_generation, Some(0));
}

#[test]
fn a_manifest_the_pass_never_got_to_says_so() {
    let fixture = Fixture::new(json!({}), &[json!("broken"), config_map("c", json!({}))]);
    let outcomes = complete(&fixture.read(), BTreeMap::new());
    let verdicts: Vec<_> = outcomes.iter().map(|one| one.verdict).collect();
    assert_eq!(verdicts, [Verdict::DecodingErred, Verdict::ApplyFailed]);
    assert_eq!(
        outcomes[1].error.as_deref(),
        Some("the pass ended before the manifest was processed")
    );
}
