//! Tells the API server which webhooks there are, and how they are reached.

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flagship_api::names::{ObjectKey, SYSTEM_NAMESPACE};
use flagship_hub::admission::Options;
use flagship_rules::admission::{Operation, Webhook, webhooks};
use flagship_runtime::client::Client;
use flagship_runtime::effects::Kind;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Namespace;
use serde_json::{Value, json};

const MUTATING: &str = "fleet-mutating-webhook-configuration";
const VALIDATING: &str = "fleet-validating-webhook-configuration";
const PORT: u16 = 9443;

/// How the API server comes to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Through a service in a namespace of the hub, which the API server looks up.
    Service {
        /// The service.
        name: String,
        /// Its namespace.
        namespace: String,
    },
    /// By the name of that service in the cluster's DNS.
    Url {
        /// The service.
        name: String,
        /// Its namespace.
        namespace: String,
    },
    /// At an address of this machine.
    #[cfg(test)]
    Here(std::net::SocketAddr),
}

impl Reach {
    /// By what names the API server may call us.
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::Service { name, namespace } | Self::Url { name, namespace } => {
                let host = format!("{name}.{namespace}.svc");
                vec![format!("{host}.cluster.local"), host]
            }
            #[cfg(test)]
            Self::Here(address) => vec![address.ip().to_string()],
        }
    }

    fn client_config(&self, path: &str, ca: &str) -> Value {
        let bundle = STANDARD.encode(ca);
        let at = |base: String| json!({"url": format!("{base}{path}"), "caBundle": bundle});
        match self {
            Self::Service { name, namespace } => json!({
                "service": {"name": name, "namespace": namespace, "port": PORT, "path": path},
                "caBundle": bundle,
            }),
            Self::Url { name, namespace } => {
                at(format!("https://{name}.{namespace}.svc.cluster.local:{PORT}"))
            }
            #[cfg(test)]
            Self::Here(address) => at(format!("https://{address}")),
        }
    }
}

/// Creates both configurations, or brings them up to date.
pub async fn register(
    client: &Client,
    options: Options,
    reach: &Reach,
    ca: &str,
) -> anyhow::Result<()> {
    let namespace = client.of::<Namespace>().find(&ObjectKey::cluster(SYSTEM_NAMESPACE)).await?;
    let owner = namespace.and_then(|namespace| namespace.metadata.uid).map(|uid| {
        json!([{"apiVersion": "v1", "kind": "Namespace", "name": SYSTEM_NAMESPACE, "uid": uid}])
    });
    let mutating = configuration(MUTATING, options, reach, ca, true);
    put::<MutatingWebhookConfiguration>(client, MUTATING, mutating).await?;
    let mut validating = configuration(VALIDATING, options, reach, ca, false);
    if let Some(owner) = owner {
        validating["metadata"]["ownerReferences"] = owner;
    }
    put::<ValidatingWebhookConfiguration>(client, VALIDATING, validating).await
}

/// Writes a configuration, whatever stood there: the name is ours.
async fn put<K: Kind>(client: &Client, name: &str, mut wanted: Value) -> anyhow::Result<()> {
    let (objects, key) = (client.of::<K>(), ObjectKey::cluster(name));
    let there = objects.find(&key).await?;
    let version = there.as_ref().and_then(|there| there.meta().resource_version.clone());
    if let Some(version) = version {
        wanted["metadata"]["resourceVersion"] = json!(version);
    }
    let typed: K = serde_json::from_value(wanted).context("a configuration of ours is no good")?;
    match there {
        Some(_) => objects.update(&typed).await?,
        None => objects.create(&typed).await?,
    };
    Ok(())
}

pub(super) fn configuration(
    name: &str,
    options: Options,
    reach: &Reach,
    ca: &str,
    mutates: bool,
) -> Value {
    let rows = webhooks(options).filter(|webhook| webhook.mutates == mutates);
    json!({
        "metadata": {"name": name, "labels": {"admissions.enforcer/disabled": "true"}},
        "webhooks": rows.map(|row| entry(row, reach, ca)).collect::<Vec<_>>(),
    })
}

fn entry(webhook: &Webhook, reach: &Reach, ca: &str) -> Value {
    let operations = webhook.operations.iter().map(|operation| match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
    });
    json!({
        "name": webhook.name,
        "clientConfig": reach.client_config(webhook.path, ca),
        "rules": [{
            "apiGroups": [webhook.group],
            "apiVersions": [webhook.version],
            "resources": [webhook.plural],
            "operations": operations.collect::<Vec<_>>(),
            "scope": "*",
        }],
        "failurePolicy": if webhook.fails_open() { "Ignore" } else { "Fail" },
        "sideEffects": "None",
        "admissionReviewVersions": ["v1", "v1beta1"],
        "timeoutSeconds": 5,
    })
}
