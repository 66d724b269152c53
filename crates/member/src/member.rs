//! Starts the agent over its two clients, and stops it in good order.
//!
//! An agent works only while it leads, by a lease on its own cluster: that is where two
//! of them could hurt each other, and the hub may be away. Each tenure begins with empty
//! mirrors, so that restart, failover and an ordinary start are one path.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use flagship_api::names::member_namespace;
use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use flagship_runtime::lease::{Candidate, Ended, Leadership};
use flagship_runtime::metrics::Metrics;
use futures::future::{Either, join, select};
use tokio::task::JoinSet;

use crate::gate::Gate;
use crate::membership::Membership;
use crate::options::Options;
use crate::properties::{Guarded, Provider};
use crate::readiness::{Readiness, Stage};
use crate::work::Works;

/// The agent of one member.
#[derive(Clone)]
pub struct Member {
    name: String,
    member: Client,
    hub: Client,
    env: Env,
    metrics: Metrics,
    options: Options,
    provider: Option<Guarded>,
    stage: Stage,
}

/// Says what is still to be listed.
pub(crate) type Probe = Box<dyn Fn() -> Vec<String> + Send + Sync>;

/// What every part of the agent is given.
#[derive(Clone)]
pub(crate) struct Context {
    /// Name of the member.
    pub name: String,
    /// Its namespace on the hub.
    pub space: String,
    pub member: Client,
    pub hub: Client,
    pub env: Env,
    pub metrics: Metrics,
    pub options: Options,
    pub leadership: Leadership,
    pub gate: Gate,
    pub provider: Option<Guarded>,
}

impl Member {
    /// An agent that does nothing until it runs. `name` is that of its MemberCluster.
    pub fn new(
        name: &str,
        member: Client,
        hub: Client,
        env: Env,
        metrics: Metrics,
        options: Options,
    ) -> Self {
        let options = Options { timing: options.timing.sound(), ..options };
        let stage = Stage::new(Readiness::Idle);
        Self { name: name.to_owned(), member, hub, env, metrics, options, provider: None, stage }
    }

    /// The same with a source of properties besides the built-in one.
    #[must_use]
    pub fn with_provider(self, provider: Arc<dyn Provider>) -> Self {
        Self { provider: Some(Guarded::new(provider)), ..self }
    }

    /// How far this agent has come. Clones of an agent share the answer.
    pub fn ready(&self) -> Readiness {
        self.stage.look()
    }

    /// Runs until `stop` is ready: passes under way are finished, and the lease is given
    /// back. Dropping the future stops everything as a crash would.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let _leaving = self.stage.until_dropped(Readiness::Idle);
        let Some(lease) = self.options.lease.clone() else {
            return self.tenure(Leadership::uncontested(), stop).await;
        };
        let mut candidate = Candidate::new(&self.member, &self.env, lease);
        loop {
            self.stage.enter(|| Readiness::Standby);
            let led = {
                let leading = candidate.lead(|leadership| self.tenure(leadership, stop.as_mut()));
                leading.await
            };
            match led {
                Ended::Finished(()) => return,
                Ended::Lost => tracing::warn!("contending for the lease again"),
            }
        }
    }

    async fn tenure(&self, leadership: Leadership, stop: impl Future<Output = ()>) {
        let cx = Context {
            name: self.name.clone(),
            space: member_namespace(&self.name),
            member: self.member.clone(),
            hub: self.hub.clone(),
            env: self.env.clone(),
            metrics: self.metrics.clone(),
            options: self.options.clone(),
            leadership,
            gate: Gate::default(),
            provider: self.provider.clone(),
        };
        // Dropped with the tenure, and everything in it.
        let mut tasks = JoinSet::new();
        let works = Works::new(&cx, &mut tasks);
        let membership = Membership::new(&cx, &mut tasks);
        let probes = [works.probe(), membership.probe()];
        self.stage.enter(move || {
            let missing: Vec<String> = probes.iter().flat_map(|probe| probe()).collect();
            if missing.is_empty() { Readiness::Working } else { Readiness::Filling(missing) }
        });
        let working = pin!(join(membership.run(), works.run()));
        if let Either::Right(((), working)) = select(working, pin!(stop)).await {
            membership.close();
            works.close();
            if tokio::time::timeout(cx.options.stop_grace, working).await.is_err() {
                tracing::warn!("passes under way did not end in time");
            }
        }
    }
}
