//! Rollout policies and freezes: what a run has to heed beside its strategy.
//!
//! Everything here is decided from what was seen, and `update_run` asks at few places:
//! which policies a run follows when it is initialized, whether something may begin
//! (`update_run::held`), and what becomes of clusters (`update_run::policed`). Without policies and freezes all of
//! them answer as if this module were not there (law P7).

pub mod adopted;
pub mod freeze;
pub mod order;
pub mod selects;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::diagnosis::report::Reported;
pub use adopted::{Adopted, Policy};
pub use freeze::Freeze;
pub use selects::Labels;

/// A cluster that somebody wants to be left out of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skip {
    /// Why.
    pub reason: String,
    /// Who says so, as the command line was told.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
}

/// What a pass sees of policies and freezes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Every freeze there is.
    pub freezes: Vec<Arc<Freeze>>,
    /// Every policy there is; only read until the run is initialized.
    #[serde(default)]
    pub policies: Vec<Policy>,
    /// Labels by which runs are selected; read where a selector asks for them.
    pub labels: Labels,
    /// Why objects of clusters under way are not available, as agents report it; only read
    /// where a policy wants to know.
    #[serde(default)]
    pub reports: BTreeMap<String, Vec<Reported>>,
}
