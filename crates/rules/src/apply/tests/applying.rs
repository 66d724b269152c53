//! Creating, updating, and who may own what.

use expect_test::expect;
use flagship_api::hash::spec_hash;
use serde_json::{Value, json};

use super::fixture::{Fixture, Verb, applied_work, config_map, custom, deployment, foreign_owner};
use crate::apply::RefusalKind;

const LAST_APPLIED: &str = "kubernetes-fleet.io/last-applied-configuration";

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"].get(key).and_then(Value::as_str)
}

// checklist 4.1
#[test]
fn a_manifest_is_created_then_updated_and_what_others_set_stays() {
    let mut fixture = Fixture::new(json!({}), &[config_map("c", json!({"a": "1", "b": "2"}))]);
    fixture.pass();
    fixture.edit(
        "ConfigMap c",
        &json!({"data": {"a": "9", "theirs": "x"}, "metadata": {"labels": {"team": "blue"}}}),
    );
    fixture.manifests(&[config_map("c", json!({"a": "1"}))]);
    fixture.pass();
    assert_eq!(fixture.done(), ["Create ConfigMap c", "Patch ConfigMap c"]);
    let live = fixture.live("ConfigMap c");
    assert_eq!(live["data"], json!({"a": "1", "theirs": "x"}), "set again, deleted, left alone");
    assert_eq!(live["metadata"]["labels"], json!({"team": "blue"}));
}

// checklist 4.1
#[test]
fn custom_resources_and_definitions_are_updated_too() {
    let definition = |label: &str| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com", "labels": {"v": label}}, "spec": {"versions": [{"name": "v1"}]}})
    };
    let mut fixture =
        Fixture::new(json!({}), &[custom(json!({"list": [1, 2], "old": true})), definition("1")]);
    fixture.pass();
    fixture.edit("Widget w", &json!({"spec": {"theirs": 1}}));
    fixture.manifests(&[custom(json!({"list": [3]})), definition("2")]);
    fixture.pass();
    assert_eq!(
        fixture.live("Widget w")["spec"],
        json!({"list": [3], "theirs": 1}),
        "lists are replaced"
    );
    assert_eq!(
        fixture.live("CustomResourceDefinition widgets.example.com")["metadata"]["labels"],
        json!({"v": "2"})
    );
}

