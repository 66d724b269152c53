//! Starts every controller over one client, and stops them in good order.
//!
//! A hub works only while it leads. Each tenure begins with empty mirrors, so that
//! restart, failover and an ordinary start are one path; a tenure that is lost is
//! dropped where it stands, and its late writes are fenced.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use flagship_runtime::client::{Client, ResourceType};
use flagship_runtime::controller::Controllers;
use flagship_runtime::env::Env;
use flagship_runtime::lease::{Leadership, run_while_leading};
use flagship_runtime::metrics::Metrics;
use flagship_runtime::readiness::{Readiness, ReadinessState};
use futures::future::{Either, select};
use jiff::Timestamp;
use tokio::task::JoinSet;

use crate::definitions::{self, Undefined};
use crate::malformed_events::MalformedEvents;
use crate::mirrors::Mirrors;
use crate::options::Options;
use crate::placement::Selectable;
use crate::{
    back_report, checks, eviction, inventory, membership, notification, overrides, placement,
    rollout, scheduling, update_run, work,
};

/// The controllers of one hub.
#[derive(Clone)]
pub struct Hub {
    client: Client,
    env: Env,
    metrics: Metrics,
    options: Options,
    readiness: ReadinessState,
}

/// What every controller is given.
#[derive(Clone)]
pub(crate) struct Context {
    pub client: Client,
    pub env: Env,
    pub metrics: Metrics,
    pub options: Options,
    pub leadership: Leadership,
    /// What others are told when they ask whether this hub is ready.
    pub readiness: ReadinessState,
    /// Which records have grown, for the channels that tell of it.
    pub notices: notification::Notices,
    /// The checks that runs want asked.
    pub checks: checks::Checks,
    /// When the mirrors were filled: what members say is heard since then.
    pub listening_since: Timestamp,
}

impl Hub {
    /// A hub that does nothing until it runs.
    pub fn new(client: Client, env: Env, metrics: Metrics, options: Options) -> Self {
        Self { client, env, metrics, options, readiness: ReadinessState::default() }
    }

    /// The resources that this hub mirrors whole, one by one. What users place is looked at
    /// besides.
    pub fn mirrors(&self) -> Vec<ResourceType> {
        Mirrors::new(&self.client, &self.env, &self.options).1.resources()
    }

    /// How far this hub has come. Clones of a hub share the answer.
    pub fn ready(&self) -> Readiness {
        self.readiness.get()
    }

    /// Looks whether the server has every definition this hub needs, for a few seconds. Who
    /// starts a hub asks this first: one that runs without them only waits.
    pub async fn look_for_definitions(&self) -> Result<(), Undefined> {
        definitions::look_for(&self.client, &self.options).await
    }

    /// Runs all controllers until `stop` is ready: passes under way are finished, and
    /// the lease is given back. Dropping the future stops everything as a crash would.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let tenure = |leadership, stop| self.tenure(leadership, stop);
        let lease = self.options.lease.clone();
        run_while_leading(&self.client, &self.env, lease, &self.readiness, stop, tenure).await;
    }

    /// One tenure, from the first list to the last pass.
    async fn tenure(&self, leadership: Leadership, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let mut cx = Context {
            client: self.client.clone(),
            env: self.env.clone(),
            metrics: self.metrics.clone(),
            options: self.options.clone(),
            leadership,
            readiness: self.readiness.clone(),
            notices: notification::Notices::new(&self.metrics),
            checks: checks::Checks::new(&self.metrics),
            listening_since: self.env.now(),
        };
        // Dropped with the tenure, and everything in it.
        let mut tasks = JoinSet::new();
        let (mirrors, mut filling) = Mirrors::new(&cx.client, &cx.env, &cx.options);
        let malformed = MalformedEvents::new(&cx, &mut tasks);
        let _recording = filling.record_malformed(&malformed);
        cx.readiness.set(filling.probe());
        let wanted = cx.options.controllers;
        {
            let starting = pin!(filling.start(&mut tasks));
            if let Either::Right(_) = select(starting, stop.as_mut()).await {
                return;
            }
        }
        tracing::info!("the mirrors are filled");
        cx.listening_since = cx.env.now();
        cx.readiness.set(|| Readiness::Working);
        let mirrors = Arc::new(mirrors);
        let membership = wanted.membership.then(|| membership::controllers(&cx, &mirrors));
        // Both placements and update runs freeze what is selected.
        let selectable = (wanted.placement || wanted.update_runs)
            .then(|| Arc::new(Selectable::new(&cx, &mut tasks)));
        let selectable = selectable.as_ref();
        let placements = selectable.filter(|_| wanted.placement);
        let placements = placements.map(|it| placement::controllers(&cx, &mirrors, it, &malformed));
        let update_runs = selectable.filter(|_| wanted.update_runs);
        let update_runs = update_runs.map(|it| update_run::controllers(&cx, &mirrors, it));
        let notifications = wanted.update_runs.then(|| notification::controllers(&cx, &mirrors));
        let checks = wanted.update_runs.then(|| checks::controllers(&cx, &mirrors));
        let overrides = wanted.overrides.then(|| overrides::controllers(&cx, &mirrors));
        let rollouts = wanted.rollout.then(|| rollout::controllers(&cx, &mirrors));
        let scheduler = wanted.scheduling.then(|| scheduling::controllers(&cx, &mirrors));
        let evictions = wanted.eviction.then(|| eviction::controllers(&cx, &mirrors));
        let works = wanted.work.then(|| work::controllers(&cx, &mirrors));
        // Without profiles only what an earlier hub left on leaving members is cleaned up.
        let inventory = wanted.membership.then(|| inventory::controllers(&cx, &mirrors));
        let back_reports = wanted.work.then(|| back_report::controllers(&cx, &mirrors));
        // In the order in which they take their first keys, which simulations repeat.
        let controllers: Controllers = [
            membership,
            placements,
            scheduler,
            overrides,
            rollouts,
            update_runs,
            evictions,
            works,
            back_reports,
            inventory,
            notifications,
            checks,
        ]
        .into_iter()
        .flatten()
        .flatten()
        .collect();
        controllers.run(stop, cx.options.stop_grace).await;
    }
}
