//! Checks as tables: rounds of answers, and what they come to.

use serde_json::{Value, json};

use super::*;
use crate::policy::Labels;

fn check(more: Value) -> Check {
    let mut all = json!({"name": "errors", "after": "Stage", "for": "2m",
        "prometheus": {"url": "http://p", "query": "e{c=\"{{cluster}}\"}"}, "pass": {"below": 0.01}});
    for (key, value) in more.as_object().unwrap() {
        all[key] = value.clone();
    }
    serde_json::from_value(all).unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn answers(prefix: &str, values: &[f64]) -> Vec<Answer> {
    let one = |(at, value): (usize, &f64)| Answer {
        cluster: format!("{prefix}{at}"),
        value: if value.is_nan() { Err("NaN".to_owned()) } else { Ok(*value) },
    };
    values.iter().enumerate().map(one).collect()
}

/// One round each 30 seconds about one updated cluster; NaN is no answer.
fn asked(check: &Check, values: &[f64]) -> Series {
    let mut series = Series::new(at(0));
    for (n, value) in (0_i64..).zip(values) {
        series
            .take(check, &Round { at: at(30 * n), updated: answers("u", &[*value]), rest: vec![] });
    }
    series
}

const SILENT: f64 = f64::NAN;

#[test]
fn a_check_must_hold_and_three_poor_answers_in_a_row_end_it() {
    let check = check(json!({}));
    use Verdict::{Failed, Passed};
    let table: &[(&[f64], Option<Verdict>, &str)] = &[
        (&[], None, "not asked yet"),
        (
            &[0.004],
            None,
            "0.004 of u0 is below 0.01 since 2027-01-15T08:00:00Z, and must be until 2027-01-15T08:02:00Z",
        ),
        // What it says does not change with every answer, only when something turns.
        (
            &[0.004, 0.005, 0.006, 0.007],
            None,
            "0.004 of u0 is below 0.01 since 2027-01-15T08:00:00Z, and must be until 2027-01-15T08:02:00Z",
        ),
        (&[0.004, 0.005, 0.006, 0.007, 0.008], Some(Passed), "0.008 of u0 is below 0.01, for 2m"),
        (&[0.004, 0.02], None, "0.02 of u0 is not below 0.01 (1 of 3 in a row)"),
        (
            &[0.02, 0.02, 0.03],
            Some(Failed),
            "0.03 of u0 is not below 0.01; 3 times in a row it was no good answer",
        ),
        // One that is bad begins the time anew.
        (
            &[0.0, 0.0, 0.0, 0.02, 0.0],
            None,
            "0 of u0 is below 0.01 since 2027-01-15T08:02:00Z, and must be until 2027-01-15T08:04:00Z",
        ),
        (&[SILENT], None, "no answer about u0: NaN (1 of 3 in a row)"),
        (
            &[SILENT, SILENT, SILENT],
            Some(Failed),
            "no answer about u0: NaN; 3 times in a row it was no good answer",
        ),
        (
            &[SILENT, 0.5, SILENT],
            Some(Failed),
            "no answer about u0: NaN; 3 times in a row it was no good answer",
        ),
        // Silence is not success: it begins the time anew, too.
        (
            &[0.0, 0.0, 0.0, SILENT, 0.0],
            None,
            "0 of u0 is below 0.01 since 2027-01-15T08:02:00Z, and must be until 2027-01-15T08:04:00Z",
        ),
        // What is exactly at the limit is not below it.
        (&[0.01], None, "0.01 of u0 is not below 0.01 (1 of 3 in a row)"),
    ];
    for (values, verdict, told) in table {
        let series = asked(&check, values);
        assert_eq!((series.verdict, series.told.as_str()), (*verdict, *told), "{values:?}");
    }
}

#[test]
fn a_check_that_never_holds_long_enough_fails_in_the_end() {
    let check = check(json!({}));
    let flapping: Vec<f64> = (0..30).map(|n| if n % 3 == 2 { 0.5 } else { 0.0 }).collect();
    let series = asked(&check, &flapping);
    assert_eq!(series.verdict, Some(Verdict::Failed));
    assert_eq!(series.told, "has not held for 2m within 11m; last: 0 of u0 is below 0.01");
}

#[test]
fn what_is_decided_stays_so() {
    let check = check(json!({"for": null}));
    let series = asked(&check, &[0.0, 0.5, 0.5, 0.5]);
    assert_eq!(
        (series.verdict, series.told.as_str()),
        (Some(Verdict::Passed), "0 of u0 is below 0.01")
    );
}

#[test]
fn a_hub_that_was_away_does_not_know_what_was_between() {
    let check = check(json!({}));
    let mut series = Series::new(at(0));
    for second in [0, 30, 600, 630] {
        series.take(&check, &Round { at: at(second), updated: answers("u", &[0.0]), rest: vec![] });
    }
    assert_eq!(series.verdict, None);
    assert_eq!(series.good_since, Some(at(600)));
}

#[test]
fn limits_hold_for_each_cluster() {
    let both = check(json!({"for": null, "pass": {"above": 1.0, "below": 2.0}}));
    let table: &[(&[f64], Option<Verdict>, &str)] = &[
        (&[1.5, 1.9], Some(Verdict::Passed), "1.5 of u0 is above 1, and 1.9 of u1 is below 2"),
        (&[1.5, 2.5], None, "2.5 of u1 is not below 2 (1 of 3 in a row)"),
        (&[0.5, 1.5], None, "0.5 of u0 is not above 1 (1 of 3 in a row)"),
        (&[1.5, SILENT], None, "no answer about u1: NaN (1 of 3 in a row)"),
        (&[], None, "nobody was asked (1 of 3 in a row)"),
    ];
    for (values, verdict, told) in table {
        let mut series = Series::new(at(0));
        series.take(&both, &Round { at: at(0), updated: answers("u", values), rest: vec![] });
        assert_eq!((series.verdict, series.told.as_str()), (*verdict, *told), "{values:?}");
    }
}

fn beside(check: &Check, updated: &[f64], rest: &[f64]) -> (Option<Verdict>, String) {
    let mut series = Series::new(at(0));
    for n in 0..3 {
        let (updated, rest) = (answers("u", updated), answers("r", rest));
        series.take(check, &Round { at: at(30 * n), updated, rest });
    }
    (series.verdict, series.told)
}

#[test]
fn updated_clusters_are_compared_with_the_rest() {
    let rest = json!({"notWorseThan": "Rest", "by": "10%"});
    let higher = check(json!({"for": "1m", "pass": rest}));
    let lower = check(json!({"for": "1m",
        "pass": {"notWorseThan": "Rest", "by": "10%", "worse": "Lower"}}));
    let calm: Vec<f64> = (0..16).map(|n| 0.0010 + 0.00001 * f64::from(n)).collect();
    let risen: Vec<f64> = calm.iter().map(|value| value * 3.0).collect();
    use Verdict::{Failed, Passed};
    type Row<'a> = (&'a str, &'a Check, &'a [f64], &'a [f64], Option<Verdict>, &'a str);
    let table: &[Row<'_>] = &[
        (
            "a regression",
            &higher,
            &risen[..4],
            &calm,
            Some(Failed),
            "0.003045 on 4 updated is worse than 0.001075 on 16 other cluster(s) by more than 10% (medians, p 0.000); 3 times in a row it was no good answer",
        ),
        (
            "all have risen",
            &higher,
            &risen[..4],
            &risen,
            Some(Passed),
            "0.003045 on 4 updated is not worse than 0.003225 on 16 other cluster(s) by more than 10% (medians, p 0.993), for 1m",
        ),
        (
            "a little worse",
            &higher,
            &[0.00115, 0.00115, 0.00115],
            &calm,
            Some(Passed),
            "0.00115 on 3 updated is not worse than 0.001075 on 16 other cluster(s) by more than 10% (medians, p 0.004), for 1m",
        ),
        (
            "one that is far off",
            &higher,
            &[0.5, 0.001, 0.00101],
            &calm,
            Some(Passed),
            "0.00101 on 3 updated is not worse than 0.001075 on 16 other cluster(s) by more than 10% (medians, p 0.745), for 1m",
        ),
        (
            "lower is better here",
            &higher,
            &calm[..4],
            &risen,
            Some(Passed),
            "0.001015 on 4 updated is not worse than 0.003225 on 16 other cluster(s) by more than 10% (medians, p 1.000), for 1m",
        ),
        (
            "lower is worse here",
            &lower,
            &calm[..4],
            &risen,
            Some(Failed),
            "0.001015 on 4 updated is worse than 0.003225 on 16 other cluster(s) by more than 10% (medians, p 0.000); 3 times in a row it was no good answer",
        ),
        (
            "too few others",
            &higher,
            &calm[..1],
            &calm[..4],
            None,
            "unknown, too few have answered to compare: 1 updated and 4 other cluster(s), and 19 others are needed",
        ),
        (
            "nobody else",
            &higher,
            &calm[..4],
            &[],
            None,
            "unknown, too few have answered to compare: 4 updated and 0 other cluster(s), and 3 others are needed",
        ),
        (
            "silent others are none",
            &higher,
            &calm[..3],
            &[0.001, 0.001, SILENT, SILENT],
            None,
            "unknown, too few have answered to compare: 3 updated and 2 other cluster(s), and 3 others are needed",
        ),
        (
            "a silent one that was updated",
            &higher,
            &[0.001, SILENT],
            &calm,
            Some(Failed),
            "no answer about u1: NaN; 3 times in a row it was no good answer",
        ),
        (
            "nothing on either side",
            &higher,
            &[0.0; 4],
            &[0.0; 16],
            Some(Passed),
            "0 on 4 updated is not worse than 0 on 16 other cluster(s) by more than 10% (medians, p 1.000), for 1m",
        ),
        (
            "something where there was nothing",
            &higher,
            &[0.1; 4],
            &[0.0; 16],
            Some(Failed),
            "0.1 on 4 updated is worse than 0 on 16 other cluster(s) by more than 10% (medians, p 0.000); 3 times in a row it was no good answer",
        ),
    ];
    for (what, check, updated, rest, verdict, told) in table {
        assert_eq!(beside(check, updated, rest), (*verdict, (*told).to_owned()), "{what}");
    }
}

