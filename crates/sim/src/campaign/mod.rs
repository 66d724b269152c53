//! The campaign: whole fleets under virtual time, each from one seed, with people who do
//! anything at any moment and faults of every kind; the laws are asked after every write.
//!
//! [`story::draw`] makes a [`Story`] of a seed, [`tell`] tells it on the very controllers that
//! run in production and says which laws were broken, [`shrink`] makes a story smaller that
//! breaks one. Members are played: they report on what is delivered to them.
//!
//! The caller brings a runtime with paused time and the [`ClusterHost`] that the fleet stands
//! on; nothing here reads a clock of the machine.
//!
//! [`ClusterHost`]: flagship_fleet::ClusterHost

mod books;
mod coverage;
mod disk;
mod end;
pub mod history;
mod judge;
mod members;
mod people;
mod planted;
mod report;
mod shrink;
pub mod story;
mod tell;
pub mod traces;
mod transitions;
mod written;

pub use coverage::Coverage;
pub use disk::DiskReport;
pub use judge::Violation;
pub use planted::{BUGS, Bug};
pub use report::{Report, explained};
pub use shrink::shrink;
pub use story::Story;
pub use tell::{Told, tell};
