//! A durable server in a process of its own, and TLS clients for it.
//!
//! Shared by the load attack and by the benchmark of the whole server. The server is the very
//! program that asks for it, started again with an environment variable, so that its memory
//! and its start can be measured apart from the clients. Not a test by itself.

pub mod served;
pub mod wire;
