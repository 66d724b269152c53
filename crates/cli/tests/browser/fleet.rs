//! A fleet in a process of its own, its console's link, and a shell beside it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const BINARY: &str = env!("CARGO_BIN_EXE_flagship");

/// A fleet that runs, and its folder. Both end with it.
pub struct Fleet {
    process: Child,
    folder: PathBuf,
    /// The link that opens the console.
    pub link: String,
}

/// A console beside a fleet. It ends with the value.
pub struct Console {
    process: Child,
    /// The link that opens it.
    pub link: String,
}

impl Fleet {
    /// A fleet with the demo in a new folder of this name.
    pub fn new(name: &str) -> Self {
        Self::with(name, &["--demo"])
    }

    /// A fleet with these flags in a new folder of this name.
    pub fn with(name: &str, flags: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(format!("flagship-{name}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&folder));
        std::fs::create_dir_all(&folder).unwrap();
        let (process, link) = start(&folder, &[flags, &["--stuck-after", "2s"]].concat());
        Self { process, folder, link }
    }

    /// Ends it as a power cut would, and starts it again with the console where it was.
    pub fn cut_off_and_restart(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        let port = self.link.split([':', '/']).nth(4).unwrap().to_owned();
        let (process, link) =
            start(&self.folder, &["--console-port", &port, "--stuck-after", "2s"]);
        assert_eq!(link, self.link, "the key outlives a restart");
        self.process = process;
    }

    /// Runs a line in a shell where `flagship` is the binary under test.
    pub fn line(&self, line: &str) -> String {
        let script = format!("flagship() {{ {BINARY} \"$@\"; }}\n{line}");
        let output = Command::new("sh")
            .args(["-c", &script])
            .current_dir(&self.folder)
            .env("KUBECONFIG", self.folder.join(".flagship/kubeconfig"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}\n{said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The console that a hub serves for a team, with these flags more.
    pub fn team(&self, port: u16, flags: &str) -> Console {
        let mut command = Command::new(BINARY);
        command
            .args(["hub", "--kubeconfig", ".flagship/kubeconfig", "--context", "hub"])
            .args(["--leader-elect", "--enable-webhook=false", "--health-probe-bind-address=0"])
            .args(["--metrics-bind-address=0", "--console-hosts=localhost"])
            .arg(format!("--console-bind-address=127.0.0.1:{port}"))
            .args(flags.split_whitespace())
            .stderr(Stdio::piped());
        let mut process = command.current_dir(&self.folder).spawn().unwrap();
        let said = BufReader::new(process.stderr.take().unwrap());
        let mut said = said.lines().map_while(Result::ok);
        assert!(said.any(|line| line.contains("the console is served")), "the hub serves it");
        std::thread::spawn(move || said.for_each(drop));
        Console { process, link: format!("https://localhost:{port}/") }
    }

    /// A console for whoever this kubeconfig says.
    pub fn console(&self, kubeconfig: &str) -> Console {
        let mut command = Command::new(BINARY);
        command.args(["console", "--no-open", "--kubeconfig", kubeconfig]);
        let (process, link) = link_of(command.current_dir(&self.folder));
        Console { process, link }
    }
}

fn start(folder: &Path, flags: &[&str]) -> (Child, String) {
    let mut command = Command::new(BINARY);
    command.args(["up", "--port", "0"]).args(flags).current_dir(folder);
    link_of(&mut command)
}

fn link_of(command: &mut Command) -> (Child, String) {
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
    let link = said.find_map(|line| Some(format!("http://{}", line.split("http://").nth(1)?)));
    (process, link.expect("it prints the link of the console"))
}

impl Drop for Console {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
        drop(std::fs::remove_dir_all(&self.folder));
    }
}
