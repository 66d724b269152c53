//! Chores that make committed files: `cargo run -p xtask -- <chore>`.

mod builtin_schemas;

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
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().chore {
        Chore::BuiltinSchemas => builtin_schemas::run(&mut std::io::stdout()),
    }
}
