//! One pod on one node, watched over time.

use expect_test::expect;

use super::*;

/// A pod and what is said about it, on a node of its own.
struct Story {
    pod: Value,
    config: WorkloadConfig,
    missing: Missing,
    start: Timestamp,
    lines: Vec<String>,
}

impl Story {
    #[allow(clippy::needless_pass_by_value)] // reads better at the call
    fn of(annotations: Value, image: &str) -> Self {
        Self {
            pod: json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "web-1", "namespace": "default", "uid": "u", "annotations": annotations},
                "spec": {"nodeName": "node-1", "restartPolicy": "Always",
                    "containers": [{"name": "web", "image": image}]},
            }),
            config: WorkloadConfig::default(),
            missing: Missing::default(),
            start: Timestamp::from_second(1_767_225_600).unwrap(),
            lines: Vec::new(),
        }
    }

    /// Follows the pod's own wake-ups for `seconds`; returns what a user would see change.
    fn run(mut self, seconds: i64) -> (String, Value) {
        let mut now = self.start;
        let end = Timestamp::from_second(self.start.as_second() + seconds).unwrap();
        let mut shown = String::new();
        for _ in 0..500 {
            let seen = Observed {
                pod: self.pod.clone(),
                host_ip: "10.0.0.1".into(),
                free_ip: "10.244.1.2".into(),
                missing: self.missing.clone(),
                now,
            };
            let plan = plan(&seen, &self.config);
            let at = now.as_second() - self.start.as_second();
            for action in plan.actions {
                match action {
                    Action::ReplaceStatus { object, .. } => {
                        self.pod["status"] = object["status"].clone();
                    }
                    Action::Say(note) => {
                        let kind = if note.warning { "Warning" } else { "Normal" };
                        self.lines.push(format!("{at}s {kind} {}: {}", note.reason, note.message));
                    }
                    Action::Delete { grace, .. } => {
                        self.lines.push(format!("{at}s deleted, grace {grace:?}"));
                    }
                    other => panic!("{other:?}"),
                }
            }
            let look = self.look();
            if look != shown {
                self.lines.push(format!("{at}s {look}"));
                shown = look;
            }
            match plan.wake {
                Some(wake) if wake <= end => {
                    assert!(wake > now, "wakes in the past: {:?}", self.lines);
                    now = wake;
                }
                _ => return (self.lines.join("\n"), self.pod),
            }
        }
        panic!("never rests: {:?}", self.lines);
    }

    fn look(&self) -> String {
        let status = self.pod.at("/status");
        let one = |s: &Value| {
            let state = s.at("/state");
            let word = match state.text("/waiting/reason") {
                "" => state.text("/terminated/reason"),
                reason => reason,
            };
            format!(
                "{} ready={} restarts={}",
                if word.is_empty() { "Running" } else { word },
                s.at("/ready"),
                s.at("/restartCount")
            )
        };
        let all: Vec<String> = status.list("/containerStatuses").iter().map(one).collect();
        format!("[{}] {}", status.text("/phase"), all.join(", "))
    }
}

