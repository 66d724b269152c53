//! For every rule of our definitions, objects on both sides of it.
//!
//! A rule is known by its message. What is given here is laid over the smallest value of
//! the place where the rule stands; `null` takes a field away.

use serde_json::{Value, json};

/// A value, and what stood there before if that matters.
pub struct Try {
    pub old: Option<Value>,
    pub new: Value,
    /// Messages of other rules of the same place that cannot but be broken as well.
    pub also: &'static [&'static str],
}

/// Both sides of a rule.
pub struct Sides {
    pub accepted: Vec<Try>,
    pub rejected: Vec<Try>,
}

fn new(new: Value) -> Try {
    Try { old: None, new, also: &[] }
}

fn from(old: Value, new: Value) -> Try {
    Try { old: Some(old), new, also: &[] }
}

fn both<const A: usize, const R: usize>(accepted: [Value; A], rejected: [Value; R]) -> Sides {
    Sides {
        accepted: accepted.into_iter().map(new).collect(),
        rejected: rejected.into_iter().map(new).collect(),
    }
}

fn changes<const A: usize, const R: usize>(
    accepted: [(Value, Value); A],
    rejected: [(Value, Value); R],
) -> Sides {
    let change = |(old, new)| from(old, new);
    Sides {
        accepted: accepted.into_iter().map(change).collect(),
        rejected: rejected.into_iter().map(change).collect(),
    }
}

/// The sides of the rule with this message. `base` is the smallest value of its place.
pub fn sides(message: &str, base: &Value) -> Option<Sides> {
    tasks(message)
        .or_else(|| amounts(message))
        .or_else(|| names(message))
        .or_else(|| unchanging(message, base))
        .or_else(|| placements(message))
        .or_else(|| policies(message))
        .or_else(|| selectors(message))
}

fn tasks(message: &str) -> Option<Sides> {
    let (ask, wait) = (json!({"type": "Approval"}), json!({"type": "TimedWait", "waitTime": "1m"}));
    let tolerations = [json!([{"operator": "Exists"}]), json!([{"key": "k", "value": "v"}])];
    Some(match message {
        "AfterStageTaskType is Approval, waitTime is not allowed" => {
            both([json!([ask]), json!([])], [json!([{"type": "Approval", "waitTime": "1m"}])])
        }
        "AfterStageTaskType is TimedWait, waitTime is required" => {
            both([json!([wait, ask]), json!([ask])], [json!([ask, {"type": "TimedWait"}])])
        }
        "BeforeStageTaskType cannot be TimedWait" => {
            both([json!([ask]), json!([])], [json!([wait]), json!([{"type": "TimedWait"}])])
        }
        "value must be empty when operator is Exists" => {
            both(tolerations, [json!([{"operator": "Exists", "value": "v"}])])
        }
        "operator must be Exists when key is empty" => {
            both(tolerations, [json!([{"operator": "Equal"}]), json!([{"key": "", "value": "v"}])])
        }
        _ => return None,
    })
}

fn amounts(message: &str) -> Option<Sides> {
    Some(match message {
        "maxConcurrency must be at least 1" => {
            both([json!(1), json!("50%"), json!("100%")], [json!(0), json!(-3)])
        }
        "If supplied value is String should match regex '^(100|[0-9]{1,2})%$' or If supplied value is Integer must be greater than or equal to 0" => {
            both(
                [json!(0), json!("100%"), json!("5%")],
                [json!(-1), json!("101%"), json!("five"), json!("")],
            )
        }
        "Both MaxUnavailable and MinAvailable cannot be specified" => both(
            [json!({"maxUnavailable": 1}), json!({"minAvailable": "5%"}), json!({})],
            [json!({"maxUnavailable": 1, "minAvailable": 1})],
        ),
        _ => return None,
    })
}

fn names(message: &str) -> Option<Sides> {
    let named = |length: usize| json!({"metadata": {"name": "n".repeat(length)}});
    Some(match message {
        "metadata.name max length is 63" => both([named(63)], [named(64), named(253)]),
        "metadata.name max length is 127" => both([named(127)], [named(128), named(253)]),
        _ => return None,
    })
}

