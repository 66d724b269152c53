//! Every CEL rule of every served version, from both sides.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::crd::fleet::{Fleet, Reply, Version};
use crate::crd::rule_cases::{self, Try, over};
use crate::crd::samples;
use crate::crd::spots::{self, Spot};
use crate::crd::wordings;

// checklist 20.44
#[tokio::test]
async fn every_rule_accepts_and_rejects() {
    let fleet = Fleet::new().await;
    let (mut rules, mut distinct, mut sent) = (0, BTreeSet::new(), 0);
    let mut surprises = Vec::new();
    for version in fleet.kinds.iter().flat_map(|kind| kind.versions()) {
        for spot in spots::all(version.schema()) {
            for rule in spot.schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
                let message = rule["message"].as_str().unwrap();
                rules += 1;
                distinct.insert((rule["rule"].as_str().unwrap(), message));
                let base = samples::along(version.schema(), &spot.steps);
                let base = base.pointer(&spot.pointer()).unwrap();
                let sides = rule_cases::sides(message, base).unwrap_or_else(|| {
                    panic!("{} {}: no case for {message:?}", version.label(), spot.fact())
                });
                for attempt in &sides.accepted {
                    sent += 1;
                    let found = try_it(&fleet, version, &spot, attempt).await.causes(version);
                    if !found.is_empty() {
                        surprises.push(format!(
                            "{} {}: {message}\n  {found:#?}",
                            version.label(),
                            attempt.new
                        ));
                    }
                }
                for attempt in &sides.rejected {
                    sent += 1;
                    let found = try_it(&fleet, version, &spot, attempt).await.causes(version);
                    let expected = expected(&spot, message, attempt);
                    if found != expected {
                        surprises.push(format!(
                            "{} {}\n  expected {expected:#?}\n  found {found:#?}",
                            version.label(),
                            attempt.new,
                        ));
                    }
                }
            }
        }
    }
    assert!(surprises.is_empty(), "{} surprises\n{}", surprises.len(), surprises.join("\n"));
    assert_eq!((rules, distinct.len()), (159, 35));
    assert!(sent > 500, "{sent}");
}

/// The broken rules of the place in the order in which they stand there.
fn expected(spot: &Spot<'_>, message: &str, attempt: &Try) -> Vec<String> {
    let rules = spot.schema["x-kubernetes-validations"].as_array().unwrap();
    let messages = rules.iter().map(|rule| rule["message"].as_str().unwrap());
    let broken = messages.filter(|m| *m == message || attempt.also.contains(m));
    broken
        .map(|message| {
            let says = match message {
                // The rule looks for a field that is not there.
                "when reportBackStrategy.type is 'Mirror', a destination must be specified" => {
                    format!("no such key: destination evaluating rule: {message}")
                }
                _ => message.to_owned(),
            };
            wordings::broken_rule(&spot.rule_field(), &spot.schema["type"], &says)
        })
        .collect()
}

/// Creates, and updates where there is something to change from.
async fn try_it(fleet: &Fleet, version: Version<'_>, spot: &Spot<'_>, attempt: &Try) -> Reply {
    let Some(old) = &attempt.old else {
        return fleet.create(version, laid(version, spot, &attempt.new)).await;
    };
    let old = fleet.create(version, laid(version, spot, old)).await;
    assert!(old.code < 300, "{}: {:#}", version.label(), old.body);
    fleet.put(version, old.body, laid(version, spot, &attempt.new)).await
}

/// The smallest object that reaches the place, with `top` laid over what is there.
fn laid(version: Version<'_>, spot: &Spot<'_>, top: &Value) -> Value {
    let mut object = samples::along(version.schema(), &spot.steps);
    let place = object.pointer_mut(&spot.pointer()).unwrap();
    *place = over(place, top);
    if let Some(Value::String(name)) = object.pointer_mut("/metadata/name") {
        // Nobody else's, and as long.
        *name = format!("{:x<1$}", Fleet::fresh_name(), name.len());
    }
    object
}
