//! How the server ends.

use std::time::Duration;

use flagship_edge::Limits;
use http_body_util::BodyExt;
use tokio::net::TcpStream;

use crate::client::{TestServer, get};

const WATCH: &str = "/clusters/hub/api/v1/namespaces?watch=true";

#[tokio::test]
async fn watches_end_between_two_events_and_nobody_else_is_let_in() {
    let api = TestServer::new().await;
    let admin = api.admin();
    let address = api.edge.address();
    let mut response = api.begin(Some(&admin), get(WATCH, &[])).await;
    let first = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(br#"{"type":"ADDED""#));
    let TestServer { edge, server, .. } = api;
    let ended = tokio::spawn(edge.shutdown());
    // A clean end: no error, and only whole lines.
    let rest = response.into_body().collect().await.unwrap().to_bytes();
    assert!(rest.is_empty() || rest.ends_with(b"\n"));
    ended.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
    assert!(server.cluster("hub").is_some(), "the clusters go on without the edge");
}

#[tokio::test]
async fn a_request_that_never_ends_does_not_keep_the_server() {
    let limits = Limits { shutdown: Duration::from_millis(20), ..Limits::default() };
    let api = TestServer::within(limits).await;
    let mut stream = api.connect(Some(&api.admin()), "http/1.1").await;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let head =
        "POST /clusters/hub/api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    api.edge.shutdown().await;
    let mut answer = Vec::new();
    let ended = stream.read_to_end(&mut answer).await;
    assert!(ended.is_err() || answer.is_empty(), "{answer:?}");
}