#[test]
fn a_limit_does_not_hide_a_regression_nor_the_other_way_round() {
    let both = check(json!({"for": "1m",
        "pass": {"below": 0.01, "notWorseThan": "Rest", "by": "10%"}}));
    let (verdict, told) = beside(&both, &[0.004; 4], &[0.001; 16]);
    assert_eq!(verdict, Some(Verdict::Failed), "every value is below the limit");
    assert!(told.starts_with("0.004 on 4 updated is worse than 0.001"), "{told}");
    let (verdict, told) = beside(&both, &[0.02; 4], &[0.02; 16]);
    assert_eq!(verdict, Some(Verdict::Failed), "all have risen above the limit");
    assert!(told.starts_with("0.02 of u0 is not below 0.01"), "{told}");
    let (verdict, _) = beside(&both, &[0.004; 1], &[0.001; 4]);
    assert_eq!(verdict, None, "too few to compare is no pass, whatever the limit says");
}

#[test]
fn questions_name_what_they_are_about() {
    let check = check(json!({"prometheus": {"url": "http://p",
        "query": "a{c=\"{{cluster}}\",s='{{stage}}',r=\"{{run}}\"} + b{x=\"{ {y}\"}"}}));
    let ask = Ask {
        policy: "p".to_owned(),
        check,
        run: "web".to_owned(),
        stage: "canary".to_owned(),
        cluster: None,
        updated: vec!["m1".to_owned()],
        rest: vec!["m\\\"{{run}}".to_owned()],
    };
    let (updated, rest) = ask.questions();
    assert_eq!(updated[0].query, "a{c=\"m1\",s='canary',r=\"web\"} + b{x=\"{ {y}\"}");
    assert_eq!(rest[0].query, "a{c=\"m\\\\\\\"{{run}}\",s='canary',r=\"web\"} + b{x=\"{ {y}\"}");
    let mut whole = ask;
    whole.check.prometheus.as_mut().unwrap().query = "sum(e{s=\"{{stage}}\"})".to_owned();
    let (updated, _) = whole.questions();
    assert_eq!(updated.len(), 1, "one question about the whole stage");
    assert_eq!(
        (updated[0].cluster.as_str(), updated[0].query.as_str()),
        ("", "sum(e{s=\"canary\"})")
    );
}

