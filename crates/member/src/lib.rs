//! The member agent: applies Work, watches what it applied, reports drift,
//! availability and its own heartbeat.
//!
//! Empty until delivery arrives. Knows nothing of `hub`.
