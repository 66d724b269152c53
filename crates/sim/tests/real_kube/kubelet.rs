//! What a node would say of its pods, for clusters that have none.

use std::time::Duration;

use flagship_sim::fleet::Cluster;
use serde_json::{Value, json};

/// Says of every pod what a node would say, once that is due, and again when its images change.
pub async fn play_kubelet(member: Cluster, is_due: impl Fn(&Value) -> bool) {
    loop {
        for pod in member.list("pods", "").await {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let space = pod["metadata"]["namespace"].as_str().unwrap_or_default();
            let status = status_of(&pod);
            if is_due(&pod) && !is_said(&pod["status"], &status) {
                // One that went meanwhile needs no status.
                drop(member.try_patch_status("pods", space, name, status).await);
            }
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// Whether a status says of its containers what another does.
fn is_said(status: &Value, wanted: &Value) -> bool {
    let of = |status: &Value| -> Vec<(Value, Value)> {
        let all = status["containerStatuses"].as_array().into_iter().flatten();
        all.map(|one| (one["image"].clone(), one["ready"].clone())).collect()
    };
    of(status) == of(wanted)
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
