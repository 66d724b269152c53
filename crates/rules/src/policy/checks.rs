//! Checks of a policy: what is asked after a cluster or a stage was updated, and what the
//! answers come to.
//!
//! A check is asked in rounds. A good round begins the time that it must hold, or goes on with
//! it; any other begins it anew. Three rounds in a row that are bad or silent are a failure,
//! and so is a check that has not passed in good time: nothing but good answers is a pass.
//! What is no number, NaN included, is silence.
//!
//! Which checks a run asks at a moment is decided in `update_run::checked`; whoever asks them
//! is a shell, and keeps one [`Series`] for each. How groups are compared is in `ranks`; checks
//! that are Jobs on the updated clusters are in `jobs`.

pub mod jobs;
pub mod ranks;

use std::collections::BTreeMap;

use flagship_api::rollout_policy::{After, Check, Pass, Worse};
use flagship_api::rollout_record::Measured;
use flagship_api::staged_update_status::StageUpdatingStatus;
use flagship_base::duration::GoDuration;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::adopted::{Adopted, Policy};
use ranks::{ALPHA, chance_of_higher, enough, median, others_needed};

/// Why a cluster or a stage has failed whose check has.
pub const CHECK_FAILED: &str = "CHECK_FAILED";
/// Rounds in a row that are bad or silent and make a failure.
pub const IN_A_ROW: u32 = 3;
/// How often a check is asked where nobody says.
const INTERVAL: SignedDuration = SignedDuration::from_secs(30);
/// A check is not asked more often than this within the time that it must hold.
const MOST_ROUNDS: i32 = 100;
/// Clusters that are asked of those that are not updated yet.
const MOST_OTHERS: usize = 50;

/// What is to be asked, again and again until it is decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// Whose check it is.
    pub policy: String,
    /// The check.
    pub check: Check,
    /// The run.
    pub run: String,
    /// The stage.
    pub stage: String,
    /// The cluster, for a check after each of them.
    pub cluster: Option<String>,
    /// Clusters that were updated and are asked about; none where the question names none.
    pub updated: Vec<String>,
    /// Clusters that are not updated yet and are asked about.
    pub rest: Vec<String>,
}

/// What is asked about: the check as `policy/name`, the stage, and the cluster or nothing.
pub type Key = (String, String, String);

impl Ask {
    /// What it is about.
    pub fn key(&self) -> Key {
        (
            id(&self.policy, &self.check),
            self.stage.clone(),
            self.cluster.clone().unwrap_or_default(),
        )
    }

    /// How often it is asked.
    pub fn every(&self) -> SignedDuration {
        every(&self.check)
    }

    /// The questions of one round: about updated clusters, and about the rest.
    pub fn questions(&self) -> (Vec<Question>, Vec<Question>) {
        let Some(asked) = &self.check.prometheus else { return (Vec::new(), Vec::new()) };
        let about = |cluster: &str| Question {
            cluster: cluster.to_owned(),
            query: filled(&asked.query, cluster, &self.stage, &self.run),
        };
        let updated = match self.check.is_per_cluster() {
            true => self.updated.iter().map(|cluster| about(cluster)).collect(),
            false => vec![about("")],
        };
        (updated, self.rest.iter().map(|cluster| about(cluster)).collect())
    }
}

/// One question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The cluster it is about; empty where it is about none.
    pub cluster: String,
    /// PromQL.
    pub query: String,
}

/// `production/errors`.
pub fn id(policy: &str, check: &Check) -> String {
    format!("{policy}/{}", check.name)
}

fn read(text: Option<&String>) -> Option<SignedDuration> {
    Some(text?.parse::<GoDuration>().ok()?.as_signed_duration())
}

