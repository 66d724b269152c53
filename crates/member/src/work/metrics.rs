//! Counts what became of Works and manifests, by the reasons of their conditions.

use flagship_api::condition::{Condition, ConditionStatus, Conditions, Generation};
use flagship_api::condition_type::work as kind;
use flagship_api::work::{ManifestCondition, Work, WorkStatus};
use flagship_runtime::metrics::Metrics;

const WORKS: &str = "fleet_work_processing_requests_total";
const MANIFESTS: &str = "fleet_manifest_processing_requests_total";

/// Counts one pass, unless what is said of the Work is about an older generation.
pub(super) fn count(metrics: &Metrics, work: &Work, status: &WorkStatus) {
    let generation = Generation::of(&work.metadata);
    let current = |of_type: &str| match status.conditions.of_type(of_type) {
        Some(found) if Generation::seen_by(found) != generation => None,
        found => Some(label(found)),
    };
    let all = (current(kind::APPLIED), current(kind::AVAILABLE), current(kind::DIFF_REPORTED));
    if let (Some(applied), Some(available), Some(reported)) = all {
        let labels = [
            ("apply_status", applied),
            ("availability_status", available),
            ("diff_reporting_status", reported),
        ];
        metrics.counter(WORKS, "Passes over Works by what became of them.", &labels).inc();
    }
    for manifest in &status.manifest_conditions {
        count_manifest(metrics, manifest);
    }
}

fn count_manifest(metrics: &Metrics, manifest: &ManifestCondition) {
    let of = |of_type: &str| label(manifest.conditions.of_type(of_type));
    let found = |there: bool| if there { "Found" } else { "NotFound" };
    let labels = [
        ("apply_status", of(kind::APPLIED)),
        ("availability_status", of(kind::AVAILABLE)),
        ("diff_reporting_status", of(kind::DIFF_REPORTED)),
        ("drift_detection_status", found(manifest.drift_details.is_some())),
        ("diff_detection_status", found(manifest.diff_details.is_some())),
    ];
    metrics.counter(MANIFESTS, "Manifests by what became of them.", &labels).inc();
}

fn label(condition: Option<&Condition>) -> &str {
    match condition {
        None => "Skipped",
        Some(condition) if ConditionStatus::of(condition) == ConditionStatus::Unknown => "Unknown",
        Some(condition) => &condition.reason,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    /// What is counted for a Work of generation 2 with these conditions.
    fn counted(conditions: &[(&str, &str, &str, i64)], manifest: serde_json::Value) -> String {
        let metrics = Metrics::default();
        let work: Work = serde_json::from_value(json!({"metadata": {"generation": 2}})).unwrap();
        let time = "2026-01-01T00:00:00Z";
        let conditions: Vec<_> = conditions
            .iter()
            .map(|(kind, status, reason, generation)| {
                json!({"type": kind, "status": status, "reason": reason, "message": "",
                    "observedGeneration": generation, "lastTransitionTime": time})
            })
            .collect();
        let status = json!({"conditions": conditions, "manifestConditions": manifest});
        count(&metrics, &work, &serde_json::from_value(status).unwrap());
        let text = metrics.render();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.collect::<Vec<_>>().join("\n")
    }

    // checklist 11.1
    #[test]
    fn works_are_counted_by_reason() {
        let nothing = json!([]);
        let applied = ("Applied", "True", "AllManifestsApplied", 2);
        let count = |all: &[_]| counted(all, nothing.clone());
        expect![[r#"fleet_work_processing_requests_total{apply_status="AllManifestsApplied",availability_status="AllManifestsAvailable",diff_reporting_status="Skipped"} 1"#]]
            .assert_eq(&count(&[applied, ("Available", "True", "AllManifestsAvailable", 2)]));
        expect![[r#"fleet_work_processing_requests_total{apply_status="AllManifestsApplied",availability_status="SomeManifestsAreNotAvailable",diff_reporting_status="Skipped"} 1"#]]
            .assert_eq(&count(&[applied, ("Available", "False", "SomeManifestsAreNotAvailable", 2)]));
        expect![[r#"fleet_work_processing_requests_total{apply_status="SomeManifestsAreNotApplied",availability_status="Skipped",diff_reporting_status="Skipped"} 1"#]]
            .assert_eq(&count(&[("Applied", "False", "SomeManifestsAreNotApplied", 2)]));
        expect![[r#"fleet_work_processing_requests_total{apply_status="Skipped",availability_status="Skipped",diff_reporting_status="AllManifestsDiffReported"} 1"#]]
            .assert_eq(&count(&[("DiffReported", "True", "AllManifestsDiffReported", 2)]));
        expect![[r#"fleet_work_processing_requests_total{apply_status="Unknown",availability_status="Skipped",diff_reporting_status="Skipped"} 1"#]]
            .assert_eq(&count(&[("Applied", "Unknown", "Whatever", 2)]));
        assert_eq!(count(&[("Applied", "True", "AllManifestsApplied", 1)]), "", "stale");
    }

    #[test]
    fn manifests_are_counted_with_what_was_found() {
        let time = "2026-01-01T00:00:00Z";
        let condition = json!({"type": "Applied", "status": "False", "reason": "FoundDrifts",
            "message": "", "lastTransitionTime": time});
        let drift = json!({"observationTime": time, "observedInMemberClusterGeneration": 1,
            "firstDriftedObservedTime": time});
        let manifest = json!([{"identifier": {"ordinal": 0}, "conditions": [condition],
            "driftDetails": drift}]);
        expect![[r#"
            fleet_manifest_processing_requests_total{apply_status="FoundDrifts",availability_status="Skipped",diff_reporting_status="Skipped",drift_detection_status="Found",diff_detection_status="NotFound"} 1
            fleet_work_processing_requests_total{apply_status="Skipped",availability_status="Skipped",diff_reporting_status="Skipped"} 1"#]]
        .assert_eq(&counted(&[], manifest));
    }
}
