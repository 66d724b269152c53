//! Names, namespaces and the rest of metadata.

use serde_json::{Value, json};

use crate::crd::fleet::{Fleet, Version};
use crate::crd::samples;

fn named(version: Version<'_>, name: &str) -> Value {
    let mut object = samples::along(version.schema(), &[]);
    object["metadata"]["name"] = name.into();
    object
}

#[tokio::test]
async fn a_member_has_a_name_that_fits_a_label() {
    let fleet = Fleet::new().await;
    for version in fleet.kind("MemberCluster").versions() {
        let long = "m".repeat(64);
        let refused = fleet.create(version, named(version, &long)).await.ok(422);
        assert_eq!(
            refused["message"],
            format!(
                "MemberCluster.cluster.kubernetes-fleet.io \"{long}\" is invalid: <nil>: Invalid value: \"object\": metadata.name max length is 63"
            )
        );
        let name = format!("{:m<63}", Fleet::fresh_name());
        fleet.create(version, named(version, &name)).await.ok(201);
    }
}

#[tokio::test]
async fn a_made_up_name_fits_however_long_its_beginning_is() {
    let fleet = Fleet::new().await;
    let version = fleet.kind("MemberCluster").storage();
    let mut object = samples::along(version.schema(), &[]);
    object["apiVersion"] = version.api_version().into();
    object["kind"] = "MemberCluster".into();
    object["metadata"] = json!({"generateName": "g".repeat(100)});
    let made = fleet.send("POST", &version.path(), &object).await.ok(201);
    let name = made["metadata"]["name"].as_str().unwrap();
    assert_eq!((name.len(), &name[..58]), (63, &*"g".repeat(58)));
}

#[tokio::test]
async fn every_kind_wants_a_name_of_a_subdomain() {
    let fleet = Fleet::new().await;
    let rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    for kind in fleet.kinds.iter() {
        let version = kind.storage();
        let bad = fleet.create(version, named(version, "Web_1")).await;
        assert_eq!(
            bad.causes(version)[0],
            format!("FieldValueInvalid | metadata.name: Invalid value: \"Web_1\": {rule}"),
        );
        let name = format!("a.{}.b-c", Fleet::fresh_name());
        let made = fleet.create(version, named(version, &name)).await.ok(201);
        assert_eq!(made["metadata"]["generation"], 1);
        let again = fleet.create(version, named(version, &name)).await.ok(409);
        assert_eq!(
            again["message"],
            format!("{}.{} \"{name}\" already exists", kind.plural(), kind.group())
        );
    }
}

#[tokio::test]
async fn labels_are_checked_on_every_kind() {
    let fleet = Fleet::new().await;
    for kind in fleet.kinds.iter() {
        let version = kind.storage();
        let mut object = named(version, &Fleet::fresh_name());
        object["metadata"]["labels"] = json!({"a b": "c"});
        let causes = fleet.create(version, object).await.causes(version);
        assert_eq!(
            causes[0],
            "FieldValueInvalid | metadata.labels: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        );
    }
}

#[tokio::test]
async fn only_a_changed_spec_counts_as_a_generation() {
    let fleet = Fleet::new().await;
    let version = fleet.kind("ClusterStagedUpdateRun").storage();
    let made = fleet.create(version, samples::full(version.schema())).await;
    let path = format!("{}/{}", version.path(), made.body["metadata"]["name"].as_str().unwrap());
    assert_eq!(made.ok(200)["metadata"]["generation"], 1);
    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    let labelled = fleet.send("PATCH", &path, &patch).await.ok(200);
    assert_eq!(labelled["metadata"]["generation"], 1);
    let status = json!({"status": {"policySnapshotIndexUsed": "7"}, "spec": {"state": "Run"}});
    let seen = fleet.send("PATCH", &format!("{path}/status"), &status).await.ok(200);
    assert_eq!(seen["metadata"]["generation"], 1);
    assert_eq!(seen["spec"]["state"], "Initialize", "status has a path of its own");
    assert_eq!(seen["status"]["policySnapshotIndexUsed"], "7");
    let spec = json!({"spec": {"state": "Run"}, "status": {"policySnapshotIndexUsed": "8"}});
    let run = fleet.send("PATCH", &path, &spec).await.ok(200);
    assert_eq!(run["metadata"]["generation"], 2);
    assert_eq!(run["status"]["policySnapshotIndexUsed"], "7", "and spec has its own");
}

#[tokio::test]
async fn where_status_has_no_path_it_is_a_field_like_others() {
    let fleet = Fleet::new().await;
    for kind in fleet.kinds.iter().filter(|kind| !kind.storage().has_status()) {
        let version = kind.storage();
        if version.schema()["properties"]["status"].is_null() {
            continue;
        }
        let sample = samples::full(version.schema());
        let made = fleet.create(version, sample.clone()).await.ok(201);
        assert_eq!(made["status"], sample["status"], "{}", kind.name());
    }
}
