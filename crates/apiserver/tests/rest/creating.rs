//! Creating objects.

use std::sync::Arc;
use std::time::Duration;

use flagship_store::env::plan::{Effect, Rule, Verbs, When};
use flagship_store::env::{Env, FaultOutcome, FaultPlan, Point};
use serde_json::{Value, json};

use crate::harness::{GADGETS, MAPS, TestServer, gadget, gadget_definition, names, revision};

#[tokio::test]
async fn the_server_owns_identity_and_time() {
    let api = TestServer::new();
    let made = api
        .post(
            MAPS,
            json!({"metadata": {
                "name": "a", "uid": "mine", "creationTimestamp": "2000-01-01T00:00:00Z",
                "deletionTimestamp": "2000-01-01T00:00:00Z", "generation": 7, "selfLink": "/x",
            }}),
        )
        .await
        .ok(201);
    let meta = &made["metadata"];
    assert_eq!(meta["uid"].as_str().map(str::len), Some(36));
    assert_eq!(meta["creationTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(meta["generation"], 7, "a kind that does not count keeps it");
    for absent in ["deletionTimestamp", "selfLink"] {
        assert_eq!(meta[absent], Value::Null, "{absent}");
    }
    assert_eq!(made["apiVersion"], "v1");
    assert_eq!(made["kind"], "ConfigMap");
    assert_eq!(meta["namespace"], "default");
    assert!(revision(&made) > 0);
}

#[tokio::test]
async fn a_name_that_is_taken_is_refused() {
    let api = TestServer::new();
    api.config("a", json!({})).await;
    let body = api.post(MAPS, json!({"metadata": {"name": "a"}})).await.refused(
        409,
        "AlreadyExists",
        "configmaps \"a\" already exists",
    );
    assert_eq!(body["details"], json!({"name": "a", "kind": "configmaps"}));
}

#[tokio::test]
async fn generated_names_end_in_five_letters() {
    let api = TestServer::new();
    let mut seen = Vec::new();
    for _ in 0..20 {
        let made = api.post(MAPS, json!({"metadata": {"generateName": "job-"}})).await.ok(201);
        let name = made["metadata"]["name"].as_str().unwrap().to_owned();
        let tail = name.strip_prefix("job-").unwrap();
        assert_eq!(tail.len(), 5);
        assert!(tail.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)), "{name}");
        assert!(!seen.contains(&name));
        seen.push(name);
    }
}

#[tokio::test]
async fn names_are_checked_by_kind() {
    let api = TestServer::new();
    api.post(MAPS, json!({"metadata": {}})).await.refused(
        422,
        "Invalid",
        "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required",
    );
    let bad = api.post(MAPS, json!({"metadata": {"name": "A_b"}})).await;
    assert_eq!(bad.code, 422);
    assert_eq!(bad.body["details"]["causes"][0]["field"], "metadata.name");
    assert_eq!(bad.body["details"]["causes"][0]["reason"], "FieldValueInvalid");
    // A namespace is a label, a role nearly anything.
    assert_eq!(
        api.post("/api/v1/namespaces", json!({"metadata": {"name": "a.b"}})).await.code,
        422
    );
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    api.post(roles, json!({"metadata": {"name": "system:x"}, "rules": []})).await.ok(201);
}

