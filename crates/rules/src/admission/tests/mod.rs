//! Requests and the words they are answered with.

mod overrides;

use std::collections::BTreeMap;

use flagship_api::kinds::Scope;
use serde_json::{Value, json};

use super::approvals;
use super::{
    Answer, Context, Need, Neighbour, Operation, Options, Request, complete, judge_of, needs,
    review, webhooks,
};
use crate::placement::Placement;
use crate::placement::selection::Kind;

/// A hub that knows a few kinds and placements.
#[derive(Default)]
struct ReviewContext {
    blind: bool,
    placements: BTreeMap<&'static str, Value>,
    exports: Option<Result<Vec<String>, String>>,
    overrides: Vec<Neighbour>,
}

impl Context for ReviewContext {
    fn scope_of(&self, kind: &Kind) -> Option<Result<Option<Scope>, String>> {
        (!self.blind).then(|| match kind.kind.as_str() {
            "Namespace" => Ok(Some(Scope::Cluster)),
            "ConfigMap" => Ok(Some(Scope::Namespaced)),
            _ => Err(format!("no matches for kind \"{}\"", kind.kind)),
        })
    }

    fn placement(&self, name: &str) -> Option<Placement> {
        let spec = self.placements.get(name)?;
        let deleting = spec["deleting"] == true;
        let metadata = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            name: Some(name.to_owned()),
            ..Default::default()
        };
        let spec = json!({"resourceSelectors": [], "policy": spec["policy"]});
        let spec = serde_json::from_value(spec).unwrap();
        Some(Placement { deleting, ..Placement::read(&metadata, &spec, &Default::default()) })
    }

    fn exports(&self, _: &str) -> Result<Vec<String>, String> {
        self.exports.clone().unwrap_or_else(|| Ok(Vec::new()))
    }

    fn overrides(&self) -> Vec<Neighbour> {
        self.overrides.clone()
    }
}

fn kind(group: &str, kind: &str) -> Kind {
    let version = if group.ends_with("kubernetes-fleet.io") { "v1beta1" } else { "v1" };
    Kind::new(group, version, kind)
}

const PLACING: &str = "placement.kubernetes-fleet.io";
const JOINING: &str = "cluster.kubernetes-fleet.io";

fn ask(operation: Operation, of: &Kind, object: &Value, old: Option<&Value>) -> Request<'static> {
    // Leaked, so that tables stay readable.
    let object: &'static Value = Box::leak(Box::new(object.clone()));
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    Request {
        operation,
        kind: Box::leak(Box::new(of.clone())),
        subresource: "",
        namespace: text("namespace"),
        name: text("name"),
        object,
        old: old.map(|old| &*Box::leak(Box::new(old.clone()))),
    }
}

fn created(of: &Kind, object: Value, context: &ReviewContext) -> Option<Answer> {
    review(&ask(Operation::Create, of, &object, None), context, Options::default())
}

fn placement(of: &str, space: &str, selects: &str) -> Value {
    let mut object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": of,
        "metadata": {"name": "web"},
        "spec": {"resourceSelectors": [{"group": "", "version": "v1", "kind": selects}]}});
    if !space.is_empty() {
        object["metadata"]["namespace"] = json!(space);
    }
    object
}

