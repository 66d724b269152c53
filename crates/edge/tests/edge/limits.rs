//! What unauthenticated clients cannot make the server do.

use std::io::Write;
use std::time::Duration;

use flagship_edge::Limits;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::Request;
use http_body_util::StreamBody;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::{Never, TOKEN, TestServer, get, post, read};

#[tokio::test]
async fn bodies_are_bounded_however_they_come() {
    let api = TestServer::new().await;
    let admin = api.admin();
    let long = json!({"metadata": {"name": "a"}, "data": {"k": "v".repeat(4 << 20)}}).to_string();
    let sent = api.send(Some(&admin), post(&["Content-Type: application/json"], long.clone()));
    assert_eq!(sent.await.code, 413);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(long.as_bytes()).unwrap();
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 20_000);
    let headers = ["Content-Type: application/json", "Content-Encoding: gzip"];
    assert_eq!(api.send(Some(&admin), post(&headers, bomb)).await.code, 413);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(json!({"metadata": {"name": "a"}}).to_string().as_bytes()).unwrap();
    let small = encoder.finish().unwrap();
    assert_eq!(api.send(Some(&admin), post(&headers, small)).await.code, 201);
    let headers = ["Content-Type: application/json", "Content-Encoding: zstd"];
    assert_eq!(api.send(Some(&admin), post(&headers, "x")).await.code, 415);
}

// Their pieces are made apart, a few objects at a time.
#[tokio::test]
async fn long_lists_whose_objects_must_be_read_arrive_whole() {
    let api = TestServer::new().await;
    let admin = api.admin();
    let maps = "/api/v1/namespaces/default/configmaps";
    let text = "v".repeat(100_000);
    for at in 0..8 {
        let name = format!("large-{at}");
        api.make(maps, json!({"metadata": {"name": name}, "data": {"k": text}})).await;
    }
    for (form, key) in [("Table", "rows"), ("PartialObjectMetadataList", "items")] {
        let accept = format!("Accept: application/json;as={form};v=v1;g=meta.k8s.io");
        let path = format!("/clusters/hub{maps}");
        let reply = api.send(Some(&admin), get(&path, &[&accept])).await;
        assert_eq!(reply.code, 200);
        let told = reply.json();
        let large = told[key].as_array().unwrap().iter().filter(|one| {
            let meta = [&one["metadata"], &one["object"]["metadata"]];
            meta.iter().any(|m| m["name"].as_str().is_some_and(|name| name.starts_with("large-")))
        });
        assert_eq!(large.count(), 8, "{form}");
    }
}

#[tokio::test]
async fn heads_are_bounded() {
    let api = TestServer::new().await;
    let mut stream = api.connect(None, "http/1.1").await;
    let head = format!(
        "GET /healthz HTTP/1.1\r\nConnection: close\r\nX-Long: {}\r\n\r\n",
        "x".repeat(1 << 20)
    );
    // The answer comes before the whole head was sent, and the connection is closed.
    stream.write_all(head.as_bytes()).await.ok();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok();
    let text = String::from_utf8_lossy(&answer);
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 431 "), "{text}");
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let limits = Limits { request: Duration::from_millis(20), ..Limits::default() };
    let api = TestServer::within(limits).await;
    let io = TokioIo::new(api.connect(Some(&api.admin()), "http/1.1").await);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let frames = futures::stream::pending::<Result<http_body::Frame<bytes::Bytes>, Never>>();
    let request = Request::post("/clusters/hub/api/v1/namespaces")
        .header("Host", "localhost")
        .body(StreamBody::new(frames))
        .unwrap();
    let reply = read(sender.send_request(request).await.unwrap()).await;
    let says = "Timeout: request did not complete within the allotted timeout".to_owned();
    assert_eq!(reply.refusal(), (504, says));
}

