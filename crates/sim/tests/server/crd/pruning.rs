//! What the server adds to objects, and what it takes away.

use serde_json::{Value, json};

use crate::crd::fleet::{Fleet, Reply, Version};
use crate::crd::samples;
use crate::crd::spots::{self, Spot, Step};

/// Creates the object, or writes its status where the place is in one of its own.
async fn write(
    fleet: &Fleet,
    version: Version<'_>,
    spot: &Spot<'_>,
    object: Value,
    query: &str,
) -> Reply {
    let mut object = fleet.dress(version, object);
    let status = object.get("status").cloned().unwrap_or(Value::Null);
    if !(spot.is_status() && version.has_status()) {
        return fleet.send("POST", &format!("{}{query}", version.path()), &object).await;
    }
    object["status"].take();
    object = fleet.send("POST", &version.path(), &object).await.ok(201);
    let name = object["metadata"]["name"].as_str().unwrap();
    let path = format!("{}/{name}/status{query}", version.path());
    object["status"] = status;
    fleet.send("PUT", &path, &object).await
}

#[tokio::test]
async fn every_default_is_filled_in() {
    let fleet = Fleet::new().await;
    let mut count = 0;
    for version in fleet.kinds.iter().flat_map(|kind| kind.versions()) {
        for spot in spots::all(version.schema()) {
            let Some(default) = spot.schema.get("default") else { continue };
            let Some((Step::Field(name), parent)) = spot.steps.split_last() else { panic!() };
            count += 1;
            let parent = Spot { steps: parent.to_vec(), ..spot.clone() };
            let mut object = samples::along(version.schema(), &parent.steps);
            let place = object.pointer_mut(&parent.pointer()).unwrap();
            place.as_object_mut().unwrap().remove(name);
            let made = write(&fleet, version, &spot, object, "").await;
            assert!(made.code < 300, "{:#}", made.body);
            let found = made.body.pointer(&spot.pointer());
            assert_eq!(found, Some(default), "{} {}", version.label(), spot.fact());
            let path =
                format!("{}/{}", version.path(), made.body["metadata"]["name"].as_str().unwrap());
            assert_eq!(fleet.get(&path).await.ok(200), made.body);
        }
    }
    assert!(count > 150, "{count}");
}

#[tokio::test]
async fn a_null_is_as_good_as_nothing() {
    let fleet = Fleet::new().await;
    let (mut count, mut wanted) = (0, 0);
    for version in fleet.kinds.iter().map(|kind| kind.storage()) {
        let mut required = Vec::new();
        for spot in spots::all(version.schema()) {
            for name in spot.schema["required"].as_array().into_iter().flatten() {
                let mut steps = spot.steps.clone();
                steps.push(Step::Field(name.as_str().unwrap().to_owned()));
                required.push(steps);
            }
            let Some((Step::Field(name), parent)) = spot.steps.split_last() else { continue };
            if required.contains(&spot.steps) || spot.fact() == ".status" {
                continue;
            }
            count += 1;
            let parent = Spot { steps: parent.to_vec(), ..spot.clone() };
            let mut object = samples::along(version.schema(), &parent.steps);
            object.pointer_mut(&parent.pointer()).unwrap()[name] = Value::Null;
            let made = write(&fleet, version, &spot, object.clone(), "").await;
            if made.code == 422 {
                // A rule wants it; then its absence must be told in the same words.
                let parent = object.pointer_mut(&parent.pointer()).unwrap();
                parent.as_object_mut().unwrap().remove(name);
                let without = write(&fleet, version, &spot, object, "").await;
                assert_eq!(made.causes(version), without.causes(version));
                wanted += 1;
                continue;
            }
            assert!(made.code < 300, "{} {}: {:#}", version.label(), spot.fact(), made.body);
            let found = made.body.pointer(&spot.pointer());
            assert_eq!(found, spot.schema.get("default"), "{} {}", version.label(), spot.fact());
        }
    }
    assert!(count > 600 && wanted < 20, "{count} {wanted}");
}

#[tokio::test]
async fn unknown_fields_are_dropped_with_a_warning_wherever_they_are() {
    let fleet = Fleet::new().await;
    let mut count = 0;
    for version in fleet.kinds.iter().map(|kind| kind.storage()) {
        for spot in spots::all(version.schema()).iter().filter(|spot| is_closed(spot)) {
            count += 1;
            let object = with_surprise(version, spot);
            let reply = write(&fleet, version, spot, object, "").await;
            let dot = if spot.steps.is_empty() { "" } else { "." };
            let unknown = format!("unknown field \\\"{}{dot}surprise\\\"", spot.field());
            assert_eq!(reply.warnings, [format!("299 - \"{unknown}\"")], "{}", version.label());
            assert!(reply.code < 300, "{:#}", reply.body);
            let place = reply.body.pointer(&spot.pointer()).unwrap();
            assert_eq!(place.get("surprise"), None, "{} {}", version.label(), spot.fact());
        }
    }
    assert!(count > 350, "{count}");
}

