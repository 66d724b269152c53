//! One process of ours, its probes and its end.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// What is started: the binary of this build, or what FLAGSHIP_BINARY names, such as a script that
/// starts one out of an image.
pub static BINARY: LazyLock<String> = LazyLock::new(|| {
    let built = env!("CARGO_BIN_EXE_flagship");
    std::env::var("FLAGSHIP_BINARY").unwrap_or_else(|_| built.to_owned())
});

/// How long is waited for a probe or an end, in steps of [`STEP`].
pub const STEPS: u32 = 600;
pub const STEP: Duration = Duration::from_millis(100);

/// A running agent. It is killed if the test ends before it does.
pub struct Process {
    child: Child,
    log: PathBuf,
    health: u16,
    metrics: u16,
}

/// A port of the loopback device that nobody listens on.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Process {
    /// Starts the binary with these words, and nothing else of our environment.
    pub fn start(flags: &str, environment: &[(&str, String)], health: u16, metrics: u16) -> Self {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("flagship-agent-{}-{number}.log", std::process::id());
        let log = std::env::temp_dir().join(name);
        let file = std::fs::File::create(&log).unwrap();
        let child = Command::new(&*BINARY)
            .args(flags.split_whitespace())
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .unwrap();
        Self { child, log, health, metrics }
    }

    /// What it has logged.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until its probe says that it is ready; it is alive long before.
    pub async fn is_ready(&mut self) {
        for _ in 0..STEPS {
            if let Some(ended) = self.child.try_wait().unwrap() {
                panic!("it ended with {ended}: {}", self.said());
            }
            if ask(self.health, "/readyz").starts_with("HTTP/1.1 200") {
                assert!(ask(self.health, "/healthz").starts_with("HTTP/1.1 200"));
                return;
            }
            tokio::time::sleep(STEP).await;
        }
        panic!("{}: {}", ask(self.health, "/readyz"), self.said());
    }

    /// Its metrics as text.
    pub fn metrics(&self) -> String {
        ask(self.metrics, "/metrics")
    }

    /// Where its metrics are.
    pub fn metrics_port(&self) -> u16 {
        self.metrics
    }

    /// Asks it to stop as Kubernetes would; whether it ended well.
    pub async fn stops(&mut self) -> bool {
        let told = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(told.unwrap().success());
        for _ in 0..STEPS {
            if let Some(ended) = self.child.try_wait().unwrap() {
                return ended.success();
            }
            tokio::time::sleep(STEP).await;
        }
        false
    }

    /// Waits for the end of a process that cannot start, and hands out what it said.
    pub fn refuses(&mut self) -> String {
        let ended: ExitStatus = self.child.wait().unwrap();
        assert!(!ended.success());
        self.said()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_file(&self.log));
    }
}

/// The whole answer of a plain endpoint; nothing while nobody listens.
pub fn ask(port: u16, path: &str) -> String {
    let asked = || -> std::io::Result<String> {
        let mut socket = TcpStream::connect(("127.0.0.1", port))?;
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(socket, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer)?;
        Ok(answer)
    };
    asked().unwrap_or_default()
}
