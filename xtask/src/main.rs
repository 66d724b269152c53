//! Chores that make committed files: `cargo run -p xtask -- <chore>`.

mod builtin_schemas;
mod merge_keys;
mod protobuf;

use clap::{Parser, Subcommand};

/// Chores that make committed files.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Derive the table of built-in schemas from the published OpenAPI document
    BuiltinSchemas,
    /// Derive the protobuf layout of built-in kinds from their Go types
    Protobuf,
    /// Derive the table of merge keys from the table of built-in schemas
    MergeKeys,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().chore {
        Chore::BuiltinSchemas => builtin_schemas::run(&mut std::io::stdout()),
        Chore::Protobuf => protobuf::run(&mut std::io::stdout()),
        Chore::MergeKeys => merge_keys::run(&mut std::io::stdout()),
    }
}
