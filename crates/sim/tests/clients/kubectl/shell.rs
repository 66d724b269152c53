//! Where commands of a story are typed: a folder with a kubeconfig, and a `kubectl`.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A folder of its own, and perhaps a command in the background.
pub struct Shell {
    folder: PathBuf,
    kubectl: PathBuf,
    background: Option<Background>,
}

/// A command that goes on, and its lines so far unread.
struct Background {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Shell {
    /// A new folder for this story. Whoever opens it writes the `kubeconfig` into it.
    pub fn open(name: &str, kubectl: &Path) -> Self {
        let folder =
            std::env::temp_dir().join(format!("flagship-kubectl-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self { folder, kubectl: kubectl.to_owned(), background: None }
    }

    /// Where commands run.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        // `kubectl` in a story is the one that was found, wherever that is.
        let line = format!("kubectl() {{ {:?} \"$@\"; }}\n{line}", self.kubectl);
        command
            .args(["-c", &line])
            .current_dir(&self.folder)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.folder)
            .env("TMPDIR", &self.folder)
            .env("KUBECONFIG", self.folder.join("kubeconfig"))
            // Go's collector would take a quarter of what a short command costs.
            .env("GOGC", "off")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs a command and returns what it printed, with its exit code if that is not 0.
    /// A command that ends in `&` goes to the background; `fg 3` waits for three lines of it.
    pub fn run(&mut self, line: &str, input: &str) -> String {
        let printed = self.execute(line, input);
        printed.replace(&*self.folder.to_string_lossy(), "<folder>")
    }

    fn execute(&mut self, line: &str, input: &str) -> String {
        if let Some(line) = line.strip_suffix('&') {
            self.stop();
            // In place of the shell, so that stopping it stops kubectl.
            let line = line.replacen("kubectl", &format!("exec {:?}", self.kubectl), 1);
            let mut child = self.command(&line).spawn().unwrap();
            let lines = BufReader::new(child.stdout.take().unwrap()).lines();
            self.background = Some(Background { child, lines });
            return String::new();
        }
        if let Some(count) = line.strip_prefix("fg ") {
            return self.foreground(count.parse().unwrap());
        }
        let mut child = self.command(line).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        match output.status.code() {
            Some(0) => {}
            code => text.push_str(&format!("[exit {}]\n", code.unwrap_or(-1))),
        }
        text
    }

    /// The next lines of the command in the background, which goes on.
    fn foreground(&mut self, count: usize) -> String {
        let background = self.background.as_mut().expect("a command ends in & before this");
        background.lines.by_ref().take(count).map(|line| line.unwrap() + "\n").collect()
    }

    fn stop(&mut self) {
        if let Some(Background { mut child, .. }) = self.background.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.stop();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}
