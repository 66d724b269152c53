//! TLS for what the hub serves itself: webhooks and the console.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use flagship_edge::Credentials;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a client may take to say who it is.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Our certificate.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl Tls {
    /// Shows what it is told to.
    pub fn of(shown: &Arc<Shown>) -> anyhow::Result<Self> {
        Self::showing(shown.clone())
    }

    /// Shows the certificate of a folder, `tls.crt` and `tls.key`, and the next one as soon as
    /// somebody puts it there. The flag is the one that asked for it.
    pub fn kept_in(folder: &Path, flag: &'static str) -> anyhow::Result<Self> {
        Self::showing(Arc::new(KeptInFolder::open(folder, flag)?))
    }

    /// A client's connection, once it has said who it is; nothing from one that does not.
    pub async fn accept(&self, socket: TcpStream) -> Option<TlsStream<TcpStream>> {
        match tokio::time::timeout(HANDSHAKE, self.0.accept(socket)).await {
            Ok(Ok(stream)) => return Some(stream),
            Ok(Err(error)) => tracing::debug!(%error, "a client did not get past TLS"),
            Err(_) => tracing::debug!("a client did not finish its TLS handshake"),
        }
        None
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
    flag: &'static str,
    shown: Mutex<(Files, Arc<CertifiedKey>)>,
}

impl KeptInFolder {
    fn open(folder: &Path, flag: &'static str) -> anyhow::Result<Self> {
        let files = Self::read(folder, flag)?;
        let key = certified(&files.0, &files.1)
            .with_context(|| format!("the certificate in {} is no good", folder.display()))?;
        Ok(Self { folder: folder.to_owned(), flag, shown: Mutex::new((files, Arc::new(key))) })
    }

    fn read(folder: &Path, flag: &str) -> anyhow::Result<Files> {
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read(&path)
                .with_context(|| format!("cannot read {}, which {flag} needs", path.display()))
        };
        Ok((read("tls.crt")?, read("tls.key")?))
    }

    /// The certificate of now; the last good one if there is none, for half a renewal is over
    /// in a moment.
    fn now(&self) -> anyhow::Result<Arc<CertifiedKey>> {
        let files = Self::read(&self.folder, self.flag)?;
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.0 != files {
            let key = Arc::new(certified(&files.0, &files.1)?);
            tracing::info!(folder = %self.folder.display(), "a new certificate is shown");
            *shown = (files, key);
        }
        Ok(shown.1.clone())
    }
}

impl ResolvesServerCert for KeptInFolder {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.now().unwrap_or_else(|error| {
            tracing::warn!("the last certificate is shown: {error:#}");
            self.shown.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
        }))
    }
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
        let refusal = KeptInFolder::open(&folder, "--use-cert-manager").unwrap_err().to_string();
        assert!(refusal.starts_with("cannot read ") && refusal.contains("tls.crt"), "{refusal}");
        let now = Env::simulated(1).now();
        let authority = Authority::create(now).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        let issue = || authority.server(&["fleetwebhook".to_owned()], now).unwrap();
        let (first, second) = (issue(), issue());
        write("tls.crt", &first.certificate);
        write("tls.key", &first.key);
        let kept = KeptInFolder::open(&folder, "--use-cert-manager").unwrap();
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