#[test]
fn answers_of_a_prometheus() {
    let vector = |values: &[&str]| {
        let series: Vec<Value> =
            values.iter().map(|value| json!({"metric": {}, "value": [1.5, value]})).collect();
        json!({"status": "success", "data": {"resultType": "vector", "result": series}})
    };
    let table = [
        (200, vector(&["0.25"]).to_string(), Ok(0.25)),
        (200, vector(&["-3e4"]).to_string(), Ok(-3e4)),
        (
            200,
            json!({"status": "success", "data": {"resultType": "scalar", "result": [1, "7"]}})
                .to_string(),
            Ok(7.0),
        ),
        (200, vector(&[]).to_string(), Err("Prometheus has no such series")),
        (200, vector(&["NaN"]).to_string(), Err("Prometheus answers NaN, which is no number")),
        (200, vector(&["+Inf"]).to_string(), Err("Prometheus answers +Inf, which is no number")),
        (
            200,
            vector(&["1", "2"]).to_string(),
            Err(
                "Prometheus answers 2 series, and one is wanted: put sum() or the like around the query",
            ),
        ),
        (
            200,
            json!({"status": "success", "data": {"resultType": "matrix", "result": []}})
                .to_string(),
            Err("Prometheus answers a matrix, and one number is wanted"),
        ),
        (
            400,
            json!({"status": "error", "errorType": "bad_data", "error": "1:3: parse error"})
                .to_string(),
            Err("Prometheus answers 400, 1:3: parse error"),
        ),
        (503, "<html>".to_owned(), Err("Prometheus answers 503, no error is given")),
        (200, "not json".to_owned(), Err("Prometheus answers 200, no error is given")),
        (
            200,
            json!({"status": "success", "data": {"resultType": "vector", "result": [{}]}})
                .to_string(),
            Err("Prometheus answers nothing, which is no number"),
        ),
    ];
    for (status, body, number) in table {
        assert_eq!(super::number(status, body.as_bytes()), number.map_err(str::to_owned), "{body}");
    }
}

