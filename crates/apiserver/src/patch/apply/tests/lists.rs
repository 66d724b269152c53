use super::*;

fn containers(list: Value) -> Value {
    json!({"spec": {"template": {"spec": {"containers": list}}}})
}

const CONTAINERS: &str = "/spec/template/spec/containers";

#[test]
fn containers_of_two_managers_live_side_by_side() {
    let mut desk = Desk::deployment();
    desk.apply("app", containers(json!([{"name": "web", "image": "nginx"}])));
    desk.apply("mesh", containers(json!([{"name": "proxy", "image": "envoy"}])));
    assert_eq!(
        desk.get(CONTAINERS),
        json!([{"name": "web", "image": "nginx"}, {"name": "proxy", "image": "envoy"}])
    );
    assert_eq!(
        desk.owners()[0],
        r#"app Apply 1s {"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{},"f:name":{}}}}}}}"#
    );
    desk.apply("app", containers(json!([])));
    assert_eq!(desk.get(CONTAINERS), json!([{"name": "proxy", "image": "envoy"}]));
}

#[test]
fn a_conflict_inside_a_list_names_the_element() {
    let mut desk = Desk::deployment();
    desk.apply("app", containers(json!([{"name": "web", "image": "nginx:1"}])));
    assert_eq!(
        desk.conflict("ci", containers(json!([{"name": "web", "image": "nginx:2"}]))),
        "Apply failed with 1 conflict: conflict with \"app\": .spec.template.spec.containers[name=\"web\"].image"
    );
}

#[test]
fn a_default_stands_in_for_a_missing_key() {
    let mut desk = Desk::deployment();
    let port = |port: Value| containers(json!([{"name": "web", "ports": [port]}]));
    desk.apply("one", port(json!({"containerPort": 80})));
    // The server fills in the default; the key does not change by it.
    desk.object.as_mut().unwrap()["spec"]["template"]["spec"]["containers"][0]["ports"][0]["protocol"] =
        "TCP".into();
    desk.apply("two", port(json!({"containerPort": 80, "protocol": "UDP"})));
    let ports = desk.get("/spec/template/spec/containers/0/ports");
    assert_eq!(
        ports,
        json!([{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}])
    );
    assert!(desk.owners()[0].contains(r#"k:{\"containerPort\":80,\"protocol\":\"TCP\"}"#));
    desk.apply("one", containers(json!([{"name": "web"}])));
    let ports = desk.get("/spec/template/spec/containers/0/ports");
    assert_eq!(ports, json!([{"containerPort": 80, "protocol": "UDP"}]));
}

#[test]
fn applied_elements_keep_their_order_and_others_their_place() {
    let names = |list: &[&str]| containers(list.iter().map(|n| json!({"name": n})).collect());
    let cases: &[(&[&str], &[&str], &[&str])] = &[
        (&["a", "b"], &["b", "a"], &["b", "a"]),
        (&["x"], &["n"], &["x", "n"]),
        (&["x", "a"], &["n", "a"], &["x", "n", "a"]),
        (&["a", "x", "b"], &["n", "a", "b"], &["n", "a", "x", "b"]),
        (&["a", "b", "x"], &["b", "a"], &["b", "x", "a"]),
        (&["a", "b", "c"], &["c", "a"], &["b", "c", "a"]),
        (&["a", "b", "c"], &["a", "n", "c"], &["a", "b", "n", "c"]),
    ];
    for (live, applied, result) in cases {
        let mut desk = Desk::deployment();
        desk.put("creator", names(live));
        desk.apply("one", names(applied));
        let got = desk.get(CONTAINERS);
        let got: Vec<_> =
            got.as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
        assert_eq!(got, *result, "{live:?} {applied:?}");
    }
}

#[test]
fn reordering_a_keyed_list_changes_no_owner() {
    let mut desk = Desk::deployment();
    desk.apply("one", containers(json!([{"name": "a"}, {"name": "b"}])));
    let before = desk.owners();
    desk.edit("two", |o| {
        o["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap().reverse();
    });
    assert_eq!(desk.owners(), before);
}

#[test]
fn an_element_goes_with_its_owner_even_if_others_own_fields_in_it() {
    let mut desk = Desk::deployment();
    desk.apply("one", containers(json!([{"name": "a", "image": "x"}, {"name": "b"}])));
    desk.edit("two", |o| {
        o["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Always".into();
    });
    desk.apply("one", containers(json!([{"name": "b"}])));
    assert_eq!(desk.get(CONTAINERS), json!([{"name": "b"}]));
    assert_eq!(desk.owners().len(), 1);
}

#[test]
fn sets_are_merged_by_value() {
    let mut desk = Desk::deployment();
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    desk.apply("one", finalizers(json!(["a/x", "a/y"])));
    desk.apply("two", finalizers(json!(["b/z", "a/y"])));
    assert_eq!(desk.get("/metadata/finalizers"), json!(["a/x", "b/z", "a/y"]));
    assert_eq!(
        desk.owners()[1],
        r#"two Apply 2s {"f:metadata":{"f:finalizers":{"v:\"a/y\"":{},"v:\"b/z\"":{}}}}"#
    );
    desk.apply("one", finalizers(json!([])));
    assert_eq!(desk.get("/metadata/finalizers"), json!(["b/z", "a/y"]));
}

#[test]
fn atomic_lists_are_owned_as_a_whole() {
    let mut desk = Desk::deployment();
    let tolerations =
        |key: &str| json!({"spec": {"template": {"spec": {"tolerations": [{"key": key}]}}}});
    desk.apply("one", tolerations("a"));
    assert_eq!(
        desk.conflict("two", tolerations("b")),
        "Apply failed with 1 conflict: conflict with \"one\": .spec.template.spec.tolerations"
    );
}

#[test]
fn duplicates_in_a_live_list_do_no_harm() {
    let mut desk = Desk::deployment();
    desk.put(
        "creator",
        containers(
            json!([{"name": "a", "image": "1"}, {"name": "a", "image": "2"}, {"image": "3"}, 4]),
        ),
    );
    desk.apply("one", containers(json!([{"name": "b"}])));
    assert_eq!(
        desk.get(CONTAINERS),
        json!([{"name": "a", "image": "1"}, {"name": "a", "image": "2"}, {"image": "3"}, 4, {"name": "b"}])
    );
    desk.edit("two", |o| o["spec"]["template"]["spec"]["containers"][1]["image"] = "9".into());
    let two = desk.owners().into_iter().find(|line| line.starts_with("two")).unwrap();
    assert!(two.ends_with(r#"{"f:containers":{"k:{\"name\":\"a\"}":{}}}}}}"#), "{two}");
}
