//! TLS as the edge speaks it: our certificate, client certificates checked if shown.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use flagship_store::env::Clock;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::time_provider::TimeProvider;
use rustls::{RootCertStore, ServerConfig};

use super::EdgeError;
use super::authority::{Authority, AuthorityError, Credentials};

/// How the server speaks TLS, with `shown` as its certificate.
pub(super) fn config(
    authority: &Authority,
    others: &[String],
    shown: &Credentials,
    clock: Arc<dyn Clock>,
) -> Result<Arc<ServerConfig>, EdgeError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(authority.certificate_der()).map_err(EdgeError::Tls)?;
    for certificate in others.iter().flat_map(|pem| CertificateDer::pem_slice_iter(pem.as_bytes()))
    {
        let unusable = |why: pem::Error| AuthorityError::Unusable { what: why.to_string() };
        roots.add(certificate.map_err(unusable)?).map_err(EdgeError::Tls)?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
        .allow_unauthenticated()
        .build()
        .map_err(|why| EdgeError::Tls(rustls::Error::General(why.to_string())))?;
    let mut config = ServerConfig::builder_with_details(provider, Arc::new(Ticking(clock)))
        .with_safe_default_protocol_versions()
        .map_err(EdgeError::Tls)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(shown.chain()?, shown.key()?)
        .map_err(EdgeError::Tls)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A resumed session would be trusted without another look at its certificate.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// The environment's clock as TLS wants it.
struct Ticking(Arc<dyn Clock>);

impl TimeProvider for Ticking {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.now().as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

impl fmt::Debug for Ticking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticking")
    }
}
