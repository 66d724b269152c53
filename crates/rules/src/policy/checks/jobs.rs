//! Checks by Jobs: what updated clusters are to run, what their members report of it, and what
//! the reports come to.
//!
//! A Job reaches a member as every object does: in a Work, which has nothing else in it and whose
//! status brings the Job's status back. What was reported is stored with the Work, so a new leader
//! goes on with the Jobs of the last one. What is sent is the Job of a policy that is there now,
//! and only while it is the one that the run follows: the run's copy is an annotation, and whoever
//! may write that may not run code on members. A check has passed when its Job is complete on every
//! updated cluster. One that has failed, is not applied, or is not reported in time is a failure.

use std::collections::BTreeMap;

use flagship_api::apply_strategy::{
    ReportBackDestination, ReportBackStrategy, ReportBackStrategyType,
};
use flagship_api::condition::{ConditionStatus, Conditions};
use flagship_api::condition_type::work::APPLIED;
use flagship_api::hash;
use flagship_api::keys::own;
use flagship_api::names::member_namespace;
use flagship_api::raw_json::RawJson;
use flagship_api::rollout_policy::{Check, JobCheck, RolloutPolicySpec};
use flagship_api::work::{ManifestCondition, Work, WorkSpec, WorkloadTemplate};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Ask, Key, Standing, Verdict, read, spelled};
use crate::diagnosis::report;

/// How long a Job may take where nobody says.
const TIMEOUT: SignedDuration = SignedDuration::from_mins(10);
/// How much later than the Job has to end its member may say so.
const REPORTED_WITHIN: SignedDuration = SignedDuration::from_mins(1);
/// How long a failed Job is waited for to say why: its member writes that a moment later.
const EXPLAINED_WITHIN: SignedDuration = SignedDuration::from_secs(10);
/// The longest time between two looks; what members report is looked at when it comes.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(30);
/// Bytes of a Job in a policy. Runs carry the policies they follow in an annotation.
const LARGEST: usize = 16 * 1024;

/// How long a Job may take on a cluster.
pub fn timeout(job: &JobCheck) -> SignedDuration {
    read(job.timeout.as_ref()).unwrap_or(TIMEOUT)
}

/// What a schema cannot tell of a Job: why it would never end, or not be taken by a member.
pub fn mistake(job: &JobCheck) -> Option<String> {
    let spec = &job.template.spec;
    let pod = &spec["template"]["spec"];
    let size = spec.to_string().len();
    let is_list = |of: &Value| of.as_array().is_some_and(|list| !list.is_empty());
    if size > LARGEST {
        return Some(format!(
            "job.template has {size} bytes, and {LARGEST} are the most; put what is long into a ConfigMap that the placement brings"
        ));
    }
    if !is_list(&pod["containers"]) {
        return Some("set job.template.spec.template.spec.containers".to_owned());
    }
    if !["Never", "OnFailure"].contains(&pod["restartPolicy"].as_str().unwrap_or_default()) {
        return Some(
            "set job.template.spec.template.spec.restartPolicy to Never or OnFailure".to_owned(),
        );
    }
    let field = HUB_SETS.iter().find(|field| !spec[**field].is_null())?;
    Some(format!("leave out job.template.spec.{field}, which is the hub's to set"))
}

/// Fields of a Job that would keep it from ending, have it run twice, or not be taken at all.
const HUB_SETS: [&str; 4] = ["ttlSecondsAfterFinished", "suspend", "selector", "manualSelector"];

/// What a Work and its Job say of the check that they answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    check: String,
    stage: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    cluster: String,
    namespace: String,
}

/// Whether an object on a member is the Job of a check.
pub fn is_check(object: &Value) -> bool {
    !object["metadata"]["annotations"][own::CHECK].is_null()
}

/// What a check sends: the check of the policy as it is now, if that is the one in the copy that
/// the run follows. An error says why nothing is sent.
pub fn sends(ask: &Ask, policy: Option<&RolloutPolicySpec>) -> Result<Ask, String> {
    let (policy_name, name) = (&ask.policy, &ask.check.name);
    let why = match policy {
        None => format!("rollout policy `{policy_name}`, which has them, is gone"),
        Some(policy) => match policy.checks.iter().find(|check| check.name == *name) {
            Some(check) if *check == ask.check => {
                return Ok(Ask { check: check.clone(), ..ask.clone() });
            }
            Some(_) => format!(
                "check `{name}` of rollout policy `{policy_name}` is not what it was when the update run was initialized"
            ),
            None => format!("rollout policy `{policy_name}` has no check `{name}` any more"),
        },
    };
    Err(format!(
        "{why}; put the check back as it was, or delete the update run and start a new one"
    ))
}

