//! The hub's admission webhooks on a real API server.
//!
//! Three questions, a file each: `review` reads what the API server asks and writes the
//! answer, `serving` speaks HTTPS, `registration` tells the API server where to ask. The
//! answers themselves are `flagship_hub::admission`'s; every replica gives them, whoever
//! leads registers.
//!
//! Which certificate they show is [`Certificate`]'s: one of this process alone, with an authority
//! that is made at every start, so that of several replicas the API server trusts the leader
//! alone; one that all replicas keep in a Secret (`shared`); or the one that cert-manager keeps,
//! which also tells the API server whom to trust.

mod registration;
mod review;
mod serving;
mod shared;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use flagship_api::names::ObjectKey;
use flagship_edge::Authority;
use flagship_hub::admission::{Admission, Options};
use flagship_hub::{Hub, Readiness};
use flagship_rules::admission::{Webhook, guard_rails, webhooks};
use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use flagship_runtime::metrics::Metrics;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use registration::{Reach, Trust};
use serving::Answering;
use shared::{Kept, SharedCertificate};

use super::endpoints;
use super::tls::{Shown, Tls};

/// How often the Secret of a shared certificate is looked at, in units of [`AGAIN`].
const LOOKS: u32 = 12;

/// What is registered, and where.
struct Registering {
    client: Client,
    judging: Judging,
    reach: Reach,
}

/// Shows the certificate that all replicas share, and the next one as soon as the API server
/// trusts it, which whoever leads tells it.
async fn keep_up(
    registering: Registering,
    hub: Hub,
    all: SharedCertificate,
    first: Kept,
    shown: Arc<Shown>,
) {
    let Registering { client, judging, reach } = &registering;
    let (mut wanted, mut shows) = (first.clone(), first);
    let mut registered: Option<String> = None;
    for tick in 0_u32.. {
        if tick % LOOKS == 0 {
            match all.obtain().await {
                Ok(found) => wanted = found,
                Err(error) => tracing::warn!("the webhooks keep their certificate: {error:#}"),
            }
        }
        let leads = !matches!(hub.ready(), Readiness::Idle | Readiness::Standby);
        // Another may have registered while this one did not lead.
        registered = registered.filter(|_| leads);
        if leads && registered.as_ref() != Some(&wanted.bundle) {
            let trust = Trust::Bundle(wanted.bundle.clone());
            match registration::register(client, judging, reach, &trust).await {
                Ok(()) => {
                    tracing::info!("the webhooks are registered");
                    registered = Some(wanted.bundle.clone());
                }
                Err(error) => tracing::warn!(%error, "the webhooks cannot be registered"),
            }
        }
        if wanted != shows && registration::trusts(client, wanted.authority()).await {
            match shown.replace(&wanted.shown) {
                Ok(()) => shows = wanted.clone(),
                Err(error) => tracing::warn!("the new certificate is no good: {error:#}"),
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// How often a hub that does not lead yet is asked, and a refused registration tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// What a hub judges writes by.
#[derive(Clone, Debug, Default)]
pub struct Judging {
    /// What may be written.
    pub options: Options,
    /// Who may write, if guard rails are wanted.
    pub guard_rails: Option<Arc<guard_rails::Options>>,
    /// As whom the API server knows the hub, which alone writes records and the status of runs;
    /// without it nobody is asked about these.
    pub hub_user: Option<String>,
}

impl Judging {
    /// The checks that are registered and answered.
    fn webhooks(&self) -> impl Iterator<Item = &'static Webhook> {
        let knows_hub = self.hub_user.is_some();
        webhooks(self.options).filter(move |webhook| knows_hub || !webhook.must_know_the_hub())
    }
}

/// Where a Secret with cert-manager's certificate is mounted.
pub const CERTIFICATE_FOLDER: &str = "/tmp/k8s-webhook-server/serving-certs";

/// Which certificate webhooks show.
pub enum Certificate<'a> {
    /// One of this process alone.
    Own,
    /// The one that all replicas keep in this Secret.
    Shared(ObjectKey),
    /// The one that cert-manager keeps in this folder.
    Folder(&'a Path),
}

/// A listener with a certificate, not yet known to the API server.
pub struct Webhooks {
    client: Client,
    judging: Judging,
    reach: Reach,
    listener: TcpListener,
    trust: Trust,
    tls: Tls,
    pending: Pending,
    /// A certificate that is renewed while it is shown.
    shared: Option<(SharedCertificate, Kept, Arc<Shown>)>,
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
    /// Listens at an address, everywhere if none is named, with this certificate.
    pub async fn listen(
        client: &Client,
        env: &Env,
        judging: Judging,
        reach: Reach,
        address: (&str, u16),
        certificate: Certificate<'_>,
    ) -> anyhow::Result<Self> {
        let (host, port) = address;
        let listener = match host {
            "" => endpoints::everywhere(port).await,
            _ => TcpListener::bind(address).await,
        };
        let listener = listener.with_context(|| {
            format!(
                "cannot listen on {host}:{port} for webhooks (--webhook-port and \
                 --webhook-bind-address choose another place, --enable-webhook=false turns them off)"
            )
        })?;
        Self::on(listener, client, env, judging, reach, certificate).await
    }

    async fn on(
        listener: TcpListener,
        client: &Client,
        env: &Env,
        judging: Judging,
        reach: Reach,
        certificate: Certificate<'_>,
    ) -> anyhow::Result<Self> {
        let mut shared = None;
        let (tls, trust) = match certificate {
            Certificate::Folder(folder) => {
                (Tls::kept_in(folder, "--use-cert-manager")?, Trust::Injected)
            }
            Certificate::Own => {
                let authority = Authority::create(env.now())?;
                let shown = authority.server(&reach.names(), env.now())?;
                let bundle = authority.certificate_pem().to_owned();
                (Tls::of(&Shown::new(&shown)?)?, Trust::Bundle(bundle))
            }
            Certificate::Shared(secret) => {
                let all = SharedCertificate::new(client, env, secret, reach.names());
                let kept = all.obtain().await?;
                let shown = Shown::new(&kept.shown)?;
                let (tls, bundle) = (Tls::of(&shown)?, kept.bundle.clone());
                shared = Some((all, kept, shown));
                (tls, Trust::Bundle(bundle))
            }
        };
        let (client, pending) = (client.clone(), Pending::default());
        Ok(Self { client, judging, reach, listener, trust, tls, pending, shared })
    }

    /// What stands between the API server and these webhooks, whenever it is asked.
    pub fn pending(&self) -> Pending {
        self.pending.clone()
    }

    /// Answers until the set is dropped, and registers once the hub leads.
    pub fn serve(self, hub: Hub, metrics: Metrics) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let admission = Admission::new(&self.client, self.judging.options);
        let answering = Answering { admission, judging: self.judging.clone(), metrics };
        tasks.spawn(serving::serve(self.listener, self.tls, answering));
        let Self { client, judging, reach, trust, pending, shared, .. } = self;
        if let Some((all, kept, shown)) = shared {
            let registering = Registering { client, judging, reach };
            tasks.spawn(keep_up(registering, hub, all, kept, shown));
            return tasks;
        }
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
