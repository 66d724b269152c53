//! The embedded API server with our definitions, and the runtime on it.

mod crd;
mod runtime_on_the_server;
