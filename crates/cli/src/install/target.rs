//! A cluster that is worked on, by the context of a kubeconfig.

use std::path::Path;

use anyhow::{Context, anyhow, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flagship_api::names::ObjectKey;
use flagship_runtime::client::{Applying, Client, ClientError, ResourceType, Selection};
use flagship_runtime::dynamic::{Discovered, discover};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{DynamicObject, PostParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::Value;

/// A cluster, and what it serves.
pub struct Target {
    /// The context that leads to it.
    pub context: String,
    /// The way in.
    pub client: Client,
    config: Config,
    served: Discovered,
}

impl Target {
    /// Connects to the cluster of a context; the current one if none is named.
    pub async fn connect(file: Option<&Path>, context: Option<&str>) -> anyhow::Result<Self> {
        let read = match file {
            Some(path) => Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?,
            None => Kubeconfig::read()
                .context("cannot read a kubeconfig; name one with --kubeconfig")?,
        };
        let names: Vec<&str> = read.contexts.iter().map(|named| named.name.as_str()).collect();
        let context = match context.or(read.current_context.as_deref()) {
            Some(context) if names.contains(&context) => context.to_owned(),
            Some(context) => {
                bail!("the kubeconfig has no context {context}; it has: {}", names.join(", "))
            }
            None => {
                bail!("the kubeconfig has no current context; name one of: {}", names.join(", "))
            }
        };
        let options =
            KubeConfigOptions { context: Some(context.clone()), ..KubeConfigOptions::default() };
        let config = Config::from_custom_kubeconfig(read, &options)
            .await
            .with_context(|| format!("cannot use the context {context}"))?;
        let client = Client::from_config(config.clone())
            .with_context(|| format!("cannot use the context {context}"))?
            .named("flagship");
        if let Err(error) = client.version().await {
            let silent = matches!(error, ClientError::Unreachable { .. });
            let says = if silent { "does not answer" } else { "does not let us in" };
            bail!(
                "the cluster of context {context} {says} at {}: {}",
                config.cluster_url,
                anyhow!(error).root_cause()
            );
        }
        let mut target = Self { context, client, config, served: Discovered::default() };
        target.look().await;
        Ok(target)
    }

    /// Looks again at what the cluster serves.
    pub async fn look(&mut self) {
        self.served = discover(&self.client).await;
    }

    /// Where clients of this kubeconfig reach it.
    pub fn url(&self) -> String {
        self.config.cluster_url.to_string().trim_end_matches('/').to_owned()
    }

    /// Its certificate authority as agents are given it: PEM in base64. `None` if the kubeconfig
    /// has none.
    pub fn authority(&self) -> Option<String> {
        let certificates = self.config.root_cert.as_ref()?;
        let pem: String = certificates
            .iter()
            .map(|der| pem::encode(&pem::Pem::new("CERTIFICATE", der.clone())))
            .collect();
        Some(STANDARD.encode(pem))
    }

    /// Whether the kubeconfig says not to check who the server is.
    pub fn is_unchecked(&self) -> bool {
        self.config.accept_invalid_certs
    }

    /// The resource of objects of this version and kind, if the cluster serves it.
    pub fn resource(&self, api_version: &str, kind: &str) -> Option<ResourceType> {
        let is_it = |t: &&ResourceType| t.kind == kind && t.api_version() == api_version;
        self.served.types.keys().find(is_it).cloned()
    }

    /// Applies an object, whoever wrote its fields before.
    pub async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        let (resource, key) = self.place(object)?;
        let how = Applying { force: true, dry_run: false };
        let applied = self.client.manifests(resource).apply(&key, object, how).await;
        applied.with_context(|| self.failed("apply", object))?;
        Ok(())
    }

    /// Deletes an object by its name; whether it was there.
    pub async fn delete(&self, object: &Value) -> anyhow::Result<bool> {
        let Ok((resource, key)) = self.place(object) else { return Ok(false) };
        let objects = self.client.manifests(resource);
        let found = objects.find(&key).await.with_context(|| self.failed("read", object))?;
        let Some(found) = found else { return Ok(false) };
        let uid = found["metadata"]["uid"].as_str().unwrap_or_default();
        objects.delete(&key, uid).await.with_context(|| self.failed("delete", object))?;
        Ok(true)
    }

    /// An object that may not be there, nor its kind.
    pub async fn find(
        &self,
        api_version: &str,
        kind: &str,
        key: &ObjectKey,
    ) -> anyhow::Result<Option<Value>> {
        let Some(resource) = self.resource(api_version, kind) else { return Ok(None) };
        let found = self.client.manifests(resource).find(key).await;
        found.with_context(|| format!("cannot read {kind} {key} on {}", self.context))
    }

    /// All objects of a kind; none if it is not served.
    pub async fn list(
        &self,
        api_version: &str,
        kind: &str,
        which: &Selection,
    ) -> anyhow::Result<Vec<Value>> {
        let Some(resource) = self.resource(api_version, kind) else { return Ok(Vec::new()) };
        let objects = self.client.of_type::<DynamicObject>(resource).list(which).await;
        let objects =
            objects.with_context(|| format!("cannot list {kind}s on {}", self.context))?;
        Ok(objects.items.iter().filter_map(|item| serde_json::to_value(item).ok()).collect())
    }

    /// A fresh token of a service account.
    pub async fn token(&self, account: &ObjectKey, seconds: i64) -> anyhow::Result<String> {
        request_token(self.config.clone(), account, seconds)
            .await
            .with_context(|| format!("cannot get a token of {account} on {}", self.context))
    }

    fn place(&self, object: &Value) -> anyhow::Result<(ResourceType, ObjectKey)> {
        let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let resource = self.resource(&version, &kind);
        let resource = resource
            .with_context(|| format!("{} does not serve {version} {kind}", self.context))?;
        let namespace = object["metadata"]["namespace"].as_str();
        Ok((resource, ObjectKey::new(namespace, &text(&object["metadata"]["name"]))))
    }

    fn failed(&self, verb: &str, object: &Value) -> String {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let kind = object["kind"].as_str().unwrap_or_default();
        format!("cannot {verb} {kind} {name} on {}", self.context)
    }
}

/// Asks a server for a token of a service account.
pub async fn request_token(
    config: Config,
    account: &ObjectKey,
    seconds: i64,
) -> anyhow::Result<String> {
    let namespace = account.namespace.as_deref().unwrap_or_default();
    let accounts =
        kube::Api::<ServiceAccount>::namespaced(kube::Client::try_from(config)?, namespace);
    let spec =
        TokenRequestSpec { expiration_seconds: Some(seconds), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let made =
        accounts.create_token_request(&account.name, &PostParams::default(), &request).await?;
    made.status.and_then(|status| status.token).context("the server gave no token")
}
