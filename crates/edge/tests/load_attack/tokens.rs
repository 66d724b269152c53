//! Bad tokens, as fast as they can be sent.

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::attacked::{AttackedServer, force};
use crate::process::served::Bounds;
use crate::process::wire::{Connector, MAPS, create, read, request, whole};

/// A token of this server with another signature: the costliest to refuse.
async fn forged(known: &Connector) -> String {
    let accounts = "/clusters/hub/api/v1/namespaces/default/serviceaccounts";
    let mut sender = known.http2().await.unwrap();
    let account = create(accounts, &json!({"metadata": {"name": "builder"}}));
    let made = read(sender.send_request(account).await.unwrap()).await.unwrap();
    assert_eq!(made.0, 201, "{made:?}");
    let wanted =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let wanted = create(&format!("{accounts}/builder/token"), &wanted);
    let (code, body) = read(sender.send_request(wanted).await.unwrap()).await.unwrap();
    assert_eq!(code, 201, "{body:?}");
    let body: Value = serde_json::from_slice(&body).unwrap();
    let token = body["status"]["token"].as_str().unwrap();
    let (message, signature) = token.rsplit_once('.').unwrap();
    let signature: String = signature.chars().rev().collect();
    format!("{message}.{signature}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_tokens_are_refused_and_nobody_else_notices() {
    let server = AttackedServer::start("tokens", Bounds::Default);
    let unauthenticated = server.wire.unauthenticated();
    let forged = forged(&server.wire.admin("attacker")).await;
    let long = "x".repeat(100_000);
    let ask = |number: usize| {
        let token = match number % 24 {
            0 => &long,
            even if even % 2 == 0 => &forged,
            _ => "wrong",
        };
        request("GET", MAPS, &[&format!("Authorization: Bearer {token}")], whole(""))
    };
    let (connections, rounds) = (8, force(5, 400));
    let attack = async {
        let begun = Instant::now();
        let flood = (0..connections).map(|_| async {
            let mut sender = unauthenticated.http2().await.unwrap();
            for _ in 0..rounds {
                let answers = (0..24).map(|number| sender.send_request(ask(number)));
                for answer in join_all(answers).await {
                    assert_eq!(answer.unwrap().status(), 401);
                }
            }
        });
        join_all(flood).await;
        let each = (connections * rounds * 24) as f64 / begun.elapsed().as_secs_f64();
        // And from those who come anew for every try.
        for number in 0..force(30, 1_000) {
            let mut sender = unauthenticated.http1().await.unwrap();
            let answer = sender.send_request(ask(number)).await.unwrap();
            assert_eq!(answer.status(), 401);
        }
        each.round()
    };
    let (rate, grown) = server.under(attack).await;
    println!("tokens: {rate} refused a second");
    assert!(grown < 32 << 10, "the server grew by {grown} KiB");
}