fn is_closed(spot: &Spot<'_>) -> bool {
    !spot.schema["properties"].is_null()
        && spot.schema["x-kubernetes-preserve-unknown-fields"].is_null()
}

fn with_surprise(version: Version<'_>, spot: &Spot<'_>) -> Value {
    let mut object = samples::along(version.schema(), &spot.steps);
    object.pointer_mut(&spot.pointer()).unwrap()["surprise"] = json!({"deep": [1]});
    object
}

#[tokio::test]
async fn the_caller_says_how_unknown_fields_are_met() {
    let fleet = Fleet::new().await;
    for version in fleet.kinds.iter().flat_map(|kind| kind.versions()) {
        let all = spots::all(version.schema());
        let spot =
            all.iter().rfind(|spot| is_closed(spot) && !spot.steps.is_empty()).unwrap_or(&all[0]);
        let dot = if spot.steps.is_empty() { "" } else { "." };
        let field = format!("{}{dot}surprise", spot.field());
        let say = |mode: &str| format!("?fieldValidation={mode}");

        let ignored =
            write(&fleet, version, spot, with_surprise(version, spot), &say("Ignore")).await;
        assert_eq!(ignored.warnings, [""; 0], "{}", version.label());
        assert!(ignored.code < 300, "{:#}", ignored.body);
        assert_eq!(ignored.body.pointer(&spot.pointer()).unwrap().get("surprise"), None);

        let warned = write(&fleet, version, spot, with_surprise(version, spot), &say("Warn")).await;
        let text = format!(r#"299 - "unknown field \"{field}\"""#);
        assert_eq!(warned.warnings, [text], "{}", version.label());
        assert!(warned.code < 300, "{:#}", warned.body);

        let refused =
            write(&fleet, version, spot, with_surprise(version, spot), &say("Strict")).await;
        let mut status = refused.body;
        let says = status["message"].take();
        let says = says.as_str().unwrap_or_default().to_owned();
        let strict = format!(": strict decoding error: unknown field \"{field}\"");
        assert!(says.contains(" cannot be handled as a ") && says.ends_with(&strict), "{says}");
        assert_eq!(
            status,
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "code": 400, "reason": "BadRequest", "message": null,
            }),
        );
    }
}

#[tokio::test]
async fn several_unknown_fields_are_told_together() {
    let fleet = Fleet::new().await;
    let member = fleet.kind("MemberCluster");
    let version = member.storage();
    let mut object = samples::along(version.schema(), &[]);
    object["spec"]["identity"]["colour"] = json!("red");
    object["spec"]["taint"] = json!([]);
    object["metadata"] = json!({"name": "m", "label": {}});
    let object = fleet.dress(version, object);
    let path = format!("{}?fieldValidation=Strict", version.path());
    let refused = fleet.send("POST", &path, &object).await.ok(400);
    assert_eq!(
        refused["message"],
        "MemberCluster in version \"v1beta1\" cannot be handled as a MemberCluster: strict decoding error: unknown field \"metadata.label\", unknown field \"spec.identity.colour\", unknown field \"spec.taint\""
    );
    let warned = fleet.send("POST", &version.path(), &object).await;
    assert_eq!(
        warned.warnings,
        [
            r#"299 - "unknown field \"metadata.label\"""#,
            r#"299 - "unknown field \"spec.identity.colour\"""#,
            r#"299 - "unknown field \"spec.taint\"""#,
        ]
    );
}

#[tokio::test]
async fn what_is_anyones_is_kept_as_it_is() {
    let fleet = Fleet::new().await;
    let find = |name: &str| fleet.kind(name).storage();
    let manifest = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"a": "b"}},
        "spec": {"surprise": [{"deep": {"er": null}}], "replicas": 3},
    });
    let work = json!({"spec": {"workload": {"manifests": [manifest]}}});
    let made = fleet.create(find("Work"), work.clone()).await;
    assert_eq!(made.warnings, [""; 0]);
    assert_eq!(made.ok(201)["spec"], work["spec"]);

    let envelope = json!({"data": {"a.yaml": manifest, "b.yaml": {"x": [1, 2.5, "c"]}}});
    let made = fleet.create(find("ResourceEnvelope"), envelope.clone()).await;
    assert_eq!(made.warnings, [""; 0]);
    assert_eq!(made.ok(201)["data"], envelope["data"]);

    for value in [json!(1), json!("text"), json!(["a"]), json!({"any": {"thing": true}})] {
        let patch = json!({"op": "add", "path": "/a", "value": value});
        let rules = json!([{"jsonPatchOverrides": [patch]}]);
        let selector = json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"});
        let spec = json!({"resourceSelectors": [selector], "policy": {"overrideRules": rules}});
        let made = fleet.create(find("ResourceOverride"), json!({"spec": spec})).await.ok(201);
        let found = &made["spec"]["policy"]["overrideRules"][0]["jsonPatchOverrides"][0]["value"];
        assert_eq!(*found, value);
    }
}
