//! Bodies that are too long, that blow up, and that never end.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use flate2::{Compress, Compression, FlushCompress};
use futures::future::join_all;
use futures::stream::{self, FuturesUnordered, StreamExt, pending};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::attacked::{AttackedServer, force};
use crate::process::served::Bounds;
use crate::process::wire::{Connector, MAPS, Sent, read, request, whole};

const HUGE: usize = 100 << 20;
const PIECE: usize = 64 << 10;

/// Pours a body of 100 MiB into a connection, as long as the server takes it. What the
/// server said, and how much it took.
async fn pour(connector: &Connector, headers: String, chunked: bool) -> (String, usize) {
    let (mut from, mut to) = tokio::io::split(connector.connect1().await.unwrap());
    let head = format!("POST {MAPS} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n\r\n");
    to.write_all(head.as_bytes()).await.unwrap();
    let pouring = async {
        let mut piece = vec![b' '; PIECE];
        if chunked {
            piece = [format!("{PIECE:x}\r\n").as_bytes(), &piece, b"\r\n"].concat();
        }
        let mut poured = 0;
        while poured < HUGE && to.write_all(&piece).await.is_ok() {
            poured += PIECE;
        }
        poured
    };
    let listening = async {
        let mut said = Vec::new();
        // The connection may be reset behind the answer.
        from.read_to_end(&mut said).await.ok();
        String::from_utf8_lossy(&said).lines().next().unwrap_or_default().to_owned()
    };
    let (poured, said) = futures::future::join(pouring, listening).await;
    (said, poured)
}

/// The same over HTTP/2, where the connection goes on.
async fn pour_http2(connector: &Connector) -> (String, usize) {
    let poured = Arc::new(AtomicUsize::new(0));
    let count = poured.clone();
    let pieces = std::iter::repeat_n(Bytes::from(vec![b' '; PIECE]), HUGE / PIECE);
    let pieces = pieces.map(move |piece| {
        count.fetch_add(piece.len(), Ordering::Relaxed);
        Ok::<_, Infallible>(Frame::data(piece))
    });
    let body: Sent = BodyExt::boxed(StreamBody::new(stream::iter(pieces)));
    let mut sender = connector.http2().await.unwrap();
    let sent = request("POST", MAPS, &["Content-Type: application/json"], body);
    let (code, _) = read(sender.send_request(sent).await.unwrap()).await.unwrap();
    (format!("HTTP/2 {code}"), poured.load(Ordering::Relaxed))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_mebibytes_are_refused_unread() {
    let server = AttackedServer::start("bodies", Bounds::Default);
    let (known, unauthenticated) = (server.wire.admin("attacker"), server.wire.unauthenticated());
    let length = format!("Content-Length: {HUGE}");
    let (token, json) = ("Authorization: Bearer wrong", "Content-Type: application/json");
    let attack = (0..force(4, 25)).map(|_| async {
        let announced = pour(&known, format!("{json}\r\n{length}"), false);
        let unannounced = pour(&known, format!("{json}\r\nTransfer-Encoding: chunked"), true);
        let unknown = pour(&unauthenticated, length.clone(), false);
        let wrong = pour(&unauthenticated, format!("{token}\r\n{length}"), false);
        let over_http2 = pour_http2(&known);
        futures::join!(announced, unannounced, unknown, wrong, over_http2)
    });
    let (answers, grown) = server.under(join_all(attack)).await;
    for (announced, unannounced, unknown, wrong, over_http2) in answers {
        for (answer, wanted) in [
            (announced, "HTTP/1.1 413 Payload Too Large"),
            (unknown, "HTTP/1.1 403 Forbidden"),
            (wrong, "HTTP/1.1 401 Unauthorized"),
        ] {
            assert_eq!(answer.0, wanted);
            assert!(answer.1 < HUGE / 2, "{wanted} after {} bytes", answer.1);
        }
        // Of these the server has to read three MiB each to know; together no more than it
        // holds for one user.
        for (said, poured) in [unannounced, over_http2] {
            assert!(said.contains(" 413") || said.contains(" 429"), "{said:?}");
            assert!(poured < HUGE / 2, "{said} after {poured} bytes");
        }
    }
    assert!(grown < 160 << 10, "the server grew by {grown} KiB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_never_end_are_held_up_to_a_bound_for_each_user() {
    const FITTING: usize = 64;
    let server = AttackedServer::start("slow-bodies", Bounds::Default);
    let known = server.wire.admin("attacker");
    let attackers = force(100, 1000);
    let attack = async {
        let mut refused = 0;
        let mut senders = Vec::new();
        let mut requests = FuturesUnordered::new();
        for number in 0..attackers {
            if number % 50 == 0 {
                senders.push(known.http2().await.unwrap());
            }
            let mebibyte = stream::iter([Ok(Frame::data(Bytes::from(vec![b' '; 1 << 20])))]);
            let body: Sent = BodyExt::boxed(StreamBody::new(mebibyte.chain(pending())));
            let sent = request("POST", MAPS, &["Content-Type: application/json"], body);
            requests.push(senders.last_mut().unwrap().send_request(sent));
        }
        while refused < attackers - FITTING {
            let answer = requests.next().await.expect("there are more").unwrap();
            assert_eq!(answer.status(), 429);
            assert_eq!(answer.headers()["Retry-After"], "1");
            refused += 1;
        }
    };
    let ((), grown) = server.under(attack).await;
    assert!(grown < 160 << 10, "the server grew by {grown} KiB");
}

/// A gzip body of a few kilobytes for so many mebibytes of spaces: the block for one of
/// them, again and again. There is no end, for nobody gets there.
fn bomb(mebibytes: usize) -> Bytes {
    let mut block = Vec::with_capacity(1 << 20);
    let mut compress = Compress::new(Compression::fast(), false);
    compress.compress_vec(&vec![b' '; 1 << 20], &mut block, FlushCompress::Full).unwrap();
    let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    [head.to_vec(), block.repeat(mebibytes)].concat().into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bombs_are_defused() {
    let server = AttackedServer::start("bombs", Bounds::Default);
    let known = server.wire.admin("attacker");
    let gzip = bomb(force(200, 500));
    assert!(gzip.len() < 3 << 20, "the bomb has {} bytes", gzip.len());
    // Each line is ten times the line before.
    let mut laughs = "a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n".to_owned();
    for line in 1..12 {
        let ten = vec![format!("*a{}", line - 1); 10].join(", ");
        laughs.push_str(&format!("a{line}: &a{line} [{ten}]\n"));
    }
    let attack = async {
        for _ in 0..force(1, 20) {
            let mut sender = known.http2().await.unwrap();
            let answers = (0..20).map(|number| {
                let request = match number % 4 {
                    0 => request(
                        "POST",
                        MAPS,
                        &["Content-Type: application/yaml"],
                        whole(laughs.clone()),
                    ),
                    _ => request(
                        "POST",
                        MAPS,
                        &["Content-Type: application/json", "Content-Encoding: gzip"],
                        whole(gzip.clone()),
                    ),
                };
                let sent = sender.send_request(request);
                async move { (number % 4, sent.await.unwrap().status().as_u16()) }
            });
            for (kind, code) in join_all(answers).await {
                assert_eq!(code, if kind == 0 { 400 } else { 413 });
            }
        }
    };
    let ((), grown) = server.under(attack).await;
    assert!(grown < 64 << 10, "the server grew by {grown} KiB");
}
