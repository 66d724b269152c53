//! What a node would say of its pods, for clusters that have none.

use std::time::Duration;

use flagship_runtime::env::Env;
use flagship_sim::fleet::Cluster;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// Where pods take a while to get ready, as all do where the transcript was written down:
/// what nobody has time to look at cannot be told. Everywhere else they are ready at once.
const SLOW: &str = "toys";
const SLOWLY: SignedDuration = SignedDuration::from_secs(6);

/// Says of every pod what a node would say a moment after it got it.
pub async fn play_kubelet(member: Cluster, env: Env) {
    loop {
        for pod in member.list("pods", "").await {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let space = pod["metadata"]["namespace"].as_str().unwrap_or_default();
            let is_told = !pod["status"]["containerStatuses"].is_null();
            if !is_told && (space != SLOW || age(&pod, &env) >= SLOWLY) {
                member.patch_status("pods", space, name, status_of(&pod)).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

fn age(pod: &Value, env: &Env) -> SignedDuration {
    let made = pod["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
    let made: Timestamp = made.parse().unwrap_or(Timestamp::MIN);
    env.now().duration_since(made)
}

fn status_of(pod: &Value) -> Value {
    let containers = pod["spec"]["containers"].as_array().cloned().unwrap_or_default();
    let readable = |image: &str| !image.contains("::");
    let good = containers.iter().all(|c| readable(c["image"].as_str().unwrap_or_default()));
    let statuses: Vec<Value> = containers
        .iter()
        .map(|container| {
            let state = match readable(container["image"].as_str().unwrap_or_default()) {
                true => json!({"running": {"startedAt": pod["metadata"]["creationTimestamp"]}}),
                false => json!({"waiting": {"reason": "InvalidImageName"}}),
            };
            json!({
                "name": container["name"], "image": container["image"], "imageID": "",
                "ready": good, "restartCount": 0, "state": state,
            })
        })
        .collect();
    let status = if good { "True" } else { "False" };
    json!({
        "phase": if good { "Running" } else { "Pending" },
        "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": pod["metadata"]["creationTimestamp"]}],
        "containerStatuses": statuses,
    })
}
