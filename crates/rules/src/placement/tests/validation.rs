//! What admission refuses, in which words.

use flagship_api::kinds::Scope;
use serde_json::{Value, json};

use super::fleet::Fixture;
use crate::placement::Placement;
use crate::placement::selection::Kind;
use crate::placement::validation::{Verdict, admit, check};

fn kinds(kind: &Kind) -> Result<Option<Scope>, String> {
    match kind.kind.as_str() {
        "Namespace" | "ClusterRole" => Ok(Some(Scope::Cluster)),
        "ConfigMap" => Ok(Some(Scope::Namespaced)),
        "Fresh" => Ok(None),
        _ => Err(format!(
            "no matches for kind \"{}\" in version \"{}\"",
            kind.kind,
            kind.api_version()
        )),
    }
}

fn crp(spec: Value) -> Placement {
    Fixture::crp(spec).seen.placement
}

fn wrong(spec: Value) -> String {
    check(&crp(spec), Some(&kinds)).expect_err("something is wrong")
}

/// What is wrong with a policy, without the wrapper.
fn policy(policy: Value) -> String {
    let wrong = wrong(json!({"policy": policy}));
    wrong.strip_prefix("the placement policy field is invalid: ").unwrap().to_owned()
}

fn strategy(strategy: Value) -> String {
    let wrong = wrong(json!({"strategy": strategy}));
    wrong.strip_prefix("the rollout Strategy field  is invalid: ").unwrap().to_owned()
}

fn required(expressions: Value) -> String {
    policy(json!({"placementType": "PickAll", "affinity": {"clusterAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [
            {"propertySelector": {"matchExpressions": expressions}}]}}}}))
}

#[test]
fn good_placements_pass() {
    for spec in [
        json!({}),
        json!({"policy": {"placementType": "PickFixed"}}),
        json!({"policy": {"placementType": "PickN", "numberOfClusters": 0}}),
        json!({"strategy": {"type": "External"}}),
        json!({"strategy": {"rollingUpdate": {"maxSurge": "150%", "maxUnavailable": 0}}}),
    ] {
        assert_eq!(check(&crp(spec.clone()), Some(&kinds)), Ok(()), "{spec}");
    }
}

// checklist 20.45
#[test]
fn names_and_selectors() {
    let mut long = crp(json!({}));
    long.name = "x".repeat(64);
    assert_eq!(
        check(&long, Some(&kinds)),
        Err("the name field cannot have length exceeding 63".into())
    );
    let term = |more: Value| {
        let mut term = json!({"group": "", "version": "v1", "kind": "Namespace"});
        term.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"resourceSelectors": [term]})
    };
    assert_eq!(
        wrong(term(json!({"name": "a", "labelSelector": {}}))),
        "the labelSelector and name fields are mutually exclusive in selector {Group: Version:v1 \
         Kind:Namespace Name:a LabelSelector:&LabelSelector{MatchLabels:map[string]string{},\
         MatchExpressions:[]LabelSelectorRequirement{},} SelectionScope:}"
    );
    assert_eq!(
        wrong(term(
            json!({"labelSelector": {"matchExpressions": [{"key": "k", "operator": "Near"}]}})
        )),
        "the labelSelector in resource selector &LabelSelector{MatchLabels:map[string]string{},\
         MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:Near,\
         Values:[],},},} is invalid: \"Near\" is not a valid label selector operator"
    );
    assert_eq!(
        wrong(json!({"policy": {"placementType": "PickN"}, "resourceSelectors": [
            {"group": "x.io", "version": "v1", "kind": "Gadget"}]})),
        "failed to get GVR of the selector: no matches for kind \"Gadget\" in version \"x.io/v1\"",
        "and nothing further is looked at"
    );
}

