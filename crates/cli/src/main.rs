//! The `flagship` binary.

fn main() {}
