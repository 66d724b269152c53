//! What somebody edited after it was applied.

use expect_test::expect;
use flagship_api::condition::Conditions;
use serde_json::{Value, json};

use super::fixture::{Fixture, Verb, config_map, deployment};
use crate::apply::{RefusalKind, Step, begin};

/// A Work with one applied ConfigMap that somebody has edited since.
fn drifted(strategy: Value, edit: &Value) -> Fixture {
    let mut fixture = Fixture::new(strategy, &[config_map("c", json!({"k": "v"}))]);
    fixture.pass();
    fixture.edit("ConfigMap c", edit);
    fixture.done();
    fixture.later(30);
    fixture
}

fn managed() -> Value {
    json!({"data": {"k": "theirs"}})
}

fn unmanaged() -> Value {
    json!({"metadata": {"labels": {"team": "blue"}}})
}

// checklist 6.1
#[test]
fn where_drifts_matter_a_managed_edit_stops_the_write() {
    let mut fixture = drifted(json!({"whenToApply": "IfNotDrifted"}), &managed());
    fixture.pass();
    assert_eq!(fixture.done(), Vec::<String>::new());
    assert_eq!(fixture.live("ConfigMap c")["data"], json!({"k": "theirs"}));
    expect![[r#"
        Applied=False SomeManifestsAreNotApplied: Failed to apply all manifests (0 of 1 manifests are applied)
        #0 ConfigMap c
          Applied=False FoundDrifts @0: Failed to apply the manifest (error: cannot apply manifest: drifts are found between the manifest and the object from the member cluster)
          drift /data/k member="theirs" hub="v"
    "#]].assert_eq(&fixture.told());
}

// checklist 6.1
#[test]
fn an_unmanaged_edit_is_no_drift_in_a_partial_comparison() {
    let mut fixture = drifted(json!({"whenToApply": "IfNotDrifted"}), &unmanaged());
    fixture.pass();
    assert_eq!(fixture.reasons(), ["Applied"]);
    assert_eq!(fixture.live("ConfigMap c")["metadata"]["labels"], json!({"team": "blue"}));
}

// checklist 6.1
#[test]
fn any_edit_is_a_drift_in_a_full_comparison() {
    let full = json!({"whenToApply": "IfNotDrifted", "comparisonOption": "FullComparison"});
    for (edit, path) in [(managed(), "/data/k"), (unmanaged(), "/metadata/labels/team")] {
        let mut fixture = drifted(full.clone(), &edit);
        fixture.pass();
        assert_eq!(fixture.reasons(), ["FoundDrifts"]);
        assert_eq!(fixture.done(), Vec::<String>::new());
        let status = fixture.work.status.unwrap();
        let details = status.manifest_conditions[0].drift_details.as_ref().unwrap();
        let paths: Vec<_> = details.observed_drifts.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, [path]);
    }
}

// checklist 6.2
#[test]
fn always_overwrites_and_says_nothing() {
    let mut fixture = drifted(json!({}), &managed());
    fixture.pass();
    assert_eq!(fixture.live("ConfigMap c")["data"], json!({"k": "v"}));
    assert!(!fixture.told().contains("drift"));
}

// checklist 6.2
#[test]
fn always_and_full_overwrites_what_is_managed_and_reports_the_rest() {
    let mut edit = managed();
    edit["metadata"] = unmanaged()["metadata"].clone();
    let mut fixture = drifted(json!({"comparisonOption": "FullComparison"}), &edit);
    fixture.pass();
    assert_eq!(fixture.live("ConfigMap c")["data"], json!({"k": "v"}));
    expect![[r#"
        Applied=True AllManifestsApplied: All the specified manifests have been applied
        Available=True AllManifestsAvailable: All of the applied manifests are available
        #0 ConfigMap c
          Applied=True Applied @0: Manifest has been applied successfully
          Available=True Available @0: Manifest is available
          drift /metadata/labels/team member="blue" hub=""
    "#]]
    .assert_eq(&fixture.told());
}

// checklist 6.3
#[test]
fn a_new_manifest_overwrites_drifts() {
    let mut fixture = drifted(json!({"whenToApply": "IfNotDrifted"}), &managed());
    fixture.pass();
    fixture.manifests(&[config_map("c", json!({"k": "new"}))]);
    fixture.pass();
    assert_eq!(fixture.live("ConfigMap c")["data"], json!({"k": "new"}));
    assert_eq!(fixture.reasons(), ["Applied"]);
}

// checklist 6.3
#[test]
fn a_drift_ends_when_the_edit_is_taken_back_or_the_object_is_deleted() {
    let mut fixture = drifted(json!({"whenToApply": "IfNotDrifted"}), &managed());
    fixture.pass();
    fixture.edit("ConfigMap c", &json!({"data": {"k": "v"}}));
    fixture.pass();
    assert_eq!(fixture.reasons(), ["Applied"]);
    assert!(!fixture.told().contains("drift "));
    fixture.edit("ConfigMap c", &managed());
    fixture.pass();
    assert_eq!(fixture.reasons(), ["FoundDrifts"]);
    fixture.member.clear();
    fixture.done();
    fixture.pass();
    assert_eq!(fixture.done(), ["Create ConfigMap c"]);
    assert_eq!(fixture.reasons(), ["Applied"]);
}

// checklist 6.4
#[test]
fn the_first_time_of_a_drift_is_kept_until_it_is_over() {
    let mut fixture = drifted(json!({"whenToApply": "IfNotDrifted"}), &managed());
    let mut times = Vec::new();
    let mut look = |fixture: &mut Fixture| {
        fixture.pass();
        let status = fixture.work.status.as_ref().unwrap();
        let details = status.manifest_conditions[0].drift_details.as_ref();
        let clock = |time: jiff::Timestamp| time.to_string()[11..19].to_owned();
        times.push(details.map_or("-".to_owned(), |found| {
            let (first, last) = (found.first_drifted_observed_time.0, found.observation_time.0);
            format!("{} {}", clock(first), clock(last))
        }));
    };
    look(&mut fixture);
    fixture.later(30);
    look(&mut fixture);
    fixture.edit("ConfigMap c", &json!({"data": {"k": "v"}}));
    look(&mut fixture);
    fixture.edit("ConfigMap c", &managed());
    fixture.later(30);
    look(&mut fixture);
    assert_eq!(times, ["12:00:30 12:00:30", "12:00:30 12:01:00", "-", "12:01:30 12:01:30"]);
}

#[test]
fn a_dry_run_is_not_told_what_servers_keep() {
    let mut manifest = config_map("c", json!({"k": "v"}));
    manifest["metadata"]["resourceVersion"] = json!("stale");
    manifest["metadata"]["uid"] = json!("of another cluster");
    manifest["metadata"]["managedFields"] = json!([{"manager": "kubectl"}]);
    manifest["status"] = json!({"phase": "x"});
    let mut fixture = Fixture::new(json!({"whenToTakeOver": "IfNoDiff"}), &[manifest]);
    fixture.exists(config_map("c", json!({"k": "v"})));
    let (manifests, terms) = (fixture.read(), fixture.terms());
    let Step::Find(find) = begin(&manifests[0], &terms) else { panic!("first it is looked for") };
    let Step::DryRun(run) = find.answer(Ok(fixture.member.get("ConfigMap c").cloned())) else {
        panic!("then it is compared")
    };
    assert_eq!(run.body, config_map("c", json!({"k": "v"})));
    fixture.pass();
    assert_eq!(fixture.reasons(), ["Applied"]);
}

// checklist 6.5
#[test]
fn an_invalid_manifest_is_compared_in_full_and_that_is_said() {
    let mut fixture = Fixture::new(json!({"whenToApply": "IfNotDrifted"}), &[deployment("a:1")]);
    fixture.pass();
    fixture.edit("Deployment web", &json!({"spec": {"paused": true}}));
    fixture.refuse(Verb::DryRun, RefusalKind::Invalid, "field is immutable");
    fixture.pass();
    expect![[r#"
        Applied=False SomeManifestsAreNotApplied: Failed to apply all manifests (0 of 1 manifests are applied)
        #0 Deployment web
          Applied=False FoundDriftsInDegradedMode @2: Failed to apply the manifest (error: cannot apply manifest: drifts are found between the manifest and the object from the member cluster in degraded mode (full comparison is performed instead of partial comparison, as the manifest object is considered to be invalid by the member cluster API server))
          drift /spec/paused member="true" hub=""
    "#]].assert_eq(&fixture.told());
    let status = fixture.work.status.unwrap();
    let details = status.manifest_conditions[0].drift_details.as_ref().unwrap();
    assert_eq!(details.observed_in_member_cluster_generation, 2);
}

#[test]
fn a_comparison_that_fails_stops_the_write() {
    let mut fixture = drifted(json!({"whenToApply": "IfNotDrifted"}), &managed());
    fixture.refuse(Verb::DryRun, RefusalKind::Other, "timeout");
    let outcome = fixture.pass().remove(0);
    assert_eq!(
        outcome.error.as_deref(),
        Some(
            "failed to calculate pre-apply drifts between the manifest and the object from the member cluster: failed to apply the \
              manifest in dry-run mode: failed to apply the manifest object: an error is returned by the API server: timeout"
        )
    );
    assert_eq!(fixture.reasons(), ["FailedToRunDriftDetection"]);
}

#[test]
fn an_object_nobody_can_compare_is_applied_all_the_same() {
    let mut fixture =
        Fixture::new(json!({"comparisonOption": "FullComparison"}), &[config_map("c", json!({}))]);
    let (manifests, terms) = (fixture.read(), fixture.terms());
    let mut live = fixture.pass().remove(0).live.unwrap();
    live["deep"] = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let Step::Find(find) = begin(&manifests[0], &terms) else { panic!() };
    let Step::Write(write) = find.answer(Ok(None)) else { panic!() };
    let Step::Done(outcome) = write.answer(Ok(live)) else { panic!() };
    assert_eq!(
        outcome.error.as_deref(),
        Some(
            "failed to calculate post-apply drifts between the manifest object and the object from the member cluster: an object \
              nests deeper than 127 levels"
        )
    );
    let report = crate::apply::report(
        &fixture.work,
        &fixture.applied,
        &terms,
        &[*outcome],
        fixture.options,
        fixture.now,
    );
    let condition =
        report.status.manifest_conditions[0].conditions.of_type("Applied").unwrap().clone();
    assert_eq!(
        (condition.status.as_str(), condition.reason.as_str(), condition.message.as_str()),
        ("True", "AppliedWithFailedDriftDetection", "AppliedWithFailedDriftDetection")
    );
    assert!(report.status.conditions.of_type("Applied").unwrap().status == "True");
}
