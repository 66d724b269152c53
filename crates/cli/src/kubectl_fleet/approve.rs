//! `approve`: sets the condition `Approved` of a request for its present generation.

use anyhow::anyhow;
use flagship_api::approval::{ApprovalRequestSpec, ApprovalRequestStatus};
use flagship_api::names::ObjectKey;
use flagship_rules::update_run::approving::approved_as_kubefleet;
use flagship_runtime::client::{Client, ClientError};
use flagship_runtime::effects::{Retry, retry};
use flagship_runtime::env::Env;
use serde_json::json;

use super::line::{Approve, Request};
use super::log::Log;
use crate::commands::{ScopedKind, Stored};

/// Approves the request, or says why not.
pub async fn approve(
    what: &Approve,
    hub: &Client,
    env: &Env,
    log: &mut Log<'_>,
) -> anyhow::Result<()> {
    let request = what.request()?;
    let named = match request.namespace {
        None => format!("ClusterApprovalRequest {:?}", request.name),
        Some(namespace) => format!("ApprovalRequest {:?} in namespace {namespace:?}", request.name),
    };
    let written = write(&request, &named, hub, env).await;
    written.map_err(|error| anyhow!("failed to approve {named}: {error}"))?;
    log.say(format!("{named} approved successfully"));
    Ok(())
}

async fn write(request: &Request<'_>, named: &str, hub: &Client, env: &Env) -> Result<(), String> {
    let kind =
        if request.namespace.is_none() { "ClusterApprovalRequest" } else { "ApprovalRequest" };
    let requests = ScopedKind::Approval.of(hub, request.namespace);
    let key = ObjectKey::new(request.namespace, request.name);
    let conflicts =
        |(_, error): &(&str, ClientError)| matches!(error, ClientError::Conflict { .. });
    let tried = retry(env, Retry::CONFLICT, conflicts, || async {
        let found: Stored<ApprovalRequestSpec, ApprovalRequestStatus> =
            requests.get(&key).await.map_err(|error| ("get", error))?;
        let conditions = approved_as_kubefleet(kind, &found.metadata, &found.status, env.now());
        let patch = json!({
            "metadata": {"resourceVersion": found.metadata.resource_version},
            "status": {"conditions": conditions},
        });
        let written = requests.patch_status_anyway(&key, patch).await;
        written.map(drop).map_err(|error| ("update", error))
    });
    tried.await.map_err(|(verb, error)| format!("failed to {verb} {named}: {error}"))
}
