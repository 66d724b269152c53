//! A server on a free port and a client for it.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use flagship_apiserver::auth::{Access, StaticTokens, User, group};
use flagship_apiserver::rest::Server;
use flagship_edge::{Audit, Authority, Backup, Config, Credentials, Edge, Limits};
use flagship_store::env::Env;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub const TOKEN: &str = "a-token-that-is-known";

/// A listening server with the clusters `hub` and `member1`.
pub struct TestServer {
    pub server: Server,
    pub edge: Edge,
    pub env: Env,
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Reply {
    pub code: u16,
    pub text: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    /// Code and message of a refusal.
    pub fn refusal(&self) -> (u16, String) {
        (self.code, self.json()["message"].as_str().unwrap().to_owned())
    }
}

impl TestServer {
    pub async fn new() -> Self {
        Self::within(Limits::default()).await
    }

    pub async fn within(limits: Limits) -> Self {
        Self::with(limits, None).await
    }

    pub async fn audited(audit: Audit) -> Self {
        Self::with(Limits::default(), Some(audit)).await
    }

    async fn with(limits: Limits, audit: Option<Audit>) -> Self {
        let env = Env::system();
        let server = Server::new(env.clone());
        server.add_cluster("hub");
        server.add_cluster("member1");
        let authority = Authority::create(env.clock.now()).unwrap();
        let tokens = StaticTokens::default()
            .with(TOKEN, User::authenticated("robot", [group::MASTERS]))
            .with("weak", User::authenticated("weak", ["devs"]));
        let access = Access::with_tokens(tokens);
        let backup: Option<Backup> = Some(Arc::new(|| Ok(r#"{"file":"copy"}"#.to_owned())));
        let config = Config { access, limits, audit, backup, ..Config::local(0, authority) };
        let edge = Edge::start(&server, &env, config).await.unwrap();
        Self { server, edge, env }
    }

    pub fn admin(&self) -> Credentials {
        let now = self.env.clock.now();
        self.edge.authority().client("admin", Some(group::MASTERS), now).unwrap()
    }

    pub fn any_port() -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 0).into()
    }

    pub async fn connect(&self, shown: Option<&Credentials>, alpn: &str) -> TlsStream<TcpStream> {
        self.try_connect(self.edge.address(), shown, alpn).await.unwrap()
    }

    pub async fn try_connect(
        &self,
        to: SocketAddr,
        shown: Option<&Credentials>,
        alpn: &str,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = rustls::RootCertStore::empty();
        let pem = self.edge.authority().certificate_pem().as_bytes();
        roots.add(CertificateDer::from_pem_slice(pem).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match shown {
            None => builder.with_no_client_auth(),
            Some(Credentials { certificate, key }) => {
                let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        };
        config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
        let stream = TcpStream::connect(to).await?;
        let name = "localhost".try_into().unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// Sends one HTTP/1 request on a connection of its own.
    pub async fn send(&self, shown: Option<&Credentials>, request: Request<Full<Bytes>>) -> Reply {
        read(self.begin(shown, request).await).await
    }

    /// The same, for answers that are read piece by piece.
    pub async fn begin(
        &self,
        shown: Option<&Credentials>,
        request: Request<Full<Bytes>>,
    ) -> Response<Incoming> {
        let io = TokioIo::new(self.connect(shown, "http/1.1").await);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    }

    pub async fn get(&self, shown: Option<&Credentials>, path: &str) -> Reply {
        self.send(shown, get(path, &[])).await
    }

    /// Sends a body to the hub as a user whom the administrator impersonates.
    pub async fn call(&self, user: &str, method: &str, path: &str, body: Value) -> Reply {
        let header = format!("Impersonate-User: {user}");
        self.call_with(&[&header], method, path, body).await
    }

    /// Sends a body to the hub as the administrator, with headers.
    pub async fn call_with(
        &self,
        headers: &[&str],
        method: &str,
        path: &str,
        body: Value,
    ) -> Reply {
        self.send(Some(&self.admin()), sends(headers, method, path, body)).await
    }

    /// The same with the credentials of somebody else.
    pub async fn call_as(
        &self,
        shown: &Credentials,
        method: &str,
        path: &str,
        body: Value,
    ) -> Reply {
        self.send(Some(shown), sends(&[], method, path, body)).await
    }

    /// The same with nothing but a token.
    pub async fn call_by_token(&self, token: &str, method: &str, path: &str, body: Value) -> Reply {
        let header = format!("Authorization: Bearer {token}");
        self.send(None, sends(&[&header], method, path, body)).await
    }

    /// Writes an object to the hub as the administrator.
    pub async fn make(&self, path: &str, object: Value) -> Value {
        let made = self.call_with(&[], "POST", path, object).await;
        assert_eq!(made.code, 201, "{}", made.text);
        made.json()
    }

    /// Sends requests over one HTTP/2 connection.
    pub async fn get_http2(&self, shown: Option<&Credentials>, paths: &[&str]) -> Vec<Reply> {
        let io = TokioIo::new(self.connect(shown, "h2").await);
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        let mut replies = Vec::new();
        for path in paths {
            let target = format!("https://localhost{path}");
            replies.push(read(sender.send_request(get(&target, &[])).await.unwrap()).await);
        }
        replies
    }
}

pub async fn read(response: Response<Incoming>) -> Reply {
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    Reply { code, text: String::from_utf8(bytes.to_vec()).unwrap() }
}

/// A GET with headers, given as `Name: value`.
pub fn get(path: &str, headers: &[&str]) -> Request<Full<Bytes>> {
    let mut request = Request::get(path).header("Host", "localhost");
    for header in headers {
        let (name, value) = header.split_once(": ").unwrap();
        request = request.header(name, value);
    }
    request.body(Full::default()).unwrap()
}

/// A request with a JSON body, null for none, to the hub.
fn sends(headers: &[&str], method: &str, path: &str, body: Value) -> Request<Full<Bytes>> {
    let mut all = headers.to_vec();
    let patches = method == "PATCH";
    if !headers.iter().any(|header| header.starts_with("Content-Type")) {
        all.push(match patches {
            true => "Content-Type: application/merge-patch+json",
            false => "Content-Type: application/json",
        });
    }
    let (mut parts, _) = get(&format!("/clusters/hub{path}"), &all).into_parts();
    parts.method = method.parse().unwrap();
    let body = if body.is_null() { String::new() } else { body.to_string() };
    Request::from_parts(parts, Full::new(body.into()))
}

/// A POST of a ConfigMap into `default` of the hub.
pub fn post(headers: &[&str], body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let (mut parts, _) =
        get("/clusters/hub/api/v1/namespaces/default/configmaps", headers).into_parts();
    parts.method = http::Method::POST;
    Request::from_parts(parts, Full::new(body.into()))
}

/// Nothing can go wrong with bodies that are known.
pub type Never = Infallible;
