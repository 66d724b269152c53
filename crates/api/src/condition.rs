//! Sets and reads Kubernetes conditions.
//!
//! Two conventions hold whoever writes: `lastTransitionTime` moves only when the
//! status does, and `observedGeneration` never goes back, so that a stale reader
//! cannot undo a newer word. A new type is appended and an old one changed in
//! place: the order of the list is the order of first writing.
//!
//! Types are in [`crate::condition_type`], reasons in [`crate::reason`].

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

mod statement;

pub use statement::{Condition, Statement};

/// A `metadata.generation`: which version of the spec somebody has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation(pub i64);

impl Generation {
    /// The generation of an object; 0 for kinds that have none.
    pub fn of(meta: &ObjectMeta) -> Self {
        Self(meta.generation.unwrap_or(0))
    }

    /// The generation a condition speaks about; 0 when it does not say.
    pub fn seen_by(condition: &Condition) -> Self {
        Self(condition.observed_generation.unwrap_or(0))
    }
}

/// The three statuses of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionStatus {
    /// It is so.
    True,
    /// It is not so.
    False,
    /// Nobody can tell yet.
    Unknown,
}

impl ConditionStatus {
    /// The spelling on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }

    /// What a condition says; any spelling but the two known ones is Unknown.
    pub fn of(condition: &Condition) -> Self {
        match condition.status.as_str() {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }
}

/// Begins a condition of this type: `draft(PROGRESSING).is_false(STUCK)`.
pub fn draft(kind: impl Into<Cow<'static, str>>) -> Subject {
    Subject { kind: kind.into() }
}

/// A condition type that nothing has been said about yet.
#[derive(Clone, Debug)]
pub struct Subject {
    kind: Cow<'static, str>,
}

impl Subject {
    /// It is so.
    pub fn is_true(self, reason: impl Into<Cow<'static, str>>) -> ConditionDraft {
        self.is(ConditionStatus::True, reason)
    }

    /// It is not so.
    pub fn is_false(self, reason: impl Into<Cow<'static, str>>) -> ConditionDraft {
        self.is(ConditionStatus::False, reason)
    }

    /// Nobody can tell yet.
    pub fn is_unknown(self, reason: impl Into<Cow<'static, str>>) -> ConditionDraft {
        self.is(ConditionStatus::Unknown, reason)
    }

    /// Any of the three, for callers that computed it.
    pub fn is(
        self,
        truth: ConditionStatus,
        reason: impl Into<Cow<'static, str>>,
    ) -> ConditionDraft {
        ConditionDraft { kind: self.kind, truth, reason: reason.into(), message: String::new() }
    }

    /// What another condition says, word for word, whatever its type.
    pub fn is_as(self, other: &Condition) -> ConditionDraft {
        self.is(ConditionStatus::of(other), other.reason.clone()).because(&other.message)
    }
}

/// Longest message the API accepts, in bytes.
pub const LONGEST_MESSAGE: usize = 32768;

/// What stands for the rest of a message.
const CUT: &str = "...";

/// A condition that only lacks its place and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionDraft {
    kind: Cow<'static, str>,
    truth: ConditionStatus,
    reason: Cow<'static, str>,
    message: String,
}

impl ConditionDraft {
    /// Says it to a person. A message the API would refuse for its length is cut
    /// and ends in `...`: better told in part than not at all.
    pub fn because(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        if self.message.len() > LONGEST_MESSAGE {
            let mut ends = (0..=LONGEST_MESSAGE - CUT.len()).rev();
            let end = ends.find(|end| self.message.is_char_boundary(*end));
            self.message.truncate(end.unwrap_or(0));
            self.message.push_str(CUT);
        }
        self
    }

    /// Sets the condition. The transition time moves only when the status does,
    /// and a condition that has seen a later generation stays as it is.
    pub fn set(self, into: &mut Vec<Condition>, observed: Generation, now: Timestamp) {
        let since = |old: &Condition, draft: &Self| {
            if old.status == draft.truth.as_str() { old.last_transition_time.0 } else { now }
        };
        self.set_with(into, observed, now, since);
    }

    /// As [`ConditionDraft::set`], but a new generation is a new fact: the transition time
    /// moves with it even if the status stays.
    pub fn set_per_generation(
        self,
        into: &mut Vec<Condition>,
        observed: Generation,
        now: Timestamp,
    ) {
        let since = |old: &Condition, draft: &Self| {
            let same = old.status == draft.truth.as_str() && Generation::seen_by(old) == observed;
            if same { old.last_transition_time.0 } else { now }
        };
        self.set_with(into, observed, now, since);
    }

