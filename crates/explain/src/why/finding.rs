//! What `why` answers: one cause, the way to it, and what to do.

use flagship_api::condition::{Condition, Statement};
use jiff::Timestamp;
use serde::Serialize;

use super::Cause;

/// How far the thing asked about has come; the exit code of `why` and `status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nothing is left to do.
    Done,
    /// It will not get better by itself.
    Failed,
    /// It goes on by itself, or when somebody says so.
    Waiting,
    /// It does not go on although it should.
    Stuck,
}

impl State {
    /// The exit code scripts see. 1 and 2 are errors and command lines that cannot be meant,
    /// 6 is a hub that does not answer: what was asked about has nothing to do with those.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Stuck => 3,
            Self::Waiting => 4,
            Self::Failed => 5,
        }
    }

    /// Whether nothing more will happen. What is stuck goes on once somebody has mended what
    /// holds it.
    pub const fn is_over(self) -> bool {
        match self {
            Self::Done | Self::Failed => true,
            Self::Waiting | Self::Stuck => false,
        }
    }

    /// One lower-case word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Waiting => "waiting",
            Self::Stuck => "stuck",
        }
    }
}

/// One object met on the way inwards, and what it says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// What it is, in one word: `run`, `binding`, `pod`.
    #[serde(rename = "kind")]
    pub what: &'static str,
    /// Its name, as kubectl would take it.
    pub name: String,
    /// What it says, in a few words.
    pub says: String,
    /// The condition that says so, for programs; nothing where it is no condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<SeenCondition>,
}

/// A condition of an object met on the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SeenCondition {
    /// Its type.
    pub r#type: String,
    /// True, False or Unknown.
    pub status: String,
    /// One word why.
    pub reason: String,
    /// The sentence of whoever wrote it.
    pub message: String,
    /// Since when its status is so.
    pub at: Timestamp,
}

impl Evidence {
    /// An object and what is known of it.
    pub fn new(what: &'static str, name: impl Into<String>, says: impl Into<String>) -> Self {
        Self { what, name: name.into(), says: says.into(), condition: None }
    }

    /// An object and a condition of it.
    pub fn of(what: &'static str, name: impl Into<String>, condition: &Condition) -> Self {
        let Statement { type_, status, reason, .. } = &**condition;
        Self::new(what, name, format!("{type_}={status}  {reason}")).told_by(condition)
    }

    /// The same, where there may be none.
    pub fn of_any(
        what: &'static str,
        name: impl Into<String>,
        condition: Option<&Condition>,
    ) -> Self {
        match condition {
            Some(condition) => Self::of(what, name, condition),
            None => Self::new(what, name, "no conditions yet"),
        }
    }

    /// The same words, told by this condition.
    #[must_use]
    pub fn told_by(mut self, condition: &Condition) -> Self {
        self.condition = Some(SeenCondition {
            r#type: condition.type_.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            at: condition.last_transition_time.0,
        });
        self
    }
}

/// A command, and what it is good for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hint {
    /// `fix`, `then`, `or`, `look`.
    pub lead: &'static str,
    /// What it does, in a few words.
    pub what: String,
    /// The command, ready to be pasted; empty where no command can do it.
    pub command: String,
}

/// The answer; its JSON is what `-o json` prints and the console shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How it stands.
    pub state: State,
    /// One sentence a person can act on.
    pub headline: String,
    /// The first true cause.
    pub cause: Cause,
    /// The cause applied to this very case.
    pub what: String,
    /// The words of whoever refused or failed, if there are any.
    pub because: String,
    /// From the outermost object to the innermost.
    pub evidence: Vec<Evidence>,
    /// At most three.
    #[serde(rename = "next")]
    pub hints: Vec<Hint>,
    /// Clusters that hold it up, by cause, most first; empty where it is not about several.
    pub stuck: Vec<Stuck>,
}

/// Clusters that are held up by the same cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stuck {
    /// The cause.
    pub cause: Cause,
    /// The clusters, in natural order.
    pub clusters: Vec<String>,
}

impl Finding {
    /// A finding without evidence and hints.
    pub fn new(state: State, cause: Cause, headline: impl Into<String>) -> Self {
        Self {
            state,
            headline: headline.into(),
            cause,
            what: cause.title().to_owned(),
            because: String::new(),
            evidence: Vec::new(),
            hints: Vec::new(),
            stuck: Vec::new(),
        }
    }

    /// Says what the cause means here.
    #[must_use]
    pub fn what(mut self, what: impl Into<String>) -> Self {
        self.what = what.into();
        self
    }

    /// Quotes whoever refused.
    #[must_use]
    pub fn because(mut self, because: impl Into<String>) -> Self {
        self.because = because.into();
        self
    }

    /// Adds a step inwards.
    #[must_use]
    pub fn saw(
        mut self,
        what: &'static str,
        name: impl Into<String>,
        says: impl Into<String>,
    ) -> Self {
        self.evidence.push(Evidence::new(what, name, says));
        self
    }

    /// The same with the condition that tells it.
    #[must_use]
    pub fn saw_that(mut self, seen: Evidence) -> Self {
        self.evidence.push(seen);
        self
    }

    /// Adds a command; the fourth and later are dropped, for a list of commands is no answer.
    #[must_use]
    pub fn hint(
        mut self,
        lead: &'static str,
        what: impl Into<String>,
        command: impl Into<String>,
    ) -> Self {
        if self.hints.len() < 3 {
            self.hints.push(Hint { lead, what: what.into(), command: command.into() });
        }
        self
    }

    /// Puts steps met earlier before the ones met since.
    #[must_use]
    pub fn led_by(mut self, mut earlier: Vec<Evidence>) -> Self {
        earlier.append(&mut self.evidence);
        self.evidence = earlier;
        self
    }
}
