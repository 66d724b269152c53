//! Members whose heartbeats are wrong or too many.

use std::collections::BTreeSet;

use serde_json::json;

use crate::hostile::scene::*;

const REPORTS: &str = "internalmemberclusters";

#[tokio::test(start_paused = true)]
async fn a_member_that_reports_without_end_does_not_make_the_hub_write_as_often() {
    let scene = Scene::new().await;
    let mut versions = BTreeSet::new();
    let report = scene.hub().get(REPORTS, "fleet-member-member1", "member1").await;
    for beat in 0..930 {
        let mut agents = report["status"]["agentStatus"].clone();
        let time = format!("2000-01-01T00:{:02}:{:02}Z", beat / 60, beat % 60);
        agents[0]["lastReceivedHeartbeat"] = json!(time);
        let status = json!({"agentStatus": agents});
        scene.hub().patch_status(REPORTS, "fleet-member-member1", "member1", status).await;
        let member = scene.hub().get("memberclusters", "", "member1").await;
        versions.insert(member["metadata"]["resourceVersion"].as_str().unwrap().to_owned());
    }
    assert!(versions.len() <= 15, "{} writes for 930 reports", versions.len());
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_from_2099_is_not_believed() {
    let mut scene = Scene::new().await;
    scene.fleet.stop("member1").await;
    let report = scene.hub().get(REPORTS, "fleet-member-member1", "member1").await;
    let mut agents = report["status"]["agentStatus"].clone();
    agents[0]["lastReceivedHeartbeat"] = json!("2099-01-01T00:00:00Z");
    let status = json!({"agentStatus": agents});
    scene.hub().patch_status(REPORTS, "fleet-member-member1", "member1", status).await;
    scene.fleet.pass(5).await;
    let member = scene.hub().get("memberclusters", "", "member1").await;
    let heard = member["status"]["agentStatus"][0]["lastReceivedHeartbeat"].as_str().unwrap();
    assert!(heard < "2099", "{heard}");
}
