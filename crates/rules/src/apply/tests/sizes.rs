//! Works that grow too large.

use flagship_api::condition::Conditions;
use serde_json::{Value, json};

use super::fixture::{Fixture, config_map};

/// A Work whose ConfigMaps all differ in so many fields with values of this size.
fn differing(maps: usize, fields: usize, size: usize) -> Fixture {
    let data = |letter: &str| -> Value {
        (0..fields).map(|n| (format!("k{n}"), Value::from(letter.repeat(size)))).collect()
    };
    let manifest = |n: usize| config_map(&format!("c{n}"), json!({}));
    let strategy = json!({"type": "ReportDiff", "whenToTakeOver": "Never", "comparisonOption": "FullComparison"});
    let mut fixture = Fixture::new(strategy, &(0..maps).map(manifest).collect::<Vec<_>>());
    for n in 0..maps {
        fixture.exists(config_map(&format!("c{n}"), data("x")));
    }
    fixture
}

fn details(fixture: &Fixture) -> Vec<Vec<(String, usize, String)>> {
    let status = fixture.work.status.as_ref().unwrap();
    let of = |entry: &flagship_api::work::ManifestCondition| {
        let found = entry.diff_details.as_ref().unwrap();
        found
            .observed_diffs
            .iter()
            .map(|one| {
                let shown: String = one.value_in_member.chars().rev().take(14).collect();
                (one.path.clone(), one.value_in_member.len(), shown.chars().rev().collect())
            })
            .collect()
    };
    status.manifest_conditions.iter().map(of).collect()
}

fn trimmed(fixture: &Fixture) -> Option<String> {
    let status = fixture.work.status.as_ref().unwrap();
    status
        .conditions
        .of_type("StatusTrimmed")
        .map(|one| format!("{} {}: {}", one.status, one.reason, one.message))
}

#[test]
fn a_long_value_is_cut_only_where_there_is_no_room() {
    let mut small = differing(1, 1, 10_000);
    small.pass();
    assert_eq!(details(&small)[0][0].1, 10_000);
    let mut large = differing(1, 1, 2_000_000);
    large.pass();
    let [(path, length, end)] = &details(&large)[0][..] else { panic!() };
    assert_eq!((path.as_str(), *length), ("/data/k0", 4096 + "…(truncated)".len()));
    assert!(end.ends_with("…(truncated)"), "{end}");
    assert_eq!(trimmed(&large), None);
}

// checklist 9.3
#[test]
fn details_that_do_not_fit_are_counted_instead() {
    let mut fixture = differing(5, 100, 4000);
    fixture.manifests(&[
        config_map("c0", json!({})),
        config_map("c1", json!({})),
        config_map("c2", json!({})),
        config_map("c3", json!({"k": "v"})),
    ]);
    fixture.exists(config_map("c3", json!({"k": "w"})));
    fixture.pass();
    assert_eq!(trimmed(&fixture), None, "{:?}", details(&fixture).len());
    fixture.manifests(&[
        config_map("c0", json!({})),
        config_map("c1", json!({})),
        config_map("c2", json!({})),
        config_map("c4", json!({})),
        config_map("c3", json!({"k": "v"})),
    ]);
    fixture.pass();
    let first: Vec<_> = details(&fixture)
        .into_iter()
        .map(|all| (all.len(), all[0].0.clone(), all[0].2.clone()))
        .collect();
    let many = (1, "/data/k0 and 99 more path(s)".to_owned(), "(omitted)".to_owned());
    assert_eq!(
        first,
        [
            many.clone(),
            many.clone(),
            many.clone(),
            many,
            (1, "/data/k".to_owned(), "(omitted)".to_owned())
        ]
    );
    let said = trimmed(&fixture).unwrap();
    let start = "True Oversized: The status data (drift/diff details and back-reported status) has been trimmed due to size constraints (";
    assert!(said.starts_with(start) && said.ends_with(" bytes over limit 1415578)"), "{said}");
    // It goes with its cause.
    for n in [0, 1, 2, 4] {
        fixture.exists(config_map(&format!("c{n}"), json!({})));
    }
    fixture.pass();
    assert_eq!(trimmed(&fixture), None);
}

// checklist 9.3
#[test]
fn mirrored_status_goes_too() {
    use flagship_api::apply_strategy::{ReportBackStrategy, ReportBackStrategyType};
    let mut object = config_map("c", json!({}));
    object["kind"] = json!("Widget");
    object["apiVersion"] = json!("example.com/v1");
    let mut fixture = Fixture::new(json!({}), &[object]);
    fixture.work.spec.report_back_strategy =
        Some(ReportBackStrategy { r#type: ReportBackStrategyType::Mirror, destination: None });
    fixture.pass();
    fixture.edit("Widget c", &json!({"status": {"text": "x".repeat(1_500_000)}}));
    fixture.pass();
    let status = fixture.work.status.clone().unwrap();
    assert_eq!(status.manifest_conditions[0].back_reported_status, None);
    let since = status.conditions.of_type("StatusTrimmed").unwrap().last_transition_time.clone();
    let reports = fixture.reports;
    fixture.later(60);
    fixture.pass();
    let status = fixture.work.status.clone().unwrap();
    assert_eq!(status.conditions.of_type("StatusTrimmed").unwrap().last_transition_time, since);
    assert_eq!(fixture.reports, reports, "the same is not said twice");
}
