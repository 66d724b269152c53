//! The console: one page a release manager keeps open during a rollout.
//!
//! `mirror` watches the hub with the caller's own credentials, `view` makes of it what the
//! page shows, from the same rules that the commands print; `live` sends what changed, and
//! `http` answers requests after `guard` has let them in, or `team` where each caller shows a
//! token of their own. Verbs are the commands themselves:
//! whoever starts a console hands in [`Commands`]. Nothing here computes a rule.

mod assets;
mod commands;
mod guard;
mod http;
mod live;
mod looks;
mod mirror;
mod rights;
mod session;
mod stream;
mod team;
pub mod view;

pub use commands::{Act, Commands};
pub use guard::{Guard, Key};
pub use http::{Answer, Console};
pub use team::{Team, TeamConsole};
