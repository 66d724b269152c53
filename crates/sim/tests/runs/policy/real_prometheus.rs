//! Checks against Debian's Prometheus, which scrapes a program of the test that plays twenty
//! clusters. Time is real here; where there is no Prometheus the test says so and passes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use flagship_runtime::network::{Call, Network, Tcp};
use futures::future::join_all;
use http::Method;
use serde_json::json;

use super::checks::{CANARY, asking, check, checked, twenty};

/// How often something is looked at, and how many times.
const STEP: Duration = Duration::from_millis(100);
const STEPS: u32 = 600;

fn say(line: &str) {
    drop(writeln!(std::io::stderr(), "{line}"));
}

/// What the clusters say of themselves: four of them regress, all of them rise, some say NaN.
fn metrics() -> String {
    let mut text = String::new();
    for n in 1..=20 {
        let cluster = format!("m{n}");
        let canary = CANARY.contains(&cluster.as_str());
        let own = f64::from(n) / 100_000.0;
        let regressed = if canary { 0.003 } else { 0.001 } + own / 10.0;
        let nan = if canary { "NaN".to_owned() } else { own.to_string() };
        text.push_str(&format!("regressed{{cluster=\"{cluster}\"}} {regressed}\n"));
        text.push_str(&format!("risen{{cluster=\"{cluster}\"}} {}\n", 0.003 + own));
        text.push_str(&format!("no_number{{cluster=\"{cluster}\"}} {nan}\n"));
    }
    text
}

/// Serves the metrics for as long as the test program runs.
fn exporter() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut request = [0; 4096];
            if stream.read(&mut request).is_err() {
                continue;
            }
            let body = metrics();
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close";
            let answer = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            drop(stream.write_all(answer.as_bytes()));
        }
    });
    port
}

/// A port that nobody listens on.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

struct Prometheus {
    child: Child,
    port: u16,
    folder: PathBuf,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

impl Prometheus {
    /// Nothing where it is not installed.
    fn scraping(target: u16) -> Option<Self> {
        let port = free_port();
        let folder = std::env::temp_dir().join(format!("flagship-checks-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let config = format!(
            "global: {{scrape_interval: 100ms, scrape_timeout: 100ms}}\nscrape_configs:\n- job_name: clusters\n  static_configs: [{{targets: ['127.0.0.1:{target}']}}]\n"
        );
        let file = folder.join("prometheus.yml");
        std::fs::write(&file, config).expect("a file");
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Some(Self { child: child.ok()?, port, folder })
    }

    /// Waits until it has scraped every cluster.
    async fn knows_all(&self) {
        let to: SocketAddr = format!("127.0.0.1:{}", self.port).parse().expect("an address");
        for _ in 0..STEPS {
            let call = Call {
                method: Method::GET,
                tls: None,
                trust: None,
                authority: to.to_string(),
                path: "/api/v1/query?query=count(risen)".to_owned(),
                headers: Default::default(),
                body: Default::default(),
                at_most: 64 * 1024,
            };
            let answer = Tcp::default().exchange(to, call).await;
            if answer.is_ok_and(|answer| String::from_utf8_lossy(&answer.body).contains("\"20\"")) {
                return;
            }
            tokio::time::sleep(STEP).await;
        }
        panic!("Prometheus has not scraped the clusters");
    }
}

/// Rolls out to twenty clusters under a check of this metric, and says how that ends: what the
/// run says of its failure, or that the first stage is done.
async fn outcome(port: u16, metric: &str) -> String {
    let network: Arc<dyn Network> = Arc::new(Tcp::default());
    let story = asking(network, "127.0.0.1/32").await;
    let own = check(json!({"for": "2s", "interval": "1s",
        "prometheus": {"url": format!("http://127.0.0.1:{port}"),
            "query": format!("{metric}{{cluster=\"{{{{cluster}}}}\"}}")},
        "pass": {"below": 0.01, "notWorseThan": "Rest", "by": "10%"}}));
    checked(&story, own, "Stop").await;
    twenty(&story).await;
    for _ in 0..STEPS {
        // Time is real, so that clusters are given the version while others wait already.
        story.all_work().await;
        let failed = story.said("r", "Succeeded");
        if failed.starts_with("False") {
            return failed;
        }
        if story.stage("r", "canary")["endTime"].is_string() {
            return "the first stage is done".to_owned();
        }
        tokio::time::sleep(STEP).await;
    }
    format!("nothing: {}", story.said("r", "Progressing"))
}

#[tokio::test]
async fn a_prometheus_that_scrapes_twenty_clusters() {
    let Some(prometheus) = Prometheus::scraping(exporter()) else {
        return say("checks: not asked of a real Prometheus, for there is none on PATH");
    };
    prometheus.knows_all().await;
    let (port, nobody) = (prometheus.port, free_port());
    let table = [
        (port, "regressed", "on 4 updated is worse than 0.001"),
        (port, "risen", "the first stage is done"),
        (port, "no_number", "no answer about m2: Prometheus answers NaN, which is no number"),
        (port, "unheard_of", "no answer about m2: Prometheus has no such series"),
        (port, "sum(", "Prometheus answers 400, invalid parameter \"query\""),
        (nobody, "risen", "Connection refused"),
    ];
    let found = join_all(table.iter().map(|(port, metric, _)| outcome(*port, metric))).await;
    for ((_, metric, wanted), found) in table.iter().zip(found) {
        assert!(found.contains(wanted), "{metric}: {found}");
    }
}
