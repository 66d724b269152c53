//! One server and the commands that are run against it.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use flagship_apiserver::edge::{Authority, Config, Edge, Kubeconfig};
use flagship_apiserver::env::{Entropy, Env};
use flagship_apiserver::rest::Server;
use flagship_sim::fleet::{Fleet, HUB};
use flagship_workloads::{Running, WorkloadConfig, Workloads};
use jiff::SignedDuration;

/// A running server, a folder of its own, and perhaps a command in the background.
pub struct Session {
    edge: Edge,
    _workloads: Option<Running>,
    folder: PathBuf,
    kubectl: PathBuf,
    background: Option<Background>,
}

/// A command that goes on, and its lines so far unread.
struct Background {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Session {
    pub async fn start(name: &str, kubectl: &Path) -> Self {
        // Names that are drawn are the same each time; the moment is the machine's.
        let env = Env { entropy: Arc::new(Entropy::seeded(7)), ..Env::system() };
        let server = Server::new(env.clone());
        let cluster = server.add_cluster("hub");
        let at_once = SignedDuration::ZERO;
        let workloads = Workloads::new(WorkloadConfig {
            ready_after: at_once,
            start_after: at_once,
            stop_after: at_once,
            job_runs_for: at_once,
            missing_images: vec!["missing*".to_owned()],
            ..WorkloadConfig::default()
        });
        let workloads = workloads.spawn(cluster);
        let edge = serve(&server, &env).await;
        let kubeconfig = edge.kubeconfig().unwrap();
        let session = Self::of(name, kubectl, edge, &kubeconfig, Some(workloads));
        let definitions: Vec<String> = flagship_api::crd::all()
            .iter()
            .map(|definition| serde_saphyr::to_string(definition).unwrap())
            .collect();
        std::fs::write(session.folder.join("crds.yaml"), definitions.join("---\n")).unwrap();
        session
    }

    /// With the clusters of a fleet, called `hub` and like its members. The fleet may live
    /// by a time of its own; certificates are dated by the one that kubectl knows.
    pub async fn with(name: &str, kubectl: &Path, fleet: &Fleet) -> Self {
        let env = Env::system();
        let edge = serve(fleet.server(), &env).await;
        let admin = edge.authority().client("admin", Some("system:masters"), env.clock.now());
        let names = std::iter::once(HUB).chain(fleet.world.members().map(|member| member.name()));
        let contexts =
            names.map(|name| (name.to_owned(), edge.url(&fleet.cluster_name(name)))).collect();
        let authority = edge.authority().certificate_pem();
        let kubeconfig = Kubeconfig::new(authority, "admin", admin.unwrap(), contexts);
        Self::of(name, kubectl, edge, &kubeconfig, None)
    }

    fn of(
        name: &str,
        kubectl: &Path,
        edge: Edge,
        kubeconfig: &Kubeconfig,
        workloads: Option<Running>,
    ) -> Self {
        let folder =
            std::env::temp_dir().join(format!("flagship-kubectl-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        kubeconfig.write(&folder.join("kubeconfig")).unwrap();
        let kubectl = kubectl.to_owned();
        Self { edge, _workloads: workloads, folder, kubectl, background: None }
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

    pub async fn end(mut self) {
        self.stop();
        self.edge.shutdown().await;
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

async fn serve(server: &Server, env: &Env) -> Edge {
    let authority = Authority::create(env.clock.now()).unwrap();
    Edge::start(server, env, Config::local(0, authority)).await.unwrap()
}
