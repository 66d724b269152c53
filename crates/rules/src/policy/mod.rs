//! Rollout policies and freezes: what a run has to heed beside its strategy.
//!
//! Everything here is decided from what was seen, and `update_run` asks at few places:
//! which policies a run follows when it is initialized, whether something may begin
//! (`update_run::held`), and what becomes of clusters (`update_run::policed`). Without policies and freezes all of
//! them answer as if this module were not there (law P7).

pub mod adopted;
pub mod approvals;
pub mod before;
pub mod checks;
pub mod freeze;
pub mod order;
pub mod quarantine;
pub mod selects;
pub mod windows;

use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_api::staged_update::UpdateRunSpec;
use serde::{Deserialize, Serialize};

use crate::diagnosis::report::Reported;
use crate::update_run::Run;
pub use adopted::{Adopted, Policy, Undoes};
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

/// What a run reads of one that bears the name of its rollback.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Follower {
    /// The UID of the run that it says it takes back.
    pub rollback_of: Option<String>,
    /// What it wants.
    pub spec: UpdateRunSpec,
}

/// What a pass sees of policies and freezes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Every freeze there is.
    pub freezes: Vec<Arc<Freeze>>,
    /// What people said to the run's approval requests.
    #[serde(default)]
    pub words: Vec<Arc<approvals::Word>>,
    /// Every policy there is; only read until the run is initialized.
    #[serde(default)]
    pub policies: Vec<Policy>,
    /// Labels by which runs are selected; read where a selector asks for them.
    pub labels: Labels,
    /// Why objects of clusters under way are not available, as agents report it; only read
    /// where a policy wants to know.
    #[serde(default)]
    pub reports: BTreeMap<String, Vec<Reported>>,
    /// What clusters of the placement have succeeded with, by version; only read to initialize
    /// a run that may be rolled back.
    #[serde(default)]
    pub proven: before::ByVersion,
    /// What the run brings; only read once it is initialized.
    #[serde(default)]
    pub brought: Option<quarantine::Brought>,
    /// The run that this one says it takes back; only read until the run is initialized.
    #[serde(default)]
    pub source: Option<Box<Run>>,
    /// The run that bears the name of this one's rollback, if there is one.
    #[serde(default)]
    pub follower: Option<Box<Follower>>,
    /// Where the checks stand that the run asks.
    #[serde(default)]
    pub checks: Vec<checks::Standing>,
}
