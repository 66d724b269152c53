//! Objects that were there before.

use expect_test::expect;
use serde_json::{Value, json};

use super::fixture::{Fixture, Verb, applied_work, config_map, foreign_owner};
use crate::apply::RefusalKind;

/// A member that has the object already, as somebody made it.
fn fixture(strategy: Value, live: Value) -> Fixture {
    let mut fixture = Fixture::new(strategy, &[config_map("c", json!({"k": "v"}))]);
    fixture.exists(live);
    fixture
}

fn owned(owners: &[Value], data: Value) -> Value {
    let mut object = config_map("c", data);
    object["metadata"]["ownerReferences"] = json!(owners);
    object
}

// checklist 5.1
#[test]
fn always_takes_over_and_overwrites() {
    let mut fixture = fixture(json!({}), config_map("c", json!({"k": "theirs", "extra": "x"})));
    fixture.pass();
    assert_eq!(fixture.done(), ["TakeOver ConfigMap c", "Patch ConfigMap c"]);
    let live = fixture.live("ConfigMap c");
    assert_eq!(live["data"], json!({"k": "v", "extra": "x"}));
    assert_eq!(live["metadata"]["ownerReferences"], json!([fixture.terms().owner]));
}

// checklist 5.1
#[test]
fn if_no_diff_takes_over_what_is_as_the_manifest_says() {
    let partial = json!({"whenToTakeOver": "IfNoDiff"});
    let mut same = fixture(partial.clone(), config_map("c", json!({"k": "v", "extra": "x"})));
    same.pass();
    assert_eq!(same.done(), ["TakeOver ConfigMap c", "Patch ConfigMap c"]);
    assert_eq!(same.live("ConfigMap c")["data"], json!({"k": "v", "extra": "x"}), "extras stay");

    let mut different = fixture(partial, config_map("c", json!({"k": "theirs", "extra": "x"})));
    let before = different.member.clone();
    different.pass();
    assert_eq!(different.done(), Vec::<String>::new());
    assert_eq!(different.member, before);
    expect![[r#"
        Applied=False SomeManifestsAreNotApplied: Failed to apply all manifests (0 of 1 manifests are applied)
        #0 ConfigMap c
          Applied=False FailedToTakeOver @0: Failed to apply the manifest (error: cannot take over object: configuration differences are found between the manifest object and the corresponding object in the member cluster)
          diff /data/k member="theirs" hub="v"
    "#]].assert_eq(&different.told());

    let full = json!({"whenToTakeOver": "IfNoDiff", "comparisonOption": "FullComparison"});
    let mut extras = fixture(full, config_map("c", json!({"k": "v", "extra": "x"})));
    extras.pass();
    assert_eq!(extras.done(), Vec::<String>::new());
    expect![[r#"
        Applied=False SomeManifestsAreNotApplied: Failed to apply all manifests (0 of 1 manifests are applied)
        #0 ConfigMap c
          Applied=False FailedToTakeOver @0: Failed to apply the manifest (error: cannot take over object: configuration differences are found between the manifest object and the corresponding object in the member cluster)
          diff /data/extra member="x" hub=""
    "#]].assert_eq(&extras.told());
}

// checklist 5.1
#[test]
fn never_leaves_alone_what_is_there_and_creates_what_is_not() {
    let mut fixture =
        fixture(json!({"whenToTakeOver": "Never"}), config_map("c", json!({"k": "v"})));
    fixture.manifests(&[config_map("c", json!({"k": "v"})), config_map("new", json!({}))]);
    fixture.pass();
    assert_eq!(fixture.done(), ["Create ConfigMap new"]);
    expect![[r#"
        Applied=False SomeManifestsAreNotApplied: Failed to apply all manifests (1 of 2 manifests are applied)
        #0 ConfigMap c
          Applied=False NotTakenOver @0: Failed to apply the manifest (error: no ownership of the object in the member cluster; takeover is needed)
        #1 ConfigMap new
          Applied=True Applied @0: Manifest has been applied successfully
          Available=True Available @0: Manifest is available
    "#]].assert_eq(&fixture.told());
}

// checklist 5.2
#[test]
fn what_others_own_is_taken_only_where_that_is_allowed() {
    let mut alone = fixture(json!({}), owned(&[foreign_owner("x")], json!({})));
    let outcome = alone.pass().remove(0);
    assert_eq!(
        outcome.error.as_deref(),
        Some(
            "failed to take over a pre-existing object: the object is already owned by some other sources(s) and co-ownership is \
              disallowed (existingOwnerRefs: [{APIVersion:v1 Kind:ConfigMap Name:x UID:x-uid Controller:<nil> BlockOwnerDeletion:<nil>}])"
        )
    );
    assert_eq!(alone.reasons(), ["FailedToTakeOver"]);
    assert_eq!(alone.done(), Vec::<String>::new());

    let mut shared =
        fixture(json!({"allowCoOwnership": true}), owned(&[foreign_owner("x")], json!({})));
    shared.pass();
    assert_eq!(shared.reasons(), ["Applied"]);
    let owners = &shared.live("ConfigMap c")["metadata"]["ownerReferences"];
    assert_eq!(owners, &json!([foreign_owner("x"), shared.terms().owner]));
}

// checklist 5.2, 4.4
#[test]
fn what_another_placement_owns_is_never_taken() {
    for (allowed, why) in [
        (true, "the object is already owned by another Fleet AppliedWork object"),
        (
            false,
            "the object is already owned by some other sources(s) and co-ownership is disallowed (existingOwnerRefs: \
             [{APIVersion:placement.kubernetes-fleet.io/v1beta1 Kind:AppliedWork Name:other UID:other-uid Controller:<nil> BlockOwnerDeletion:true}])",
        ),
    ] {
        let strategy = json!({"allowCoOwnership": allowed});
        let mut fixture = fixture(strategy, owned(&[applied_work("other")], json!({})));
        fixture.works.insert("other".to_owned());
        let outcome = fixture.pass().remove(0);
        let error = format!("failed to take over a pre-existing object: {why}");
        assert_eq!(outcome.error, Some(error));
        assert_eq!(fixture.done(), Vec::<String>::new());
    }
}

// checklist 5.2
#[test]
fn a_reference_that_was_left_behind_counts_for_nothing() {
    let mut fixture = fixture(json!({}), owned(&[applied_work("gone")], json!({})));
    fixture.pass();
    assert_eq!(fixture.reasons(), ["Applied"]);
    assert_eq!(
        fixture.live("ConfigMap c")["metadata"]["ownerReferences"],
        json!([fixture.terms().owner])
    );
    // Neither our group nor the kind's name alone make it one of ours.
    for field in ["apiVersion", "kind"] {
        let mut lookalike = applied_work("gone");
        lookalike[field] = json!("example.com/v1");
        let mut fixture = super::taking_over::fixture(json!({}), owned(&[lookalike], json!({})));
        fixture.pass();
        assert_eq!(fixture.reasons(), ["FailedToTakeOver"], "{field}");
    }
}

#[test]
fn failures_on_the_way_say_where() {
    let mut lookup = fixture(json!({}), owned(&[applied_work("gone")], json!({})));
    lookup.refuse(Verb::FindWorks, RefusalKind::Other, "timeout");
    assert_eq!(
        lookup.pass()[0].error.as_deref(),
        Some(
            "failed to take over a pre-existing object: failed to remove left-behind AppliedWork owner references: failed to get the \
              Work object: error returned by the API server: timeout"
        )
    );
    let mut update = fixture(json!({}), config_map("c", json!({})));
    update.refuse(Verb::TakeOver, RefusalKind::Conflict, "modified");
    assert_eq!(
        update.pass()[0].error.as_deref(),
        Some(
            "failed to take over a pre-existing object: failed to take over the object: error returned by the API server: modified"
        )
    );
    let mut dry_run = fixture(json!({"whenToTakeOver": "IfNoDiff"}), config_map("c", json!({})));
    dry_run.refuse(Verb::DryRun, RefusalKind::Other, "forbidden");
    assert_eq!(
        dry_run.pass()[0].error.as_deref(),
        Some(
            "failed to take over a pre-existing object: failed to calculate configuration diffs between the manifest object and the \
              object from the member cluster: failed to apply the manifest in dry-run mode: failed to apply the manifest object: an \
              error is returned by the API server: forbidden"
        )
    );
    let mut invalid = fixture(json!({"whenToTakeOver": "IfNoDiff"}), config_map("c", json!({})));
    invalid.refuse(Verb::DryRun, RefusalKind::Invalid, "immutable");
    assert_eq!(
        invalid.pass()[0].error.as_deref(),
        Some(
            "cannot take over object: configuration differences are found between the manifest object and the corresponding object in \
              the member cluster in degraded mode (full comparison is performed instead of partial comparison, as the manifest object \
              is considered to be invalid by the member cluster API server)"
        )
    );
}

// checklist 5.3
#[test]
fn a_switch_to_if_no_diff_takes_over_only_what_is_equal() {
    let mut fixture = Fixture::new(
        json!({"whenToTakeOver": "Never"}),
        &[config_map("same", json!({"k": "v"})), config_map("other", json!({"k": "v"}))],
    );
    fixture.exists(config_map("same", json!({"k": "v"})));
    fixture.exists(config_map("other", json!({"k": "w"})));
    fixture.pass();
    assert_eq!(fixture.reasons(), ["NotTakenOver", "NotTakenOver"]);
    fixture.strategy(json!({"whenToTakeOver": "IfNoDiff"}));
    fixture.pass();
    assert_eq!(fixture.reasons(), ["Applied", "FailedToTakeOver"]);
    assert_eq!(fixture.live("ConfigMap other")["data"], json!({"k": "w"}));
}
