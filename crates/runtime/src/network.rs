//! Calls to places outside of the fleet: one request, one answer, all of it bounded.
//!
//! Whoever calls resolves first and says to which address to connect, so that the address
//! which was judged is the one that is reached. Redirects are answers like any other.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, Either, select};
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// One request.
#[derive(Debug, Clone)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// The name that the server's certificate must bear; no TLS without one.
    pub tls: Option<String>,
    /// The authorities that the certificate is held against, in PEM; those that this machine
    /// trusts without.
    pub trust: Option<Bytes>,
    /// What the Host header says.
    pub authority: String,
    /// Path and query.
    pub path: String,
    /// Headers besides.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// How much of the answer is read; more is an error.
    pub at_most: usize,
}

/// One answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The body.
    pub body: Bytes,
}

/// The world outside, which tests play.
pub trait Network: fmt::Debug + Send + Sync {
    /// The addresses of a name, or the address that is written there.
    fn resolve(&self, host: String, port: u16) -> BoxFuture<'_, io::Result<Vec<IpAddr>>>;

    /// Sends a request to this very address.
    fn exchange(&self, to: SocketAddr, call: Call) -> BoxFuture<'_, Result<Answer, String>>;
}

/// Resolves and answers take no longer than this.
pub const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The network of this machine.
#[derive(Debug, Default)]
pub struct Tcp(OnceLock<Trust>);

struct Trust(Arc<ClientConfig>);

impl fmt::Debug for Trust {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Trust")
    }
}

impl Tcp {
    fn connector(&self, trust: Option<&[u8]>) -> Result<TlsConnector, String> {
        if let Some(pem) = trust {
            return Ok(TlsConnector::from(trusting(authorities(pem)?)));
        }
        let trust = self.0.get_or_init(|| {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            Trust(trusting(roots))
        });
        Ok(TlsConnector::from(trust.0.clone()))
    }
}

fn trusting(roots: RootCertStore) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has the versions that rustls asks for")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

/// The authorities in a PEM text, of which there must be one.
fn authorities(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|why| format!("caBundle cannot be read: {why}"))?;
        roots.add(certificate).map_err(|why| format!("caBundle has no authority: {why}"))?;
    }
    match roots.is_empty() {
        true => Err("caBundle has no certificate".to_owned()),
        false => Ok(roots),
    }
}

impl Network for Tcp {
    fn resolve(&self, host: String, port: u16) -> BoxFuture<'_, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            if let Ok(address) = host.parse::<IpAddr>() {
                return Ok(vec![address]);
            }
            let found = tokio::net::lookup_host((host, port)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }

    fn exchange(&self, to: SocketAddr, call: Call) -> BoxFuture<'_, Result<Answer, String>> {
        Box::pin(async move {
            let stream = TcpStream::connect(to).await;
            let stream = stream.map_err(|why| format!("cannot connect to {to}: {why}"))?;
            match call.tls.clone() {
                None => ask(stream, call).await,
                Some(name) => {
                    let name = ServerName::try_from(name).map_err(|why| why.to_string())?;
                    let connector = self.connector(call.trust.as_deref())?;
                    let stream = connector.connect(name, stream).await;
                    ask(stream.map_err(|why| format!("tls: {why}"))?, call).await
                }
            }
        })
    }
}

async fn ask<S>(stream: S, call: Call) -> Result<Answer, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let failed = |why: hyper::Error| why.to_string();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let mut request = Request::builder().method(call.method).uri(call.path);
    if let Some(headers) = request.headers_mut() {
        *headers = call.headers;
    }
    let request = request
        .header(header::HOST, call.authority)
        .header(header::USER_AGENT, "flagship-hub")
        .header(header::CONNECTION, "close")
        .body(Full::new(call.body))
        .map_err(|why| why.to_string())?;
    let answered = async {
        let response = sender.send_request(request).await.map_err(failed)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), call.at_most).collect().await;
        Ok(Answer { status, body: body.map_err(|why| format!("the answer: {why}"))?.to_bytes() })
    };
    let (answered, connection) = (std::pin::pin!(answered), std::pin::pin!(connection));
    match select(answered, connection).await {
        Either::Left((answered, _)) => answered,
        // The connection may be done before the last of the answer was taken from it.
        Either::Right((_, answered)) => answered.await,
    }
}
