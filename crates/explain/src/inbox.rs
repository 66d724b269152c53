//! What waits for somebody's approval: what this person may approve, what not, and why.

use flagship_api::approval_decision::Person;
use flagship_api::names::ObjectKey;
use flagship_rules::policy::approvals::{Tally, Word};
use flagship_rules::update_run::lifecycle::has_ended;
use flagship_rules::update_run::{Approval, Observed, Run, counted};
use jiff::Timestamp;
use serde::Serialize;

use crate::why::approve;

/// A request, the run that made it, and what was said to it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The run.
    pub run: Run,
    /// The request.
    pub request: Approval,
    /// What people said, to this and to other requests.
    pub words: Vec<Word>,
}

/// One request that waits.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// The run.
    pub run: String,
    /// The stage.
    pub stage: String,
    /// The request.
    pub request: String,
    /// How it stands.
    pub told: String,
    /// How many approvals are missing.
    pub missing: usize,
    /// Who has approved.
    pub approved: Vec<String>,
    /// Why this person may not approve it; nothing if they may.
    pub may_not: Option<String>,
    /// The command that approves it.
    pub command: String,
}

/// How a request under a policy stands, and what approving it needs to name.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The count.
    pub tally: Tally,
    /// The hash of the plan.
    pub plan: String,
    /// Names of the policies.
    pub policies: String,
    /// Why somebody may not approve it.
    pub may_not: Option<String>,
    /// Whether they may let it pass in an emergency.
    pub may_break_glass: bool,
    /// Whether a reason is wanted.
    pub wants_reason: bool,
}

/// How a request stands for a person; `None` where no policy asks for approvals of it.
pub fn standing(asked: &Asked, person: &Person, now: Timestamp) -> Option<Standing> {
    let mut seen = Observed::of(asked.run.clone(), now);
    seen.options.approvers_are_verified = true;
    seen.policy.words = asked.words.iter().cloned().map(Into::into).collect();
    let stage = &asked.request.stage;
    let terms = counted::terms(&seen, stage)?;
    Some(Standing {
        tally: counted::tally(&seen, stage, &asked.request)?,
        plan: asked.run.adopted.as_ref().map(|adopted| adopted.plan.clone()).unwrap_or_default(),
        policies: terms.policies(),
        may_not: terms.may_not(person, &asked.run.authors),
        may_break_glass: terms.may_break_glass(person),
        wants_reason: terms.wants_reason(),
    })
}

/// Everything that waits, what this person may approve first.
pub fn inbox(asked: &[Asked], person: &Person, now: Timestamp) -> Vec<Item> {
    let open = asked.iter().filter(|asked| {
        let made = asked.request.run_uid.as_ref() == Some(&asked.run.uid);
        made && !has_ended(&asked.run.status) && !counted::is_accepted(&asked.request)
    });
    let mut items: Vec<Item> = open.map(|asked| item(asked, person, now)).collect();
    items.sort_by_key(|item| (item.may_not.is_some(), item.run.clone(), item.stage.clone()));
    items
}

fn item(asked: &Asked, person: &Person, now: Timestamp) -> Item {
    let key: ObjectKey = asked.run.beside(&asked.run.name);
    let standing = standing(asked, person, now);
    let mut command = approve(&key, &asked.request.stage);
    if standing.as_ref().is_some_and(|standing| standing.wants_reason) {
        command.push_str(" --reason WHY");
    }
    let (told, missing, approved, may_not) = match standing {
        None => {
            ("no policy: whoever may write the request approves it".to_owned(), 1, vec![], None)
        }
        Some(standing) => {
            let given: Vec<String> =
                standing.tally.given.iter().map(|given| given.user.clone()).collect();
            let done = given.contains(&person.user).then(|| "you have approved it".to_owned());
            let told = standing.tally.told();
            (told, standing.tally.missing, given, done.or(standing.may_not))
        }
    };
    Item {
        run: key.to_string(),
        stage: asked.request.stage.clone(),
        request: asked.request.name.clone(),
        told,
        missing,
        approved,
        may_not,
        command,
    }
}
