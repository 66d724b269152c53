//! Joining, reporting and leaving, as tables and small stories.

mod joining;
mod leaving;
mod reporting;
mod world;
