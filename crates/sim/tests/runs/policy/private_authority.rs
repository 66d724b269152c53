//! Servers whose certificate an authority of their owners has signed.

use std::net::SocketAddr;

use flagship_edge::{Authority, Config, Edge};
use flagship_runtime::network::{Answer, Call, Network, Tcp};
use flagship_sim::fleet::{Fleet, FleetConfig};
use flagship_store::env::Env;
use http::Method;

async fn asked(port: u16, trust: Option<&str>) -> Result<Answer, String> {
    let to: SocketAddr = format!("127.0.0.1:{port}").parse().expect("an address");
    let call = Call {
        method: Method::GET,
        tls: Some("127.0.0.1".to_owned()),
        trust: trust.map(|pem| pem.to_owned().into()),
        authority: to.to_string(),
        path: "/".to_owned(),
        headers: Default::default(),
        body: Default::default(),
        at_most: 64 * 1024,
    };
    Tcp::default().exchange(to, call).await
}

#[tokio::test]
async fn a_server_of_a_private_authority_is_reached_by_whoever_trusts_that_authority() {
    let fleet = Fleet::new(FleetConfig::of(0).real_time()).await;
    let env = Env::system();
    let authority = |_| Authority::create(env.clock.now()).expect("an authority");
    let (own, other) = (authority(()), authority(()));
    let (pem, other) = (own.certificate_pem().to_owned(), other.certificate_pem().to_owned());
    let edge = Edge::start(fleet.server(), &env, Config::local(0, own)).await.expect("a server");
    let url = edge.url("hub");
    let port = url.split(':').nth(2).and_then(|rest| rest.split('/').next()?.parse().ok());
    let port = port.expect("a port");
    for (trust, told) in [
        (None, "tls: invalid peer certificate: UnknownIssuer"),
        (Some(other.as_str()), "tls: invalid peer certificate"),
        (Some("no certificate"), "caBundle has no certificate"),
        (
            Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            "caBundle has no authority",
        ),
    ] {
        let why = asked(port, trust).await.expect_err("nobody is trusted");
        assert!(why.contains(told), "{why}");
    }
    // One of several will do. Who asks without a name is not let in, but answered.
    asked(port, Some(&pem)).await.expect("an answer");
    asked(port, Some(&format!("{other}{pem}"))).await.expect("an answer");
}
