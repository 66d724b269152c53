//! Jobs on a map of objects, with pods that end as the test says.

use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::fixture::Fixture;

fn job(spec: Value) -> Value {
    let mut spec = spec;
    spec["template"] = json!({"metadata": {"labels": {"app": "sum"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}});
    json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "sum", "namespace": "default"}, "spec": spec})
}

struct Story {
    fixture: Fixture,
    wake: Option<Timestamp>,
}

impl Story {
    fn of(spec: Value) -> Self {
        let mut fixture = Fixture::new();
        fixture.put("jobs.batch", job(spec));
        let mut story = Self { fixture, wake: None };
        story.settle();
        story
    }

    fn job(&self) -> &Value {
        self.fixture.get("jobs.batch", "sum")
    }

    fn settle(&mut self) {
        for _ in 0..50 {
            let Some(job) = self.fixture.list("jobs.batch").pop() else { return };
            let seen =
                Observed { job, pods: self.fixture.pods(), refusal: None, now: self.fixture.now };
            let plan = super::plan(&seen);
            self.wake = plan.wake;
            // Deleting a held pod only marks it; its kubelet then ends it.
            let (deletes, rest): (Vec<Action>, Vec<Action>) = plan.actions.into_iter().partition(
                |a| matches!(a, Action::Delete { target, .. } if target.resource == "pods"),
            );
            let acted = self.fixture.apply(Plan { actions: rest, ..Plan::default() });
            for action in &deletes {
                if let Action::Delete { target, .. } = action {
                    self.end(&target.name, "Failed");
                }
            }
            if !acted && deletes.is_empty() {
                return;
            }
        }
        panic!("does not settle: {:?}", self.job());
    }

    fn end(&mut self, name: &str, phase: &str) {
        let at = stamp(self.fixture.now);
        self.fixture.edit("pods", name, |p| {
            p["status"] = json!({"phase": phase, "containerStatuses":
                [{"name": "c", "state": {"terminated": {"finishedAt": at}}}]});
        });
    }

    /// Ends every running pod, then lets the job react.
    fn end_all(&mut self, phase: &str) {
        for pod in self.fixture.pods().iter().filter(|p| p.is_active()) {
            self.end(&pod.name, phase);
        }
        self.settle();
    }

    fn active(&self) -> usize {
        self.fixture.pods().iter().filter(|p| p.is_active()).count()
    }

