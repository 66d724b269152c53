//! Asking a webhook over HTTPS, within its time.
//!
//! A connection a question: webhooks are few, and nothing is left open that a restart of
//! theirs could break. Whoever hangs holds the one request that waits for it.

use std::error::Error;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use flagship_store::{ObjectKey, Store};
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::trust::Trust;
use crate::rest::MAX_BODY;

/// Longest time a webhook may take, when it does not say.
const DEFAULT_SECONDS: u64 = 10;

/// What the machine trusts, for webhooks that name no authority of their own.
static SYSTEM_ROOTS: LazyLock<RootCertStore> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
});

/// Where a webhook is, and whom it must prove to be.
pub(super) struct Endpoint {
    /// The address as it is shown, with the time it has.
    url: String,
    timeout: Duration,
    reach: Reach,
}

enum Reach {
    Url {
        host: String,
        port: u16,
        target: String,
        tls: TlsConnector,
    },
    /// A service of the cluster.
    Service(ObjectKey),
    /// The configuration makes no sense.
    Nowhere(String),
}

impl Endpoint {
    pub(super) fn read(hook: &Value) -> Self {
        let config = &hook["clientConfig"];
        let seconds = hook["timeoutSeconds"].as_u64().unwrap_or(DEFAULT_SECONDS);
        let service = &config["service"];
        if service.is_object() {
            let text = |key: &str| service[key].as_str().unwrap_or_default();
            let (name, namespace) = (text("name"), text("namespace"));
            let port = service["port"].as_u64().unwrap_or(443);
            let path = text("path");
            return Self {
                url: format!("https://{name}.{namespace}.svc:{port}{path}?timeout={seconds}s"),
                timeout: Duration::from_secs(seconds),
                reach: Reach::Service(ObjectKey::new(namespace, name)),
            };
        }
        let url = config["url"].as_str().unwrap_or_default();
        let url = format!("{url}?timeout={seconds}s");
        let reach = Self::reach(&url, &config["caBundle"]).unwrap_or_else(Reach::Nowhere);
        Self { url, timeout: Duration::from_secs(seconds), reach }
    }

    fn reach(url: &str, bundle: &Value) -> Result<Reach, String> {
        let uri: Uri = url.parse().map_err(|why| format!("{why}"))?;
        let host = uri.host().ok_or("the URL has no host")?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let target = target(&uri);
        let mut known = Vec::new();
        let roots = match bundle.as_str().filter(|text| !text.is_empty()) {
            None => SYSTEM_ROOTS.clone(),
            Some(text) => {
                let pem = STANDARD.decode(text).map_err(|why| why.to_string())?;
                let mut roots = RootCertStore::empty();
                for certificate in CertificateDer::pem_slice_iter(&pem) {
                    let certificate = certificate.map_err(|why| why.to_string())?;
                    roots.add(certificate.clone()).map_err(|why| why.to_string())?;
                    known.push(certificate);
                }
                if roots.is_empty() {
                    return Err(
                        "unable to load root certificates: unable to parse bytes as PEM block"
                            .to_owned(),
                    );
                }
                roots
            }
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let trust = Trust::new(roots, known, provider.clone()).map_err(|why| why.to_string())?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|why| why.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(trust))
            .with_no_client_auth();
        let port = uri.port_u16().unwrap_or(443);
        Ok(Reach::Url { host, port, target, tls: Arc::new(config).into() })
    }

    /// Sends a review and returns the one that comes back.
    pub(super) async fn call(&self, review: &Value, store: &Store) -> Result<Value, String> {
        let shown = |why: String| format!("Post {:?}: {why}", self.url);
        match &self.reach {
            Reach::Nowhere(why) => Err(why.clone()),
            Reach::Service(service) => Err(shown(match store.get("services", service) {
                None => format!("service {:?} not found", service.name),
                // Pods are simulated here: nobody listens behind a service.
                Some(_) => format!(
                    "services have no endpoints that this server can reach; give the webhook a url instead of service {:?}",
                    service.name
                ),
            })),
            Reach::Url { host, port, target, tls } => {
                let body = Bytes::from(review.to_string());
                let asked = ask_on(host, *port, target, tls, &body);
                let (code, body) = match tokio::time::timeout(self.timeout, asked).await {
                    Ok(answered) => answered.map_err(shown)?,
                    Err(_) => return Err(shown("context deadline exceeded".to_owned())),
                };
                read(code, &body)
            }
        }
    }
}

/// The path to post to, as Go joins it, and the query.
fn target(uri: &Uri) -> String {
    let parts: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
    match uri.query() {
        Some(query) => format!("/{}?{query}", parts.join("/")),
        None => format!("/{}", parts.join("/")),
    }
}

/// How often a webhook may send its caller on.
const REDIRECTS: usize = 10;