#[tokio::test]
async fn the_object_must_fit_the_path() {
    let api = TestServer::new();
    let table = [
        (
            json!({"kind": "Secret", "metadata": {"name": "a"}}),
            "Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion",
        ),
        (
            json!({"apiVersion": "v2", "metadata": {"name": "a"}}),
            "the API version in the data (v2) does not match the expected API version (v1)",
        ),
        (json!([]), "the object provided is unrecognized (must be of type ConfigMap)"),
        (
            json!({"metadata": {"name": "a", "namespace": "other"}}),
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ];
    for (body, says) in table {
        api.post(MAPS, body).await.refused(400, "BadRequest", says);
    }
    // A version of what is not there yet is told last, and only where it would be stored.
    let versioned = json!({"metadata": {"name": "a", "resourceVersion": "5"}});
    let says = "resourceVersion should not be set on objects to be created";
    api.post(MAPS, versioned.clone()).await.refused(500, "", says);
    let mut invalid = versioned.clone();
    invalid["metadata"]["name"] = json!("A");
    assert_eq!(api.post(MAPS, invalid).await.code, 422);
    api.post(&format!("{MAPS}?dryRun=All"), versioned).await.ok(201);
    api.post("/api/v1/configmaps", json!({"metadata": {"name": "a"}})).await.refused(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    );
}

#[tokio::test]
async fn metadata_of_the_wrong_type_is_refused() {
    let api = TestServer::new();
    for metadata in [json!(3), json!({"labels": []}), json!({"name": "a", "labels": {"a": 1}})] {
        let reply = api.post(MAPS, json!({"metadata": metadata})).await;
        assert_eq!(reply.code, 400, "{metadata}: {}", reply.body);
    }
    let labels = json!({"name": "a", "labels": {"a b": "c"}, "annotations": {"/": ""}});
    let reply = api.post(MAPS, json!({"metadata": labels})).await;
    assert_eq!(reply.code, 422, "{}", reply.body);
    let owners = json!({"name": "a", "ownerReferences": [{"kind": "X"}]});
    assert_eq!(api.post(MAPS, json!({"metadata": owners})).await.code, 422);
}

#[tokio::test]
async fn a_namespace_must_exist_and_stay() {
    let api = TestServer::new();
    let path = "/api/v1/namespaces/gone/configmaps";
    let body = json!({"metadata": {"name": "a"}});
    api.post(path, body.clone()).await.refused(404, "NotFound", "namespaces \"gone\" not found");
    api.post("/api/v1/namespaces", json!({"metadata": {"name": "gone"}})).await.ok(201);
    api.post(path, body.clone()).await.ok(201);
    let namespace = api.delete("/api/v1/namespaces/gone").await.ok(200);
    assert_eq!(namespace["status"]["phase"], "Terminating");
    let reply = api.post(path, json!({"metadata": {"name": "b"}})).await.refused(
        403,
        "Forbidden",
        "configmaps \"b\" is forbidden: unable to create new content in namespace gone because it is being terminated",
    );
    assert_eq!(
        reply["details"]["causes"],
        json!([{
            "reason": "NamespaceTerminating", "message": "namespace gone is being terminated",
            "field": "metadata.namespace",
        }])
    );
}

#[tokio::test]
async fn a_dry_run_does_everything_but_commit() {
    let api = TestServer::new();
    let before = api.cluster.store().revision();
    let path = format!("{MAPS}?dryRun=All");
    let made = api.post(&path, json!({"metadata": {"name": "a"}})).await.ok(201);
    assert_eq!(made["metadata"]["uid"].as_str().map(str::len), Some(36));
    assert_eq!(made["metadata"]["resourceVersion"], Value::Null);
    assert_eq!(api.cluster.store().revision(), before);
    assert_eq!(api.get(&format!("{MAPS}/a")).await.code, 404);
    api.config("a", json!({})).await;
    assert_eq!(api.post(&path, json!({"metadata": {"name": "a"}})).await.code, 409);
    let deleted = api.delete(&format!("{MAPS}/a?dryRun=All")).await.ok(200);
    assert_eq!(deleted["status"], "Success");
    api.get(&format!("{MAPS}/a")).await.ok(200);
}

#[tokio::test]
async fn unknown_and_duplicate_fields_are_refused_warned_of_or_ignored() {
    let api = TestServer::new();
    api.define(gadget_definition()).await;
    let body = |name: &str| {
        format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{{"name":"{name}"}},"spec":{{"size":1,"size":2,"shape":"round"}}}}"#
        )
    };
    let send = |mode: &'static str, name: &'static str| {
        let path = format!("{GADGETS}?fieldValidation={mode}");
        let body = body(name);
        let api = &api;
        async move { api.send_with("POST", &path, &[], body).await }
    };
    send("Strict", "a").await.refused(
        400,
        "BadRequest",
        "Gadget in version \"v1\" cannot be handled as a Gadget: strict decoding error: duplicate field \"spec.size\", unknown field \"spec.shape\"",
    );
    let warned = send("Warn", "b").await;
    assert_eq!(
        warned.warnings,
        [r#"299 - "duplicate field \"spec.size\"""#, r#"299 - "unknown field \"spec.shape\"""#]
    );
    let made = warned.ok(201);
    assert_eq!(made["spec"], json!({"size": 2, "color": "red"}));
    let ignored = send("Ignore", "c").await;
    assert_eq!(ignored.warnings, [""; 0]);
    assert_eq!(ignored.ok(201)["spec"]["shape"], Value::Null);
}