    fn conditions(&self) -> String {
        let say = |c: &Value| {
            format!(
                "{}={} {}: {}",
                c.text("/type"),
                c.text("/status"),
                c.text("/reason"),
                c.text("/message")
            )
        };
        self.job().list("/status/conditions").iter().map(say).collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn a_job_runs_to_completion_and_says_both_words() {
    let mut story = Story::of(json!({"completions": 3, "parallelism": 2, "backoffLimit": 6}));
    assert_eq!(story.active(), 2);
    story.end_all("Succeeded");
    assert_eq!(story.active(), 1);
    assert_eq!(story.job()["status"]["succeeded"], 2);
    story.end_all("Succeeded");
    expect![[r#"
        SuccessCriteriaMet=True CompletionsReached: Reached expected number of succeeded pods
        Complete=True CompletionsReached: Reached expected number of succeeded pods"#]]
    .assert_eq(&story.conditions());
    let status = &story.job()["status"];
    assert_eq!(status["succeeded"], 3);
    assert!(status.get("active").is_none());
    assert_eq!(status["uncountedTerminatedPods"], json!({}));
    assert!(status["completionTime"].is_string());
    assert!(story.fixture.pods().iter().all(|p| p.finalizers.is_empty()), "all let go");
}

#[test]
fn too_many_failures_end_the_job_after_growing_pauses() {
    let mut story = Story::of(json!({"completions": 1, "parallelism": 1, "backoffLimit": 2}));
    let mut pauses = Vec::new();
    for _ in 0..3 {
        story.end_all("Failed");
        if let Some(wake) = story.wake {
            pauses.push(wake.as_second() - story.fixture.now.as_second());
            story.fixture.now = wake;
            story.settle();
        }
    }
    assert_eq!(pauses, [10, 20]);
    expect![[r#"
        FailureTarget=True BackoffLimitExceeded: Job has reached the specified backoff limit
        Failed=True BackoffLimitExceeded: Job has reached the specified backoff limit"#]]
    .assert_eq(&story.conditions());
    assert_eq!(story.job()["status"]["failed"], 3);
    assert!(story.fixture.said.contains(&"Job has reached the specified backoff limit".to_owned()));
}

#[test]
fn a_deadline_ends_the_job_and_its_pods() {
    let mut story =
        Story::of(json!({"parallelism": 2, "completions": 2, "activeDeadlineSeconds": 30}));
    assert_eq!(story.wake.map(|w| w.as_second() - story.fixture.now.as_second()), Some(30));
    story.fixture.pass(30);
    story.settle();
    assert_eq!(story.active(), 0);
    expect![[r#"
        FailureTarget=True DeadlineExceeded: Job was active longer than specified deadline
        Failed=True DeadlineExceeded: Job was active longer than specified deadline"#]]
    .assert_eq(&story.conditions());
}

#[test]
fn a_suspended_job_has_no_pods_until_it_is_resumed() {
    let mut story = Story::of(json!({"parallelism": 1, "completions": 1, "suspend": true}));
    assert_eq!(story.active(), 0);
    assert_eq!(story.conditions(), "Suspended=True JobSuspended: Job suspended");
    assert!(story.job()["status"].get("startTime").is_none());
    story.fixture.edit("jobs.batch", "sum", |j| j["spec"]["suspend"] = json!(false));
    story.settle();
    assert_eq!(story.active(), 1);
    assert_eq!(story.conditions(), "Suspended=False JobResumed: Job resumed");
    assert!(story.job()["status"]["startTime"].is_string());
}

#[test]
fn indexed_pods_know_their_index_and_failed_ones_are_repeated() {
    let mut story = Story::of(
        json!({"parallelism": 3, "completions": 3, "completionMode": "Indexed", "backoffLimit": 6}),
    );
    let pods = story.fixture.pods();
    assert_eq!(pods.iter().filter_map(|p| p.index).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(pods[1].name.starts_with("sum-1-"));
    let middle = pods[1].name.clone();
    story.end(&middle, "Failed");
    story.end_all("Succeeded");
    assert_eq!(story.job()["status"]["completedIndexes"], "0,2");
    story.fixture.pass(10);
    story.settle();
    let again: Vec<i64> =
        story.fixture.pods().iter().filter(|p| p.is_active()).filter_map(|p| p.index).collect();
    assert_eq!(again, [1]);
    story.end_all("Succeeded");
    assert_eq!(story.job()["status"]["completedIndexes"], "0-2");
    assert!(story.conditions().contains("Complete=True"));
}

#[test]
fn a_finished_job_goes_when_its_time_is_up() {
    let mut story =
        Story::of(json!({"parallelism": 1, "completions": 1, "ttlSecondsAfterFinished": 100}));
    story.end_all("Succeeded");
    assert_eq!(story.wake.map(|w| w.as_second() - story.fixture.now.as_second()), Some(100));
    story.fixture.pass(100);
    story.settle();
    assert!(story.fixture.list("jobs.batch").is_empty());
}

#[test]
fn a_deleted_pod_that_was_counted_is_not_run_again() {
    let mut story = Story::of(json!({"parallelism": 1, "completions": 2}));
    story.end_all("Succeeded");
    let ended = story.fixture.pods().into_iter().find(|p| p.phase.is_final()).unwrap();
    story.fixture.objects.remove(&("pods".into(), "default".into(), ended.name));
    story.settle();
    assert_eq!(story.job()["status"]["succeeded"], 1);
    story.end_all("Succeeded");
    assert!(story.conditions().contains("Complete=True"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn a_job_never_exceeds_its_parallelism_nor_runs_more_than_needed(
        parallelism in 1_i64..5,
        completions in prop::option::of(1_i64..6),
        indexed in any::<bool>(),
        moves in prop::collection::vec((any::<bool>(), 0_i64..700, any::<prop::sample::Index>()), 1..40),
    ) {
        let mut spec = json!({"parallelism": parallelism, "backoffLimit": 100});
        if let Some(completions) = completions {
            spec["completions"] = json!(completions);
            if indexed {
                spec["completionMode"] = json!("Indexed");
            }
        }
        let mut story = Story::of(spec);
        for (good, wait, at) in moves {
            let active: Vec<Pod> = story.fixture.pods().into_iter().filter(Pod::is_active).collect();
            prop_assert!(active.len() as i64 <= parallelism, "{} active", active.len());
            if !active.is_empty() {
                let name = at.get(&active).name.clone();
                story.end(&name, if good { "Succeeded" } else { "Failed" });
            }
            story.fixture.pass(wait);
            story.settle();
            if let Some(completions) = completions {
                let succeeded = story.job().int("/status/succeeded").unwrap_or(0);
                prop_assert!(succeeded <= completions);
                prop_assert!(story.active() as i64 <= completions - succeeded);
            }
        }
    }
}
