//! What the API takes and refuses of policies and freezes, and in which words.

use flagship_apiserver::rest::Local;
use serde_json::{Value, json};

use flagship_sim::testing::TestHub;

pub async fn made(user: &Local, resource: &str, name: &str, spec: Value) -> Result<Value, String> {
    let info = flagship_api::kinds::find(resource).expect("a kind of the table");
    let object = json!({"apiVersion": "flagship.dev/v1alpha1", "kind": info.kind,
        "metadata": {"name": name}, "spec": spec});
    user.create(&info.crd_name(), "", object).await.map_err(|error| error.message)
}

#[tokio::test(start_paused = true)]
async fn policies_that_cannot_be_meant_are_refused_with_what_would_be_right() {
    let hub = TestHub::new(1).await;
    let whole = json!({
        "selects": {"strategies": {"matchLabels": {"tier": "production"}}},
        "clusters": {"membership": "Frozen", "unmatched": "Skip", "unreachable": "Skip",
            "unreachableAfter": "3m", "overtaken": "Fail", "order": "Diverse"},
        "failure": {"progressDeadline": "10m", "finalCauses": "Fail",
            "budget": {"run": "2%", "stage": 1}, "then": "Stop", "retries": 1,
            "retryAfter": "1m"},
        "checks": [{"name": "errors", "after": "Stage", "for": "5m", "interval": "10s",
            "prometheus": {"secretRef": {"name": "p", "key": "url"},
                "caBundle": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==",
                "credentials": {"name": "p", "key": "token"},
                "query": "rate(e{c=\"{{cluster}}\",s=\"{{stage}}\",r=\"{{run}}\"}[5m])"},
            "pass": {"below": 0.01, "above": -1.0, "notWorseThan": "Rest", "by": "10%",
                "worse": "Lower"}},
            {"name": "smoke", "after": "Cluster", "job": {"namespace": "web", "timeout": "90s",
                "template": {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
                    "spec": {"backoffLimit": 2, "template": {"spec": {"restartPolicy": "Never",
                        "containers": [{"name": "probe", "image": "probe:1"}]}}}}}}],
    });
    let job = |more: Value| {
        let mut job = json!({"namespace": "web", "template": {"spec": {}}});
        for (key, value) in more.as_object().expect("an object") {
            job[key] = value.clone();
        }
        json!({"checks": [{"name": "smoke", "after": "Stage", "job": job}]})
    };
    let checks = |more: Value| {
        let mut check = json!({"name": "errors", "after": "Stage", "pass": {"below": 1.5},
            "prometheus": {"url": "http://p:9090", "query": "up{c=\"{{cluster}}\"}"}});
        for (key, value) in more.as_object().expect("an object") {
            check[key] = value.clone();
        }
        check.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
        json!({"checks": [check]})
    };
    let asks = |url: &str, query: &str| checks(json!({"prometheus": {"url": url, "query": query}}));
    made(&hub.user, "rpol", "check", checks(json!({}))).await.unwrap();
    let stored = made(&hub.user, "rpol", "whole", whole.clone()).await.unwrap();
    assert_eq!(stored["spec"], whole);
    made(&hub.user, "rpol", "empty", json!({})).await.unwrap();
    let table = [
        (json!({"clusters": {"membership": "Keep"}}), "supported values: \"Fail\", \"Frozen\""),
        (json!({"clusters": {"unreachableAfter": "3m"}}), "set unreachable to Skip or Fail"),
        (
            json!({"clusters": {"unreachable": "Skip", "unreachableAfter": "soon"}}),
            "must be a time longer than 0, such as 90s, 10m or 1h30m",
        ),
        (
            json!({"failure": {"progressDeadline": "0s"}}),
            "must be a time longer than 0, such as 90s, 10m or 1h30m",
        ),
        (
            json!({"failure": {"budget": {"run": "few"}}}),
            "must be a number of clusters, 0 or more, or a percentage of them, such as 2%",
        ),
        (
            json!({"failure": {"budget": {"stage": -1}}}),
            "must be a number of clusters, 0 or more, or a percentage of them, such as 2%",
        ),
        (json!({"failure": {"retryAfter": "1m"}}), "set retries to 1 or more"),
        (json!({"failure": {"retries": 1}}), "set progressDeadline, or finalCauses to Fail"),
        (
            json!({"failure": {"then": "Panic"}}),
            "supported values: \"Stop\", \"Rollback\", \"Continue\"",
        ),
        (
            json!({"selects": {"stages": ["prod*"]}, "clusters": {"membership": "Frozen"}}),
            "leave selects.stages out, or set them in a policy of their own",
        ),
        (
            json!({"selects": {"stages": ["prod*"]}, "failure": {"budget": {"run": 1}}}),
            "leave selects.stages out, or set failure.budget.stage",
        ),
        (json!({"selects": {"stages": ["Prod!"]}}), "such as prod*"),
        (checks(json!({"name": "Errors"})), "such as error-rate"),
        (checks(json!({"after": "Run"})), "supported values: \"Cluster\", \"Stage\""),
        (checks(json!({"pass": {}})), "set below, above or notWorseThan"),
        (checks(json!({"pass": null})), "pass says what a Prometheus must answer"),
        (checks(json!({"prometheus": null})), "say how it is checked, once"),
        (
            checks(json!({"job": {"namespace": "web", "template": {"spec": {}}}})),
            "say how it is checked, once",
        ),
        (
            checks(json!({"prometheus": null, "pass": null, "for": "5m",
                "job": {"namespace": "web", "template": {"spec": {}}}})),
            "a Job is run once: leave out for and interval",
        ),
        (job(json!({"namespace": "kube-system"})), "are not for Jobs of checks"),
        (job(json!({"namespace": "Web!"})), "must be the name of a namespace, such as web"),
        (job(json!({"timeout": "2d"})), "must be a time between 1s and 24h"),
        (job(json!({"timeout": "25h"})), "must be a time between 1s and 24h"),
        (job(json!({"template": {}})), "spec: Required value"),
        (checks(json!({"pass": {"below": 1, "above": 1}})), "set above to less than below"),
        (checks(json!({"pass": {"below": 1, "by": "10%"}})), "set notWorseThan to Rest"),
        (checks(json!({"pass": {"notWorseThan": "Rest", "by": "some"}})), "such as 10%"),
        (checks(json!({"interval": "10ms"})), "must be a time between 1s and 1h"),
        (checks(json!({"for": "soon"})), "such as 90s, 10m or 1h30m"),
        (
            checks(json!({"prometheus": {"url": "https://p", "query": "up", "caBundle": "eA=="}})),
            "must be certificates in PEM, in base64",
        ),
        (asks("ftp://p", "up"), "must be an http or https URL"),
        (asks("http://p/?x=y", "up"), "without user, query and fragment"),
        (asks("http://p", "up{c=\"{{namespace}}\"}"), "has a field that nobody fills"),
        (
            checks(json!({"pass": {"notWorseThan": "Rest"}, "prometheus": {"url": "http://p",
                "query": "sum(up)"}})),
            "name {{cluster}} in the query",
        ),
        (
            checks(json!({"prometheus": {"query": "up"}})),
            "say which Prometheus to ask, once: set url",
        ),
        (
            json!({"checks": [whole["checks"][0], whole["checks"][0]]}),
            "each check of a policy has a name of its own",
        ),
    ];
    for (spec, why) in table {
        let told = made(&hub.user, "rpol", "bad", spec.clone()).await.unwrap_err();
        assert!(told.contains(why), "{spec}\n{told}\nis not\n{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn channels_that_cannot_be_meant_are_refused_with_what_would_be_right() {
    let hub = TestHub::new(1).await;
    let whole = json!({"type": "Slack", "secretRef": {"name": "slack", "key": "url"},
        "caBundle": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==",
        "signingSecretRef": {"name": "slack", "key": "key"}, "events": ["GateWaiting", "Failed"],
        "selects": {"stages": ["prod*"]}, "template": "{{event}} {x} {{run}}: {{next}}"});
    let stored = made(&hub.user, "nch", "whole", whole.clone()).await.unwrap();
    assert_eq!(stored["spec"], whole);
    let table = [
        (json!({}), "spec.type: Required value"),
        (json!({"type": "Slack"}), "say where to send to, once"),
        (
            json!({"type": "Slack", "url": "https://x", "secretRef": {"name": "a", "key": "b"}}),
            "say where to send to, once",
        ),
        (json!({"type": "Mail", "url": "https://x"}), "supported values: \"CloudEvents\""),
        (
            json!({"type": "Slack", "url": "https://x", "caBundle": "eA=="}),
            "must be certificates in PEM, in base64",
        ),
        (json!({"type": "Slack", "url": "ftp://x"}), "must be an http or https URL"),
        (json!({"type": "Slack", "url": "https://me:word@x/"}), "without user and fragment"),
        (
            json!({"type": "CloudEvents", "url": "https://x", "template": "{{run}}"}),
            "the form of a CloudEvent is fixed",
        ),
        (
            json!({"type": "Slack", "url": "https://x", "template": "{{secret}}"}),
            "has a field that nobody fills",
        ),
        (json!({"type": "Slack", "url": "https://x", "events": ["All"]}), "supported values"),
    ];
    for (spec, why) in table {
        let told = made(&hub.user, "nch", "bad", spec.clone()).await.unwrap_err();
        assert!(told.contains(why), "{spec}\n{told}\nis not\n{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn freezes_say_why() {
    let hub = TestHub::new(1).await;
    let whole = json!({"reason": "incident 4711", "until": "2026-01-01T12:00:00Z",
        "selects": {"stages": ["prod"]}, "except": {"runs": ["web-3", "team/web-3"]}});
    made(&hub.user, "frz", "whole", whole).await.unwrap();
    let table = [
        (json!({}), "spec.reason: Required value"),
        (json!({"reason": ""}), "say why nothing may begin, such as: incident 4711"),
        (
            json!({"reason": "x", "except": {"runs": ["a b"]}}),
            "runs are named as web-3, or as team/web-3 in a namespace",
        ),
        (json!({"reason": "x", "until": "tomorrow"}), "spec.until"),
    ];
    for (spec, why) in table {
        let told = made(&hub.user, "frz", "bad", spec.clone()).await.unwrap_err();
        assert!(told.contains(why), "{spec}\n{told}\nis not\n{why}");
    }
}
