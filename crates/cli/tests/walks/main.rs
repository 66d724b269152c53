//! Pages that people follow, walked line by line: the README's first five minutes, and the
//! guides in `docs/guides` with everything they print.
//!
//! Each page has a fleet of its own, a process as a newcomer would start it. Lines with
//! kubectl are left out, and said to be, where there is no kubectl.

#![allow(clippy::unwrap_used)] // a walk that cannot be walked has failed

mod backup;
mod careful;
mod five_minutes;
mod fleet;
mod full_disk;
mod guides;
mod page;
mod refusals;
