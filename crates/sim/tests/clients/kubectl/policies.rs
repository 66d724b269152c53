//! Sessions of people with a fleet under rollout policies and freezes: each file in `policies/`
//! shows a run of either scope, side by side.
//!
//! The fleet is that of `guides`, with as many members as the session needs; `member2` is the
//! first to be updated, images that begin with `nginx:typo` are not there, and everything else is
//! ready after ten seconds.

use flagship_sim::fleet::{Fleet, FleetConfig};
use jiff::SignedDuration;

use super::guides::replay_on;
use super::stories::all_told;
use super::transcript::kubectl;

macro_rules! sessions {
    ($($name:ident: $members:expr),* $(,)?) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $name() {
                let Some(kubectl) = kubectl(stringify!($name)) else { return };
                let file = concat!("policies/", stringify!($name));
                replay_on(&fleet($members).await, file, stringify!($name), kubectl).await;
            }
        )*

        #[test]
        fn every_session_is_told() {
            all_told("policies", &[$(stringify!($name)),*]);
        }
    };
}

sessions!(
    a_bad_image_is_rolled_back: 3,
    a_cluster_joins_and_one_leaves: 3,
    a_rollback_that_fails: 3,
    clusters_are_skipped_and_retried: 3,
    one_bad_cluster_of_twenty: 20,
    one_silent_cluster: 3,
    policy_kinds: 3,
    two_people_freeze: 3,
);

/// So many members have joined, and one more waits to be registered.
async fn fleet(members: usize) -> Fleet {
    let mut config = FleetConfig::of(members + 1);
    for at in 1..=members {
        let environment = if at == 2 { "staging" } else { "canary" };
        config = config.labelled(&format!("member{at}"), "environment", environment);
    }
    config.workloads.ready_after = SignedDuration::from_secs(10);
    config.workloads.missing_images = vec!["nginx:typo*".to_owned()];
    let mut fleet = Fleet::new(config).await;
    fleet.start_controllers();
    for at in 1..=members {
        fleet.invite(&format!("member{at}")).await;
    }
    fleet.all_joined().await;
    fleet.clusters.hub.apply(include_str!("fleet.yaml")).await;
    fleet.pass(60).await;
    fleet
}
