//! How soon an edit on the hub is applied on three members, and how soon a placement says
//! Available once the last object on a member is: with 20 placements on the fleet.
//!
//! The whole fleet runs in one thread by the machine's clock; pods are ready at once.
//! `cargo run --release -p flagship-sim --example delivery_latency`, with another number of
//! edits behind `--`. A thousand take one to two minutes; of fewer than a few hundred, the
//! 99th of a hundred says little more than the worst one.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#![allow(clippy::disallowed_methods, reason = "measures the fleet, decides nothing")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up has failed")]

use std::time::{Duration, Instant};

use flagship_sim::fleet::{Fleet, FleetConfig, HUB};
use flagship_store::ObjectKey;
use jiff::SignedDuration;
use serde_json::{Value, json};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CRP: &str = "clusterresourceplacements";
const PLACEMENTS: usize = 20;
const EDITS: usize = 1_000;

fn main() {
    let Some(edits) = asked() else {
        println!("usage: delivery_latency [EDITS], with 1 edit or more; {EDITS} if none is given");
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let fleet = fleet().await;
        let (mut applied, mut told) = (Vec::new(), Vec::new());
        for edit in 0..edits {
            let name = format!("app{}", edit % PLACEMENTS);
            let (reached, available) = one_edit(&fleet, &name, edit + 2).await;
            applied.push(reached);
            told.push(available);
        }
        println!("| {edits} edits, {PLACEMENTS} placements, 3 members | p50 | p99 | max |");
        println!("|---|---|---|---|");
        print("edit on the hub to applied on 3 members", applied);
        print("last member's object ready to placement Available", told);
    });
}

/// How many edits to make, if what was asked for makes sense.
fn asked() -> Option<usize> {
    match std::env::args().nth(1) {
        Some(edits) => edits.parse().ok().filter(|&edits| edits > 0),
        None => Some(EDITS),
    }
}

fn print(what: &str, mut spans: Vec<Duration>) {
    spans.sort_unstable();
    // The smallest that so many in a hundred do not exceed.
    let at = |part: usize| spans[(spans.len() * part).div_ceil(100).max(1) - 1];
    println!("| {what} | {:.1?} | {:.1?} | {:.1?} |", at(50), at(99), spans[spans.len() - 1]);
}

async fn fleet() -> Fleet {
    let mut config = FleetConfig::of(3).real_time();
    config.workloads.ready_after = SignedDuration::ZERO;
    config.workloads.start_after = SignedDuration::ZERO;
    let fleet = Fleet::joined(config).await;
    for n in 0..PLACEMENTS {
        let name = format!("app{n}");
        fleet.clusters.hub.apply(&objects(&name)).await;
    }
    for n in 0..PLACEMENTS {
        let kind = "ClusterResourcePlacementAvailable";
        fleet.clusters.hub.becomes(CRP, "", &format!("app{n}"), kind, "True").await;
    }
    fleet
}

fn objects(name: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Namespace
metadata: {{name: {name}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: {name}, annotations: {{edit: '1'}}}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{containers: [{{name: web, image: 'nginx:1'}}]}}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {{name: {name}}}
spec:
  resourceSelectors: [{{group: '', version: v1, kind: Namespace, name: {name}}}]
  policy: {{placementType: PickAll}}
  strategy: {{type: RollingUpdate, rollingUpdate: {{maxUnavailable: 100%}}}}
"
    )
}

/// Changes the image, and watches the members' stores and then the placement.
async fn one_edit(fleet: &Fleet, name: &str, edit: usize) -> (Duration, Duration) {
    let image = format!("nginx:{edit}");
    let container = json!([{"name": "web", "image": image}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": container}}}});
    let begun = Instant::now();
    fleet.clusters.hub.patch("deployments", name, "web", patch).await;
    let mut applied = None;
    let mut ready = None;
    loop {
        let seen: Vec<Value> = ["member1", "member2", "member3"]
            .iter()
            .filter_map(|member| read(fleet, member, "deployments.apps", name, "web"))
            .filter(|web| {
                web["spec"]["template"]["spec"]["containers"][0]["image"] == image.as_str()
            })
            .collect();
        if seen.len() == 3 {
            applied.get_or_insert_with(|| begun.elapsed());
            if seen.iter().all(is_ready) {
                ready.get_or_insert_with(Instant::now);
            }
        }
        if let (Some(applied), Some(ready)) = (applied, ready)
            && read(fleet, HUB, CRP_STORED, "", name).is_some_and(|crp| is_available(&crp, edit))
        {
            return (applied, ready.elapsed());
        }
        // Lets the controllers work; a sleep would be rounded up to a millisecond.
        tokio::task::yield_now().await;
    }
}

const CRP_STORED: &str = "clusterresourceplacements.placement.kubernetes-fleet.io";

fn read(fleet: &Fleet, cluster: &str, resource: &str, space: &str, name: &str) -> Option<Value> {
    let stored = fleet.handle(cluster).store().get(resource, &ObjectKey::new(space, name))?;
    serde_json::from_slice(&stored.json).ok()
}

fn is_ready(web: &Value) -> bool {
    let status = &web["status"];
    status["observedGeneration"] == web["metadata"]["generation"]
        && status["updatedReplicas"] == 1
        && status["availableReplicas"] == 1
        && status["replicas"] == 1
}

/// Available, of a version that has this edit: versions are counted from the first.
fn is_available(crp: &Value, edit: usize) -> bool {
    let wanted = (edit - 2) / PLACEMENTS + 1;
    let index = crp["status"]["observedResourceIndex"].as_str().unwrap_or_default();
    index == wanted.to_string()
        && crp["status"]["conditions"].as_array().into_iter().flatten().any(|condition| {
            condition["type"] == "ClusterResourcePlacementAvailable"
                && condition["status"] == "True"
        })
}
