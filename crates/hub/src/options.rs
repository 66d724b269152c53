//! What an operator may choose, with the defaults of KubeFleet's flags.

use std::time::Duration;

use flagship_rules::placement::Batching;
use flagship_rules::placement::selection::SelectionOptions;
use flagship_rules::record::retention::Retention;
use flagship_rules::{admission, membership, update_run};
use flagship_runtime::lease::LeaseConfig;
use flagship_runtime::queue::RateLimit;
use jiff::SignedDuration;

use crate::egress::Egress;

/// Which controllers run. A simulator may want to play one of them itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controllers {
    /// Members that come and go.
    pub membership: bool,
    /// Placements: what is selected, its versions, and the status.
    pub placement: bool,
    /// The choice of clusters.
    pub scheduling: bool,
    /// Overrides: their snapshots.
    pub overrides: bool,
    /// Rolling updates.
    pub rollout: bool,
    /// Staged update runs: `--enable-staged-update-run-apis`.
    pub update_runs: bool,
    /// Evictions, within the budgets of placements: `--enable-eviction-apis`.
    pub eviction: bool,
    /// Works made from bindings, and what members say of them and send back.
    pub work: bool,
    /// ClusterProfiles of members: `--enable-cluster-inventory-apis`.
    pub inventory: bool,
}

/// Choices for one hub.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Which controllers run.
    pub controllers: Controllers,
    /// Whether namespaced placements are served: `--enable-resource-placement`.
    pub resource_placement: bool,
    /// How many clusters the hub is made for: `--max-fleet-size`.
    pub max_fleet_size: usize,
    /// How many placements are expected to move at once: `--max-concurrent-cluster-placement`.
    pub max_concurrent_placements: usize,
    /// How long failed placements wait: the four `--rate-limiter-*` flags.
    pub placement_limit: RateLimit,
    /// How long changes of clusters are gathered before placements look at them.
    /// A second keeps bursts together; five minutes is KubeFleet's batched queue.
    pub cluster_window: Duration,
    /// How often placements that lack clusters look again although nothing happened.
    pub unfulfilled_sweep: Duration,
    /// How soon a placement that cannot be scheduled as written is tried again.
    pub failure_retry: Duration,
    /// Count topology domains only over clusters that pass the other filters.
    pub spread_over_feasible_clusters: bool,
    /// What may be selected: `--skipped-propagating-apis`, `--allowed-propagating-apis`,
    /// `--skipped-propagating-namespaces`, `--enable-workload`.
    pub selection: SelectionOptions,
    /// How long changes are collected before they are a new version:
    /// `--resource-snapshot-creation-minimum-interval`, `--resource-changes-collection-duration`.
    pub batching: Batching,
    /// Changed objects that are looked at side by side: `--concurrent-resource-change-syncs`.
    pub concurrent_resource_changes: usize,
    /// How long a cluster may take before its update run is stuck, and how long a new run
    /// waits for the scheduler.
    pub update_runs: update_run::Options,
    /// How long records of runs are kept, and of how many: `--rollout-record-age`,
    /// `--rollout-record-runs`.
    pub record_retention: Retention,
    /// Update runs of one scope that are looked at side by side.
    pub concurrent_update_runs: usize,
    /// How long failed update runs wait. Many may run at once, and none waits for another.
    pub update_run_limit: RateLimit,
    /// Whether PodDisruptionBudgets may be created on the hub: `--enable-pdbs`.
    pub pod_disruption_budgets: bool,
    /// What membership is told: networking agents, and how long silent members may take to leave.
    pub membership: membership::Options,
    /// How old a heartbeat may be before a member's profile says that it is lost:
    /// `--cluster-unhealthy-threshold`.
    pub unhealthy_after: SignedDuration,
    /// Who counts as an administrator where guard rails judge writes: `--enable-guard-rail`.
    /// `None` for a hub without them.
    pub guard_rails: Option<admission::guard_rails::Options>,
    /// Where channels and checks may call: `--allow-egress`.
    pub egress: Egress,
    /// Where people find the console, for links in messages: `--console-url`.
    pub console_url: Option<String>,
    /// The lease to hold while working; `None` for a hub that is alone.
    pub lease: Option<LeaseConfig>,
    /// How long passes under way may take to end when the hub is stopped.
    pub stop_grace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            controllers: Controllers {
                membership: true,
                placement: true,
                scheduling: true,
                overrides: true,
                rollout: true,
                update_runs: true,
                eviction: true,
                work: true,
                inventory: true,
            },
            resource_placement: true,
            max_fleet_size: 100,
            max_concurrent_placements: 100,
            placement_limit: RateLimit::PLACEMENT,
            cluster_window: Duration::from_secs(1),
            unfulfilled_sweep: Duration::from_secs(15 * 60),
            failure_retry: Duration::from_secs(5 * 60),
            spread_over_feasible_clusters: false,
            selection: SelectionOptions::default(),
            batching: Batching::default(),
            concurrent_resource_changes: 20,
            update_runs: update_run::Options::default(),
            record_retention: Retention::default(),
            concurrent_update_runs: 50,
            update_run_limit: RateLimit { qps: 100.0, burst: 1000, ..RateLimit::PLACEMENT },
            pod_disruption_budgets: true,
            membership: membership::Options::default(),
            unhealthy_after: SignedDuration::from_secs(60),
            guard_rails: None,
            egress: Egress::default(),
            console_url: None,
            lease: None,
            stop_grace: Duration::from_secs(30),
        }
    }
}

