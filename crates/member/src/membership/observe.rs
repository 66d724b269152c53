//! What a heartbeat reports: whether the member's API server is ready, and what the member
//! has to offer.

use std::time::Duration;

use flagship_rules::heartbeat::MemberHealth;

use crate::member::Context;
use crate::properties::Collector;

/// Where a member's API server says whether it is ready.
const READYZ: &str = "/readyz";

/// How long the member's API server may take to say it.
pub(super) const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// Looks at the member for its heartbeats.
pub(super) struct Health {
    cx: Context,
    collector: Collector,
}

impl Health {
    pub fn new(cx: &Context, collector: Collector) -> Self {
        Self { cx: cx.clone(), collector }
    }

    /// What is so now.
    pub async fn observe(&self) -> MemberHealth {
        let readyz = self.cx.member.with_timeout(PROBE_TIMEOUT).probe(READYZ).await;
        let told = match &self.cx.provider {
            Some(provider) => Some(provider.ask().await),
            None => None,
        };
        let (collected, runs, provider) = match told {
            Some(told) => (told.collected, told.runs, told.conditions),
            None => (None, false, Vec::new()),
        };
        // Mirrors of a server that does not answer would be out of date.
        let collected = match collected {
            None if !runs && readyz == 200 => self.collector.collect().await,
            told => told,
        };
        MemberHealth { readyz, collected, provider }
    }
}
