//! Notifications: which transitions of runs a channel tells, in which order, and how far it is.
//!
//! A channel tells what records of runs say, entry by entry. How far it is stands in its
//! status, run by run, and is written after each message: a hub that dies between the two
//! sends the same message again, with the same id, and nothing is left out or comes out of
//! order within a run. What is sent is in `message`; when to try again, in `delivery`.

pub mod delivery;
pub mod message;

use flagship_api::names::ObjectKey;
use flagship_api::notification_channel::{
    NotificationChannelSpec, NotificationChannelStatus, RunEvent, ToldRun,
};
use flagship_api::reason::update_run as reason;
use flagship_api::rollout_record::{RecordEntry, What};
use flagship_api::staged_update::StageTaskType;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::policy::selects::names_stage;
use crate::update_run::recorded::gate_name;

/// What is told about the run of a record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AboutRun {
    /// The run.
    pub key: Option<ObjectKey>,
    /// Its UID.
    pub uid: String,
    /// What it rolls out.
    pub placement: String,
    /// The strategy it follows.
    pub strategy: String,
    /// The version it brings.
    pub snapshot: String,
    /// Whether it takes another one back.
    pub takes_back: bool,
}

/// One transition to tell.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    /// What it is called.
    pub event: RunEvent,
    /// The entry of the record.
    pub entry: RecordEntry,
}

/// How an entry of a record is called, if it is a transition that can be told.
pub fn event_of(entry: &RecordEntry, takes_back: bool) -> Option<RunEvent> {
    let approval = |gate: &Option<String>| {
        let of = |side| gate.as_deref() == Some(&gate_name(side, StageTaskType::Approval));
        of("before") || of("after")
    };
    Some(match entry.what {
        What::Started => RunEvent::RunStarted,
        What::GateWaits if approval(&entry.gate) => RunEvent::GateWaiting,
        What::Approved => RunEvent::Approved,
        What::ClusterFailed => RunEvent::ClusterFailed,
        What::ClusterSkipped => RunEvent::ClusterSkipped,
        What::StageDone => RunEvent::StageDone,
        What::Stuck => RunEvent::Stuck,
        What::BudgetSpent => RunEvent::BudgetSpent,
        What::Frozen => RunEvent::Frozen,
        What::Unfrozen => RunEvent::Unfrozen,
        What::Stopped => RunEvent::Stopped,
        What::Resumed => RunEvent::Resumed,
        What::Ended => match entry.cause.as_deref() {
            Some(reason::SUCCEEDED) if takes_back => RunEvent::RolledBack,
            Some(reason::SUCCEEDED) => RunEvent::Succeeded,
            _ => RunEvent::Failed,
        },
        _ => return None,
    })
}

/// What is to be told of a run after the entry of this number, in order. What happened before
/// there was a channel is not told.
pub fn due(
    spec: &NotificationChannelSpec,
    since: Timestamp,
    takes_back: bool,
    entries: &[RecordEntry],
    told: i64,
) -> Vec<Notice> {
    let left = entries.iter().filter(|entry| entry.n > told && entry.time.0 >= since);
    let wanted = left.filter_map(|entry| {
        let event = event_of(entry, takes_back)?;
        let stage = entry.stage.as_deref();
        let meant = (spec.events.is_empty() || spec.events.contains(&event))
            && stage.is_none_or(|stage| names_stage(&spec.selects, stage));
        meant.then(|| Notice { event, entry: entry.clone() })
    });
    wanted.collect()
}

/// A record that stands later than its creation by this much may still be on its way to whoever
/// looks for new ones.
const UNSEEN: SignedDuration = SignedDuration::from_secs(60);

/// After which entry a run is to be told; nothing if it is told to its end.
pub fn told(
    status: &NotificationChannelStatus,
    uid: &str,
    recorded: Option<Timestamp>,
) -> Option<i64> {
    if let Some(known) = status.runs.iter().find(|run| run.uid == uid) {
        return known.done.is_none().then_some(known.n);
    }
    let until = status.told_until.as_ref().map_or(Timestamp::MIN, |until| until.0);
    (recorded.unwrap_or(Timestamp::MAX) > until).then_some(0)
}

/// Notes that these runs are to be told, before any of it is, and forgets those that were told
/// to their end long enough ago that their records count as old.
pub fn expect(
    status: &mut NotificationChannelStatus,
    runs: &[(String, Option<Timestamp>)],
    now: Timestamp,
) {
    for (uid, recorded) in runs {
        let known = status.runs.iter().any(|run| run.uid == *uid);
        if !known && told(status, uid, *recorded).is_some() {
            status.runs.push(ToldRun { uid: uid.clone(), ..ToldRun::default() });
        }
    }
    let until = now.saturating_sub(UNSEEN).unwrap_or(now);
    let until = status.told_until.as_ref().map_or(until, |old| old.0.max(until));
    let done_by = |run: &ToldRun| run.done.as_ref().is_some_and(|done| done.0 <= until);
    // To the second, as it is written.
    status.told_until = Some(Time(delivery::second(until)));
    status.runs.retain(|run| !done_by(run));
}

