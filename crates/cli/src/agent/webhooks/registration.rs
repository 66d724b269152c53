//! Tells the API server which webhooks there are, and how they are reached.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flagship_api::keys::label;
use flagship_api::names::{ObjectKey, SYSTEM_NAMESPACE};
use flagship_hub::policies::put;
use flagship_rules::admission::guard_rails::{self, GuardRail, guard_rails};
use flagship_rules::admission::{Operation, Webhook, records};
use flagship_runtime::client::{Client, Precondition, Propagation};
use flagship_runtime::effects::Kind;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Namespace;
use serde_json::{Value, json};

use super::Judging;

const MUTATING: &str = "fleet-mutating-webhook-configuration";
const VALIDATING: &str = "fleet-validating-webhook-configuration";
const CERTIFICATE: &str = "fleet-webhook-certificate";
const INJECT_FROM: &str = "cert-manager.io/inject-ca-from";

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

    fn client_config(&self, path: &str, trust: &Trust) -> Value {
        let at = |base: String| json!({"url": format!("{base}{path}")});
        let mut config = match self {
            Self::Service { name, namespace, port } => json!({
                "service": {"name": name, "namespace": namespace, "port": port, "path": path},
            }),
            Self::Url { name, namespace, port } => {
                at(format!("https://{name}.{namespace}.svc.cluster.local:{port}"))
            }
            #[cfg(test)]
            Self::Here(address) => at(format!("https://{address}")),
        };
        if let Trust::Bundle(ca) = trust {
            config["caBundle"] = json!(STANDARD.encode(ca));
        }
        config
    }

    /// The Certificate of cert-manager that the chart makes, as its injector is told of it.
    fn certificate(&self) -> String {
        let namespace = match self {
            Self::Service { namespace, .. } | Self::Url { namespace, .. } => namespace,
            #[cfg(test)]
            Self::Here(_) => SYSTEM_NAMESPACE,
        };
        format!("{namespace}/{CERTIFICATE}")
    }
}

/// Whom the API server trusts when it calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// This authority, in PEM.
    Bundle(String),
    /// Whoever cert-manager writes into the configurations.
    Injected,
}

/// Creates the configurations, or brings them up to date. Guard rails that are no longer wanted
/// are taken away, or the API server would go on asking.
pub async fn register(
    client: &Client,
    judging: &Judging,
    reach: &Reach,
    trust: &Trust,
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
    let all = |name, webhooks| configuration(name, reach, trust, webhooks);
    let mutating = all(MUTATING, entries(judging, reach, trust, true));
    configure::<MutatingWebhookConfiguration>(client, MUTATING, mutating).await?;
    let validating = owned(all(VALIDATING, entries(judging, reach, trust, false)));
    configure::<ValidatingWebhookConfiguration>(client, VALIDATING, validating).await?;
    let name = guard_rails::CONFIGURATION;
    if judging.guard_rails.is_some() {
        let rails = guard_rails().iter().map(|rail| guard(rail, reach, trust)).collect();
        return configure::<ValidatingWebhookConfiguration>(client, name, owned(all(name, rails)))
            .await;
    }
    let all = client.of::<ValidatingWebhookConfiguration>();
    let left = all.find(&ObjectKey::cluster(name)).await?;
    if let Some(precondition) = left.as_ref().and_then(Precondition::of) {
        all.delete(&precondition, Propagation::Background).await?;
    }
    Ok(())
}

/// Writes a configuration, whatever stood there: the name is ours.
async fn configure<K: Kind>(client: &Client, name: &str, mut wanted: Value) -> anyhow::Result<()> {
    let there = client.of::<K>().find(&ObjectKey::cluster(name)).await?;
    if let Some(there) = there {
        keep_injected(&mut wanted, &serde_json::to_value(there)?);
    }
    put(client, serde_json::from_value::<K>(wanted)?).await?;
    Ok(())
}

/// Leaves a bundle that was injected where it is: without it the API server would trust nobody
/// until it is injected again.
fn keep_injected(wanted: &mut Value, there: &Value) {
    let old = there["webhooks"].as_array().cloned().unwrap_or_default();
    for webhook in wanted["webhooks"].as_array_mut().into_iter().flatten() {
        let before = old.iter().find(|before| before["name"] == webhook["name"]);
        let bundle = before.map(|before| &before["clientConfig"]["caBundle"]);
        if let Some(bundle) = bundle.filter(|bundle| bundle.is_string())
            && webhook["clientConfig"]["caBundle"].is_null()
        {
            webhook["clientConfig"]["caBundle"] = bundle.clone();
        }
    }
}

