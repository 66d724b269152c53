//! A fleet in a process of its own, and a shell beside it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;

/// Whether lines with kubectl can be walked.
pub static HAS_KUBECTL: LazyLock<bool> =
    LazyLock::new(|| Command::new("kubectl").args(["version", "--client"]).output().is_ok());

const BINARY: &str = env!("CARGO_BIN_EXE_flagship");

/// A fleet that runs, and its folder. Both end with it.
pub struct Fleet {
    process: Child,
    folder: PathBuf,
}

impl Fleet {
    /// A fleet in a new folder of this name, started with these flags.
    pub fn new(name: &str, flags: &[&str]) -> Self {
        Self::prepared(name, flags, |_| {})
    }

    /// The same, with files in the folder beforehand.
    pub fn prepared(name: &str, flags: &[&str], prepare: impl FnOnce(&Path)) -> Self {
        let folder = std::env::temp_dir().join(format!("flagship-{name}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&folder));
        std::fs::create_dir_all(&folder).unwrap();
        prepare(&folder);
        let process = start(&folder, flags);
        Self { process, folder }
    }

    /// Where it was started.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Ends it as a power cut would, and starts it again.
    pub fn cut_off_and_restart(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = start(&self.folder, &[]);
    }

    /// Another fleet in the same folder, until it is dropped.
    pub fn beside(&self, flags: &[&str]) -> Beside {
        Beside(start(&self.folder, flags))
    }

    /// Runs a line in a shell where `flagship` is the binary under test.
    pub fn line(&self, line: &str) -> Output {
        let script = format!("flagship() {{ {BINARY} \"$@\"; }}\n{line}");
        Command::new("sh")
            .args(["-c", &script])
            .current_dir(&self.folder)
            .env("KUBECONFIG", self.folder.join(".flagship/kubeconfig"))
            .env("HOME", &self.folder)
            // Go's collector would take a quarter of what a short kubectl costs.
            .env("GOGC", "off")
            .output()
            .unwrap()
    }
}

/// A further fleet in a process of its own.
pub struct Beside(Child);

impl Drop for Beside {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn start(folder: &Path, flags: &[&str]) -> Child {
    let mut command = Command::new(BINARY);
    command.args(["up", "--port", "0"]).args(flags).current_dir(folder).stdout(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let greeting = BufReader::new(process.stdout.take().unwrap());
    let tried = greeting.lines().map(Result::unwrap).any(|line| line == "Try:");
    assert!(tried, "the fleet ended before it greeted");
    process
}

impl Drop for Fleet {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// Says something although the test passes.
pub fn say(text: &str) {
    use std::io::Write;
    drop(writeln!(std::io::stderr(), "{text}"));
}
