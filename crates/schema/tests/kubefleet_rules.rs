//! Every distinct validation rule of KubeFleet's resources, with objects on both sides of it.
//!
//! The rules are written as they stand in the resources; the schemas around them are cut down
//! to the fields that a rule reads.

#![allow(clippy::needless_pass_by_value, reason = "tables read better without references")]

use flagship_schema::Compiled;
use serde_json::{Value, json};

/// An object, and what it was before.
type State = (Value, Option<Value>);

/// One rule at `spec.f`, or at the root where it reads the whole object.
struct Case {
    rule: &'static str,
    says: &'static str,
    /// Schema of the place where the rule stands, without the rule.
    schema: Value,
    at_root: bool,
    accepted: Vec<State>,
    rejected: Vec<State>,
}

fn new(value: Value) -> State {
    (value, None)
}

fn change(old: Value, new: Value) -> State {
    (new, Some(old))
}

fn text() -> Value {
    json!({"type": "string"})
}

fn object(fields: Value) -> Value {
    json!({"type": "object", "properties": fields})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn check(case: Case) {
    let Case { rule, says, mut schema, at_root, accepted, rejected } = case;
    schema["x-kubernetes-validations"] = json!([{"rule": rule, "message": says}]);
    let kind = schema["type"].as_str().unwrap_or("").to_owned();
    let (schema, path) = if at_root {
        (schema, "<nil>")
    } else {
        (object(json!({"spec": object(json!({"f": schema}))})), "spec.f")
    };
    let compiled = Compiled::from_crd_version(&schema).unwrap_or_else(|e| panic!("{rule}: {e:?}"));
    assert!(compiled.warnings().is_empty(), "{rule}: {:?}", compiled.warnings());
    let wrap = |value: Value| if at_root { value } else { json!({"spec": {"f": value}}) };
    let verdict = |(value, old): State| {
        let errors = compiled.validate(&wrap(value), old.map(wrap).as_ref());
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    for state in accepted {
        assert_eq!(verdict(state.clone()), [""; 0], "{rule} should accept {state:?}");
    }
    let expected = format!("{path}: Invalid value: {kind:?}: {says}");
    for state in rejected {
        assert_eq!(verdict(state.clone()), [expected.as_str()], "{rule} should reject {state:?}");
    }
}

fn tasks() -> Value {
    list(object(json!({"type": text(), "waitTime": text()})))
}

#[test]
fn tasks_of_a_stage_wait_or_ask_but_not_both() {
    check(Case {
        rule: "!self.exists(e, e.type == 'Approval' && has(e.waitTime))",
        says: "AfterStageTaskType is Approval, waitTime is not allowed",
        schema: tasks(),
        at_root: false,
        accepted: vec![
            new(json!([{"type": "Approval"}, {"type": "TimedWait", "waitTime": "1m"}])),
            new(json!([])),
        ],
        rejected: vec![new(
            json!([{"type": "TimedWait", "waitTime": "1h"}, {"type": "Approval", "waitTime": "1m"}]),
        )],
    });
    check(Case {
        rule: "!self.exists(e, e.type == 'TimedWait' && !has(e.waitTime))",
        says: "AfterStageTaskType is TimedWait, waitTime is required",
        schema: tasks(),
        at_root: false,
        accepted: vec![
            new(json!([{"type": "TimedWait", "waitTime": "1m"}])),
            new(json!([{"type": "Approval"}])),
        ],
        rejected: vec![new(json!([{"type": "TimedWait"}]))],
    });
    check(Case {
        rule: "!self.exists(e, e.type == 'TimedWait')",
        says: "BeforeStageTaskType cannot be TimedWait",
        schema: tasks(),
        at_root: false,
        accepted: vec![new(json!([{"type": "Approval"}]))],
        rejected: vec![new(json!([{"type": "TimedWait"}]))],
    });
}

#[test]
fn amounts_may_be_numbers_or_percentages() {
    let int_or_string = || json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]});
    check(Case {
        rule: "self == null || type(self) != int || self >= 1",
        says: "maxConcurrency must be at least 1",
        schema: int_or_string(),
        at_root: false,
        accepted: vec![new(json!(1)), new(json!("50%")), new(json!(99))],
        rejected: vec![new(json!(0)), new(json!(-3))],
    });
    check(Case {
        rule: "type(self) == string ? self.matches('^(100|[0-9]{1,2})%$') : self >= 0",
        says: "If supplied value is String should match regex '^(100|[0-9]{1,2})%$' or If supplied value is Integer must be greater than or equal to 0",
        schema: int_or_string(),
        at_root: false,
        accepted: vec![new(json!(0)), new(json!("100%")), new(json!("5%"))],
        rejected: vec![new(json!(-1)), new(json!("101%")), new(json!("five"))],
    });
    check(Case {
        rule: "!(has(self.maxUnavailable) && has(self.minAvailable))",
        says: "Both MaxUnavailable and MinAvailable cannot be specified",
        schema: object(json!({"maxUnavailable": int_or_string(), "minAvailable": int_or_string()})),
        at_root: false,
        accepted: vec![
            new(json!({"maxUnavailable": 1})),
            new(json!({"minAvailable": "5%"})),
            new(json!({})),
        ],
        rejected: vec![new(json!({"maxUnavailable": 1, "minAvailable": 1}))],
    });
}