#[test]
fn each_scope_selects_its_own() {
    let select =
        |kind: &str| json!({"resourceSelectors": [{"group": "", "version": "v1", "kind": kind}]});
    for kind in ["ConfigMap", "Fresh"] {
        assert_eq!(
            wrong(select(kind)),
            format!(
                "the resource is not found in schema (please retry) or it is not a cluster scoped resource: /v1, Kind={kind}"
            )
        );
        let rp = Fixture::rp(select(kind)).seen.placement;
        assert_eq!(check(&rp, Some(&kinds)), Ok(()));
    }
    let rp = Fixture::rp(select("Namespace")).seen.placement;
    assert_eq!(
        check(&rp, Some(&kinds)),
        Err("the resource is not found in schema (please retry) or it is a cluster scoped resource: /v1, Kind=Namespace".into())
    );
    assert_eq!(
        check(&rp, None),
        Err("cannot perform resource scope check for now, please retry".into())
    );
    // A namespace that is reached into allows what is inside.
    let mut inside = select("ConfigMap");
    inside["resourceSelectors"].as_array_mut().unwrap().push(json!({"group": "", "version": "v1",
        "kind": "Namespace", "name": "a", "selectionScope": "NamespaceWithResourceSelectors"}));
    assert_eq!(check(&crp(inside), Some(&kinds)), Ok(()));
}

// checklist 20.45
#[test]
fn policies() {
    let long = "x".repeat(64);
    let rows = [
        (
            json!({"placementType": "PickFixed", "clusterNames": ["a", "a"]}),
            "cluster names must be unique for policy type PickFixed".to_owned(),
        ),
        (
            json!({"placementType": "PickFixed", "clusterNames": [long]}),
            format!("PickFixed cluster name {long} cannot have length exceeding 63"),
        ),
        (
            json!({"placementType": "PickFixed", "numberOfClusters": 1}),
            "number of clusters must be nil for policy type PickFixed, only valid for PickN placement policy type".into(),
        ),
        (
            json!({"placementType": "PickFixed", "affinity": {}}),
            "affinity must be nil for policy type PickFixed, only valid for PickAll/PickN placement policy types".into(),
        ),
        (
            json!({"placementType": "PickFixed", "topologySpreadConstraints": [{"topologyKey": "k"}]}),
            "topology spread constraints needs to be empty for policy type PickFixed, only valid for PickN policy type".into(),
        ),
        (
            json!({"placementType": "PickFixed", "tolerations": [{"operator": "Exists"}]}),
            "tolerations needs to be empty for policy type PickFixed, only valid for PickAll/PickN".into(),
        ),
        (
            json!({"placementType": "PickAll", "clusterNames": ["a"], "numberOfClusters": 1}),
            "[cluster names needs to be empty for policy type PickAll, only valid for PickFixed policy type, \
             number of clusters must be nil for policy type PickAll, only valid for PickN placement policy type]".into(),
        ),
        (
            json!({"placementType": "PickAll", "topologySpreadConstraints": [{"topologyKey": "k"}]}),
            "topology spread constraints needs to be empty for policy type PickAll, only valid for PickN policy type".into(),
        ),
        (
            json!({"placementType": "PickAll", "affinity": {"clusterAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}}}),
            "PreferredDuringSchedulingIgnoredDuringExecution will be ignored for placement policy type PickAll".into(),
        ),
        (
            json!({"placementType": "PickN"}),
            "number of cluster cannot be nil for policy type PickN".into(),
        ),
        (
            json!({"placementType": "PickN", "numberOfClusters": -1, "clusterNames": ["a"]}),
            "[cluster names needs to be empty for policy type PickN, only valid for PickFixed policy type, \
             number of clusters cannot be -1 for policy type PickN]".into(),
        ),
        (
            json!({"placementType": "PickAll", "affinity": {"clusterAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [
                    {"propertySorter": {"name": "n", "sortOrder": "Ascending"}}]}}}}),
            "PropertySorter is not allowed for RequiredDuringSchedulingIgnoredDuringExecution affinity".into(),
        ),
        (
            json!({"placementType": "PickN", "numberOfClusters": 1, "affinity": {"clusterAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"propertySelector": {"matchExpressions": []}}}]}}}),
            "PropertySelector is not allowed for PreferredDuringSchedulingIgnoredDuringExecution affinity".into(),
        ),
    ];
    for (given, want) in rows {
        assert_eq!(policy(given.clone()), want, "{given}");
    }
    let bad_name = policy(json!({"placementType": "PickFixed", "clusterNames": ["A"]}));
    assert!(
        bad_name.starts_with("PickFixed cluster name A is not a valid member name: a lowercase RFC 1123 subdomain must"),
        "{bad_name}"
    );
    for (part, parent) in
        [("required", "cluster selector"), ("preferred", "preferred cluster selector")]
    {
        let term = json!({"labelSelector": {"matchExpressions": [{"key": "k", "operator": "In"}]}});
        let affinity = if part == "required" {
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [term]}})
        } else {
            json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]})
        };
        let told = policy(json!({"placementType": "PickN", "numberOfClusters": 1,
            "affinity": {"clusterAffinity": affinity}}));
        assert!(
            told.starts_with(&format!("the labelSelector in {parent} &LabelSelector{{")),
            "{told}"
        );
        assert!(told.ends_with("for 'in', 'notin' operators, values set can't be empty"), "{told}");
    }
}

