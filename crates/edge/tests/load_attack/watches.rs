//! Ten thousand watches with nothing to say, on few connections and on many.

use futures::future::join_all;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::json;

use crate::attacked::{AttackedServer, force};
use crate::process::served::Bounds;
use crate::process::wire::{Connector, create, get, read};
use crate::well_behaved::WellBehavedClient;

const SECRETS: &str = "/clusters/hub/api/v1/namespaces/kube-public/secrets";
/// Watches on one HTTP/2 connection, as many as the server allows.
const STREAMS: usize = 250;

/// So many watches on one connection, each begun.
async fn watches(connector: &Connector, count: usize) -> Vec<Incoming> {
    let mut sender = connector.http2().await.unwrap();
    let path = format!("{SECRETS}?watch=true&timeoutSeconds=3600");
    let answers = join_all((0..count).map(|_| sender.send_request(get(&path)))).await;
    let bodies = answers.into_iter().map(|answer| {
        let answer = answer.unwrap();
        assert_eq!(answer.status(), 200);
        answer.into_body()
    });
    bodies.collect()
}

/// Opens watches a few connections at a time, and has one event sent to all of them. How
/// much each made the server grow, in bytes.
async fn attend(server: &AttackedServer, connections: usize, on_each: usize) -> usize {
    let connector = server.wire.admin("attacker");
    let attack = async {
        let mut held: Vec<Incoming> = Vec::new();
        let all: Vec<usize> = (0..connections).collect();
        // Few enough that none is asked to come back later.
        for few in all.chunks(3) {
            let opened = join_all(few.iter().map(|_| watches(&connector, on_each))).await;
            held.extend(opened.into_iter().flatten());
        }
        let mut sender = connector.http2().await.unwrap();
        let made = create(SECRETS, &json!({"metadata": {"name": "news"}}));
        assert_eq!(read(sender.send_request(made).await.unwrap()).await.unwrap().0, 201);
        for watch in &mut held {
            let event = watch.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(event.starts_with(b"{\"type\":\"ADDED\""));
        }
        held.len()
    };
    let before = server.served.open_files();
    let (held, grown) = server.under(attack).await;
    assert_eq!(held, connections * on_each);
    // Their connections ended with them; the well-behaved client's rounds are the clock.
    let mut client = WellBehavedClient::connect(server.wire.admin("well-behaved")).await;
    for _ in 0..1000 {
        if server.served.open_files() <= before + 10 {
            break;
        }
        client.work().await;
    }
    assert!(server.served.open_files() <= before + 10, "connections are left behind");
    grown * 1024 / held
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_watches_on_few_connections_cost_little() {
    let server = AttackedServer::start("watches", Bounds::Default);
    let each = attend(&server, force(3_000, 10_000) / STREAMS, STREAMS).await;
    println!("watches: {each} bytes each");
    assert!(each < 8 << 10, "each watch takes {each} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_connections_as_there_are_files_cost_what_tls_costs() {
    let server = AttackedServer::start("connections", Bounds::Roomy);
    // Ours and the server's are counted apart, and both need some files besides.
    let allowed = files().saturating_sub(200);
    let each = attend(&server, force(200, 10_000).min(allowed), 1).await;
    println!("connections: {each} bytes each");
    assert!(each < 100 << 10, "each connection takes {each} bytes");
}

/// How many files a process may have open; few where nobody says.
fn files() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(250)
}
