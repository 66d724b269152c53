//! The hub's admission webhooks on a real API server.
//!
//! Three questions, a file each: `review` reads what the API server asks and writes the
//! answer, `serving` speaks HTTPS, `registration` tells the API server where to ask. The
//! answers themselves are `flagship_hub::admission`'s; every replica gives them, whoever
//! leads registers.
//!
//! Without cert-manager the certificate authority is made anew at every start and known to
//! nobody else, so that there is no key to keep; with several replicas the API server trusts
//! the leader alone. With cert-manager all replicas serve the certificate it keeps, and it
//! tells the API server whom to trust.

mod registration;
mod review;
mod serving;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use flagship_edge::Authority;
use flagship_hub::admission::{Admission, Options};
use flagship_hub::{Hub, Readiness};
use flagship_rules::admission::guard_rails;
use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use registration::{Reach, Trust};

/// How often a hub that does not lead yet is asked, and a refused registration tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// What a hub judges writes by.
#[derive(Clone, Debug, Default)]
pub struct Judging {
    /// What may be written.
    pub options: Options,
    /// Who may write, if guard rails are wanted.
    pub guard_rails: Option<Arc<guard_rails::Options>>,
}
/// Where a Secret with cert-manager's certificate is mounted.
pub const CERTIFICATE_FOLDER: &str = "/tmp/k8s-webhook-server/serving-certs";

/// A listener with a certificate, not yet known to the API server.
pub struct Webhooks {
    client: Client,
    judging: Judging,
    reach: Reach,
    listener: TcpListener,
    trust: Trust,
    tls: serving::Tls,
    pending: Pending,
}

/// Why the API server does not trust the webhooks yet; nothing once it does. Clones share it.
#[derive(Clone, Default)]
pub struct Pending(Arc<Mutex<Option<String>>>);

impl Pending {
    /// In the words of KubeFleet's probe.
    pub fn why(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, why: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }
}

impl Webhooks {
    /// Listens at an address, with the certificate of a folder or one of our own.
    pub async fn listen(
        client: &Client,
        env: &Env,
        judging: Judging,
        reach: Reach,
        address: (&str, u16),
        kept: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).await.with_context(|| {
            let (host, port) = address;
            format!(
                "cannot listen on {host}:{port} for webhooks (--webhook-port and \
                 --webhook-bind-address choose another place, --enable-webhook=false turns them off)"
            )
        })?;
        Self::on(listener, client, env, judging, reach, kept)
    }

    fn on(
        listener: TcpListener,
        client: &Client,
        env: &Env,
        judging: Judging,
        reach: Reach,
        kept: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let (tls, trust) = match kept {
            Some(folder) => (serving::Tls::kept_in(folder)?, Trust::Injected),
            None => {
                let authority = Authority::create(env.now())?;
                let shown = authority.server(&reach.names(), env.now())?;
                let bundle = authority.certificate_pem().to_owned();
                (serving::Tls::new(&shown)?, Trust::Bundle(bundle))
            }
        };
        let pending = Pending::default();
        Ok(Self { client: client.clone(), judging, reach, listener, trust, tls, pending })
    }

    /// What stands between the API server and these webhooks, whenever it is asked.
    pub fn pending(&self) -> Pending {
        self.pending.clone()
    }

    /// Answers until the set is dropped, and registers once the hub leads.
    pub fn serve(self, hub: Hub) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let admission = Admission::new(&self.client, self.judging.options);
        tasks.spawn(serving::serve(self.listener, self.tls, admission, self.judging.clone()));
        let Self { client, judging, reach, trust, pending, .. } = self;
        if trust == Trust::Injected {
            pending.set(Some("the webhook configurations were not looked at yet".to_owned()));
            let client = client.clone();
            tasks.spawn(async move {
                while let Some(why) = registration::not_injected(&client).await {
                    pending.set(Some(why));
                    tokio::time::sleep(AGAIN).await;
                }
                pending.set(None);
            });
        }
        tasks.spawn(async move {
            while matches!(hub.ready(), Readiness::Idle | Readiness::Standby) {
                tokio::time::sleep(AGAIN).await;
            }
            while let Err(error) = registration::register(&client, &judging, &reach, &trust).await {
                tracing::warn!(%error, "the webhooks cannot be registered");
                tokio::time::sleep(AGAIN).await;
            }
            tracing::info!("the webhooks are registered");
        });
        tasks
    }
}
