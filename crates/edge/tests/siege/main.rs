//! A server under attack, in a process of its own, behind real TLS sockets.
//!
//! While each attack runs a citizen goes on working on the same server: every request of
//! theirs must succeed, on old connections and on new ones. The attackers must be refused
//! as they deserve, and the memory of the server, as Linux counts it, must stay bounded.
//!
//! A plain `cargo test` attacks with a part of the force; this is the whole of it:
//!
//! ```text
//! FLAGSHIP_SIEGE=full cargo test --release -p flagship-apiserver --test siege -- --nocapture --test-threads 1
//! ```

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]
#![allow(clippy::print_stdout, reason = "a siege tells what it cost")]

#[path = "../process/mod.rs"]
#[allow(dead_code, reason = "the benchmark uses the rest")]
mod process;

mod bodies;
mod citizen;
mod floods;
mod frames;
mod heads;
mod readers;
mod tokens;
mod walls;
mod watches;

use process::served::serve_if_asked;

#[test]
#[ignore = "the server that the others attack"]
fn the_server_under_siege() {
    serve_if_asked();
}
