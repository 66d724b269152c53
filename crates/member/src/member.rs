//! Starts the agent over its two clients, and stops it in good order.
//!
//! An agent works only while it leads, by a lease on its own cluster: that is where two
//! of them could hurt each other, and the hub may be away. Each tenure begins with empty
//! mirrors, so that restart, failover and an ordinary start are one path.

use std::future::Future;
use std::sync::Arc;

use flagship_api::names::member_namespace;
use flagship_runtime::client::Client;
use flagship_runtime::controller::Controllers;
use flagship_runtime::env::Env;
use flagship_runtime::lease::{Leadership, run_while_leading};
use flagship_runtime::metrics::Metrics;
use flagship_runtime::readiness::{Readiness, ReadinessState};
use tokio::task::JoinSet;

use crate::options::Options;
use crate::participation::Participation;
use crate::properties::{Guarded, Provider};
use crate::{membership, work};

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
    readiness: ReadinessState,
}

/// Says what is still to be listed.
pub(crate) type Unlisted = Box<dyn Fn() -> Vec<String> + Send + Sync>;

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
    pub participation: Participation,
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
        let readiness = ReadinessState::default();
        Self {
            name: name.to_owned(),
            member,
            hub,
            env,
            metrics,
            options,
            provider: None,
            readiness,
        }
    }

    /// The same with a source of properties besides the built-in one.
    #[must_use]
    pub fn with_provider(self, provider: Arc<dyn Provider>) -> Self {
        Self { provider: Some(Guarded::new(provider)), ..self }
    }

    /// How far this agent has come. Clones of an agent share the answer.
    pub fn ready(&self) -> Readiness {
        self.readiness.get()
    }

    /// Runs until `stop` is ready: passes under way are finished, and the lease is given
    /// back. Dropping the future stops everything as a crash would.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let tenure = |leadership, stop| self.tenure(leadership, stop);
        let lease = self.options.lease.clone();
        run_while_leading(&self.member, &self.env, lease, &self.readiness, stop, tenure).await;
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
            participation: Participation::default(),
            provider: self.provider.clone(),
        };
        // Dropped with the tenure: what fills the mirrors.
        let mut tasks = JoinSet::new();
        let (works, unlisted_works) = work::controller(&cx, &mut tasks);
        let (membership, unlisted_internals) = membership::controller(&cx, &mut tasks);
        self.readiness.set(move || {
            let missing = [unlisted_works(), unlisted_internals()].concat();
            if missing.is_empty() { Readiness::Working } else { Readiness::Filling(missing) }
        });
        let controllers = Controllers::from_iter([membership, works]);
        controllers.run(stop, cx.options.stop_grace).await;
    }
}
