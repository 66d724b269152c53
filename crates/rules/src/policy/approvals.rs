//! Who may approve under the policies of a run, and whose word counts.
//!
//! A word is what one person said to one approval request. It counts if it is about this very
//! request and this plan, admission knows who said it, that person is permitted by every policy,
//! did not start the run where that is forbidden, gave a reason where one is wanted, and it has
//! not expired. Of one person the last word counts. Nothing else opens the gate: what a request's
//! own status says was written by the hub after it had counted, or does not count.

use std::collections::BTreeMap;

use flagship_api::approval_decision::{ApprovalSpec, Decision, Person};
use flagship_api::rollout_policy::{ApprovalRules, Expired, ReasonRule};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use super::adopted::{Adopted, read as duration};

/// What one person said to one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Word {
    /// Name of the object.
    pub name: String,
    /// When the server took it.
    pub at: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// What was said, about what, and by whom.
    pub spec: ApprovalSpec,
}

impl Word {
    /// What the rules read of an approval of either scope.
    pub fn read(metadata: &ObjectMeta, spec: &ApprovalSpec) -> Self {
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            at: metadata.creation_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0),
            deleting: metadata.deletion_timestamp.is_some(),
            spec: spec.clone(),
        }
    }
}

/// Who is behind a run, as admission has noted it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authors {
    /// Who created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// Who set it to run after that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub started: Vec<String>,
}

impl Authors {
    /// Whether nobody is noted.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn includes(&self, user: &str) -> bool {
        self.created.iter().chain(&self.started).any(|author| author == user)
    }
}

/// What is asked for: which request, for which plan, of a run by whom, and when.
#[derive(Debug, Clone, Copy)]
pub struct Asking<'a> {
    /// Name of the request.
    pub request: &'a str,
    /// Its UID.
    pub uid: &'a str,
    /// The hash of the plan.
    pub plan: &'a str,
    /// Who is behind the run.
    pub authors: &'a Authors,
    /// Whether admission vouches for names.
    pub verified: bool,
    /// The present moment.
    pub now: Timestamp,
}

/// A word that is dated later than the clock shows by more than this does not count: whoever
/// can set a clock back must not make words last longer.
const SKEW: SignedDuration = SignedDuration::from_mins(1);

/// What the policies of a stage ask for together: of each value the strictest.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms<'a> {
    of: Vec<(&'a str, &'a ApprovalRules)>,
}

impl Adopted {
    /// What approvals of a stage need; `None` where no policy says. What takes another run back
    /// is not asked again: the word of the policy is the approval.
    pub fn approvals<'a>(&'a self, stage: &'a str) -> Option<Terms<'a>> {
        if self.undoes.is_some() {
            return None;
        }
        let of = self
            .on(stage)
            .filter_map(|policy| Some((policy.name.as_str(), policy.spec.approvals.as_ref()?)));
        let of: Vec<_> = of.collect();
        (!of.is_empty()).then_some(Terms { of })
    }

    /// Groups whose members may approve a stage, or let it pass in an emergency.
    pub fn approving_groups(&self, stage: &str) -> Vec<String> {
        let rules = self.on(stage).filter_map(|policy| policy.spec.approvals.as_ref());
        rules.flat_map(|rules| rules.groups.iter().cloned()).collect()
    }

    /// Whether a policy asks for approvals anywhere.
    pub fn asks_for_approvals(&self) -> bool {
        let mut policies = self.policies.iter();
        self.undoes.is_none() && policies.any(|policy| policy.spec.approvals.is_some())
    }

    /// Policies that disagree on what follows have no stricter side.
    pub(super) fn agree_on_approvals(&self, stage: &str) -> Result<(), String> {
        self.agree(stage, "approvals.then", |policy| policy.spec.approvals.as_ref()?.then)
    }
}

/// How a request stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// People whose word counts, in order of time, with what they said.
    pub given: Vec<Given>,
    /// How many more are wanted.
    pub missing: usize,
    /// Who must give them.
    pub wanted: String,
    /// Who said no, and why.
    pub rejected: Option<Given>,
    /// Words that do not count, and why.
    pub refused: Vec<String>,
    /// People who break the glass, if they are enough.
    pub glass: Vec<Given>,
    /// When the next word that counts expires.
    pub expires: Option<Timestamp>,
    /// Why the run has to end, if it has to.
    pub stops: Option<String>,
}

/// A word that counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Given {
    /// Who.
    pub user: String,
    /// Why, if they said so.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

impl std::fmt::Display for Given {
    fn fmt(&self, into: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.reason.as_str() {
            "" => into.write_str(&self.user),
            reason => write!(into, "{} ({reason})", self.user),
        }
    }
}

impl Tally {
    /// Whether the stage may go on.
    pub fn passes(&self) -> bool {
        !self.glass.is_empty() || (self.missing == 0 && self.rejected.is_none())
    }

    /// Names of those who let it pass.
    pub fn names(&self) -> Vec<&str> {
        let all = if self.glass.is_empty() { &self.given } else { &self.glass };
        all.iter().map(|given| given.user.as_str()).collect()
    }

