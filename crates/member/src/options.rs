//! What an operator may choose, with the defaults of the original's flags.

use std::time::Duration;

use flagship_runtime::lease::LeaseConfig;

/// Choices for one member agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Whether namespaces are reported too: `--enable-namespace-collection-in-property-provider`.
    pub collect_namespaces: bool,
    /// The lease to hold on the member while working; `None` for an agent that is alone.
    pub lease: Option<LeaseConfig>,
    /// How long passes under way may take to end when the agent is stopped.
    pub stop_grace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { collect_namespaces: false, lease: None, stop_grace: Duration::from_secs(30) }
    }
}
