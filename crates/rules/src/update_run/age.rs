//! Which of several runs of a placement came first.
//!
//! Creation timestamps have whole seconds. Among runs of one second the times decide at
//! which they started clusters: a run that takes a cluster over starts it later. Runs that
//! have started nothing are compared by the time of initialization, then by name, where a
//! number at the end counts as a number.

use flagship_api::condition::Conditions;
use flagship_api::condition_type::update_run::INITIALIZED;
use flagship_api::staged_update_status::UpdateRunStatus;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::observed::OtherRun;

/// Sorts runs, the first one first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Age {
    created: Option<Timestamp>,
    /// The run has not started a cluster yet; runs that have come first.
    idle: bool,
    first_promise: Option<Timestamp>,
    last_promise: Option<Timestamp>,
    /// The run has not been initialized yet; runs that have come first.
    unseen: bool,
    initialized: Option<Timestamp>,
    name: (String, u64, String),
}

impl Age {
    /// Of a run of either scope.
    pub fn of(metadata: &ObjectMeta, status: &UpdateRunStatus) -> Self {
        let promises = OtherRun::read(metadata, status).started;
        let initialized = status.conditions.of_type(INITIALIZED);
        let name = metadata.name.clone().unwrap_or_default();
        let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let number = name[stem.len()..].parse().unwrap_or_default();
        Self {
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            idle: promises.is_empty(),
            first_promise: promises.values().min().copied(),
            last_promise: promises.values().max().copied(),
            unseen: initialized.is_none(),
            initialized: initialized.map(|condition| condition.last_transition_time.0),
            name: (stem.to_owned(), number, name),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_268_800 + second).unwrap()
    }

    /// A run with the seconds at which it was created, was initialized and promised clusters.
    fn run(name: &str, created: i64, initialized: Option<i64>, promises: &[(&str, i64)]) -> Age {
        let said = |kind: &str, second: i64| {
            json!({"type": kind, "status": "True", "reason": "R", "message": "",
                "lastTransitionTime": at(second).to_string()})
        };
        let clusters: Vec<_> = promises
            .iter()
            .map(|(c, second)| json!({"clusterName": c, "conditions": [said("Started", *second)]}))
            .collect();
        let conditions: Vec<_> = initialized.map(|s| said("Initialized", s)).into_iter().collect();
        let status = serde_json::from_value(json!({
            "conditions": conditions, "stagesStatus": [{"stageName": "all", "clusters": clusters}],
        }));
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            creation_timestamp: Some(Time(at(created))),
            ..ObjectMeta::default()
        };
        Age::of(&metadata, &status.unwrap())
    }

    #[test]
    fn runs_of_one_second_are_told_apart_by_what_they_promised() {
        for (why, earlier, later) in [
            (
                "the second of creation comes first",
                run("z", 0, Some(9), &[("m1", 9)]),
                run("a", 1, None, &[]),
            ),
            (
                "who took the cluster from whom",
                run("z", 0, Some(0), &[("m1", 3)]),
                run("a", 0, Some(0), &[("m1", 4)]),
            ),
            (
                "began at the same time elsewhere, and took a cluster later",
                run("z", 0, Some(0), &[("m1", 3)]),
                run("a", 0, Some(0), &[("m2", 3), ("m1", 4)]),
            ),
            (
                "who did something and who did not",
                run("z", 0, Some(2), &[("m1", 3)]),
                run("a", 0, Some(1), &[]),
            ),
            ("initialized later", run("z", 0, Some(1), &[]), run("a", 0, Some(2), &[])),
            ("not looked at yet", run("z", 0, Some(1), &[]), run("a", 0, None, &[])),
            ("counted up", run("web-9", 0, None, &[]), run("web-10", 0, None, &[])),
            ("by name", run("a", 0, None, &[]), run("b", 0, None, &[])),
        ] {
            assert!(earlier < later, "{why}");
        }
    }

    #[test]
    fn a_number_too_long_to_be_one_is_part_of_the_name() {
        let long = "9".repeat(30);
        assert!(run(&long, 0, None, &[]) < run(&format!("{long}1"), 0, None, &[]));
    }
}