fn unchanging(message: &str, base: &Value) -> Option<Sides> {
    let state = |from: &str, to: &str| (json!({"state": from}), json!({"state": to}));
    let moves = |accepted: [(Value, Value); 2], rejected| changes(accepted, [rejected]);
    let same = || (json!({}), json!({}));
    Some(match message {
        "The spec field is immutable"
        | "stagedRolloutStrategyName is immutable"
        | "resourceSnapshotIndex is immutable"
        | "placementName is immutable"
        | "The PlacementName field is immutable"
        | "The ClusterName field is immutable"
        | "ClusterManager is immutable" => {
            changes([(base.clone(), base.clone())], [(base.clone(), another(base))])
        }
        "invalid state transition: cannot transition from Stop to Initialize" => {
            moves([same(), state("Stop", "Run")], state("Stop", "Initialize"))
        }
        "invalid state transition: cannot transition from Run to Initialize" => {
            moves([same(), state("Run", "Stop")], state("Run", "Initialize"))
        }
        "invalid state transition: cannot transition from Initialize to Stop" => {
            moves([same(), state("Initialize", "Run")], state("Initialize", "Stop"))
        }
        "The placement field is immutable" => {
            let refers = |name: &str| json!({"placement": {"name": name}});
            let to_none = || json!({"placement": null});
            changes(
                [(refers("a"), refers("a")), (to_none(), to_none())],
                [(refers("a"), refers("b")), (refers("a"), to_none()), (to_none(), refers("a"))],
            )
        }
        "cannot change rollout strategy type from 'External' to other types" => {
            let (own, external) = (|| json!("RollingUpdate"), || json!("External"));
            changes([(own(), external()), (external(), external())], [(external(), own())])
        }
        _ => return None,
    })
}

/// The value with its first text changed.
fn another(value: &Value) -> Value {
    match value {
        Value::String(_) => json!("another"),
        Value::Object(map) => {
            let mut map = map.clone();
            let inner = map.values_mut().find(|inner| another(inner) != **inner).unwrap();
            *inner = another(inner);
            map.into()
        }
        other => other.clone(),
    }
}

fn placements(message: &str) -> Option<Sides> {
    let scoped = |scope: &str| json!({"spec": {"placement": {"name": "a", "scope": scope}}});
    let accessible = |selectors: Vec<Value>| json!({"statusReportingScope": "NamespaceAccessible", "resourceSelectors": selectors});
    let visible = || accessible(vec![namespace(json!({"name": "a"}))]);
    let quiet = || json!({"statusReportingScope": "ClusterScopeOnly"});
    Some(match message {
        "clusterResourceOverride placement reference cannot be Namespaced scope" => both(
            [scoped("Cluster"), json!({"spec": {"placement": {"name": "a"}}}), json!({})],
            [scoped("Namespaced")],
        ),
        "when reportBackStrategy.type is 'Mirror', a destination must be specified" => both(
            [
                json!({"type": "Mirror", "destination": "OriginalResource"}),
                json!({"type": "Disabled"}),
            ],
            [json!({"type": "Mirror"})],
        ),
        "policy cannot be removed once set" => {
            let (with, without) = (|| json!({"policy": {}}), || json!({"policy": null}));
            changes([(without(), with()), (with(), with())], [(with(), without())])
        }
        "statusReportingScope is immutable" => changes(
            [(visible(), visible()), (quiet(), quiet()), (json!({}), quiet())],
            [(visible(), quiet()), (quiet(), visible())],
        ),
        "when statusReportingScope is NamespaceAccessible, exactly one resourceSelector with kind 'Namespace' is required" =>
        {
            let map = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
            let two = vec![namespace(json!({"name": "a"})), namespace(json!({"name": "b"}))];
            both([visible(), quiet()], [accessible(vec![map]), accessible(two)])
        }
        _ => return None,
    })
}

