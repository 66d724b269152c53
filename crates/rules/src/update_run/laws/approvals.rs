//! P3: a gate under a policy opens only for enough people, each of whom counts.
//!
//! Written from the policy itself and the words alone, so that a mistake in how they are counted
//! shows: no function of `policy::approvals` is asked.

use std::collections::BTreeSet;

use flagship_api::approval_decision::{Decision, Person};
use flagship_api::condition::{Conditions, Generation};
use flagship_api::condition_type::approval_request::{APPROVAL_ACCEPTED, APPROVED};
use flagship_api::reason::update_run::approval::STAMPED;
use flagship_api::rollout_policy::{ApprovalRules, ReasonRule};
use flagship_api::rollout_record::What;
use flagship_api::staged_update::StageTaskType;
use flagship_api::staged_update_status::StageTaskStatus;
use flagship_base::duration::GoDuration;

use super::super::lifecycle::is_started;
use super::super::observed::{Approval, Observed};
use super::super::reconcile::{Action, Plan};
use super::record::is_approved;
use super::{Told, broken};
use crate::policy::approvals::Word;
use crate::policy::selects::names_stage;

/// P3, for a plan: every gate that it opens has enough words, and no stage with a closed gate
/// before it begins.
pub fn enough_have_approved(read: &Observed, plan: &Plan) -> Told {
    let statuses = plan.actions.iter().filter_map(|action| match action {
        Action::Status(status) => Some(&**status),
        _ => None,
    });
    let mut told = Vec::new();
    for status in statuses {
        for (at, stage) in status.stages_status.iter().enumerate() {
            let name = &stage.stage_name;
            if policies(read, name).is_empty() {
                continue;
            }
            let old = read.run.status.stages_status.get(at);
            let known = |task: &StageTaskStatus| {
                let tasks = old.into_iter().flat_map(|old| {
                    old.before_stage_task_status.iter().chain(&old.after_stage_task_status)
                });
                let mut same =
                    tasks.filter(|old| old.approval_request_name == task.approval_request_name);
                same.any(is_approved)
            };
            let tasks = stage.before_stage_task_status.iter().chain(&stage.after_stage_task_status);
            let asks = tasks.filter(|task| task.r#type == StageTaskType::Approval);
            for task in asks.filter(|task| is_approved(task) && !known(task)) {
                let request = &task.approval_request_name;
                if is_given(read, request, name) == Some(false) {
                    told.push(broken("P3", format!("{request} opens without enough approvals")));
                }
            }
            let begun = |clusters: &[_]| clusters.iter().filter(|c| is_started(c)).count();
            let closed = stage.before_stage_task_status.is_empty()
                || stage.before_stage_task_status.iter().any(|task| !is_approved(task));
            if closed && begun(&stage.clusters) > old.map_or(0, |old| begun(&old.clusters)) {
                told.push(broken("P3", format!("{name} begins behind a closed gate")));
            }
        }
    }
    told
}

/// Whether enough people have approved a request under a policy; `None` where none asks.
pub fn is_given(seen: &Observed, name: &str, stage: &str) -> Option<bool> {
    let policies = policies(seen, stage);
    if policies.is_empty() {
        return None;
    }
    // What the hub has recorded was counted then, and cannot be taken back.
    let recorded = seen
        .record
        .iter()
        .flat_map(|entries| entries.iter())
        .any(|entry| entry.what == What::Approved && entry.stage.as_deref() == Some(stage));
    let Some(request) = seen.approvals.iter().find(|request| request.name == name) else {
        return Some(recorded);
    };
    let answered = seen.record.is_none()
        && request.conditions.is_true_at(APPROVAL_ACCEPTED, Generation(request.generation));
    let recorded = recorded || answered;
    let made_for_us = request.run_uid.as_ref() == Some(&seen.run.uid);
    let normal = policies.iter().all(|rules| {
        let people = people(seen, request, |person, word| counts(seen, rules, person, word));
        let alone = one_is_enough(&policies) && stamped(seen, request);
        let needed = usize::try_from(rules.required).unwrap_or(1);
        !rejected(seen, request, rules) && (people.len() >= needed || alone)
    });
    // A person must be permitted by every policy, not each policy by somebody else.
    let together = people(seen, request, |person, word| {
        policies.iter().all(|rules| counts(seen, rules, person, word))
    });
    let most = policies.iter().filter_map(|rules| usize::try_from(rules.required).ok()).max();
    let alone = one_is_enough(&policies) && stamped(seen, request);
    let enough = together.len() >= most.unwrap_or(1) || alone;
    let glass = policies.iter().all(|rules| {
        rules.break_glass.as_ref().is_some_and(|glass| {
            let people = people(seen, request, |person, word| {
                word.spec.break_glass
                    && !word.spec.reason.is_empty()
                    && is_fresh(seen, rules, word)
                    && person.groups.iter().any(|group| glass.groups.contains(group))
            });
            people.len() >= usize::try_from(glass.required.unwrap_or(1)).unwrap_or(1)
        })
    });
    Some(recorded || (made_for_us && ((normal && enough) || glass)))
}

fn policies<'a>(seen: &'a Observed, stage: &str) -> Vec<&'a ApprovalRules> {
    let adopted = seen.run.adopted.iter().filter(|adopted| adopted.undoes.is_none());
    let policies = adopted.flat_map(|adopted| &adopted.policies);
    let on = policies.filter(|policy| names_stage(&policy.spec.selects, stage));
    on.filter_map(|policy| policy.spec.approvals.as_ref()).collect()
}