#[tokio::test]
async fn who_says_nothing_is_sent_away() {
    let limits = Limits {
        handshake: Duration::from_millis(20),
        head_wait: Duration::from_millis(20),
        ..Limits::default()
    };
    let api = TestServer::within(limits).await;
    let mut silent = tokio::net::TcpStream::connect(api.edge.address()).await.unwrap();
    assert_eq!(silent.read(&mut [0; 1]).await.unwrap(), 0, "no handshake");
    let mut half = api.connect(None, "http/1.1").await;
    half.write_all(b"GET /healthz HTTP/1.1\r\nHost:").await.unwrap();
    let mut answer = Vec::new();
    half.read_to_end(&mut answer).await.ok();
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "half a head");
}

#[tokio::test]
async fn more_known_ones_than_have_seats_are_served_and_make_way_for_each_other() {
    let limits = Limits { connections: 1, unauthenticated: 1, ..Limits::default() };
    let api = TestServer::within(limits).await;
    let admin = api.admin();
    let mut senders = Vec::new();
    for _ in 0..3 {
        let io = TokioIo::new(api.connect(Some(&admin), "http/1.1").await);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let asked = sender.send_request(get("/healthz", &[])).await;
        assert_eq!(read(asked.unwrap()).await.code, 200);
        senders.push(sender);
    }
    let mut served = Vec::new();
    for sender in &mut senders {
        served.push(sender.send_request(get("/healthz", &[])).await.is_ok());
    }
    assert_eq!(served, [true, false, true]);
}

#[tokio::test]
async fn who_says_nothing_makes_way_for_others_at_once() {
    let limits = Limits { silent: 1, handshakes: 1, unauthenticated: 1, ..Limits::default() };
    let api = TestServer::within(limits).await;
    let mut silent = tokio::net::TcpStream::connect(api.edge.address()).await.unwrap();
    let mut half = api.connect(None, "http/1.1").await;
    half.write_all(b"GET /healthz HTTP/1.1\r\nHost:").await.unwrap();
    assert_eq!(silent.read(&mut [0; 1]).await.unwrap_or_default(), 0, "it had to leave");
    assert_eq!(api.get(None, "/healthz").await.code, 200);
    assert_eq!(half.read(&mut [0; 1]).await.unwrap_or_default(), 0, "it had to leave, too");
}

#[tokio::test]
async fn who_forgets_tls_is_told() {
    let api = TestServer::new().await;
    let mut stream = tokio::net::TcpStream::connect(api.edge.address()).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let says = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
    assert_eq!(answer, says);
}

#[tokio::test]
async fn whoever_shows_a_good_token_may_stay() {
    let limits = Limits { unauthenticated: 1, ..Limits::default() };
    let api = TestServer::within(limits).await;
    let header = format!("Authorization: Bearer {TOKEN}");
    let mut senders = Vec::new();
    for header in [header.as_str(), "X-Nothing: to show"] {
        let io = TokioIo::new(api.connect(None, "h2").await);
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        let asked = sender.send_request(get("https://localhost/healthz", &[header])).await;
        assert_eq!(read(asked.unwrap()).await.code, 200);
        senders.push(sender);
    }
    // Somebody else comes: only the one with nothing to show has to leave.
    assert_eq!(api.get(None, "/healthz").await.code, 200);
    let request = || get("https://localhost/healthz", &[]);
    assert_eq!(read(senders[0].send_request(request()).await.unwrap()).await.code, 200);
    assert!(senders[1].send_request(request()).await.is_err());
}

