use super::*;

#[test]
fn a_created_deployment_is_recorded_as_kubernetes_records_it() {
    let mut desk = Desk::deployment();
    desk.put(
        "kubectl-create",
        json!({
            "metadata": {
                "uid": "u", "resourceVersion": "1", "generation": 1, "namespace": "default",
                "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "nginx"},
            },
            "spec": {
                "progressDeadlineSeconds": 600, "replicas": 1, "revisionHistoryLimit": 10,
                "selector": {"matchLabels": {"app": "nginx"}},
                "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}, "type": "RollingUpdate"},
                "template": {
                    "metadata": {"labels": {"app": "nginx"}},
                    "spec": {
                        "containers": [{
                            "image": "nginx", "imagePullPolicy": "Always", "name": "nginx", "resources": {},
                            "ports": [{"containerPort": 80, "protocol": "TCP"}],
                        }],
                        "dnsPolicy": "ClusterFirst", "securityContext": {},
                    },
                },
            },
            "status": {},
        }),
    );
    assert_eq!(
        desk.get("/metadata/managedFields"),
        json!([{
            "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "manager": "kubectl-create",
            "operation": "Update", "time": "2026-01-01T00:00:01Z",
            "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                "f:spec": {
                    "f:progressDeadlineSeconds": {}, "f:replicas": {}, "f:revisionHistoryLimit": {},
                    "f:selector": {},
                    "f:strategy": {
                        "f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}},
                        "f:type": {},
                    },
                    "f:template": {
                        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                        "f:spec": {
                            "f:containers": {"k:{\"name\":\"nginx\"}": {
                                ".": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {}, "f:resources": {},
                                "f:ports": {".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {
                                    ".": {}, "f:containerPort": {}, "f:protocol": {},
                                }},
                            }},
                            "f:dnsPolicy": {}, "f:securityContext": {},
                        },
                    },
                },
            },
        }])
    );
}

#[test]
fn a_created_custom_resource_owns_its_containers_too() {
    let mut desk = Desk::deployment();
    desk.api_version = "example.com/v1";
    let owner = json!({"uid": "o", "name": "x", "kind": "Y", "apiVersion": "v1"});
    desk.put("me", json!({"metadata": {"ownerReferences": [owner]}, "spec": {"replicas": 1}}));
    assert_eq!(
        desk.owners(),
        [
            r#"me Update 1s {"f:metadata":{"f:ownerReferences":{".":{},"k:{\"uid\":\"o\"}":{}}},"f:spec":{".":{},"f:replicas":{}}}"#
        ]
    );
}

#[test]
fn an_update_that_changes_nothing_leaves_the_books_alone() {
    let mut desk = Desk::config_map();
    desk.put("one", json!({"data": {"a": "1"}}));
    let before = desk.object.clone();
    desk.edit("two", |_| {});
    assert_eq!(desk.object, before);
}

#[test]
fn updates_of_one_manager_add_up_and_move_its_time() {
    let mut desk = Desk::config_map();
    desk.put("one", json!({"data": {"a": "1"}}));
    desk.edit("two", |o| o["data"]["b"] = "2".into());
    desk.edit("one", |o| o["data"]["c"] = "3".into());
    assert_eq!(
        desk.owners(),
        [
            r#"two Update 2s {"f:data":{"f:b":{}}}"#,
            r#"one Update 3s {"f:data":{".":{},"f:a":{},"f:c":{}}}"#,
        ]
    );
}

