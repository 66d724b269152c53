//! When a Work is looked at again, and which one first.

use flagship_api::work::{Work, WorkStatus};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::fixture::{Fixture, config_map, start};
use crate::apply::{Ageing, Look, Outcome, RequeueBackOff, Timing, Trigger, priority};

fn look(settled: bool) -> Look {
    Look { generation: 1, results: "same".into(), settled, waiting: false }
}

/// The first delays in seconds, to three digits.
fn delays(timing: &Timing, settled: bool, count: usize) -> Vec<f64> {
    let mut back_off = RequeueBackOff::default();
    let seconds = |span: SignedDuration| (span.as_secs_f64() * 1000.0).round() / 1000.0;
    (0..count).map(|_| seconds(back_off.next(timing, &look(settled)))).collect()
}

// checklist 10.1
#[test]
fn the_default_sequence() {
    let timing = Timing::default();
    assert_eq!(
        delays(&timing, false, 16),
        [
            5.0, 2.0, 2.4, 2.88, 3.456, 4.147, 4.977, 5.972, 7.166, 8.6, 10.32, 12.383, 14.86,
            22.29, 33.435, 50.153
        ]
    );
    assert_eq!(delays(&timing, true, 8), [5.0, 2.0, 3.0, 4.5, 6.75, 10.125, 15.188, 22.781]);
    for settled in [true, false] {
        assert_eq!(delays(&timing, settled, 400).last(), Some(&900.0), "the cap");
    }
}

// checklist 10.1
#[test]
fn what_the_reference_suite_runs_with() {
    let five = SignedDuration::from_secs(5);
    let timing = Timing { slow_cap: five, fast_cap: five, ..Timing::default() }.sound();
    assert_eq!(delays(&timing, true, 6), [5.0, 2.0, 3.0, 4.5, 5.0, 5.0]);
    assert_eq!(delays(&timing, false, 9), [5.0, 2.0, 2.4, 2.88, 3.456, 4.147, 4.977, 5.0, 5.0]);
}

// checklist 10.1
#[test]
fn variants_without_a_part_of_the_sequence() {
    let seconds = SignedDuration::from_secs;
    let no_slow = Timing { slow_cap: seconds(2), ..Timing::default() };
    assert_eq!(delays(&no_slow, false, 4), [5.0, 2.0, 3.0, 4.5]);
    let no_fast = Timing { slow_cap: seconds(10), fast_cap: seconds(10), ..Timing::default() };
    let slow = delays(&no_fast, false, 60);
    assert_eq!((slow[2], slow[59]), (2.4, 10.0));
    let fixed_only = Timing {
        slow_start: seconds(5),
        slow_cap: seconds(5),
        fast_cap: seconds(5),
        ..Timing::default()
    };
    assert_eq!(delays(&fixed_only, false, 4), [5.0; 4]);
    let more = Timing { attempts: 3, ..Timing::default() };
    assert_eq!(delays(&more, true, 6), [5.0, 5.0, 5.0, 2.0, 3.0, 4.5]);
    let steady = Timing { skip_to_fast: false, ..Timing::default() };
    assert_eq!(delays(&steady, true, 4), [5.0, 2.0, 2.4, 2.88]);
    // Nothing is longer than the cap, the fixed delay included.
    let patient = Timing {
        fixed: seconds(60),
        slow_cap: seconds(5),
        fast_cap: seconds(5),
        ..Timing::default()
    };
    assert_eq!(delays(&patient, true, 2), [5.0, 2.0]);
}

// checklist 10.1
#[test]
fn a_new_generation_or_result_starts_over() {
    let timing = Timing::default();
    let mut back_off = RequeueBackOff::default();
    let mut next = |look: &Look| back_off.next(&timing, look).as_millis();
    assert_eq!([next(&look(false)), next(&look(false)), next(&look(false))], [5000, 2000, 2400]);
    // Becoming settled alone is no change; growing fast begins where slow has got to.
    assert_eq!(next(&look(true)), 3600);
    assert_eq!(next(&Look { generation: 2, ..look(true) }), 5000);
    assert_eq!(next(&Look { generation: 2, ..look(true) }), 2000);
    assert_eq!(next(&Look { generation: 2, results: "other".into(), ..look(true) }), 5000);
    assert_eq!(next(&look(true)), 5000);
    // A Work that is gone is forgotten: its back-off is dropped, and one of its name starts over.
    assert_eq!(RequeueBackOff::default().next(&timing, &look(true)).as_millis(), 5000);
}

