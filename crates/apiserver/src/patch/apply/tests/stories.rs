use super::*;

#[test]
fn a_first_apply_owns_what_it_says_and_nothing_more() {
    let mut desk = Desk::config_map();
    assert!(desk.apply(
        "kubectl",
        json!({"metadata": {"namespace": "default", "labels": {"test-label": "test"}}, "data": {"key": "some value"}})
    ));
    assert_eq!(
        desk.object.unwrap(),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "web", "namespace": "default", "labels": {"test-label": "test"},
                "managedFields": [{
                    "manager": "kubectl", "operation": "Apply", "apiVersion": "v1",
                    "time": "2026-01-01T00:00:01Z", "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:metadata": {"f:labels": {"f:test-label": {}}}, "f:data": {"f:key": {}}},
                }],
            },
            "data": {"key": "some value"},
        })
    );
}

#[test]
fn an_update_takes_the_field_and_the_next_apply_conflicts() {
    let mut desk = Desk::config_map();
    let config =
        json!({"metadata": {"labels": {"test-label": "test"}}, "data": {"key": "some value"}});
    desk.apply("kubectl", config.clone());
    desk.edit("kube-controller-manager", |o| o["data"]["key"] = "new value".into());
    assert_eq!(
        desk.owners(),
        [
            r#"kubectl Apply 1s {"f:metadata":{"f:labels":{"f:test-label":{}}}}"#,
            r#"kube-controller-manager Update 2s {"f:data":{"f:key":{}}}"#,
        ]
    );
    assert_eq!(
        desk.conflict("kubectl", config.clone()),
        r#"Apply failed with 1 conflict: conflict with "kube-controller-manager" using v1: .data.key"#
    );
    assert!(desk.force("kubectl", config));
    assert_eq!(desk.get("/data/key"), "some value");
    assert_eq!(
        desk.owners(),
        [
            r#"kubectl Apply 4s {"f:data":{"f:key":{}},"f:metadata":{"f:labels":{"f:test-label":{}}}}"#
        ]
    );
}

#[test]
fn applying_the_same_again_changes_nothing_not_even_the_time() {
    let mut desk = Desk::config_map();
    desk.apply("kubectl", json!({"data": {"a": "1"}}));
    let before = desk.object.clone();
    assert!(!desk.apply("kubectl", json!({"data": {"a": "1"}})));
    assert_eq!(desk.object, before);
}

