//! What every other crate shares, and of which there must be one: time and chance,
//! back-off, and the small values Kubernetes writes as text.
//!
//! [`env`](mod@env) is the seam to the machine's clock and to randomness. The rest is pure:
//! [`quantity`], [`selector`], [`names`], [`duration`], [`cron`], [`backoff`], [`go_number`],
//! [`interner`], and in [`machinery`] what only an API server needs.
//! The words of errors are those of Kubernetes' Go libraries, because clients match on them.

pub mod backoff;
pub mod cron;
pub mod duration;
pub mod env;
pub mod go_number;
pub mod interner;
pub mod machinery;
pub mod names;
pub mod quantity;
pub mod selector;