    /// Who let it pass, and why: what the request says.
    pub fn approved(&self) -> String {
        match self.glass.is_empty() {
            true => format!("approved by {}", listed(&self.given)),
            false => format!("break glass: let pass by {}", listed(&self.glass)),
        }
    }

    /// How it stands, for those who wait: `rejected by bob (too risky)`, or `1 of 2 approvals, by
    /// alice; 1 missing: 2 people of group release-managers`.
    pub fn told(&self) -> String {
        if let Some(rejected) = &self.rejected {
            return format!("rejected by {rejected}");
        }
        let all = self.given.len() + self.missing;
        let by = match self.given.as_slice() {
            [] => String::new(),
            given => format!(", by {}", listed(given)),
        };
        let mut told = format!(
            "{} of {all} approvals{by}; {} missing, from {}",
            self.given.len(),
            self.missing,
            self.wanted
        );
        if let Some(refused) = self.refused.first() {
            told.push_str(&format!("; does not count: {refused}"));
        }
        if self.refused.len() > 1 {
            told.push_str(&format!(", and {} more", self.refused.len() - 1));
        }
        told
    }
}

fn listed(given: &[Given]) -> String {
    given.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Terms<'_> {
    fn rules(&self) -> impl Iterator<Item = &ApprovalRules> {
        self.of.iter().map(|(_, rules)| *rules)
    }

    /// How many different people must approve.
    pub fn required(&self) -> usize {
        let most = self.rules().map(|rules| usize::try_from(rules.required).unwrap_or(1)).max();
        most.unwrap_or(1).max(1)
    }

    /// Whether everybody must say why.
    pub fn wants_reason(&self) -> bool {
        self.rules().any(|rules| rules.reason == Some(ReasonRule::Required))
    }

    /// Whether one person who says nothing more than yes is enough, as KubeFleet's own tools do.
    pub fn one_word_is_enough(&self) -> bool {
        self.required() == 1 && !self.wants_reason()
    }

    /// Whether who created or started the run does not count.
    pub fn not_author(&self) -> bool {
        self.rules().any(|rules| rules.not_author == Some(true))
    }

    fn expires_after(&self) -> Option<SignedDuration> {
        self.rules().filter_map(|rules| duration(rules.expires_after.as_ref())).min()
    }

    fn stops_when_expired(&self) -> bool {
        self.rules().any(|rules| rules.then == Some(Expired::Stop))
    }

    /// Names of the policies.
    pub fn policies(&self) -> String {
        self.of.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    /// Why somebody may not approve; nothing if they may, by every policy.
    pub fn forbids(&self, person: &Person) -> Option<String> {
        let refuses = |(policy, rules): &&(&str, &ApprovalRules)| {
            let open = rules.groups.is_empty() && rules.users.is_empty();
            let named = rules.users.contains(&person.user);
            let member = person.groups.iter().any(|group| rules.groups.contains(group));
            (!open && !named && !member).then(|| (*policy).to_owned())
        };
        let policy = self.of.iter().find_map(|one| refuses(&one))?;
        Some(format!(
            "{} is not {} (policy {policy})",
            person.user,
            self.of
                .iter()
                .find(|(name, _)| *name == policy)
                .map_or_else(String::new, |(_, r)| who(r))
        ))
    }

    /// Why somebody's word cannot count because of who they are; nothing if it may.
    pub fn may_not(&self, person: &Person, authors: &Authors) -> Option<String> {
        if let Some(why) = self.forbids(person) {
            return Some(why);
        }
        if !self.not_author() {
            return None;
        }
        if authors.created.is_none() {
            return Some(
                "nobody knows who created the run, and its author may not approve it: it was created before the policy, or without admission; create it again".to_owned(),
            );
        }
        let author = authors.includes(&person.user);
        author.then(|| {
            format!("{} created or started the run, and its author may not approve it", person.user)
        })
    }

    /// How many people break the glass; `None` where nobody may.
    pub fn glass(&self) -> Option<usize> {
        let each = self.rules().map(|rules| {
            let glass = rules.break_glass.as_ref()?;
            Some(usize::try_from(glass.required.unwrap_or(1)).unwrap_or(1).max(1))
        });
        each.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// Whether somebody may break the glass, by every policy.
    pub fn may_break_glass(&self, person: &Person) -> bool {
        self.rules().all(|rules| {
            let groups = rules.break_glass.as_ref().map(|glass| &glass.groups);
            groups.is_some_and(|groups| person.groups.iter().any(|group| groups.contains(group)))
        })
    }

    /// Who must approve: `2 people of group release-managers, not the author, with a reason`.
    pub fn wanted(&self) -> String {
        let required = self.required();
        let people = if required == 1 { "person" } else { "people" };
        let named: Vec<String> = self
            .rules()
            .filter(|rules| !rules.groups.is_empty() || !rules.users.is_empty())
            .map(who)
            .collect();
        let mut told = match named.is_empty() {
            true => format!("{required} {people}, whoever may create approvals"),
            false => format!("{required} {people}, {}", named.join(" and also ")),
        };
        if self.not_author() {
            told.push_str(", not the author of the run");
        }
        if self.wants_reason() {
            told.push_str(", with a reason");
        }
        if let Some(after) = self.expires_after() {
            told.push_str(&format!(", worth {after:#}"));
        }
        told
    }

    /// Counts what was said to a request.
    pub fn count<'w>(
        &self,
        words: impl IntoIterator<Item = &'w Word>,
        asking: &Asking<'_>,
    ) -> Tally {
        let mut refused = Vec::new();
        let mut last: BTreeMap<&str, &Word> = BTreeMap::new();
        let about = words.into_iter().filter(|word| word.spec.request == asking.request);
        for word in about {
            match targeted(word, asking) {
                Ok(person) => {
                    let kept = last.entry(&person.user).or_insert(word);
                    if (kept.at, &kept.name) < (word.at, &word.name) {
                        *kept = word;
                    }
                }
                Err(why) => refused.push(why),
            }
        }
        let mut tally = Tally {
            given: Vec::new(),
            missing: 0,
            wanted: self.wanted(),
            rejected: None,
            refused,
            glass: Vec::new(),
            expires: None,
            stops: None,
        };
        let mut glass = Vec::new();
        let mut expired = None;
        for word in last.into_values() {
            let Some(person) = &word.spec.by else { continue };
            let said =
                Given { user: person.user.clone(), reason: word.spec.reason.clone(), at: word.at };
            if word.spec.decision == Decision::Reject {
                match self.forbids(person) {
                    None => tally.rejected = tally.rejected.take().or(Some(said)),
                    Some(why) => tally.refused.push(format!("the rejection by {why}")),
                }
                continue;
            }
            let until = self.expires_after().and_then(|after| word.at.saturating_add(after).ok());
            if let Some(until) = until.filter(|until| *until <= asking.now) {
                tally.refused.push(format!("that of {} expired at {until}", person.user));
                expired = expired.or(Some(said));
                continue;
            }
            if word.spec.break_glass && self.may_break_glass(person) && !said.reason.is_empty() {
                glass.push(said.clone());
            }
            let why = match self.may_not(person, asking.authors) {
                None if self.wants_reason() && said.reason.is_empty() => {
                    Some(format!("{} gave no reason, and the policy wants one", person.user))
                }
                why => why,
            };
            if let Some(why) = why {
                tally.refused.push(why);
                continue;
            }
            tally.expires = [tally.expires, until].into_iter().flatten().min();
            tally.given.push(said);
        }
        tally.given.sort_by_key(|given| given.at);
        glass.sort_by_key(|given| given.at);
        tally.missing = self.required().saturating_sub(tally.given.len());
        if self.glass().is_some_and(|needed| glass.len() >= needed) {
            tally.glass = glass;
        }
        if let Some(expired) = expired.filter(|_| self.stops_when_expired() && !tally.passes()) {
            tally.stops = Some(format!(
                "the approval of {} by {} expired before {} were given, and policy {} says that the run stops then",
                asking.request,
                expired.user,
                self.required(),
                self.policies()
            ));
        }
        tally
    }
}

/// Who said a word that is about what is asked for; an error says why it is not.
fn targeted<'w>(word: &'w Word, asking: &Asking<'_>) -> Result<&'w Person, String> {
    let Some(person) = word.spec.by.as_ref().filter(|by| asking.verified && !by.user.is_empty())
    else {
        return Err(format!(
            "{}, since no admission webhook of the hub vouches for who wrote it; start the hub with --enable-webhook",
            word.name
        ));
    };
    let user = &person.user;
    if word.deleting {
        return Err(format!("that of {user} is being deleted"));
    }
    if word.spec.request_uid != asking.uid {
        return Err(format!("that of {user} is about another request of this name; approve anew"));
    }
    if word.spec.plan_hash != asking.plan {
        return Err(format!(
            "that of {user} is about another plan ({}), this one is {}; approve anew",
            word.spec.plan_hash, asking.plan
        ));
    }
    if word.at.duration_since(asking.now) > SKEW {
        return Err(format!("that of {user} is dated later than the clock of the hub"));
    }
    Ok(person)
}

/// Whom one policy names: `of group a or b, or carol`.
fn who(rules: &ApprovalRules) -> String {
    let groups = match rules.groups.as_slice() {
        [] => None,
        groups => Some(format!("of group {}", groups.join(" or "))),
    };
    let users = (!rules.users.is_empty()).then(|| rules.users.join(" or "));
    groups.into_iter().chain(users).collect::<Vec<_>>().join(", or ")
}

/// What a policy says of approvals, for those who are about to start a run.
pub fn told(rules: &ApprovalRules) -> String {
    let terms = Terms { of: vec![("", rules)] };
    let mut told = format!("approvals by {}", terms.wanted());
    if let (Some(glass), Some(needed)) = (&rules.break_glass, terms.glass()) {
        told.push_str(&format!(
            "; in an emergency {needed} of group {}",
            glass.groups.join(" or ")
        ));
    }
    told
}

#[cfg(test)]
mod tests;
