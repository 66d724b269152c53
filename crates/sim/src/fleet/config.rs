//! What a fleet is made of.

use std::collections::BTreeMap;

use flagship_rules::placement::Batching;
use flagship_store::env::Env as ServerEnv;
use flagship_workloads::WorkloadConfig;

use super::Ground;

/// The shape of a fleet.
#[derive(Clone)]
pub struct FleetConfig {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// Names of the members.
    pub members: Vec<String>,
    /// Labels of their MemberClusters.
    pub labels: BTreeMap<String, BTreeMap<String, String>>,
    /// How often members say that they are alive.
    pub heartbeat_seconds: u32,
    /// Choices for the hub.
    pub hub: flagship_hub::Options,
    /// Whether the hub judges writes and fills in as its webhooks would.
    pub guarded: bool,
    /// Choices for every member agent.
    pub member: flagship_member::Options,
    /// What runs on every member.
    pub workloads: WorkloadConfig,
    /// Whether every request is written down.
    pub traced: bool,
    /// Whether time is the machine's, not tokio's.
    pub real_time: bool,
    /// A server of one's own; clusters are then called `hub` and by their names. Without
    /// one, fleets of a process share a server and get prefixed names.
    pub ground: Option<Ground>,
}

impl FleetConfig {
    /// So many members, called `member1`, `member2`, … under simulated time.
    pub fn of(members: usize) -> Self {
        let names: Vec<String> = (1..=members).map(|number| format!("member{number}")).collect();
        Self::named(&names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Members of these names under simulated time.
    pub fn named(members: &[&str]) -> Self {
        // A person's edits become a version at once; what the original collects for half
        // a minute only slows stories down.
        let hub = flagship_hub::Options { batching: Batching::NONE, ..Default::default() };
        Self {
            seed: 1,
            members: members.iter().map(|name| (*name).to_owned()).collect(),
            labels: BTreeMap::new(),
            heartbeat_seconds: 60,
            hub,
            guarded: true,
            member: flagship_member::Options::default(),
            workloads: WorkloadConfig::default(),
            traced: false,
            real_time: false,
            ground: None,
        }
    }

    /// The same by the machine's clock, on a server of its own.
    #[must_use]
    pub fn real_time(self) -> Self {
        Self { real_time: true, ground: Some(Ground::new(ServerEnv::system())), ..self }
    }

    /// The same with another seed.
    #[must_use]
    pub fn seeded(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// The same without webhooks: schemas alone judge what is written.
    #[must_use]
    pub fn unguarded(self) -> Self {
        Self { guarded: false, ..self }
    }

    /// The same with every request written down.
    #[must_use]
    pub fn traced(self) -> Self {
        Self { traced: true, ..self }
    }

    /// The same with a label on a member.
    #[must_use]
    pub fn labelled(mut self, member: &str, key: &str, value: &str) -> Self {
        let labels = self.labels.entry(member.to_owned()).or_default();
        labels.insert(key.to_owned(), value.to_owned());
        self
    }
}
