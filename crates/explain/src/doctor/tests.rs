//! What can go wrong with the hub itself, and how two looks are weighed. What is stored is
//! looked at on an embedded hub, beside the command.

use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_api::cluster::{AgentStatus, AgentType, MemberClusterStatus};
use flagship_api::names::ObjectKey;
use flagship_api::{crd, kinds};
use flagship_rules::model::Binding;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

/// A hub that is as it should be, without members.
fn hub() -> HubContents {
    let established = json!({"conditions": [{"type": "Established", "status": "True"}]});
    let definitions = crd::all().into_iter().map(|mut definition| {
        definition["status"] = established.clone();
        (definition["metadata"]["name"].as_str().unwrap().to_owned(), definition)
    });
    HubContents {
        now: now(),
        hub_time: Some(now()),
        version: "v1.34.0".into(),
        definitions: Some(definitions.collect()),
        lease: Some(LeaseSeen {
            holder: "hub-0".into(),
            renewed: Some(ago(3)),
            lasts: SignedDuration::from_secs(60),
        }),
        rights: vec![right("patch", true)],
        namespaces: ["fleet-system".to_owned()].into(),
        reached: [("m0".to_owned(), Reached::Answers { has_applied_works: true })].into(),
        ..HubContents::default()
    }
}

fn right(verb: &str, allowed: bool) -> Right {
    Right { verb: verb.into(), resource: "works.placement.kubernetes-fleet.io".into(), allowed }
}

/// A member that the hub last passed a word of then.
fn member(heard: Timestamp) -> MemberSeen {
    let agent = AgentStatus {
        r#type: AgentType::MemberAgent,
        conditions: vec![],
        last_received_heartbeat: Some(Time(heard)),
    };
    let status = MemberClusterStatus { agent_status: vec![agent], ..Default::default() };
    MemberSeen { status, ..MemberSeen::default() }
}

/// `area/name: what => fix` of all findings, `area/name? why` of what was not looked at.
fn told(seen: &HubContents) -> Vec<String> {
    let mut told = Vec::new();
    for check in examine(seen).checks {
        if check.skipped {
            told.push(format!("{}/{}? {}", check.area, check.name, check.says));
        }
        for Finding { what, fix, .. } in check.findings {
            assert!(!fix.is_empty(), "{what} has no fix");
            told.push(format!("{}/{}: {what} => {fix}", check.area, check.name));
        }
    }
    told
}

#[test]
fn a_hub_that_is_as_it_should_be_has_nothing_to_fix() {
    assert_eq!(told(&hub()), Vec::<String>::new());
    assert!(examine(&hub()).is_healthy());
}

#[test]
fn a_hub_whose_disk_is_full_says_what_to_do() {
    let mut seen = hub();
    seen.unready = vec![
        "etcd-readiness failed: the disk of data.redb is full".to_owned(),
        "etcd failed: reason withheld".to_owned(),
    ];
    assert_eq!(
        told(&seen),
        [
            "hub/answers: the API server is not ready: etcd-readiness failed: the disk of data.redb is full => make room on that disk; objects can still be deleted",
            "hub/answers: the API server is not ready: etcd failed: reason withheld => kubectl --context hub get --raw '/readyz?verbose', and the server's log",
        ]
    );
}

#[test]
fn every_way_a_definition_can_be_wrong_is_named() {
    let runs = "clusterstagedupdateruns.placement.kubernetes-fleet.io";
    let change = |change: &dyn Fn(&mut BTreeMap<String, Value>)| {
        let mut seen = hub();
        change(seen.definitions.as_mut().unwrap());
        let mut found = told(&seen);
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    };
    let fix = "flagship crds clusterstagedupdateruns | kubectl --context hub apply --server-side \
               --force-conflicts -f -";
    let expect = |what: &str| format!("hub/definitions: {runs} {what} => {fix}");
    assert_eq!(change(&|all| drop(all.remove(runs))), expect("is not installed"));
    let version = |all: &mut BTreeMap<String, Value>, at: usize, key: &str, value: Value| {
        all.get_mut(runs).unwrap()["spec"]["versions"][at][key] = value;
    };
    let first = kinds::find(runs).unwrap().versions[0].name;
    assert_eq!(
        change(&|all| version(all, 0, "served", json!(false))),
        expect(&format!("does not serve {first}"))
    );
    assert_eq!(
        change(&|all| version(all, 0, "storage", json!(false))),
        expect(&format!("does not store the version that is wanted; {first} differs"))
    );
    let deep = "/schema/openAPIV3Schema/properties/spec/properties/state/enum";
    let cut = |all: &mut BTreeMap<String, Value>| {
        let version = &mut all.get_mut(runs).unwrap()["spec"]["versions"][0];
        *version.pointer_mut(deep).unwrap() = json!(["Run"]);
    };
    let at = "properties.spec.properties.state.enum";
    assert_eq!(change(&cut), expect(&format!("has another schema in {first}, at {at}")));
    let unsettled =
        |all: &mut BTreeMap<String, Value>| all.get_mut(runs).unwrap()["status"] = json!({});
    assert_eq!(change(&unsettled), expect("is not established"));
}

