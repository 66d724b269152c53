//! What a simulated fleet is made of.

use std::ops::{Deref, DerefMut};

use flagship_fleet::{Callers, ClusterHost, FleetSpec, Storage};
use flagship_store::env::Env as ServerEnv;

/// The shape of a fleet, and how it is simulated. The fields of its [`FleetSpec`] are
/// reached as if they were its own.
#[derive(Clone)]
pub struct FleetConfig {
    /// The shape.
    pub spec: FleetSpec,
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// Whether every request is written down.
    pub traced: bool,
    /// Whether time is the machine's, not tokio's.
    pub real_time: bool,
    /// A server of one's own; clusters are then called `hub` and by their names. Without
    /// one, fleets of a process share a server and get prefixed names.
    pub host: Option<ClusterHost>,
}

impl Deref for FleetConfig {
    type Target = FleetSpec;
    fn deref(&self) -> &FleetSpec {
        &self.spec
    }
}

impl DerefMut for FleetConfig {
    fn deref_mut(&mut self) -> &mut FleetSpec {
        &mut self.spec
    }
}

impl FleetConfig {
    /// So many members, called `member1`, `member2`, … under simulated time.
    pub fn of(members: usize) -> Self {
        Self::with((1..=members).map(|number| format!("member{number}")).collect())
    }

    /// Members of these names under simulated time.
    pub fn named(members: &[&str]) -> Self {
        Self::with(members.iter().map(|name| (*name).to_owned()).collect())
    }

    fn with(members: Vec<String>) -> Self {
        // Faults and traces name the cluster whose controllers they mean.
        let mut spec = FleetSpec { callers: Callers::CLUSTERS, ..FleetSpec::named(members) };
        // Stories about something else need not tell of profiles, too.
        spec.hub.controllers.inventory = false;
        Self { spec, seed: 1, traced: false, real_time: false, host: None }
    }

    /// The same by the machine's clock, on a server of its own.
    #[must_use]
    pub fn real_time(self) -> Self {
        let host = ClusterHost::new(ServerEnv::system(), Storage::Ephemeral);
        Self { real_time: true, host: Some(host), ..self }
    }

    /// The same with another seed.
    #[must_use]
    pub fn seeded(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// The same without webhooks: schemas alone judge what is written.
    #[must_use]
    pub fn without_admission(mut self) -> Self {
        self.hub_admission = false;
        self
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
