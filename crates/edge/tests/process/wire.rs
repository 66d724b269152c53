//! Clients of a server in another process: TLS, HTTP/1.1 and HTTP/2.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use flagship_apiserver::auth::group;
use flagship_edge::{Authority, Credentials};
use flagship_store::env::Env;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Config maps of the namespace `default`, which everybody here writes.
pub const MAPS: &str = "/clusters/hub/api/v1/namespaces/default/configmaps";

/// A body of a request.
pub type Sent = BoxBody<Bytes, Infallible>;
/// One HTTP/1.1 connection.
pub type Http1 = http1::SendRequest<Sent>;
/// One HTTP/2 connection.
pub type Http2 = http2::SendRequest<Sent>;

/// Where the server is, and who signs its certificates.
pub struct Wire {
    address: SocketAddr,
    authority: Authority,
}

/// Connects as one user; an unauthenticated one shows no certificate.
#[derive(Clone)]
pub struct Connector {
    pub address: SocketAddr,
    http1: TlsConnector,
    http2: TlsConnector,
}

impl Wire {
    pub fn new(address: SocketAddr, authority: Authority) -> Self {
        Self { address, authority }
    }

    /// Connects as somebody who may do everything.
    pub fn admin(&self, name: &str) -> Connector {
        let now = Env::system().clock.now();
        let signed = self.authority.client(name, Some(group::MASTERS), now);
        self.connector(Some(signed.expect("the authority signs")))
    }

    /// Connects without a certificate.
    pub fn unauthenticated(&self) -> Connector {
        self.connector(None)
    }

    fn connector(&self, shown: Option<Credentials>) -> Connector {
        let connector = |alpn: &str| {
            let mut roots = rustls::RootCertStore::empty();
            let pem = self.authority.certificate_pem().as_bytes();
            roots
                .add(CertificateDer::from_pem_slice(pem).expect("it is ours"))
                .expect("it is ours");
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let builder = rustls::ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .expect("ring has them")
                .with_root_certificates(roots);
            let mut config = match &shown {
                None => builder.with_no_client_auth(),
                Some(Credentials { certificate, key }) => {
                    let chain = CertificateDer::from_pem_slice(certificate.as_bytes());
                    let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
                    builder
                        .with_client_auth_cert(
                            vec![chain.expect("it is ours")],
                            key.expect("it is ours"),
                        )
                        .expect("key and certificate belong together")
                }
            };
            config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
            TlsConnector::from(Arc::new(config))
        };
        Connector { address: self.address, http1: connector("http/1.1"), http2: connector("h2") }
    }
}

impl Connector {
    /// A bare connection for HTTP/1.1.
    pub async fn connect1(&self) -> io::Result<TlsStream<TcpStream>> {
        self.connect(&self.http1).await
    }

    /// A bare connection for HTTP/2.
    pub async fn connect2(&self) -> io::Result<TlsStream<TcpStream>> {
        self.connect(&self.http2).await
    }

    async fn connect(&self, by: &TlsConnector) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        by.connect("localhost".try_into().expect("a name"), stream).await
    }

    pub async fn http1(&self) -> io::Result<Http1> {
        let io = TokioIo::new(self.connect1().await?);
        let (sender, connection) = http1::handshake(io).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(sender)
    }

    pub async fn http2(&self) -> io::Result<Http2> {
        let io = TokioIo::new(self.connect2().await?);
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), io).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// A request, of either version of HTTP, with headers given as `Name: value`.
pub fn request(method: &str, path: &str, headers: &[&str], body: Sent) -> Request<Sent> {
    let mut request = Request::builder().method(method).uri(format!("https://localhost{path}"));
    for header in headers {
        let (name, value) = header.split_once(": ").expect("a header has a name and a value");
        request = request.header(name, value);
    }
    request.body(body).expect("a request made by hand is whole")
}

/// A request without a body.
pub fn get(path: &str) -> Request<Sent> {
    request("GET", path, &[], whole(Bytes::new()))
}

/// The creation of an object.
pub fn create(path: &str, object: &Value) -> Request<Sent> {
    request("POST", path, &["Content-Type: application/json"], whole(object.to_string()))
}

/// A body that is known.
pub fn whole(bytes: impl Into<Bytes>) -> Sent {
    Full::new(bytes.into()).boxed()
}

/// Code and body of an answer.
pub async fn read(response: Response<Incoming>) -> Result<(u16, Bytes), hyper::Error> {
    let code = response.status().as_u16();
    Ok((code, response.into_body().collect().await?.to_bytes()))
}
