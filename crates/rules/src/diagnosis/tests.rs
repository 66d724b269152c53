//! Pods and events as members show them, and what is made of them.

use flagship_api::work::WorkResourceIdentifier;
use serde_json::{Value, json};

use super::report::{LONGEST, LONGEST_OF_CHECK, MOST_OBJECTS, Reported, read, write};
use super::*;

fn pod(name: &str, spec: Value, container: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [spec]},
        "status": {"containerStatuses": [container]}})
}

fn found(pods: &[Value]) -> (&'static str, String) {
    let found = diagnose(pods, &[]).unwrap();
    (found.code, found.words)
}

#[test]
fn a_crash_loop_is_one_whether_it_waits_runs_or_has_just_ended() {
    let ended = json!({"terminated": {"exitCode": 2}});
    for state in [
        json!({"waiting": {"reason": "CrashLoopBackOff"}}),
        json!({"running": {"startedAt": "2026-02-11T22:00:00Z"}}),
        json!({"terminated": {"exitCode": 2, "reason": "Error"}}),
    ] {
        let container = json!({"name": "web", "ready": false, "restartCount": 3,
            "state": state, "lastState": ended});
        let told = found(&[pod("web-1", json!({"name": "web"}), container)]);
        let words = "container web keeps ending, last with exit code 2".to_owned();
        assert_eq!(told, (code::CRASH_LOOP, words));
    }
    // The very first end has no state before it.
    let first = json!({"name": "web", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 1}}, "lastState": {}});
    assert_eq!(found(&[pod("web-1", json!({"name": "web"}), first)]).0, code::CRASH_LOOP);
}

// What an application printed may be anything, and the Work is read by many.
#[test]
fn what_a_container_printed_is_not_reported() {
    let ended = json!({"terminated": {"exitCode": 2, "message": "password=hunter2"}});
    for (state, last) in
        [(json!({"waiting": {"reason": "CrashLoopBackOff"}}), &ended), (ended.clone(), &json!({}))]
    {
        let container = json!({"name": "web", "ready": false, "restartCount": 1,
            "state": state, "lastState": last});
        let told = diagnose(&[pod("web-1", json!({"name": "web"}), container)], &[]).unwrap();
        assert!(!told.words.contains("hunter2") && !told.says.contains("hunter2"), "{told:?}");
    }
    assert_eq!(plural_of("Secret"), None, "Secrets are never looked into");
}

#[test]
fn a_probe_is_blamed_only_if_there_is_one() {
    let running =
        json!({"name": "web", "ready": false, "restartCount": 0, "state": {"running": {}}});
    for (spec, words) in [
        (
            json!({"name": "web", "readinessProbe": {"httpGet": {"port": 80}}}),
            "container web runs, and its readiness probe has not succeeded",
        ),
        (
            json!({"name": "web", "startupProbe": {"httpGet": {"port": 80}}}),
            "container web runs, and its startup probe has not succeeded",
        ),
        (
            json!({"name": "web"}),
            "container web runs and is not ready yet; it has no readiness probe",
        ),
    ] {
        let told = found(&[pod("web-1", spec, running.clone())]);
        assert_eq!(told, (code::POD_NOT_READY, words.to_owned()));
    }
}

#[test]
fn a_pod_that_cannot_become_ready_comes_before_one_that_may() {
    let slow = json!({"name": "web", "ready": false, "state": {"running": {}}});
    let broken = json!({"name": "web", "ready": false, "image": "x:y",
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "manifest unknown"}}});
    let spec = json!({"name": "web"});
    let told = diagnose(&[pod("web-1", spec.clone(), slow), pod("web-2", spec, broken)], &[]);
    let told = told.unwrap();
    assert_eq!((told.code, told.pod.as_str()), (code::IMAGE_NOT_FOUND, "web-2"));
}

#[test]
fn events_tell_who_refused_a_pod() {
    for (message, expected) in [
        ("Error creating: pods \"a\" is forbidden: exceeded quota: q", code::QUOTA_EXCEEDED),
        ("Error creating: admission webhook \"w\" denied the request", code::WEBHOOK_DENIED),
        ("Error creating: no", code::POD_CREATION_FAILED),
    ] {
        let event = json!({"type": "Warning", "reason": "FailedCreate", "message": message});
        assert_eq!(diagnose(&[], &[event]).unwrap().code, expected);
    }
    assert_eq!(diagnose(&[], &[]), None);
}

