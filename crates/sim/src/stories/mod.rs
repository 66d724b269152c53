//! Stories of delivery, from a person's YAML on the hub to pods on members and back to
//! the status a person reads.
//!
//! Each is a function over a [`Clusters`] of three members called `member1`, `member2` and
//! `member3` that have joined, and uses names no other story uses. Nothing in them knows
//! what serves the clusters, so they are told on embedded and on real API servers alike.
//! One that does not hold panics with what it saw.

mod changes;
pub mod credentials;
mod delivery;
mod differences;
mod stuck;
mod telling;
mod tenant;

use futures::future::BoxFuture;

use crate::fleet::Clusters;
pub use telling::{placement, rows};

/// One story.
pub type Story = for<'a> fn(&'a Clusters) -> BoxFuture<'a, ()>;

/// Told on fleets with and without webhooks.
pub const TENANT: &str = "a tenant reaches nothing but its namespace";

/// All stories by name.
pub const ALL: &[(&str, Story)] = &[
    ("a namespace reaches every member", |clusters| Box::pin(delivery::arrives(clusters))),
    ("an edit reaches every member", |clusters| Box::pin(delivery::edited(clusters))),
    ("a definition travels with its objects", |clusters| Box::pin(delivery::defined(clusters))),
    ("overrides make each member its own", |clusters| Box::pin(changes::overridden(clusters))),
    ("an envelope is opened on the member", |clusters| Box::pin(changes::wrapped(clusters))),
    ("what is abandoned stays", |clusters| Box::pin(changes::abandoned(clusters))),
    ("a deleted placement leaves nothing behind", |clusters| Box::pin(delivery::deleted(clusters))),
    ("an edit on a member is undone", |clusters| Box::pin(differences::undone(clusters))),
    ("a drift that must stay is told", |clusters| Box::pin(differences::drifted(clusters))),
    ("a foreign object fails there only", |clusters| Box::pin(differences::foreign(clusters))),
    ("an object has one placement", |clusters| Box::pin(differences::claimed(clusters))),
    ("a comparison writes nothing", |clusters| Box::pin(differences::compared(clusters))),
    (TENANT, |clusters| Box::pin(tenant::stays_at_home(clusters))),
    ("a bad image is told as the guide prints it", |clusters| Box::pin(stuck::bad_image(clusters))),
    ("a run is stuck on a bad image", |clusters| Box::pin(stuck::stuck_run(clusters))),
];

/// The story of this name.
pub fn named(name: &str) -> Story {
    let found = ALL.iter().find(|(other, _)| *other == name);
    found.unwrap_or_else(|| panic!("there is no story {name:?}")).1
}
