//! Tells the API server which webhooks there are, and how they are reached.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flagship_api::keys::label;
use flagship_api::names::{ObjectKey, SYSTEM_NAMESPACE};
use flagship_hub::policies::put;
use flagship_rules::admission::guard_rails::{self, GuardRail, guard_rails};
use flagship_rules::admission::{Operation, Webhook, webhooks};
use flagship_runtime::client::{Client, Precondition, Propagation};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Namespace;
use serde_json::{Value, json};

use super::Judging;

const MUTATING: &str = "fleet-mutating-webhook-configuration";
const VALIDATING: &str = "fleet-validating-webhook-configuration";

/// How the API server comes to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Through a service in a namespace of the hub, which the API server looks up.
    Service {
        /// The service.
        name: String,
        /// Its namespace.
        namespace: String,
        /// Its port.
        port: u16,
    },
    /// By the name of that service in the cluster's DNS.
    Url {
        /// The service.
        name: String,
        /// Its namespace.
        namespace: String,
        /// Its port.
        port: u16,
    },
    /// At an address of this machine.
    #[cfg(test)]
    Here(std::net::SocketAddr),
}

impl Reach {
    /// By what names the API server may call us.
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::Service { name, namespace, .. } | Self::Url { name, namespace, .. } => {
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
            Self::Service { name, namespace, port } => json!({
                "service": {"name": name, "namespace": namespace, "port": port, "path": path},
                "caBundle": bundle,
            }),
            Self::Url { name, namespace, port } => {
                at(format!("https://{name}.{namespace}.svc.cluster.local:{port}"))
            }
            #[cfg(test)]
            Self::Here(address) => at(format!("https://{address}")),
        }
    }
}

/// Creates the configurations, or brings them up to date. Guard rails that are no longer wanted
/// are taken away, or the API server would go on asking.
pub async fn register(
    client: &Client,
    judging: &Judging,
    reach: &Reach,
    ca: &str,
) -> anyhow::Result<()> {
    let namespace = client.of::<Namespace>().find(&ObjectKey::cluster(SYSTEM_NAMESPACE)).await?;
    let owner = namespace.and_then(|namespace| namespace.metadata.uid).map(|uid| {
        json!([{"apiVersion": "v1", "kind": "Namespace", "name": SYSTEM_NAMESPACE, "uid": uid}])
    });
    let owned = |mut configuration: Value| {
        if let Some(owner) = &owner {
            configuration["metadata"]["ownerReferences"] = owner.clone();
        }
        configuration
    };
    let mutating = entries(judging, reach, ca, true);
    let mutating = configuration(MUTATING, mutating);
    put(client, serde_json::from_value::<MutatingWebhookConfiguration>(mutating)?).await?;
    let validating = owned(configuration(VALIDATING, entries(judging, reach, ca, false)));
    put(client, serde_json::from_value::<ValidatingWebhookConfiguration>(validating)?).await?;
    if judging.guard_rails.is_some() {
        let rails = guard_rails().iter().map(|rail| guard(rail, reach, ca)).collect();
        let rails = owned(configuration(guard_rails::CONFIGURATION, rails));
        put(client, serde_json::from_value::<ValidatingWebhookConfiguration>(rails)?).await?;
        return Ok(());
    }
    let all = client.of::<ValidatingWebhookConfiguration>();
    let left = all.find(&ObjectKey::cluster(guard_rails::CONFIGURATION)).await?;
    if let Some(precondition) = left.as_ref().and_then(Precondition::of) {
        all.delete(&precondition, Propagation::Background).await?;
    }
    Ok(())
}

pub(super) fn configuration(name: &str, webhooks: Vec<Value>) -> Value {
    let labels = json!({label::ENFORCER_DISABLED: "true"});
    json!({"metadata": {"name": name, "labels": labels}, "webhooks": webhooks})
}

pub(super) fn entries(judging: &Judging, reach: &Reach, ca: &str, mutates: bool) -> Vec<Value> {
    let rows = webhooks(judging.options).filter(|webhook| webhook.mutates == mutates);
    rows.map(|row| entry(row, reach, ca)).collect()
}

/// A guard rail as a webhook. Unanswered it lets pass: a hub that is down must not lock the
/// cluster that it runs on.
fn guard(rail: &GuardRail, reach: &Reach, ca: &str) -> Value {
    // A rule about all kinds of a namespace must not be asked about kinds that have none.
    let scope = if rail.namespaces.is_some() { "Namespaced" } else { "*" };
    let rules = rail.rules.iter().map(|rule| {
        json!({
            "apiGroups": [rule.group],
            "apiVersions": [rule.version],
            "resources": rule.resources,
            "operations": operations(rule.operations),
            "scope": scope,
        })
    });
    let mut webhook = json!({
        "name": rail.name,
        "clientConfig": reach.client_config(guard_rails::PATH, ca),
        "rules": rules.collect::<Vec<_>>(),
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1", "v1beta1"],
        "timeoutSeconds": 1,
    });
    if let Some(wanted) = rail.namespaces {
        webhook["namespaceSelector"] = json!({"matchExpressions": [
            {"key": wanted.label, "operator": "In", "values": wanted.values}]});
    }
    webhook
}

fn operations(all: &[Operation]) -> Vec<&'static str> {
    let named = all.iter().map(|operation| match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
    });
    named.collect()
}

fn entry(webhook: &Webhook, reach: &Reach, ca: &str) -> Value {
    json!({
        "name": webhook.name,
        "clientConfig": reach.client_config(webhook.path, ca),
        "rules": [{
            "apiGroups": [webhook.group],
            "apiVersions": [webhook.version],
            "resources": [webhook.plural],
            "operations": operations(webhook.operations),
            "scope": "*",
        }],
        "failurePolicy": if webhook.fails_open() { "Ignore" } else { "Fail" },
        "sideEffects": "None",
        "admissionReviewVersions": ["v1", "v1beta1"],
        "timeoutSeconds": 5,
    })
}