fn policies(message: &str) -> Option<Sides> {
    let pick = |kind: &str, extra: Value| over(&json!({"placementType": kind}), &extra);
    Some(match message {
        "placement type is immutable" => {
            let (all, fixed) = (
                || pick("PickAll", json!({})),
                || pick("PickFixed", json!({"clusterNames": ["a"]})),
            );
            changes([(all(), all()), (fixed(), fixed())], [(all(), fixed())])
        }
        "clusterNames cannot be set and numberOfClusters must be set when placementType is PickN" => {
            both(
                [pick("PickN", json!({"numberOfClusters": 2})), pick("PickAll", json!({}))],
                [
                    pick("PickN", json!({})),
                    pick("PickN", json!({"numberOfClusters": 1, "clusterNames": ["a"]})),
                ],
            )
        }
        "affinity, numberOfClusters, topologySpreadConstraints, and tolerations cannot be set when placementType is PickFixed" => {
            both(
                [pick("PickFixed", json!({"clusterNames": ["a"]}))],
                [
                    pick("PickFixed", json!({"affinity": {}})),
                    pick("PickFixed", json!({"numberOfClusters": 1})),
                    pick("PickFixed", json!({"topologySpreadConstraints": [{"topologyKey": "k"}]})),
                    pick("PickFixed", json!({"tolerations": []})),
                ],
            )
        }
        "clusterNames, numberOfClusters, and topologySpreadConstraints cannot be set when placementType is PickAll" => {
            both(
                [pick("PickAll", json!({"affinity": {}}))],
                [
                    pick("PickAll", json!({"clusterNames": ["a"]})),
                    pick("PickAll", json!({"numberOfClusters": 1})),
                    json!({"topologySpreadConstraints": [{"topologyKey": "k"}]}),
                ],
            )
        }
        _ => return None,
    })
}

const ONE_SCOPED: &str =
    "only one namespace selector with NamespaceWithResourceSelectors mode is allowed";
const BY_NAME: &str = "namespace selector with NamespaceWithResourceSelectors mode must select by name (not by label)";
const UNMIXED: &str = "when using NamespaceWithResourceSelectors mode, only one namespace selector is allowed (cannot mix with other namespace selectors)";

fn selectors(message: &str) -> Option<Sides> {
    let with = |selectors: Vec<Value>| json!({"resourceSelectors": selectors});
    let scoped = |extra: Value| {
        over(&namespace(json!({"selectionScope": "NamespaceWithResourceSelectors"})), &extra)
    };
    let named = |name: &str| scoped(json!({"name": name}));
    let plain = |name: &str| namespace(json!({"name": name}));
    Some(match message {
        "name and labelSelector are mutually exclusive in a resource selector" => {
            let selector = |extra: Value| json!([namespace(extra)]);
            both(
                [
                    selector(json!({"name": "a"})),
                    selector(json!({"labelSelector": {}})),
                    selector(json!({"name": "", "labelSelector": {}})),
                ],
                [selector(json!({"name": "a", "labelSelector": {}}))],
            )
        }
        ONE_SCOPED => Sides {
            accepted: vec![new(with(vec![named("a")]))],
            rejected: vec![Try {
                also: &[BY_NAME, UNMIXED],
                ..new(with(vec![named("a"), named("b")]))
            }],
        },
        BY_NAME => both(
            [with(vec![named("a")]), with(vec![plain("a")])],
            [with(vec![scoped(json!({}))]), with(vec![scoped(json!({"labelSelector": {}}))])],
        ),
        UNMIXED => both(
            [with(vec![named("a")]), with(vec![plain("a"), plain("b")])],
            [with(vec![named("a"), plain("b")])],
        ),
        _ => return None,
    })
}

fn namespace(extra: Value) -> Value {
    over(&json!({"group": "", "version": "v1", "kind": "Namespace"}), &extra)
}

/// Lays one value over another, as a merge patch does.
pub fn over(base: &Value, top: &Value) -> Value {
    let (Value::Object(base), Value::Object(top)) = (base, top) else { return top.clone() };
    let mut merged = base.clone();
    for (key, value) in top {
        match value {
            Value::Null => merged.remove(key),
            _ => {
                let below = merged.get(key).cloned().unwrap_or(Value::Null);
                merged.insert(key.clone(), over(&below, value))
            }
        };
    }
    merged.into()
}