#[tokio::test]
async fn who_speaks_http2_and_asks_nothing_is_sent_away() {
    let limits = Limits { head_wait: Duration::from_millis(20), ..Limits::default() };
    let api = TestServer::within(limits).await;
    for words in [&b""[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"] {
        let mut stream = api.connect(Some(&api.admin()), "h2").await;
        stream.write_all(words).await.unwrap();
        stream.read_to_end(&mut Vec::new()).await.ok();
    }
}

#[tokio::test]
async fn one_user_is_held_so_many_bytes_of_bodies_at_a_time() {
    let limits = Limits { bodies_each: 10_000, ..Limits::default() };
    let api = TestServer::within(limits).await;
    let io = TokioIo::new(api.connect(Some(&api.admin()), "h2").await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let large = || {
        let map = json!({"metadata": {"generateName": "a"}, "data": {"k": "v".repeat(8_000)}});
        let (mut parts, body) =
            post(&["Content-Type: application/json"], map.to_string()).into_parts();
        parts.uri = format!("https://localhost{}", parts.uri).parse().unwrap();
        Request::from_parts(parts, body)
    };
    // One fits, and makes room for the next when it is answered.
    for _ in 0..3 {
        assert_eq!(read(sender.send_request(large()).await.unwrap()).await.code, 201);
    }
    let map = json!({"metadata": {"generateName": "a"}, "data": {"k": "v".repeat(11_000)}});
    let refused = post(&["Content-Type: application/json"], map.to_string());
    let refused = api.send(Some(&api.admin()), refused).await;
    let says = "too many requests are being sent at a time, please try again later".to_owned();
    assert_eq!(refused.refusal(), (429, says));
}

#[tokio::test]
async fn requests_taken_back_in_masses_end_the_connection() {
    let limits = Limits { resets: 4, ..Limits::default() };
    let api = TestServer::within(limits).await;
    let mut stream = api.connect(None, "h2").await;
    // The preface and empty settings; then heads of requests, each reset at once.
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    // :method GET, :scheme https, :path /, :authority x, from the static table.
    let head = [0x82, 0x87, 0x84, 0x41, 0x01, b'x'];
    for id in (1..2000_u32).step_by(2) {
        bytes.extend_from_slice(&[0, 0, 6, 1, 5]);
        bytes.extend_from_slice(&id.to_be_bytes());
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(&[0, 0, 4, 3, 0]);
        bytes.extend_from_slice(&id.to_be_bytes());
        bytes.extend_from_slice(&8_u32.to_be_bytes());
    }
    stream.write_all(&bytes).await.ok();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok();
    // A GOAWAY frame: length 8 or more, type 7, stream 0.
    let goaway = answer.windows(6).any(|frame| frame[3..] == [7, 0, 0] && frame[2] >= 8);
    assert!(goaway || answer.is_empty(), "{answer:?}");
}

/// Sends bytes on a connection of its own; the whole answer.
async fn raw(api: &TestServer, text: &str) -> String {
    let mut stream = api.connect(Some(&api.admin()), "http/1.1").await;
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_request_says_once_which_host_it_means() {
    let api = TestServer::new().await;
    let get = |version: &str, hosts: &str| {
        format!("GET /clusters/hub/version HTTP/{version}\r\n{hosts}Connection: close\r\n\r\n")
    };
    for (version, hosts, code, says) in [
        ("1.1", "Host: localhost\r\n", "200", ""),
        ("1.1", "", "400", "missing required Host header"),
        ("1.0", "", "200", ""),
        ("1.1", "Host: localhost\r\nHost: localhost\r\n", "400", "too many Host headers"),
        ("1.1", "Host: localhost\r\nHost: elsewhere\r\n", "400", "too many Host headers"),
    ] {
        let answer = raw(&api, &get(version, hosts)).await;
        let begins = format!("HTTP/{version} {code} ");
        assert!(answer.starts_with(&begins) && answer.contains(says), "{hosts:?}: {answer}");
    }
}

#[tokio::test]
async fn who_is_refused_before_its_body_is_read_is_told_that_the_connection_closes() {
    let api = TestServer::new().await;
    let admin = api.admin();
    let long = "v".repeat(4 << 20);
    let refused = api.begin(Some(&admin), post(&["Content-Type: application/json"], long)).await;
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["connection"]),
        (413, &"close".parse().unwrap())
    );
    let nobody = api.begin(None, post(&["Content-Type: application/json"], "{}")).await;
    assert_eq!(nobody.status(), 403);
    assert_eq!(nobody.headers().get("connection").unwrap(), "close");
    let small = json!({"metadata": {"name": "fine"}}).to_string();
    let taken = api.begin(Some(&admin), post(&["Content-Type: application/json"], small)).await;
    assert_eq!((taken.status().as_u16(), taken.headers().get("connection")), (201, None));
}