/// How long answers must be good.
pub fn holds_for(check: &Check) -> SignedDuration {
    read(check.r#for.as_ref()).unwrap_or(SignedDuration::ZERO)
}

/// How often a check is asked.
pub fn every(check: &Check) -> SignedDuration {
    let asked = read(check.interval.as_ref()).unwrap_or(INTERVAL);
    asked.max(holds_for(check) / MOST_ROUNDS).max(SignedDuration::from_secs(1))
}

/// A check that has not passed by then has failed: it may begin anew twice, and has some
/// rounds besides.
pub fn patience(check: &Check) -> SignedDuration {
    holds_for(check).saturating_mul(3).saturating_add(every(check).saturating_mul(10))
}

/// A query with names in the place of its fields, written as they are within quotes of PromQL.
fn filled(query: &str, cluster: &str, stage: &str, run: &str) -> String {
    let quoted = |name: &str| name.replace('\\', "\\\\").replace('"', "\\\"").replace('\'', "\\'");
    let mut filled = String::with_capacity(query.len());
    let mut left = query;
    // Piece by piece, so that a name is never read as a field.
    while let Some(at) = left.find("{{") {
        let (before, field) = left.split_at(at);
        filled.push_str(before);
        let fields = [("{{cluster}}", cluster), ("{{stage}}", stage), ("{{run}}", run)];
        let known =
            fields.iter().find_map(|(name, value)| Some((field.strip_prefix(name)?, value)));
        match known {
            Some((rest, value)) => {
                filled.push_str(&quoted(value));
                left = rest;
            }
            None => {
                filled.push_str("{{");
                left = &field[2..];
            }
        }
    }
    filled + left
}

impl Adopted {
    /// Checks of a stage, each with the name of its policy. What takes another run back is not
    /// held up by them.
    pub fn checks<'a>(
        &'a self,
        stage: &'a str,
        after: After,
    ) -> impl Iterator<Item = (&'a str, &'a Check)> {
        let policies = self.on(stage).filter(|_| self.undoes.is_none());
        let all = policies
            .flat_map(|policy| policy.spec.checks.iter().map(|c| (policy.name.as_str(), c)));
        all.filter(move |(_, check)| check.after == after)
    }

    /// Why the stages of a run could never pass: a comparison needs clusters that are not
    /// updated yet, and there would be too few of them.
    pub fn could_pass(&self, stages: &[StageUpdatingStatus]) -> Result<(), String> {
        for (at, stage) in stages.iter().enumerate() {
            let name = &stage.stage_name;
            let later: usize = stages.iter().skip(at + 1).map(|stage| stage.clusters.len()).sum();
            let updated = stage.clusters.len();
            let compares = |check: &Check| check.compares() && updated > 0;
            let mut after_stage = self.checks(name, After::Stage).filter(|(_, c)| compares(c));
            let mut after_cluster = self.checks(name, After::Cluster).filter(|(_, c)| compares(c));
            let too_few = |count: usize| !enough(count, later);
            let found = after_stage.find(|_| too_few(updated)).map(|found| (found, updated));
            let found =
                found.or_else(|| after_cluster.find(|_| too_few(1)).map(|found| (found, 1)));
            if let Some(((policy, check), count)) = found {
                return Err(format!(
                    "check `{}` of rollout policy `{policy}` can never pass in stage `{name}`: it compares {count} updated cluster(s) with those of later stages, which are {later}, and {} are needed; name the stages that it is for in selects.stages, or set pass.below or pass.above instead",
                    check.name,
                    others_needed(count),
                ));
            }
        }
        Ok(())
    }
}

/// Clusters to compare with, at most [`MOST_OTHERS`] of them, from all over the run.
pub fn others(mut rest: Vec<String>) -> Vec<String> {
    let all = rest.len();
    if all > MOST_OTHERS {
        rest.sort_unstable();
        let kept = (0..MOST_OTHERS).filter_map(|at| rest.get(at * all / MOST_OTHERS).cloned());
        rest = kept.collect();
    }
    rest
}

/// What a cluster answers: a number, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The cluster; empty where the question names none.
    pub cluster: String,
    /// The number, which is one.
    pub value: Result<f64, String>,
}

/// The answers of one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// When it was asked.
    pub at: Timestamp,
    /// About updated clusters.
    pub updated: Vec<Answer>,
    /// About the others.
    pub rest: Vec<Answer>,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// Well.
    Passed,
    /// Badly.
    Failed,
}

/// Where a check stands, as a pass over its run sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// What it is about.
    pub key: Key,
    /// How it ended, if it has.
    pub verdict: Option<Verdict>,
    /// In words, which change only when something turns.
    pub told: String,
    /// What the last round has measured, and when.
    pub last: Option<(Timestamp, Measured)>,
}