// checklist 10.1
#[test]
fn settings_that_make_no_sense_are_replaced() {
    let seconds = SignedDuration::from_secs;
    let sound = |change: &dyn Fn(&mut Timing)| {
        let mut timing = Timing::default();
        change(&mut timing);
        timing.sound()
    };
    assert_eq!(Timing::default().sound(), Timing::default());
    assert_eq!(sound(&|t| t.attempts = 0).attempts, 1);
    for bad in [0, -5, 1] {
        assert_eq!(sound(&|t| t.fixed = seconds(bad)).fixed, seconds(2));
    }
    let bases = |slow: f64, fast: f64| {
        let timing = sound(&|t| (t.slow_base, t.fast_base) = (slow, fast));
        (timing.slow_base, timing.fast_base)
    };
    for (slow, fast) in [
        (1.0, 1.5),
        (0.0, 1.5),
        (-1.0, 1.5),
        (2.0, 1.5),
        (1.2, 101.0),
        (f64::NAN, 1.5),
        (1.2, f64::NAN),
    ] {
        assert_eq!(bases(slow, fast), (1.2, 1.2), "{slow} {fast}");
    }
    assert_eq!(bases(1.05, 100.0), (1.05, 100.0));
    let spans = |start: i64, slow: i64, fast: i64| {
        let timing = sound(&|t| {
            (t.slow_start, t.slow_cap, t.fast_cap) = (seconds(start), seconds(slow), seconds(fast));
        });
        [timing.slow_start, timing.slow_cap, timing.fast_cap].map(|span| span.as_secs())
    };
    for (start, slow, fast) in
        [(0, 15, 900), (-1, 15, 900), (20, 15, 900), (2, 1000, 900), (2, 15, 3601)]
    {
        assert_eq!(spans(start, slow, fast), [2, 30, 900], "{start} {slow} {fast}");
    }
    assert_eq!(spans(2, 2, 2), [2, 2, 2]);
    // Even settings nobody checked do not end in a panic.
    let odd = Timing { fast_base: f64::INFINITY, slow_base: f64::NAN, ..Timing::default() };
    assert!(
        delays(&odd, true, 300)
            .iter()
            .chain(&delays(&odd, false, 300))
            .all(|delay| *delay <= 900.0)
    );
}

fn outcomes(names: &[&str]) -> Vec<Outcome> {
    let manifests: Vec<Value> = names.iter().map(|name| config_map(name, json!({}))).collect();
    Fixture::new(json!({}), &manifests).pass()
}

// checklist 10.2
#[test]
fn results_count_in_order_and_errors_do_not() {
    let hash = |outcomes: &[Outcome]| Look::new(1, outcomes, true).results;
    let good = outcomes(&["a", "b"]);
    let mut failed = good.clone();
    failed[0].verdict = crate::apply::Verdict::ApplyFailed;
    failed[0].error = Some("one".into());
    let mut elsewhere = failed.clone();
    elsewhere.reverse();
    assert_ne!(hash(&good), hash(&failed));
    assert_ne!(hash(&failed), hash(&elsewhere));
    let before = hash(&failed);
    failed[0].error = Some("another".into());
    assert_eq!(hash(&failed), before);
    let mut waiting = good.clone();
    waiting[1].availability = crate::availability::Availability::NotYet;
    assert_ne!(hash(&good), hash(&waiting));
}

/// A Work of this age in minutes whose status says these things of its generation.
fn work(strategy: Value, minutes: i64, holds: &[&str]) -> Work {
    let mut work = Fixture::new(strategy, &[]).work;
    let created = start() - SignedDuration::from_mins(minutes) - SignedDuration::from_secs(59);
    work.metadata.creation_timestamp = Some(flagship_api::condition::wire_time(created));
    let generation = work.metadata.generation;
    let condition = |of_type: &&str| {
        serde_json::from_value(
            json!({"type": of_type, "status": "True", "reason": "X", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": generation}),
        )
        .unwrap()
    };
    work.status = Some(WorkStatus {
        conditions: holds.iter().map(condition).collect(),
        ..WorkStatus::default()
    });
    work
}

// checklist 10.3
#[test]
fn what_somebody_waits_for_comes_first() {
    let of = |trigger: Trigger<'_>| priority(trigger, Ageing::default(), start());
    assert_eq!(of(Trigger::Created), 100);
    assert_eq!(of(Trigger::Deleted), 100);
    assert_eq!(of(Trigger::Periodic), -1);
    let update = |strategy: Value, minutes: i64, holds: &[&str]| {
        of(Trigger::Updated { old: &work(strategy, minutes, holds) })
    };
    let both = ["Applied", "Available"];
    for (minutes, expected) in
        [(0, 100), (1, 97), (10, 70), (33, 1), (34, 0), (100_000, 0), (-60, 100)]
    {
        assert_eq!(update(json!({}), minutes, &both), expected, "{minutes}");
    }
    for holds in [&[][..], &["Applied"], &["Available"], &["DiffReported"]] {
        assert_eq!(update(json!({}), 60, holds), 100, "{holds:?}");
    }
    let comparing = json!({"type": "ReportDiff"});
    assert_eq!(update(comparing.clone(), 60, &["DiffReported"]), 0);
    assert_eq!(update(comparing, 60, &both), 100);
    let mut stale = work(json!({}), 60, &both);
    *stale.metadata.generation.as_mut().unwrap() += 1;
    assert_eq!(of(Trigger::Updated { old: &stale }), 100);
    let steep = Ageing { a: -100, b: 1000 };
    let old = work(json!({}), 9, &both);
    assert_eq!(priority(Trigger::Updated { old: &old }, steep, start()), 100);
    let old = work(json!({}), i64::from(i32::MAX), &both);
    assert_eq!(priority(Trigger::Updated { old: &old }, steep, start()), 0);
}