    /// As [`ConditionDraft::set`], but as if the condition had never been there: the
    /// transition time is now, and it goes to the end of the list.
    pub fn set_afresh(self, into: &mut Vec<Condition>, observed: Generation, now: Timestamp) {
        if into.of_type(&self.kind).is_some_and(|old| Generation::seen_by(old) > observed) {
            return;
        }
        into.retain(|condition| condition.type_ != self.kind);
        into.push(self.into_condition(observed, now));
    }

    /// The finished condition, for a list that starts empty or a test.
    pub fn into_condition(self, observed: Generation, since: Timestamp) -> Condition {
        let statement = Statement {
            type_: self.kind.into_owned(),
            status: self.truth.as_str().to_owned(),
            reason: self.reason.into_owned(),
            message: self.message,
        };
        statement.at(Some(observed.0), wire_time(since))
    }

    fn set_with(
        self,
        into: &mut Vec<Condition>,
        observed: Generation,
        now: Timestamp,
        since: impl Fn(&Condition, &Self) -> Timestamp,
    ) {
        match into.iter_mut().find(|condition| condition.type_ == self.kind) {
            Some(old) if Generation::seen_by(old) > observed => {}
            Some(old) => {
                let since = since(old, &self);
                *old = self.into_condition(observed, since);
            }
            None => into.push(self.into_condition(observed, now)),
        }
    }
}

/// A time as every status must hold it. The wire has whole seconds; an object in
/// memory must equal its own copy read back, or every pass would see a change.
pub fn wire_time(time: Timestamp) -> Time {
    // Down, also before 1970, as a text without its fraction would be.
    let second = time.as_second() - i64::from(time.subsec_nanosecond() < 0);
    Time(Timestamp::from_second(second).unwrap_or(time))
}

/// Questions to a list of conditions.
pub trait Conditions {
    /// The condition of this type.
    fn of_type(&self, kind: &str) -> Option<&Condition>;

    /// Present, True, and about this very generation.
    fn is_true_at(&self, kind: &str, generation: Generation) -> bool {
        is_at(self.of_type(kind), ConditionStatus::True, generation)
    }

    /// Present, False, and about this very generation.
    fn is_false_at(&self, kind: &str, generation: Generation) -> bool {
        is_at(self.of_type(kind), ConditionStatus::False, generation)
    }

    /// True or False at this generation: somebody has decided.
    fn is_decided_at(&self, kind: &str, generation: Generation) -> bool {
        self.is_true_at(kind, generation) || self.is_false_at(kind, generation)
    }

    /// The condition of this type if it is about this very generation.
    fn current(&self, kind: &str, generation: Generation) -> Option<&Condition> {
        self.of_type(kind).filter(|found| Generation::seen_by(found) == generation)
    }
}

impl Conditions for [Condition] {
    fn of_type(&self, kind: &str) -> Option<&Condition> {
        self.iter().find(|condition| condition.type_ == kind)
    }
}

impl Conditions for Vec<Condition> {
    fn of_type(&self, kind: &str) -> Option<&Condition> {
        self.as_slice().of_type(kind)
    }
}

impl Conditions for Option<Vec<Condition>> {
    fn of_type(&self, kind: &str) -> Option<&Condition> {
        self.as_deref()?.of_type(kind)
    }
}

fn is_at(condition: Option<&Condition>, truth: ConditionStatus, generation: Generation) -> bool {
    condition.is_some_and(|found| {
        found.status == truth.as_str() && Generation::seen_by(found) == generation
    })
}

/// Removes the condition of this type.
pub fn remove(from: &mut Vec<Condition>, kind: &str) {
    from.retain(|condition| condition.type_ != kind);
}

/// Makes every condition speak about this generation at least: for a record of
/// progress that a new generation does not invalidate.
pub fn carry_over(conditions: &mut [Condition], generation: Generation) {
    for condition in conditions {
        let seen = Generation::seen_by(condition).max(generation);
        condition.observed_generation = Some(seen.0);
    }
}

/// Makes conditions copied from another object speak about this one: the
/// generations of the other mean nothing here.
pub fn relabel(copied: &mut [Condition], generation: Generation) {
    for condition in copied {
        condition.observed_generation = Some(generation.0);
    }
}

/// Whether `current` already says what `desired` wants said: same type, status
/// and reason, about the same or a later generation. Message and time do not count.
pub fn says_the_same(current: Option<&Condition>, desired: Option<&Condition>) -> bool {
    match (current, desired) {
        (None, None) => true,
        (Some(current), Some(desired)) => {
            current.type_ == desired.type_
                && current.status == desired.status
                && current.reason == desired.reason
                && Generation::seen_by(current) >= Generation::seen_by(desired)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
