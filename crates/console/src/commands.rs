//! What the page asks of the command line: the verbs, a plan, and a look at a member.

use flagship_api::names::ObjectKey;
use flagship_api::placement_status::ResourceIdentifier;
use flagship_explain::why::MemberView;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Carries out what a person clicks, by the code of the command of the same name.
pub trait Commands: Send + Sync + 'static {
    /// Does it. Ok is what the command prints, Err why it did nothing.
    fn act(&self, act: Act) -> BoxFuture<'_, Result<String, String>>;

    /// What a run of the placement would do, as `flagship plan -o json` says it.
    fn plan(
        &self,
        placement: &ObjectKey,
        strategy: Option<&str>,
    ) -> BoxFuture<'_, Result<Value, String>>;

    /// What differs between two versions of a placement, by object and field.
    fn changes(
        &self,
        placement: &ObjectKey,
        from: &str,
        to: &str,
    ) -> BoxFuture<'_, Result<Value, String>>;

    /// What a member shows of an object.
    fn look(&self, cluster: &str, resource: &ResourceIdentifier) -> BoxFuture<'_, MemberView>;
}

/// A verb, and what it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Act {
    /// Lets a run past a gate.
    Approve {
        /// Namespace of a namespaced run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        /// The run.
        run: String,
        /// The stage whose gate it is.
        stage: String,
        /// Why, for those who read the request later.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
        /// The hash of the plan that was shown, where a policy counts approvals; any if empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        plan: String,
        /// Whether it is to pass by the policy's rules for emergencies.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        break_glass: bool,
    },
    /// Says no to what a run waits for.
    Reject {
        /// Namespace of a namespaced run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        /// The run.
        run: String,
        /// The stage whose gate it is.
        stage: String,
        /// Why, for those who wait.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// Begins no more clusters.
    Stop {
        /// Namespace of a namespaced run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        /// The run.
        run: String,
    },
    /// Goes on.
    Resume {
        /// Namespace of a namespaced run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        /// The run.
        run: String,
    },
    /// Starts a run to the version before.
    Rollback {
        /// Namespace of a namespaced placement.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        /// The placement.
        placement: String,
    },
    /// Starts a run of what is on the hub now.
    Run {
        /// Namespace of a namespaced placement.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        /// The placement.
        placement: String,
        /// The strategy.
        strategy: String,
        /// The hash of the plan that was shown; any plan if empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        plan: String,
    },
}

impl Act {
    /// The words after `flagship`, as a person would type them.
    pub fn words(&self) -> Vec<String> {
        let (verb, namespace, names): (_, _, Vec<&str>) = match self {
            Self::Approve { namespace, run, stage, .. } => ("approve", namespace, vec![run, stage]),
            Self::Reject { namespace, run, stage, .. } => ("reject", namespace, vec![run, stage]),
            Self::Stop { namespace, run } => ("stop", namespace, vec![run]),
            Self::Resume { namespace, run } => ("resume", namespace, vec![run]),
            Self::Rollback { namespace, placement } => ("rollback", namespace, vec![placement]),
            Self::Run { namespace, placement, strategy, .. } => {
                ("run", namespace, vec![placement, "--strategy", strategy])
            }
        };
        let mut words = vec![verb.to_owned()];
        if let Some(namespace) = namespace {
            words.extend(["-n".to_owned(), namespace.clone()]);
        }
        words.extend(names.into_iter().map(str::to_owned));
        if let Self::Approve { break_glass: true, .. } = self {
            words.push("--break-glass".to_owned());
        }
        if let Self::Approve { reason, .. } | Self::Reject { reason, .. } = self
            && !reason.is_empty()
        {
            words.push(format!("--reason={reason}"));
        }
        if let Self::Run { plan, .. } | Self::Approve { plan, .. } = self
            && !plan.is_empty()
        {
            words.push(format!("--plan={plan}"));
        }
        words
    }

    /// Whether a name would be taken for a flag; no object has such a name.
    pub fn has_flag_for_name(&self) -> bool {
        let (namespace, names): (_, Vec<&String>) = match self {
            Self::Approve { namespace, run, stage, .. }
            | Self::Reject { namespace, run, stage, .. } => (namespace, vec![run, stage]),
            Self::Stop { namespace, run } | Self::Resume { namespace, run } => {
                (namespace, vec![run])
            }
            Self::Rollback { namespace, placement } => (namespace, vec![placement]),
            Self::Run { namespace, placement, strategy, .. } => {
                (namespace, vec![placement, strategy])
            }
        };
        let mut all = namespace.iter().chain(names);
        all.any(|name| name.is_empty() || name.starts_with('-'))
    }

    /// The command, ready to be pasted.
    pub fn command(&self) -> String {
        let words: Vec<String> = self.words().iter().map(|word| quoted(word)).collect();
        format!("flagship {}", words.join(" "))
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_is_the_command_that_does_it() {
        let approve = Act::Approve {
            namespace: Some("shop".into()),
            run: "r1".into(),
            stage: "canary".into(),
            reason: "it's fine".into(),
            plan: String::new(),
            break_glass: false,
        };
        assert_eq!(
            approve.command(),
            r"flagship approve -n shop r1 canary '--reason=it'\''s fine'"
        );
        let read = |text: &str| serde_json::from_str::<Act>(text).unwrap();
        let glass =
            read(r#"{"verb":"approve","run":"r","stage":"a","breakGlass":true,"plan":"0f"}"#);
        assert_eq!(glass.command(), "flagship approve r a --break-glass --plan=0f");
        let reject = read(r#"{"verb":"reject","run":"r","stage":"a","reason":"risky"}"#);
        assert_eq!(reject.command(), "flagship reject r a --reason=risky");
        let read: Act =
            serde_json::from_str(r#"{"verb":"run","placement":"demo","strategy":"s"}"#).unwrap();
        assert_eq!(read.command(), "flagship run demo --strategy s");
        assert!(serde_json::from_str::<Act>(r#"{"verb":"delete","run":"demo"}"#).is_err());
        let hidden: Act = serde_json::from_str(r#"{"verb":"stop","run":"--force"}"#).unwrap();
        assert!(hidden.has_flag_for_name() && !read.has_flag_for_name());
    }
}
