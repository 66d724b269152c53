//! The hub's admission webhooks on a real API server.
//!
//! Three questions, a file each: `review` reads what the API server asks and writes the
//! answer, `serving` speaks HTTPS, `registration` tells the API server where to ask. The
//! answers themselves are `flagship_hub::admission`'s; every replica gives them, whoever
//! leads registers.
//!
//! The certificate authority is made anew at every start and known to nobody else, so that
//! there is no key to keep; with several replicas the API server trusts the leader alone.

mod registration;
mod review;
mod serving;

#[cfg(test)]
mod tests;

use std::sync::Arc;
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

pub use registration::Reach;

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

/// A listener with a certificate, not yet known to the API server.
pub struct Webhooks {
    client: Client,
    judging: Judging,
    reach: Reach,
    listener: TcpListener,
    authority: Authority,
    tls: serving::Tls,
}

impl Webhooks {
    /// Listens at an address.
    pub async fn listen(
        client: &Client,
        env: &Env,
        judging: Judging,
        reach: Reach,
        address: (&str, u16),
    ) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).await.with_context(|| {
            let (host, port) = address;
            format!(
                "cannot listen on {host}:{port} for webhooks (--webhook-port and \
                 --webhook-bind-address choose another place, --enable-webhook=false turns them off)"
            )
        })?;
        Self::on(listener, client, env, judging, reach)
    }

    fn on(
        listener: TcpListener,
        client: &Client,
        env: &Env,
        judging: Judging,
        reach: Reach,
    ) -> anyhow::Result<Self> {
        let authority = Authority::create(env.now())?;
        let shown = authority.server(&reach.names(), env.now())?;
        let tls = serving::Tls::new(&shown)?;
        Ok(Self { client: client.clone(), judging, reach, listener, authority, tls })
    }

    /// Answers until the set is dropped, and registers once the hub leads.
    pub fn serve(self, hub: Hub) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let admission = Admission::new(&self.client, self.judging.options);
        tasks.spawn(serving::serve(self.listener, self.tls, admission, self.judging.clone()));
        let Self { client, judging, reach, authority, .. } = self;
        tasks.spawn(async move {
            while matches!(hub.ready(), Readiness::Idle | Readiness::Standby) {
                tokio::time::sleep(AGAIN).await;
            }
            let ca = authority.certificate_pem();
            while let Err(error) = registration::register(&client, &judging, &reach, ca).await {
                tracing::warn!(%error, "the webhooks cannot be registered");
                tokio::time::sleep(AGAIN).await;
            }
            tracing::info!("the webhooks are registered");
        });
        tasks
    }
}
