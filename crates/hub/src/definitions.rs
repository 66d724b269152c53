//! Which definitions a hub cannot do without, and whether the API server has them.
//!
//! Without its kinds a hub would wait for ever, so whoever starts one asks first. A
//! definition that goes missing later is waited for: the mirrors say so.

use std::fmt;
use std::time::Duration;

use flagship_api::cluster::{InternalMemberCluster, MemberCluster};
use flagship_api::cluster_profile::ClusterProfile;
use flagship_api::eviction::{
    ClusterResourcePlacementDisruptionBudget, ClusterResourcePlacementEviction,
};
use flagship_api::freeze::Freeze;
use flagship_api::overrides::{
    ClusterResourceOverride, ClusterResourceOverrideSnapshot, ResourceOverride,
    ResourceOverrideSnapshot,
};
use flagship_api::placement_status::ClusterResourcePlacementStatus;
use flagship_api::rollout_record::{ClusterRolloutRecord, RolloutRecord};
use flagship_api::work::Work;
use flagship_rules::record::Keep;
use flagship_runtime::client::{Client, ResourceType};
use flagship_runtime::dynamic::{Discovered, discover};

use crate::options::Options;
use crate::scope::{ClusterWide, InNamespace, Scoped};

/// Looks at the server before a hub gives up: the definitions may be on their way.
const LOOKS: usize = 5;
/// The pause between two of them.
const PAUSE: Duration = Duration::from_secs(1);

/// Definitions that a hub needs and its server does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undefined {
    missing: Vec<ResourceType>,
    /// What to leave out to get along without some of them.
    switches: Vec<&'static str>,
}

impl fmt::Display for Undefined {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.missing.len();
        writeln!(out, "the API server lacks {count} CustomResourceDefinition(s) this hub needs:")?;
        for missing in &self.missing {
            writeln!(out, "  {missing}")?;
        }
        write!(
            out,
            "install them with\n  flagship crds | kubectl apply --server-side -f -\nand start the hub again"
        )?;
        if !self.switches.is_empty() {
            write!(out, "; or do without: {}", self.switches.join(" "))?;
        }
        Ok(())
    }
}

impl std::error::Error for Undefined {}

/// Looks for everything a hub with these options needs. A server that cannot be asked is
/// no reason to give up: it may be on its way too.
pub(crate) async fn look_for(client: &Client, options: &Options) -> Result<(), Undefined> {
    let needed = needed(options);
    let mut found = Ok(());
    for look in 0..LOOKS {
        if look > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        let served = discover(client).await;
        if needed.iter().all(|need| served.types.contains_key(&need.kind)) {
            say_what_is_left_out(&served, options);
            return Ok(());
        }
        found = hold_against(&needed, &served);
    }
    match &found {
        Ok(()) => tracing::warn!("the API server does not say which kinds it serves"),
        Err(undefined) => {
            for kind in &undefined.missing {
                tracing::error!(%kind, "Unable to find the required CRD");
            }
        }
    }
    found
}

/// A hub works without our own group, as KubeFleet's does.
fn say_what_is_left_out(served: &Discovered, options: &Options) {
    let records = [ResourceType::of::<ClusterRolloutRecord>(), ResourceType::of::<RolloutRecord>()];
    let kept = options.update_runs.records != Keep::Off;
    let freezes = served.types.contains_key(&ResourceType::of::<Freeze>());
    if kept && freezes && !records.iter().all(|record| served.types.contains_key(record)) {
        tracing::info!(
            "rollout records are not installed, none are kept; `flagship crds --policies | kubectl apply --server-side -f -` installs them"
        );
    }
    if !served.types.contains_key(&ResourceType::of::<Freeze>()) {
        tracing::info!(
            "rollout policies, freezes and rollout records are not installed, runs go without; `flagship crds --policies | kubectl apply --server-side -f -` installs them"
        );
    }
}

