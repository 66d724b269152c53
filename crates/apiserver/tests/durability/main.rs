//! Servers whose process is killed, and servers whose disk is full.
//!
//! Unlike the stories beside the store these use real processes and a real file system.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stdout, reason = "a killed server tells its story on stdout")]

mod full_disk;
mod killed;
mod server;
