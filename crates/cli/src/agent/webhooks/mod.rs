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

use std::time::Duration;

use anyhow::Context;
use flagship_edge::Authority;
use flagship_hub::admission::{Admission, Options};
use flagship_hub::{Hub, Readiness};
use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use registration::Reach;

/// Where webhooks have always been served.
const ADDRESS: &str = "0.0.0.0:9443";

/// How often a hub that does not lead yet is asked, and a refused registration tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// A listener with a certificate, not yet known to the API server.
pub struct Webhooks {
    client: Client,
    options: Options,
    reach: Reach,
    listener: TcpListener,
    authority: Authority,
    tls: serving::Tls,
}

impl Webhooks {
    /// Listens where KubeFleet does.
    pub async fn listen(
        client: &Client,
        env: &Env,
        options: Options,
        reach: Reach,
    ) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(ADDRESS).await.with_context(|| {
            format!(
                "cannot listen on {ADDRESS} for webhooks (--enable-webhook=false turns them off)"
            )
        })?;
        Self::on(listener, client, env, options, reach)
    }

    fn on(
        listener: TcpListener,
        client: &Client,
        env: &Env,
        options: Options,
        reach: Reach,
    ) -> anyhow::Result<Self> {
        let authority = Authority::create(env.now())?;
        let shown = authority.server(&reach.names(), env.now())?;
        let tls = serving::Tls::new(&shown)?;
        Ok(Self { client: client.clone(), options, reach, listener, authority, tls })
    }

    /// Answers until the set is dropped, and registers once the hub leads.
    pub fn serve(self, hub: Hub) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let admission = Admission::new(&self.client, self.options);
        tasks.spawn(serving::serve(self.listener, self.tls, admission, self.options));
        let Self { client, options, reach, authority, .. } = self;
        tasks.spawn(async move {
            while matches!(hub.ready(), Readiness::Idle | Readiness::Standby) {
                tokio::time::sleep(AGAIN).await;
            }
            let ca = authority.certificate_pem();
            while let Err(error) = registration::register(&client, options, &reach, ca).await {
                tracing::warn!(%error, "the webhooks cannot be registered");
                tokio::time::sleep(AGAIN).await;
            }
            tracing::info!("the webhooks are registered");
        });
        tasks
    }
}