/// What is certainly not there.
fn hold_against(needed: &[Need], served: &Discovered) -> Result<(), Undefined> {
    let (mut missing, mut switches) = (Vec::new(), Vec::new());
    let gone = needed.iter().filter(|need| {
        !served.types.contains_key(&need.kind) && served.is_sure_about(&need.kind.group)
    });
    for need in gone {
        missing.push(need.kind.clone());
        switches.extend(need.switch.filter(|switch| !switches.contains(switch)));
    }
    if missing.is_empty() { Ok(()) } else { Err(Undefined { missing, switches }) }
}

/// A kind, and how to get along without it.
struct Need {
    kind: ResourceType,
    switch: Option<&'static str>,
}

/// What a hub with these options reads or writes.
fn needed(options: &Options) -> Vec<Need> {
    let mut needed = vec![
        ResourceType::of::<MemberCluster>(),
        ResourceType::of::<InternalMemberCluster>(),
        ResourceType::of::<Work>(),
        ResourceType::of::<ClusterResourceOverride>(),
        ResourceType::of::<ClusterResourceOverrideSnapshot>(),
        ResourceType::of::<ResourceOverride>(),
        ResourceType::of::<ResourceOverrideSnapshot>(),
        ResourceType::of::<ClusterResourcePlacementStatus>(),
    ];
    needed.extend(of_placements::<ClusterWide>());
    let mut all: Vec<Need> = needed.into_iter().map(|kind| Need { kind, switch: None }).collect();
    let mut add = |switch, kinds: Vec<ResourceType>| {
        all.extend(kinds.into_iter().map(|kind| Need { kind, switch: Some(switch) }));
    };
    if options.resource_placement {
        add("--enable-resource-placement=false", of_placements::<InNamespace>());
    }
    if options.controllers.update_runs {
        let switch = "--enable-staged-update-run-apis=false";
        add(switch, of_update_runs::<ClusterWide>());
        if options.resource_placement {
            add(switch, of_update_runs::<InNamespace>());
        }
    }
    if options.controllers.eviction {
        let evictions = ResourceType::of::<ClusterResourcePlacementEviction>();
        let budgets = ResourceType::of::<ClusterResourcePlacementDisruptionBudget>();
        add("--enable-eviction-apis=false", vec![evictions, budgets]);
    }
    if options.controllers.inventory {
        let profiles = vec![ResourceType::of::<ClusterProfile>()];
        add("--enable-cluster-inventory-apis=false", profiles);
    }
    all
}

fn of_placements<S: Scoped>() -> Vec<ResourceType> {
    vec![
        ResourceType::of::<S::Placement>(),
        ResourceType::of::<S::PolicySnapshot>(),
        ResourceType::of::<S::Binding>(),
        ResourceType::of::<S::ResourceSnapshot>(),
    ]
}

fn of_update_runs<S: Scoped>() -> Vec<ResourceType> {
    vec![
        ResourceType::of::<S::UpdateRun>(),
        ResourceType::of::<S::UpdateStrategy>(),
        ResourceType::of::<S::ApprovalRequest>(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(change: impl FnOnce(&mut Options)) -> usize {
        let mut options = Options::default();
        change(&mut options);
        needed(&options).len()
    }

    // checklist 1.6: three kinds of update runs in each scope that is served
    #[test]
    fn what_is_left_out_is_not_needed() {
        assert_eq!(counts(|_| {}), 25);
        assert_eq!(counts(|options| options.controllers.update_runs = false), 19);
        assert_eq!(counts(|options| options.resource_placement = false), 18);
        assert_eq!(counts(|options| options.controllers.eviction = false), 23);
        assert_eq!(counts(|options| options.controllers.inventory = false), 24);
    }

    #[test]
    fn a_server_that_does_not_answer_lacks_nothing_for_certain() {
        let needed = needed(&Options::default());
        let everything = hold_against(&needed, &Discovered::default()).map_err(|u| u.missing.len());
        assert_eq!(everything, Err(25));
        let silent = Discovered { blind: true, ..Discovered::default() };
        assert_eq!(hold_against(&needed, &silent), Ok(()));
    }
}