#[test]
fn a_check_is_not_asked_more_often_than_it_can_be_kept() {
    let table = [
        (json!({}), 30, 120, 660),
        (json!({"interval": "5s"}), 5, 120, 410),
        (json!({"for": "24h"}), 864, 86_400, 3 * 86_400 + 8640),
        (json!({"for": null, "interval": "10s"}), 10, 0, 100),
    ];
    for (more, every, hold, patience) in table {
        let check = check(more);
        let found = (super::every(&check), holds_for(&check), super::patience(&check));
        let secs = SignedDuration::from_secs;
        assert_eq!(found, (secs(every), secs(hold), secs(patience)));
    }
}

#[test]
fn numbers_have_four_digits_that_count() {
    let table = [
        (0.0, "0"),
        (0.0042134, "0.004213"),
        (12.0, "12"),
        (1_234_567.0, "1235000"),
        (-0.5, "-0.5"),
        (1e-9, "1e-9"),
        (1.5e20, "1.5e20"),
    ];
    for (value, text) in table {
        assert_eq!(shown(value), text);
    }
}

fn policy(name: &str, spec: Value) -> Policy {
    Policy { name: name.to_owned(), spec: serde_json::from_value(spec).unwrap() }
}

fn stages(sizes: &[usize]) -> Vec<StageUpdatingStatus> {
    let stage = |(at, size): (usize, &usize)| StageUpdatingStatus {
        stage_name: format!("s{at}"),
        clusters: vec![Default::default(); *size],
        ..StageUpdatingStatus::default()
    };
    sizes.iter().enumerate().map(stage).collect()
}