/// The name of a Job, and of the Work that brings it: that of the run and the check, cut, and
/// something that no other run, check, stage and cluster has.
pub fn name(ask: &Ask, run_uid: &str, cluster: &str) -> String {
    let (check, stage, of) = ask.key();
    let unique = hash::of_text(&[run_uid, &check, &stage, &of, cluster].join("\n"));
    let plain: String = format!("{}-{}", ask.run, ask.check.name).replace('.', "-");
    // Pods are named after a Job and bear its name in a label of 63 characters.
    let plain: String = plain.chars().take(42).collect();
    format!("{}-{}", plain.trim_end_matches('-'), unique.get(..8).unwrap_or_default())
}

/// The Work that brings the Job of a check to one of the updated clusters.
pub fn work(ask: &Ask, run_uid: &str, cluster: &str) -> Result<Work, String> {
    let job = ask.check.job.as_ref().ok_or("the check has no Job")?;
    let name = name(ask, run_uid, cluster);
    let (check, stage, of) = ask.key();
    let note = Note { check, stage, cluster: of, namespace: job.namespace.clone() };
    let note = serde_json::to_string(&note).map_err(|error| error.to_string())?;
    let manifest = manifest(ask, job, &name, &note, cluster);
    let manifest = RawJson::of(&manifest).map_err(|error| error.to_string())?;
    Ok(Work {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(member_namespace(cluster)),
            labels: Some([(own::UPDATE_RUN_UID.to_owned(), run_uid.to_owned())].into()),
            annotations: Some([(own::CHECK.to_owned(), note)].into()),
            ..ObjectMeta::default()
        },
        spec: WorkSpec {
            workload: WorkloadTemplate { manifests: vec![manifest] },
            apply_strategy: None,
            report_back_strategy: Some(ReportBackStrategy {
                r#type: ReportBackStrategyType::Mirror,
                destination: Some(ReportBackDestination::WorkApi),
            }),
        },
        status: None,
    })
}

/// The Job as the policy has it, with what a check needs: an end in time, the last lines of its
/// log where it fails, and the names of what it checks.
fn manifest(ask: &Ask, job: &JobCheck, name: &str, note: &str, cluster: &str) -> Value {
    let metadata = job.template.metadata.clone().unwrap_or_default();
    let mut annotations = metadata.annotations;
    annotations.insert(own::CHECK.to_owned(), note.to_owned());
    let mut spec = job.template.spec.clone();
    if let Some(spec) = spec.as_object_mut() {
        HUB_SETS.iter().for_each(|field| drop(spec.remove(*field)));
        let most = timeout(job).as_secs().max(1);
        let own = spec.get("activeDeadlineSeconds").and_then(Value::as_i64);
        spec.insert("activeDeadlineSeconds".to_owned(), own.unwrap_or(most).min(most).into());
    }
    let names = [
        ("FLAGSHIP_RUN", &*ask.run),
        ("FLAGSHIP_STAGE", &ask.stage),
        ("FLAGSHIP_CLUSTER", cluster),
    ];
    for list in ["initContainers", "containers"] {
        let containers = spec.pointer_mut(&format!("/template/spec/{list}"));
        let containers = containers.and_then(Value::as_array_mut).into_iter().flatten();
        containers.filter_map(Value::as_object_mut).for_each(|one| told_about(one, &names));
    }
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": metadata.labels,
            "annotations": annotations,
        },
        "spec": spec,
    })
}

/// A container that knows what it checks, and leaves the end of its log where it fails.
fn told_about(container: &mut Map<String, Value>, names: &[(&str, &str)]) {
    container.entry("terminationMessagePolicy").or_insert_with(|| json!("FallbackToLogsOnError"));
    let env = container.entry("env").or_insert_with(|| json!([]));
    let Some(env) = env.as_array_mut() else { return };
    let known = |name: &str| env.iter().any(|one| one["name"] == name);
    let new = names.iter().filter(|(name, _)| !known(name));
    let new: Vec<Value> = new.map(|(name, value)| json!({"name": name, "value": value})).collect();
    // First, so that what the policy says may refer to them.
    env.splice(..0, new);
}

/// What is stored of the Job of a check on one cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobReport {
    /// UID of the run.
    pub run_uid: String,
    /// What it answers.
    pub key: Key,
    /// The Job, as `namespace/name`.
    pub job: String,
    /// When it was sent.
    pub sent: Timestamp,
    /// How far it has come.
    pub state: JobState,
    /// Why it fails, or cannot begin, as the member's agent found out.
    pub cause: Option<String>,
}

