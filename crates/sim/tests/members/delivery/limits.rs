//! How soon things must show: the waits of KubeFleet's own end-to-end suite, row by row
//! (propagation 13), with the flags that suite gives its agents.
//!
//! Time is simulated, so a limit is one: ten seconds here are ten seconds of the fleet.

use flagship_rules::apply::{Ageing, Timing};
use flagship_sim::fleet::{Fleet, FleetConfig};
use flagship_sim::stories::rows;
use jiff::SignedDuration;
use serde_json::{Value, json};

const CRP: &str = "clusterresourceplacements";
const MEMBERS: [&str; 3] = ["member1", "member2", "member3"];

async fn fleet() -> Fleet {
    let mut config = FleetConfig::of(3);
    config.heartbeat_seconds = 15;
    config.hub.max_concurrent_placements = 200;
    let cap = SignedDuration::from_secs(5);
    config.member.timing = Timing { slow_cap: cap, fast_cap: cap, ..Timing::default() };
    config.member.priorities = Some(Ageing::default());
    Fleet::joined(config).await
}

/// A namespace with some objects, and a placement of it on all members.
async fn place(fleet: &Fleet, name: &str, objects: &[Value], strategy: Value) {
    let hub = &fleet.clusters.hub;
    hub.apply_object(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
        .await;
    for object in objects {
        hub.apply_object(object).await;
    }
    let namespace = json!({"group": "", "version": "v1", "kind": "Namespace", "name": name});
    hub.apply_object(&json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
        "metadata": {"name": name},
        "spec": {"resourceSelectors": [namespace], "policy": {"placementType": "PickAll"},
            "revisionHistoryLimit": 1, "strategy": strategy},
    }))
    .await;
}

fn rolling(max_unavailable: Value, period: u32) -> Value {
    let update = json!({"maxUnavailable": max_unavailable, "unavailablePeriodSeconds": period});
    json!({"type": "RollingUpdate", "rollingUpdate": update})
}

fn config_map(namespace: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": namespace}, "data": data})
}

/// The last word about each cluster: `Available=True AllWorkAreAvailable`, sorted.
fn last_words(crp: &Value) -> Vec<String> {
    let word = |of: &Value, key: &str| of[key].as_str().unwrap_or("-").to_owned();
    let last = |cluster| {
        let said = rows(cluster, "conditions").last().cloned().unwrap_or_default();
        format!("{}={} {}", word(&said, "type"), word(&said, "status"), word(&said, "reason"))
    };
    let mut all: Vec<String> = rows(&crp["status"], "placementStatuses").map(last).collect();
    all.sort();
    all
}

const AVAILABLE: &str = "Available=True AllWorkAreAvailable";
const HELD_BACK: &str = "RolloutStarted=False RolloutNotStartedYet";

/// Waits until the last words about the clusters are these, and hands the placement out.
async fn says(fleet: &Fleet, seconds: u64, name: &str, words: [&str; 3]) -> Value {
    let is_so = |found: Option<&Value>| {
        found.is_some_and(|crp| {
            let current = crp["metadata"]["generation"].clone();
            let mut told = rows(&crp["status"], "conditions");
            last_words(crp) == words && told.all(|one| one["observedGeneration"] == current)
        })
    };
    let found = fleet.clusters.hub.eventually_within(seconds, CRP, "", name, is_so).await;
    found.expect("what is not there says nothing")
}

/// Waits until every member has the object like this.
async fn everywhere(
    fleet: &Fleet,
    seconds: u64,
    (resource, namespace, name): (&str, &str, &str),
    is_so: impl Fn(&Value) -> bool,
) {
    for member in fleet.clusters.members() {
        let fits = |found: Option<&Value>| found.is_some_and(&is_so);
        member.eventually_within(seconds, resource, namespace, name, fits).await;
    }
}

/// On how many members the object is like this.
async fn count(fleet: &Fleet, place: (&str, &str, &str), is_so: impl Fn(&Value) -> bool) -> usize {
    let (resource, namespace, name) = place;
    let mut count = 0;
    for member in fleet.clusters.members() {
        count += usize::from(is_so(&member.get(resource, namespace, name).await));
    }
    count
}