#[test]
fn a_field_left_out_is_removed() {
    let mut desk = Desk::config_map();
    desk.apply(
        "kubectl",
        json!({"metadata": {"labels": {"x": "y"}}, "data": {"a": "1", "b": "2"}}),
    );
    desk.apply("kubectl", json!({"data": {"a": "1"}}));
    assert_eq!(desk.get("/data"), json!({"a": "1"}));
    assert_eq!(desk.get("/metadata/labels"), Value::Null);
    assert_eq!(desk.owners(), [r#"kubectl Apply 2s {"f:data":{"f:a":{}}}"#]);
}

#[test]
fn equal_values_are_shared_without_conflict() {
    let mut desk = Desk::config_map();
    desk.apply("one", json!({"data": {"a": "1"}}));
    desk.apply("two", json!({"data": {"a": "1"}}));
    assert_eq!(
        desk.owners(),
        [r#"two Apply - {"f:data":{"f:a":{}}}"#, r#"one Apply 1s {"f:data":{"f:a":{}}}"#]
    );
    // One lets go: the field stays. Then it is the other's alone and goes with it.
    desk.apply("one", json!({}));
    assert_eq!(desk.get("/data/a"), "1");
    assert_eq!(desk.owners(), [r#"two Apply - {"f:data":{"f:a":{}}}"#]);
    desk.apply("two", json!({}));
    assert_eq!(desk.get("/data"), Value::Null);
    assert_eq!(desk.get("/metadata/managedFields"), Value::Null);
}

#[test]
fn a_shared_field_can_be_changed_by_neither_alone() {
    let mut desk = Desk::config_map();
    desk.apply("one", json!({"data": {"a": "1"}}));
    desk.apply("two", json!({"data": {"a": "1"}}));
    assert_eq!(
        desk.conflict("one", json!({"data": {"a": "2"}})),
        r#"Apply failed with 1 conflict: conflict with "two": .data.a"#
    );
}

#[test]
fn several_conflicts_are_listed_by_manager() {
    let mut desk = Desk::deployment();
    desk.apply("alice", json!({"spec": {"replicas": 1, "paused": true}}));
    desk.edit("bob", |o| o["metadata"]["labels"] = json!({"app": "web"}));
    let config =
        json!({"metadata": {"labels": {"app": "shop"}}, "spec": {"replicas": 2, "paused": false}});
    assert_eq!(
        desk.conflict("carol", config.clone()),
        "Apply failed with 3 conflicts: conflicts with \"alice\":\n- .spec.paused\n- .spec.replicas\n\
         conflicts with \"bob\" using apps/v1:\n- .metadata.labels.app"
    );
    let error = ApiError::from(desk.try_apply("carol", config, false).unwrap_err());
    assert_eq!((error.code, error.reason), (409, "Conflict"));
    let causes = error.details.unwrap().causes;
    let rows: Vec<_> =
        causes.iter().map(|c| (c.reason, c.field.as_str(), c.message.as_str())).collect();
    assert_eq!(
        rows,
        [
            ("FieldManagerConflict", ".spec.paused", "conflict with \"alice\""),
            ("FieldManagerConflict", ".spec.replicas", "conflict with \"alice\""),
            ("FieldManagerConflict", ".metadata.labels.app", "conflict with \"bob\" using apps/v1"),
        ]
    );
}

#[test]
fn ownership_of_replicas_is_handed_to_the_autoscaler() {
    let mut desk = Desk::deployment();
    desk.apply("kubectl", json!({"spec": {"replicas": 3, "paused": false}}));
    // The autoscaler takes the field first, then it may be left out without harm.
    desk.edit("hpa", |o| o["spec"]["replicas"] = 5.into());
    desk.apply("kubectl", json!({"spec": {"paused": false}}));
    assert_eq!(desk.get("/spec/replicas"), 5);
    assert_eq!(
        desk.owners(),
        [
            r#"kubectl Apply 1s {"f:spec":{"f:paused":{}}}"#,
            r#"hpa Update 2s {"f:spec":{"f:replicas":{}}}"#,
        ]
    );
}

#[test]
fn ownership_by_a_status_writer_names_the_subresource() {
    let mut desk = Desk::deployment();
    desk.apply("kubectl", json!({"spec": {"replicas": 3}}));
    let manager = Manager { subresource: "status", ..desk.manager("controller") };
    let old = desk.object.clone().unwrap();
    let mut new = old.clone();
    new["status"] = json!({"readyReplicas": 3});
    record_update(Some(&old), &mut new, &manager, Some(DEPLOYMENT.root()));
    assert_eq!(
        new["metadata"]["managedFields"][1],
        json!({
            "manager": "controller", "operation": "Update", "apiVersion": "apps/v1", "subresource": "status",
            "time": "2026-01-01T00:00:02Z", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:status": {".": {}, "f:readyReplicas": {}}},
        })
    );
    desk.object = Some(new);
    assert_eq!(
        desk.conflict("other", json!({"status": {"readyReplicas": 9}})),
        "Apply failed with 1 conflict: conflict with \"controller\" with subresource \"status\" using apps/v1: .status.readyReplicas"
    );
}

#[test]
fn an_untracked_object_belongs_to_the_time_before_its_first_apply() {
    let mut desk = Desk::config_map();
    desk.object = Some(desk.whole(json!({"metadata": {"uid": "u"}, "data": {"a": "1"}})));
    assert_eq!(
        desk.conflict("kubectl", json!({"data": {"a": "2"}})),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.a"
    );
    desk.apply("kubectl", json!({"data": {"b": "2"}}));
    assert_eq!(
        desk.owners(),
        [
            r#"kubectl Apply 2s {"f:data":{"f:b":{}}}"#,
            r#"before-first-apply Update 2s {"f:data":{".":{},"f:a":{}}}"#,
        ]
    );
}

#[test]
fn kubectl_moves_from_client_side_apply_without_conflict() {
    let mut desk = Desk::config_map();
    let config = json!({"data": {"a": "1", "b": "2"}});
    let last = desk.whole(config.clone()).to_string();
    let mut created = config;
    created["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
        last.into();
    desk.put("kubectl-client-side-apply", created);
    let changed = json!({"data": {"a": "new", "b": "2"}});
    assert!(desk.conflict("other", changed.clone()).starts_with("Apply failed with 1 conflict"));
    desk.apply("kubectl", changed.clone());
    assert_eq!(desk.get("/data/a"), "new");
    // The annotation follows, so that client-side apply may be used again.
    let annotation =
        desk.get("/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration");
    let followed: Value = serde_json::from_str(annotation.as_str().unwrap()).unwrap();
    assert_eq!(followed, desk.whole(changed.clone()));
    let before = desk.object.clone();
    assert!(!desk.apply("kubectl", changed));
    assert_eq!(desk.object, before);
    // What somebody changed since is no longer the annotation's to give away.
    desk.edit("someone", |o| o["data"]["b"] = "3".into());
    assert_eq!(
        desk.conflict("kubectl", json!({"data": {"a": "new", "b": "4"}})),
        "Apply failed with 1 conflict: conflict with \"someone\" using v1: .data.b"
    );
}

#[test]
fn atomic_maps_are_owned_and_replaced_as_a_whole() {
    let mut desk = Desk::deployment();
    desk.apply("one", json!({"spec": {"selector": {"matchLabels": {"app": "a"}}}}));
    assert_eq!(desk.owners(), [r#"one Apply 1s {"f:spec":{"f:selector":{}}}"#]);
    assert_eq!(
        desk.conflict("two", json!({"spec": {"selector": {"matchLabels": {"tier": "b"}}}})),
        "Apply failed with 1 conflict: conflict with \"one\": .spec.selector"
    );
    desk.force("two", json!({"spec": {"selector": {"matchLabels": {"tier": "b"}}}}));
    assert_eq!(desk.get("/spec/selector"), json!({"matchLabels": {"tier": "b"}}));
}

#[test]
fn a_null_lets_go_of_the_value() {
    let mut desk = Desk::deployment();
    desk.apply("one", json!({"metadata": {"creationTimestamp": null}, "spec": {"replicas": 1}}));
    assert_eq!(desk.get("/metadata/creationTimestamp"), Value::Null);
    desk.object.as_mut().unwrap()["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    desk.apply("one", json!({"metadata": {"creationTimestamp": null}, "spec": {"replicas": null}}));
    assert_eq!(desk.get("/spec"), json!({}));
    assert_eq!(desk.get("/metadata/creationTimestamp"), "2026-01-01T00:00:00Z");
}

#[test]
fn what_cannot_be_applied_is_refused_with_its_path() {
    let mut desk = Desk::deployment();
    let mut refused = |config: Value| desk.conflict("one", config);
    let typed = "failed to create typed patch object (/web; apps/v1, Kind=Deployment): ";
    assert_eq!(
        refused(json!({"spec": {"replica": 1}})),
        format!("{typed}.spec.replica: field not declared in schema")
    );
    assert_eq!(
        refused(json!({"spec": {"a": 1, "b": 1}})),
        format!(
            "{typed}errors:\n  .spec.a: field not declared in schema\n  .spec.b: field not declared in schema"
        )
    );
    assert_eq!(
        refused(
            json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "imag": "x"}]}}}})
        ),
        format!(
            "{typed}.spec.template.spec.containers[name=\"a\"].imag: field not declared in schema"
        )
    );
    assert_eq!(
        refused(json!({"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}})),
        format!(
            "{typed}.spec.template.spec.containers: element 0: associative list with keys has an element that omits key field \"name\" (and doesn't have default value)"
        )
    );
    assert_eq!(
        refused(
            json!({"spec": {"template": {"spec": {"containers": [{"name": "x"}, {"name": "x"}]}}}})
        ),
        format!("{typed}.spec.template.spec.containers: duplicate entries for key [name=\"x\"]")
    );
    assert_eq!(
        refused(json!({"spec": {"template": {"spec": {"containers": {"name": "x"}}}}})),
        format!(
            "{typed}.spec.template.spec.containers: expected list, got map[string]interface {{}}"
        )
    );
    assert_eq!(
        refused(json!({"metadata": {"managedFields": []}})),
        "metadata.managedFields must be nil"
    );
    let manager = desk.manager("one");
    let other = json!({"apiVersion": "apps/v1beta1", "kind": "Deployment"});
    assert_eq!(
        apply(None, &other, &manager, false, None).unwrap_err().to_string(),
        "Incorrect version specified in apply patch. Specified patch version: apps/v1beta1, expected: apps/v1"
    );
}

#[test]
fn an_applier_keeps_its_entry_across_versions() {
    let mut desk = Desk::deployment();
    desk.api_version = "apps/v1beta1";
    desk.apply("one", json!({"spec": {"replicas": 1, "paused": true}}));
    desk.edit("two", |o| o["spec"]["minReadySeconds"] = 3.into());
    desk.api_version = "apps/v1";
    desk.edit("two", |o| o["spec"]["revisionHistoryLimit"] = 3.into());
    desk.apply("one", json!({"spec": {"replicas": 2}}));
    assert_eq!(
        desk.get("/spec"),
        json!({"replicas": 2, "minReadySeconds": 3, "revisionHistoryLimit": 3})
    );
    let entries = desk.get("/metadata/managedFields");
    let versions: Vec<_> = entries
        .as_array()
        .unwrap()
        .iter()
        .map(|e| (e["manager"].clone(), e["apiVersion"].clone()))
        .collect();
    let expected = [("one", "apps/v1"), ("two", "apps/v1beta1"), ("two", "apps/v1")];
    assert_eq!(versions, expected.map(|(m, v)| (json!(m), json!(v))));
}

#[test]
fn without_a_schema_maps_are_taken_apart_and_lists_are_not() {
    let mut desk = Desk::deployment();
    desk.schema = None;
    desk.apply("one", json!({"spec": {"deep": {"list": [{"name": "a"}], "x": 1}}}));
    assert_eq!(
        desk.owners(),
        [r#"one Apply 1s {"f:spec":{".":{},"f:deep":{".":{},"f:list":{},"f:x":{}}}}"#]
    );
    assert_eq!(
        desk.conflict("two", json!({"spec": {"deep": {"list": [{"name": "b"}]}}})),
        "Apply failed with 1 conflict: conflict with \"one\": .spec.deep.list"
    );
}