#[test]
fn tolerations_agree_with_their_operator() {
    let schema = || list(object(json!({"key": text(), "operator": text(), "value": text()})));
    check(Case {
        rule: "self.all(x, x.operator != 'Exists' || !has(x.value) || size(x.value) == 0)",
        says: "value must be empty when operator is Exists",
        schema: schema(),
        at_root: false,
        accepted: vec![new(
            json!([{"operator": "Exists"}, {"operator": "Exists", "value": ""}, {"operator": "Equal", "value": "x"}]),
        )],
        rejected: vec![new(json!([{"operator": "Exists", "value": "x"}]))],
    });
    check(Case {
        rule: "self.all(x, (has(x.key) && size(x.key) > 0) || x.operator == 'Exists')",
        says: "operator must be Exists when key is empty",
        schema: schema(),
        at_root: false,
        accepted: vec![new(json!([{"key": "k", "operator": "Equal"}, {"operator": "Exists"}]))],
        rejected: vec![
            new(json!([{"operator": "Equal"}])),
            new(json!([{"key": "", "operator": "Equal"}])),
        ],
    });
}

#[test]
fn names_are_short_enough_for_labels() {
    let named = |length: usize| json!({"metadata": {"name": "n".repeat(length)}});
    let schema = || object(json!({"metadata": {"type": "object"}, "spec": {"type": "object"}}));
    check(Case {
        rule: "size(self.metadata.name) < 64",
        says: "metadata.name max length is 63",
        schema: schema(),
        at_root: true,
        accepted: vec![new(named(63))],
        rejected: vec![new(named(64))],
    });
    check(Case {
        rule: "size(self.metadata.name) < 128",
        says: "metadata.name max length is 127",
        schema: schema(),
        at_root: true,
        accepted: vec![new(named(127))],
        rejected: vec![new(named(128))],
    });
}

