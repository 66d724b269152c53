//! What `deploy` has: charts rendered by real helm, kustomize bases, and the image.
//!
//! `values` holds every value against its effect on what is rendered, and starts the binary with
//! the arguments that come out; `made` holds the files that are made from the code and from the
//! charts against where they come from; `image` runs the binary out of an image; `release` makes a
//! whole release. `scripts/helm --path` builds helm once; where there is
//! none, tests that need it say so and pass.

#![allow(clippy::unwrap_used, reason = "a chart that cannot be rendered is a failed test")]

mod helm;
mod image;
mod made;
mod release;
mod values;

use std::path::{Path, PathBuf};

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Straight to stderr: the runner hides what `println!` writes in a passing test.
fn say(line: &str) {
    use std::io::Write;
    drop(writeln!(std::io::stderr(), "{line}"));
}
