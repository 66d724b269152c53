//! The hub's controllers. Each is an `observe.rs` that reads and a `shell.rs`
//! that writes, around one rule set of `flagship-rules`.
//!
//! Empty until the placement controllers arrive. Knows nothing of `member`.
