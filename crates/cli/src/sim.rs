//! `flagship sim`: hands over to the simulator, a program of its own that is not part of what
//! ships, as `kubectl` does with its plugins.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use clap::Args;

/// The program that is looked for.
const PROGRAM: &str = "flagship-sim";

/// Hold whole simulated fleets against the laws; needs the program flagship-sim
///
/// Looks for flagship-sim beside this program and in PATH, and hands its arguments on:
/// `flagship sim --seeds 500`, `flagship sim --replay FILE`.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct Sim {
    /// What flagship-sim takes; --help for a list
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Sim {
    /// Runs the simulator, and ends as it ends.
    pub fn run(self) -> anyhow::Result<u8> {
        let own = std::env::current_exe().ok();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let Some(program) = find(own.as_deref(), std::env::split_paths(&path)) else {
            bail!(
                "there is no {PROGRAM} beside this program or in PATH; it is not part of what \
                 ships. Build it from the sources:  cargo build --release -p flagship-sim \
                 --example {PROGRAM}"
            );
        };
        let ended = Command::new(&program)
            .args(self.arguments)
            .status()
            .with_context(|| format!("cannot run {}", program.display()))?;
        Ok(ended.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
    }
}

/// Beside the program, where cargo puts examples, and in PATH.
fn find(own: Option<&Path>, path: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let beside = own.and_then(Path::parent).into_iter();
    let beside = beside.flat_map(|folder| [folder.to_owned(), folder.join("examples")]);
    let name = format!("{PROGRAM}{}", std::env::consts::EXE_SUFFIX);
    beside.chain(path).map(|folder| folder.join(&name)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulator_is_found_beside_the_program_and_in_the_path() {
        let folder = std::env::temp_dir().join(format!("flagship-sim-{}", std::process::id()));
        let (bin, other) = (folder.join("bin"), folder.join("other"));
        std::fs::create_dir_all(bin.join("examples")).unwrap();
        std::fs::create_dir_all(&other).unwrap();
        let own = bin.join("flagship");
        let path = || [other.clone()].into_iter();
        assert_eq!(find(Some(&own), path()), None);
        let name = format!("{PROGRAM}{}", std::env::consts::EXE_SUFFIX);
        for place in [other.clone(), bin.join("examples"), bin.clone()] {
            std::fs::write(place.join(&name), "").unwrap();
            assert_eq!(find(Some(&own), path()), Some(place.join(&name)));
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
