//! Selectors in lists and watches.

use serde_json::json;

use crate::harness::{GADGETS, MAPS, TestServer, gadget, gadget_definition, names};

#[tokio::test]
async fn labels_select() {
    let api = TestServer::new();
    api.config("a", json!({"app": "web", "tier": "front"})).await;
    api.config("b", json!({"app": "db"})).await;
    api.config("c", json!({})).await;
    let table = [
        ("app=web", vec!["a"]),
        ("app==web", vec!["a"]),
        ("app!=web", vec!["b", "c"]),
        ("app in (web,db)", vec!["a", "b"]),
        ("app notin (web)", vec!["b", "c"]),
        ("tier", vec!["a"]),
        ("!tier", vec!["b", "c"]),
        ("app,!tier", vec!["b"]),
    ];
    for (selector, want) in table {
        let query = selector.replace(' ', "%20").replace('=', "%3D").replace(',', "%2C");
        let list = api.get(&format!("{MAPS}?labelSelector={query}")).await.ok(200);
        assert_eq!(names(&list), want, "{selector}");
    }
    api.get(&format!("{MAPS}?labelSelector=a%20b")).await.refused(
        400,
        "BadRequest",
        "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
    );
}

#[tokio::test]
async fn fields_select_what_the_kind_allows() {
    let api = TestServer::new();
    api.config("a", json!({})).await;
    api.config("b", json!({})).await;
    let named = api.get(&format!("{MAPS}?fieldSelector=metadata.name%3Da")).await.ok(200);
    assert_eq!(names(&named), ["a"]);
    let across = "/api/v1/configmaps?fieldSelector=metadata.namespace%3Ddefault,metadata.name!%3Da";
    assert_eq!(names(&api.get(across).await.ok(200)), ["b"]);
    api.get(&format!("{MAPS}?fieldSelector=data.k%3Dv")).await.refused(
        400,
        "BadRequest",
        "\"data.k\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
    );
    let phases = "/api/v1/namespaces?fieldSelector=status.phase%3DActive";
    assert_eq!(names(&api.get(phases).await.ok(200)).len(), 4);
    let secret = json!({"metadata": {"name": "s"}, "type": "example.com/x"});
    api.post("/api/v1/namespaces/default/secrets", secret).await.ok(201);
    let typed = "/api/v1/secrets?fieldSelector=type%3Dexample.com/x";
    assert_eq!(names(&api.get(typed).await.ok(200)), ["s"]);
}

#[tokio::test]
async fn events_of_either_group_are_selected_in_its_own_words() {
    let api = TestServer::new();
    let event = |name: &str, kind: &str| {
        json!({
            "metadata": {"name": name}, "reason": "Told", "type": "Normal",
            "involvedObject": {"kind": kind, "namespace": "default", "name": "x"},
            "reportingComponent": "robot",
        })
    };
    let core = "/api/v1/namespaces/default/events";
    for (name, kind) in [("a", "Pod"), ("b", "Node")] {
        api.post(core, event(name, kind)).await.ok(201);
    }
    let newer = "/apis/events.k8s.io/v1/namespaces/default/events";
    let elsewhere = json!({
        "metadata": {"name": "c", "namespace": "kube-public"}, "reason": "Elsewhere",
        "regarding": {"kind": "Pod", "namespace": "kube-public", "name": "x"},
        "reportingController": "other", "reportingInstance": "other-1", "action": "Testing",
        "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z",
    });
    let public = newer.replace("default", "kube-public");
    api.post(&public, elsewhere).await.ok(201);
    let misplaced = json!({
        "metadata": {"name": "d"}, "regarding": {"kind": "Pod", "namespace": "kube-public"},
    });
    assert_eq!(api.post(newer, misplaced).await.code, 422);
    let table = [
        (core, "involvedObject.kind", "Pod", Some(vec!["a"])),
        (core, "reportingComponent", "robot", Some(vec!["a", "b"])),
        (newer, "regarding.kind", "Pod", Some(vec!["a"])),
        (newer, "reportingController", "robot", Some(vec!["a", "b"])),
        (newer, "reason", "Told", Some(vec!["a", "b"])),
        (newer, "metadata.name", "b", Some(vec!["b"])),
        (core, "regarding.kind", "Pod", None),
        (newer, "involvedObject.kind", "Pod", None),
        (newer, "source", "robot", None),
        (newer, "regarding.colour", "red", None),
    ];
    for (path, label, value, want) in table {
        let answer = api.get(&format!("{path}?fieldSelector={label}%3D{value}")).await;
        match want {
            Some(want) => assert_eq!(names(&answer.ok(200)), want, "{label}"),
            None => assert_eq!(answer.code, 400, "{label}"),
        }
    }
}

#[tokio::test]
async fn a_definition_names_its_own_fields() {
    let api = TestServer::new();
    api.define(gadget_definition()).await;
    api.post(GADGETS, gadget("red", 1)).await.ok(201);
    let mut blue = gadget("blue", 1);
    blue["spec"]["color"] = json!("blue");
    api.post(GADGETS, blue).await.ok(201);
    let list = api.get(&format!("{GADGETS}?fieldSelector=spec.color%3Dblue")).await.ok(200);
    assert_eq!(names(&list), ["blue"]);
    assert_eq!(api.get(&format!("{GADGETS}?fieldSelector=spec.size%3D1")).await.code, 400);
}