#[test]
fn removed_fields_lose_all_their_owners() {
    let mut desk = Desk::config_map();
    desk.apply("one", json!({"data": {"a": "1", "b": "1"}}));
    desk.apply("two", json!({"data": {"a": "1"}}));
    desk.edit("three", |o| {
        o["data"].as_object_mut().unwrap().remove("a");
    });
    assert_eq!(desk.owners(), [r#"one Apply 1s {"f:data":{"f:b":{}}}"#]);
}

#[test]
fn clients_that_do_not_send_managed_fields_do_not_lose_them() {
    let mut desk = Desk::config_map();
    desk.apply("one", json!({"data": {"a": "1"}}));
    let before = desk.object.clone();
    desk.put("old-client", json!({"data": {"a": "1"}}));
    assert_eq!(desk.object, before);
}

#[test]
fn an_empty_list_resets_until_the_next_apply() {
    for reset in [json!([]), json!([{}])] {
        let mut desk = Desk::config_map();
        desk.apply("one", json!({"data": {"a": "1"}}));
        desk.edit("two", |o| {
            o["metadata"]["managedFields"] = reset.clone();
            o["data"]["b"] = "2".into();
        });
        assert_eq!(desk.get("/metadata/managedFields"), Value::Null);
        desk.edit("two", |o| o["data"]["c"] = "3".into());
        assert_eq!(desk.get("/metadata/managedFields"), Value::Null);
        desk.apply("one", json!({"data": {"a": "1"}}));
        assert_eq!(
            desk.owners(),
            [
                r#"one Apply - {"f:data":{"f:a":{}}}"#,
                r#"before-first-apply Update 4s {"f:data":{".":{},"f:a":{},"f:b":{},"f:c":{}}}"#,
            ]
        );
    }
}

#[test]
fn invalid_managed_fields_are_ignored() {
    let good = json!({"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}}}});
    let with = |name: &str, value: Value| {
        let mut entry = good.clone();
        entry[name] = value;
        json!([entry])
    };
    for sent in [
        with("operation", json!("Guess")),
        with("apiVersion", json!("")),
        with("fieldsType", json!("FieldsV2")),
        with("fieldsType", json!(null)),
        with("fieldsV1", json!({"nonsense": {}})),
        with("time", json!("yesterday")),
        with("manager", json!(3)),
        json!([4]),
        json!("none"),
        json!(null),
    ] {
        let mut desk = Desk::config_map();
        desk.apply("one", json!({"data": {"a": "1"}}));
        let before = desk.owners();
        desk.edit("two", |o| o["metadata"]["managedFields"] = sent.clone());
        assert_eq!(desk.owners(), before, "{sent}");
    }
}

#[test]
fn valid_managed_fields_are_taken_over() {
    let mut desk = Desk::config_map();
    desk.apply("one", json!({"data": {"a": "1"}}));
    desk.edit("two", |o| o["metadata"]["managedFields"][0]["manager"] = "renamed".into());
    assert_eq!(desk.owners(), [r#"renamed Apply 1s {"f:data":{"f:a":{}}}"#]);
}

#[test]
fn a_subresource_cannot_rewrite_managed_fields() {
    let mut desk = Desk::config_map();
    desk.apply("one", json!({"data": {"a": "1"}}));
    let old = desk.object.clone().unwrap();
    let mut new = old.clone();
    new["metadata"]["managedFields"] = json!([]);
    let manager = Manager { subresource: "status", ..desk.manager("two") };
    record_update(Some(&old), &mut new, &manager, Some(CONFIG_MAP.root()));
    assert_eq!(new, old);
}

#[test]
fn the_oldest_of_many_updaters_become_ancient() {
    let mut desk = Desk::config_map();
    desk.apply("applier", json!({"data": {"z": "0"}}));
    for i in 0..13 {
        desk.edit(&format!("m{i:02}"), |o| o["data"][format!("k{i}")] = "1".into());
    }
    let owners = desk.owners();
    assert_eq!(owners.len(), 11);
    assert_eq!(owners[0], r#"applier Apply 1s {"f:data":{"f:z":{}}}"#);
    assert_eq!(
        owners[1],
        r#"ancient-changes Update 5s {"f:data":{"f:k0":{},"f:k1":{},"f:k2":{},"f:k3":{}}}"#
    );
    assert_eq!(owners[2], r#"m04 Update 6s {"f:data":{"f:k4":{}}}"#);
}

#[test]
fn ancient_changes_are_kept_apart_by_version() {
    let mut desk = Desk::config_map();
    desk.put("creator", json!({"data": {"z": "0"}}));
    for i in 0..12 {
        desk.api_version = if i % 2 == 0 { "v1" } else { "v2" };
        desk.edit(&format!("m{i:02}"), |o| o["data"][format!("k{i}")] = "1".into());
    }
    let entries = desk.get("/metadata/managedFields");
    let entries = entries.as_array().unwrap();
    assert_eq!(entries.len(), 10);
    let ancient: Vec<_> = entries
        .iter()
        .filter(|e| e["manager"] == "ancient-changes")
        .map(|e| e["apiVersion"].clone())
        .collect();
    assert_eq!(ancient, ["v1", "v2"]);
}

#[test]
fn whole_numbers_written_as_fractions_are_no_change() {
    let mut desk = Desk::deployment();
    desk.apply("one", json!({"spec": {"replicas": 1}}));
    let before = desk.owners();
    desk.edit("two", |o| o["spec"]["replicas"] = json!(1.0));
    assert_eq!(desk.owners(), before);
}

#[test]
fn very_deep_values_are_tracked_down_to_a_bound() {
    let deep = (0..110).fold(json!("end"), |inner, _| json!({"a": inner}));
    let mut desk = Desk::deployment();
    desk.schema = None;
    desk.put("one", json!({"spec": deep}));
    // The document must stay readable for a parser with the usual limit.
    let text = desk.object.as_ref().unwrap().to_string();
    assert!(serde_json::from_str::<Value>(&text).is_ok());
    let bottomless = (0..1000).fold(json!({}), |inner, _| json!({"a": inner}));
    desk.put("two", json!({"spec": bottomless}));
    assert!(desk.owners()[0].starts_with("one Update"));
}

#[test]
fn a_flood_of_managers_is_read_and_folded_in_one_pass() {
    let mut desk = Desk::config_map();
    desk.apply("one", json!({"data": {"a": "1"}}));
    let entry = |i: usize| {
        json!({"manager": format!("m{i}"), "operation": "Update", "apiVersion": format!("v{}", i % 2000),
               "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {format!("f:k{i}"): {}}}})
    };
    let flood: Vec<Value> = (0..20_000).map(entry).collect();
    desk.edit("two", |o| {
        o["metadata"]["managedFields"] = flood.into();
        o["data"]["b"] = "2".into();
    });
    // One for each version that anybody claims.
    let entries = desk.get("/metadata/managedFields");
    assert_eq!(entries.as_array().unwrap().len(), 2000);
}