#[test]
fn a_report_is_bounded_on_both_sides_and_reads_back() {
    let object = WorkResourceIdentifier {
        group: "apps".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: "app".to_owned(),
        name: "web".to_owned(),
        ..WorkResourceIdentifier::default()
    };
    let diagnosis = Diagnosis {
        code: code::IMAGE_NOT_FOUND,
        pod: "web-1".to_owned(),
        container: "web".to_owned(),
        says: "ErrImagePull".to_owned(),
        words: format!("two\nlines {}", "x".repeat(1000)),
    };
    let one = Reported::of(&object, &diagnosis);
    assert!(one.says.starts_with("two lines xx") && one.says.chars().count() == LONGEST);
    let annotation = write(&vec![one.clone(); 50]).unwrap();
    assert!(annotation.len() < MOST_OBJECTS * (LONGEST + 256), "{}", annotation.len());
    assert_eq!(read(&annotation), vec![one; MOST_OBJECTS]);
    assert_eq!(write(&[]), None);
    // Somebody else's idea of it costs what cannot be read, and nothing more.
    let mixed = r#"[{"kind": "Job", "name": "a", "cause": "X", "says": "y"}, 7, {"kind": 1}]"#;
    assert_eq!(read(mixed).len(), 1);
    assert_eq!(read("{}"), []);
}

#[test]
fn a_check_is_quoted_by_the_last_lines_of_the_container_that_failed_last() {
    let ended = |code: i64, at: &str, reason: &str, message: &str| json!({"exitCode": code, "finishedAt": at, "reason": reason, "message": message});
    let state = |of: Value| json!({"name": "probe", "state": {"terminated": of}});
    let one = |container: Value| pod("smoke-1", json!({"name": "probe"}), container);
    let (early, late) = ("2027-01-15T08:00:01Z", "2027-01-15T08:00:09Z");
    let table = [
        (vec![one(state(ended(0, late, "Completed", "all is well")))], None),
        (vec![one(json!({"name": "probe", "state": {"running": {}}}))], None),
        (
            vec![one(state(ended(1, late, "Error", "GET / 200\n\n GET /cart 500\r\n")))],
            Some("container probe ended with exit code 1: GET / 200 | GET /cart 500"),
        ),
        (
            vec![one(state(ended(137, late, "OOMKilled", "")))],
            Some("container probe ended with exit code 137 (OOMKilled)"),
        ),
        // One that was started again says what it said before.
        (
            vec![one(json!({"name": "probe", "state": {"running": {}},
                "lastState": {"terminated": ended(2, early, "Error", "no route")}}))],
            Some("container probe ended with exit code 2: no route"),
        ),
        (
            vec![
                one(state(ended(1, late, "Error", "second"))),
                one(state(ended(1, early, "Error", "first"))),
            ],
            Some("container probe ended with exit code 1: second"),
        ),
    ];
    for (pods, words) in table {
        assert_eq!(of_check(&pods).map(|found| found.words).as_deref(), words, "{pods:?}");
    }
    let lines: String = (1..=99).map(|line| format!("line {line}\n")).collect();
    let told = of_check(&[one(state(ended(1, late, "Error", &lines)))]).unwrap();
    assert!(told.words.contains(": line 90 | line 91") && told.words.ends_with("line 99"));
    // Of what is too long the end is kept, and what a terminal would obey is not.
    let long = format!("{}\u{1b}[2Jthe end", "x".repeat(5000));
    let told = of_check(&[one(state(ended(1, late, "Error", &long)))]).unwrap();
    let object = WorkResourceIdentifier { kind: "Job".to_owned(), ..Default::default() };
    let told = Reported::of(&object, &told);
    assert!(told.says.chars().count() <= LONGEST_OF_CHECK, "{told:?}");
    assert!(told.says.ends_with("x [2Jthe end"), "{told:?}");
    // Whoever wrote the annotation, what is read of it is bounded again.
    let forged = Reported { says: format!("a\u{0}b{}", "y".repeat(5000)), ..told };
    let forged = &read(&write(&[forged]).unwrap())[0].says;
    assert!(forged.starts_with("a by") && forged.chars().count() == LONGEST_OF_CHECK);
}