/// Different people whose last word about the request is a yes that fulfils this.
fn people<'a>(
    seen: &'a Observed,
    request: &Approval,
    fulfils: impl Fn(&Person, &Word) -> bool,
) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    for word in about(seen, request) {
        let Some(person) = &word.spec.by else { continue };
        let last = about(seen, request)
            .filter(|other| other.spec.by.as_ref().is_some_and(|by| by.user == person.user))
            .max_by_key(|other| (other.at, other.name.clone()));
        let stands = last.is_some_and(|last| last.name == word.name);
        if stands && word.spec.decision == Decision::Approve && fulfils(person, word) {
            found.insert(person.user.as_str());
        }
    }
    found
}

fn about<'a>(seen: &'a Observed, request: &Approval) -> impl Iterator<Item = &'a Word> {
    let plan = seen.run.adopted.as_ref().map_or("", |adopted| &adopted.plan);
    let (name, uid) = (request.name.clone(), request.uid.clone());
    seen.policy.words.iter().map(|word| &**word).filter(move |word| {
        let spec = &word.spec;
        seen.options.approvers_are_verified
            && !word.deleting
            && (&spec.request, &spec.request_uid) == (&name, &uid)
            && spec.plan_hash == plan
    })
}

fn counts(seen: &Observed, rules: &ApprovalRules, person: &Person, word: &Word) -> bool {
    let all = rules.groups.is_empty() && rules.users.is_empty();
    let permitted = all
        || rules.users.contains(&person.user)
        || person.groups.iter().any(|group| rules.groups.contains(group));
    let authors = &seen.run.authors;
    let mut wrote = authors.created.iter().chain(&authors.started);
    let author = authors.created.is_none() || wrote.any(|name| *name == person.user);
    let explained = rules.reason != Some(ReasonRule::Required) || !word.spec.reason.is_empty();
    permitted
        && !(rules.not_author == Some(true) && author)
        && explained
        && is_fresh(seen, rules, word)
}

fn is_fresh(seen: &Observed, rules: &ApprovalRules, word: &Word) -> bool {
    let after = rules.expires_after.as_ref().and_then(|text| text.parse::<GoDuration>().ok());
    after.is_none_or(|after| seen.now.duration_since(word.at) < after.as_signed_duration())
}

fn rejected(seen: &Observed, request: &Approval, rules: &ApprovalRules) -> bool {
    about(seen, request).any(|word| {
        let Some(person) = &word.spec.by else { return false };
        let last = about(seen, request)
            .filter(|other| other.spec.by.as_ref().is_some_and(|by| by.user == person.user))
            .max_by_key(|other| (other.at, other.name.clone()));
        let open = rules.groups.is_empty() && rules.users.is_empty();
        let permitted = open
            || rules.users.contains(&person.user)
            || person.groups.iter().any(|group| rules.groups.contains(group));
        permitted
            && word.spec.decision == Decision::Reject
            && last.is_some_and(|last| last.name == word.name)
    })
}

fn one_is_enough(policies: &[&ApprovalRules]) -> bool {
    policies.iter().all(|rules| rules.required == 1 && rules.reason != Some(ReasonRule::Required))
}

/// Whether admission has written into the request itself who approved it.
fn stamped(seen: &Observed, request: &Approval) -> bool {
    let said = request.conditions.of_type(APPROVED);
    seen.options.approvers_are_verified
        && said.is_some_and(|said| said.reason == STAMPED)
        && request.conditions.is_true_at(APPROVED, Generation(request.generation))
}