// checklist 20.45
#[test]
fn property_requirements() {
    let one = |operator: &str, values: Value| json!([{"name": "n", "operator": operator, "values": values}]);
    let rows = [
        (one("Near", json!(["1"])), "invalid requirement on property n: unsupported operator Near"),
        (
            one("Gt", json!([])),
            "invalid requirement on property n: operator Gt requires exactly one value, got 0",
        ),
        (
            one("Eq", json!(["1", "2"])),
            "invalid requirement on property n: operator Eq requires exactly one value, got 2",
        ),
        (
            one("Le", json!(["much"])),
            "invalid requirement on property n: value \"much\" is not a valid resource.Quantity: \
             quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ];
    for (expressions, want) in rows {
        assert_eq!(required(expressions), want);
    }
}

// checklist 20.45
#[test]
fn requirements_that_exclude_each_other() {
    let all = |bounds: &str| {
        let bounds = bounds.split_whitespace().map(|b| b.split_at(2));
        bounds
            .map(|(op, value)| json!({"name": "n", "operator": op, "values": [value]}))
            .collect::<Value>()
    };
    for (bounds, want) in [
        ("Eq5 Eq10", "conflicting Eq values 5 and 10"),
        ("Eq5 Ne5", "conflicting Eq and Ne on same value 5"),
        ("Gt10 Lt5", "lower bound (10) and upper bound (5) exclude all values"),
        ("Gt5 Le5", "lower bound (5) and upper bound (5) exclude all values"),
        ("Ge5 Lt5", "lower bound (5) and upper bound (5) exclude all values"),
        ("Ge1 Ge9 Le20 Le8", "lower bound (9) and upper bound (8) exclude all values"),
        ("Eq5 Gt5", "eq value 5 violates lower bound 5"),
        ("Eq5 Ge6", "eq value 5 violates lower bound 6"),
        ("Eq5 Lt5", "eq value 5 violates upper bound 5"),
        ("Eq5 Le4", "eq value 5 violates upper bound 4"),
    ] {
        assert_eq!(
            required(all(bounds)),
            format!("inconsistent requirements on property n: {want}")
        );
    }
    for bounds in ["Eq5 Eq5000m", "Ge5 Le5", "Eq5 Ge5 Le5 Ne6", "Gt1 Lt2", "Ne1 Ne1"] {
        let spec = json!({"policy": {"placementType": "PickAll", "affinity": {"clusterAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [
                {"propertySelector": {"matchExpressions": all(bounds)}}]}}}}});
        assert_eq!(check(&crp(spec), Some(&kinds)), Ok(()), "{bounds}");
    }
}

