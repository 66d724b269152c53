//! A server under attack, in a process of its own, behind real TLS sockets.
//!
//! While each attack runs a well-behaved client goes on working on the same server: each of its
//! requests must succeed, on old connections and on new ones. The attackers must be refused
//! with the right answer, and the memory of the server, as Linux counts it, must stay bounded.
//!
//! A plain `cargo test` attacks with a part of the force; this is the whole of it:
//!
//! ```text
//! FLAGSHIP_LOAD_ATTACK=full cargo test --release -p flagship-edge --test load_attack -- --nocapture --test-threads 1
//! ```

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]
#![allow(clippy::print_stdout, reason = "a load attack tells what it cost")]

#[path = "../process/mod.rs"]
#[allow(dead_code, reason = "the benchmark uses the rest")]
mod process;

mod attacked;
mod bodies;
mod floods;
mod frames;
mod heads;
mod readers;
mod tokens;
mod watches;
mod well_behaved;

use process::served::serve_if_asked;

#[test]
#[ignore = "the server that the others attack"]
fn the_server_under_attack() {
    serve_if_asked();
}
