//! Worlds for `why`, and how a finding reads.

mod members;
mod placements;
mod runs;

use std::collections::BTreeMap;

use flagship_api::names::ObjectKey;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::*;

/// Ten minutes into the story.
fn now() -> Timestamp {
    "2026-02-11T22:25:59Z".parse().unwrap()
}

/// A moment this many seconds ago, as the wire has it.
fn ago(seconds: i64) -> String {
    now().checked_sub(SignedDuration::from_secs(seconds)).unwrap().to_string()
}

fn condition(kind: &str, status: &str, reason: &str, message: &str, since: i64) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "observedGeneration": 1, "lastTransitionTime": ago(since),
    })
}

fn facts(subject: Subject) -> Facts {
    Facts::new(subject, now())
}

/// The run `example-run` of placement `example-placement` with this state and status.
fn run(state: &str, status: Value) -> Facts {
    let key = ObjectKey::cluster("example-run");
    let spec = json!({
        "placementName": "example-placement",
        "stagedRolloutStrategyName": "example-strategy",
        "state": state,
    });
    Facts {
        run: Some(RunFacts {
            generation: flagship_api::condition::Generation(1),
            created: Some(ago(600).parse().unwrap()),
            spec: serde_json::from_value(spec).unwrap(),
            status: serde_json::from_value(status).unwrap(),
            adopted: None,
        }),
        ..facts(Subject::Run(key))
    }
}

fn initialized() -> Value {
    condition(
        "Initialized",
        "True",
        "UpdateRunInitializedSuccessfully",
        "The UpdateRun initialized successfully",
        600,
    )
}

/// A member that reported this many seconds ago.
fn member(heard: i64) -> ClusterFacts {
    let spec =
        json!({"identity": {"kind": "ServiceAccount", "name": "m"}, "heartbeatPeriodSeconds": 15});
    let status = json!({
        "conditions": [condition("Joined", "True", "MemberClusterJoined", "", 600)],
        "agentStatus": [{
            "type": "MemberAgent",
            "conditions": [],
            "lastReceivedHeartbeat": ago(heard),
        }],
    });
    ClusterFacts {
        generation: flagship_api::condition::Generation(1),
        spec: serde_json::from_value(spec).unwrap(),
        status: serde_json::from_value(status).unwrap(),
        labels: BTreeMap::new(),
        leaving: false,
        reported: None,
    }
}

/// The binding of `example-placement` on a cluster, with this status.
fn binding(cluster: &str, status: Value) -> BindingFacts {
    let spec = json!({
        "state": "Bound",
        "resourceSnapshotName": "example-placement-0-snapshot",
        "schedulingPolicySnapshotName": "example-placement-0",
        "targetCluster": cluster,
        "clusterDecision": {"clusterName": cluster, "selected": true, "reason": ""},
    });
    BindingFacts {
        key: ObjectKey::cluster(&format!("example-placement-{cluster}-e1a567da")),
        placement: "example-placement".into(),
        generation: flagship_api::condition::Generation(1),
        spec: serde_json::from_value(spec).unwrap(),
        status: serde_json::from_value(status).unwrap(),
    }
}

/// A finding the way a person meets it, without colours and columns.
fn read(facts: &Facts) -> String {
    use std::fmt::Write;
    let found = explain(facts);
    let mut text =
        format!("{}\n{} {}: {}\n", found.headline, found.state.word(), found.cause, found.what);
    if !found.because.is_empty() {
        writeln!(text, "because {}", found.because).unwrap();
    }
    for step in &found.evidence {
        writeln!(text, "  {} {}: {}", step.what, step.name, step.says).unwrap();
    }
    for hint in &found.hints {
        writeln!(text, "{}: {}: {}", hint.lead, hint.what, hint.command).unwrap();
    }
    text
}

#[test]
fn codes_are_distinct_and_read_back() {
    let mut seen = std::collections::BTreeSet::new();
    for cause in Cause::ALL {
        assert!(seen.insert(cause.code()), "{cause}");
        assert_eq!(Cause::read(&cause.code().to_lowercase()), Some(*cause));
    }
    assert_eq!(Cause::read("NO_SUCH_CAUSE"), None);
}
