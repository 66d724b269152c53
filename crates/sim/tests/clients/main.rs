//! Stock clients against the embedded server: kubectl, client-go and controller-runtime.

mod go_clients;
mod kubectl;