// checklist 4.1
#[test]
fn without_a_memory_of_what_was_applied_nothing_is_deleted() {
    for memory in [json!(null), json!("")] {
        let mut fixture = Fixture::new(json!({}), &[config_map("c", json!({"a": "1", "b": "2"}))]);
        fixture.pass();
        fixture.edit("ConfigMap c", &json!({"metadata": {"annotations": {LAST_APPLIED: memory}}}));
        fixture.manifests(&[config_map("c", json!({"a": "3"}))]);
        fixture.pass();
        assert_eq!(fixture.live("ConfigMap c")["data"], json!({"a": "3", "b": "2"}));
    }
    let mut fixture = Fixture::new(json!({}), &[config_map("c", json!({}))]);
    fixture.pass();
    fixture.edit("ConfigMap c", &json!({"metadata": {"annotations": {LAST_APPLIED: "{broken"}}}));
    fixture.pass();
    expect![[r#"
        Applied=False SomeManifestsAreNotApplied: Failed to apply all manifests (0 of 1 manifests are applied)
        #0 ConfigMap c
          Applied=False ManifestApplyFailed @0: Failed to apply the manifest (error: failed to apply the manifest: failed to create three-way merge patch: the last-applied configuration is not JSON: key must be a string at line 1 column 2)
    "#]].assert_eq(&fixture.told());
}

// checklist 4.2
#[test]
fn an_object_without_room_for_its_memory_is_applied_server_side() {
    let big = config_map("c", json!({"k": "x".repeat(262_144)}));
    let mut fixture = Fixture::new(json!({}), &[big]);
    fixture.pass();
    assert_eq!(annotation(fixture.live("ConfigMap c"), LAST_APPLIED), Some(""));
    fixture.pass();
    assert_eq!(fixture.done(), ["Create ConfigMap c", "Apply ConfigMap c, forced"]);
    // Somebody else has written since: no more forcing.
    fixture.edit("ConfigMap c", &json!({"metadata": {"managedFields": [{"manager": "work-api-agent"}, {"manager": "kubectl"}]}}));
    fixture.pass();
    assert_eq!(fixture.done(), ["Apply ConfigMap c"]);
    // A smaller one has room again.
    fixture.manifests(&[config_map("c", json!({"k": "y"}))]);
    fixture.pass();
    assert_eq!(fixture.done(), ["Patch ConfigMap c"]);
    assert!(annotation(fixture.live("ConfigMap c"), LAST_APPLIED).unwrap().contains("\"k\":\"y\""));
}

// checklist 4.2
#[test]
fn the_budget_of_annotations_counts_keys_and_values() {
    let with = |padding: usize| {
        let mut object = config_map("c", json!({}));
        object["metadata"]["annotations"] = json!({"pad": "x".repeat(padding)});
        let mut fixture = Fixture::new(json!({}), &[object]);
        fixture.pass();
        let live = fixture.live("ConfigMap c").clone();
        let remembered = annotation(&live, LAST_APPLIED).unwrap() != "";
        let all = live["metadata"]["annotations"].as_object().unwrap();
        let size: usize =
            all.iter().map(|(key, value)| key.len() + value.as_str().unwrap().len()).sum();
        (remembered, size)
    };
    // The padding is there twice, once inside the memory.
    let (_, size) = with(0);
    let room = (262_144 - size) / 2;
    assert!(with(room).0);
    assert!(with(room).1 + 2 > 262_144, "to the byte");
    assert!(!with(room + 1).0);
}

// checklist 4.3
#[test]
fn a_conflict_with_somebody_else_fails_unless_forced() {
    let foreign = "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using v1: .data.k";
    let server_side =
        |force: bool| json!({"type": "ServerSideApply", "serverSideApplyConfig": {"force": force}});
    let mut fixture = Fixture::new(server_side(false), &[config_map("c", json!({"k": "v"}))]);
    fixture.pass();
    let theirs = json!({"metadata": {"managedFields": [{"manager": "work-api-agent"}, {"manager": "kubectl-client-side-apply"}]}});
    fixture.edit("ConfigMap c", &theirs);
    fixture.refuse(Verb::Apply, RefusalKind::Conflict, foreign);
    fixture.pass();
    assert_eq!(fixture.done(), ["Create ConfigMap c", "Apply ConfigMap c"]);
    expect![[r#"
        Applied=False SomeManifestsAreNotApplied: Failed to apply all manifests (0 of 1 manifests are applied)
        #0 ConfigMap c
          Applied=False ManifestApplyFailed @0: Failed to apply the manifest (error: failed to apply the manifest: failed to apply the manifest object: an error is returned by the API server: Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using v1: .data.k)
    "#]].assert_eq(&fixture.told());
    fixture.strategy(server_side(true));
    fixture.pass();
    assert_eq!(fixture.done(), ["Apply ConfigMap c, forced"]);
    assert_eq!(fixture.reasons(), ["Applied"]);
}

// checklist 4.3
#[test]
fn we_are_never_in_our_own_way() {
    let mut fixture =
        Fixture::new(json!({"type": "ServerSideApply"}), &[config_map("c", json!({"k": "v"}))]);
    fixture.pass();
    for managers in
        [json!([]), json!([{"manager": "work-api-agent"}, {"manager": "before-first-apply"}])]
    {
        fixture.edit("ConfigMap c", &json!({"metadata": {"managedFields": managers}}));
        fixture.done();
        fixture.pass();
        assert_eq!(fixture.done(), ["Apply ConfigMap c, forced"]);
    }
    // Another manager is about, but the conflict is with what we wrote ourselves.
    fixture.edit(
        "ConfigMap c",
        &json!({"metadata": {"managedFields": [{"manager": "kube-controller-manager"}]}}),
    );
    let retried = |fixture: &mut Fixture, message: &str| {
        fixture.refuse(Verb::Apply, RefusalKind::Conflict, message);
        fixture.pass();
        fixture.done() == ["Apply ConfigMap c", "Apply ConfigMap c, forced"]
    };
    let ours = "Apply failed with 1 conflict: conflict with \"work-api-agent\" using v1: .data.k";
    assert!(retried(&mut fixture, ours));
    let both = "Apply failed with 2 conflicts: conflicts with \"before-first-apply\" using v1:\n- .data.k\nconflicts with \"work-api-agent\":\n- .data.l";
    assert!(retried(&mut fixture, both));
    for foreign in [
        "Apply failed with 2 conflicts: conflicts with \"kubectl\":\n- .data.k\nconflicts with \"work-api-agent\":\n- .data.l",
        "Apply failed with 1 conflict: conflict with \"work-api-agent-2\": .data.k",
        // Not all of them are told.
        "Apply failed with 200 conflicts: conflicts with \"work-api-agent\":\n- .data.k",
        "the object has been modified",
    ] {
        assert!(!retried(&mut fixture, foreign), "{foreign}");
        assert_eq!(fixture.reasons(), ["ManifestApplyFailed"]);
    }
    // Only once: a second conflict stands.
    fixture.refuse(Verb::Apply, RefusalKind::Conflict, ours);
    assert!(retried(&mut fixture, ours));
    assert_eq!(fixture.reasons(), ["ManifestApplyFailed"]);
}

// checklist 4.4
#[test]
fn owners_decide_whether_a_manifest_may_be_applied() {
    let owned = |owner: Value| {
        let mut object = config_map("c", json!({}));
        object["metadata"]["ownerReferences"] = json!([owner]);
        object
    };
    let ours = serde_json::to_value(Fixture::new(json!({}), &[]).terms().owner).unwrap();
    let live = |owners: &[Value]| {
        let mut object = config_map("c", json!({}));
        object["metadata"]["ownerReferences"] = json!(owners);
        Some(object)
    };
    let plain = || config_map("c", json!({}));
    let table = [
        (
            false,
            owned(foreign_owner("x")),
            None,
            "manifest is set to have owner references but co-ownership is disallowed",
        ),
        (true, owned(foreign_owner("x")), None, ""),
        (
            true,
            owned(applied_work("x")),
            None,
            "an AppliedWork object is unexpectedly added as an owner in the manifest object",
        ),
        (
            false,
            plain(),
            live(&[ours.clone(), foreign_owner("x")]),
            "object is co-owned by multiple objects but co-ownership has been disallowed",
        ),
        (true, plain(), live(&[ours.clone(), foreign_owner("x")]), ""),
        (
            true,
            plain(),
            live(&[ours.clone(), applied_work("x")]),
            "object is already owned by another AppliedWork object",
        ),
        (false, plain(), live(&[ours]), ""),
    ];
    for (allowed, manifest, live, why) in table {
        let mut fixture = Fixture::new(
            json!({"allowCoOwnership": allowed, "whenToTakeOver": "Never"}),
            &[manifest],
        );
        if let Some(live) = live {
            fixture.exists(live);
        }
        let outcome = fixture.pass().remove(0);
        match why {
            "" => assert!(outcome.verdict.is_applied(), "{outcome:?}"),
            why => assert_eq!(
                outcome.error,
                Some(format!(
                    "failed to apply the manifest: failed to validate owner references: {why}"
                ))
            ),
        }
    }
    let prepared = crate::apply::prepare::check_owners(
        &plain(),
        Some(&plain()),
        &Fixture::new(json!({}), &[]).terms(),
    );
    assert_eq!(prepared, Err("object is not owned by the expected AppliedWork object"));
}

// checklist 4.5
#[test]
fn sanitising_removes_what_servers_keep_and_nothing_else() {
    let manifest = json!({"apiVersion": "v1", "kind": "X", "metadata": {
        "name": "n", "namespace": "ns", "labels": {"kubernetes.io/l": "kept"}, "finalizers": ["kept"], "generateName": "kept",
        "annotations": {"a": "kept", "kubernetes-fleet.io/spec-hash": "x", "kubernetes-fleet.io/last-applied-configuration": "x",
            "kubectl.kubernetes.io/last-applied-configuration": "x", "deployment.kubernetes.io/revision": "3"},
        "ownerReferences": [{}], "managedFields": [{}], "creationTimestamp": "t", "deletionTimestamp": "t",
        "deletionGracePeriodSeconds": 3, "generation": 4, "resourceVersion": "5", "selfLink": "s", "uid": "u"},
        "spec": {"status": "kept", "template": {"metadata": {"creationTimestamp": null}}}, "status": {"x": 1}});
    let clean = crate::apply::prepare::sanitised(&manifest);
    assert_eq!(
        clean,
        json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "n", "namespace": "ns", "labels": {"kubernetes.io/l": "kept"},
            "finalizers": ["kept"], "generateName": "kept", "annotations": {"a": "kept"}},
            "spec": {"status": "kept", "template": {"metadata": {"creationTimestamp": null}}}})
    );
    let only_ours = json!({"metadata": {"annotations": {"kubernetes-fleet.io/spec-hash": "x"}}});
    assert_eq!(crate::apply::prepare::sanitised(&only_ours), json!({"metadata": {}}));
}

// checklist 4.5
#[test]
fn a_config_map_remembers_what_it_was_applied_as() {
    let manifest = config_map("c", json!({"data": "test", "expr": "a < b & c"}));
    let mut fixture = Fixture::new(json!({}), std::slice::from_ref(&manifest));
    fixture.pass();
    let live = fixture.live("ConfigMap c");
    let hash = spec_hash(&manifest).unwrap();
    assert_eq!(hash, "faf14dd6f0efd12bbf8fda1dad0917fcb4d7e8ec559ca5a8922a24cce2fd64a8");
    assert_eq!(annotation(live, "kubernetes-fleet.io/spec-hash"), Some(hash.as_str()));
    assert_eq!(
        annotation(live, LAST_APPLIED).unwrap(),
        "{\"apiVersion\":\"v1\",\"data\":{\"data\":\"test\",\"expr\":\"a \\u003c b \\u0026 c\"},\"kind\":\"ConfigMap\",\
         \"metadata\":{\"annotations\":{\"kubernetes-fleet.io/spec-hash\":\
         \"faf14dd6f0efd12bbf8fda1dad0917fcb4d7e8ec559ca5a8922a24cce2fd64a8\"},\"name\":\"c\",\"namespace\":\"app\",\
         \"ownerReferences\":[{\"apiVersion\":\"placement.kubernetes-fleet.io/v1beta1\",\"blockOwnerDeletion\":true,\
         \"kind\":\"AppliedWork\",\"name\":\"work\",\"uid\":\"work-uid\"}]}}\n"
    );
    assert_eq!(live["metadata"]["ownerReferences"], json!([fixture.terms().owner]));
    // Server-side apply needs no memory, and leaves one alone that is there.
    let mut fixture = Fixture::new(json!({"type": "ServerSideApply"}), &[manifest]);
    fixture.pass();
    assert_eq!(annotation(fixture.live("ConfigMap c"), LAST_APPLIED), None);
}

// checklist 4.7
#[test]
fn applying_the_same_again_changes_nothing() {
    for strategy in
        [json!({}), json!({"whenToApply": "IfNotDrifted"}), json!({"type": "ServerSideApply"})]
    {
        let mut fixture = Fixture::new(
            strategy,
            &[config_map("c", json!({"k": "v"})), deployment("a:1"), custom(json!({"l": [1]}))],
        );
        fixture.pass();
        let before = fixture.member.clone();
        fixture.pass();
        fixture.pass();
        assert_eq!(fixture.member, before);
        assert_eq!(fixture.live("Deployment web")["metadata"]["generation"], json!(1));
        assert_eq!(fixture.reports, 1, "and nothing new is said");
    }
}

// checklist 4.8
#[test]
fn a_write_is_bound_to_a_version_only_where_drifts_matter() {
    let version = |strategy: Value| {
        let mut fixture = Fixture::new(strategy, &[config_map("c", json!({"k": "v"}))]);
        fixture.pass();
        fixture.manifests(&[config_map("c", json!({"k": "w"}))]);
        let (manifests, terms) = (fixture.read(), fixture.terms());
        let live = fixture.live("ConfigMap c").clone();
        let mut step = crate::apply::begin(&manifests[0], &terms);
        loop {
            step = match step {
                crate::apply::Step::Find(find) => find.answer(Ok(Some(live.clone()))),
                crate::apply::Step::Write(write) => {
                    let body = match write.operation {
                        crate::apply::Operation::Create { body }
                        | crate::apply::Operation::Patch { body, .. }
                        | crate::apply::Operation::Apply { body, .. } => body,
                    };
                    return body["metadata"]["resourceVersion"].clone();
                }
                _ => panic!("a new manifest is written at once"),
            }
        }
    };
    assert_eq!(version(json!({})), Value::Null);
    assert_eq!(version(json!({"type": "ServerSideApply"})), Value::Null);
    assert_eq!(version(json!({"whenToApply": "IfNotDrifted"})), json!("1"));
    assert_eq!(
        version(json!({"whenToApply": "IfNotDrifted", "type": "ServerSideApply"})),
        json!("1")
    );
}

// checklist 4.8
#[test]
fn an_object_without_a_version_cannot_be_locked() {
    let mut fixture = Fixture::new(json!({"whenToApply": "IfNotDrifted"}), &[deployment("a")]);
    fixture.pass();
    fixture.member.get_mut("Deployment web").unwrap()["metadata"]["resourceVersion"] = json!("");
    fixture.manifests(&[deployment("b")]);
    let outcome = fixture.pass().remove(0);
    assert_eq!(
        outcome.error.as_deref(),
        Some(
            "failed to apply the manifest: failed to enable optimistic lock: resource version is empty on the \
              object apps/v1, Kind=Deployment/app/web from the member cluster"
        )
    );
}

// checklist 4.6
#[test]
fn a_stale_version_is_reported_and_healed_by_the_next_pass() {
    let mut fixture =
        Fixture::new(json!({"whenToApply": "IfNotDrifted"}), &[config_map("c", json!({"k": "v"}))]);
    fixture.pass();
    fixture.manifests(&[config_map("c", json!({"k": "w"}))]);
    fixture.refuse(Verb::Patch, RefusalKind::Conflict, "the object has been modified");
    let outcome = fixture.pass().remove(0);
    assert_eq!(
        outcome.error.as_deref(),
        Some(
            "failed to apply the manifest: failed to patch the manifest object: error returned by the API server: the object has been modified"
        )
    );
    fixture.pass();
    assert_eq!(fixture.reasons(), ["Applied"]);
}

#[test]
fn refusals_of_the_member_are_told_in_its_own_words() {
    let table = [
        (
            Verb::Find,
            false,
            "failed to find the corresponding object for the manifest object in the member cluster: error returned by the API server: no",
        ),
        (
            Verb::Create,
            false,
            "failed to apply the manifest: failed to create manifest object: error returned by the API server: no",
        ),
        (
            Verb::Patch,
            true,
            "failed to apply the manifest: failed to patch the manifest object: error returned by the API server: no",
        ),
    ];
    for (verb, existing, error) in table {
        let mut fixture = Fixture::new(json!({}), &[config_map("c", json!({}))]);
        if existing {
            fixture.pass();
        }
        fixture.refuse(verb, RefusalKind::Other, "no");
        let outcome = fixture.pass().remove(0);
        assert_eq!(outcome.error.as_deref(), Some(error));
        assert_eq!(
            fixture.reasons(),
            [if verb == Verb::Find {
                "FailedToFindObjInMemberCluster"
            } else {
                "ManifestApplyFailed"
            }]
        );
    }
    let mut fixture =
        Fixture::new(json!({"type": "ServerSideApply"}), &[config_map("c", json!({}))]);
    fixture.pass();
    fixture.refuse(Verb::Apply, RefusalKind::Other, "no");
    assert_eq!(
        fixture.pass()[0].error.as_deref(),
        Some(
            "failed to apply the manifest: failed to apply the manifest object: an error is returned by the API server: no"
        )
    );
}

#[test]
fn an_object_on_its_way_out_is_waited_for() {
    let mut fixture = Fixture::new(json!({}), &[config_map("c", json!({}))]);
    fixture.pass();
    fixture.pass();
    fixture
        .edit("ConfigMap c", &json!({"metadata": {"deletionTimestamp": "2026-01-01T12:00:00Z"}}));
    fixture.done();
    for _ in 0..4 {
        let outcome = fixture.pass().remove(0);
        assert_eq!(
            outcome.error.as_deref(),
            Some("failed to apply the manifest: object is being deleted")
        );
        assert_eq!(fixture.wait.as_secs(), 5, "the fixed delay, however often");
    }
    assert_eq!(fixture.done(), Vec::<String>::new());
    fixture.member.clear();
    fixture.pass();
    assert_eq!(fixture.reasons(), ["Applied"]);
}

#[test]
fn a_patch_never_touches_other_owners() {
    let mut fixture = Fixture::new(json!({"allowCoOwnership": true}), &[custom(json!({"a": 1}))]);
    fixture.pass();
    let both = json!([fixture.terms().owner, foreign_owner("x")]);
    fixture.edit("Widget w", &json!({"metadata": {"ownerReferences": both}}));
    fixture.manifests(&[custom(json!({"a": 2}))]);
    fixture.pass();
    assert_eq!(fixture.live("Widget w")["metadata"]["ownerReferences"], both);
    assert_eq!(fixture.live("Widget w")["spec"], json!({"a": 2}));
}
