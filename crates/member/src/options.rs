//! What an operator may choose, with the defaults of KubeFleet's flags.

use std::time::Duration;

use flagship_api::names::SYSTEM_NAMESPACE;
use flagship_rules::apply::{self, Ageing, Timing};
use flagship_runtime::lease::LeaseConfig;

/// Choices for one member agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Works that are processed side by side. KubeFleet takes five; ours wait for the
    /// network, not for a thread, and a few that hang must not hold up the rest.
    pub concurrent_works: usize,
    /// When Works are looked at again although nothing happened: the flags
    /// `--work-applier-requeue-rate-limiter-*`.
    pub timing: Timing,
    /// Which changed Works go first: `--enable-work-applier-priority-queue` and the two
    /// coefficients. `None` takes them as they come.
    pub priorities: Option<Ageing>,
    /// How long the deletion of what a Work brought may take before objects with other
    /// owners stop holding it up: `--deletion-wait-time`.
    pub deletion_wait: Duration,
    /// Whether applied objects are watched. Without it changes on the member show when
    /// the Work is looked at again, up to a quarter of an hour later.
    pub watch_applied: bool,
    /// What counts as done.
    pub report: apply::Options,
    /// Whether namespaces are reported too: `--enable-namespace-collection-in-property-provider`.
    pub collect_namespaces: bool,
    /// The namespace on the member in which the agent itself lives; no Work may touch it.
    pub home: String,
    /// Heartbeats come at whole multiples of this span, none later than without it: members of
    /// one process then speak together, and a disk that keeps what they say is flushed once for
    /// many of them. Zero lets each speak for itself.
    pub heartbeats_together: Duration,
    /// The lease to hold on the member while working; `None` for an agent that is alone.
    pub lease: Option<LeaseConfig>,
    /// How long passes under way may take to end when the agent is stopped.
    pub stop_grace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            concurrent_works: 20,
            timing: Timing::default(),
            priorities: None,
            deletion_wait: Duration::from_secs(5 * 60),
            watch_applied: true,
            report: apply::Options::default(),
            collect_namespaces: false,
            home: SYSTEM_NAMESPACE.to_owned(),
            heartbeats_together: Duration::ZERO,
            lease: None,
            stop_grace: Duration::from_secs(30),
        }
    }
}