#[test]
fn checks_of_several_policies_all_count_and_bear_the_name_of_theirs() {
    let one = json!([serde_json::to_value(check(json!({}))).unwrap()]);
    let policies = [
        policy("b", json!({"checks": one})),
        policy("a", json!({"checks": one, "selects": {"stages": ["s1"]}})),
    ];
    let adopted = Adopted::of(&policies, &Labels::default(), &["s0", "s1"]).unwrap();
    let ids = |stage: &str, after| -> Vec<String> {
        adopted.checks(stage, after).map(|(policy, check)| id(policy, check)).collect()
    };
    assert_eq!(ids("s0", After::Stage), ["b/errors"]);
    assert_eq!(ids("s1", After::Stage), ["a/errors", "b/errors"]);
    assert!(ids("s1", After::Cluster).is_empty());
    assert_eq!(adopted.told()[1], "policy b: check errors after each stage below 0.01 for 2m");
    let mut rollback = adopted.clone();
    rollback.undoes = Some(crate::policy::Undoes { run: "r".to_owned(), uid: "u".to_owned() });
    assert_eq!(rollback.checks("s1", After::Stage).count(), 0, "nothing holds a rollback up");
}

#[test]
fn what_could_never_pass_is_refused_before_it_begins() {
    let rest = |after: &str, stages: Value| {
        let one = check(json!({"after": after, "pass": {"notWorseThan": "Rest"}}));
        let policy = policy("p", json!({"checks": [one], "selects": {"stages": stages}}));
        Adopted::of([&policy], &Labels::default(), &[]).unwrap()
    };
    let table = [
        ("Stage", json!(["s0"]), &[2, 18][..], true),
        ("Stage", json!(["s0"]), &[2, 4][..], false),
        ("Stage", json!([]), &[2, 18][..], false),
        ("Cluster", json!(["s0"]), &[2, 18][..], false),
        ("Cluster", json!(["s0"]), &[2, 19][..], true),
        ("Stage", json!(["s1"]), &[2, 0, 0][..], true),
    ];
    for (after, named, sizes, fits) in table {
        let found = rest(after, named.clone()).could_pass(&stages(sizes));
        assert_eq!(found.is_ok(), fits, "{after} {named} {sizes:?} {found:?}");
    }
    assert_eq!(
        rest("Stage", json!([])).could_pass(&stages(&[2, 18])).unwrap_err(),
        "check `errors` of rollout policy `p` can never pass in stage `s1`: it compares 18 updated cluster(s) with those of later stages, which are 0, and 3 are needed; name the stages that it is for in selects.stages, or set pass.below or pass.above instead"
    );
}

#[test]
fn others_are_taken_from_all_over_the_run() {
    let names = |count: usize| -> Vec<String> { (0..count).map(|n| format!("m{n:04}")).collect() };
    assert_eq!(others(names(50)), names(50));
    let some = others(names(1000));
    assert_eq!((some.len(), some[1].as_str(), some[49].as_str()), (50, "m0020", "m0980"));
}

#[test]
fn what_a_schema_cannot_tell() {
    let late = policy("p", json!({"checks": [check(json!({"for": "10s"}))]}));
    assert_eq!(
        mistakes(&late).unwrap(),
        "check `errors` would be asked every 30s and must hold for 10s, which is shorter: set interval to at most that"
    );
    let fine = policy("p", json!({"checks": [check(json!({"for": "10s", "interval": "10s"}))]}));
    assert_eq!(mistakes(&fine), None);
}