#[test]
fn a_pod_waits_for_what_it_refers_to() {
    let mut story = Story::of(json!({}), "nginx:1.28");
    let why = "configmap \"app\" not found".to_owned();
    story.missing.containers.insert("web".to_owned(), why);
    expect![[r#"
        0s [Pending] ContainerCreating ready=false restarts=0
        1s Warning Failed: Error: configmap "app" not found
        1s [Pending] CreateContainerConfigError ready=false restarts=0"#]]
    .assert_eq(&story.run(60).0);
    let mut story = Story::of(json!({}), "nginx:1.28");
    story.missing.mounts.push("MountVolume.SetUp failed".to_owned());
    expect![[r#"
        0s Warning FailedMount: MountVolume.SetUp failed
        0s [Pending] ContainerCreating ready=false restarts=0"#]]
    .assert_eq(&story.run(60).0);
}

#[test]
fn an_image_that_does_not_exist_by_rule_is_not_pulled() {
    let (story, _) = Story::of(json!({}), "nginx:doesnotexist").run(2);
    assert!(story.contains("ErrImagePull"), "{story}");
}

#[test]
fn a_plain_pod_starts_becomes_ready_and_rests() {
    let (story, pod) = Story::of(json!({}), "nginx:1.28").run(3_600);
    expect![[r#"
        0s [Pending] ContainerCreating ready=false restarts=0
        1s Normal Pulled: Container image "nginx:1.28" already present on machine
        1s Normal Created: Created container: web
        1s Normal Started: Started container web
        1s [Running] Running ready=true restarts=0"#]]
    .assert_eq(&story);
    let types: Vec<&str> = pod.list("/status/conditions").iter().map(|c| c.text("/type")).collect();
    assert_eq!(
        types,
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
    );
    assert_eq!(pod["status"]["podIP"], "10.244.1.2");
    assert_eq!(pod["status"]["hostIP"], "10.0.0.1");
    assert_eq!(pod["status"]["qosClass"], "BestEffort");
}

#[test]
fn an_invalid_image_name_is_said_once_and_stays() {
    let (story, pod) = Story::of(json!({}), "nginx:1.28:latest").run(3_600);
    expect![[r#"
        0s [Pending] ContainerCreating ready=false restarts=0
        1s Warning InspectFailed: Failed to apply default image tag "nginx:1.28:latest": couldn't parse image name "nginx:1.28:latest": invalid reference format
        1s Warning Failed: Error: InvalidImageName
        1s [Pending] InvalidImageName ready=false restarts=0"#]]
    .assert_eq(&story);
    assert_eq!(
        pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"],
        "Failed to apply default image tag \"nginx:1.28:latest\": couldn't parse image name \"nginx:1.28:latest\": invalid reference format"
    );
}

#[test]
fn a_missing_image_is_pulled_again_and_again() {
    let mut story = Story::of(json!({}), "nginx:nope");
    story.config.missing_images = vec!["nginx:no*".into()];
    let (story, _) = story.run(60);
    expect![[r#"
        0s [Pending] ContainerCreating ready=false restarts=0
        1s Normal Pulling: Pulling image "nginx:nope"
        1s Warning Failed: Failed to pull image "nginx:nope": rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/library/nginx:nope": failed to resolve reference "docker.io/library/nginx:nope": docker.io/library/nginx:nope: not found
        1s Warning Failed: Error: ErrImagePull
        1s [Pending] ErrImagePull ready=false restarts=0
        6s Normal BackOff: Back-off pulling image "nginx:nope"
        6s Warning Failed: Error: ImagePullBackOff
        6s [Pending] ImagePullBackOff ready=false restarts=0
        16s Normal Pulling: Pulling image "nginx:nope"
        16s Warning Failed: Failed to pull image "nginx:nope": rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/library/nginx:nope": failed to resolve reference "docker.io/library/nginx:nope": docker.io/library/nginx:nope: not found
        16s Warning Failed: Error: ErrImagePull
        16s [Pending] ErrImagePull ready=false restarts=0
        26s Normal BackOff: Back-off pulling image "nginx:nope"
        26s Warning Failed: Error: ImagePullBackOff
        26s [Pending] ImagePullBackOff ready=false restarts=0
        46s Normal Pulling: Pulling image "nginx:nope"
        46s Warning Failed: Failed to pull image "nginx:nope": rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/library/nginx:nope": failed to resolve reference "docker.io/library/nginx:nope": docker.io/library/nginx:nope: not found
        46s Warning Failed: Error: ErrImagePull
        46s [Pending] ErrImagePull ready=false restarts=0"#]]
    .assert_eq(&story);
}

#[test]
fn a_crash_loop_backs_off_longer_each_time() {
    let (story, pod) =
        Story::of(json!({"workloads.flagship.dev/crash-loop": "true"}), "nginx").run(40);
    let only_looks: Vec<&str> =
        story.lines().filter(|l| l.contains('[') || l.contains("BackOff")).collect();
    expect![[r#"
        0s [Pending] ContainerCreating ready=false restarts=0
        1s [Running] Running ready=false restarts=0
        2s [Running] Running ready=false restarts=1
        3s Warning BackOff: Back-off restarting failed container web in pod web-1_default(u)
        3s [Running] CrashLoopBackOff ready=false restarts=1
        13s [Running] Running ready=false restarts=2
        14s Warning BackOff: Back-off restarting failed container web in pod web-1_default(u)
        14s [Running] CrashLoopBackOff ready=false restarts=2
        34s [Running] Running ready=false restarts=3
        35s Warning BackOff: Back-off restarting failed container web in pod web-1_default(u)
        35s [Running] CrashLoopBackOff ready=false restarts=3"#]]
    .assert_eq(&only_looks.join("\n"));
    let status = &pod["status"]["containerStatuses"][0];
    assert_eq!(
        status["state"]["waiting"]["message"],
        "back-off 40s restarting failed container=web pod=web-1_default(u)"
    );
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 1);
    assert_eq!(status["lastState"]["terminated"]["reason"], "Error");
}

#[test]
fn a_slow_pod_runs_before_it_is_ready() {
    let (story, _) =
        Story::of(json!({"workloads.flagship.dev/ready-after": "30s"}), "nginx").run(60);
    let looks: Vec<&str> = story.lines().filter(|l| l.contains('[')).collect();
    assert_eq!(
        looks,
        [
            "0s [Pending] ContainerCreating ready=false restarts=0",
            "1s [Running] Running ready=false restarts=0",
            "30s [Running] Running ready=true restarts=0",
        ]
    );
}

#[test]
fn restart_policies_decide_what_an_end_means() {
    for (policy, code, expected) in [
        ("Never", "0", "[Succeeded] Completed ready=false restarts=0"),
        ("Never", "3", "[Failed] Error ready=false restarts=0"),
        ("OnFailure", "0", "[Succeeded] Completed ready=false restarts=0"),
        ("OnFailure", "3", "[Running] CrashLoopBackOff ready=false restarts=1"),
        ("Always", "0", "[Running] CrashLoopBackOff ready=false restarts=1"),
    ] {
        let mut story = Story::of(
            json!({"workloads.flagship.dev/run-for": "2s", "workloads.flagship.dev/exit-code": code}),
            "busybox",
        );
        story.pod["spec"]["restartPolicy"] = json!(policy);
        let (text, _) = story.run(8);
        assert_eq!(
            text.lines().last().unwrap().split_once(' ').unwrap().1,
            expected,
            "{policy} {code}\n{text}"
        );
    }
}

#[test]
fn a_container_that_ends_leaves_the_message_it_was_told_to() {
    for (annotations, left) in [
        (json!({"workloads.flagship.dev/exit-code": "3"}), json!(null)),
        (
            json!({"workloads.flagship.dev/exit-code": "3",
                "workloads.flagship.dev/termination-message": "one\ntwo"}),
            json!("one\ntwo"),
        ),
    ] {
        let mut story = Story::of(annotations, "busybox");
        story.pod["spec"]["restartPolicy"] = json!("Never");
        let (_, pod) = story.run(8);
        let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
        assert_eq!((&ended["exitCode"], &ended["message"]), (&json!(3), &left));
    }
}

#[test]
fn init_containers_come_first_and_a_bad_one_blocks() {
    let mut story = Story::of(json!({}), "nginx");
    story.pod["spec"]["initContainers"] = json!([{"name": "setup", "image": "busybox"}]);
    let (_, pod) = story.run(10);
    assert_eq!(pod["status"]["phase"], "Running");
    assert_eq!(
        pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["reason"],
        "Completed"
    );

    let mut story = Story::of(json!({}), "nginx");
    story.pod["spec"]["initContainers"] = json!([{"name": "setup", "image": "BUSYBOX"}]);
    let (_, pod) = story.run(10);
    assert_eq!(pod["status"]["phase"], "Pending");
    assert_eq!(
        pod["status"]["initContainerStatuses"][0]["state"]["waiting"]["reason"],
        "InvalidImageName"
    );
    assert_eq!(
        pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"],
        "PodInitializing"
    );
    let initialized = condition::find(pod.list("/status/conditions"), "Initialized").unwrap();
    assert_eq!(initialized["message"], "containers with incomplete status: [setup]");
}

#[test]
fn a_deleted_pod_stops_within_its_grace_period() {
    let mut story = Story::of(json!({"workloads.flagship.dev/stop-after": "1h"}), "nginx");
    story.pod["status"] = json!({"phase": "Running",
        "containerStatuses": [{"name": "web", "state": {"running": {}}}]});
    set(&mut story.pod, &["metadata", "deletionGracePeriodSeconds"], json!(30));
    set(&mut story.pod, &["metadata", "deletionTimestamp"], json!("2026-01-01T00:00:30Z"));
    let (text, _) = story.run(60);
    expect![[r#"
        0s [Running] Running ready=null restarts=null
        30s Normal Killing: Stopping container web
        30s deleted, grace Some(0)"#]]
    .assert_eq(&text);
}

#[test]
fn an_overdue_pod_fails() {
    let mut story = Story::of(json!({}), "nginx");
    story.pod["spec"]["activeDeadlineSeconds"] = json!(20);
    let (_, pod) = story.run(60);
    assert_eq!(pod["status"]["phase"], "Failed");
    assert_eq!(pod["status"]["reason"], "DeadlineExceeded");
}
