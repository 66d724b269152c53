//! HTTPS for webhooks: one path a webhook, a review in, a review out.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use flagship_edge::Credentials;
use flagship_hub::admission::Admission;
use flagship_rules::admission::{Webhook, guard_rails, webhooks};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::super::connections::{answer_all, serve_each};
use super::Judging;
use super::review::Asked;

/// An object may have three megabytes on a generous server, and comes twice.
const LARGEST: usize = 8 << 20;

/// How long a client may take to say who it is.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Our certificate.
pub struct Tls(TlsAcceptor);

impl Tls {
    /// Shows what it is told to.
    pub fn of(shown: &Arc<Shown>) -> anyhow::Result<Self> {
        Self::showing(shown.clone())
    }

    /// Shows the certificate of a folder, `tls.crt` and `tls.key`, and the next one as soon as
    /// somebody puts it there.
    pub fn kept_in(folder: &Path) -> anyhow::Result<Self> {
        Self::showing(Arc::new(KeptInFolder::open(folder)?))
    }

    fn showing(certificate: Arc<dyn ResolvesServerCert>) -> anyhow::Result<Self> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(certificate);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }
}

/// A certificate that may be replaced while it is shown.
#[derive(Debug)]
pub struct Shown(Mutex<Arc<CertifiedKey>>);

impl Shown {
    /// Begins with this one.
    pub fn new(shown: &Credentials) -> anyhow::Result<Arc<Self>> {
        Ok(Arc::new(Self(Mutex::new(Self::read(shown)?))))
    }

    /// Shows another from the next handshake on.
    pub fn replace(&self, shown: &Credentials) -> anyhow::Result<()> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Self::read(shown)?;
        Ok(())
    }

    fn read(shown: &Credentials) -> anyhow::Result<Arc<CertifiedKey>> {
        Ok(Arc::new(certified(shown.certificate.as_bytes(), shown.key.as_bytes())?))
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certified(certificate: &[u8], key: &[u8]) -> anyhow::Result<CertifiedKey> {
    let chain = CertificateDer::pem_slice_iter(certificate);
    let chain = chain.collect::<Result<Vec<_>, _>>().context("the certificate is not PEM")?;
    let key = PrivateKeyDer::from_pem_slice(key);
    let key = key.context("the key of the certificate is not PEM")?;
    CertifiedKey::from_der(chain, key, &provider()).context("certificate and key do not match")
}

/// The files of a certificate and its key, as they were read.
type Files = (Vec<u8>, Vec<u8>);

/// A certificate that somebody else renews. Its files are read at every handshake: there are
/// few of those, and a mounted Secret gives no notice.
#[derive(Debug)]
struct KeptInFolder {
    folder: PathBuf,
    shown: Mutex<(Files, Arc<CertifiedKey>)>,
}

impl KeptInFolder {
    fn open(folder: &Path) -> anyhow::Result<Self> {
        let files = Self::read(folder)?;
        let key = certified(&files.0, &files.1)
            .with_context(|| format!("the certificate in {} is no good", folder.display()))?;
        Ok(Self { folder: folder.to_owned(), shown: Mutex::new((files, Arc::new(key))) })
    }

    fn read(folder: &Path) -> anyhow::Result<Files> {
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read(&path).with_context(|| {
                format!("cannot read {}, which --use-cert-manager needs", path.display())
            })
        };
        Ok((read("tls.crt")?, read("tls.key")?))
    }

    /// The certificate of now; the last good one if there is none, for half a renewal is over
    /// in a moment.
    fn now(&self) -> anyhow::Result<Arc<CertifiedKey>> {
        let files = Self::read(&self.folder)?;
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.0 != files {
            let key = Arc::new(certified(&files.0, &files.1)?);
            tracing::info!("the webhooks show a new certificate");
            *shown = (files, key);
        }
        Ok(shown.1.clone())
    }
}

impl ResolvesServerCert for KeptInFolder {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.now().unwrap_or_else(|error| {
            tracing::warn!("the webhooks show their last certificate: {error:#}");
            self.shown.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
        }))
    }
}

/// Serves until dropped.
pub async fn serve(listener: TcpListener, tls: Tls, admission: Admission, judging: Judging) {
    let serve = |socket| connection(socket, tls.0.clone(), admission.clone(), judging.clone());
    serve_each(listener, serve).await;
}

async fn connection(socket: TcpStream, tls: TlsAcceptor, admission: Admission, judging: Judging) {
    let stream = match tokio::time::timeout(HANDSHAKE, tls.accept(socket)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a client did not get past TLS"),
        Err(_) => return tracing::debug!("a client did not finish its TLS handshake"),
    };
    let answer = |request| answer(request, &admission, &judging);
    answer_all(stream, answer).await;
}

/// Who answers at a path.
enum Asks<'a> {
    Webhook(&'static Webhook),
    GuardRails(&'a guard_rails::Options),
}

async fn answer(
    request: Request<Incoming>,
    admission: &Admission,
    judging: &Judging,
) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    let rails = judging.guard_rails.as_deref().filter(|_| path == guard_rails::PATH);
    let webhook = webhooks(judging.options).find(|webhook| webhook.path == path);
    let asks = match (webhook, rails) {
        (Some(webhook), _) => Asks::Webhook(webhook),
        (None, Some(rails)) => Asks::GuardRails(rails),
        (None, None) => return plain(StatusCode::NOT_FOUND, "no webhook is served here"),
    };
    if request.method() != Method::POST {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "reviews are posted");
    }
    let body = match Limited::new(request.into_body(), LARGEST).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return plain(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    match Asked::read(&body) {
        Ok(asked) => {
            let said = match asks {
                Asks::Webhook(webhook) => asked.answered(admission, webhook).await,
                Asks::GuardRails(options) => asked.guarded(admission, options).await,
            };
            let said = said.to_string();
            let mut response = Response::new(Full::new(Bytes::from(said)));
            let json = header::HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, json);
            response
        }
        Err(why) => plain(StatusCode::BAD_REQUEST, &why),
    }
}

fn plain(status: StatusCode, says: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(says.to_owned())));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use flagship_edge::Authority;
    use flagship_runtime::env::Env;

    use super::*;

    #[test]
    fn a_renewed_certificate_is_shown_without_a_restart() {
        let folder = std::env::temp_dir().join(format!("flagship-certs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let refusal = KeptInFolder::open(&folder).unwrap_err().to_string();
        assert!(refusal.starts_with("cannot read ") && refusal.contains("tls.crt"), "{refusal}");
        let now = Env::simulated(1).now();
        let authority = Authority::create(now).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        let issue = || authority.server(&["fleetwebhook".to_owned()], now).unwrap();
        let (first, second) = (issue(), issue());
        write("tls.crt", &first.certificate);
        write("tls.key", &first.key);
        let kept = KeptInFolder::open(&folder).unwrap();
        let before = kept.now().unwrap();
        assert!(Arc::ptr_eq(&before, &kept.now().unwrap()), "it is read, and not made again");
        // Between the two files they do not match, and the old one goes on.
        write("tls.crt", &second.certificate);
        assert!(kept.now().is_err());
        write("tls.key", &second.key);
        assert_ne!(kept.now().unwrap().cert, before.cert);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