/// How far a Job has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobState {
    /// Its member has said nothing.
    Sent,
    /// It could not be made, in the member's words.
    NotApplied(String),
    /// It runs, since when.
    Running(Option<Timestamp>),
    /// It is complete, and how long it took.
    Complete(Option<SignedDuration>),
    /// It has failed: the reason of Kubernetes, and after how long.
    Failed(String, Option<SignedDuration>),
}

impl JobReport {
    /// What a Work says of the Job of a check; nothing for all other Works.
    pub fn read(work: &Work) -> Option<Self> {
        let meta = &work.metadata;
        let notes = meta.annotations.as_ref()?;
        let note: Note = serde_json::from_str(notes.get(own::CHECK)?).ok()?;
        let job = format!("{}/{}", note.namespace, meta.name.as_deref().unwrap_or_default());
        let causes = notes.get(own::FAILURE_CAUSES).map(|text| report::read(text));
        let cause = causes.into_iter().flatten().find(|found| found.kind == "Job");
        let told = work.status.iter().flat_map(|status| &status.manifest_conditions).next();
        Some(Self {
            run_uid: meta.labels.as_ref()?.get(own::UPDATE_RUN_UID)?.clone(),
            key: (note.check, note.stage, note.cluster),
            job,
            sent: meta.creation_timestamp.as_ref().map(|time| time.0)?,
            state: told.map_or(JobState::Sent, state),
            cause: cause.map(|found| found.says),
        })
    }

    /// Whether it is of no use any more, as its run is gone or has ended. A Job that has failed is
    /// left for people to look at until its run is deleted.
    pub fn is_over(&self, run_has_ended: Option<bool>) -> bool {
        match run_has_ended {
            None => true,
            Some(ended) => ended && !matches!(self.state, JobState::Failed(..)),
        }
    }
}

fn state(told: &ManifestCondition) -> JobState {
    let refused = told.conditions.of_type(APPLIED);
    let refused = refused.filter(|told| ConditionStatus::of(told) == ConditionStatus::False);
    if let Some(refused) = refused {
        return JobState::NotApplied(refused.message.clone());
    }
    let observed = told.back_reported_status.as_ref().and_then(|it| it.observed_status.as_ref());
    let observed: Option<Value> = observed.and_then(|text| text.parse().ok());
    let Some(status) = observed.map(|observed| observed["status"].clone()) else {
        return JobState::Sent;
    };
    let time = |of: &Value| of.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let began = time(&status["startTime"]);
    let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let of_type = |kind: &str| {
        conditions.iter().find(|told| told["type"] == kind && told["status"] == "True")
    };
    let took = |end: &Value| Some(time(end)?.duration_since(began?));
    if let Some(failed) = of_type("Failed") {
        let reason = failed["reason"].as_str().unwrap_or("Failed").to_owned();
        return JobState::Failed(reason, took(&failed["lastTransitionTime"]));
    }
    match of_type("Complete") {
        Some(done) => {
            let end = took(&status["completionTime"]);
            JobState::Complete(end.or_else(|| took(&done["lastTransitionTime"])))
        }
        None => JobState::Running(began),
    }
}

/// What is known of one of the updated clusters.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// The cluster.
    pub cluster: String,
    /// What is stored of its Job; nothing if that is not sent yet.
    pub report: Option<JobReport>,
    /// Why it could not be sent.
    pub trouble: Option<String>,
    /// Why it must not be sent; no time passes meanwhile.
    pub withheld: Option<String>,
}

/// The Jobs of one check so far.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSeries {
    began: Timestamp,
    /// Since when one has failed without saying why.
    unexplained: Option<Timestamp>,
    /// Why Jobs fail or do not begin, by cluster: a Job that is ended takes its pods with it.
    causes: BTreeMap<String, String>,
    told: String,
    verdict: Option<Verdict>,
}

impl JobSeries {
    /// Of a check that is asked from now on.
    pub fn new(now: Timestamp) -> Self {
        Self {
            began: now,
            unexplained: None,
            causes: BTreeMap::new(),
            told: "not asked yet".to_owned(),
            verdict: None,
        }
    }

    /// Where it stands.
    pub fn standing(&self, key: Key) -> Standing {
        Standing { key, verdict: self.verdict, told: self.told.clone(), last: None }
    }

    /// Whether it is decided.
    pub fn is_over(&self) -> bool {
        self.verdict.is_some()
    }

