//! `flagship refresh-token`: keeps a file with the token that a member agent shows its hub.
//!
//! It runs beside the agent and shares a folder with it, as KubeFleet's sidecar of the same
//! name does, because a pod cannot mount a Secret of another namespace. The agent reads the
//! file again from time to time, so a new token in the Secret needs no restart.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::{Args, Subcommand};
use flagship_api::names::ObjectKey;
use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::hub_access::Environment;
use super::spelling::Logging;
use super::{block_on, cluster, told_to_stop};
use crate::install::request_token;

/// How often the Secret is looked at.
const AGAIN: Duration = Duration::from_secs(30);
/// How long one look may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Where the token is in the Secret.
const KEY: &str = "token";

/// Keep a file with the token that a member agent shows its hub
#[derive(Args, Clone, Debug)]
pub struct RefreshToken {
    /// The file the token is written to
    #[arg(long, default_value = "/config/token", value_name = "FILE", global = true)]
    file_path: PathBuf,
    #[command(subcommand)]
    source: Source,
}

#[derive(Subcommand, Clone, Debug)]
enum Source {
    Secret(FromSecret),
}

/// Take the token from a Secret of this cluster
#[derive(Args, Clone, Debug)]
struct FromSecret {
    /// The Secret
    #[arg(long)]
    name: String,
    /// Its namespace
    #[arg(long)]
    namespace: String,
    /// The cluster's kubeconfig; without it the cluster this process runs in
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; its current one by default
    #[arg(long)]
    context: Option<String>,
    /// Have the hub give a new token at half time, and keep it in the Secret. Needs
    /// HUB_SERVER_URL, and the right to create a token of one's own service account there
    #[arg(long)]
    renew: bool,
    /// Do not check who the hub is
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set)]
    tls_insecure: bool,
    #[command(flatten)]
    logging: Logging,
}

impl RefreshToken {
    /// Runs until told to stop.
    pub fn run(self) -> anyhow::Result<()> {
        let Source::Secret(source) = self.source;
        source.logging.begin("flagship-refresh-token");
        block_on(async move {
            let client = cluster(source.kubeconfig.as_deref(), source.context.as_deref()).await?;
            let secret = ObjectKey::namespaced(&source.namespace, &source.name);
            let client = client.named("flagship-refresh-token");
            let insecure = source.renew.then_some(source.tls_insecure);
            let mut copy = TokenCopy::new(client, secret, self.file_path);
            let keeping = std::pin::pin!(copy.keep(insecure));
            let stop = std::pin::pin!(told_to_stop());
            futures::future::select(keeping, stop).await;
            Ok(())
        })
    }
}

/// A token of a Secret, and its copy in a file.
struct TokenCopy {
    client: Client,
    secret: ObjectKey,
    file: PathBuf,
    written: Option<Vec<u8>>,
}

impl TokenCopy {
    fn new(client: Client, secret: ObjectKey, file: PathBuf) -> Self {
        Self { client, secret, file, written: None }
    }

