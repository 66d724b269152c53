//! Admission policies over the wire.

use serde_json::{Value, json};

use crate::client::{Reply, TestServer};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Writes a policy about ConfigMaps and its binding in place of those before.
async fn govern(api: &TestServer, policy: Value, binding: Value) {
    let rules = json!([{"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]);
    let mut spec = json!({"matchConstraints": {"resourceRules": rules}});
    let mut bound = json!({"policyName": "pol", "validationActions": ["Deny"]});
    for (target, more) in [(&mut spec, policy), (&mut bound, binding)] {
        for (key, value) in more.as_object().unwrap() {
            target[key] = value.clone();
        }
    }
    for (plural, name, spec) in [
        ("validatingadmissionpolicies", "pol", spec),
        ("validatingadmissionpolicybindings", "bind", bound),
    ] {
        let path = format!("{GROUP}/{plural}");
        api.call_with(&[], "DELETE", &format!("{path}/{name}"), Value::Null).await;
        api.make(&path, json!({"metadata": {"name": name}, "spec": spec})).await;
    }
}

fn rule(expression: &str) -> Value {
    json!({"validations": [{"expression": expression}]})
}

async fn create(api: &TestServer) -> Reply {
    let map = json!({"metadata": {"name": "probe"}, "data": {"a": "b"}});
    api.call_with(&[], "POST", &format!("{MAPS}?dryRun=All"), map).await
}

const DENIED: &str = "configmaps \"probe\" is forbidden: ValidatingAdmissionPolicy 'pol' with binding 'bind' denied request: ";

#[tokio::test]
async fn a_bound_policy_refuses_in_kubernetes_words() {
    let api = TestServer::new().await;
    let with = |more: Value| json!({"validations": [more]});
    let table = [
        (rule("object.data.a == \"c\""), 422, "failed expression: object.data.a == \"c\""),
        (
            with(
                json!({"expression": "object.data.a == 'c'", "message": "must be c", "reason": "Forbidden"}),
            ),
            403,
            "must be c",
        ),
        (
            with(
                json!({"expression": "object.data.a == 'c'", "messageExpression": "'is ' + object.data.a"}),
            ),
            422,
            "is b",
        ),
        (
            with(
                json!({"expression": "object.data.a == 'c'", "message": "fallback", "messageExpression": "'is ' + object.data.zz"}),
            ),
            422,
            "fallback",
        ),
        (
            rule("object.data.zz == \"c\""),
            422,
            "expression 'object.data.zz == \"c\"' resulted in error: no such key: zz",
        ),
        (
            json!({"variables": [{"name": "v", "expression": "object.data.a"}], "validations": [{"expression": "variables.v == 'c'", "message": "m"}]}),
            422,
            "m",
        ),
        (
            json!({"matchConditions": [{"name": "m", "expression": "request.operation == 'CREATE' && namespaceObject.metadata.name == 'default'"}], "validations": [{"expression": "false", "message": "m"}]}),
            422,
            "m",
        ),
        (
            json!({"validations": [{"expression": "!authorizer.group('').resource('pods').namespace('default').check('create').allowed()", "message": "m"}]}),
            422,
            "m",
        ),
    ];
    for (policy, code, says) in table {
        govern(&api, policy.clone(), json!({})).await;
        assert_eq!(create(&api).await.refusal(), (code, format!("{DENIED}{says}")), "{policy}");
    }
    let open = [
        rule("object.data.a == 'b'"),
        json!({"matchConditions": [{"name": "m", "expression": "request.userInfo.username == 'bob'"}], "validations": [{"expression": "false"}]}),
        json!({"failurePolicy": "Ignore", "validations": [{"expression": "object.data.zz == 'c'"}]}),
        json!({"matchConstraints": {"resourceRules": [{"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["*"], "resources": ["*"]}]}, "validations": [{"expression": "false"}]}),
    ];
    for policy in open {
        govern(&api, policy.clone(), json!({})).await;
        assert_eq!(create(&api).await.code, 201, "{policy}");
    }
}

#[tokio::test]
async fn what_cannot_be_noted_for_an_audit_is_refused() {
    let api = TestServer::new().await;
    let note = |value: &str| json!({"auditAnnotations": [{"key": "k", "valueExpression": value}]});
    let table = [
        ("'a is ' + object.data.a", None),
        ("has(object.data.zz) ? object.data.zz : null", None),
        ("object.data.zz", Some("expression 'object.data.zz' resulted in error: no such key: zz")),
        (
            "object.data",
            Some(
                "valueExpression 'object.data' resulted in unsupported return type: map. Return type must be either string or null.",
            ),
        ),
    ];
    for (value, says) in table {
        // Even where broken rules are only noted.
        govern(&api, note(value), json!({"validationActions": ["Audit"]})).await;
        let answer = create(&api).await;
        match says {
            None => assert_eq!(answer.code, 201, "{value}"),
            Some(says) => assert_eq!(answer.refusal(), (422, format!("{DENIED}{says}")), "{value}"),
        }
    }
    let mut lenient = note("object.data.zz");
    lenient["failurePolicy"] = json!("Ignore");
    govern(&api, lenient, json!({})).await;
    assert_eq!(create(&api).await.code, 201);
    let rules = json!([{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]);
    let spec = json!({"matchConstraints": {"resourceRules": rules}, "auditAnnotations": [
        {"key": "a b", "valueExpression": "'x'"}, {"key": "c", "valueExpression": " "},
        {"key": "c", "valueExpression": "1 + 1"},
    ]});
    let policy = json!({"metadata": {"name": "notes"}, "spec": spec});
    let path = format!("{GROUP}/validatingadmissionpolicies");
    let (code, says) = api.call_with(&[], "POST", &path, policy).await.refusal();
    assert_eq!(code, 422);
    for words in [
        "spec.auditAnnotations[0].key: Invalid value: \"notes/a b\": name part must consist of",
        "spec.auditAnnotations[1].valueExpression: Required value: valueExpression is not specified",
        "spec.auditAnnotations[2].key: Duplicate value: \"c\"",
        "spec.auditAnnotations[2].valueExpression: Invalid value: \"1 + 1\": must evaluate to one of [string null_type] but got int",
    ] {
        assert!(says.contains(words), "{words}\n{says}");
    }
}

#[tokio::test]
async fn a_binding_says_where_and_how_hard() {
    let api = TestServer::new().await;
    let never = || json!({"validations": [{"expression": "false", "message": "m"}]});
    govern(&api, never(), json!({"validationActions": ["Warn", "Audit"]})).await;
    assert_eq!(create(&api).await.code, 201);
    let elsewhere = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}});
    govern(&api, never(), json!({"matchResources": elsewhere})).await;
    assert_eq!(create(&api).await.code, 201);
    let except = json!({"excludeResourceRules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "resourceNames": ["probe"]}]});
    govern(&api, never(), json!({"matchResources": except})).await;
    assert_eq!(create(&api).await.code, 201);
    govern(&api, never(), json!({})).await;
    assert_eq!(create(&api).await.code, 422);
    let path = format!("{GROUP}/validatingadmissionpolicybindings/bind");
    api.call_with(&[], "DELETE", &path, Value::Null).await;
    assert_eq!(create(&api).await.code, 201, "a policy without a binding says nothing");
}

#[tokio::test]
async fn parameters_come_from_objects_of_any_kind() {
    let api = TestServer::new().await;
    let crd = json!({
        "metadata": {"name": "limits.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"kind": "Limit", "plural": "limits"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"wants": {"type": "string"}}}}}],
        },
    });
    api.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await;
    let limit = json!({"apiVersion": "example.com/v1", "kind": "Limit", "metadata": {"name": "l", "labels": {"on": "yes"}}, "wants": "c"});
    api.make("/apis/example.com/v1/limits", limit).await;
    let settings = json!({"metadata": {"name": "settings"}, "data": {"wants": "c"}});
    api.make(MAPS, settings).await;
    let policy = |kind: Value, field: &str| json!({"paramKind": kind, "validations": [{"expression": format!("object.data.a == {field}"), "messageExpression": format!("'wants ' + {field}")}]});
    let maps = || policy(json!({"apiVersion": "v1", "kind": "ConfigMap"}), "params.data.wants");
    let limits =
        || policy(json!({"apiVersion": "example.com/v1", "kind": "Limit"}), "params.wants");
    let named = |name: &str, missing: &str| json!({"paramRef": {"name": name, "parameterNotFoundAction": missing}});
    let nothing = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    let table = [
        (maps(), named("settings", "Deny"), Some("wants c")),
        (maps(), named("none", "Deny"), Some(nothing)),
        (maps(), named("none", "Allow"), None),
        (limits(), named("l", "Deny"), Some("wants c")),
        (
            limits(),
            json!({"paramRef": {"selector": {"matchLabels": {"on": "yes"}}, "parameterNotFoundAction": "Deny"}}),
            Some("wants c"),
        ),
        (
            limits(),
            json!({"paramRef": {"selector": {"matchLabels": {"on": "no"}}, "parameterNotFoundAction": "Allow"}}),
            None,
        ),
    ];
    for (policy, binding, want) in table {
        govern(&api, policy, binding.clone()).await;
        let reply = create(&api).await;
        match want {
            Some(says) => assert_eq!(reply.refusal().1, format!("{DENIED}{says}"), "{binding}"),
            None => assert_eq!(reply.code, 201, "{binding}"),
        }
    }
}

#[tokio::test]
async fn a_policy_that_cannot_run_is_refused_when_it_is_written() {
    let api = TestServer::new().await;
    let write = async |expression: &str| {
        let rules = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]);
        let spec = json!({"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": expression}]});
        let policy = json!({"metadata": {"name": "p"}, "spec": spec});
        api.call_with(&[], "POST", &format!("{GROUP}/validatingadmissionpolicies"), policy)
            .await
            .refusal()
    };
    assert_eq!(
        write("nosuch == 1").await,
        (422, "ValidatingAdmissionPolicy.admissionregistration.k8s.io \"p\" is invalid: spec.validations[0].expression: Invalid value: \"nosuch == 1\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'nosuch' (in container '')\n | nosuch == 1\n | ^".to_owned())
    );
    assert!(write("object.data.a ==").await.1.contains("compilation failed"));
    assert!(write("1 + 1").await.1.ends_with("must evaluate to bool but got int"));
}

#[tokio::test]
async fn a_policy_says_who_may_get_into_pods() {
    let api = TestServer::new().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    api.make("/api/v1/namespaces/default/pods", pod).await;
    let path = "/api/v1/namespaces/default/pods/p/exec?command=sh&container=c";
    let honest = "containers are simulated here: exec is not possible".to_owned();
    let ask =
        async |headers: &[&str]| api.call_with(headers, "POST", path, Value::Null).await.refusal();
    assert_eq!(ask(&[]).await, (501, honest.clone()));
    let rules = json!([{"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/exec", "pods/attach"]}]);
    let policy = json!({
        "matchConstraints": {"resourceRules": rules},
        "validations": [{
            "expression": "request.userInfo.username != 'admin' || object.command != ['sh']",
            "messageExpression": "'no shell in ' + request.name", "reason": "Forbidden",
        }],
    });
    govern(&api, policy, json!({})).await;
    let denied = "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'pol' with binding 'bind' denied request: no shell in p";
    assert_eq!(ask(&[]).await, (403, denied.to_owned()));
    // Rights come first, and then whether there is such a pod.
    let (code, says) = ask(&["Impersonate-User: eve"]).await;
    assert_eq!(code, 403);
    assert_eq!(
        says,
        "pods \"p\" is forbidden: User \"eve\" cannot create resource \"pods/exec\" in API group \"\" in the namespace \"default\""
    );
    let other = path.replace("command=sh", "command=ls");
    assert_eq!(api.call_with(&[], "POST", &other, Value::Null).await.refusal(), (501, honest));
    let gone = path.replace("pods/p", "pods/q");
    let gone = api.call_with(&[], "POST", &gone, Value::Null).await;
    assert!(gone.refusal().1.contains("no shell in q"), "{gone:?}");
}