// checklist 20.45
#[test]
fn placements_of_both_scopes_are_judged_by_their_own_rules() {
    let context = ReviewContext::default();
    let (crp, rp) = (kind(PLACING, "ClusterResourcePlacement"), kind(PLACING, "ResourcePlacement"));
    let wide = |selects: &str| created(&crp, placement(&crp.kind, "", selects), &context);
    let narrow = |selects: &str| created(&rp, placement(&rp.kind, "app", selects), &context);
    let allowed =
        |tag: &str| Some(Answer::Allowed(format!("any user is allowed to modify v1beta1 {tag}")));
    assert_eq!(wide("Namespace"), allowed("CRP"));
    assert_eq!(narrow("ConfigMap"), allowed("RP"));
    let denied = |tag: &str, why: &str| {
        Some(Answer::Denied(format!("deny create/update v1beta1 {tag} has invalid fields {why}")))
    };
    assert_eq!(
        wide("ConfigMap"),
        denied(
            "CRP",
            "the resource is not found in schema (please retry) or it is not a cluster scoped resource: /v1, Kind=ConfigMap"
        )
    );
    assert_eq!(
        narrow("Namespace"),
        denied(
            "RP",
            "the resource is not found in schema (please retry) or it is a cluster scoped resource: /v1, Kind=Namespace"
        )
    );
    assert_eq!(
        wide("Planet"),
        denied("CRP", "failed to get GVR of the selector: no matches for kind \"Planet\"")
    );
    let blind = ReviewContext { blind: true, ..ReviewContext::default() };
    assert_eq!(
        created(&crp, placement(&crp.kind, "", "Namespace"), &blind),
        denied("CRP", "cannot perform resource scope check for now, please retry")
    );
    // Deletions and statuses are nobody's business, nonsense is.
    let object = placement(&crp.kind, "", "ConfigMap");
    let request = ask(Operation::Delete, &crp, &object, None);
    assert_eq!(review(&request, &context, Options::default()), None);
    let request = Request { subresource: "status", operation: Operation::Update, ..request };
    assert_eq!(review(&request, &context, Options::default()), None);
    let nonsense = created(&crp, json!({"metadata": {"name": "web"}, "spec": 7}), &context);
    assert_eq!(nonsense.map(|answer| answer.code()), Some(400));
}

#[test]
fn updates_are_held_against_what_was_there() {
    let of = kind(PLACING, "ClusterResourcePlacement");
    let mut old = placement(&of.kind, "", "Namespace");
    old["spec"]["policy"] = json!({"placementType": "PickN", "numberOfClusters": 1});
    let mut new = old.clone();
    new["spec"]["policy"] = json!({"placementType": "PickAll"});
    let request = ask(Operation::Update, &of, &new, Some(&old));
    assert_eq!(
        review(&request, &ReviewContext::default(), Options::default()),
        Some(Answer::Denied("placement type is immutable".to_owned()))
    );
}

#[test]
fn what_a_sender_left_out_is_filled_in_once() {
    let of = kind(PLACING, "ClusterResourcePlacement");
    let object = placement(&of.kind, "", "Namespace");
    let filled = complete(&ask(Operation::Create, &of, &object, None)).unwrap();
    assert_eq!(filled["spec"]["policy"]["placementType"], "PickAll");
    assert_eq!(filled["spec"]["revisionHistoryLimit"], 10);
    assert_eq!(filled["metadata"], object["metadata"]);
    assert_eq!(complete(&ask(Operation::Update, &of, &filled, Some(&object))), None);
    let other = kind(PLACING, "ResourcePlacement");
    assert_eq!(complete(&ask(Operation::Create, &other, &object, None)), None);
}

#[test]
fn taints_of_members_must_make_sense() {
    let of = kind(JOINING, "MemberCluster");
    let member = |taints: Value| {
        let identity = json!({"kind": "User", "name": "m1"});
        let spec = json!({"identity": identity, "taints": taints});
        created(&of, json!({"metadata": {"name": "m1"}, "spec": spec}), &ReviewContext::default())
    };
    let taint =
        |key: &str, value: &str| json!({"key": key, "value": value, "effect": "NoSchedule"});
    assert_eq!(member(json!([taint("k", "v")])), Some(Answer::Allowed(String::new())));
    assert_eq!(
        member(json!([taint("k", "v"), taint("k", "v")])),
        Some(Answer::Denied(
            "taint {Key:k Value:v Effect:NoSchedule} already exists, taints must be unique"
                .to_owned()
        ))
    );
    let both = member(json!([taint("k@", ""), taint("l", "v@")])).unwrap();
    let words = both.message();
    assert!(words.starts_with("[invalid taint key {Key:k@ Value: Effect:NoSchedule}: name part must consist of alphanumeric characters"), "{words}");
    assert!(words.contains(", invalid taint value {Key:l Value:v@ Effect:NoSchedule}: a valid label must be an empty string or consist of"), "{words}");
}