/// What was asked of one check so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    began: Timestamp,
    /// Answers of each cluster within the time that the check must hold.
    answers: BTreeMap<String, Vec<(Timestamp, f64)>>,
    /// Since when every round was good.
    good_since: Option<Timestamp>,
    /// Rounds in a row that were bad or silent.
    poor: u32,
    last: Option<(Timestamp, Measured)>,
    told: String,
    verdict: Option<Verdict>,
}

/// What one round comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Good,
    /// Too few clusters have answered.
    Unknown,
    Silent,
    Bad,
}

impl Series {
    /// Of a check that is asked from now on.
    pub fn new(now: Timestamp) -> Self {
        Self {
            began: now,
            answers: BTreeMap::new(),
            good_since: None,
            poor: 0,
            last: None,
            told: "not asked yet".to_owned(),
            verdict: None,
        }
    }

    /// Where it stands.
    pub fn standing(&self, key: Key) -> Standing {
        let (verdict, told, last) = (self.verdict, self.told.clone(), self.last.clone());
        Standing { key, verdict, told, last }
    }

    /// Whether it is decided.
    pub fn is_over(&self) -> bool {
        self.verdict.is_some()
    }

    /// Takes the answers of a round; a check that is decided stays so.
    pub fn take(&mut self, check: &Check, round: &Round) {
        // Answers to what was asked before this began are not about it.
        if self.verdict.is_some() || round.at < self.began {
            return;
        }
        let (hold, every) = (holds_for(check), every(check));
        let gap = self.last.as_ref().map(|(at, _)| round.at.duration_since(*at));
        if gap.is_some_and(|gap| gap > every.saturating_mul(3)) {
            // Nobody knows what was between.
            self.good_since = None;
        }
        self.keep(round, hold);
        let (outcome, says, measured) = self.judge(check, round);
        self.last = Some((round.at, measured));
        let (had_since, had_poor) = (self.good_since, self.poor);
        match outcome {
            Outcome::Good => {
                self.poor = 0;
                let since = *self.good_since.get_or_insert(round.at);
                if round.at.duration_since(since) >= hold {
                    self.verdict = Some(Verdict::Passed);
                    let long = if hold.is_zero() {
                        String::new()
                    } else {
                        format!(", for {}", spelled(hold))
                    };
                    self.told = format!("{says}{long}");
                    return;
                }
            }
            Outcome::Unknown => self.good_since = None,
            Outcome::Bad | Outcome::Silent => {
                self.good_since = None;
                self.poor += 1;
                if self.poor >= IN_A_ROW {
                    self.verdict = Some(Verdict::Failed);
                    self.told = format!("{says}; {IN_A_ROW} times in a row it was no good answer");
                    return;
                }
            }
        }
        let patience = patience(check);
        if round.at.duration_since(self.began) >= patience {
            self.verdict = Some(Verdict::Failed);
            let wanted = match hold.is_zero() {
                true => "passed".to_owned(),
                false => format!("held for {}", spelled(hold)),
            };
            self.told = format!("has not {wanted} within {}; last: {says}", spelled(patience));
            return;
        }
        let turned = (had_since, had_poor) != (self.good_since, self.poor);
        if turned || outcome == Outcome::Unknown {
            self.told = match (outcome, self.good_since) {
                (Outcome::Good, Some(since)) => {
                    let until = since.saturating_add(hold).unwrap_or(since);
                    format!("{says} since {since:.0}, and must be until {until:.0}")
                }
                (Outcome::Bad | Outcome::Silent, _) => {
                    format!("{says} ({} of {IN_A_ROW} in a row)", self.poor)
                }
                _ => says,
            };
        }
    }

    /// Keeps what was answered within the time that a check must hold.
    fn keep(&mut self, round: &Round, hold: SignedDuration) {
        for answer in round.updated.iter().chain(&round.rest) {
            if let Ok(value) = answer.value {
                self.answers.entry(answer.cluster.clone()).or_default().push((round.at, value));
            }
        }
        for values in self.answers.values_mut() {
            values.retain(|(at, _)| round.at.duration_since(*at) <= hold);
        }
        self.answers.retain(|_, values| !values.is_empty());
    }