/// Whether the API server was told to trust this authority.
pub async fn trusts(client: &Client, authority: &str) -> bool {
    let all = client.of::<MutatingWebhookConfiguration>();
    let Ok(Some(found)) = all.find(&ObjectKey::cluster(MUTATING)).await else { return false };
    let mut bundles = found.webhooks.iter().flatten().map(|one| &one.client_config.ca_bundle);
    bundles.all(|bundle| {
        bundle.as_ref().is_some_and(|it| String::from_utf8_lossy(&it.0).contains(authority))
    })
}

/// What cert-manager has not done yet, in the words of KubeFleet's probe.
pub async fn not_injected(client: &Client) -> Option<String> {
    let mutating = bundles::<MutatingWebhookConfiguration>(client, "Mutating", MUTATING);
    if let Some(why) = mutating.await {
        return Some(why);
    }
    bundles::<ValidatingWebhookConfiguration>(client, "Validating", VALIDATING).await
}

async fn bundles<K: Kind>(client: &Client, sort: &str, name: &str) -> Option<String> {
    let named = format!("{sort}WebhookConfiguration {name}");
    let found = match client.of::<K>().find(&ObjectKey::cluster(name)).await {
        Ok(Some(found)) => serde_json::to_value(found).unwrap_or_default(),
        Ok(None) => return Some(format!("{named} is not registered yet")),
        Err(error) => return Some(format!("{named} cannot be read: {error}")),
    };
    let without = |webhook: &&Value| !webhook["clientConfig"]["caBundle"].is_string();
    let lacking = found["webhooks"].as_array()?.iter().find(without)?["name"].clone();
    let webhook = lacking.as_str().unwrap_or_default();
    let why = "is missing CA bundle (cert-manager injection pending)";
    Some(format!("{named} webhook {webhook} {why}"))
}

pub(super) fn configuration(
    name: &str,
    reach: &Reach,
    trust: &Trust,
    webhooks: Vec<Value>,
) -> Value {
    let labels = json!({label::ENFORCER_DISABLED: "true"});
    let mut configuration =
        json!({"metadata": {"name": name, "labels": labels}, "webhooks": webhooks});
    if *trust == Trust::Injected {
        configuration["metadata"]["annotations"] = json!({INJECT_FROM: reach.certificate()});
    }
    configuration
}

pub(super) fn entries(
    judging: &Judging,
    reach: &Reach,
    trust: &Trust,
    mutates: bool,
) -> Vec<Value> {
    let rows = judging.webhooks().filter(|webhook| webhook.mutates == mutates);
    let entries = rows.map(|row| {
        let mut entry = entry(row, reach, trust);
        if let Some(hub) = judging.hub_user.as_ref().filter(|_| is_kept_from_hub(row)) {
            let conditions = records::asked_about(hub)
                .map(|(name, expression)| json!({"name": name, "expression": expression}));
            entry["matchConditions"] = json!(conditions);
        }
        entry
    });
    entries.collect()
}

/// Whether the hub's own writes are not asked about.
fn is_kept_from_hub(row: &Webhook) -> bool {
    row.is_about_records() || row.is_about_approvals()
}

/// A guard rail as a webhook. Unanswered it lets pass: a hub that is down must not lock the
/// cluster that it runs on.
fn guard(rail: &GuardRail, reach: &Reach, trust: &Trust) -> Value {
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
        "clientConfig": reach.client_config(guard_rails::PATH, trust),
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

fn entry(webhook: &Webhook, reach: &Reach, trust: &Trust) -> Value {
    json!({
        "name": webhook.name,
        "clientConfig": reach.client_config(webhook.path, trust),
        "rules": [{
            "apiGroups": [webhook.group],
            "apiVersions": [webhook.version],
            "resources": webhook.resources(),
            "operations": operations(webhook.operations),
            "scope": "*",
        }],
        "failurePolicy": if webhook.fails_open() { "Ignore" } else { "Fail" },
        "sideEffects": "None",
        "admissionReviewVersions": ["v1", "v1beta1"],
        "timeoutSeconds": 5,
    })
}
