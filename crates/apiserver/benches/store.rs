//! What the store costs in time and memory.

fn main() {}