    fn judge(&self, check: &Check, round: &Round) -> (Outcome, String, Measured) {
        let limit = |limit: Option<f64>| limit.map(shown);
        let nothing = Pass::default();
        let pass = check.pass.as_ref().unwrap_or(&nothing);
        let mut measured =
            Measured { below: limit(pass.below), above: limit(pass.above), ..Measured::default() };
        let silent = round.updated.iter().find_map(|a| Some((&a.cluster, a.value.as_ref().err()?)));
        if let Some((cluster, why)) = silent {
            let who = if cluster.is_empty() { String::new() } else { format!(" about {cluster}") };
            return (Outcome::Silent, format!("no answer{who}: {why}"), measured);
        }
        let values = round.updated.iter().filter_map(|a| Some((a.value.clone().ok()?, &a.cluster)));
        let values: Vec<(f64, &String)> = values.collect();
        let by_value = |a: &&(f64, &String), b: &&(f64, &String)| a.0.total_cmp(&b.0);
        let (Some(highest), Some(lowest)) =
            (values.iter().rev().max_by(by_value), values.iter().min_by(by_value))
        else {
            return (Outcome::Silent, "nobody was asked".to_owned(), measured);
        };
        let of = |cluster: &str| {
            if cluster.is_empty() { String::new() } else { format!(" of {cluster}") }
        };
        let mut found = Vec::new();
        if let Some(above) = pass.above {
            let (value, cluster) = lowest;
            measured.value = Some(shown(*value));
            found.push(compared(
                *value > above,
                &format!("{}{}", shown(*value), of(cluster)),
                "above",
                above,
            ));
        }
        if let Some(below) = pass.below {
            let (value, cluster) = highest;
            measured.value = Some(shown(*value));
            found.push(compared(
                *value < below,
                &format!("{}{}", shown(*value), of(cluster)),
                "below",
                below,
            ));
        }
        if pass.not_worse_than.is_some() {
            found.push(self.beside_the_rest(pass, round, &mut measured));
        }
        // The worst of them counts, and is told.
        let worst = found.into_iter().reduce(|a, b| match b.0 > a.0 {
            true => b,
            false if a.0 == b.0 => (a.0, format!("{}, and {}", a.1, b.1)),
            false => a,
        });
        let (outcome, says) =
            worst.unwrap_or_else(|| (Outcome::Unknown, "nothing says what is good".to_owned()));
        (outcome, says, measured)
    }

    /// Each cluster counts once, with the median of what it answered within the time.
    fn beside_the_rest(
        &self,
        pass: &Pass,
        round: &Round,
        measured: &mut Measured,
    ) -> (Outcome, String) {
        let medians = |answers: &[Answer]| -> Vec<f64> {
            let own = answers.iter().filter(|answer| answer.value.is_ok());
            let own = own.filter_map(|answer| {
                let values = self.answers.get(&answer.cluster)?;
                median(&values.iter().map(|(_, value)| *value).collect::<Vec<_>>())
            });
            own.collect()
        };
        let (updated, rest) = (medians(&round.updated), medians(&round.rest));
        let (n, m) = (updated.len(), rest.len());
        let (Some(ours), Some(theirs)) = (median(&updated), median(&rest)) else {
            return (Outcome::Unknown, too_few(n, m));
        };
        (measured.value, measured.rest) = (Some(shown(ours)), Some(shown(theirs)));
        if !enough(n, m) {
            return (Outcome::Unknown, too_few(n, m));
        }
        let by: f64 =
            pass.by.as_deref().and_then(|by| by.trim_end_matches('%').parse().ok()).unwrap_or(0.0);
        let margin = theirs.abs() * by / 100.0;
        let (beyond, chance) = match pass.worse.unwrap_or_default() {
            Worse::Higher => (ours > theirs + margin, chance_of_higher(&updated, &rest)),
            Worse::Lower => (ours < theirs - margin, chance_of_higher(&rest, &updated)),
        };
        let is_worse = beyond && chance <= ALPHA;
        let not = if is_worse { "" } else { "not " };
        let by = pass.by.as_deref().map_or_else(String::new, |by| format!(" by more than {by}"));
        let says = format!(
            "{} on {n} updated is {not}worse than {} on {m} other cluster(s){by} (medians, p {chance:.3})",
            shown(ours),
            shown(theirs)
        );
        (if is_worse { Outcome::Bad } else { Outcome::Good }, says)
    }
}

