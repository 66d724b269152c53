//! What a benchmark needs of this controller: mirrors that are filled, and what a pass over
//! a run reads from them. Nothing is written, and no controller runs.

use flagship_api::names::ObjectKey;
use flagship_rules::update_run::Observed;
use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use flagship_runtime::lease::Leadership;
use flagship_runtime::metrics::Metrics;
use flagship_runtime::readiness::ReadinessState;
use tokio::task::JoinSet;

use super::observe::{Departed, observe};
use crate::hub::Context;
use crate::mirrors::Mirrors;
use crate::notification::Notices;
use crate::options::Options;

/// The filled mirrors of a hub that does nothing.
pub struct FilledMirrors {
    cx: Context,
    mirrors: Mirrors,
    departed: Departed,
    _reflectors: JoinSet<()>,
}

impl FilledMirrors {
    /// Lists everything that a hub mirrors.
    pub async fn new(client: Client, env: Env) -> Self {
        let metrics = Metrics::default();
        let cx = Context {
            client,
            listening_since: env.now(),
            env,
            notices: Notices::new(&metrics),
            checks: crate::checks::Checks::new(&metrics),
            metrics,
            options: Options::default(),
            leadership: Leadership::uncontested(),
            readiness: ReadinessState::default(),
        };
        let mut reflectors = JoinSet::new();
        let (mirrors, filling) = Mirrors::new(&cx.client, &cx.env, &cx.options);
        filling.start(&mut reflectors).await;
        Self { cx, mirrors, departed: Departed::default(), _reflectors: reflectors }
    }

    /// What a pass over an initialized run reads; `None` if there is no such run.
    pub fn observe(&self, run: &ObjectKey) -> Option<Observed> {
        let scope = self.mirrors.of(run)?;
        let run = scope.runs.runs.get(run)?;
        Some(observe(&self.cx, &self.mirrors.members, scope, &self.departed, &run).observed)
    }
}
