//! Objects that cannot be read, and definitions that are not there: whom it concerns is
//! told, and nobody else is held up.

use flagship_hub::Hub;
use flagship_runtime::client::Client;
use serde_json::{Value, json};

use crate::placement::story::{
    COPIES, CRS, DEFINITIONS, RS, RUNS, Story, everywhere, map, namespace,
};
use flagship_sim::testing::{CLUSTERS, CRB, CRP, CSPS, IMC, RB, RP, SPS, WORK};

const NAMESPACED_RUNS: &str = "stagedupdateruns.placement.kubernetes-fleet.io";

/// Everything that the hub mirrors, where an object of it may stand.
const KINDS: [(&str, &str, &str); 28] = [
    (CLUSTERS, "MemberCluster", ""),
    (IMC, "InternalMemberCluster", "fleet-member-member1"),
    (CRP, "ClusterResourcePlacement", ""),
    (RP, "ResourcePlacement", "app"),
    (CSPS, "ClusterSchedulingPolicySnapshot", ""),
    (SPS, "SchedulingPolicySnapshot", "app"),
    (CRS, "ClusterResourceSnapshot", ""),
    (RS, "ResourceSnapshot", "app"),
    (CRB, "ClusterResourceBinding", ""),
    (RB, "ResourceBinding", "app"),
    (RUNS, "ClusterStagedUpdateRun", ""),
    (NAMESPACED_RUNS, "StagedUpdateRun", "app"),
    ("rolebindings.rbac.authorization.k8s.io", "RoleBinding", "app"),
    ("roles.rbac.authorization.k8s.io", "Role", "app"),
    ("namespaces", "Namespace", ""),
    (WORK, "Work", "fleet-member-member1"),
    ("clusterresourceoverrides.placement.kubernetes-fleet.io", "ClusterResourceOverride", ""),
    ("resourceoverrides.placement.kubernetes-fleet.io", "ResourceOverride", "app"),
    (
        "clusterresourceoverridesnapshots.placement.kubernetes-fleet.io",
        "ClusterResourceOverrideSnapshot",
        "",
    ),
    ("resourceoverridesnapshots.placement.kubernetes-fleet.io", "ResourceOverrideSnapshot", "app"),
    (
        "clusterresourceplacementevictions.placement.kubernetes-fleet.io",
        "ClusterResourcePlacementEviction",
        "",
    ),
    ("clusterapprovalrequests.placement.kubernetes-fleet.io", "ClusterApprovalRequest", ""),
    ("approvalrequests.placement.kubernetes-fleet.io", "ApprovalRequest", "app"),
    (COPIES, "ClusterResourcePlacementStatus", "app"),
    ("freezes.flagship.dev", "Freeze", ""),
    ("clusterapprovals.flagship.dev", "ClusterApproval", ""),
    ("approvals.flagship.dev", "Approval", "app"),
    ("notificationchannels.flagship.dev", "NotificationChannel", ""),
];

/// The field of a kind that nonsense is written into.
fn spoilt(kind: &str) -> &'static str {
    match kind {
        "RoleBinding" => "roleRef",
        "Role" => "rules",
        "ClusterResourcePlacementStatus" => "sourceStatus",
        _ => "spec",
    }
}

