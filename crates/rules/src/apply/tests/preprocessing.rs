//! Decoding, duplicates, the record before applying, and left-overs.

use expect_test::expect;
use flagship_api::condition::Conditions;
use flagship_api::kinds::Scope;
use flagship_api::work::{ManifestCondition, WorkResourceIdentifier};
use serde_json::{Value, json};

use super::fixture::{Fixture, applied_work, config_map, custom, foreign_owner};
use crate::apply::{
    GroupVersionKind, Mapping, Removal, Unmapped, intent, map, read, release, removal,
    removal_failed, types,
};
use std::collections::BTreeMap;

// checklist 2.1
#[test]
fn each_bad_manifest_is_reported_and_the_rest_is_applied() {
    let mut fixture = Fixture::new(
        json!({}),
        &[
            json!("no object"),
            json!({"apiVersion": "v1", "metadata": {"name": "kindless"}}),
            json!({"apiVersion": "a/b/c", "kind": "X", "metadata": {"name": "x"}}),
            json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "c-", "namespace": "app"}}),
            config_map("good", json!({"k": "v"})),
            config_map("good", json!({"k": "w"})),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "app"}}),
        ],
    );
    fixture.pass();
    assert_eq!(fixture.done(), ["Create ConfigMap good"]);
    expect![[r#"
        Applied=False SomeManifestsAreNotApplied: Failed to apply all manifests (1 of 8 manifests are applied)
        #0
          Applied=False DecodingErred @0: Failed to apply the manifest (error: failed to decode manifest: failed to unmarshal JSON: not an object)
        #1
          Applied=False DecodingErred @0: Failed to apply the manifest (error: failed to decode manifest: failed to unmarshal JSON: Object 'Kind' is missing)
        #2
          Applied=False DecodingErred @0: Failed to apply the manifest (error: failed to decode manifest: failed to unmarshal JSON: unexpected GroupVersion string: a/b/c)
        #3 Gadget g
          Applied=False DecodingErred @0: Failed to apply the manifest (error: failed to decode manifest: failed to find GVR from member cluster client REST mapping: no matches for kind "Gadget" in version "example.com/v1")
        #4 ConfigMap
          Applied=False FoundGenerateName @0: Failed to apply the manifest (error: objects with only generate name are not supported)
        #5 ConfigMap good
          Applied=True Applied @0: Manifest has been applied successfully
          Available=True Available @0: Manifest is available
        #6 ConfigMap good
          Applied=False Duplicated @0: Failed to apply the manifest (error: a duplicate manifest has been found)
        #7 ConfigMap
          Applied=False FailedToFindObjInMemberCluster @0: Failed to apply the manifest (error: failed to find the corresponding object for the manifest object in the member cluster: error returned by the API server: name is required)
    "#]].assert_eq(&fixture.told());
}

// checklist 2.2
#[test]
fn an_identifier_says_as_much_as_is_known() {
    let fixture = Fixture::new(
        json!({}),
        &[
            json!(7),
            json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g", "namespace": "n"}}),
            config_map("c", json!({})),
        ],
    );
    let identifiers: Vec<Value> =
        fixture.read().iter().map(|one| serde_json::to_value(&one.identifier).unwrap()).collect();
    assert_eq!(
        identifiers,
        [
            json!({"ordinal": 0}),
            json!({"ordinal": 1, "group": "example.com", "version": "v1", "kind": "Gadget", "namespace": "n", "name": "g"}),
            json!({"ordinal": 2, "version": "v1", "kind": "ConfigMap", "resource": "configmaps", "namespace": "app", "name": "c"}),
        ]
    );
}

#[test]
fn a_kind_that_nobody_could_look_up_says_why() {
    let mut manifests =
        read(&Fixture::new(json!({}), &[custom(json!({}))]).work.spec.workload.manifests);
    let kind = types(&manifests).into_iter().next().unwrap();
    assert_eq!(kind.to_string(), "example.com/v1, Kind=Widget");
    let mut answer = |answer: Result<Mapping, Unmapped>| {
        map(&mut manifests, &BTreeMap::from([(kind.clone(), answer)]));
        manifests[0].untried.clone().map(|untried| untried.error)
    };
    let prefix =
        "failed to decode manifest: failed to find GVR from member cluster client REST mapping: ";
    assert_eq!(
        answer(Err(Unmapped::NoSuchKind)),
        Some(format!("{prefix}no matches for kind \"Widget\" in version \"example.com/v1\""))
    );
    assert_eq!(
        answer(Err(Unmapped::Unanswered("timeout".into()))),
        Some(format!("{prefix}timeout"))
    );
    // A later look may find it.
    let mapping = |scope| Ok(Mapping { resource: "widgets".into(), scope });
    // The manifest is in a namespace, where a kind of the whole cluster has no objects.
    assert_eq!(
        answer(mapping(Scope::Cluster)),
        Some(
            "failed to decode manifest: Widget is cluster-scoped in the member cluster, and the \
             manifest is in namespace \"app\""
                .to_owned()
        )
    );
    assert_eq!(answer(mapping(Scope::Namespaced)), None);
    let core = GroupVersionKind { group: String::new(), version: "v1".into(), kind: "Pod".into() };
    assert_eq!(core.to_string(), "/v1, Kind=Pod");
}

#[test]
fn two_versions_of_an_object_are_no_duplicates() {
    let mut other = custom(json!({}));
    other["apiVersion"] = json!("example.com/v2");
    let mut fixture = Fixture::new(json!({}), &[custom(json!({})), other]);
    fixture.pass();
    assert_eq!(fixture.reasons()[0], "Applied");
    assert!(fixture.read().iter().all(|one| one.untried.is_none()));
}

// checklist 2.3
#[test]
fn a_removed_manifest_is_deleted_even_if_another_fails() {
    let mut fixture =
        Fixture::new(json!({}), &[config_map("a", json!({})), config_map("b", json!({}))]);
    fixture.pass();
    fixture.done();
    fixture.manifests(&[config_map("b", json!({})), json!("broken")]);
    fixture.pass();
    assert_eq!(fixture.done(), ["delete ConfigMap a", "Patch ConfigMap b"]);
    assert_eq!(fixture.reasons(), ["Applied", "DecodingErred"]);
    assert_eq!(fixture.applied.applied_resources.len(), 1);
}

// checklist 2.3
#[test]
fn another_order_of_manifests_changes_nothing_on_the_member() {
    let (a, b) = (config_map("a", json!({})), config_map("b", json!({})));
    let mut fixture = Fixture::new(json!({}), &[a.clone(), b.clone()]);
    fixture.pass();
    let before = fixture.member.clone();
    fixture.done();
    fixture.manifests(&[b, a]);
    fixture.later(60);
    fixture.pass();
    assert_eq!(fixture.done(), ["Patch ConfigMap b", "Patch ConfigMap a"]);
    assert_eq!(fixture.member, before);
    let status = fixture.work.status.unwrap();
    let names: Vec<_> = status
        .manifest_conditions
        .iter()
        .map(|one| (one.identifier.ordinal, one.identifier.name.as_str()))
        .collect();
    assert_eq!(names, [(0, "b"), (1, "a")]);
    let times =
        status.manifest_conditions.iter().map(|one| &one.conditions[0].last_transition_time.0);
    assert!(times.eq([&super::fixture::start(); 2]), "both were applied all along");
}

// checklist 2.4
#[test]
fn a_left_over_goes_only_as_far_as_it_is_ours() {
    let owner = Fixture::new(json!({}), &[]).terms().owner;
    let ours = serde_json::to_value(&owner).unwrap();
    let object = |owners: &[&Value]| json!({"metadata": {"uid": "u", "ownerReferences": owners}});
    assert_eq!(removal(None, &owner), Removal::Nothing);
    let mut going = object(&[&ours]);
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(removal(Some(&going), &owner), Removal::Nothing);
    for owners in [&[][..], &[&foreign_owner("x")], &[&applied_work("other")]] {
        assert_eq!(removal(Some(&object(owners)), &owner), Removal::Nothing, "{owners:?}");
    }
    // The same name is not the same owner.
    let mut namesake = ours.clone();
    namesake["uid"] = json!("another");
    assert_eq!(removal(Some(&object(&[&namesake])), &owner), Removal::Nothing);
    let Removal::Disown(left) = removal(Some(&object(&[&ours, &foreign_owner("x")])), &owner)
    else {
        panic!("others own it too");
    };
    assert_eq!(left["metadata"]["ownerReferences"], json!([foreign_owner("x")]));
    assert_eq!(removal(Some(&object(&[&ours])), &owner), Removal::Delete { uid: "u".into() });
}

// checklist 1.4
#[test]
fn a_stuck_deletion_stops_waiting_for_objects_that_others_own_too() {
    let owner = Fixture::new(json!({}), &[]).terms().owner;
    let ours = serde_json::to_value(&owner).unwrap();
    let object = |owners: &[&Value]| json!({"metadata": {"ownerReferences": owners}});
    assert_eq!(release(&object(&[&ours]), &owner), None);
    assert_eq!(release(&object(&[&foreign_owner("a"), &foreign_owner("b")]), &owner), None);
    let mut waiting = ours.clone();
    waiting["blockOwnerDeletion"] = json!(false);
    let released = release(&object(&[&ours, &foreign_owner("x")]), &owner).unwrap();
    assert_eq!(released["metadata"]["ownerReferences"], json!([waiting, foreign_owner("x")]));
    assert_eq!(release(&released, &owner), None, "once is enough");
}

// checklist 2.4
#[test]
fn a_manifest_that_merely_fails_to_map_is_no_left_over() {
    let mut fixture = Fixture::new(json!({}), &[custom(json!({"a": 1}))]);
    fixture.pass();
    fixture.done();
    fixture.kinds.remove("Widget");
    fixture.manifests(&[custom(json!({"a": 2}))]);
    fixture.pass();
    assert_eq!(fixture.done(), Vec::<String>::new());
    assert_eq!(fixture.reasons(), ["DecodingErred"]);
    // Nor is it one later, when nobody asks for it any more: then it goes.
    fixture.kinds.insert("Widget", "widgets");
    fixture.manifests(&[]);
    fixture.pass();
    assert_eq!(fixture.done(), ["delete Widget w"]);
}

// checklist 2.4
#[test]
fn another_version_of_an_object_is_no_left_over() {
    let of = |version: &str| {
        let mut object = custom(json!({"a": 1}));
        object["apiVersion"] = json!(format!("example.com/{version}"));
        object
    };
    let mut fixture = Fixture::new(json!({}), &[of("v1")]);
    fixture.pass();
    let uid = fixture.live("Widget w")["metadata"]["uid"].clone();
    fixture.done();
    // The member serves what it has in the version it is asked for.
    fixture.member.get_mut("Widget w").unwrap()["apiVersion"] = json!("example.com/v2");
    fixture.manifests(&[of("v2")]);
    fixture.pass();
    assert_eq!(fixture.done(), ["Patch Widget w"]);
    assert_eq!(fixture.live("Widget w")["metadata"]["uid"], uid);
    assert_eq!(fixture.reasons(), ["Applied"]);
}

// checklist 2.5
#[test]
fn the_intent_is_on_record_before_anything_is_applied() {
    let mut fixture = Fixture::new(json!({}), &[config_map("a", json!({}))]);
    let terms = fixture.terms();
    let recorded =
        intent(&fixture.work, &fixture.applied, &terms, &fixture.read(), fixture.now).unwrap();
    assert_eq!(recorded.left_overs, []);
    let [entry] = &recorded.manifest_conditions[..] else { panic!("{recorded:?}") };
    let applied = entry.conditions.of_type("Applied").unwrap();
    assert_eq!(
        (applied.status.as_str(), applied.reason.as_str(), applied.message.as_str()),
        ("False", "PreparingToProcess", "The manifest is being prepared for processing.")
    );
    assert_eq!(applied.observed_generation, fixture.work.metadata.generation);
    // A crash here, and then a manifest is taken away: what may have been applied must go.
    fixture.work.status.get_or_insert_default().manifest_conditions = recorded.manifest_conditions;
    fixture.manifests(&[config_map("b", json!({}))]);
    let next =
        intent(&fixture.work, &fixture.applied, &terms, &fixture.read(), fixture.now).unwrap();
    assert_eq!(next.left_overs.len(), 1);
    assert_eq!(next.left_overs[0].name, "a");
}

// checklist 2.5
#[test]
fn the_record_keeps_what_was_said_and_is_made_once_a_generation() {
    let mut fixture = Fixture::new(json!({}), &[config_map("a", json!({}))]);
    fixture.pass();
    let terms = fixture.terms();
    let again = intent(&fixture.work, &fixture.applied, &terms, &fixture.read(), fixture.now);
    assert_eq!(again, None, "Applied speaks of this generation already");
    fixture.manifests(&[config_map("a", json!({"k": "v"}))]);
    let next =
        intent(&fixture.work, &fixture.applied, &terms, &fixture.read(), fixture.now).unwrap();
    assert_eq!(
        next.manifest_conditions,
        fixture.work.status.as_ref().unwrap().manifest_conditions,
        "reused as it was"
    );
    fixture.strategy(json!({"type": "ReportDiff"}));
    let compared =
        intent(&fixture.work, &fixture.applied, &fixture.terms(), &fixture.read(), fixture.now);
    assert_eq!(compared, None, "a comparison has no intent");
}

fn entry(name: &str, conditions: Value) -> ManifestCondition {
    let identifier = WorkResourceIdentifier {
        version: "v1".into(),
        kind: "ConfigMap".into(),
        resource: "configmaps".into(),
        namespace: "app".into(),
        name: name.into(),
        ..WorkResourceIdentifier::default()
    };
    let conditions = serde_json::from_value(conditions).unwrap();
    ManifestCondition { identifier, conditions, ..ManifestCondition::default() }
}

// checklist 2.3
#[test]
fn whatever_was_said_of_it_last_an_object_of_ours_goes() {
    let applied = |status: &str, reason: &str| json!([{"type": "Applied", "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let mut fixture = Fixture::new(json!({}), &[]);
    let mut unread = entry("unread", applied("False", "DecodingErred"));
    unread.identifier.resource = String::new();
    fixture.work.status.get_or_insert_default().manifest_conditions = vec![
        entry("applied", applied("True", "Applied")),
        entry("intended", applied("False", "PreparingToProcess")),
        entry("refused", applied("False", "ManifestApplyFailed")),
        // As a comparison leaves it.
        entry("compared", json!([])),
        unread,
    ];
    let intent =
        intent(&fixture.work, &fixture.applied, &fixture.terms(), &[], fixture.now).unwrap();
    let names: Vec<_> = intent.left_overs.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["applied", "intended", "refused", "compared"]);
    let mut fixture = Fixture::new(
        json!({"whenToTakeOver": "Never"}),
        &[config_map("theirs", json!({})), config_map("ours", json!({}))],
    );
    fixture.exists(config_map("theirs", json!({})));
    fixture.pass();
    fixture.refuse(super::fixture::Verb::Patch, crate::apply::RefusalKind::Other, "no");
    fixture.pass();
    assert_eq!(fixture.reasons(), ["NotTakenOver", "ManifestApplyFailed"]);
    fixture.done();
    fixture.manifests(&[]);
    fixture.pass();
    assert_eq!(fixture.done(), ["leave ConfigMap theirs", "delete ConfigMap ours"]);
}

#[test]
fn failures_of_removal_read_as_one_error() {
    assert_eq!(
        removal_failed(&["a".into()]),
        "failed to remove left-over manifests: failed to remove the left-over manifest (regular object): a"
    );
    assert_eq!(
        removal_failed(&["a".into(), "b".into()]),
        "failed to remove left-over manifests: [failed to remove the left-over manifest (regular object): a, \
         failed to remove the left-over manifest (regular object): b]"
    );
}

#[test]
fn a_custom_resource_is_applied_in_the_pass_that_brings_its_definition() {
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {"group": "example.com", "names": {"kind": "Gadget", "plural": "gadgets"}}});
    let gadget =
        json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}});
    let mut fixture = Fixture::new(json!({}), &[gadget.clone(), definition.clone()]);
    fixture.pass();
    // The member did not learn of it in time.
    assert_eq!(fixture.reasons(), ["DecodingErred", "Applied"]);
    let mut fixture = Fixture::new(json!({}), &[gadget, definition]);
    let outcomes = {
        let manifests = fixture.read();
        let terms = fixture.terms();
        let outcome = fixture.process(&manifests[1], &terms);
        assert_eq!(crate::apply::reconsider(&manifests, std::slice::from_ref(&outcome)), [0]);
        outcome
    };
    assert!(outcomes.verdict.is_applied());
    fixture.kinds.insert("Gadget", "gadgets");
    fixture.pass();
    assert_eq!(fixture.reasons(), ["Applied", "Applied"]);
}
