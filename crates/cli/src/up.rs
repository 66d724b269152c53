//! `flagship up`: hub and members in one process. Not built yet, and says so.

use std::io::Write;

use clap::Args;

/// Start a hub and its members in one process (not built yet)
#[derive(Args)]
pub struct Up {}

impl Up {
    /// Says what is missing.
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        writeln!(out, "Nothing was started: the embedded hub and members are not built yet.")?;
        writeln!(
            out,
            "What works today: `flagship crds` prints the API for any Kubernetes cluster."
        )?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_does_not_pretend() {
        let mut out = Vec::new();
        Up {}.run(&mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "Nothing was started: the embedded hub and members are not built yet.\n\
             What works today: `flagship crds` prints the API for any Kubernetes cluster.\n"
        );
    }
}
