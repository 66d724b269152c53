//! Approval requests that wait under a policy: who has approved, how many are missing, whether
//! the caller may approve and why not. What counts is decided by the rules; the hub counts again.

use flagship_api::names::ObjectKey;
use flagship_explain::board::{Board, Gate, GateState, Side};
use flagship_explain::inbox::{Asked, Standing, standing};
use flagship_rules::policy::approvals::{Given, Word};
use flagship_rules::update_run;
use serde::Serialize;

use super::verbs::{self, Verb};
use super::{ViewInputs, millis};
use crate::commands::Act;
use crate::mirror::Run;
use crate::rights::Right;

/// One request that waits.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Card {
    /// The request.
    pub request: String,
    /// The stage.
    pub stage: String,
    /// Which side of the stage it is on.
    pub side: Side,
    /// Names of the policies that ask for it.
    pub policies: String,
    /// How many people must approve.
    pub required: usize,
    /// How many more must.
    pub missing: usize,
    /// Who must, in words.
    pub wanted: String,
    /// Who has, with what they said.
    pub approved: Vec<Said>,
    /// Who said no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejected: Option<Said>,
    /// Words that do not count, and why.
    pub refused: Vec<String>,
    /// When the next word that counts expires.
    pub expires: Option<i64>,
    /// The caller.
    pub viewer: String,
    /// Why the caller cannot approve; empty if they can.
    pub may_not: String,
    /// What the caller can do about it.
    pub verbs: Vec<Verb>,
}

/// What somebody said.
#[derive(Clone, Debug, Serialize)]
pub struct Said {
    user: String,
    reason: String,
    at: i64,
}

impl From<&Given> for Said {
    fn from(given: &Given) -> Self {
        let Given { user, reason, at } = given;
        Self { user: user.clone(), reason: reason.clone(), at: millis(*at) }
    }
}

/// The requests of a run that wait, in the order of its stages.
pub fn cards(seen: &ViewInputs<'_>, key: &ObjectKey, run: &Run, board: &Board) -> Vec<Card> {
    let asks = run.facts.adopted.as_ref().is_some_and(|adopted| adopted.asks_for_approvals());
    if !asks {
        return Vec::new();
    }
    let words: Vec<Word> =
        seen.mirror.words.beside(key).into_iter().map(|(_, word)| (*word).clone()).collect();
    let mut cards = Vec::new();
    for (at, stage) in board.stages.iter().enumerate() {
        let open = |gate: &&Gate| gate.state == GateState::Closed && !gate.approval.is_empty();
        for gate in stage.gates.iter().filter(open) {
            let request = ObjectKey::new(key.namespace.as_deref(), &gate.approval);
            let Some(request) = seen.mirror.approvals.get(&request) else { continue };
            let facts = &run.facts;
            let asked = Asked {
                run: update_run::Run::read(&run.metadata, &facts.spec, &facts.status),
                request: request.value.clone(),
                words: words.clone(),
            };
            let effect = verbs::approved(facts, board, at, gate);
            cards.extend(card(seen, key, &asked, gate, &effect));
        }
    }
    cards
}

fn card(
    seen: &ViewInputs<'_>,
    key: &ObjectKey,
    asked: &Asked,
    gate: &Gate,
    effect: &str,
) -> Option<Card> {
    let person = seen.rights.person();
    let standing = standing(asked, &person, seen.now)?;
    let tally = &standing.tally;
    let right = seen.rights.missing(&Right::decide(key.namespace.as_deref()));
    let done = tally.given.iter().any(|given| given.user == person.user);
    let barred = if !right.is_empty() {
        right.clone()
    } else if person.user.is_empty() {
        "Who you are is being asked.".to_owned()
    } else if !seen.mirror.words.are_read(key) {
        "You cannot read the approvals that were given.".to_owned()
    } else {
        standing.may_not.as_ref().map_or_else(String::new, |why| format!("{why}."))
    };
    let may_not =
        if barred.is_empty() && done { "You have approved it.".to_owned() } else { barred.clone() };
    Some(Card {
        request: asked.request.name.clone(),
        stage: asked.request.stage.clone(),
        side: gate.side,
        policies: standing.policies.clone(),
        required: tally.given.len() + tally.missing,
        missing: tally.missing,
        wanted: tally.wanted.clone(),
        approved: tally.given.iter().map(Said::from).collect(),
        rejected: tally.rejected.as_ref().map(Said::from),
        refused: tally.refused.clone(),
        expires: tally.expires.map(millis),
        verbs: can_do(key, asked, &standing, effect, &person.user, [&may_not, &barred, &right]),
        viewer: person.user,
        may_not,
    })
}

/// Approve and reject, shown with what is missing for each; breaking the glass only to those who
/// may. Whoever has approved may still reject: of one person the last word counts.
fn can_do(
    key: &ObjectKey,
    asked: &Asked,
    standing: &Standing,
    effect: &str,
    viewer: &str,
    [no_approval, no_rejection, no_glass]: [&str; 3],
) -> Vec<Verb> {
    let stage = &asked.request.stage;
    let approve = |break_glass| Act::Approve {
        namespace: key.namespace.clone(),
        run: key.name.clone(),
        stage: stage.clone(),
        reason: String::new(),
        plan: standing.plan.clone(),
        break_glass,
    };
    let reject = Act::Reject {
        namespace: key.namespace.clone(),
        run: key.name.clone(),
        stage: stage.clone(),
        reason: String::new(),
    };
    let tally = &standing.tally;
    let counts = match tally.missing.saturating_sub(1) {
        0 => effect.to_owned(),
        left => format!(
            "Counts as {} of {} approvals; {left} more {} missing then. When all are there: {effect}",
            tally.given.len() + 1,
            tally.given.len() + tally.missing,
            if left == 1 { "is" } else { "are" },
        ),
    };
    let counts = match &tally.rejected {
        None => counts,
        Some(by) if by.user == viewer => format!("Takes your rejection back. {counts}"),
        Some(by) => {
            format!("Counts, and the gate stays closed until {} takes the rejection back.", by.user)
        }
    };
    let mut verbs = vec![
        Verb::new(format!("Approve {stage}"), approve(false), counts, no_approval.to_owned())
            .asking(standing.wants_reason),
        Verb::new(
            format!("Reject {stage}"),
            reject,
            "Keeps the gate closed, whoever approves, until you approve or delete what you said."
                .to_owned(),
            no_rejection.to_owned(),
        )
        .asking(true),
    ];
    if standing.may_break_glass {
        let effect = format!(
            "An emergency: lets it pass without the missing approvals, and through a freeze. The record names you and your reason. {effect}"
        );
        let label = format!("Break glass for {stage}");
        verbs.push(Verb::new(label, approve(true), effect, no_glass.to_owned()).asking(true));
    }
    verbs
}