fn nonsense(resource: &str, kind: &str, space: &str, name: &str) -> Value {
    let group = resource.split_once('.').map_or("", |(_, group)| group);
    let version = match group {
        "flagship.dev" => "v1alpha1",
        group if group.ends_with("kubernetes-fleet.io") => "v1beta1",
        _ => "v1",
    };
    let labels = json!({"kubernetes-fleet.io/parent-CRP": name});
    let api_version = format!("{group}/{version}");
    let mut object = json!({"apiVersion": api_version.trim_start_matches('/'), "kind": kind,
        "metadata": {"name": name, "labels": labels}});
    object[spoilt(kind)] = json!("nonsense");
    if !space.is_empty() {
        object["metadata"]["namespace"] = json!(space);
    }
    object
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_object_of_any_kind_is_told_on_the_object_and_holds_nobody_up() {
    let story = Story::both_scopes(71).await;
    for (resource, kind, space) in KINDS {
        story.smuggle(resource, nonsense(resource, kind, space, "bad"));
    }
    // The list is complete.
    let client = Client::in_process(story.hub.called_by("hub"));
    let hub = Hub::new(client, story.env.clone(), story.metrics.clone(), story.options.clone());
    for mirrored in hub.mirrors() {
        let kind = mirrored.kind.as_str();
        assert!(KINDS.iter().any(|(_, listed, _)| *listed == kind), "{kind} is mirrored, too");
    }
    story.namespace("broken", json!({})).await;
    let mut broken = nonsense("configmaps", "ConfigMap", "broken", "bad");
    broken["metadata"]["ownerReferences"] = json!("nonsense");
    story.smuggle("configmaps", broken);
    let story = story.starts().await;
    story.map("app", "settings", "x").await;
    story.crp("web", everywhere(&[namespace("app")])).await;
    story.rp("web", everywhere(&[map("settings")])).await;
    story.settle().await;
    assert!(story.version(CRP, "", "web").starts_with("0: Namespace app, ConfigMap settings"));
    assert_eq!(story.version(RP, "app", "web"), "0: ConfigMap settings");
    assert_eq!(story.bindings_of(CRB, "web").len(), 2);
    for (_, kind, _) in KINDS {
        let field = spoilt(kind);
        let said = format!(
            "Warning MalformedObject bad: Field {field} cannot be read: invalid type: string \"nonsense\", expected "
        );
        let told = story.events(kind);
        let told: Vec<_> = told.iter().filter(|event| event.contains("MalformedObject")).collect();
        assert_eq!(told.len(), 1, "{kind}: {told:?}");
        assert!(told[0].starts_with(&said), "{kind}: {told:?}");
        assert!(told[0].ends_with(". Correct it; until then it is left out (x1)"), "{told:?}");
    }
    let maps = story.events("ConfigMap");
    assert!(maps[0].contains("bad: Field metadata.ownerReferences cannot be read"), "{maps:?}");
    // Hours later it has been said once.
    story.heartbeats(60).await;
    assert_eq!(story.events("ClusterResourceBinding").len(), 1);
    assert!(story.events("ClusterResourceBinding")[0].ends_with("(x1)"));
}

#[tokio::test(start_paused = true)]
async fn each_version_of_an_unreadable_object_is_told_once() {
    let mut story = Story::cluster_wide(72).await.starts().await;
    story.crp("web", everywhere(&[namespace("app")])).await;
    story.settle().await;
    let good = story.get(CRP, "", "web");
    let mut bad = good.clone();
    bad["spec"]["policy"] = json!(7);
    story.put(CRP, &bad);
    story.settle().await;
    let said = |count: u32| {
        vec![format!(
            "Warning MalformedObject web: Field spec.policy cannot be read: invalid type: integer `7`, expected struct PlacementPolicy. Correct it; until then its last readable version counts (x{count})"
        )]
    };
    assert_eq!(story.events("ClusterResourcePlacement"), said(1));
    // The last readable version is served on.
    assert_eq!(story.bindings_of(CRB, "web").len(), 2);
    story.cluster("member3", json!({})).await;
    story.settle().await;
    assert_eq!(story.bindings_of(CRB, "web").len(), 3);
    bad["metadata"]["labels"] = json!({"a": "b"});
    story.put(CRP, &bad);
    story.settle().await;
    assert_eq!(story.events("ClusterResourcePlacement"), said(2));
    // Mended, it is as any other.
    story.put(CRP, &good);
    story.map("app", "settings", "x").await;
    story.settle().await;
    assert_eq!(story.version(CRP, "", "web"), "1: Namespace app, ConfigMap settings");
    story.kill("hub").await;
    story.start_as("again").await;
    assert_eq!(story.writes("again"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_placement_says_so_in_its_status_where_that_can_be_written() {
    let story = Story::both_scopes(73).await;
    // A definition that lets more pass than we can read.
    for (resource, version) in [(CRP, 0), (CRP, 1), (RP, 0), (RP, 1)] {
        let path = format!("/spec/versions/{version}/schema/openAPIV3Schema/properties/spec");
        story.loosen(resource, &path).await;
    }
    let story = story.starts().await;
    for (resource, kind, space) in &KINDS[2..4] {
        let mut object = nonsense(resource, kind, space, "odd");
        object["metadata"]["generation"] = json!(3);
        object["spec"] = json!({"resourceSelectors": "everything"});
        story.smuggle(resource, object);
    }
    let mut object = nonsense(CRP, "ClusterResourcePlacement", "", "shattered");
    object["metadata"]["generation"] = json!(1);
    object["spec"] = everywhere(&[namespace("app")]);
    object["status"] = json!({"conditions": "nonsense", "placementStatuses": 3});
    story.smuggle(CRP, object);
    story.settle().await;
    for (resource, kind, space) in &KINDS[2..4] {
        assert_eq!(
            story.conditions(resource, space, "odd"),
            ["Scheduled False InvalidPlacement (3)"]
        );
        assert_eq!(
            story.message(resource, space, "odd", "Scheduled"),
            "The placement is invalid: field spec.resourceSelectors cannot be read: invalid type: string \"everything\", expected a sequence"
        );
        assert_eq!(story.events(kind).iter().filter(|e| e.contains(" odd: ")).count(), 1);
    }
    // A status is ours: one that nobody can read is written anew.
    assert_eq!(
        story.conditions(CRP, "", "shattered")[0],
        "Scheduled True SchedulingPolicyFulfilled (1)"
    );
}

// A name that no label can hold; a webhook would have refused it.
#[tokio::test(start_paused = true)]
async fn a_placement_whose_name_is_too_long_says_so_and_can_be_deleted() {
    let story = Story::both_scopes(74).await.starts().await;
    let name = "n".repeat(64);
    story.crp(&name, everywhere(&[namespace("app")])).await;
    story.rp(&name, everywhere(&[map("settings")])).await;
    story.settle().await;
    for (resource, space) in [(CRP, ""), (RP, "app")] {
        assert_eq!(
            story.conditions(resource, space, &name),
            ["Scheduled False InvalidPlacement (1)"]
        );
        assert_eq!(
            story.message(resource, space, &name, "Scheduled"),
            "The placement is invalid: the name field cannot have length exceeding 63; create it under a shorter name"
        );
        story.delete(resource, space, &name).await;
        assert!(story.find(resource, space, &name).is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn definitions_that_not_every_hub_needs_may_be_missing() {
    let story = Story::both_scopes(75).await;
    let optional = [RP, SPS, RS, RB, RUNS, NAMESPACED_RUNS, COPIES];
    let mut definitions = Vec::new();
    for name in optional {
        definitions.push(story.get(DEFINITIONS, "", name));
        story.delete(DEFINITIONS, "", name).await;
    }
    story.settle().await;
    let story = story.starts().await;
    assert_eq!(story.ready("hub").to_string(), "ready");
    story.crp("web", everywhere(&[namespace("app")])).await;
    story.settle().await;
    assert_eq!(story.version(CRP, "", "web"), "0: Namespace app");
    assert_eq!(story.bindings_of(CRB, "web").len(), 2);
    // Whatever is installed later is served from then on.
    for mut definition in definitions {
        let name = definition["metadata"]["name"].clone();
        definition["metadata"] = json!({"name": name});
        story.create(DEFINITIONS, definition).await;
    }
    story.map("app", "settings", "x").await;
    story.rp("web", everywhere(&[map("settings")])).await;
    story.pass(60).await;
    assert_eq!(story.version(RP, "app", "web"), "0: ConfigMap settings");
    assert_eq!(story.bindings_of(RB, "web").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn without_the_others_a_hub_waits_and_says_for_what() {
    let mut story = Story::cluster_wide(76).await;
    let mut definition = story.get(DEFINITIONS, "", CRB);
    story.delete(DEFINITIONS, "", CRB).await;
    story.start_as("hub").await;
    assert!(!story.ready("hub").is_ready());
    assert_eq!(
        story.ready("hub").to_string(),
        format!("not listed yet: the server does not serve {CRB}/v1beta1")
    );
    definition["metadata"] = json!({"name": CRB});
    story.create(DEFINITIONS, definition).await;
    story.pass(60).await;
    assert_eq!(story.ready("hub").to_string(), "ready");
}

// checklist 20.21, 20.27: labels and annotations are strings to every schema.
#[tokio::test(start_paused = true)]
async fn a_snapshot_whose_notes_cannot_be_read_is_told_on_it_and_on_its_placement() {
    let story = Story::both_scopes(77).await.starts().await;
    story.map("app", "settings", "x").await;
    for name in ["web", "api", "well"] {
        story.crp(name, everywhere(&[namespace("app")])).await;
    }
    story.rp("web", everywhere(&[map("settings")])).await;
    story.settle().await;
    let index = json!({"labels": {"kubernetes-fleet.io/resource-index": "first"}});
    story.patch(CRS, "", "web-0-snapshot", json!({"metadata": index})).await;
    let generation = json!({"annotations": {"kubernetes-fleet.io/CRP-generation": "now"}});
    story.patch(CSPS, "", "api-0", json!({"metadata": generation})).await;
    let index = json!({"labels": {"kubernetes-fleet.io/resource-index": null}});
    story.patch(RS, "app", "web-0-snapshot", json!({"metadata": index})).await;
    story.change("app", "settings", "y").await;
    story.settle().await;
    let blocked = |kind: &str, name: &str| {
        let all = story.events(kind);
        all.into_iter()
            .filter(|event| event.contains(&format!(" {name}: ")))
            .filter(|event| {
                event.contains("PlacementBlocked") || event.contains("UnusableSnapshot")
            })
            .collect::<Vec<_>>()
    };
    let bad_index = "resource snapshot web-0-snapshot has a bad resource index label: strconv.Atoi: parsing \"first\": invalid syntax";
    let stays = "the placement stays as it is until this is mended (x1)";
    let correct = "Correct or delete it; until then the placement stays as it is (x1)";
    assert_eq!(
        blocked("ClusterResourcePlacement", "web"),
        [format!("Warning PlacementBlocked web: {bad_index}; {stays}")]
    );
    assert_eq!(
        blocked("ClusterResourceSnapshot", "web-0-snapshot"),
        [format!("Warning UnusableSnapshot web-0-snapshot: {bad_index}. {correct}")]
    );
    let bad_generation = "policy snapshot api-0 has a bad CRP-generation: strconv.Atoi: parsing \"now\": invalid syntax";
    assert_eq!(
        blocked("ClusterSchedulingPolicySnapshot", "api-0"),
        [format!("Warning UnusableSnapshot api-0: {bad_generation}. {correct}")]
    );
    // The scheduler does not guess either.
    let failed = "Warning SchedulingFailed api: annotation kubernetes-fleet.io/CRP-generation of policy snapshot api-0 is not a generation: \"now\" (x1)";
    assert!(story.events("ClusterResourcePlacement").contains(&failed.to_owned()));
    let no_index = "resource snapshot web-0-snapshot has a bad resource index label: it is missing";
    assert_eq!(
        blocked("ResourceSnapshot", "web-0-snapshot"),
        [format!("Warning UnusableSnapshot web-0-snapshot: {no_index}. {correct}")]
    );
    // Nobody else is held up, and the same is said once.
    assert_eq!(story.version(CRP, "", "well"), "1: Namespace app, ConfigMap settings");
    assert_eq!(story.version(CRP, "", "web"), "0: Namespace app, ConfigMap settings");
    story.heartbeats(60).await;
    assert_eq!(blocked("ClusterResourcePlacement", "web").len(), 1);
    assert!(blocked("ClusterResourcePlacement", "web")[0].ends_with("(x1)"));
    // Mended, it goes on.
    let index = json!({"labels": {"kubernetes-fleet.io/resource-index": "0"}});
    story.patch(CRS, "", "web-0-snapshot", json!({"metadata": index})).await;
    story.pass(120).await;
    assert_eq!(story.version(CRP, "", "web"), "1: Namespace app, ConfigMap settings");
}