/// Notes that a run is told up to an entry, and whether that was its last.
pub fn note(
    status: &mut NotificationChannelStatus,
    uid: &str,
    n: i64,
    ended: bool,
    now: Timestamp,
) {
    let done = ended.then(|| Time(delivery::second(now)));
    match status.runs.iter_mut().find(|run| run.uid == uid) {
        Some(known) => (known.n, known.done) = (n, done),
        None => status.runs.push(ToldRun { uid: uid.to_owned(), n, done }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn entry(n: i64, what: &str, more: Value) -> RecordEntry {
        let mut entry = json!({"n": n, "time": at(n).to_string(), "what": what,
            "previousHash": "", "hash": ""});
        for (key, value) in more.as_object().unwrap() {
            entry[key] = value.clone();
        }
        serde_json::from_value(entry).unwrap()
    }

    fn channel(spec: Value) -> NotificationChannelSpec {
        let mut all = json!({"type": "Webhook", "url": "https://x"});
        for (key, value) in spec.as_object().unwrap() {
            all[key] = value.clone();
        }
        serde_json::from_value(all).unwrap()
    }

    fn record() -> Vec<RecordEntry> {
        vec![
            entry(1, "Planned", json!({})),
            entry(2, "Started", json!({})),
            entry(3, "GateWaits", json!({"stage": "canary", "gate": "before-Approval"})),
            entry(4, "Approved", json!({"stage": "canary", "gate": "before-Approval"})),
            entry(5, "ClusterBegan", json!({"stage": "canary", "cluster": "a"})),
            entry(6, "Stuck", json!({})),
            entry(7, "ClusterFailed", json!({"stage": "prod", "cluster": "b"})),
            entry(8, "GateWaits", json!({"stage": "canary", "gate": "after-TimedWait"})),
            entry(9, "BudgetSpent", json!({})),
            entry(10, "Ended", json!({"cause": "UpdateRunFailed"})),
        ]
    }

    fn events(spec: Value, since: i64, told: i64) -> Vec<RunEvent> {
        let found = due(&channel(spec), at(since), false, &record(), told);
        found.into_iter().map(|notice| notice.event).collect()
    }

    #[test]
    fn transitions_are_told_in_order_from_where_telling_stopped() {
        use RunEvent as E;
        let all = [
            E::RunStarted,
            E::GateWaiting,
            E::Approved,
            E::Stuck,
            E::ClusterFailed,
            E::BudgetSpent,
            E::Failed,
        ];
        assert_eq!(events(json!({}), 0, 0), all);
        assert_eq!(events(json!({}), 0, 3), all[2..]);
        assert_eq!(events(json!({}), 0, 10), []);
        // A channel does not tell what happened before it was there.
        assert_eq!(events(json!({}), 7, 0), all[4..]);
        let some = json!({"events": ["Failed", "GateWaiting"]});
        assert_eq!(events(some, 0, 0), [E::GateWaiting, E::Failed]);
        // Stages that are not meant are left out, what is about the whole run is not.
        let prod = json!({"selects": {"stages": ["prod*"]}});
        assert_eq!(
            events(prod, 0, 0),
            [E::RunStarted, E::Stuck, E::ClusterFailed, E::BudgetSpent, E::Failed]
        );
    }

    #[test]
    fn the_end_of_a_rollback_is_called_so() {
        let done = entry(9, "Ended", json!({"cause": "UpdateRunSucceeded"}));
        assert_eq!(event_of(&done, false), Some(RunEvent::Succeeded));
        assert_eq!(event_of(&done, true), Some(RunEvent::RolledBack));
        let failed = entry(9, "Ended", json!({"cause": "UpdateRunFailed"}));
        assert_eq!(event_of(&failed, true), Some(RunEvent::Failed));
    }

    #[test]
    fn how_far_runs_are_told_is_kept_until_their_records_are_old() {
        let mut status = NotificationChannelStatus::default();
        let runs = [("a".to_owned(), Some(at(0))), ("b".to_owned(), Some(at(5)))];
        expect(&mut status, &runs, at(10));
        assert_eq!(told(&status, "a", Some(at(0))), Some(0));
        note(&mut status, "a", 7, false, at(11));
        note(&mut status, "b", 4, true, at(12));
        assert_eq!(told(&status, "a", Some(at(0))), Some(7));
        assert_eq!(told(&status, "b", Some(at(5))), None);
        // A record of the same second that is only seen now is not taken for told.
        assert_eq!(told(&status, "c", Some(at(5))), Some(0));
        expect(&mut status, &[], at(50));
        assert_eq!(status.runs.len(), 2, "b is forgotten when its record counts as old");
        expect(&mut status, &[], at(100));
        assert_eq!(status.runs.len(), 1);
        assert_eq!(told(&status, "b", Some(at(5))), None);
        assert_eq!(told(&status, "a", Some(at(0))), Some(7), "a goes on, however old it is");
        // Old records do not come back.
        expect(&mut status, &[("b".to_owned(), Some(at(5)))], at(101));
        assert_eq!(status.runs.len(), 1);
    }
}
