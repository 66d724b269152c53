//! The well-behaved client whose every request must succeed.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::process::wire::{Connector, Http2, MAPS, create, get, read, request, whole};

/// Long enough for a busy machine; a request that was forgotten takes longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client with work to do: one connection that stays, and a new one for each round.
pub struct WellBehavedClient {
    connector: Connector,
    sender: Http2,
    watch: Incoming,
    /// What of the watch has come and is not yet a whole line.
    heard: Vec<u8>,
    rounds: usize,
    /// The longest that all requests of a round took.
    pub slowest: Duration,
}

impl WellBehavedClient {
    pub async fn connect(connector: Connector) -> Self {
        let mut sender = connector.http2().await.unwrap();
        let list = sender.send_request(get(&format!("{MAPS}?limit=1"))).await.unwrap();
        let (code, list) = read(list).await.unwrap();
        assert_eq!(code, 200);
        let list: Value = serde_json::from_slice(&list).unwrap();
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
        let path = format!("{MAPS}?watch=true&resourceVersion={revision}");
        let watch = sender.send_request(get(&path)).await.unwrap();
        assert_eq!(watch.status(), 200);
        let (heard, rounds, slowest) = (Vec::new(), 0, Duration::ZERO);
        Self { connector, sender, watch: watch.into_body(), heard, rounds, slowest }
    }

    /// Creates an object, hears of it, reads it by a new connection, and deletes it.
    pub async fn work(&mut self) {
        let begun = Instant::now();
        self.rounds += 1;
        let name = format!("round-{}", self.rounds);
        let path = format!("{MAPS}/{name}");
        let made = create(MAPS, &json!({"metadata": {"name": name}, "data": {"k": "v"}}));
        assert_eq!(self.ask("create", made).await, 201);
        self.hears("ADDED", &name).await;
        let reading = async {
            let mut fresh = self.connector.http1().await.unwrap();
            let answer = fresh.send_request(get(&path)).await.unwrap();
            read(answer).await.unwrap()
        };
        let (code, body) = timeout(PATIENCE, reading).await.expect("a new connection is served");
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((code, body["data"]["k"].as_str()), (200, Some("v")), "{body}");
        let deleted = request("DELETE", &path, &[], whole(""));
        assert_eq!(self.ask("delete", deleted).await, 200);
        self.hears("DELETED", &name).await;
        self.slowest = self.slowest.max(begun.elapsed());
    }

    async fn ask(&mut self, what: &str, request: http::Request<crate::process::wire::Sent>) -> u16 {
        let asking = async { read(self.sender.send_request(request).await.unwrap()).await };
        let answered = timeout(PATIENCE, asking).await;
        answered.unwrap_or_else(|_| panic!("{what} was not answered")).unwrap().0
    }

    async fn hears(&mut self, kind: &str, name: &str) {
        loop {
            if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.heard.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).unwrap();
                // Attackers may write as well.
                if event["type"] == kind && event["object"]["metadata"]["name"] == name {
                    return;
                }
                continue;
            }
            let frame = timeout(PATIENCE, self.watch.frame()).await;
            let frame = frame.expect("an event comes").expect("the watch goes on").unwrap();
            self.heard.extend_from_slice(&frame.into_data().unwrap());
        }
    }
}
