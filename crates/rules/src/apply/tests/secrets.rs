//! What a Secret holds appears nowhere.

use flagship_patch::arbitrary::object;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixture::{Fixture, Verb};
use crate::apply::RefusalKind;

/// As text and in base64, on the hub and on the member.
const CANARIES: [&str; 5] =
    ["hub-canary", "aHViLWNhbmFyeQ==", "member-canary", "bWVtYmVyLWNhbmFyeQ==", "plain-canary"];

const HUB: [&str; 3] = [CANARIES[0], CANARIES[1], CANARIES[4]];

fn secret(base64: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "app"},
        "data": {"password": base64, "pin": "MQ=="}, "stringData": {"token": "plain-canary"}, "type": "Opaque"})
}

/// Everything anybody could read about the Work, logs included.
fn everything(fixture: &mut Fixture) -> String {
    let outcomes = fixture.pass();
    let manifests = fixture.read();
    let status = serde_json::to_string(&fixture.work.status).unwrap();
    format!("{outcomes:?} {manifests:?} {status} {:?} {}", fixture.applied, fixture.told())
}

// checklist 6.6
#[test]
fn differences_of_a_secret_are_told_without_values() {
    let strategy = json!({"type": "ReportDiff", "whenToTakeOver": "Never", "comparisonOption": "FullComparison"});
    let mut fixture = Fixture::new(strategy.clone(), &[secret("aHViLWNhbmFyeQ==")]);
    let mut live = secret("bWVtYmVyLWNhbmFyeQ==");
    live["stringData"] = json!({"token": "changed"});
    live["immutable"] = json!(true);
    fixture.exists(live);
    fixture.pass();
    let status = fixture.work.status.clone().unwrap();
    let details = &status.manifest_conditions[0].diff_details.as_ref().unwrap().observed_diffs;
    let hidden = "(redacted for security reasons)";
    let told: Vec<_> = details
        .iter()
        .map(|one| (one.path.as_str(), one.value_in_member.as_str(), one.value_in_hub.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("/data/password", hidden, hidden),
            ("/immutable", "true", ""),
            ("/stringData/token", hidden, hidden)
        ]
    );
    // Only where there is a value.
    let mut fixture = Fixture::new(
        strategy,
        &[json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})],
    );
    fixture.exists(secret("bWVtYmVyLWNhbmFyeQ=="));
    fixture.pass();
    let status = fixture.work.status.clone().unwrap();
    let details = &status.manifest_conditions[0].diff_details.as_ref().unwrap().observed_diffs;
    assert_eq!(
        (
            details[0].path.as_str(),
            details[0].value_in_member.as_str(),
            details[0].value_in_hub.as_str()
        ),
        ("/data", hidden, "")
    );
}

// checklist 6.6
#[test]
fn other_kinds_are_told_in_full() {
    let strategy = json!({"type": "ReportDiff", "whenToTakeOver": "Never"});
    for (api_version, kind) in [("v1", "ConfigMap"), ("example.com/v1", "Secret")] {
        let of = |text: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "s"}, "data": {"k": text}});
        let mut fixture = Fixture::new(strategy.clone(), &[of("here")]);
        fixture.exists(of("there"));
        fixture.pass();
        assert!(
            fixture.told().contains("diff /data/k member=\"there\" hub=\"here\""),
            "{}",
            fixture.told()
        );
    }
}

// checklist 6.6
#[test]
fn the_canary_is_silent_whatever_happens() {
    let strategies = [
        json!({}),
        json!({"whenToApply": "IfNotDrifted"}),
        json!({"comparisonOption": "FullComparison"}),
        json!({"whenToApply": "IfNotDrifted", "comparisonOption": "FullComparison"}),
        json!({"type": "ServerSideApply"}),
        json!({"whenToTakeOver": "IfNoDiff"}),
        json!({"type": "ReportDiff"}),
        json!({"type": "ReportDiff", "whenToTakeOver": "Never", "comparisonOption": "FullComparison"}),
    ];
    let verbs = [Verb::Find, Verb::DryRun, Verb::TakeOver, Verb::Create, Verb::Patch, Verb::Apply];
    for strategy in strategies {
        for verb in verbs.map(Some).into_iter().chain([None]) {
            for existing in [true, false] {
                let mut fixture = Fixture::new(strategy.clone(), &[secret("aHViLWNhbmFyeQ==")]);
                if existing {
                    let mut live = secret("bWVtYmVyLWNhbmFyeQ==");
                    live["metadata"]["annotations"] = json!({"backup.example.com/copy": "{\"password\":\"bWVtYmVyLWNhbmFyeQ==\"}"});
                    fixture.exists(live);
                }
                for kind in [RefusalKind::Other, RefusalKind::Invalid, RefusalKind::Conflict] {
                    if let Some(verb) = verb {
                        // Of an object that nobody has read yet the server cannot speak either.
                        let told =
                            if existing && verb != Verb::Find { &CANARIES[..] } else { &HUB };
                        let words = format!("admission webhook denied: {}, \"1\"", told.join(" "));
                        fixture.refuse(verb, kind, &words);
                    }
                }
                for _ in 0..4 {
                    let text = everything(&mut fixture);
                    for canary in CANARIES {
                        assert!(!text.contains(canary), "{canary} in {text}");
                    }
                    assert!(!text.contains("\\\"1\\\""), "a short value in quotes: {text}");
                    if existing {
                        let theirs = json!({"data": {"password": "bWVtYmVyLWNhbmFyeQ=="}});
                        fixture.edit("Secret s", &theirs);
                    }
                }
            }
        }
    }
}

#[test]
fn a_broken_memory_of_a_secret_is_not_quoted() {
    let mut fixture = Fixture::new(json!({}), &[secret("aHViLWNhbmFyeQ==")]);
    fixture.pass();
    let broken = "{\"data\":{\"password\":\"hub-canary";
    fixture.edit("Secret s", &json!({"metadata": {"annotations": {"kubernetes-fleet.io/last-applied-configuration": broken}}}));
    let text = everything(&mut fixture);
    assert!(text.contains("ManifestApplyFailed"));
    assert!(!text.contains("canary"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever a manifest looks like, every step comes to an end and nothing panics.
    #[test]
    fn odd_objects_are_processed_to_an_end(
        manifest in object(), live in object(), metadata in object(), strategy in 0usize..4, secret in any::<bool>(),
    ) {
        let strategies = [
            json!({}),
            json!({"whenToApply": "IfNotDrifted", "comparisonOption": "FullComparison"}),
            json!({"type": "ServerSideApply", "whenToTakeOver": "IfNoDiff"}),
            json!({"type": "ReportDiff"}),
        ];
        let named = |mut object: Value, metadata: &Value| {
            let kind = if secret { "Secret" } else { "Deployment" };
            object["apiVersion"] = json!(if secret { "v1" } else { "apps/v1" });
            object["kind"] = json!(kind);
            object["metadata"] = metadata.clone();
            object["metadata"]["name"] = json!("x");
            object
        };
        let mut fixture = Fixture::new(strategies[strategy].clone(), &[named(manifest, &metadata)]);
        fixture.exists(named(live, &json!({})));
        for _ in 0..3 {
            fixture.pass();
        }
    }
}