#[test]
fn a_member_may_leave_when_nobody_uses_what_it_exports() {
    let of = kind(JOINING, "MemberCluster");
    let leave = |mode: &str, exports: Result<Vec<String>, String>, networking_agents: bool| {
        let identity = json!({"kind": "User", "name": "m1"});
        let spec = json!({"identity": identity, "deleteOptions": {"validationMode": mode}});
        let object = json!({"metadata": {"name": "m1"}, "spec": spec});
        let context = ReviewContext { exports: Some(exports), ..ReviewContext::default() };
        let options = Options { networking_agents, ..Options::default() };
        review(&ask(Operation::Delete, &of, &object, Some(&object)), &context, options).unwrap()
    };
    let web = || Ok(vec!["work/web".to_owned()]);
    for (answer, wanted) in [
        (leave("Skip", web(), true), Answer::Allowed("Skipping validation for member cluster DELETE when the validation mode is set to skip".into())),
        (leave("Strict", web(), false), Answer::Allowed("Networking agents disabled; skipping ServiceExport validation".into())),
        (leave("Strict", Ok(Vec::new()), true), Answer::Allowed(String::new())),
        (leave("Strict", web(), true), Answer::Denied("Please delete serviceExport work/web in the member cluster before leaving, request is denied".into())),
        (leave("Strict", Err("gone".into()), true), Answer::Failed("failed to list internalServiceExportList, please retry the request: gone".into())),
    ] {
        assert_eq!(answer, wanted);
    }
}

#[test]
fn evictions_and_budgets_must_be_able_to_do_what_they_say() {
    let placements = BTreeMap::from([
        ("all", json!({})),
        ("some", json!({"policy": {"placementType": "PickN", "numberOfClusters": 1}})),
        ("named", json!({"policy": {"placementType": "PickFixed"}})),
        ("going", json!({"deleting": true})),
    ]);
    let context = ReviewContext { placements, ..ReviewContext::default() };
    let evict = |name: &str| {
        let spec = json!({"placementName": name, "clusterName": "m1"});
        let of = kind(PLACING, "ClusterResourcePlacementEviction");
        created(&of, json!({"metadata": {"name": "e"}, "spec": spec}), &context).unwrap()
    };
    assert_eq!(evict("all").code(), 200);
    assert_eq!(evict("nobody").code(), 200);
    assert_eq!(
        evict("going"),
        Answer::Denied("cluster resource placement going is being deleted".into())
    );
    assert_eq!(
        evict("named"),
        Answer::Denied("cluster resource placement policy type PickFixed is not supported".into())
    );
    let budget = |name: &str, spec: Value| {
        let of = kind(PLACING, "ClusterResourcePlacementDisruptionBudget");
        created(&of, json!({"metadata": {"name": name}, "spec": spec}), &context).unwrap()
    };
    assert_eq!(budget("some", json!({"maxUnavailable": "50%"})).code(), 200);
    assert_eq!(budget("all", json!({"minAvailable": 1})).code(), 200);
    assert_eq!(budget("nobody", json!({"maxUnavailable": 1})).code(), 200);
    let unsupported = "cluster resource placement policy type PickAll is not supported with";
    assert_eq!(
        budget("all", json!({"maxUnavailable": 1})),
        Answer::Denied(format!("{unsupported} any specified max unavailable 1"))
    );
    assert_eq!(
        budget("all", json!({"minAvailable": "50%"})),
        Answer::Denied(format!("{unsupported} min available as a percentage 50%"))
    );
}