    /// Looks again and again, for as long as the process runs. `insecure` says how to have tokens
    /// renewed, if that is wanted.
    async fn keep(&mut self, insecure: Option<bool>) {
        loop {
            if let (Some(insecure), Some(token)) = (insecure, self.written.clone())
                && let Err(error) =
                    self.renew_at_half_time(&token, Environment::read(), insecure, now()).await
            {
                tracing::warn!("the token was not renewed: {error:#}");
            }
            match tokio::time::timeout(PATIENCE, self.refresh()).await {
                Ok(Ok(true)) => tracing::info!(file = %self.file.display(), "wrote a new token"),
                Ok(Ok(false)) => {}
                // The agent goes on with the token it has.
                Ok(Err(error)) => tracing::warn!("{error:#}"),
                Err(_) => tracing::warn!(secret = %self.secret, "the API server does not answer"),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Writes the token if it is another than before; whether it was.
    async fn refresh(&mut self) -> anyhow::Result<bool> {
        let secret = self.client.of::<Secret>().get(&self.secret).await;
        let secret = secret.with_context(|| format!("cannot read the secret {}", self.secret))?;
        let token = secret.data.unwrap_or_default().remove(KEY).map(|token| token.0);
        let Some(token) = token.filter(|token| !token.is_empty()) else {
            bail!("the token data is missing or empty in secret {}", self.secret);
        };
        if self.written.as_ref() == Some(&token) {
            return Ok(false);
        }
        flagship_files::replace(&self.file, &token)
            .with_context(|| format!("cannot write the token to {}", self.file.display()))?;
        self.written = Some(token);
        Ok(true)
    }

    /// Puts a new token into the Secret once half of the old one's time is over.
    async fn renew_at_half_time(
        &self,
        token: &[u8],
        mut hub: Environment,
        insecure: bool,
        now: i64,
    ) -> anyhow::Result<()> {
        let claims = Claims::of(token)?;
        if now < claims.half_time() {
            return Ok(());
        }
        hub.token_file = Some(self.file.display().to_string());
        let config = hub.config(false, insecure)?;
        let asked = request_token(config, &claims.account, claims.lasts());
        let fresh =
            tokio::time::timeout(PATIENCE, asked).await.context("the hub does not answer")??;
        let patch = json!({"stringData": {KEY: fresh}});
        self.client.of::<Secret>().patch_anyway(&self.secret, patch).await?;
        tracing::info!(account = %claims.account, "the hub gave a new token");
        Ok(())
    }
}

fn now() -> i64 {
    Env::system().now().as_second()
}

/// What a token of a service account says of itself. Nobody here relies on it being true.
#[derive(Debug, PartialEq)]
struct Claims {
    account: ObjectKey,
    issued: i64,
    ends: i64,
}

impl Claims {
    fn of(token: &[u8]) -> anyhow::Result<Self> {
        let text = std::str::from_utf8(token).context("the token is no text")?;
        let body = text.trim().split('.').nth(1).context("the token is no JSON Web Token")?;
        let body = URL_SAFE_NO_PAD.decode(body).context("the token is no JSON Web Token")?;
        let claims: Value =
            serde_json::from_slice(&body).context("the token is no JSON Web Token")?;
        let subject = claims["sub"].as_str().unwrap_or_default();
        let account =
            subject.strip_prefix("system:serviceaccount:").and_then(|s| s.split_once(':'));
        let (namespace, name) = account
            .with_context(|| format!("the token is of {subject:?}, which is no service account"))?;
        // A token without an end is one that nobody has to renew.
        let ends = claims["exp"].as_i64().unwrap_or(i64::MAX);
        let issued = claims["iat"].as_i64().unwrap_or(0);
        Ok(Self { account: ObjectKey::namespaced(namespace, name), issued, ends })
    }

    fn lasts(&self) -> i64 {
        self.ends.saturating_sub(self.issued)
    }

    fn half_time(&self) -> i64 {
        self.issued.saturating_add(self.lasts() / 2)
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use flagship_edge::{Authority, Config as EdgeConfig, Edge};
    use flagship_fleet::{ClusterHost, Storage};
    use flagship_sim::fleet::{Fleet, FleetConfig, HUB};
    use flagship_store::env::Env as ServerEnv;

    use super::*;

    fn now_of_server() -> jiff::Timestamp {
        ServerEnv::system().clock.now()
    }

    #[tokio::test]
    async fn the_file_follows_the_secret() {
        let fleet = Fleet::new(FleetConfig::of(1)).await;
        let member = fleet.clusters.member("member1");
        let client = Client::in_process(fleet.handle("member1").called_by("agent"));
        let folder = std::env::temp_dir().join(format!("flagship-refresh-{}", std::process::id()));
        flagship_files::make_folder(&folder).unwrap();
        let file = folder.join("token");
        let key = ObjectKey::namespaced("default", "hub-access");
        let mut copy = TokenCopy::new(client, key, file.clone());
        let refusal = copy.refresh().await.unwrap_err().to_string();
        assert_eq!(refusal, "cannot read the secret default/hub-access");

        let secret = |data: serde_json::Value| {
            json!({"apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": "hub-access", "namespace": "default"}, "stringData": data})
        };
        member.apply_object(&secret(json!({}))).await;
        let refusal = copy.refresh().await.unwrap_err().to_string();
        assert_eq!(refusal, "the token data is missing or empty in secret default/hub-access");
        for token in ["first", "second"] {
            member.apply_object(&secret(json!({"token": token}))).await;
            assert!(copy.refresh().await.unwrap());
            assert_eq!(flagship_files::read(&file).unwrap().unwrap(), token);
            assert!(!copy.refresh().await.unwrap(), "an old token is not written again");
        }
        // A Secret that is gone leaves the token of the file alone.
        member.delete("secrets", "default", "hub-access").await;
        assert!(copy.refresh().await.is_err());
        assert_eq!(flagship_files::read(&file).unwrap().unwrap(), "second");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[tokio::test]
    async fn at_half_time_the_hub_gives_the_next_token() {
        let host = ClusterHost::new(ServerEnv::system(), Storage::Ephemeral);
        let config = FleetConfig { host: Some(host.clone()), ..FleetConfig::of(1).real_time() };
        let fleet = Fleet::new(config).await;
        let authority = Authority::create(now_of_server()).unwrap();
        let served = EdgeConfig::local(0, authority);
        let edge = Edge::start(host.server(), &ServerEnv::system(), served).await.unwrap();
        for object in crate::install::identity("east") {
            fleet.clusters.hub.apply_object(&object).await;
        }
        let folder = std::env::temp_dir().join(format!("flagship-renew-{}", std::process::id()));
        flagship_files::make_folder(&folder).unwrap();
        let hub = Environment {
            server: Some(edge.url(HUB)),
            ca_data: Some(STANDARD.encode(edge.authority().certificate_pem())),
            ..Environment::default()
        };
        // The first token is an administrator's gift, as `join` gives it.
        let account = ObjectKey::namespaced("fleet-system", "east-hub-cluster-access");
        let admin = edge.authority().client("admin", Some("system:masters"), now_of_server());
        let admin = admin.unwrap();
        let mut config = kube::Config::new(edge.url(HUB).parse().unwrap());
        config.root_cert = hub.authorities().unwrap();
        config.auth_info.client_certificate_data = Some(STANDARD.encode(admin.certificate));
        config.auth_info.client_key_data = Some(STANDARD.encode(admin.key).into());
        let first = request_token(config, &account, 600).await.unwrap();
        let member = fleet.clusters.member("member1");
        let secret = crate::install::token_secret(&first);
        member.apply("{apiVersion: v1, kind: Namespace, metadata: {name: fleet-system}}").await;
        member.apply_object(&secret).await;
        let client = Client::in_process(fleet.handle("member1").called_by("agent"));
        let key = ObjectKey::namespaced("fleet-system", crate::install::TOKEN_SECRET);
        let mut copy = TokenCopy::new(client, key, folder.join("token"));
        assert!(copy.refresh().await.unwrap());
        let claims = Claims::of(first.as_bytes()).unwrap();
        let old = first.as_bytes();
        copy.renew_at_half_time(old, hub.clone(), false, claims.half_time() - 1).await.unwrap();
        assert!(!copy.refresh().await.unwrap(), "there is time");
        copy.renew_at_half_time(old, hub.clone(), false, claims.half_time()).await.unwrap();
        assert!(copy.refresh().await.unwrap());
        let next = flagship_files::read(&folder.join("token")).unwrap().unwrap();
        assert_ne!(next, first);
        assert_eq!(Claims::of(next.as_bytes()).unwrap().account, account);
        std::fs::remove_dir_all(&folder).unwrap();
        edge.shutdown().await;
    }

    #[test]
    fn a_token_says_whose_it_is_and_when_half_its_time_is_over() {
        let token = |claims: Value| {
            format!("head.{}.signature", URL_SAFE_NO_PAD.encode(claims.to_string())).into_bytes()
        };
        let subject = "system:serviceaccount:fleet-system:east";
        let claims = Claims::of(&token(json!({"sub": subject, "iat": 100, "exp": 700}))).unwrap();
        assert_eq!(claims.account, ObjectKey::namespaced("fleet-system", "east"));
        assert_eq!((claims.lasts(), claims.half_time()), (600, 400));
        let endless = Claims::of(&token(json!({"sub": subject, "iat": 100}))).unwrap();
        assert!(endless.half_time() > i64::MAX / 4);
        let refusal = Claims::of(&token(json!({"sub": "ana"}))).unwrap_err().to_string();
        assert_eq!(refusal, "the token is of \"ana\", which is no service account");
        assert!(Claims::of(b"opaque").is_err());
    }

    #[test]
    fn the_arguments_of_the_chart_are_understood() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            refresh: RefreshToken,
        }
        let read = |line: &str| {
            <Line as clap::Parser>::try_parse_from(line.split_whitespace()).map(|line| line.refresh)
        };
        let given =
            read("x secret --name=hub-kubeconfig-secret --namespace=default --v=5").unwrap();
        assert_eq!(given.file_path, PathBuf::from("/config/token"));
        let given = read("x --file-path=/t secret --name=a --namespace=b").unwrap();
        assert_eq!(given.file_path, PathBuf::from("/t"));
        assert!(read("x secret --name=a").is_err());
    }
}
