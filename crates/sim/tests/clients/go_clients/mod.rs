//! Stock Go clients against the embedded server: client-go and controller-runtime.
//!
//! `program/` runs and prints a line for each thing that works; `checks.txt` has the lines
//! that must come. It knows nothing of this server: every line but those about pods holds
//! on a real one, too. `scripts/go-clients` builds it where there is Go and a module proxy;
//! elsewhere the tests are skipped, and say so.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use expect_test::expect_file;
use flagship_apiserver::rest::Server;
use flagship_edge::{Authority, Config, Edge};
use flagship_store::env::Env;
use flagship_workloads::{WorkloadConfig, Workloads};
use jiff::SignedDuration;

/// The program, or why there is none.
static PROGRAM: LazyLock<Result<PathBuf, String>> = LazyLock::new(build);

fn build() -> Result<PathBuf, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/go-clients");
    let built = Command::new(script).output().map_err(|why| format!("no shell: {why}"))?;
    let said = String::from_utf8_lossy(&built.stderr).trim().to_owned();
    match built.status.code() {
        Some(0) => Ok(String::from_utf8_lossy(&built.stdout).trim().into()),
        Some(2) => Err(said),
        _ => panic!("the program does not build:\n{said}"),
    }
}

/// Runs parts of the program, all without any, against a server of its own. What it said;
/// `None` where it cannot be built.
async fn said(features: &[(&str, &str)], parts: &[&str]) -> Option<String> {
    // Building blocks, and what the server does meanwhile is nothing.
    let program = match &*PROGRAM {
        Ok(program) => program,
        Err(why) => {
            // Straight to stderr: the runner hides what a passing test prints.
            use std::io::Write;
            drop(writeln!(std::io::stderr(), "the Go clients were skipped: {why}"));
            return None;
        }
    };
    let env = Env::system();
    let server = Server::new(env.clone());
    let cluster = server.add_cluster("hub");
    let user = cluster.local("user");
    for definition in flagship_api::crd::all() {
        let definitions = "customresourcedefinitions.apiextensions.k8s.io";
        user.create(definitions, "", definition).await.unwrap();
    }
    let at_once = SignedDuration::ZERO;
    let _workloads = Workloads::new(WorkloadConfig {
        ready_after: at_once,
        start_after: at_once,
        stop_after: at_once,
        ..WorkloadConfig::default()
    })
    .spawn(cluster);
    let authority = Authority::create(env.clock.now()).unwrap();
    let edge = Edge::start(&server, &env, Config::local(0, authority)).await.unwrap();
    let folder = std::env::temp_dir().join(format!(
        "flagship-go-clients-{}-{}",
        std::process::id(),
        edge.address().port()
    ));
    let kubeconfig = folder.join("kubeconfig");
    edge.kubeconfig().unwrap().write(&kubeconfig).unwrap();
    let mut command = Command::new(program);
    command.arg(&kubeconfig).args(parts).envs(features.iter().copied()).env("TMPDIR", &folder);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    edge.shutdown().await;
    std::fs::remove_dir_all(&folder).unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    Some(said)
}

/// The lines of these parts that must come.
fn expected(parts: &[&str]) -> String {
    let lines = include_str!("checks.txt").lines();
    let chosen =
        lines.filter(|line| parts.iter().any(|part| line.starts_with(&format!("ok {part}:"))));
    chosen.map(|line| format!("{line}\n")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_check_of_the_go_clients_passes() {
    let Some(said) = said(&[], &[]).await else { return };
    expect_file!["checks.txt"].assert_eq(&said);
}

/// As client-go will do by itself in later versions: lists come as watches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn informers_and_managers_work_with_streamed_lists() {
    let parts = ["informers", "managers"];
    let Some(said) = said(&[("KUBE_FEATURE_WatchListClient", "true")], &parts).await else {
        return;
    };
    assert_eq!(said, expected(&parts));
}
