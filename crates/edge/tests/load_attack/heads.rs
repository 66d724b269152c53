//! Those who connect and then take their time.

use std::time::Duration;

use futures::future::{Either, FutureExt, LocalBoxFuture, select};
use futures::stream::{self, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::attacked::{AttackedServer, force};
use crate::frames::{END_STREAM, HEADERS, frame, get_head, greeting};
use crate::process::served::Bounds;
use crate::process::wire::{Connector, get, read};

/// How fast an attacker sends the next byte of a head.
const DRIP: Duration = Duration::from_millis(50);

/// What a connection says until it is closed from the other side.
async fn until_closed(mut stream: impl AsyncReadExt + Unpin) -> String {
    let mut said = Vec::new();
    stream.read_to_end(&mut said).await.ok();
    String::from_utf8_lossy(&said).into_owned()
}

/// Never begins to speak TLS.
async fn silent(connector: &Connector) -> String {
    until_closed(TcpStream::connect(connector.address).await.unwrap()).await
}

/// Begins to speak TLS, and stops in the middle of its first word.
async fn stammering(connector: &Connector) -> String {
    let mut stream = TcpStream::connect(connector.address).await.unwrap();
    stream.write_all(&[22, 3, 1, 2, 0, 1, 0, 1]).await.ok();
    until_closed(stream).await
}

/// Sends the head of a request a byte at a time.
async fn dripping(connector: &Connector) -> String {
    // It may have been asked to leave before it could begin.
    let Ok(stream) = connector.connect1().await else { return String::new() };
    let (from, mut to) = tokio::io::split(stream);
    let drip = async {
        let mut drop = tokio::time::interval(DRIP);
        for byte in b"GET /healthz HTTP/1.1\r\nX-Slow: ".iter().chain([b'x'; 10_000].iter()) {
            drop.tick().await;
            if to.write_all(&[*byte]).await.is_err() || to.flush().await.is_err() {
                return;
            }
        }
    };
    let (drip, said) = (drip.boxed_local(), until_closed(from).boxed_local());
    match select(drip, said).await {
        Either::Left((_, said)) => said.await,
        Either::Right((said, _)) => said,
    }
}

/// Agrees to HTTP/2, and never greets; or greets, and never ends its first head.
async fn ungreeting(connector: &Connector, words: &[u8]) -> String {
    let Ok(mut stream) = connector.connect2().await else { return String::new() };
    stream.write_all(words).await.ok();
    stream.flush().await.ok();
    until_closed(stream).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_takes_their_time_is_sent_away_and_keeps_nobody_out() {
    let server = AttackedServer::start("heads", Bounds::Hasty);
    let unauthenticated = server.wire.unauthenticated();
    let half = [greeting(), frame(HEADERS, END_STREAM, 1, &get_head("/"))].concat();
    let attackers = (0..force(480, 20_000)).map(|number| {
        let attacker: LocalBoxFuture<'_, String> = match number % 5 {
            0 => silent(&unauthenticated).boxed_local(),
            1 => stammering(&unauthenticated).boxed_local(),
            2 => dripping(&unauthenticated).boxed_local(),
            3 => ungreeting(&unauthenticated, b"").boxed_local(),
            _ => ungreeting(&unauthenticated, &half).boxed_local(),
        };
        attacker
    });
    // So many at a time: twice as many as may stay before they ask anything. Who is thrown out
    // is followed by another at once.
    let attack = stream::iter(attackers).buffer_unordered(force(240, 4_000)).collect::<Vec<_>>();
    let (said, grown) = server.under(attack).await;
    for said in said {
        assert!(!said.contains(" 200 "), "{said}");
    }
    assert!(grown < force(16, 128) << 10, "the server grew by {grown} KiB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_never_known_makes_way_for_others() {
    let server = AttackedServer::start("idlers", Bounds::Narrow);
    let unauthenticated = server.wire.unauthenticated();
    // Not slow, not wrong: they ask for what everybody may have, and stay.
    let attack = async {
        let mut idlers = Vec::new();
        for _ in 0..force(1_200, 8_000) {
            idlers.push(TcpStream::connect(unauthenticated.address).await.unwrap());
        }
        let mut sender = unauthenticated.http2().await.unwrap();
        let answer = sender.send_request(get("/healthz")).await.unwrap();
        assert_eq!(read(answer).await.unwrap().0, 200);
        // The first have been asked to leave, long before their time was over.
        assert_eq!(idlers[0].read(&mut [0; 1]).await.ok().unwrap_or_default(), 0);
    };
    let ((), grown) = server.under(attack).await;
    assert!(grown < 32 << 10, "the server grew by {grown} KiB");
}