impl Options {
    /// Placements the scheduler looks at side by side.
    pub fn scheduler_workers(&self) -> usize {
        self.max_fleet_size.div_ceil(50) * self.max_concurrent_placements.div_ceil(10)
    }

    /// Placements of one scope that the placement controller looks at side by side.
    pub fn placement_workers(&self) -> usize {
        self.max_concurrent_placements.div_ceil(10)
    }

    /// Placements of one scope whose rollout is looked at side by side.
    pub fn rollout_workers(&self) -> usize {
        self.max_fleet_size.div_ceil(30) * self.max_concurrent_placements.div_ceil(10)
    }

    /// Bindings of one scope that the work generator looks at side by side.
    pub fn work_workers(&self) -> usize {
        self.max_fleet_size.div_ceil(10) * self.max_concurrent_placements.div_ceil(10)
    }

    /// Works that statuses are carried back from side by side.
    pub fn back_report_workers(&self) -> usize {
        self.max_concurrent_placements.div_ceil(10)
    }

    /// Members that are looked at side by side. Up to 200 clusters as many as KubeFleet looks at;
    /// beyond that a quarter of the fleet, since a pass mostly waits for the API server.
    pub fn membership_workers(&self) -> usize {
        match self.max_fleet_size {
            ..=200 => self.max_fleet_size.div_ceil(100),
            more => more.div_ceil(4),
        }
    }

    /// What writes to this hub are judged by.
    pub fn admission(&self) -> admission::Options {
        admission::Options {
            workloads_run_here: self.selection.workloads_run_here,
            pod_disruption_budgets: self.pod_disruption_budgets,
            networking_agents: self.membership.networking_agents,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_has_twenty_workers_unless_told_otherwise() {
        assert_eq!(Options::default().scheduler_workers(), 20);
        let small =
            Options { max_fleet_size: 30, max_concurrent_placements: 10, ..Options::default() };
        assert_eq!(small.scheduler_workers(), 1);
    }

    #[test]
    fn rollouts_have_forty_workers_unless_told_otherwise() {
        assert_eq!(Options::default().rollout_workers(), 40);
    }

    #[test]
    fn the_work_generator_has_a_hundred_workers_unless_told_otherwise() {
        assert_eq!(Options::default().work_workers(), 100);
    }
}