#[tokio::test(start_paused = true)]
async fn a_new_placement_is_complete_and_a_deleted_one_gone_in_time() {
    let fleet = fleet().await;
    place(&fleet, "app", &[config_map("app", json!({"a": "1"}))], rolling(json!("25%"), 2)).await;
    says(&fleet, 10, "app", [AVAILABLE; 3]).await;
    fleet.clusters.hub.delete(CRP, "", "app").await;
    for member in fleet.clusters.members() {
        let gone = |found: Option<&Value>| found.is_none();
        member.eventually_within(45, "namespaces", "", "app", gone).await;
    }
    fleet.clusters.hub.eventually_within(10, CRP, "", "app", |found| found.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn an_override_comes_changes_and_goes_in_ten_seconds_each() {
    let fleet = fleet().await;
    let hub = &fleet.clusters.hub;
    place(&fleet, "app", &[config_map("app", json!({"a": "1"}))], rolling(json!("25%"), 2)).await;
    says(&fleet, 10, "app", [AVAILABLE; 3]).await;
    let override_to = |value: &str| {
        json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceOverride",
            "metadata": {"name": "o", "namespace": "app"},
            "spec": {"placement": {"name": "app"},
                "resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "settings"}],
                "policy": {"overrideRules": [{"clusterSelector": {"clusterSelectorTerms": []},
                    "jsonPatchOverrides": [{"op": "replace", "path": "/data/a", "value": value}]}]}}})
    };
    let settings = ("configmaps", "app", "settings");
    for value in ["2", "3"] {
        hub.apply_object(&override_to(value)).await;
        everywhere(&fleet, 10, settings, |map| map["data"]["a"] == value).await;
        says(&fleet, 5, "app", [AVAILABLE; 3]).await;
    }
    // A value nobody can fill in stops at the first cluster.
    hub.apply_object(&override_to("${MEMBER-CLUSTER-LABEL-KEY-zone}")).await;
    let failed = "Overridden=False OverriddenFailed";
    says(&fleet, 10, "app", [failed, HELD_BACK, HELD_BACK]).await;
    fleet.pass(15).await;
    says(&fleet, 1, "app", [failed, HELD_BACK, HELD_BACK]).await;
    assert_eq!(count(&fleet, settings, |map| map["data"]["a"] == "3").await, 3);
    hub.delete("resourceoverrides", "app", "o").await;
    everywhere(&fleet, 10, settings, |map| map["data"]["a"] == "1").await;
    says(&fleet, 5, "app", [AVAILABLE; 3]).await;
}

/// Workloads that work at first, and what makes each of them never work again.
fn workloads(namespace: &str) -> Vec<(&'static str, Value, Value)> {
    let template = |image: &str| {
        json!({"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": image}]}})
    };
    let of = |kind: &str, more: Value| {
        let mut spec = json!({"selector": {"matchLabels": {"app": "web"}},
            "template": template("nginx:1")});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        json!({"apiVersion": "apps/v1", "kind": kind,
            "metadata": {"name": "web", "namespace": namespace}, "spec": spec})
    };
    let broken = json!({"spec": {"template": template("nginx::no")}});
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    vec![
        ("deployments", of("Deployment", json!({"replicas": 2})), broken.clone()),
        ("daemonsets", of("DaemonSet", json!({})), broken.clone()),
        ("statefulsets", of("StatefulSet", json!({"replicas": 2, "serviceName": "web"})), broken),
        ("services", service, json!({"spec": {"type": "LoadBalancer"}})),
    ]
}

const STUCK: &str = "Available=False NotAllWorkAreAvailable";

// checklist 12 rollout decisions: blocked by an unavailable Deployment, DaemonSet,
// StatefulSet, LoadBalancer Service.
#[tokio::test(start_paused = true)]
async fn a_workload_that_never_works_stops_at_the_first_cluster_whatever_its_kind() {
    let fleet = fleet().await;
    for (resource, _, _) in workloads("") {
        let all = workloads(resource);
        let (_, object, broken) = all.into_iter().find(|one| one.0 == resource).unwrap();
        place(&fleet, resource, std::slice::from_ref(&object), rolling(json!(1), 2)).await;
        says(&fleet, 45, resource, [AVAILABLE; 3]).await;
        fleet.clusters.hub.patch(resource, resource, "web", broken).await;
        let stuck = [STUCK, HELD_BACK, HELD_BACK];
        says(&fleet, 10, resource, stuck).await;
        fleet.pass(15).await;
        let crp = says(&fleet, 1, resource, stuck).await;
        let failed: Vec<(&Value, &Value)> = rows(&crp["status"], "placementStatuses")
            .flat_map(|one| rows(one, "failedPlacements").map(move |it| (&one["clusterName"], it)))
            .collect();
        let [(cluster, failed)] = failed[..] else { panic!("{resource}: {failed:?}") };
        assert_eq!(failed["kind"], object["kind"]);
        assert_eq!(failed["condition"]["reason"], "ManifestNotAvailableYet", "{resource}");
        let member = fleet.clusters.member(cluster.as_str().unwrap());
        let live = member.get(resource, resource, "web").await;
        let generation = live["metadata"]["generation"].as_i64().unwrap_or(0);
        let observed = failed["condition"]["observedGeneration"].as_i64().unwrap_or(0);
        assert_eq!(observed, generation, "{resource}");
        assert!(resource == "services" || generation == 2, "{resource}: {generation}");
    }
}

