//! Records of runs: what happened, append-only, each entry with the hash of the one before.
//!
//! Which entries a run owes its record is decided in `update_run::recorded`, from the record
//! and the status about to be written, so that a pass after a crash owes exactly what is
//! missing. Here: how entries are chained and verified (`chain`), who is behind one (`who`),
//! and how long records are kept (`retention`).

pub mod chain;
pub mod retention;
pub mod who;

use flagship_api::rollout_record::{
    Measured, RecordEntry, RecordedPlan, RecordedPolicy, What, Who,
};
use serde::{Deserialize, Serialize};

/// Of which runs records are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Keep {
    /// Of none.
    Off,
    /// Of runs that follow a rollout policy.
    #[default]
    Policies,
    /// Of all.
    All,
}

impl Keep {
    /// Whether a record is kept of a run that follows policies or none.
    pub fn keeps(self, policed: bool) -> bool {
        match self {
            Self::Off => false,
            Self::Policies => policed,
            Self::All => true,
        }
    }
}

/// What a pass has to add to the record before it does anything else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// How the record begins, if there is none yet.
    pub head: Option<Head>,
    /// Entries, in order.
    pub drafts: Vec<EntryDraft>,
}

/// What a status keeps for good. A hub that finds an entry of these missing writes it then, and
/// it says the same.
const KEPT_BY_STATUS: [What; 7] = [
    What::StageBegan,
    What::StageDone,
    What::ClusterBegan,
    What::ClusterDone,
    What::ClusterFailed,
    What::GateWaits,
    What::WaitOver,
];

impl Recording {
    /// Whether the entries may be stored after the status that tells of them. Not how a record
    /// begins, how it ends, what may turn again, and what is known of people only now.
    pub fn follows_from_status(&self) -> bool {
        self.head.is_none() && self.drafts.iter().all(|draft| KEPT_BY_STATUS.contains(&draft.what))
    }
}

/// How a record begins.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// What the run is going to do.
    pub plan: RecordedPlan,
    /// The policies it follows.
    pub policies: Vec<RecordedPolicy>,
}

/// An entry without number, time and hash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EntryDraft {
    /// What happened.
    pub what: What,
    /// Who did it, or where to look for that.
    pub who: Asked,
    /// The stage it is about.
    pub stage: Option<String>,
    /// The cluster it is about.
    pub cluster: Option<String>,
    /// The gate it is about.
    pub gate: Option<String>,
    /// Why, as a code.
    pub cause: Option<String>,
    /// The same in words.
    pub text: Option<String>,
    /// What a check has measured.
    #[serde(default)]
    pub measured: Option<Measured>,
}

/// Who did something, or where that is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Asked {
    /// The hub by itself.
    Hub,
    /// This one.
    Known(Who),
    /// Who created the run.
    Creator,
    /// Who wrote the run's state.
    State,
    /// Who wrote the approval of this request.
    Approval(String),
}

impl EntryDraft {
    /// About the whole run.
    pub fn of(what: What) -> Self {
        let (stage, cluster, gate, cause, text) = (None, None, None, None, None);
        Self { what, who: Asked::Hub, stage, cluster, gate, cause, text, measured: None }
    }

    /// About a stage.
    #[must_use]
    pub fn stage(self, stage: &str) -> Self {
        Self { stage: Some(stage.to_owned()), ..self }
    }

    /// About a cluster.
    #[must_use]
    pub fn cluster(self, cluster: &str) -> Self {
        Self { cluster: Some(cluster.to_owned()), ..self }
    }

    /// About a gate.
    #[must_use]
    pub fn gate(self, gate: String) -> Self {
        Self { gate: Some(gate), ..self }
    }

    /// For this cause.
    #[must_use]
    pub fn cause(self, cause: &str) -> Self {
        Self { cause: Some(cause.to_owned()), ..self }
    }

    /// In these words.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        Self { text: (!text.is_empty()).then(|| shortened(text)), ..self }
    }

    /// With what a check has measured.
    #[must_use]
    pub fn measured(self, measured: Option<Measured>) -> Self {
        Self { measured, ..self }
    }

    /// By somebody.
    #[must_use]
    pub fn by(self, who: Asked) -> Self {
        Self { who, ..self }
    }

    /// What it is about. Nothing of the same subject happens twice in a run, but for what
    /// holds it: stops, freezes, closed windows, stuck clusters.
    pub fn subject(&self) -> Subject<'_> {
        (self.what, part(&self.stage), part(&self.cluster), part(&self.gate))
    }
}

/// What an entry is about: what happened, and in which stage, on which cluster, at which gate.
pub type Subject<'a> = (What, &'a str, &'a str, &'a str);

fn part(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or_default()
}

/// What an entry is about.
pub fn subject(entry: &RecordEntry) -> Subject<'_> {
    (entry.what, part(&entry.stage), part(&entry.cluster), part(&entry.gate))
}

/// Longer words are cut: one message must not fill a record.
const LONGEST: usize = 1000;

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some((at, _)) => format!("{} ...", &text[..at]),
    }
}

/// The last entry of one of these sorts.
pub fn last_of<'a>(entries: &'a [RecordEntry], sorts: &[What]) -> Option<&'a RecordEntry> {
    entries.iter().rev().find(|entry| sorts.contains(&entry.what))
}