/// Asks, and goes where it is sent on to as long as that is the same server: the certificate
/// that it must show was given for that one.
async fn ask_on(
    host: &str,
    port: u16,
    target: &str,
    tls: &TlsConnector,
    body: &Bytes,
) -> Result<(StatusCode, Bytes), String> {
    let mut target = target.to_owned();
    for _ in 0..=REDIRECTS {
        let (code, to, answer) = ask(host, port, &target, tls, body.clone()).await?;
        let (true, Some(to)) = (code.is_redirection(), to) else { return Ok((code, answer)) };
        let uri: Uri = to.parse().map_err(|why| format!("cannot go on to {to:?}: {why}"))?;
        let elsewhere = uri.host().is_some_and(|other| other != host)
            || uri.host().is_some() && uri.port_u16().unwrap_or(443) != port;
        if elsewhere {
            return Err(format!("the webhook sends its caller on to another server: {to}"));
        }
        target = uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
    }
    Err(format!("stopped after {REDIRECTS} redirects"))
}

async fn ask(
    host: &str,
    port: u16,
    target: &str,
    tls: &TlsConnector,
    body: Bytes,
) -> Result<(StatusCode, Option<String>, Bytes), String> {
    let stream = TcpStream::connect((host, port)).await.map_err(|why| {
        let place =
            if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        match why.kind() {
            std::io::ErrorKind::ConnectionRefused => {
                format!("dial tcp {place}: connect: connection refused")
            }
            _ => format!("dial tcp {place}: {why}"),
        }
    })?;
    let name = ServerName::try_from(host.to_owned()).map_err(|why| why.to_string())?;
    let stream = tls.connect(name, stream).await.map_err(|why| match certificate(&why) {
        Some(why) => format!("tls: failed to verify certificate: x509: {why}"),
        None => format!("tls: {why}"),
    })?;
    let failed = |why: hyper::Error| why.to_string();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    // Ends with the question: whoever drops this drops the connection.
    let request = Request::post(target)
        .header(header::HOST, format!("{host}:{port}"))
        .header(header::USER_AGENT, "kube-apiserver-admission")
        .header(header::ACCEPT, "application/json, */*")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONNECTION, "close")
        .body(Full::new(body))
        .map_err(|why| why.to_string())?;
    let answered = async {
        let response = sender.send_request(request).await.map_err(failed)?;
        let code = response.status();
        let to = response.headers().get(header::LOCATION);
        let to = to.and_then(|to| to.to_str().ok()).map(str::to_owned);
        let body = Limited::new(response.into_body(), MAX_BODY).collect().await;
        Ok((code, to, body.map_err(|why| why.to_string())?.to_bytes()))
    };
    let (answered, connection) = (std::pin::pin!(answered), std::pin::pin!(connection));
    match futures::future::select(answered, connection).await {
        futures::future::Either::Left((answered, _)) => answered,
        // The connection may be done before the last of the answer was taken from it.
        futures::future::Either::Right((_, answered)) => answered.await,
    }
}

/// What is wrong with the certificate that the webhook showed, in Go's words.
fn certificate(error: &std::io::Error) -> Option<String> {
    use rustls::CertificateError as C;
    let inner: &(dyn Error + 'static) = error.get_ref()?;
    let Some(rustls::Error::InvalidCertificate(why)) = inner.downcast_ref::<rustls::Error>() else {
        return None;
    };
    Some(match why {
        C::UnknownIssuer | C::BadSignature => "certificate signed by unknown authority".to_owned(),
        C::Expired | C::ExpiredContext { .. } | C::NotValidYet | C::NotValidYetContext { .. } => {
            "certificate has expired or is not yet valid".to_owned()
        }
        C::NotValidForName | C::NotValidForNameContext { .. } => {
            "certificate is not valid for the name of the webhook".to_owned()
        }
        other => other.to_string(),
    })
}

fn read(code: StatusCode, body: &[u8]) -> Result<Value, String> {
    match code.as_u16() {
        200..300 => {}
        404 => return Err("the server could not find the requested resource".to_owned()),
        400 => return Err("the server rejected our request for an unknown reason".to_owned()),
        500.. => {
            let says =
                "an error on the server (\"unknown\") has prevented the request from succeeding";
            return Err(says.to_owned());
        }
        code => {
            return Err(format!(
                "the server responded with the status code {code} but did not return more information"
            ));
        }
    }
    let answer: Value = serde_json::from_slice(body)
        .map_err(|why| format!("couldn't get version/kind; json parse error: {why}"))?;
    match answer.is_object() {
        true => Ok(answer),
        false => Err("couldn't get version/kind; json parse error: not an object".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_joined_as_go_joins_it() {
        let table = [
            ("https://h/a?timeout=1s", "/a?timeout=1s"),
            ("https://h//x/?timeout=1s", "/x?timeout=1s"),
            ("https://h//a//b", "/a/b"),
            ("https://h", "/"),
        ];
        for (url, path) in table {
            assert_eq!(target(&url.parse().unwrap()), path);
        }
    }
}
