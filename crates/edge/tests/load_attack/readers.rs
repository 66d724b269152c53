//! Those who ask for much and read nothing.

use futures::future::join_all;
use serde_json::json;

use crate::attacked::{AttackedServer, force};
use crate::process::served::Bounds;
use crate::process::wire::{MAPS, create, get, read};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_nobody_reads_are_not_made() {
    let server = AttackedServer::start("readers", Bounds::Default);
    let known = server.wire.admin("attacker");
    let mut writer = known.http2().await.unwrap();
    // A list of twenty mebibytes.
    for number in 0..40 {
        let name = format!("large-{number}");
        let large = json!({"metadata": {"name": name}, "data": {"k": "v".repeat(500_000)}});
        let made = writer.send_request(create(MAPS, &large)).await.unwrap();
        assert_eq!(read(made).await.unwrap().0, 201);
    }
    let attack = async {
        let mut held = Vec::new();
        for _ in 0..force(4, 40) {
            let mut sender = known.http2().await.unwrap();
            let answers = (0..100).map(|_| sender.send_request(get(MAPS)));
            for answer in join_all(answers).await {
                let answer = answer.unwrap();
                assert_eq!(answer.status(), 200);
                held.push(answer);
            }
        }
        held.len()
    };
    let (held, grown) = server.under(attack).await;
    println!("readers: {held} answers of 20 MiB each");
    assert!(grown < 64 << 10, "the server grew by {grown} KiB");
}
