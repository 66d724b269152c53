//! Which bindings count as what, and what each could do next.

use std::collections::BTreeSet;

use flagship_api::binding::BindingState;
use jiff::{SignedDuration, Timestamp};

use super::delivery_state::Ready;
use super::wanted::Wanted;
use crate::model::Binding;
use crate::overrides::belonging::Chosen;
use crate::placement::PassError;

/// A binding that should get something.
#[derive(Debug, Clone)]
pub struct Candidate<'a> {
    pub binding: &'a Binding,
    pub overrides: Chosen,
}

/// All bindings of a placement, sorted; each list in the order of names.
#[derive(Debug, Clone, Default)]
pub struct Sorted<'a> {
    /// Bindings whose clusters are to hold the resources.
    pub targeted: u32,
    /// Bindings whose resources work.
    pub ready: u32,
    /// Bindings whose resources may come to work by themselves.
    pub can_be_ready: u32,
    /// Ready ones that are being deleted.
    pub can_be_unavailable: u32,
    /// No longer wanted.
    pub remove: Vec<&'a Binding>,
    /// Wanted, and nothing delivered yet.
    pub bind: Vec<Candidate<'a>>,
    /// Out of date.
    pub update: Vec<Candidate<'a>>,
    /// Out of date, and not working anyway.
    pub repair: Vec<Candidate<'a>>,
    /// As they should be.
    pub current: Vec<&'a Binding>,
    /// The shortest time after which one more is ready, if any waits for time alone.
    pub soonest: Option<SignedDuration>,
    /// Whether some binding that may hold resources is not ready.
    pub any_unready: bool,
}

/// Sorts bindings, which come in the order of their names. On the clusters in `waiting` a
/// new binding may not begin.
pub fn sort<'a>(
    bindings: &[&'a Binding],
    wanted: &Wanted<'_>,
    waiting: &BTreeSet<&str>,
    period: SignedDuration,
    now: Timestamp,
) -> Result<Sorted<'a>, PassError> {
    let mut sorted = Sorted::default();
    for binding in bindings {
        let may_begin = !binding.deleting && !waiting.contains(binding.cluster());
        match binding.spec.state {
            BindingState::Scheduled => {
                // One that goes before anything was delivered is no business of ours.
                if binding.deleting {
                    continue;
                }
                sorted.targeted += 1;
                if may_begin {
                    let overrides = wanted.overrides_for(binding)?;
                    sorted.bind.push(Candidate { binding, overrides });
                }
            }
            BindingState::Unscheduled => {
                sorted.count(binding, period, now);
                if may_begin {
                    sorted.remove.push(binding);
                }
            }
            BindingState::Bound => {
                sorted.targeted += 1;
                sorted.count(binding, period, now);
                if binding.deleting {
                    continue;
                }
                let overrides = wanted.overrides_for(binding)?;
                let candidate = Candidate { binding, overrides };
                if wanted.is_in(binding, &candidate.overrides) {
                    sorted.current.push(binding);
                } else if binding.delivery_state().failed {
                    sorted.repair.push(candidate);
                } else {
                    sorted.update.push(candidate);
                }
            }
            BindingState::Other(_) => {}
        }
    }
    Ok(sorted)
}

impl Sorted<'_> {
    /// Whether there is nothing left to roll out.
    pub fn is_settled(&self) -> bool {
        self.remove.is_empty()
            && self.bind.is_empty()
            && self.update.is_empty()
            && self.repair.is_empty()
    }

    fn count(&mut self, binding: &Binding, period: SignedDuration, now: Timestamp) {
        let delivery_state = binding.delivery_state();
        self.can_be_ready += u32::from(delivery_state.can_be_ready());
        match delivery_state.ready(period, now) {
            Ready::Yes => {
                self.ready += 1;
                self.can_be_unavailable += u32::from(binding.deleting);
            }
            Ready::In(left) => {
                self.any_unready = true;
                self.soonest = Some(self.soonest.map_or(left, |soonest| soonest.min(left)));
            }
            Ready::No => self.any_unready = true,
        }
    }
}
