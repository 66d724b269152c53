//! A tenant of the hub who wants to be more on members.

use flagship_sim::fleet::{Fleet, FleetConfig};
use flagship_sim::stories;

async fn told(config: FleetConfig) {
    let fleet = Fleet::joined(config).await;
    stories::named(stories::TENANT)(&fleet.clusters).await;
}

#[tokio::test(start_paused = true)]
async fn a_tenant_reaches_nothing_but_its_namespace() {
    told(FleetConfig::of(3)).await;
}

#[tokio::test(start_paused = true)]
async fn a_tenant_reaches_no_more_on_a_hub_without_webhooks() {
    told(FleetConfig::of(3).without_admission()).await;
}
