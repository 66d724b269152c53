//! Whom a webhook must prove to be.
//!
//! As usual, with one addition: a certificate that stands in the `caBundle` itself is good,
//! whoever signed it and whatever it may be used for. Many webhooks sign their own, or are given
//! the certificate that they show; that is refused by the letter, and accepted by Kubernetes.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::VerifierBuilderError;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// Roots, and certificates that are good by themselves.
#[derive(Debug)]
pub(super) struct Trust {
    usual: Arc<WebPkiServerVerifier>,
    known: Vec<CertificateDer<'static>>,
}

impl Trust {
    pub(super) fn new(
        roots: RootCertStore,
        known: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, VerifierBuilderError> {
        let usual =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
        Ok(Self { usual, known })
    }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let usual = self.usual.verify_server_cert(shown, intermediates, name, ocsp, now);
        match usual {
            Err(Error::InvalidCertificate(_)) if self.known.iter().any(|known| known == shown) => {
                suits(shown, name, now)
            }
            usual => usual,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

/// Holds the dates and names of a certificate that is known against the present.
fn suits(shown: &[u8], name: &ServerName<'_>, now: UnixTime) -> Result<ServerCertVerified, Error> {
    let wrong = |why| Err(Error::InvalidCertificate(why));
    let Ok((_, certificate)) = X509Certificate::from_der(shown) else {
        return wrong(CertificateError::BadEncoding);
    };
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let validity = certificate.validity();
    if now < validity.not_before.timestamp() {
        return wrong(CertificateError::NotValidYet);
    }
    if now > validity.not_after.timestamp() {
        return wrong(CertificateError::Expired);
    }
    let names = certificate.subject_alternative_name().ok().flatten();
    let mut names = names.iter().flat_map(|names| &names.value.general_names);
    let fits = names.any(|known| match (known, name) {
        (GeneralName::DNSName(known), ServerName::DnsName(name)) => matches(known, name.as_ref()),
        (GeneralName::IPAddress(known), ServerName::IpAddress(name)) => match IpAddr::from(*name) {
            IpAddr::V4(ip) => ip.octets() == **known,
            IpAddr::V6(ip) => ip.octets() == **known,
        },
        _ => false,
    });
    match fits {
        true => Ok(ServerCertVerified::assertion()),
        false => wrong(CertificateError::NotValidForName),
    }
}

/// Whether a name fits a pattern, whose first label may be a star.
fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix("*."), name.split_once('.')) {
        (Some(rest), Some((_, parent))) => rest.eq_ignore_ascii_case(parent),
        _ => pattern.eq_ignore_ascii_case(name),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn params(names: &[&str]) -> rcgen::CertificateParams {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = rcgen::CertificateParams::new(names).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        params
    }

    fn key() -> rcgen::KeyPair {
        rcgen::KeyPair::generate().unwrap()
    }

    /// Whether a certificate that is shown is good where the bundle holds nothing but itself.
    fn is_good(certificate: &CertificateDer<'static>, asked: &str, at: u64) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let trust = Trust::new(roots, vec![certificate.clone()], provider).unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(at));
        let name = ServerName::try_from(asked.to_owned()).unwrap();
        trust.verify_server_cert(certificate, &[], &name, &[], now).is_ok()
    }

    fn verdict(names: &[&str], asked: &str, at: u64) -> bool {
        let mut own = params(names);
        own.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        is_good(own.self_signed(&key()).unwrap().der(), asked, at)
    }

    #[test]
    fn who_signed_its_own_certificate_is_known_by_it() {
        let now = 1_790_000_000;
        assert!(verdict(&["hook.example"], "hook.example", now));
        assert!(verdict(&["*.example"], "hook.example", now));
        assert!(verdict(&["127.0.0.1"], "127.0.0.1", now));
        assert!(!verdict(&["hook.example"], "other.example", now));
        assert!(!verdict(&["*.example"], "a.b.example", now));
        assert!(!verdict(&["127.0.0.1"], "127.0.0.2", now));
        assert!(!verdict(&["hook.example"], "hook.example", 2_000_000_000), "expired");
        assert!(!verdict(&["hook.example"], "hook.example", 1_000_000_000), "not yet good");
    }

    #[test]
    fn a_bundle_may_be_the_serving_certificate_itself() {
        let mut authority = params(&[]);
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = rcgen::Issuer::new(authority, key());
        // Whoever signed it is not in the bundle.
        let shown = params(&["hook.example"]).signed_by(&key(), &authority).unwrap();
        assert!(is_good(shown.der(), "hook.example", 1_790_000_000));
        assert!(!is_good(shown.der(), "other.example", 1_790_000_000));
    }
}
