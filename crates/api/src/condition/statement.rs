//! A condition whose texts can be shared.
//!
//! A hundred thousand bindings have conditions of the same few types, statuses, reasons and
//! messages. So these four are one [`Statement`], which copies of a condition share, and which
//! equal conditions can share, too; generation and time stay in the condition.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition as Wire, Time};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A condition of an object. On the wire it is Kubernetes' own.
#[derive(Clone)]
pub struct Condition {
    statement: Arc<Statement>,
    /// The generation it is about, if it says so.
    pub observed_generation: Option<i64>,
    /// Since when its status is so.
    pub last_transition_time: Time,
}

/// What a condition says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Statement {
    /// About what.
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// Why, for programs.
    pub reason: String,
    /// Why, for people.
    pub message: String,
}

impl Statement {
    /// The condition that says so.
    pub fn at(self, observed_generation: Option<i64>, last_transition_time: Time) -> Condition {
        Condition { statement: Arc::new(self), observed_generation, last_transition_time }
    }
}

impl Condition {
    /// Its texts, to exchange them for an equal copy.
    pub fn statement_mut(&mut self) -> &mut Arc<Statement> {
        &mut self.statement
    }
}

impl Deref for Condition {
    type Target = Statement;

    fn deref(&self) -> &Statement {
        &self.statement
    }
}

impl DerefMut for Condition {
    fn deref_mut(&mut self) -> &mut Statement {
        Arc::make_mut(&mut self.statement)
    }
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        let Self { statement, observed_generation, last_transition_time } = self;
        *observed_generation == other.observed_generation
            && *last_transition_time == other.last_transition_time
            && (Arc::ptr_eq(statement, &other.statement) || *statement == other.statement)
    }
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Statement { type_, status, reason, message } = &**self;
        f.debug_struct("Condition")
            .field("last_transition_time", &self.last_transition_time)
            .field("message", message)
            .field("observed_generation", &self.observed_generation)
            .field("reason", reason)
            .field("status", status)
            .field("type_", type_)
            .finish()
    }
}

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Wire { last_transition_time, message, observed_generation, reason, status, type_ } =
            Wire::deserialize(deserializer)?;
        let statement = Statement { type_, status, reason, message };
        Ok(statement.at(observed_generation, last_transition_time))
    }
}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Statement { type_, status, reason, message } = &**self;
        let fields = 5 + usize::from(self.observed_generation.is_some());
        let mut state = serializer.serialize_struct("Condition", fields)?;
        state.serialize_field("lastTransitionTime", &self.last_transition_time)?;
        state.serialize_field("message", message)?;
        if let Some(generation) = &self.observed_generation {
            state.serialize_field("observedGeneration", generation)?;
        }
        state.serialize_field("reason", reason)?;
        state.serialize_field("status", status)?;
        state.serialize_field("type", type_)?;
        state.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::{Generation, draft};
    use flagship_base::interner::Interner;
    use jiff::Timestamp;

    fn says(message: &str) -> Condition {
        let draft = draft("Available").is_true("Yes").because(message);
        draft.into_condition(Generation(1), Timestamp::UNIX_EPOCH)
    }

    fn share(conditions: &mut [Condition]) {
        let mut interner = Interner::default();
        conditions.iter_mut().for_each(|one| interner.intern(one.statement_mut()));
    }

    #[test]
    fn equal_statements_become_one_whatever_their_generation_and_time() {
        let mut conditions = [says("a"), says("a")];
        conditions[1].observed_generation = Some(2);
        let before = conditions.clone();
        share(&mut conditions);
        assert_eq!(conditions, before);
        assert!(Arc::ptr_eq(&conditions[0].statement, &conditions[1].statement));
    }

    #[test]
    fn a_change_of_one_condition_does_not_reach_those_that_said_the_same() {
        let mut conditions = [says("a"), says("a")];
        share(&mut conditions);
        conditions[0].message.push('!');
        let [changed, untouched] = &conditions;
        assert_eq!((&*changed.message, &*untouched.message), ("a!", "a"));
        assert_ne!(changed, untouched);
    }

    #[test]
    fn a_condition_is_on_the_wire_as_kubernetes_has_it() {
        for generation in [None, Some(7)] {
            let mut ours = says("all is well");
            ours.observed_generation = generation;
            let text = serde_json::to_string(&ours).unwrap();
            let theirs: Wire = serde_json::from_str(&text).unwrap();
            assert_eq!(serde_json::to_string(&theirs).unwrap(), text);
            assert_eq!(serde_json::from_str::<Condition>(&text).unwrap(), ours);
            let debug = |text: String| text.replace("Condition", "");
            assert_eq!(debug(format!("{ours:?}")), debug(format!("{theirs:?}")));
        }
        let refused = serde_json::from_str::<Condition>("{}").unwrap_err().to_string();
        assert_eq!(refused, serde_json::from_str::<Wire>("{}").unwrap_err().to_string());
    }
}
