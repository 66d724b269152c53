//! From API objects to what the scheduler sees, and back. Both scopes meet here.

use flagship_api::binding::BindingState;
use flagship_api::condition::{Condition, Conditions};
use flagship_api::condition_type::policy_snapshot::SCHEDULED;
use flagship_api::snapshot::{ClusterDecision, ClusterScore};
use flagship_base::go_number::atoi;

use super::decision::{Decision, Score, Verdict};
use super::observed::State;
use crate::model::{Binding, PolicySnapshot};

impl Binding {
    /// The state, as far as the scheduler tells states apart.
    pub fn state(&self) -> State {
        match self.spec.state {
            BindingState::Scheduled => State::Scheduled,
            BindingState::Bound => State::Bound,
            BindingState::Unscheduled => State::Unscheduled,
            BindingState::Other(_) => State::Foreign,
        }
    }

    /// The state it had before it was let go, where its annotation names a live one.
    pub fn previous_state(&self) -> Option<State> {
        match self.previous.as_deref() {
            Some("Scheduled") => Some(State::Scheduled),
            Some("Bound") => Some(State::Bound),
            _ => None,
        }
    }

    /// Why its cluster was chosen.
    pub fn decision(&self) -> Decision {
        Decision::read(&self.spec.cluster_decision)
    }
}

impl PolicySnapshot {
    /// The placement generation that it answers, if that can be read.
    pub fn answers(&self) -> Option<i64> {
        self.placement_generation.as_deref().and_then(|text| atoi(text).ok())
    }

    /// What the last pass said of the whole policy.
    pub fn verdict(&self) -> Option<Verdict> {
        self.status.conditions.of_type(SCHEDULED).and_then(Verdict::read)
    }

    /// Whether the scheduler found all clusters that this very policy asks for.
    pub fn is_fulfilled(&self) -> bool {
        self.answers() == Some(self.status.observed_crp_generation)
            && self.verdict().is_some_and(|verdict| verdict.fulfilled)
    }
}

impl Verdict {
    /// A condition that this version of the scheduler would write; anything else is
    /// read as nothing, and so written again.
    fn read(condition: &Condition) -> Option<Self> {
        let digits = condition.message.rsplit_once("found ")?.1.split_once(' ')?.0;
        let verdict = Self { fulfilled: condition.status == "True", found: digits.parse().ok()? };
        let same = verdict.message() == condition.message && verdict.reason() == condition.reason;
        same.then_some(verdict)
    }
}

impl Score {
    /// The score of a decision; absent for PickFixed.
    pub fn read(from: &ClusterDecision) -> Option<Self> {
        from.cluster_score.as_ref().map(|score| Self {
            spread: score.priority_score.unwrap_or_default(),
            affinity: score.affinity_score.unwrap_or_default(),
        })
    }
}

impl Decision {
    fn read(from: &ClusterDecision) -> Self {
        Self {
            cluster: from.cluster_name.clone(),
            selected: from.selected,
            score: Score::read(from),
            reason: from.reason.clone(),
        }
    }

    /// Whether this is what was written.
    pub fn is(&self, written: &ClusterDecision) -> bool {
        self.cluster == written.cluster_name
            && self.selected == written.selected
            && self.score == Score::read(written)
            && self.reason == written.reason
    }

    /// The decision on the wire.
    pub fn on_the_wire(&self) -> ClusterDecision {
        ClusterDecision {
            cluster_name: self.cluster.clone(),
            selected: self.selected,
            cluster_score: self.score.map(|score| ClusterScore {
                affinity_score: Some(score.affinity),
                priority_score: Some(score.spread),
            }),
            reason: self.reason.clone(),
        }
    }
}