#[test]
fn what_is_immutable_does_not_change() {
    for says in [
        "The spec field is immutable",
        "stagedRolloutStrategyName is immutable",
        "resourceSnapshotIndex is immutable",
        "placementName is immutable",
        "The PlacementName field is immutable",
        "The ClusterName field is immutable",
        "ClusterManager is immutable",
    ] {
        check(Case {
            rule: "self == oldSelf",
            says,
            schema: text(),
            at_root: false,
            accepted: vec![new(json!("a")), change(json!("a"), json!("a"))],
            rejected: vec![change(json!("a"), json!("b"))],
        });
    }
    check(Case {
        rule: "self == oldSelf",
        says: "The spec field is immutable",
        schema: object(json!({"n": {"type": "integer"}, "list": list(text())})),
        at_root: false,
        accepted: vec![change(json!({"n": 1, "list": ["a"]}), json!({"n": 1, "list": ["a"]}))],
        rejected: vec![
            change(json!({"n": 1}), json!({"n": 2})),
            change(json!({"n": 1}), json!({})),
            change(json!({"list": ["a", "b"]}), json!({"list": ["b", "a"]})),
        ],
    });
    let reference = || object(json!({"placement": object(json!({"name": text()}))}));
    let refers = |name: &str| json!({"placement": {"name": name}});
    check(Case {
        rule: "(has(oldSelf.placement) && has(self.placement) && oldSelf.placement == self.placement) || (!has(oldSelf.placement) && !has(self.placement))",
        says: "The placement field is immutable",
        schema: reference(),
        at_root: false,
        accepted: vec![
            new(refers("a")),
            change(refers("a"), refers("a")),
            change(json!({}), json!({})),
        ],
        rejected: vec![
            change(refers("a"), refers("b")),
            change(refers("a"), json!({})),
            change(json!({}), refers("a")),
        ],
    });
    check(Case {
        rule: "!has(oldSelf.statusReportingScope) || self.statusReportingScope == oldSelf.statusReportingScope",
        says: "statusReportingScope is immutable",
        schema: object(json!({"statusReportingScope": text()})),
        at_root: false,
        accepted: vec![
            change(json!({}), json!({"statusReportingScope": "A"})),
            change(json!({"statusReportingScope": "A"}), json!({"statusReportingScope": "A"})),
        ],
        rejected: vec![change(
            json!({"statusReportingScope": "A"}),
            json!({"statusReportingScope": "B"}),
        )],
    });
    check(Case {
        rule: "!(self.placementType != oldSelf.placementType)",
        says: "placement type is immutable",
        schema: object(json!({"placementType": text()})),
        at_root: false,
        accepted: vec![change(
            json!({"placementType": "PickN"}),
            json!({"placementType": "PickN"}),
        )],
        rejected: vec![change(
            json!({"placementType": "PickN"}),
            json!({"placementType": "PickAll"}),
        )],
    });
    check(Case {
        rule: "!(self != 'External' && oldSelf == 'External')",
        says: "cannot change rollout strategy type from 'External' to other types",
        schema: text(),
        at_root: false,
        accepted: vec![
            change(json!("RollingUpdate"), json!("External")),
            change(json!("External"), json!("External")),
        ],
        rejected: vec![change(json!("External"), json!("RollingUpdate"))],
    });
    check(Case {
        rule: "!(has(oldSelf.policy) && !has(self.policy))",
        says: "policy cannot be removed once set",
        schema: object(json!({"policy": {"type": "object"}})),
        at_root: false,
        accepted: vec![
            change(json!({}), json!({"policy": {}})),
            change(json!({"policy": {}}), json!({"policy": {}})),
        ],
        rejected: vec![change(json!({"policy": {}}), json!({}))],
    });
}

#[test]
fn a_run_moves_only_forward() {
    for (rule, says, from, to) in [
        (
            "!(has(oldSelf.state) && oldSelf.state == 'Stop' && self.state == 'Initialize')",
            "invalid state transition: cannot transition from Stop to Initialize",
            "Stop",
            "Initialize",
        ),
        (
            "!(has(oldSelf.state) && oldSelf.state == 'Run' && self.state == 'Initialize')",
            "invalid state transition: cannot transition from Run to Initialize",
            "Run",
            "Initialize",
        ),
        (
            "!(has(oldSelf.state) && oldSelf.state == 'Initialize' && self.state == 'Stop')",
            "invalid state transition: cannot transition from Initialize to Stop",
            "Initialize",
            "Stop",
        ),
    ] {
        let state = |s: &str| json!({"state": s});
        check(Case {
            rule,
            says,
            schema: object(json!({"state": text()})),
            at_root: false,
            accepted: vec![
                new(state(to)),
                change(json!({}), state(to)),
                change(state(to), state(from)),
                change(state("Run"), state("Stop")),
            ],
            rejected: vec![change(state(from), state(to))],
        });
    }
}