#[test]
fn more_versions_and_other_descriptions_do_no_harm() {
    let mut seen = hub();
    let all = seen.definitions.as_mut().unwrap();
    let runs = all.get_mut("clusterstagedupdateruns.placement.kubernetes-fleet.io").unwrap();
    let schema = &mut runs["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["description"] = json!("other words");
    runs["spec"]["versions"].as_array_mut().unwrap().push(json!({"name": "v9"}));
    assert_eq!(told(&seen), Vec::<String>::new());
}

#[test]
fn a_hub_that_does_not_lead_is_told_to() {
    let start = "start it:  flagship hub --kubeconfig HUB --leader-elect=true   (or: flagship up)";
    let mut seen = hub();
    seen.lease.as_mut().unwrap().renewed = Some(ago(61));
    assert_eq!(told(&seen), [format!("hub/leads: hub-0 renewed its lease 61s ago => {start}")]);
    seen.lease.as_mut().unwrap().renewed = None;
    assert_eq!(told(&seen), [format!("hub/leads: nobody holds the lease => {start}")]);
    // Without a lease, what members say and the hub does not pass on tells.
    seen.lease = None;
    assert_eq!(told(&seen), ["hub/leads? there is no lease, and no member to tell by"]);
    seen.members = [("m1".to_owned(), member(ago(40)))].into();
    seen.heartbeats = [("m1".to_owned(), Some(ago(5)))].into();
    let leads = |seen: &HubContents| -> Vec<String> {
        told(seen).into_iter().filter(|line| line.starts_with("hub/leads")).collect()
    };
    assert_eq!(leads(&seen), [format!("hub/leads: no hub passes on what m1 says => {start}")]);
    seen.heartbeats = [("m1".to_owned(), Some(ago(39)))].into();
    assert_eq!(leads(&seen), Vec::<String>::new());
    seen.namespaces.clear();
    assert_eq!(
        leads(&seen),
        ["hub/leads: namespace fleet-system is missing: a hub keeps its lease there => kubectl \
          --context hub create namespace fleet-system"]
    );
}

#[test]
fn rights_and_clocks_are_checked_where_the_server_tells() {
    let mut seen = hub();
    seen.rights.push(right("list", false));
    seen.hub_time = Some(ago(6));
    seen.heartbeats = [("m1".to_owned(), Some(now()))].into();
    let clocks = "synchronise the clocks, for instance with chrony: waits are counted by them";
    assert_eq!(
        told(&seen),
        [
            "hub/rights: you may not list works.placement.kubernetes-fleet.io => let an \
             administrator grant it:  kubectl --context hub create clusterrole flagship-list \
             --verb=list --resource=works.placement.kubernetes-fleet.io, and bind it to you"
                .to_owned(),
            format!("hub/clocks: this machine is 6s ahead of the hub => {clocks}"),
            format!("hub/clocks: m1 is 6s ahead of the hub => {clocks}"),
        ]
    );
    seen = HubContents { rights: vec![], hub_time: None, definitions: None, ..hub() };
    assert_eq!(
        told(&seen),
        [
            "hub/definitions? you may not read CustomResourceDefinitions",
            "hub/rights? the server does not say what you may do",
            "hub/clocks? the hub does not say what time it is",
        ]
    );
    assert!(examine(&seen).is_healthy(), "what nobody could look at is not ill");
}

#[test]
fn members_that_can_be_asked_must_answer_and_know_their_books() {
    let mut seen = hub();
    seen.reached = [
        ("m1".to_owned(), Reached::Answers { has_applied_works: true }),
        ("m2".to_owned(), Reached::Answers { has_applied_works: false }),
        ("m3".to_owned(), Reached::Silent("connection refused".to_owned())),
    ]
    .into();
    assert_eq!(
        told(&seen),
        [
            "members/clusters: m2 does not serve AppliedWorks, which its agent needs => flagship \
             crds appliedworks | kubectl --context m2 apply --server-side -f -",
            "members/clusters: m3 does not answer: connection refused => kubectl --context m3 get \
             --raw /readyz   (is it up, is its context right?)",
        ]
    );
}

#[test]
fn members_that_are_leaving_are_counted_apart() {
    let mut seen = hub();
    let leaving = MemberSeen { leaving: true, ..member(ago(600)) };
    seen.members = ["m1", "m2"].map(|name| (name.to_owned(), leaving.clone())).into();
    let checks = examine(&seen).checks;
    let joined = checks.iter().find(|check| (check.area, check.name) == ("members", "joined"));
    assert_eq!(joined.map(|check| &*check.says), Some("no members joined, 2 leaving"));
}

#[test]
fn whoever_should_let_an_object_go_is_named() {
    let held = |resource: &str, space: Option<&str>, by: &str| {
        let mut seen = hub();
        seen.deleting.push(Deleting {
            resource: resource.to_owned(),
            key: ObjectKey::new(space, "it"),
            since: ago(600),
            finalizers: vec![by.to_owned()],
        });
        let mut found = told(&seen);
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0).split_once(" => ").unwrap().1.to_owned()
    };
    let by_hand = |space: &str, resource: &str| {
        format!(
            "kubectl --context hub {space}patch {resource} it --type=merge -p \
             '{{\"metadata\":{{\"finalizers\":null}}}}'"
        )
    };
    let (works, clusters) =
        ("works.placement.kubernetes-fleet.io", "memberclusters.cluster.kubernetes-fleet.io");
    assert_eq!(
        held(clusters, None, "kubernetes-fleet.io/membercluster-finalizer"),
        "the hub lets it go: see that it leads, and what it logs about it"
    );
    assert_eq!(
        held(works, Some("fleet-member-m9"), "kubernetes-fleet.io/work-cleanup"),
        format!("its member is gone, so nobody will:  {}", by_hand("-n fleet-member-m9 ", works))
    );
    assert_eq!(
        held(clusters, None, "example.com/hold"),
        format!(
            "nobody of ours sets this; if its owner is gone for good:  {}",
            by_hand("", clusters)
        )
    );
    let mut seen = hub();
    seen.deleting.push(Deleting {
        resource: works.to_owned(),
        key: ObjectKey::cluster("it"),
        since: ago(60),
        finalizers: vec!["x".to_owned()],
    });
    assert_eq!(told(&seen), Vec::<String>::new(), "it has just begun");
}