fn compared(holds: bool, value: &str, word: &str, limit: f64) -> (Outcome, String) {
    let limit = shown(limit);
    match holds {
        true => (Outcome::Good, format!("{value} is {word} {limit}")),
        false => (Outcome::Bad, format!("{value} is not {word} {limit}")),
    }
}

fn too_few(updated: usize, others: usize) -> String {
    format!(
        "unknown, too few have answered to compare: {updated} updated and {others} other cluster(s), and {} others are needed",
        others_needed(updated)
    )
}

/// `2m` for Go's `2m0s`.
fn spelled(time: SignedDuration) -> String {
    let text = GoDuration::from_secs(time.as_secs()).to_string();
    let text = text.strip_suffix("m0s").map_or(text.clone(), |minutes| format!("{minutes}m"));
    text.strip_suffix("h0m").map_or(text.clone(), |hours| format!("{hours}h"))
}

/// A number with four digits that count.
pub fn shown(value: f64) -> String {
    let rounded: f64 = format!("{value:.3e}").parse().unwrap_or(value);
    let size = rounded.abs();
    match size != 0.0 && !(1e-6..1e15).contains(&size) {
        true => format!("{rounded:e}"),
        false => rounded.to_string(),
    }
}

/// The number that a Prometheus answers to a question about one moment, or why there is none.
pub fn number(status: u16, body: &[u8]) -> Result<f64, String> {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    if status != 200 || answer["status"] != "success" {
        let why: String =
            answer["error"].as_str().unwrap_or("no error is given").chars().take(200).collect();
        return Err(format!("Prometheus answers {status}, {why}"));
    }
    let found = &answer["data"]["result"];
    let value = match (answer["data"]["resultType"].as_str(), found.as_array()) {
        (Some("scalar"), Some(_)) => found,
        (Some("vector"), Some(series)) => match series.as_slice() {
            [] => return Err("Prometheus has no such series".to_owned()),
            [one] => &one["value"],
            many => {
                return Err(format!(
                    "Prometheus answers {} series, and one is wanted: put sum() or the like around the query",
                    many.len()
                ));
            }
        },
        (kind, _) => {
            let kind = kind.unwrap_or("nothing");
            return Err(format!("Prometheus answers a {kind}, and one number is wanted"));
        }
    };
    let text = value[1].as_str().unwrap_or_default();
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(format!(
            "Prometheus answers {}, which is no number",
            if text.is_empty() { "nothing" } else { text }
        )),
    }
}

/// One check, as policies are told to people: `check errors after each stage, below 0.01, for 5m`.
pub fn told(checks: &[Check]) -> Vec<String> {
    let one = |check: &Check| {
        let mut words = vec![format!(
            "check {} after each {}",
            check.name,
            match check.after {
                After::Cluster => "cluster",
                After::Stage => "stage",
            }
        )];
        if let Some(job) = &check.job {
            let most = spelled(jobs::timeout(job));
            words.push(format!("by a Job in namespace {} within {most}", job.namespace));
        }
        if let Some(pass) = &check.pass {
            words.extend(pass.above.map(|limit| format!("above {}", shown(limit))));
            words.extend(pass.below.map(|limit| format!("below {}", shown(limit))));
        }
        if let Some(pass) = check.pass.as_ref().filter(|pass| pass.not_worse_than.is_some()) {
            let by = pass.by.as_deref().map_or_else(String::new, |by| format!(" by {by}"));
            words.push(format!("not worse than the rest{by}"));
        }
        words.extend(check.r#for.as_ref().map(|time| format!("for {time}")));
        words.join(" ")
    };
    checks.iter().map(one).collect()
}

/// What a schema cannot tell of a policy's checks.
pub fn mistakes(policy: &Policy) -> Option<String> {
    policy.spec.checks.iter().find_map(|check| {
        if let Some(job) = &check.job {
            let why = jobs::mistake(job)?;
            return Some(format!("the Job of check `{}` cannot be run: {why}", check.name));
        }
        let every = read(check.interval.as_ref()).unwrap_or(INTERVAL);
        let hold = holds_for(check);
        (!hold.is_zero() && hold < every).then(|| {
            format!(
                "check `{}` would be asked every {} and must hold for {}, which is shorter: set interval to at most that",
                check.name,
                spelled(every),
                spelled(hold)
            )
        })
    })
}

#[cfg(test)]
mod tests;
