//! `flagship completions SHELL` and `flagship man`: what a shell and a reader want, made
//! from the command line itself, so that neither can be out of date.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man as Page;

/// Print the completions of a shell: source them, or put them where it looks for them
#[derive(Args)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

/// Print the manual page; with --dir, write one page for each command
#[derive(Args)]
pub struct Man {
    /// Where the pages are written, as flagship.1, flagship-up.1, …
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

impl Completions {
    /// Writes the script.
    pub fn run(self, mut command: Command, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "flagship", &mut script);
        out.write_all(&script)?;
        Ok(())
    }
}

impl Man {
    /// Writes the page or the pages.
    pub fn run(self, mut command: Command, out: &mut dyn Write) -> anyhow::Result<()> {
        command.build();
        let Some(dir) = self.dir else {
            out.write_all(&page(command)?)?;
            return Ok(());
        };
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        for (name, command) in every(&command, "flagship") {
            let path = dir.join(format!("{name}.1"));
            let cannot = || format!("cannot write {}", path.display());
            std::fs::write(&path, page(command)?).with_context(cannot)?;
            writeln!(out, "{}", path.display())?;
        }
        Ok(())
    }
}

fn page(command: Command) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    Page::new(command).render(&mut text)?;
    Ok(text)
}

/// A command and all below it that people are shown, each with the name of its page.
fn every(command: &Command, name: &str) -> Vec<(String, Command)> {
    let mut all = vec![(name.to_owned(), command.clone())];
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        all.extend(every(below, &format!("{name}-{}", below.get_name())));
    }
    all
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, ValueEnum};

    use super::*;
    use crate::Cli;

    fn script(shell: Shell) -> String {
        let mut out = Vec::new();
        Completions { shell }.run(Cli::command(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_shell_is_told_of_every_command() {
        for shell in Shell::value_variants() {
            let text = script(*shell);
            for command in Cli::command().get_subcommands() {
                assert!(text.contains(command.get_name()), "{shell} {}", command.get_name());
            }
            assert!(text.contains("draincluster"), "{shell}");
        }
    }

    #[test]
    fn bash_takes_the_script() {
        let text = script(Shell::Bash);
        let Ok(checked) = std::process::Command::new("bash").args(["-n", "-c", &text]).output()
        else {
            return;
        };
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }

    #[test]
    fn the_manual_names_every_command_and_each_has_a_page() {
        let mut out = Vec::new();
        Man { dir: None }.run(Cli::command(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(".TH flagship 1"), "{text}");
        let dir = std::env::temp_dir().join(format!("flagship-man-{}", std::process::id()));
        let mut out = Vec::new();
        Man { dir: Some(dir.clone()) }.run(Cli::command(), &mut out).unwrap();
        for command in Cli::command().get_subcommands() {
            let listed = command.get_name().replace('-', "\\-");
            assert!(text.contains(&format!("flagship\\-{listed}(1)")), "{text}");
            assert!(dir.join(format!("flagship-{}.1", command.get_name())).is_file());
        }
        assert!(dir.join("flagship-fleet-draincluster.1").is_file());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