// checklist 20.45
#[test]
fn property_names() {
    let told = |name: &str| required(json!([{"name": name, "operator": "Eq", "values": ["1"]}]));
    let resource = "resources.kubernetes-fleet.io";
    assert_eq!(
        told(&format!("{resource}/cpu")),
        format!(
            "invalid property name {resource}/cpu: invalid resource property name {resource}/cpu, \
             expected format is [PREFIX]/[CAPACITY_TYPE]-[RESOURCE_NAME]"
        )
    );
    assert_eq!(
        told(&format!("{resource}/free-cpu")),
        format!(
            "invalid property name {resource}/free-cpu: invalid capacity type in resource property \
             name {resource}/free-cpu, supported values are [allocatable available total]"
        )
    );
    for (name, start) in [
        ("n!", "property name n! is not valid: name part must consist of"),
        ("a/b!", "property name segment b! is not valid: name part must consist of"),
        ("a/b//c", "property name segment  is not valid: name part must be non-empty"),
        (
            "-A/b",
            "property name first segment -A is not valid: it is neither a valid DNS subdomain (a lowercase",
        ),
    ] {
        let told = told(name);
        let want = format!("invalid property name {name}: {start}");
        assert!(told.starts_with(&want), "{told}");
    }
    // Where clusters are ranked, the name's problem stands alone.
    let sorter = policy(json!({"placementType": "PickN", "numberOfClusters": 1, "affinity": {
        "clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1,
            "preference": {"propertySorter": {"name": "n!", "sortOrder": "Ascending"}}}]}}}));
    assert!(sorter.starts_with("property name n! is not valid: "), "{sorter}");
}

// checklist 20.45
#[test]
fn tolerations() {
    let told = |toleration: Value| {
        policy(json!({"placementType": "PickAll", "tolerations": [toleration]}))
    };
    assert_eq!(
        told(json!({"key": "k", "operator": "Exists", "value": "v"})),
        "invalid toleration {Key:k Operator:Exists Value:v Effect:}: toleration value needs to be \
         empty, when operator is Exists"
    );
    assert_eq!(
        told(json!({"operator": "Equal", "value": "v", "effect": "NoSchedule"})),
        "invalid toleration {Key: Operator:Equal Value:v Effect:NoSchedule}: toleration key cannot \
         be empty, when operator is Equal"
    );
    assert!(told(json!({"key": "k!", "operator": "Exists"})).starts_with(
        "invalid toleration key {Key:k! Operator:Exists Value: Effect:}: name part must consist of"
    ));
    assert!(told(json!({"key": "k", "operator": "Equal", "value": "v!"})).starts_with(
        "invalid toleration value {Key:k Operator:Equal Value:v! Effect:}: a valid label must be"
    ));
    let twice = json!({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"});
    assert_eq!(
        policy(
            json!({"placementType": "PickN", "numberOfClusters": 1, "tolerations": [twice, twice]})
        ),
        "toleration {Key:k Operator:Equal Value:v Effect:NoSchedule} already exists, tolerations \
         must be unique"
    );
}

// checklist 20.45
#[test]
fn strategies() {
    let rows = [
        (
            json!({"type": "External", "rollingUpdate": {}}),
            "rollingUpdateConifg is not valid for ExternalRollout strategy type",
        ),
        (
            json!({"rollingUpdate": {"unavailablePeriodSeconds": -1}}),
            "unavailablePeriodSeconds must be greater than or equal to 0, got -1",
        ),
        (
            json!({"rollingUpdate": {"maxUnavailable": "x%"}}),
            "maxUnavailable `x%` is invalid: invalid value for IntOrString: invalid value \"x%\": \
             strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            json!({"rollingUpdate": {"maxSurge": "3"}}),
            "maxSurge `3` is invalid: invalid value for IntOrString: invalid type: string is not a percentage",
        ),
        (
            json!({"rollingUpdate": {"maxUnavailable": -10}}),
            "maxUnavailable must be greater than or equal to 0, got `-10`",
        ),
        (
            json!({"rollingUpdate": {"maxSurge": "-10%"}}),
            "maxSurge must be greater than or equal to 0, got `-10%`",
        ),
        (
            json!({"applyStrategy": {"type": "ClientSideApply", "serverSideApplyConfig": {}}}),
            "serverSideApplyConfig is only valid for ServerSideApply strategy type",
        ),
    ];
    for (given, want) in rows {
        assert_eq!(strategy(given), want);
    }
}

#[test]
fn several_mistakes_are_told_together() {
    assert_eq!(
        wrong(json!({"policy": {"placementType": "PickN"},
            "strategy": {"type": "External", "rollingUpdate": {"maxSurge": -1}}})),
        "[the placement policy field is invalid: number of cluster cannot be nil for policy type \
         PickN, the rollout Strategy field  is invalid: [rollingUpdateConifg is not valid for \
         ExternalRollout strategy type, maxSurge must be greater than or equal to 0, got `-1`]]"
    );
}

// checklist 20.45
#[test]
fn creation_and_update() {
    let allowed = |text: &str| Verdict::Allowed(text.to_owned());
    let denied = |text: &str| Verdict::Denied(text.to_owned());
    let pick = |kind: &str| json!({"placementType": kind, "numberOfClusters": 1});
    let good = crp(json!({}));
    assert_eq!(
        admit(None, &good, Some(&kinds)),
        allowed("any user is allowed to modify v1beta1 CRP")
    );
    let rp = Fixture::rp(
        json!({"resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap"}]}),
    );
    assert_eq!(
        admit(None, &rp.seen.placement, Some(&kinds)),
        allowed("any user is allowed to modify v1beta1 RP")
    );
    let bad = crp(json!({"policy": {"placementType": "PickN"}}));
    let why = "the placement policy field is invalid: number of cluster cannot be nil for policy type PickN";
    assert_eq!(
        admit(None, &bad, Some(&kinds)),
        denied(&format!("deny create/update v1beta1 CRP has invalid fields {why}"))
    );
    // The old object is looked at first.
    assert_eq!(
        admit(Some(&bad), &good, Some(&kinds)),
        denied(&format!(
            "deny update on old invalid v1beta1 CRP with DeletionTimestamp not set {why}"
        ))
    );
    let mut going = bad.clone();
    going.deleting = true;
    assert_eq!(
        admit(Some(&bad), &going, Some(&kinds)),
        allowed("allow update on old invalid v1beta1 CRP with DeletionTimestamp set")
    );
    // No policy counts as PickAll.
    let all = crp(json!({"policy": {"placementType": "PickAll"}}));
    let some = crp(json!({"policy": pick("PickN")}));
    assert_eq!(
        admit(Some(&good), &all, Some(&kinds)),
        allowed("any user is allowed to modify v1beta1 CRP")
    );
    assert_eq!(admit(Some(&good), &some, Some(&kinds)), denied("placement type is immutable"));
    assert_eq!(admit(Some(&some), &all, Some(&kinds)), denied("placement type is immutable"));
    assert_eq!(admit(Some(&good), &bad, Some(&kinds)), denied("placement type is immutable"));
    // Immutability comes before what else is wrong with the new one.
    assert_eq!(
        admit(Some(&some), &bad, Some(&kinds)),
        denied(&format!("deny create/update v1beta1 CRP has invalid fields {why}"))
    );
}

