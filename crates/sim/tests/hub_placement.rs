//! Stories of the placement controller at work: a hub on the embedded server, paused
//! time, the scheduler beside it.
//!
//! What a pass decides is told beside the rules; here is when it looks, what it writes,
//! and what it leaves alone.

mod hub_world;

use flagship_hub::Options;
use hub_world::{CRP, CSPS, World};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_placement_gets_its_snapshots_its_clusters_and_its_status() {
    let mut world = World::new(1).await;
    world.cluster("m1", json!({})).await;
    world.start("hub", Options::default());
    let selector = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]);
    let spec = json!({"resourceSelectors": selector, "policy": {"placementType": "PickAll"}});
    world.create(CRP, json!({"metadata": {"name": "web"}, "spec": spec})).await;
    world.settle().await;
    println!("{}", serde_json::to_string_pretty(&world.get(CRP, "", "web")).unwrap());
    println!("{}", serde_json::to_string_pretty(&world.list(CSPS, "")).unwrap());
    println!("{}", serde_json::to_string_pretty(&world.list("clusterresourcesnapshots.placement.kubernetes-fleet.io", "")).unwrap());
    println!("{:#?}", world.writes("hub"));
    println!("{:#?}", world.events());
    panic!();
}