#[test]
fn workloads_do_not_come_to_life_on_a_hub() {
    let context = ReviewContext::default();
    let object = |space: &str| json!({"metadata": {"name": "x", "namespace": space}});
    for (group, name, words) in [
        ("", "Pod", "Pod app/x creation is disallowed in the fleet hub cluster"),
        ("apps", "ReplicaSet", "ReplicaSet app/x creation is disallowed in the fleet hub cluster."),
        (
            "policy",
            "PodDisruptionBudget",
            "PDBs app/x cannot be directly created in the hub cluster due to potential side effects; to place a PDB to member clusters, consider wrapping it in a resource envelope.",
        ),
    ] {
        let of = kind(group, name);
        assert_eq!(created(&of, object("app"), &context), Some(Answer::Denied(words.to_owned())));
        assert_eq!(created(&of, object("kube-system"), &context).unwrap().code(), 200);
        let open = Options {
            workloads_run_here: true,
            pod_disruption_budgets: true,
            ..Options::default()
        };
        let request = ask(Operation::Create, &of, &object("app"), None);
        assert_eq!(review(&request, &context, open), None);
    }
    assert_eq!(created(&kind("", "ConfigMap"), object("app"), &context), None);
}

#[test]
fn every_registered_check_answers_what_it_is_registered_for() {
    let context = ReviewContext::default();
    let all: Vec<_> = webhooks(Options::default()).collect();
    assert_eq!(all.len(), 27);
    for webhook in all {
        let kind = Kind::new(webhook.group, webhook.version, webhook.kind);
        for operation in webhook.operations {
            let request = ask(*operation, &kind, &json!({"metadata": {"name": "x"}}), None);
            if webhook.mutates {
                // Whose word it is, and who is behind a run, is known then or never.
                let filled_in = ["ClusterResourcePlacement", "Freeze"].contains(&webhook.kind);
                assert_eq!(webhook.fails_open(), filled_in, "{}", webhook.name);
                continue;
            }
            assert_eq!(judge_of(&request), Some(webhook), "{}", webhook.name);
            if approvals::subject(&request).is_some() {
                // Judged by who sends it.
                continue;
            }
            let answer = match webhook.is_about_records() {
                true => super::records::record(&request, super::records::Writer::Other),
                false => review(&request, &context, Options::default()),
            };
            assert!(answer.is_some(), "{} says nothing on {operation:?}", webhook.name);
        }
    }
    // Where an operator allows workloads and budgets nobody asks about them.
    let lenient =
        Options { workloads_run_here: true, pod_disruption_budgets: true, ..Options::default() };
    assert_eq!(webhooks(lenient).count(), 24);
}

#[test]
fn a_request_names_what_has_to_be_read_for_it() {
    let (crp, pod) = (kind(PLACING, "ClusterResourcePlacement"), kind("", "Pod"));
    let placed = placement("ClusterResourcePlacement", "", "Namespace");
    let agents = Options { networking_agents: true, ..Options::default() };
    let eviction = json!({"metadata": {"name": "e"}, "spec": {"placementName": "web"}});
    let named = json!({"metadata": {"name": "n", "namespace": "app"}});
    let member = kind(JOINING, "MemberCluster");
    for (operation, of, object, options, need) in [
        (Operation::Create, &crp, &placed, agents, Need::Kinds),
        (Operation::Delete, &crp, &placed, agents, Need::Nothing),
        (
            Operation::Create,
            &kind(PLACING, "ClusterResourcePlacementEviction"),
            &eviction,
            agents,
            Need::Placement("web"),
        ),
        (
            Operation::Update,
            &kind(PLACING, "ClusterResourcePlacementDisruptionBudget"),
            &named,
            agents,
            Need::Placement("n"),
        ),
        (
            Operation::Create,
            &kind(PLACING, "ClusterResourceOverride"),
            &named,
            agents,
            Need::ClusterOverrides,
        ),
        (
            Operation::Update,
            &kind(PLACING, "ResourceOverride"),
            &named,
            agents,
            Need::Overrides("app"),
        ),
        (Operation::Delete, &member, &named, agents, Need::Exports("n")),
        (Operation::Delete, &member, &named, Options::default(), Need::Nothing),
        (Operation::Create, &pod, &named, agents, Need::Nothing),
    ] {
        let request = ask(operation, of, object, None);
        assert_eq!(needs(&request, options), need, "{operation:?} {}", of.kind);
    }
    let request = Request { subresource: "status", ..ask(Operation::Update, &crp, &placed, None) };
    assert_eq!(needs(&request, agents), Need::Nothing);
}
