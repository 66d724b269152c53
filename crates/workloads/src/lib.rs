//! What a cluster does by itself, for embedded clusters: namespaces, garbage
//! collection, Deployment -> ReplicaSet -> Pod, ReplicationController, StatefulSet, DaemonSet,
//! Job, CronJob, nodes, scheduling, kubelets, Service, claims, budgets and quota.
//!
//! Each controller is a pure `plan` over what it sees; the shell behind [`Workloads`]
//! reads from the embedded server and carries the plan out. How pods behave is
//! scripted by annotations, listed in [`behaviour`]. With the controllers come the
//! hooks that a real server has built in: [`quota::QuotaAdmission`], [`limits::LimitRangeAdmission`] and
//! [`priority::PriorityAdmission`].
//!
//! Not simulated: autoscaling, affinity between pods, preemption, eviction from failing nodes.

pub mod behaviour;
pub mod claim;
pub mod claims;
pub mod condition;
pub mod config;
pub mod cronjob;
pub mod daemonset;
pub mod deployment;
pub mod disruption;
pub mod events;
pub mod facts;
#[cfg(test)]
mod fixture;
pub mod gc;
pub mod hash;
#[cfg(test)]
mod hostile;
pub mod image;
pub mod job;
pub mod kubelet;
pub mod limits;
pub mod namespace;
pub mod node;
pub mod object;
pub mod plan;
pub mod pods;
pub mod priority;
pub mod queue;
pub mod quota;
pub mod references;
pub mod replicaset;
pub mod resources;
pub mod revision;
pub mod schedule;
pub mod selector;
pub mod service;
mod shell;
pub mod statefulset;
pub mod work_counters;

pub use config::WorkloadConfig;
pub use shell::{ACTOR, Running, Workloads};