#[tokio::test]
async fn built_in_kinds_are_decoded_strictly_too() {
    let api = TestServer::new();
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "v"}, "dta": {}});
    api.post(&format!("{MAPS}?fieldValidation=Strict"), body).await.refused(
        400,
        "BadRequest",
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"dta\"",
    );
    // In the order in which they stand there.
    let body = r#"{"zeta":1,"metadata":{"name":"a","labels":{},"labels":{}},"alpha":1}"#;
    let path = format!("{MAPS}?fieldValidation=Strict");
    api.send_with("POST", &path, &[], body.to_owned()).await.refused(
        400,
        "BadRequest",
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"zeta\", duplicate field \"metadata.labels\", unknown field \"alpha\"",
    );
    let reply = api.post(MAPS, json!({"metadata": {"name": "a"}, "data": {"k": 1}})).await;
    assert_eq!(reply.code, 400);
    assert_eq!(
        reply.body["message"],
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
    );
}

#[tokio::test]
async fn custom_resources_are_defaulted_pruned_and_validated() {
    let api = TestServer::new();
    api.define(gadget_definition()).await;
    let mut object = gadget("a", 3);
    object["status"] = json!({"ready": true});
    let made = api.post(GADGETS, object).await.ok(201);
    assert_eq!(made["spec"], json!({"size": 3, "color": "red"}));
    assert_eq!(made["status"], Value::Null, "the main path ignores status");
    assert_eq!(made["metadata"]["generation"], 1);

    let bad = json!({
        "apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "b"},
        "spec": {"size": -1, "color": "green"},
    });
    let reply = api.post(GADGETS, bad).await;
    assert_eq!(reply.code, 422);
    assert_eq!(reply.body["reason"], "Invalid");
    let causes = reply.body["details"]["causes"].as_array().unwrap();
    let fields: Vec<&str> = causes.iter().map(|c| c["field"].as_str().unwrap()).collect();
    // The last says that rules were not even asked.
    assert_eq!(fields, ["spec.color", "spec.size", "<nil>"]);

    let untyped = json!({"metadata": {"name": "c"}, "spec": {"size": 1}});
    assert_eq!(api.post(GADGETS, untyped).await.code, 400);
}

#[tokio::test(start_paused = true)]
async fn services_never_share_an_address_even_when_they_race() {
    let env = Env::simulated(3);
    let slow = Rule {
        point: Point::PreCommit,
        who: String::new(),
        cluster: String::new(),
        resource: "services".to_owned(),
        verbs: Verbs::Writes,
        when: When::Always,
        window: None,
        effect: Effect::Do(FaultOutcome::Delay(Duration::from_millis(5))),
    };
    let plan = FaultPlan::new(1, env.clock.clone(), vec![slow]);
    let api = TestServer::in_env(env.with_faults(Arc::new(plan)));
    let local = api.cluster.local("x");
    let service = |name: String| {
        let spec = json!({"type": "NodePort", "ports": [{"port": 80}], "selector": {"a": "b"}});
        local.create("services", "default", json!({"metadata": {"name": name}, "spec": spec}))
    };
    let made = futures::future::join_all((0..5).map(|n| service(format!("s{n}")))).await;
    let made: Vec<Value> = made.into_iter().map(Result::unwrap).collect();
    for part in ["/spec/clusterIP", "/spec/ports/0/nodePort"] {
        let mut values: Vec<String> =
            made.iter().map(|service| service.pointer(part).unwrap().to_string()).collect();
        values.sort();
        values.dedup();
        assert_eq!(values.len(), 5, "{part}: {values:?}");
    }
}

