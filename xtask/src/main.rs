//! Chores that make committed files: `cargo run -p xtask -- <chore>`.

fn main() {}
