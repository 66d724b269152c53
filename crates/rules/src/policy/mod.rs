//! Rollout policies and freezes: what a run has to heed beside its strategy.
//!
//! Everything here is decided from what was seen, and `update_run` asks at few places:
//! whether something may begin (`update_run::held`). Without policies and freezes all of
//! them answer as if this module were not there (law P7).

pub mod freeze;
pub mod selects;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use freeze::Freeze;
pub use selects::Labels;

/// What a pass sees of policies and freezes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Every freeze there is.
    pub freezes: Vec<Arc<Freeze>>,
    /// Labels by which runs are selected; read where a selector asks for them.
    pub labels: Labels,
}