    /// Takes what is known of all updated clusters now. Returns when to look again, whatever
    /// members report until then.
    pub fn take(&mut self, check: &Check, now: Timestamp, seen: &[Seen]) -> SignedDuration {
        let Some(job) = check.job.as_ref().filter(|_| self.verdict.is_none()) else {
            return LOOK_AGAIN;
        };
        for one in seen {
            let cause = one.report.as_ref().and_then(|report| report.cause.clone());
            self.causes.extend(cause.map(|cause| (one.cluster.clone(), cause)));
        }
        let most = timeout(job);
        let patience = most.saturating_add(REPORTED_WITHIN);
        let left = |one: &Seen| {
            let since = one.report.as_ref().map_or(self.began, |report| report.sent);
            patience.saturating_sub(now.duration_since(since))
        };
        let open: Vec<&Seen> = seen.iter().filter(|one| took(one).is_none()).collect();
        if let Some((one, failed)) = open.iter().find_map(|one| Some((*one, failure(one)?))) {
            let cause = self.causes.get(&one.cluster);
            let since = *self.unexplained.get_or_insert(now);
            let waits = EXPLAINED_WITHIN.saturating_sub(now.duration_since(since));
            self.told = match cause {
                Some(cause) => format!("{failed}: {cause}"),
                None => failed,
            };
            if cause.is_some() || waits <= SignedDuration::ZERO {
                self.verdict = Some(Verdict::Failed);
            }
            return waits;
        }
        self.unexplained = None;
        if let Some(why) = open.iter().find_map(|one| one.withheld.as_ref()) {
            self.began = now;
            self.told = format!("its Jobs are not sent: {why}");
            return LOOK_AGAIN;
        }
        if let Some(late) = open.iter().find(|one| left(one) <= SignedDuration::ZERO) {
            self.told =
                format!("{}, and had to be done within {}", self.stands(late), spelled(most));
            self.verdict = Some(Verdict::Failed);
            return LOOK_AGAIN;
        }
        let Some(first) = open.first() else {
            self.told = passed(seen);
            self.verdict = (!seen.is_empty()).then_some(Verdict::Passed);
            return LOOK_AGAIN;
        };
        let done = match seen.len() {
            1 => String::new(),
            all => format!("{} of {all} Jobs are complete; ", all - open.len()),
        };
        self.told = format!("{done}{}", self.stands(first));
        let soonest = open.iter().map(|one| left(one)).min().unwrap_or(LOOK_AGAIN);
        soonest.clamp(SignedDuration::from_secs(1), LOOK_AGAIN)
    }

    /// `Job web/r-smoke-01234567 on m2 runs since 2026-...`.
    fn stands(&self, one: &Seen) -> String {
        let Seen { cluster, report, trouble, .. } = one;
        if let Some(why) = trouble {
            return format!("the Job for {cluster} is not sent: {why}");
        }
        let Some(report) = report.as_ref().filter(|report| report.state != JobState::Sent) else {
            return format!("the Job for {cluster} is sent, and {cluster} has not reported it yet");
        };
        let state = match &report.state {
            JobState::NotApplied(why) => format!("is not applied: {why}"),
            JobState::Running(Some(since)) => format!("runs since {since:.0}"),
            _ => "has not begun".to_owned(),
        };
        let cause = self.causes.get(cluster);
        let cause = cause.map_or_else(String::new, |cause| format!(" ({cause})"));
        format!("Job {} on {cluster} {state}{cause}", report.job)
    }
}

/// How long a Job took that is complete.
fn took(one: &Seen) -> Option<SignedDuration> {
    match one.report.as_ref()?.state {
        JobState::Complete(took) => Some(took.unwrap_or_default()),
        _ => None,
    }
}

fn failure(one: &Seen) -> Option<String> {
    let report = one.report.as_ref()?;
    let JobState::Failed(reason, took) = &report.state else { return None };
    let after = took.map_or_else(String::new, |took| format!(" after {}", spelled(took)));
    Some(format!("Job {} on {} failed{after}, {reason}", report.job, one.cluster))
}

fn passed(seen: &[Seen]) -> String {
    let longest = seen.iter().rev().max_by_key(|one| took(one));
    let Some((one, time)) = longest.and_then(|one| Some((one, took(one)?))) else {
        return "no cluster is updated".to_owned();
    };
    let (cluster, time) = (&one.cluster, spelled(time));
    match seen.len() {
        1 => format!("the Job is complete on {cluster} after {time}"),
        all => format!("the Job is complete on {all} clusters, the slowest {cluster} after {time}"),
    }
}

#[cfg(test)]
mod tests;