/// With little memory a server may serve its bindings and not its placements.
#[test]
fn a_kind_that_could_not_be_listed_is_a_finding_and_no_reason_to_delete() {
    let placements = "clusterresourceplacements.placement.kubernetes-fleet.io";
    let orphan = || {
        let mut seen = hub();
        let value = Binding { name: "web-m1".into(), ..Binding::default() };
        let key = ObjectKey::cluster("web-m1");
        let placement = Some(ObjectKey::cluster("web"));
        seen.bindings.push(Owned { key, placement, value: Arc::new(value) });
        seen
    };
    let deletes = |seen: &HubContents| told(seen).iter().any(|line| line.contains("delete"));
    assert!(deletes(&orphan()), "{:?}", told(&orphan()));
    for (why, says) in [
        (
            Unlisted::NotServed,
            format!("{placements} is not served => restart the hub's API server, and see what it logs about this definition"),
        ),
        (
            Unlisted::Forbidden("you may not list them".into()),
            "you may not list them => let an administrator grant you to list it: other checks need it".into(),
        ),
        (
            Unlisted::Failed("the server failed".into()),
            format!("{placements} cannot be listed: the server failed => kubectl --context hub get {placements} -A   (and see the server's log)"),
        ),
    ] {
        let mut seen = orphan();
        seen.unlisted = [(placements.to_owned(), why)].into();
        let skipped = format!(
            "placements/bindings? nobody can tell what is missing or left over: {placements} \
             could not be listed"
        );
        assert_eq!(told(&seen), [format!("hub/objects: {says}"), skipped]);
        assert!(!examine(&seen).is_healthy());
    }
    let mut seen = orphan();
    seen.unreadable = vec!["ClusterResourcePlacement web: spec: not so".to_owned()];
    assert!(!deletes(&seen), "{:?}", told(&seen));
    // A kind whose definition is missing is the matter of another check.
    let mut seen = orphan();
    seen.definitions.as_mut().unwrap().remove(placements);
    seen.unlisted = [(placements.to_owned(), Unlisted::NotServed)].into();
    let found = told(&seen);
    assert!(found[0].starts_with("hub/definitions") && found.len() == 2, "{found:?}");
}

#[test]
fn only_what_two_looks_have_seen_counts() {
    let report = |findings: &[&str]| {
        let findings = findings.iter().map(|what| Finding::new(*what, "fix")).collect();
        Report { checks: vec![Check::new("area", "name", "fine", findings)] }
    };
    let both = agreed(&report(&["a", "b"]), report(&["b", "c"]));
    assert_eq!(both, report(&["b"]));
    assert!(agreed(&report(&["a"]), report(&["c"])).is_healthy());
}