#[tokio::test(start_paused = true)]
async fn clusters_keep_reporting_without_their_version_and_a_repair_reaches_all() {
    let fleet = fleet().await;
    let hub = &fleet.clusters.hub;
    let (_, object, broken) = workloads("app").remove(0);
    place(&fleet, "app", &[object], rolling(json!(1), 2)).await;
    says(&fleet, 45, "app", [AVAILABLE; 3]).await;
    hub.patch("deployments", "app", "web", broken).await;
    says(&fleet, 10, "app", [STUCK, HELD_BACK, HELD_BACK]).await;
    // Beyond the limit of the history, but still in use: KubeFleet would have trimmed it.
    let old = ("clusterresourcesnapshots", "app-0-snapshot");
    assert!(hub.find(old.0, "", old.1).await.is_some());
    hub.delete(old.0, "", old.1).await;
    hub.eventually_within(10, old.0, "", old.1, |found| found.is_none()).await;
    for member in MEMBERS {
        let nothing = json!({"conditions": [], "manifestConditions": []});
        let space = format!("fleet-member-{member}");
        hub.patch_status("works", &space, "app-work", nothing).await;
    }
    fleet.pass(10).await;
    for binding in hub.list("clusterresourcebindings", "").await {
        let said = |kind: &str| {
            let mut all = rows(&binding["status"], "conditions");
            all.any(|one| one["type"] == kind && one["status"] == "True")
        };
        assert!(said("WorkSynchronized") && said("Applied"), "{binding:#}");
        let works = binding["spec"]["resourceSnapshotName"] == "app-0-snapshot";
        assert_eq!(said("Available"), works, "{binding:#}");
    }
    let repaired = json!([{"name": "web", "image": "nginx:2"}]);
    let repair = json!({"spec": {"template": {"spec": {"containers": repaired}}}});
    hub.patch("deployments", "app", "web", repair).await;
    says(&fleet, 45, "app", [AVAILABLE; 3]).await;
    let image = |web: &Value| web["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    let reached = count(&fleet, ("deployments", "app", "web"), |web| image(web) == "nginx:2").await;
    assert_eq!(reached, 3);
}

// checklist 12 rollout decisions: not blocked by a suspended Job.
#[tokio::test(start_paused = true)]
async fn a_suspended_job_holds_nobody_up() {
    let fleet = fleet().await;
    let job = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "backup", "namespace": "app"},
        "spec": {"suspend": true, "template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "backup", "image": "busybox:1"}]}}}});
    place(&fleet, "app", &[job], rolling(json!(1), 2)).await;
    let untracked = "Available=True NotAllWorkAreAvailabilityTrackable";
    says(&fleet, 10, "app", [untracked; 3]).await;
    let newer = json!({"metadata": {"labels": {"version": "2"}}});
    fleet.clusters.hub.patch("jobs", "app", "backup", newer).await;
    let is_newer = |job: &Value| job["metadata"]["labels"]["version"] == "2";
    everywhere(&fleet, 15, ("jobs", "app", "backup"), is_newer).await;
    says(&fleet, 10, "app", [untracked; 3]).await;
}

// checklist 12 rollout decisions: custom resources wait unavailablePeriod between clusters.
#[tokio::test(start_paused = true)]
async fn custom_resources_take_a_period_a_cluster_and_no_longer() {
    let fleet = fleet().await;
    let schema = json!({"openAPIV3Schema": {"type": "object",
        "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition", "metadata": {"name": "boats.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
    fleet.clusters.hub.apply_object(&definition).await;
    for member in fleet.clusters.members() {
        member.apply_object(&definition).await;
    }
    let boat = json!({"apiVersion": "example.com/v1", "kind": "Boat",
        "metadata": {"name": "first", "namespace": "app"}, "spec": {"colour": "red"}});
    place(&fleet, "app", &[boat], rolling(json!(1), 30)).await;
    let untracked = "Available=True NotAllWorkAreAvailabilityTrackable";
    says(&fleet, 10, "app", [untracked; 3]).await;
    fleet.clusters.hub.patch("boats", "app", "first", json!({"spec": {"colour": "blue"}})).await;
    let blue = async || {
        count(&fleet, ("boats", "app", "first"), |boat| boat["spec"]["colour"] == "blue").await
    };
    for (wait, reached) in [(25, 0), (10, 1), (20, 1), (10, 2), (20, 2), (10, 3)] {
        fleet.pass(wait).await;
        assert_eq!(blue().await, reached);
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_change_inside_an_envelope_stops_at_the_first_cluster() {
    let fleet = fleet().await;
    let envelope = |scope: &str| {
        json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceEnvelope",
            "metadata": {"name": "limits", "namespace": "app"},
            "data": {"quota.yaml": {"apiVersion": "v1", "kind": "ResourceQuota",
                "metadata": {"name": "quota", "namespace": "app"},
                "spec": {"hard": {"pods": "10"}, "scopes": [scope]}}}})
    };
    place(&fleet, "app", &[envelope("NotTerminating")], rolling(json!(1), 2)).await;
    says(&fleet, 10, "app", [AVAILABLE; 3]).await;
    fleet.clusters.hub.apply_object(&envelope("Terminating")).await;
    let failed = "Applied=False NotAllWorkHaveBeenApplied";
    says(&fleet, 10, "app", [failed, HELD_BACK, HELD_BACK]).await;
    fleet.pass(15).await;
    let crp = says(&fleet, 1, "app", [failed, HELD_BACK, HELD_BACK]).await;
    let failures: Vec<Value> = rows(&crp["status"], "placementStatuses")
        .flat_map(|one| rows(one, "failedPlacements").cloned())
        .collect();
    let [failure] = &failures[..] else { panic!("{failures:?}") };
    assert_eq!((&failure["kind"], &failure["name"]), (&json!("ResourceQuota"), &json!("quota")));
    let wrapping = json!({"name": "limits", "namespace": "app", "type": "ResourceEnvelope"});
    assert_eq!(failure["envelope"], wrapping);
    assert_eq!(failure["condition"]["reason"], "ManifestApplyFailed");
    fleet.clusters.hub.apply_object(&envelope("NotTerminating")).await;
    let crp = says(&fleet, 10, "app", [AVAILABLE; 3]).await;
    assert_eq!(crp["status"]["observedResourceIndex"], "2");
}

#[tokio::test(start_paused = true)]
async fn another_strategy_and_a_drift_show_in_ten_seconds() {
    let fleet = fleet().await;
    let hub = &fleet.clusters.hub;
    place(&fleet, "app", &[config_map("app", json!({"a": "1"}))], rolling(json!("25%"), 2)).await;
    says(&fleet, 10, "app", [AVAILABLE; 3]).await;
    let apply = |strategy: Value| json!({"spec": {"strategy": {"applyStrategy": strategy}}});
    hub.patch(CRP, "", "app", apply(json!({"type": "ReportDiff"}))).await;
    says(&fleet, 10, "app", ["DiffReported=True AllWorkHaveDiffReported"; 3]).await;
    let careful = json!({"type": "ClientSideApply", "whenToApply": "IfNotDrifted"});
    hub.patch(CRP, "", "app", apply(careful)).await;
    says(&fleet, 10, "app", [AVAILABLE; 3]).await;
    let member = fleet.clusters.member("member2");
    member.patch("configmaps", "app", "settings", json!({"data": {"a": "edited"}})).await;
    let failed = "Applied=False NotAllWorkHaveBeenApplied";
    let crp = says(&fleet, 10, "app", [failed, AVAILABLE, AVAILABLE]).await;
    let drifts: Vec<&Value> = rows(&crp["status"], "placementStatuses")
        .flat_map(|one| rows(one, "driftedPlacements"))
        .flat_map(|one| rows(one, "observedDrifts"))
        .collect();
    let edited = json!({"path": "/data/a", "valueInMember": "edited", "valueInHub": "1"});
    assert_eq!(drifts, [&edited]);
}