// checklist 20.45
#[test]
fn tolerations_may_only_be_added() {
    let with = |tolerations: Value| {
        crp(json!({"policy": {"placementType": "PickAll", "tolerations": tolerations}}))
    };
    let (a, b) =
        (json!({"key": "a", "operator": "Exists"}), json!({"key": "b", "operator": "Exists"}));
    let old = with(json!([a]));
    assert!(matches!(admit(Some(&old), &with(json!([b, a])), Some(&kinds)), Verdict::Allowed(_)));
    for new in [json!([]), json!([b]), json!([{"key": "a", "operator": "Equal"}])] {
        assert_eq!(
            admit(Some(&old), &with(new), Some(&kinds)),
            Verdict::Denied(
                "tolerations have been updated/deleted, only additions to tolerations are allowed"
                    .into()
            )
        );
    }
}

/// What admission fills in for a cluster placement, and what a namespaced one keeps.
#[test]
fn defaults_are_filled_in_once() {
    let mut spec = crp(json!({})).spec;
    flagship_api::defaults::complete_placement(&mut spec);
    let once = serde_json::to_value(&spec).unwrap();
    assert_eq!(
        once["strategy"],
        json!({
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%", "unavailablePeriodSeconds": 60},
            "applyStrategy": {"comparisonOption": "PartialComparison", "whenToApply": "Always",
                "type": "ClientSideApply", "whenToTakeOver": "Always"},
        })
    );
    assert_eq!(once["policy"], json!({"placementType": "PickAll"}));
    assert_eq!(once["revisionHistoryLimit"], 10);
    flagship_api::defaults::complete_placement(&mut spec);
    assert_eq!(serde_json::to_value(&spec).unwrap(), once);
}
