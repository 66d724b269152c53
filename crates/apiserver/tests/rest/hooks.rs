//! Hooks that see every write.

use std::sync::Arc;

use flagship_apiserver::rest::{Admission, Mutation, Review};
use flagship_base::machinery::status::ApiError;
use serde_json::{Value, json};

use crate::harness::{GADGETS, Hook, MAPS, TestServer, gadget, gadget_definition};

struct Labeller;

impl Admission for Labeller {
    fn mutate(&self, review: &mut Mutation<'_>) -> Result<(), ApiError> {
        if review.operation == "create" && review.resource == "configmaps" {
            review.object["metadata"]["labels"]["by"] = json!("hook");
            review.warnings.push("labelled".to_owned());
        }
        Ok(())
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), ApiError> {
        match review.name {
            "forbidden" => Err(ApiError::forbidden(review.resource, review.name, "no")),
            _ => Ok(()),
        }
    }
}

#[tokio::test]
async fn hooks_change_and_refuse() {
    let api = TestServer::new();
    let hook: Hook = Arc::new(Labeller);
    api.server.add_admission(hook);
    let reply = api.post(MAPS, json!({"metadata": {"name": "a"}})).await;
    assert_eq!(reply.warnings, [r#"299 - "labelled""#]);
    assert_eq!(reply.ok(201)["metadata"]["labels"], json!({"by": "hook"}));
    api.post(MAPS, json!({"metadata": {"name": "forbidden"}})).await.refused(
        403,
        "Forbidden",
        "configmaps \"forbidden\" is forbidden: no",
    );
}

/// Lets nobody have a token.
struct NoTokens;

impl Admission for NoTokens {
    fn validate(&self, review: &mut Review<'_>) -> Result<(), ApiError> {
        match (review.resource, review.subresource) {
            ("serviceaccounts", "token") => {
                Err(ApiError::forbidden("serviceaccounts", review.name, review.namespace))
            }
            _ => Ok(()),
        }
    }
}

#[tokio::test]
async fn hooks_are_asked_about_tokens() {
    let api = TestServer::new();
    let accounts = MAPS.replace("configmaps", "serviceaccounts");
    api.post(&accounts, json!({"metadata": {"name": "robot"}})).await.ok(201);
    let hook: Hook = Arc::new(NoTokens);
    api.server.add_admission(hook);
    api.post(&format!("{accounts}/robot/token"), json!({})).await.refused(
        403,
        "Forbidden",
        "serviceaccounts \"robot\" is forbidden: default",
    );
}

/// Writes where a client of the same path may not.
struct Meddler;

impl Admission for Meddler {
    fn mutate(&self, review: &mut Mutation<'_>) -> Result<(), ApiError> {
        if review.operation == "update" {
            review.object["spec"]["size"] = json!(9);
            review.object["status"] = json!({"ready": true});
            review.object["metadata"]["uid"] = json!("mine");
        }
        Ok(())
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), ApiError> {
        let old = review.old.map(|old| old["spec"]["size"].clone());
        review.warnings.push(format!(
            "{} to {}",
            old.unwrap_or_default(),
            review.object["spec"]["size"]
        ));
        Ok(())
    }
}

#[tokio::test]
async fn what_a_hook_changes_on_update_is_bound_by_the_same_path() {
    let api = TestServer::new();
    api.define(gadget_definition()).await;
    let made = api.post(GADGETS, gadget("g", 1)).await.ok(201);
    let hook: Hook = Arc::new(Meddler);
    api.server.add_admission(hook);
    let path = format!("{GADGETS}/g");
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let reply = api.patch("merge", &path, label.clone()).await;
    assert_eq!(reply.warnings, [r#"299 - "1 to 9""#]);
    let now = reply.ok(200);
    assert_eq!(now["spec"]["size"], 9);
    assert_eq!(now["metadata"]["generation"], 2, "a hook's change of the spec counts");
    assert_eq!(now["status"], Value::Null, "the main path ignores status");
    assert_eq!(now["metadata"]["uid"], made["metadata"]["uid"]);

    let status = json!({"status": {"ready": false}});
    let now = api.patch("merge", &format!("{path}/status"), status).await.ok(200);
    assert_eq!(now["status"], json!({"ready": true}));
    assert_eq!(now["metadata"]["generation"], 2);

    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template = json!({
        "metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let spec = json!({"selector": {"matchLabels": {"app": "x"}}, "template": template});
    api.post(deployments, json!({"metadata": {"name": "d"}, "spec": spec})).await.ok(201);
    let hook: Hook = Arc::new(Scaler);
    api.server.add_admission(hook);
    let now = api.patch("merge", &format!("{deployments}/d"), label).await.ok(200);
    assert_eq!(now["spec"]["replicas"], 5);
    assert_eq!(now["metadata"]["generation"], 2);
    assert_eq!(now["status"], json!({}));
}

struct Scaler;

impl Admission for Scaler {
    fn mutate(&self, review: &mut Mutation<'_>) -> Result<(), ApiError> {
        if review.resource == "deployments.apps" {
            review.object["spec"]["replicas"] = json!(5);
            review.object["status"] = json!({"replicas": 4});
        }
        Ok(())
    }
}
