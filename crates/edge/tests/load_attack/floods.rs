//! HTTP/2 as a weapon: requests taken back in masses, heads without end, frames for their
//! own sake.

use futures::future::join_all;

use crate::attacked::{AttackedServer, force};
use crate::frames::{
    self, CONTINUATION, ENHANCE_YOUR_CALM, GOAWAY, HEADERS, PING, SETTINGS, broken, farewell,
    frame, get_head, greeting, taken_back, wait_for,
};
use crate::process::served::Bounds;
use crate::process::wire::MAPS;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_taken_back_in_masses_end_the_connection() {
    let server = AttackedServer::start("resets", Bounds::Default);
    let (known, unauthenticated) = (server.wire.admin("attacker"), server.wire.unauthenticated());
    let (head, requests) = (get_head(MAPS), force(2_000, 20_000));
    // Taken back by the client, or by the server because the client makes it.
    let floods = [taken_back, broken].map(|request| {
        let ids = (0..requests).map(|number| u32::try_from(number * 2 + 1).unwrap());
        let frames = ids.flat_map(|id| request(id, &head));
        greeting().into_iter().chain(frames).collect::<Vec<u8>>()
    });
    let attack = (0..force(16, 200)).map(|number| {
        let connector = if number % 2 == 0 { &known } else { &unauthenticated };
        let flood = &floods[number / 2 % 2];
        async move {
            let mut stream = connector.connect2().await.unwrap();
            frames::send(&mut stream, flood).await;
            farewell(&mut stream).await
        }
    });
    let (farewells, grown) = server.under(join_all(attack)).await;
    for said in farewells {
        assert_eq!(said, Some(ENHANCE_YOUR_CALM));
    }
    assert!(grown < 32 << 10, "the server grew by {grown} KiB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_taken_back_one_by_one_leave_nothing_behind() {
    let server = AttackedServer::start("patient-resets", Bounds::Default);
    let known = server.wire.admin("attacker");
    let head = get_head(&format!("{MAPS}?watch=true"));
    let attack = (0..4).map(|_| async {
        let mut stream = known.connect2().await.unwrap();
        frames::send(&mut stream, &greeting()).await;
        for number in 0..u32::try_from(force(500, 20_000)).unwrap() {
            let id = number * 2 + 1;
            // Waits for an answer in between, so that each request is begun before it ends.
            let begun = frame(HEADERS, frames::END_STREAM | frames::END_HEADERS, id, &head);
            frames::send(&mut stream, &[begun, frame(PING, 0, 0, &[7; 8])].concat()).await;
            wait_for(&mut stream, PING).await.expect("the connection goes on");
            frames::send(&mut stream, &frame(frames::RST_STREAM, 0, id, &[0, 0, 0, 8])).await;
        }
    });
    let (_, grown) = server.under(join_all(attack)).await;
    assert!(grown < 32 << 10, "the server grew by {grown} KiB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_for_their_own_sake_are_not_kept() {
    let server = AttackedServer::start("frames", Bounds::Default);
    let unauthenticated = server.wire.unauthenticated();
    let many = force(5_000, 100_000);
    // A head that never ends, each piece with a header of its own.
    let mut endless = greeting();
    endless.extend(frame(HEADERS, 0, 1, &get_head("/")));
    let mut piece = vec![0x00, 1, b'a', 127, 129, 31];
    piece.resize(6 + 4096, b'x');
    for _ in 0..many / 50 {
        endless.extend(frame(CONTINUATION, 0, 1, &piece));
    }
    let repeated =
        |kind: u8, payload: &[u8]| [greeting(), frame(kind, 0, 0, payload).repeat(many)].concat();
    let floods = [endless, repeated(PING, &[7; 8]), repeated(SETTINGS, &[])];
    let attack =
        floods.iter().flat_map(|flood| (0..force(4, 20)).map(move |_| flood)).map(|flood| {
            let unauthenticated = &unauthenticated;
            async move {
                let stream = unauthenticated.connect2().await.unwrap();
                let (mut from, mut to) = tokio::io::split(stream);
                let sending = async {
                    use tokio::io::AsyncWriteExt;
                    to.write_all(flood).await.ok();
                    // The last question: whoever is still there answers it.
                    to.write_all(&frame(GOAWAY, 0, 0, &[0; 8])).await.ok();
                    to.shutdown().await.ok();
                };
                let mut nowhere = tokio::io::sink();
                let reading = tokio::io::copy(&mut from, &mut nowhere);
                let (_, read) = futures::future::join(sending, reading).await;
                read.ok();
            }
        });
    let (_, grown) = server.under(join_all(attack)).await;
    assert!(grown < 32 << 10, "the server grew by {grown} KiB");
}