#[test]
fn a_policy_sets_only_what_its_type_uses() {
    let schema = || {
        object(json!({
            "placementType": text(), "clusterNames": list(text()), "numberOfClusters": {"type": "integer"},
            "affinity": {"type": "object"}, "topologySpreadConstraints": list(json!({"type": "object"})),
            "tolerations": list(json!({"type": "object"})),
        }))
    };
    check(Case {
        rule: "self.placementType != 'PickN' || (!has(self.clusterNames) && has(self.numberOfClusters))",
        says: "clusterNames cannot be set and numberOfClusters must be set when placementType is PickN",
        schema: schema(),
        at_root: false,
        accepted: vec![
            new(json!({"placementType": "PickN", "numberOfClusters": 2})),
            new(json!({"placementType": "PickAll"})),
        ],
        rejected: vec![
            new(json!({"placementType": "PickN"})),
            new(json!({"placementType": "PickN", "numberOfClusters": 1, "clusterNames": ["a"]})),
        ],
    });
    check(Case {
        rule: "self.placementType != 'PickFixed' || (!has(self.affinity) && !has(self.numberOfClusters) && !has(self.topologySpreadConstraints) && !has(self.tolerations))",
        says: "affinity, numberOfClusters, topologySpreadConstraints, and tolerations cannot be set when placementType is PickFixed",
        schema: schema(),
        at_root: false,
        accepted: vec![new(json!({"placementType": "PickFixed", "clusterNames": ["a"]}))],
        rejected: vec![
            new(json!({"placementType": "PickFixed", "affinity": {}})),
            new(json!({"placementType": "PickFixed", "tolerations": []})),
        ],
    });
    check(Case {
        rule: "self.placementType != 'PickAll' || (!has(self.clusterNames) && !has(self.numberOfClusters) && !has(self.topologySpreadConstraints))",
        says: "clusterNames, numberOfClusters, and topologySpreadConstraints cannot be set when placementType is PickAll",
        schema: schema(),
        at_root: false,
        accepted: vec![new(json!({"placementType": "PickAll", "affinity": {}}))],
        rejected: vec![new(json!({"placementType": "PickAll", "numberOfClusters": 1}))],
    });
}

fn selectors() -> Value {
    list(object(json!({
        "group": text(), "version": text(), "kind": text(), "name": text(),
        "labelSelector": {"type": "object"}, "selectionScope": text(),
    })))
}

fn namespace(extra: Value) -> Value {
    let mut selector = json!({"group": "", "version": "v1", "kind": "Namespace"});
    for (key, value) in extra.as_object().into_iter().flatten() {
        selector[key] = value.clone();
    }
    selector
}