#[tokio::test]
async fn a_generated_name_that_is_taken_is_drawn_again() {
    let draw = json!({"metadata": {"generateName": "web-"}});
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    let api = TestServer::new();
    api.config("first", json!({})).await;
    let drawn = name(&api.post(MAPS, draw.clone()).await.ok(201));
    // The same server again, where the name that will be drawn is taken.
    let api = TestServer::new();
    api.config(&drawn, json!({})).await;
    let other = name(&api.post(MAPS, draw).await.ok(201));
    assert!(other.starts_with("web-") && other != drawn, "{other}");
}

#[tokio::test]
async fn a_namespace_on_an_object_that_has_none_is_dropped() {
    let api = TestServer::new();
    let role = json!({"metadata": {"name": "r", "namespace": "default"}, "rules": []});
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let mut made = api.post(roles, role).await.ok(201);
    assert_eq!(made["metadata"]["namespace"], Value::Null);
    made["metadata"]["namespace"] = json!("default");
    made["metadata"]["labels"] = json!({"a": "b"});
    let now = api.put(&format!("{roles}/r"), made).await.ok(200);
    assert_eq!(now["metadata"]["namespace"], Value::Null);
}

#[tokio::test]
async fn every_cluster_begins_with_its_namespaces_and_its_own_service() {
    let api = TestServer::new();
    let all = api.get("/api/v1/namespaces").await.ok(200);
    assert_eq!(names(&all), ["default", "kube-node-lease", "kube-public", "kube-system"]);
    let service = api.get("/api/v1/namespaces/default/services/kubernetes").await.ok(200);
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
    assert_eq!(service["spec"]["type"], "ClusterIP");
    let port = json!({"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443});
    assert_eq!(service["spec"]["ports"], json!([port]));
    assert_eq!(
        service["metadata"]["labels"],
        json!({"component": "apiserver", "provider": "kubernetes"})
    );
}

#[tokio::test]
async fn flow_control_and_device_claims_are_kept() {
    let api = TestServer::new();
    let (flow, devices) = ("/apis/flowcontrol.apiserver.k8s.io/v1", "/apis/resource.k8s.io/v1");
    let schema = json!({"metadata": {"name": "mine"},
        "spec": {"priorityLevelConfiguration": {"name": "low"}}});
    let made = api.post(&format!("{flow}/flowschemas"), schema).await.ok(201);
    assert_eq!(made["spec"]["matchingPrecedence"], 1000);
    let level = json!({"metadata": {"name": "low"},
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}});
    let made = api.post(&format!("{flow}/prioritylevelconfigurations"), level).await.ok(201);
    assert_eq!(made["spec"]["limited"]["nominalConcurrencyShares"], 30);
    let class = json!({"metadata": {"name": "gpu"}, "spec": {}});
    api.post(&format!("{devices}/deviceclasses"), class).await.ok(201);
    let requests = json!([{"name": "one", "exactly": {"deviceClassName": "gpu"}}]);
    let claim = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}});
    let claims = format!("{devices}/namespaces/default/resourceclaims");
    api.post(&claims, claim).await.ok(201);
    let kept = api.get(&format!("{claims}/c")).await.ok(200);
    assert_eq!(kept["spec"]["devices"]["requests"][0]["exactly"]["count"], 1);
}

#[tokio::test]
async fn the_status_of_a_policy_is_filled_in_by_the_server() {
    let api = TestServer::new();
    let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let rules = json!([{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["deployments"]}]);
    let policy = |expression: &str| {
        json!({"metadata": {"name": "small"}, "spec": {"matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": expression}]}})
    };
    api.post(path, policy("object.spec.replica <= 5")).await.ok(201);
    let made = api.get(&format!("{path}/small")).await.ok(200);
    assert_eq!(made["status"]["observedGeneration"], 1);
    let warnings = &made["status"]["typeChecking"]["expressionWarnings"];
    let says = warnings[0]["warning"].as_str().unwrap_or_default();
    assert!(says.contains("undefined field 'replica'"), "{made:#}");
    let mended = json!({"spec": policy("object.spec.replicas <= 5")["spec"]});
    api.patch("merge", &format!("{path}/small"), mended).await.ok(200);
    let made = api.get(&format!("{path}/small")).await.ok(200);
    assert_eq!(made["status"], json!({"observedGeneration": 2}));
}
