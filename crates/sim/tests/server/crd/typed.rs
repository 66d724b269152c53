//! Our types through `kube::Client`, as controllers use them.

use flagship_api::approval::{ApprovalRequestSpec, ClusterApprovalRequest};
use flagship_api::cluster::MemberCluster;
use flagship_api::kinds::FleetKind;
use flagship_api::staged_update::{ClusterStagedUpdateRun, UpdateRunSpec, UpdateRunState};
use flagship_api::staged_update_status::UpdateRunStatus;
use flagship_api::work::{Work, WorkSpec, WorkStatus};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::{Client, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::crd::fleet::Fleet;
use crate::crd::samples;

async fn client() -> Client {
    Client::new(Fleet::new().await.cluster, "default")
}

fn run(name: &str) -> ClusterStagedUpdateRun {
    ClusterStagedUpdateRun {
        metadata: kube::core::ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([("story".to_owned(), name.to_owned())].into()),
            ..Default::default()
        },
        spec: UpdateRunSpec {
            placement_name: "web".to_owned(),
            resource_snapshot_index: "3".to_owned(),
            staged_rollout_strategy_name: "canary-first".to_owned(),
            state: None,
        },
        status: None,
    }
}

#[track_caller]
fn status(error: kube::Error) -> kube::core::Status {
    match error {
        kube::Error::Api(status) => *status,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_is_created_read_listed_and_deleted() {
    let runs: Api<ClusterStagedUpdateRun> = Api::all(client().await);
    let name = Fleet::fresh_name();
    let made = runs.create(&PostParams::default(), &run(&name)).await.unwrap();
    assert_eq!(made.spec.state, Some(UpdateRunState::Initialize), "filled in by the server");
    assert_eq!((made.metadata.generation, &made.status), (Some(1), &None));
    assert_eq!(runs.get(&name).await.unwrap(), made);

    let list = runs.list(&ListParams::default().labels(&format!("story={name}"))).await.unwrap();
    assert_eq!(list.items, std::slice::from_ref(&made));
    let again = status(runs.create(&PostParams::default(), &run(&name)).await.unwrap_err());
    assert_eq!((again.code, &*again.reason), (409, "AlreadyExists"));

    runs.delete(&name, &DeleteParams::default()).await.unwrap();
    assert_eq!(runs.get_opt(&name).await.unwrap(), None);
    let gone = status(runs.get(&name).await.unwrap_err());
    assert_eq!(
        gone.message,
        format!("clusterstagedupdateruns.placement.kubernetes-fleet.io \"{name}\" not found")
    );
}

#[tokio::test(start_paused = true)]
async fn spec_and_status_are_written_apart() {
    let runs: Api<ClusterStagedUpdateRun> = Api::all(client().await);
    let name = Fleet::fresh_name();
    let mut made = runs.create(&PostParams::default(), &run(&name)).await.unwrap();
    made.status = Some(UpdateRunStatus {
        policy_snapshot_index_used: "0".to_owned(),
        policy_observed_cluster_count: 3,
        ..UpdateRunStatus::default()
    });
    made.spec.state = Some(UpdateRunState::Run);
    let seen = runs.replace_status(&name, &PostParams::default(), &made).await.unwrap();
    assert_eq!(seen.status, made.status);
    assert_eq!(seen.spec.state, Some(UpdateRunState::Initialize));
    assert_eq!(seen.metadata.generation, Some(1));
    assert_eq!(runs.get_status(&name).await.unwrap(), seen);

    let patch = Patch::Merge(json!({"spec": {"state": "Run"}, "status": null}));
    let started = runs.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(started.spec.state, Some(UpdateRunState::Run));
    assert_eq!(started.metadata.generation, Some(2));
    assert_eq!(started.status, seen.status);

    let patch = Patch::Merge(json!({"status": {"policyObservedClusterCount": 4}}));
    let counted = runs.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(counted.status.unwrap().policy_observed_cluster_count, 4);
}

#[tokio::test(start_paused = true)]
async fn who_read_an_old_revision_is_told_so() {
    let runs: Api<ClusterStagedUpdateRun> = Api::all(client().await);
    let name = Fleet::fresh_name();
    let first = runs.create(&PostParams::default(), &run(&name)).await.unwrap();
    let mut second = first.clone();
    second.spec.state = Some(UpdateRunState::Run);
    runs.replace(&name, &PostParams::default(), &second).await.unwrap();
    let says = format!(
        "Operation cannot be fulfilled on clusterstagedupdateruns.placement.kubernetes-fleet.io \"{name}\": the object has been modified; please apply your changes to the latest version and try again"
    );
    let whole = runs.replace(&name, &PostParams::default(), &first).await.unwrap_err();
    let its_status = runs.replace_status(&name, &PostParams::default(), &first).await.unwrap_err();
    for stale in [whole, its_status] {
        let stale = status(stale);
        assert_eq!((stale.code, &*stale.reason, &*stale.message), (409, "Conflict", &*says));
    }
    let gone = DeleteParams {
        preconditions: Some(kube::api::Preconditions {
            resource_version: first.resource_version(),
            uid: None,
        }),
        ..DeleteParams::default()
    };
    assert_eq!(status(runs.delete(&name, &gone).await.unwrap_err()).reason, "Conflict");
}

#[tokio::test(start_paused = true)]
async fn a_refused_change_names_the_field() {
    let runs: Api<ClusterStagedUpdateRun> = Api::all(client().await);
    let name = Fleet::fresh_name();
    runs.create(&PostParams::default(), &run(&name)).await.unwrap();
    let patch = Patch::Merge(json!({"spec": {"placementName": "other", "state": "Stop"}}));
    let refused = status(runs.patch(&name, &PatchParams::default(), &patch).await.unwrap_err());
    assert_eq!((refused.code, &*refused.reason), (422, "Invalid"));
    let causes: Vec<String> = refused
        .details
        .unwrap()
        .causes
        .iter()
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect();
    assert_eq!(
        causes,
        [
            "spec: Invalid value: \"object\": invalid state transition: cannot transition from Initialize to Stop",
            "spec.placementName: Invalid value: \"string\": placementName is immutable",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_watcher_sees_every_change_in_order() {
    let runs: Api<ClusterStagedUpdateRun> = Api::all(client().await);
    let name = Fleet::fresh_name();
    let labels = format!("story={name}");
    let from = runs.list(&ListParams::default().labels(&labels)).await.unwrap();
    let from = from.metadata.resource_version.unwrap();
    let params = WatchParams::default().labels(&labels).timeout(10);
    let events = runs.watch(&params, &from).await.unwrap();

    let mut made = runs.create(&PostParams::default(), &run(&name)).await.unwrap();
    made.spec.state = Some(UpdateRunState::Run);
    let made = runs.replace(&name, &PostParams::default(), &made).await.unwrap();
    let same = runs.replace(&name, &PostParams::default(), &made).await.unwrap();
    assert_eq!(same.resource_version(), made.resource_version(), "nothing changed");
    let mut seen = made.clone();
    seen.status = Some(UpdateRunStatus::default());
    runs.replace_status(&name, &PostParams::default(), &seen).await.unwrap();
    runs.delete(&name, &DeleteParams::default()).await.unwrap();

    let told: Vec<String> = events
        .map_ok(|event| match event {
            WatchEvent::Added(run) => format!("added {:?}", run.spec.state.unwrap()),
            WatchEvent::Modified(run) => {
                format!("modified {:?} {}", run.spec.state.unwrap(), run.status.is_some())
            }
            WatchEvent::Deleted(run) => format!("deleted {}", run.status.is_some()),
            other => format!("{other:?}"),
        })
        .take(4)
        .try_collect()
        .await
        .unwrap();
    assert_eq!(
        told,
        ["added Initialize", "modified Run false", "modified Run true", "deleted true"]
    );
}

#[tokio::test(start_paused = true)]
async fn works_live_in_the_namespace_of_their_member() {
    let client = client().await;
    let name = Fleet::fresh_name();
    let home = format!("fleet-member-{name}");
    let mut space = Namespace::default();
    space.metadata.name = Some(home.clone());
    let spaces: Api<Namespace> = Api::all(client.clone());
    let works: Api<Work> = Api::namespaced(client.clone(), &home);
    let manifest = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"z":"1","a":"2"}}"#;
    let mut work = Work {
        metadata: kube::core::ObjectMeta { name: Some(name.clone()), ..Default::default() },
        spec: serde_json::from_value::<WorkSpec>(
            json!({"workload": {"manifests": [serde_json::from_str::<serde_json::Value>(manifest).unwrap()]}}),
        )
        .unwrap(),
        status: None,
    };
    let homeless = status(works.create(&PostParams::default(), &work).await.unwrap_err());
    assert_eq!(
        (homeless.code, &*homeless.message),
        (404, &*format!("namespaces \"{home}\" not found"))
    );
    spaces.create(&PostParams::default(), &space).await.unwrap();
    let made = works.create(&PostParams::default(), &work).await.unwrap();
    assert_eq!(made.namespace().as_deref(), Some(&*home));
    assert_eq!(made.spec.workload.manifests, work.spec.workload.manifests);
    assert_eq!(works.get(&name).await.unwrap(), made);
    let here = works.list(&ListParams::default()).await.unwrap();
    assert_eq!(here.items, std::slice::from_ref(&made));
    let elsewhere: Api<Work> = Api::namespaced(client.clone(), "default");
    assert_eq!(elsewhere.get_opt(&name).await.unwrap(), None);
    let only = ListParams::default().fields(&format!("metadata.name={name}"));
    let all = Api::<Work>::all(client).list(&only).await.unwrap();
    assert_eq!(all.items, std::slice::from_ref(&made));

    let from = here.metadata.resource_version.unwrap();
    let events = works.watch(&WatchParams::default().timeout(10), &from).await.unwrap();
    work.metadata = made.metadata.clone();
    work.spec.workload.manifests.clear();
    let emptied = works.replace(&name, &PostParams::default(), &work).await.unwrap();
    assert_eq!(emptied.metadata.generation, Some(2));
    let stale = status(works.replace(&name, &PostParams::default(), &made).await.unwrap_err());
    assert_eq!(stale.reason, "Conflict");
    work.metadata = emptied.metadata;
    work.status = Some(WorkStatus::default());
    let applied = works.replace_status(&name, &PostParams::default(), &work).await.unwrap();
    assert_eq!((applied.metadata.generation, &applied.status), (Some(2), &work.status));
    let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    let labelled = works.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(labelled.labels()["a"], "b");
    works.delete(&name, &DeleteParams::default()).await.unwrap();
    assert_eq!(works.get_opt(&name).await.unwrap(), None);
    let told: Vec<_> = events
        .map_ok(|event| match event {
            WatchEvent::Modified(work) => (work.labels().len(), work.status.is_some()),
            WatchEvent::Deleted(_) => (9, true),
            other => panic!("{other:?}"),
        })
        .take(4)
        .try_collect()
        .await
        .unwrap();
    assert_eq!(told, [(0, false), (0, true), (1, true), (9, true)]);
}

#[tokio::test(start_paused = true)]
async fn two_appliers_share_a_member_and_quarrel_over_one_field() {
    let members: Api<MemberCluster> = Api::all(client().await);
    let name = Fleet::fresh_name();
    let member = |spec: serde_json::Value| {
        Patch::Apply(json!({
            "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
            "metadata": {"name": name}, "spec": spec,
        }))
    };
    let identity = json!({"kind": "ServiceAccount", "name": "agent", "namespace": "fleet-system"});
    let first = member(json!({"identity": identity, "heartbeatPeriodSeconds": 30}));
    let made = members.patch(&name, &PatchParams::apply("hub"), &first).await.unwrap();
    assert_eq!(made.spec.heartbeat_period_seconds, Some(30));
    let second = member(json!({"identity": identity, "heartbeatPeriodSeconds": 15}));
    let quarrel = members.patch(&name, &PatchParams::apply("person"), &second).await.unwrap_err();
    let quarrel = status(quarrel);
    assert_eq!(quarrel.reason, "Conflict");
    assert_eq!(
        quarrel.message,
        "Apply failed with 1 conflict: conflict with \"hub\": .spec.heartbeatPeriodSeconds"
    );
    let forced = PatchParams::apply("person").force();
    let taken = members.patch(&name, &forced, &second).await.unwrap();
    assert_eq!(taken.spec.heartbeat_period_seconds, Some(15));
}

/// Reads an object into its type, writes what the type holds, and sees no difference.
async fn survives<K>(fleet: &Fleet)
where
    K: FleetKind + Serialize + DeserializeOwned,
{
    let version = fleet.kind(K::INFO.kind).storage();
    for mut sample in [samples::full(version.schema()), samples::along(version.schema(), &[])] {
        // The one type that writes more than the schema asks for, as Go's does.
        if K::INFO.kind == "Work" && sample["spec"].is_null() {
            sample["spec"] = json!({"workload": {}});
        }
        let reply = fleet.create(version, sample).await;
        assert!(reply.code < 300, "{}: {:#}", version.label(), reply.body);
        let stored = reply.body;
        let object: K = serde_json::from_value(stored.clone()).unwrap();
        let written = serde_json::to_value(&object).unwrap();
        let path = format!("{}/{}", version.path(), stored["metadata"]["name"].as_str().unwrap());
        let paths = [Some(path.clone()), version.has_status().then(|| format!("{path}/status"))];
        for path in paths.into_iter().flatten() {
            let again = fleet.send("PUT", &path, &written).await;
            assert_eq!(again.warnings, [""; 0], "{path}");
            assert_eq!(again.ok(200), stored, "{path}");
        }
    }
}

#[tokio::test]
async fn reading_and_writing_through_the_types_changes_nothing() {
    let fleet = Fleet::new().await;
    macro_rules! each {
        ($($module:ident::$Kind:ident),*) => {
            $(survives::<flagship_api::$module::$Kind>(&fleet).await;)*
        };
    }
    flagship_api::every_kind!(each);
}

#[tokio::test(start_paused = true)]
async fn two_controllers_own_a_condition_each() {
    let requests: Api<ClusterApprovalRequest> = Api::all(client().await);
    let name = Fleet::fresh_name();
    let request = ClusterApprovalRequest {
        metadata: kube::core::ObjectMeta { name: Some(name.clone()), ..Default::default() },
        spec: ApprovalRequestSpec {
            parent_stage_rollout: "run".to_owned(),
            target_stage: "canary".to_owned(),
        },
        status: None,
    };
    requests.create(&PostParams::default(), &request).await.unwrap();
    let says = |kind: &str, truth: &str| {
        let condition = json!({
            "type": kind, "status": truth, "reason": "Said", "message": "",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        });
        Patch::Apply(json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterApprovalRequest",
            "metadata": {"name": name}, "status": {"conditions": [condition]},
        }))
    };
    let person = PatchParams::apply("person");
    requests.patch_status(&name, &person, &says("Approved", "True")).await.unwrap();
    let run = PatchParams::apply("run");
    let both = requests.patch_status(&name, &run, &says("ApprovalAccepted", "True")).await.unwrap();
    let conditions = both.status.unwrap().conditions;
    let kinds: Vec<&str> = conditions.iter().map(|condition| &*condition.type_).collect();
    assert_eq!(kinds, ["Approved", "ApprovalAccepted"]);
    let meddling = requests.patch_status(&name, &run, &says("Approved", "False")).await;
    assert_eq!(
        status(meddling.unwrap_err()).message,
        "Apply failed with 1 conflict: conflict with \"person\" with subresource \"status\": .status.conditions[type=\"Approved\"].status"
    );
}

#[tokio::test(start_paused = true)]
async fn patches_of_every_kind_are_taken_but_the_strategic() {
    let runs: Api<ClusterStagedUpdateRun> = Api::all(client().await);
    let name = Fleet::fresh_name();
    runs.create(&PostParams::default(), &run(&name)).await.unwrap();
    let strategic = Patch::Strategic(json!({"spec": {"state": "Run"}}));
    let refused = status(runs.patch(&name, &PatchParams::default(), &strategic).await.unwrap_err());
    assert_eq!((refused.code, &*refused.reason), (415, "UnsupportedMediaType"));
    assert_eq!(
        refused.message,
        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    );
}