#[test]
fn resource_selectors_agree_with_each_other() {
    check(Case {
        rule: "self.all(x, !(has(x.name) && size(x.name) > 0 && has(x.labelSelector)))",
        says: "name and labelSelector are mutually exclusive in a resource selector",
        schema: selectors(),
        at_root: false,
        accepted: vec![new(
            json!([{"name": "a"}, {"labelSelector": {}}, {"name": "", "labelSelector": {}}]),
        )],
        rejected: vec![new(json!([{"name": "a", "labelSelector": {}}]))],
    });
    let schema =
        || object(json!({"resourceSelectors": selectors(), "statusReportingScope": text()}));
    let with = |list: Vec<Value>| new(json!({"resourceSelectors": list}));
    let scoped = |extra: Value| {
        let mut selector = namespace(extra);
        selector["selectionScope"] = json!("NamespaceWithResourceSelectors");
        selector
    };
    check(Case {
        rule: r#"size(self.resourceSelectors.filter(x, x.kind == 'Namespace' && x.group == "" && x.version == 'v1' && has(x.selectionScope) && x.selectionScope == 'NamespaceWithResourceSelectors')) == 0 || size(self.resourceSelectors.filter(x, x.kind == 'Namespace' && x.group == "" && x.version == 'v1')) == 1"#,
        says: "when using NamespaceWithResourceSelectors mode, only one namespace selector is allowed (cannot mix with other namespace selectors)",
        schema: schema(),
        at_root: false,
        accepted: vec![
            with(vec![scoped(json!({}))]),
            with(vec![namespace(json!({})), namespace(json!({}))]),
        ],
        rejected: vec![with(vec![scoped(json!({})), namespace(json!({}))])],
    });
    check(Case {
        rule: r#"size(self.resourceSelectors.filter(x, x.kind == 'Namespace' && x.group == "" && x.version == 'v1' && has(x.selectionScope) && x.selectionScope == 'NamespaceWithResourceSelectors')) == 0 || (size(self.resourceSelectors.filter(x, x.kind == 'Namespace' && x.group == "" && x.version == 'v1' && has(x.selectionScope) && x.selectionScope == 'NamespaceWithResourceSelectors' && has(x.name) && size(x.name) > 0 && !has(x.labelSelector))) == 1)"#,
        says: "namespace selector with NamespaceWithResourceSelectors mode must select by name (not by label)",
        schema: schema(),
        at_root: false,
        accepted: vec![with(vec![scoped(json!({"name": "a"}))]), with(vec![namespace(json!({}))])],
        rejected: vec![
            with(vec![scoped(json!({}))]),
            with(vec![scoped(json!({"labelSelector": {}}))]),
        ],
    });
    check(Case {
        rule: r#"size(self.resourceSelectors.filter(x, x.kind == 'Namespace' && x.group == "" && x.version == 'v1' && has(x.selectionScope) && x.selectionScope == 'NamespaceWithResourceSelectors')) <= 1"#,
        says: "only one namespace selector with NamespaceWithResourceSelectors mode is allowed",
        schema: schema(),
        at_root: false,
        accepted: vec![with(vec![scoped(json!({}))]), with(vec![])],
        rejected: vec![with(vec![scoped(json!({})), scoped(json!({}))])],
    });
    check(Case {
        rule: "!(self.statusReportingScope == 'NamespaceAccessible' && size(self.resourceSelectors.filter(x, x.kind == 'Namespace')) != 1)",
        says: "when statusReportingScope is NamespaceAccessible, exactly one resourceSelector with kind 'Namespace' is required",
        schema: schema(),
        at_root: false,
        accepted: vec![
            new(
                json!({"statusReportingScope": "NamespaceAccessible", "resourceSelectors": [namespace(json!({}))]}),
            ),
            new(json!({"statusReportingScope": "ClusterScopeOnly", "resourceSelectors": []})),
        ],
        rejected: vec![new(
            json!({"statusReportingScope": "NamespaceAccessible", "resourceSelectors": []}),
        )],
    });
}

#[test]
fn overrides_and_reports_are_consistent() {
    check(Case {
        rule: "!has(self.spec.placement) || self.spec.placement.scope != 'Namespaced'",
        says: "clusterResourceOverride placement reference cannot be Namespaced scope",
        schema: object(
            json!({"spec": object(json!({"placement": object(json!({"scope": text()}))}))}),
        ),
        at_root: true,
        accepted: vec![
            new(json!({"spec": {}})),
            new(json!({"spec": {"placement": {"scope": "Cluster"}}})),
        ],
        rejected: vec![new(json!({"spec": {"placement": {"scope": "Namespaced"}}}))],
    });
    check(Case {
        rule: "(self == null) || (self.type == 'Mirror' ? size(self.destination) != 0 : true)",
        says: "when reportBackStrategy.type is 'Mirror', a destination must be specified",
        schema: object(json!({"type": text(), "destination": text()})),
        at_root: false,
        accepted: vec![
            new(json!({"type": "Mirror", "destination": "d"})),
            new(json!({"type": "Disabled"})),
        ],
        rejected: vec![new(json!({"type": "Mirror", "destination": ""}))],
    });
}
