//! Objects as large as they may be, and larger.

use flagship_runtime::client::Refused;
use flagship_sim::fleet::FleetConfig;
use serde_json::{Value, json};

use crate::hostile::scene::*;

fn secret(bytes: usize) -> Value {
    // Base64 of zeros: four letters for three of them.
    let (whole, rest) = (bytes / 3, bytes % 3);
    let text = format!("{}{}", "AAAA".repeat(whole), ["", "AA==", "AAA="][rest]);
    json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "huge", "namespace": "large"}, "data": {"blob": text}})
}

// laws 2.7: Secrets above 1 MiB
#[tokio::test(start_paused = true)]
async fn a_secret_of_a_megabyte_arrives_and_a_larger_one_is_refused_where_it_is_written() {
    const MOST: usize = 1024 * 1024;
    let scene = Scene::with(FleetConfig::of(1)).await;
    scene.namespace("large").await;
    scene.map("large", "small", json!({})).await;
    let refused: Result<Value, Refused> = scene.hub().try_apply(&secret(MOST + 1)).await;
    let says = refused.unwrap_err().says;
    assert!(says.contains("Too long: may not be more than 1048576 bytes"), "{says}");
    scene.hub().apply_object(&secret(MOST)).await;
    scene.place("large", &[selector("", "v1", "Namespace", "large")], json!({})).await;
    scene.becomes("large", "Available", "True").await;
    for member in scene.fleet.clusters.members() {
        let huge = member.get("secrets", "large", "huge").await;
        assert_eq!(huge["data"], secret(MOST)["data"]);
        // There is no room to remember it, so the server merges it.
        let notes = &huge["metadata"]["annotations"];
        assert_eq!(notes["kubernetes-fleet.io/last-applied-configuration"], "");
    }
    scene.nothing_else_suffers().await;
    scene.hub().apply_object(&secret(MOST - 3)).await;
    let is_new = |found: Option<&Value>| {
        found.is_some_and(|one| {
            one["data"]["blob"].as_str().unwrap_or_default().len() == 4 * ((MOST - 3) / 3) + 4
        })
    };
    scene.member("member1").eventually("secrets", "large", "huge", is_new).await;
    scene.becomes("large", "Available", "True").await;
}
