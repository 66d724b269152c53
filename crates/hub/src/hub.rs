//! Starts every controller over one client, and stops them in good order.
//!
//! A hub works only while it leads. Each tenure begins with empty mirrors, so that
//! restart, failover and an ordinary start are one path; a tenure that is lost is
//! dropped where it stands, and its late writes are fenced.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use flagship_runtime::client::{Client, ResourceType};
use flagship_runtime::env::Env;
use flagship_runtime::lease::{Candidate, Ended, Leadership};
use flagship_runtime::metrics::Metrics;
use futures::future::{Either, OptionFuture, select};
use tokio::task::JoinSet;

use crate::back_report::BackReports;
use crate::complaints::Complaints;
use crate::definitions::{self, Undefined};
use crate::eviction::Evictions;
use crate::membership::Membership;
use crate::mirrors::Mirrors;
use crate::options::Options;
use crate::overrides::Overrides;
use crate::placement::{Placements, Selectable};
use crate::readiness::{Readiness, Stage};
use crate::rollout::Rollouts;
use crate::scheduling::Scheduler;
use crate::update_run::UpdateRuns;
use crate::work::Works;

/// The controllers of one hub.
#[derive(Clone)]
pub struct Hub {
    client: Client,
    env: Env,
    metrics: Metrics,
    options: Options,
    stage: Stage,
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
    pub stage: Stage,
}

impl Hub {
    /// A hub that does nothing until it runs.
    pub fn new(client: Client, env: Env, metrics: Metrics, options: Options) -> Self {
        Self { client, env, metrics, options, stage: Stage::new(Readiness::Idle) }
    }

    /// The resources that this hub mirrors whole, one by one. What users place is looked at
    /// besides.
    pub fn mirrors(&self) -> Vec<ResourceType> {
        Mirrors::new(&self.client, &self.env, &self.options).1.resources()
    }

    /// How far this hub has come. Clones of a hub share the answer.
    pub fn ready(&self) -> Readiness {
        self.stage.look()
    }

    /// Looks whether the server has every definition this hub needs, for a few seconds. Who
    /// starts a hub asks this first: one that runs without them only waits.
    pub async fn look_for_definitions(&self) -> Result<(), Undefined> {
        definitions::look_for(&self.client, &self.options).await
    }

    /// Runs all controllers until `stop` is ready: passes under way are finished, and
    /// the lease is given back. Dropping the future stops everything as a crash would.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let _leaving = self.stage.until_dropped(Readiness::Idle);
        let Some(lease) = self.options.lease.clone() else {
            return self.tenure(Leadership::uncontested(), stop).await;
        };
        let mut candidate = Candidate::new(&self.client, &self.env, lease);
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

    /// One tenure, from the first list to the last pass.
    async fn tenure(&self, leadership: Leadership, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let cx = Context {
            client: self.client.clone(),
            env: self.env.clone(),
            metrics: self.metrics.clone(),
            options: self.options.clone(),
            leadership,
            stage: self.stage.clone(),
        };
        // Dropped with the tenure, and everything in it.
        let mut tasks = JoinSet::new();
        let (mirrors, mut filling) = Mirrors::new(&cx.client, &cx.env, &cx.options);
        let complaints = Complaints::new(&cx, &mut tasks);
        let _complaining = filling.complain(&complaints);
        cx.stage.enter(filling.probe());
        let wanted = cx.options.controllers;
        {
            let starting = pin!(filling.start(&mut tasks));
            if let Either::Right(_) = select(starting, stop.as_mut()).await {
                return;
            }
        }
        tracing::info!("the mirrors are filled");
        cx.stage.enter(|| Readiness::Working);
        let mirrors = Arc::new(mirrors);
        let membership = wanted.membership.then(|| Membership::new(&cx, &mirrors, &mut tasks));
        // Both placements and update runs freeze what is selected.
        let selectable = (wanted.placement || wanted.update_runs)
            .then(|| Arc::new(Selectable::new(&cx, &mut tasks)));
        let selectable = selectable.as_ref();
        let placements = selectable.filter(|_| wanted.placement);
        let placements =
            placements.map(|it| Placements::new(&cx, &mirrors, it, &complaints, &mut tasks));
        let update_runs = selectable.filter(|_| wanted.update_runs);
        let update_runs = update_runs.map(|it| UpdateRuns::new(&cx, &mirrors, it, &mut tasks));
        let overrides = wanted.overrides.then(|| Overrides::new(&cx, &mirrors));
        let rollouts = wanted.rollout.then(|| Rollouts::new(&cx, &mirrors));
        let scheduler = wanted.scheduling.then(|| Scheduler::new(&cx, &mirrors, &mut tasks));
        let evictions = wanted.eviction.then(|| Evictions::new(&cx, &mirrors));
        let works = wanted.work.then(|| Works::new(&cx, &mirrors, &mut tasks));
        let back_reports = wanted.work.then(|| BackReports::new(&cx, &mirrors, &mut tasks));
        let working = pin!(async {
            futures::join!(
                OptionFuture::from(membership.as_ref().map(Membership::run)),
                OptionFuture::from(placements.as_ref().map(Placements::run)),
                OptionFuture::from(scheduler.as_ref().map(Scheduler::run)),
                OptionFuture::from(overrides.as_ref().map(Overrides::run)),
                OptionFuture::from(rollouts.as_ref().map(Rollouts::run)),
                OptionFuture::from(update_runs.as_ref().map(UpdateRuns::run)),
                OptionFuture::from(evictions.as_ref().map(Evictions::run)),
                OptionFuture::from(works.as_ref().map(Works::run)),
                OptionFuture::from(back_reports.as_ref().map(BackReports::run)),
            )
        });
        if let Either::Right(((), working)) = select(working, stop).await {
            membership.iter().for_each(Membership::close);
            placements.iter().for_each(Placements::close);
            scheduler.iter().for_each(Scheduler::close);
            overrides.iter().for_each(Overrides::close);
            rollouts.iter().for_each(Rollouts::close);
            update_runs.iter().for_each(UpdateRuns::close);
            evictions.iter().for_each(Evictions::close);
            works.iter().for_each(Works::close);
            back_reports.iter().for_each(BackReports::close);
            if tokio::time::timeout(cx.options.stop_grace, working).await.is_err() {
                tracing::warn!("passes under way did not end in time");
            }
        }
    }
}
