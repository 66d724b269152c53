//! How much an unauthenticated client can make the server keep, do and wait for.

use std::time::Duration;

/// Bounds of the network side. How long one body may be is `rest`'s to say, as in Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time of clients that have shown a certificate or a token. More are
    /// served, but can be evicted as unauthenticated ones are.
    pub connections: usize,
    /// The same for one user.
    pub connections_each: usize,
    /// How many connections there may be, besides, that have not yet begun TLS: all authenticated
    /// clients may come back at once. For one more, another of the address with the most of
    /// them is evicted. Never more than a quarter of the files that may be open.
    pub silent: usize,
    /// How many there may be, besides, in the middle of their TLS handshake, with the same
    /// bound.
    pub handshakes: usize,
    /// How many connections there may be, besides, after TLS and before their first request; and
    /// as many after it that showed neither certificate nor token.
    pub unauthenticated: usize,
    /// How long a client may say nothing at first, and how long a TLS handshake may take.
    pub handshake: Duration,
    /// How long an HTTP/1 connection may be idle, or take to send the head of a request;
    /// and how long an HTTP/2 connection may take to send its first one.
    pub head_wait: Duration,
    /// How large the head of a request may be.
    pub head_bytes: u32,
    /// How long a request may take until its answer begins, its body included.
    pub request: Duration,
    /// How many bytes of request bodies are held at a time for all users together; further
    /// requests are refused with 429.
    pub bodies: usize,
    /// The same for one user.
    pub bodies_each: usize,
    /// Requests at a time that are worked on, watches left out and large ones apart.
    pub requests: usize,
    /// The same for one user; further ones of this user wait.
    pub requests_each: usize,
    /// The same for small reads: few, for they wait for nothing but each other, and whoever
    /// sends hundreds of them at a time must not fill the threads with them.
    pub reads_each: usize,
    /// Requests with large bodies, or that rewrite large objects, that are worked on at a time,
    /// and pieces of long lists that have to be read. Users take turns.
    pub heavy: usize,
    /// How many requests of one user may wait; further ones are refused with 429.
    pub waiting_each: usize,
    /// How many bytes of watches one user may leave unread; a watch with more ends with 410.
    pub unread_each: usize,
    /// How long a client may read nothing while there is something for it.
    pub stalled: Duration,
    /// Requests at a time on one HTTP/2 connection.
    pub streams: u32,
    /// Requests that a client may take back before they were looked at, on one HTTP/2
    /// connection, before it is cut.
    pub resets: usize,
    /// How often an HTTP/2 connection is asked whether anybody is there.
    pub ping_every: Duration,
    /// How long the answer to that may take.
    pub ping_wait: Duration,
    /// How long requests under way may still take when the server ends.
    pub shutdown: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            connections_each: 4096,
            silent: 16_384,
            handshakes: 4096,
            unauthenticated: 1024,
            handshake: Duration::from_secs(10),
            head_wait: Duration::from_secs(60),
            head_bytes: 128 * 1024,
            request: Duration::from_secs(60),
            bodies: 256 << 20,
            bodies_each: 64 << 20,
            requests: 1024,
            requests_each: 32,
            reads_each: 4 * spare_cores(),
            heavy: spare_cores(),
            waiting_each: 1000,
            unread_each: 16 << 20,
            stalled: Duration::from_secs(60),
            streams: 250,
            resets: 20,
            ping_every: Duration::from_secs(30),
            ping_wait: Duration::from_secs(20),
            shutdown: Duration::from_secs(10),
        }
    }
}

/// Half of the processors, so that large requests leave the other half to everything else.
fn spare_cores() -> usize {
    std::thread::available_parallelism().map_or(1, |all| (all.get() / 2).max(1))
}
