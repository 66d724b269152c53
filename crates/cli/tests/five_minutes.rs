//! The README's first five minutes, line by line, as a newcomer would paste them.
//!
//! The fleet is a process of its own, killed in the middle of the second run and started
//! again: nothing may be lost. Lines with kubectl are left out, and said to be, where
//! there is no kubectl.

#![allow(clippy::unwrap_used)] // a walk that cannot be walked has failed

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

struct Fleet {
    process: Child,
    folder: PathBuf,
}

impl Fleet {
    fn up(folder: PathBuf, demo: bool) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flagship"));
        command.args(["up", "--port", "0"]).current_dir(&folder).stdout(Stdio::piped());
        if demo {
            command.arg("--demo");
        }
        let mut process = command.spawn().unwrap();
        let greeting = BufReader::new(process.stdout.take().unwrap());
        let tried = greeting.lines().map(Result::unwrap).any(|line| line == "Try:");
        assert!(tried, "the fleet ended before it greeted");
        Self { process, folder }
    }

    /// Ends it as a power cut would, and starts it again.
    fn cut_off_and_restart(mut self) -> Self {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        Self::up(self.folder.clone(), false)
    }

    /// Runs a line of the README in a shell where `flagship` is the binary under test.
    fn line(&self, line: &str) -> Output {
        let binary = env!("CARGO_BIN_EXE_flagship");
        let script = format!("flagship() {{ {binary} \"$@\"; }}\n{line}");
        Command::new("sh")
            .args(["-c", &script])
            .current_dir(&self.folder)
            .env("KUBECONFIG", self.folder.join(".flagship/kubeconfig"))
            .output()
            .unwrap()
    }
}

/// The commands of the first shell block that contains this one.
fn block_with(readme: &str, command: &str) -> Vec<String> {
    let block = readme.split("```sh\n").find(|block| block.contains(command)).unwrap();
    let block = block.split("```").next().unwrap();
    let commands = block.lines().map(|line| line.split("  #").next().unwrap().trim().to_owned());
    commands.filter(|line| line.starts_with("kubectl") || line.starts_with("flagship")).collect()
}

#[allow(clippy::print_stderr)]
fn say(text: &str) {
    eprintln!("{text}");
}

/// Walks a block. `why` and `status` answer by exit code, so only what they say is checked.
fn walk(fleet: &Fleet, commands: &[String]) -> String {
    let has_kubectl = Command::new("kubectl").arg("version").arg("--client").output().is_ok();
    let mut said = String::new();
    for command in commands {
        if command.starts_with("kubectl") && !has_kubectl {
            say(&format!("skipped, for there is no kubectl: {command}"));
            continue;
        }
        let output = fleet.line(command);
        let text = String::from_utf8_lossy(&output.stdout);
        let answers = command.starts_with("flagship why") || command.starts_with("flagship status");
        assert!(
            output.status.success() || answers,
            "{command}\n{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        said.push_str(&format!("$ {command}\n{text}"));
    }
    said
}

#[test]
fn the_first_five_minutes_work_line_by_line() {
    let folder = std::env::temp_dir().join(format!("flagship-walk-{}", std::process::id()));
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder).unwrap();
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();

    let fleet = Fleet::up(folder.clone(), true);
    let first = walk(&fleet, &block_with(&readme, "flagship approve demo-run staging"));
    assert!(first.contains("SUCCEEDED"), "{first}");

    let second = block_with(&readme, "flagship run demo --name broken");
    let cut = second.iter().position(|line| line.starts_with("flagship why")).unwrap();
    let before = walk(&fleet, &second[..cut]);
    assert!(before.contains("broken created"), "{before}");
    let fleet = fleet.cut_off_and_restart();
    // The pod's own words take a moment to come back from member2.
    let found = (0..100).any(|_| {
        let output = fleet.line("flagship why broken");
        String::from_utf8_lossy(&output.stdout).contains("IMAGE_NAME_INVALID")
    });
    assert!(found || !has_image_trouble(&before), "why does not name the image");
    let after = walk(&fleet, &second[cut..]);
    assert!(after.contains("demo-1 created"), "{after}");

    let down = fleet.line("flagship down");
    assert!(down.status.success());
    let mut fleet = fleet;
    fleet.process.wait().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Whether the broken image could be set at all: that takes kubectl.
fn has_image_trouble(said: &str) -> bool {
    said.contains("set image")
}
