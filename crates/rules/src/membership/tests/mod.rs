//! Joining, reporting and leaving, as tables and small stories.

mod fixture;
mod joining;
mod leaving;
mod reporting;
