//! What tests and benchmarks share: a hub to play members on, and what goes wrong.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![allow(missing_docs, reason = "resources and questions say by their names what they are")]

mod faults;
mod hub;
mod hub_members;
mod scope;

use flagship_hub::Options;
use serde_json::Value;

pub use faults::{Delays, faults, sometimes};
pub use hub::TestHub;
pub use hub_members::line;
pub use scope::{CLUSTER, NAMESPACED, SCOPES, Scope};

pub const CLUSTERS: &str = "memberclusters.cluster.kubernetes-fleet.io";
pub const CRP: &str = "clusterresourceplacements.placement.kubernetes-fleet.io";
pub const RP: &str = "resourceplacements.placement.kubernetes-fleet.io";
pub const CSPS: &str = "clusterschedulingpolicysnapshots.placement.kubernetes-fleet.io";
pub const SPS: &str = "schedulingpolicysnapshots.placement.kubernetes-fleet.io";
pub const CRB: &str = "clusterresourcebindings.placement.kubernetes-fleet.io";
pub const RB: &str = "resourcebindings.placement.kubernetes-fleet.io";
pub const IMC: &str = "internalmemberclusters.cluster.kubernetes-fleet.io";
pub const WORK: &str = "works.placement.kubernetes-fleet.io";

/// Whether everything is tried, which takes too long for each change: `scripts/nightly` asks
/// for it by `FLAGSHIP_CUTS=all`.
pub fn tries_everything() -> bool {
    std::env::var("FLAGSHIP_CUTS").is_ok_and(|cuts| cuts == "all")
}

/// Options of a hub whose policy snapshots a story writes itself.
pub fn without_placement() -> Options {
    let mut options = without_delivery();
    options.controllers.placement = false;
    options
}

/// Options of a hub whose bindings a story moves and reports on itself.
pub fn without_delivery() -> Options {
    let mut options = without_profiles();
    options.controllers.rollout = false;
    options.controllers.work = false;
    options
}

/// Options of a hub for stories about something else, which need not tell of profiles, too.
pub fn without_profiles() -> Options {
    let mut options = Options::default();
    options.controllers.inventory = false;
    options
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Lets a type with a field `test_hub` do and answer everything its [`TestHub`] can.
#[macro_export]
macro_rules! acts_as_test_hub {
    ($scene:ty) => {
        impl std::ops::Deref for $scene {
            type Target = $crate::testing::TestHub;

            fn deref(&self) -> &Self::Target {
                &self.test_hub
            }
        }

        impl std::ops::DerefMut for $scene {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.test_hub
            }
        }
    };
}
