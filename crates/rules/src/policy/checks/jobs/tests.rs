//! Checks by Jobs as tables: what is sent, what is read of it, and what it comes to.

use expect_test::expect;
use flagship_api::rollout_policy::After;

use super::*;

fn check(more: Value) -> Check {
    let mut job = json!({"namespace": "web", "timeout": "5m", "template": {"spec": {
        "backoffLimit": 0,
        "template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "probe", "image": "probe:1"}]}}}}});
    for (key, value) in more.as_object().unwrap() {
        job[key] = value.clone();
    }
    let check = json!({"name": "smoke", "after": "Stage", "job": job});
    serde_json::from_value(check).unwrap()
}

fn ask(run: &str, stage: &str, cluster: Option<&str>) -> Ask {
    let mut check = check(json!({}));
    check.after = if cluster.is_some() { After::Cluster } else { After::Stage };
    Ask {
        policy: "prod".to_owned(),
        check,
        run: run.to_owned(),
        stage: stage.to_owned(),
        cluster: cluster.map(str::to_owned),
        updated: vec!["m1".to_owned(), "m2".to_owned()],
        rest: Vec::new(),
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

const NEVER: Option<JobState> = None;

/// What is known of a cluster whose Job was sent at the beginning.
fn seen(cluster: &str, state: Option<JobState>, cause: Option<&str>) -> Seen {
    let report = state.map(|state| JobReport {
        run_uid: "u".to_owned(),
        key: ("prod/smoke".to_owned(), "canary".to_owned(), String::new()),
        job: format!("web/r-smoke-{cluster}"),
        sent: at(0),
        state,
        cause: cause.map(str::to_owned),
    });
    Seen { cluster: cluster.to_owned(), report, trouble: None, withheld: None }
}

fn runs() -> JobState {
    JobState::Running(Some(at(1)))
}

fn complete(seconds: i64) -> JobState {
    JobState::Complete(Some(SignedDuration::from_secs(seconds)))
}

fn failed() -> JobState {
    JobState::Failed("BackoffLimitExceeded".to_owned(), Some(SignedDuration::from_secs(4)))
}

#[test]
fn a_check_has_passed_when_its_job_is_complete_on_every_cluster() {
    use Verdict::{Failed, Passed};
    let not_applied = || JobState::NotApplied("namespaces \"web\" not found".to_owned());
    let missing = Some("image \"probe:1\" is not found");
    let lines = Some("container probe ended with exit code 1: 3 of 10 failed");
    let table: Vec<(i64, Vec<Seen>, Option<Verdict>, &str)> = vec![
        (
            0,
            vec![seen("m1", NEVER, None)],
            None,
            "the Job for m1 is sent, and m1 has not reported it yet",
        ),
        (
            0,
            vec![Seen {
                trouble: Some("cluster m1 has left".to_owned()),
                withheld: None,
                ..seen("m1", NEVER, None)
            }],
            None,
            "the Job for m1 is not sent: cluster m1 has left",
        ),
        (
            2,
            vec![seen("m1", Some(JobState::Sent), None)],
            None,
            "the Job for m1 is sent, and m1 has not reported it yet",
        ),
        (
            2,
            vec![seen("m1", Some(JobState::Running(None)), None)],
            None,
            "Job web/r-smoke-m1 on m1 has not begun",
        ),
        (
            2,
            vec![seen("m1", Some(runs()), None)],
            None,
            "Job web/r-smoke-m1 on m1 runs since 2027-01-15T08:00:01Z",
        ),
        (
            2,
            vec![seen("m1", Some(runs()), missing)],
            None,
            "Job web/r-smoke-m1 on m1 runs since 2027-01-15T08:00:01Z (image \"probe:1\" is not found)",
        ),
        (
            2,
            vec![seen("m1", Some(not_applied()), None)],
            None,
            "Job web/r-smoke-m1 on m1 is not applied: namespaces \"web\" not found",
        ),
        (
            9,
            vec![seen("m1", Some(complete(4)), None)],
            Some(Passed),
            "the Job is complete on m1 after 4s",
        ),
        (
            9,
            vec![seen("m1", Some(complete(4)), None), seen("m2", Some(runs()), None)],
            None,
            "1 of 2 Jobs are complete; Job web/r-smoke-m2 on m2 runs since 2027-01-15T08:00:01Z",
        ),
        (
            99,
            vec![seen("m1", Some(complete(4)), None), seen("m2", Some(complete(80)), None)],
            Some(Passed),
            "the Job is complete on 2 clusters, the slowest m2 after 1m20s",
        ),
        // One that has failed decides, whatever the others do.
        (
            9,
            vec![seen("m1", Some(runs()), None), seen("m2", Some(failed()), lines)],
            Some(Failed),
            "Job web/r-smoke-m2 on m2 failed after 4s, BackoffLimitExceeded: container probe ended with exit code 1: 3 of 10 failed",
        ),
        // Silence is not success, and no time is long enough to make it one.
        (
            359,
            vec![seen("m1", Some(runs()), None)],
            None,
            "Job web/r-smoke-m1 on m1 runs since 2027-01-15T08:00:01Z",
        ),
        (
            360,
            vec![seen("m1", Some(runs()), missing)],
            Some(Failed),
            "Job web/r-smoke-m1 on m1 runs since 2027-01-15T08:00:01Z (image \"probe:1\" is not found), and had to be done within 5m",
        ),
        (
            360,
            vec![seen("m1", NEVER, None)],
            Some(Failed),
            "the Job for m1 is sent, and m1 has not reported it yet, and had to be done within 5m",
        ),
        (
            360,
            vec![seen("m1", Some(complete(4)), None), seen("m2", Some(not_applied()), None)],
            Some(Failed),
            "Job web/r-smoke-m2 on m2 is not applied: namespaces \"web\" not found, and had to be done within 5m",
        ),
        (0, vec![], None, "no cluster is updated"),
    ];
    for (second, seen, verdict, told) in table {
        let mut series = JobSeries::new(at(0));
        series.take(&check(json!({})), at(second), &seen);
        let standing = series.standing(ask("r", "canary", None).key());
        assert_eq!((standing.verdict, standing.told.as_str()), (verdict, told), "{seen:?}");
    }
}

/// Of all that two clusters may report at any time, only one thing is a pass.
#[test]
fn nothing_but_complete_jobs_is_a_pass() {
    let states = || {
        [
            None,
            Some(JobState::Sent),
            Some(JobState::NotApplied("no".to_owned())),
            Some(JobState::Running(None)),
            Some(runs()),
            Some(complete(4)),
            Some(JobState::Complete(None)),
            Some(failed()),
        ]
    };
    for (one, other) in
        states().into_iter().flat_map(|one| states().map(|other| (one.clone(), other)))
    {
        let is_complete = |state: &Option<JobState>| matches!(state, Some(JobState::Complete(_)));
        let both = is_complete(&one) && is_complete(&other);
        let mut series = JobSeries::new(at(0));
        for second in [0, 5, 100, 359, 361, 10_000] {
            let seen = [seen("m1", one.clone(), None), seen("m2", other.clone(), None)];
            series.take(&check(json!({})), at(second), &seen);
            let passed =
                series.standing(ask("r", "canary", None).key()).verdict == Some(Verdict::Passed);
            assert_eq!(passed, both, "{one:?} {other:?} at {second}");
        }
        assert!(series.is_over(), "{one:?} {other:?} ends");
    }
}

#[test]
fn a_job_that_failed_is_given_a_moment_to_say_why() {
    let check = check(json!({}));
    let mut silent = JobSeries::new(at(0));
    let again = silent.take(&check, at(3), &[seen("m1", Some(failed()), None)]);
    assert_eq!((silent.is_over(), again.as_secs()), (false, 10));
    let mut told = silent.clone();
    told.take(&check, at(5), &[seen("m1", Some(failed()), Some("why"))]);
    assert!(told.is_over());
    silent.take(&check, at(13), &[seen("m1", Some(failed()), None)]);
    let standing = silent.standing(ask("r", "canary", None).key());
    assert_eq!(standing.verdict, Some(Verdict::Failed));
    assert_eq!(standing.told, "Job web/r-smoke-m1 on m1 failed after 4s, BackoffLimitExceeded");
    // What was known before the Job was ended is not forgotten with its pods.
    let mut ended = JobSeries::new(at(0));
    ended.take(&check, at(5), &[seen("m1", Some(runs()), Some("image is not found"))]);
    let late = JobState::Failed("DeadlineExceeded".to_owned(), None);
    ended.take(&check, at(301), &[seen("m1", Some(late), None)]);
    let standing = ended.standing(ask("r", "canary", None).key());
    assert_eq!(standing.verdict, Some(Verdict::Failed));
    assert_eq!(
        standing.told,
        "Job web/r-smoke-m1 on m1 failed, DeadlineExceeded: image is not found"
    );
    // And what is decided stays so.
    ended.take(&check, at(302), &[seen("m1", Some(complete(1)), None)]);
    assert_eq!(ended.standing(ask("r", "canary", None).key()), standing);
}

#[test]
fn a_work_brings_the_job_with_an_end_its_last_lines_and_the_names_of_what_it_checks() {
    let mut ask = ask("r", "canary", Some("m2"));
    let spec = json!({"ttlSecondsAfterFinished": 0, "suspend": true, "activeDeadlineSeconds": 900,
        "template": {"spec": {"restartPolicy": "Never",
            "initContainers": [{"name": "wait", "terminationMessagePolicy": "File"}],
            "containers": [{"name": "probe", "env": [
                {"name": "URL", "value": "http://web.$(FLAGSHIP_CLUSTER)"},
                {"name": "FLAGSHIP_RUN", "value": "mine"}]}]}}});
    let metadata = json!({"labels": {"team": "a"}, "annotations": {"note": "b"}});
    ask.check = check(json!({"template": {"metadata": metadata, "spec": spec}}));
    let work = work(&ask, "0a1b", "m2").unwrap();
    let manifest: Value = work.spec.workload.manifests[0].parse().unwrap();
    expect![[r#"
        {
          "apiVersion": "batch/v1",
          "kind": "Job",
          "metadata": {
            "annotations": {
              "flagship.dev/check": "{\"check\":\"prod/smoke\",\"stage\":\"canary\",\"cluster\":\"m2\",\"namespace\":\"web\"}",
              "note": "b"
            },
            "labels": {
              "team": "a"
            },
            "name": "r-smoke-84784b67",
            "namespace": "web"
          },
          "spec": {
            "activeDeadlineSeconds": 300,
            "template": {
              "spec": {
                "containers": [
                  {
                    "env": [
                      {
                        "name": "FLAGSHIP_STAGE",
                        "value": "canary"
                      },
                      {
                        "name": "FLAGSHIP_CLUSTER",
                        "value": "m2"
                      },
                      {
                        "name": "URL",
                        "value": "http://web.$(FLAGSHIP_CLUSTER)"
                      },
                      {
                        "name": "FLAGSHIP_RUN",
                        "value": "mine"
                      }
                    ],
                    "name": "probe",
                    "terminationMessagePolicy": "FallbackToLogsOnError"
                  }
                ],
                "initContainers": [
                  {
                    "env": [
                      {
                        "name": "FLAGSHIP_RUN",
                        "value": "r"
                      },
                      {
                        "name": "FLAGSHIP_STAGE",
                        "value": "canary"
                      },
                      {
                        "name": "FLAGSHIP_CLUSTER",
                        "value": "m2"
                      }
                    ],
                    "name": "wait",
                    "terminationMessagePolicy": "File"
                  }
                ],
                "restartPolicy": "Never"
              }
            }
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&manifest).unwrap());
    assert_eq!(work.metadata.namespace.as_deref(), Some("fleet-member-m2"));
    assert!(is_check(&manifest) && !is_check(&json!({"metadata": {}})));
}

#[test]
fn no_two_jobs_have_the_same_name_and_each_fits_into_a_label() {
    let long = "a.very.long.name-of-a-run-that-goes-on-and-on-until-it-is-too-long-for-anything";
    let mut names = std::collections::BTreeSet::new();
    for run in ["r", long] {
        for (stage, cluster) in [("canary", None), ("prod", None), ("prod", Some("m1"))] {
            for (uid, on) in [("u", "m1"), ("u", "m2"), ("v", "m1")] {
                let name = name(&ask(run, stage, cluster), uid, on);
                assert!(name.len() <= 51 && !name.contains('.') && !name.contains("--"), "{name}");
                assert!(names.insert(name.clone()), "{name}");
            }
        }
    }
}

#[test]
fn what_a_work_says_is_read_and_whatever_else_it_says_is_not() {
    let status = |told: Value| json!({"apiVersion": "batch/v1", "kind": "Job", "status": told});
    let begun = "2027-01-15T08:00:01Z";
    let ended = |kind: &str, reason: &str| {
        json!({"startTime": begun, "conditions": [
            {"type": "Suspended", "status": "False"},
            {"type": kind, "status": "True", "reason": reason,
                "lastTransitionTime": "2027-01-15T08:00:05Z"}]})
    };
    let after_four = Some(SignedDuration::from_secs(4));
    let table = [
        (json!(null), JobState::Sent),
        (json!({}), JobState::Running(None)),
        (json!({"startTime": begun, "active": 1}), runs()),
        (ended("Complete", ""), JobState::Complete(after_four)),
        (ended("Failed", "BackoffLimitExceeded"), failed()),
        // On the way there it is not there.
        (ended("SuccessCriteriaMet", "x"), runs()),
        (ended("FailureTarget", "x"), runs()),
        (json!({"conditions": "none", "startTime": 7}), JobState::Running(None)),
    ];
    let object = |annotation: &str, manifest: Value| -> Work {
        let meta = json!({"name": "r-smoke-0123456789", "namespace": "fleet-member-m2",
            "creationTimestamp": "2027-01-15T08:00:00Z",
            "labels": {"flagship.dev/update-run-uid": "u"},
            "annotations": {"flagship.dev/check": annotation,
                "flagship.dev/failure-causes": r#"[{"group": "batch", "kind": "Job", "namespace": "web",
                    "name": "r-smoke-0123456789", "cause": "CHECK_FAILED", "says": "bad\u001b[31m\nnews"}]"#}});
        serde_json::from_value(json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "Work", "metadata": meta, "spec": {},
            "status": {"conditions": [], "manifestConditions": [manifest]}}))
        .unwrap()
    };
    let note = r#"{"check": "prod/smoke", "stage": "canary", "namespace": "web"}"#;
    for (told, state) in table {
        let mut manifest = json!({"identifier": {"ordinal": 0, "kind": "Job"}, "conditions": []});
        if !told.is_null() {
            manifest["backReportedStatus"] =
                json!({"observedStatus": status(told), "observationTime": begun});
        }
        let report = JobReport::read(&object(note, manifest)).unwrap();
        assert_eq!(report.state, state);
        assert_eq!(report.job, "web/r-smoke-0123456789");
        assert_eq!(report.key, ("prod/smoke".to_owned(), "canary".to_owned(), String::new()));
        assert_eq!(report.cause.as_deref(), Some("bad [31m news"));
    }
    let refused = json!({"identifier": {"ordinal": 0}, "conditions": [{"type": "Applied",
        "status": "False", "reason": "x", "message": "no", "lastTransitionTime": begun}]});
    let report = JobReport::read(&object(note, refused.clone())).unwrap();
    assert_eq!(report.state, JobState::NotApplied("no".to_owned()));
    for other in ["", "{}", "[]", "{\"check\": 1}"] {
        assert_eq!(JobReport::read(&object(other, refused.clone())), None, "{other}");
    }
}

#[test]
fn a_job_goes_with_the_end_of_its_run_and_one_that_failed_with_the_run() {
    for (state, run_has_ended, is_over) in [
        (runs(), Some(false), false),
        (complete(1), Some(false), false),
        (failed(), Some(false), false),
        (runs(), Some(true), true),
        (complete(1), Some(true), true),
        (failed(), Some(true), false),
        (failed(), None, true),
        (JobState::Sent, None, true),
    ] {
        let report = seen("m1", Some(state), None).report.unwrap();
        assert_eq!(report.is_over(run_has_ended), is_over, "{report:?} {run_has_ended:?}");
    }
}

#[test]
fn a_job_that_could_not_end_well_is_refused_with_what_to_change() {
    let spec = |more: Value| {
        let mut spec = json!({"template": {"spec": {"restartPolicy": "OnFailure",
            "containers": [{"name": "probe"}]}}});
        for (at, value) in more.as_object().unwrap() {
            *spec.pointer_mut(at).unwrap() = value.clone();
        }
        spec
    };
    let with = |field: &str, value: Value| {
        let mut spec = spec(json!({}));
        spec[field] = value;
        spec
    };
    let long = "x".repeat(LARGEST);
    for (spec, says) in [
        (spec(json!({})), None),
        (with("parallelism", json!(2)), None),
        (json!({}), Some("set job.template.spec.template.spec.containers")),
        (spec(json!({"/template/spec/containers": []})), Some("containers")),
        (
            spec(json!({"/template/spec/restartPolicy": "Always"})),
            Some("restartPolicy to Never or OnFailure"),
        ),
        (
            with("ttlSecondsAfterFinished", json!(1)),
            Some("leave out job.template.spec.ttlSecondsAfterFinished"),
        ),
        (with("suspend", json!(true)), Some("leave out job.template.spec.suspend")),
        (with("selector", json!({})), Some("leave out job.template.spec.selector")),
        (with("note", json!(long)), Some("and 16384 are the most")),
    ] {
        let check = check(json!({"template": {"spec": spec}}));
        let found = mistake(check.job.as_ref().unwrap());
        let fits = match (&found, says) {
            (Some(found), Some(says)) => found.contains(says),
            (found, says) => found.is_none() && says.is_none(),
        };
        assert!(fits, "{found:?} is not {says:?}");
    }
}

#[test]
fn only_the_job_of_a_policy_that_is_there_is_sent() {
    let ask = ask("r", "canary", None);
    let policy = |checks: Value| -> RolloutPolicySpec {
        serde_json::from_value(json!({"checks": checks})).unwrap()
    };
    let same = json!(ask.check);
    let mut other = same.clone();
    other["job"]["namespace"] = json!("elsewhere");
    let mut image = same.clone();
    image["job"]["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = json!("x");
    let mut renamed = same.clone();
    renamed["name"] = json!("other");
    let windows = json!({"checks": [same], "windows": [{"allow": "Mon-Fri 09:00-16:00"}]});
    let table = [
        (Some(policy(json!([same]))), ""),
        (Some(policy(json!([renamed, same]))), ""),
        // What the policy says of other things does not matter to its Jobs.
        (Some(serde_json::from_value(windows).unwrap()), ""),
        (None, "rollout policy `prod`, which has them, is gone"),
        (Some(policy(json!([other]))), "is not what it was when the update run was initialized"),
        (Some(policy(json!([image]))), "is not what it was when the update run was initialized"),
        (Some(policy(json!([renamed]))), "rollout policy `prod` has no check `smoke` any more"),
    ];
    for (policy, why) in table {
        match sends(&ask, policy.as_ref()) {
            Ok(sent) => assert_eq!((sent, why), (ask.clone(), "")),
            Err(told) => assert!(!why.is_empty() && told.contains(why), "{told}"),
        }
    }
    // A check whose Jobs are withheld waits as long as it takes.
    let mut series = JobSeries::new(at(0));
    let held = Seen { withheld: Some("why".to_owned()), ..seen("m1", NEVER, None) };
    let held = Seen { report: None, ..held };
    for second in [0, 400, 4_000] {
        series.take(&ask.check, at(second), std::slice::from_ref(&held));
        assert!(!series.is_over());
    }
    let standing = series.standing(ask.key());
    assert_eq!(standing.told, "its Jobs are not sent: why");
    series.take(&ask.check, at(4_001), &[seen("m1", Some(complete(1)), None)]);
    assert!(series.is_over());
}
