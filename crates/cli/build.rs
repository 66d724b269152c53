//! Tells the binary which commit it is made of: from git where there is one, from
//! `FLAGSHIP_COMMIT` where there is none, and `unknown` otherwise.

use std::path::Path;
use std::process::Command;

const VARIABLE: &str = "FLAGSHIP_COMMIT";

fn main() {
    let out = |line: String| {
        use std::io::Write;
        // Cargo reads it; without a reader there is nobody to tell.
        drop(writeln!(std::io::stdout(), "{line}"));
    };
    out(format!("cargo::rerun-if-env-changed={VARIABLE}"));
    // What moves with every commit, also in a worktree of its own. A file that is not there
    // would make every build a new one.
    for watched in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", watched]);
        if let Some(path) = path.filter(|path| Path::new(path).exists()) {
            out(format!("cargo::rerun-if-changed={path}"));
        }
    }
    let given = std::env::var(VARIABLE).ok().filter(|given| !given.is_empty());
    let commit = given.or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    out(format!("cargo::rustc-env={VARIABLE}={}", commit.as_deref().unwrap_or("unknown")));
}

/// What git answers, if it is there and knows this folder.
fn git(arguments: &[&str]) -> Option<String> {
    let answer = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(answer.stdout).ok()?.trim().to_owned();
    (answer.status.success() && !text.is_empty()).then_some(text)
}
