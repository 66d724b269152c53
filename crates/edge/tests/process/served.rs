//! The server's process: started, watched from outside, and ended with its owner.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use flagship_apiserver::auth::{Access, StaticTokens, User, group};
use flagship_apiserver::rest::Server;
use flagship_edge::{Authority, Config, Edge, Limits};
use flagship_store as store;
use flagship_store::durable::Durable;
use flagship_store::env::Env;

use super::wire::Wire;

/// Where the server keeps its state; set only for the server's own process.
const FOLDER: &str = "FLAGSHIP_SERVED_FOLDER";
/// Which bounds it has.
const BOUNDS: &str = "FLAGSHIP_SERVED_BOUNDS";

/// A token that the server knows; its holder may do everything.
pub const TOKEN: &str = "a-token-that-is-known";

/// What unauthenticated clients may make the server keep and wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bounds {
    /// As everybody gets it.
    Default,
    /// Waits for nobody longer than a moment.
    Hasty,
    /// Has few places for those who say nothing.
    Narrow,
    /// Room for as many connections as the machine allows files.
    Roomy,
}

impl Bounds {
    fn limits(self) -> Limits {
        let limits = Limits::default();
        match self {
            Self::Default => limits,
            Self::Hasty => {
                let wait = Duration::from_secs(3);
                Limits { handshake: wait, head_wait: wait, ..limits }
            }
            Self::Narrow => Limits { silent: 1_000, ..limits },
            Self::Roomy => {
                Limits { connections: usize::MAX, connections_each: usize::MAX, ..limits }
            }
        }
    }
}

/// A server that runs beside this process and ends with it.
pub struct Served {
    child: Child,
    /// Kept open: who writes to a pipe that nobody holds is ended.
    _said: BufReader<ChildStdout>,
    address: SocketAddr,
    folder: PathBuf,
}

impl Served {
    /// Starts this very program as a server, and waits until it listens. The arguments are
    /// those that make it call [`serve_if_asked`].
    pub fn start(folder: &Path, arguments: &[&str], bounds: Bounds) -> Self {
        let program = std::env::current_exe().expect("this program was started from a file");
        let mut child = Command::new(program)
            .args(arguments)
            .env(FOLDER, folder)
            .env(BOUNDS, format!("{bounds:?}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started twice");
        let mut said = BufReader::new(child.stdout.take().expect("it was piped"));
        let address = said.by_ref().lines().find_map(|line| {
            let line = line.expect("the server speaks text");
            line.strip_prefix("listening at ").and_then(|address| address.parse().ok())
        });
        let address = address.expect("the server listens");
        Self { child, _said: said, address, folder: folder.to_owned() }
    }

    /// A way to it for those who trust its authority, and whom it trusts.
    pub fn wire(&self) -> Wire {
        let authority = Authority::at(&self.folder.join("certificates"), Env::system().clock.now());
        Wire::new(self.address, authority.expect("the server has made it"))
    }

    /// Its memory in KiB: [`NOW`] or [`PEAK`]. 0 where there is no `/proc`.
    pub fn memory(&self, line: &str) -> usize {
        let status = std::fs::read_to_string(self.proc("status")).unwrap_or_default();
        let line = status.lines().find_map(|text| text.strip_prefix(line));
        line.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    }

    /// Lets [`PEAK`] begin anew.
    pub fn forget_peak(&self) {
        // Where this is not possible the peak is that of the whole life: never too small.
        std::fs::write(self.proc("clear_refs"), "5").ok();
    }

    /// Files and sockets that it has open; 0 where there is no `/proc`.
    pub fn open_files(&self) -> usize {
        std::fs::read_dir(self.proc("fd")).map_or(0, Iterator::count)
    }

    fn proc(&self, file: &str) -> PathBuf {
        format!("/proc/{}/{file}", self.child.id()).into()
    }

    /// Ends it as a person would, and waits until it is gone.
    pub fn stop(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().expect("it was started");
    }
}

/// What a process holds now.
pub const NOW: &str = "VmRSS:";
/// What it held at most.
pub const PEAK: &str = "VmHWM:";

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// In a process that was started as a server: serves until its owner closes its input, and
/// does not return. Everywhere else: does nothing.
pub fn serve_if_asked() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let bounds = match std::env::var(BOUNDS).as_deref() {
        Ok("Hasty") => Bounds::Hasty,
        Ok("Narrow") => Bounds::Narrow,
        Ok("Roomy") => Bounds::Roomy,
        _ => Bounds::Default,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("threads can be started");
    runtime.block_on(serve(&folder, bounds.limits()));
    std::process::exit(0);
}

async fn serve(folder: &Path, limits: Limits) {
    let env = Env::system();
    let durable = Durable::open(&folder.join("state")).expect("the folder is ours");
    let objects = durable.store("hub", env.clone(), store::Limits::default());
    let server = Server::new(env.clone());
    server.add_cluster_with("hub", objects.expect("the file is whole"));
    let authority = Authority::at(&folder.join("certificates"), env.clock.now());
    let tokens =
        StaticTokens::default().with(TOKEN, User::authenticated("robot", [group::MASTERS]));
    let config = Config {
        access: Access::with_tokens(tokens),
        limits,
        ..Config::local(0, authority.expect("the folder is ours"))
    };
    let edge = Edge::start(&server, &env, config).await.expect("there is a free port");
    // In one write, after what the test harness may have said on the same line.
    let line = format!("\nlistening at {}\n", edge.address());
    std::io::stdout().write_all(line.as_bytes()).expect("the owner listens");
    let closed = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    closed.await.expect("reading does not panic").expect("the owner holds the other end");
    edge.shutdown().await;
    durable.close().expect("the disk has room");
}
