//! Stories of delivery, from a person's YAML on the hub to pods on members and back to
//! the status a person reads.
//!
//! Each is a function over a [`World`] of three members called `member1`, `member2` and
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

use crate::fleet::World;
pub use telling::{placement, rows};

/// One story.
pub type Story = for<'a> fn(&'a World) -> BoxFuture<'a, ()>;

/// Told on fleets with and without webhooks.
pub const TENANT: &str = "a tenant reaches nothing but its namespace";

/// All stories by name.
pub const ALL: &[(&str, Story)] = &[
    ("a namespace reaches every member", |world| Box::pin(delivery::arrives(world))),
    ("an edit reaches every member", |world| Box::pin(delivery::edited(world))),
    ("a definition travels with its objects", |world| Box::pin(delivery::defined(world))),
    ("overrides make each member its own", |world| Box::pin(changes::overridden(world))),
    ("an envelope is opened on the member", |world| Box::pin(changes::wrapped(world))),
    ("what is abandoned stays", |world| Box::pin(changes::abandoned(world))),
    ("a deleted placement leaves nothing behind", |world| Box::pin(delivery::deleted(world))),
    ("an edit on a member is undone", |world| Box::pin(differences::undone(world))),
    ("a drift that must stay is told", |world| Box::pin(differences::drifted(world))),
    ("a foreign object fails there only", |world| Box::pin(differences::foreign(world))),
    ("an object has one placement", |world| Box::pin(differences::claimed(world))),
    ("a comparison writes nothing", |world| Box::pin(differences::compared(world))),
    (TENANT, |world| Box::pin(tenant::stays_at_home(world))),
    ("a bad image is told as the guide prints it", |world| Box::pin(stuck::bad_image(world))),
    ("a run is stuck on a bad image", |world| Box::pin(stuck::stuck_run(world))),
];

/// The story of this name.
pub fn named(name: &str) -> Story {
    let found = ALL.iter().find(|(other, _)| *other == name);
    found.unwrap_or_else(|| panic!("there is no story {name:?}")).1
}
