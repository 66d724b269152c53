//! The certificate authority of one process, and the certificates it signs.
//!
//! The authority is made once and kept in a folder (`ca.crt`, `ca.key`), so that
//! kubeconfigs outlive a restart; or it lives only in memory. The server's certificate is made
//! afresh at every start; the administrator's is kept, see `kept`.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flagship_files as files;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

const AUTHORITY_YEARS: i64 = 10;
const SERVER_YEARS: i64 = 10;
const CLIENT_YEARS: i64 = 1;

/// Signs the certificates of a server and its clients.
#[derive(Clone)]
pub struct Authority {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: CertificateDer<'static>,
    /// Nothing it signs is good for longer than itself.
    pub(super) expires: Timestamp,
    /// Where it is kept; none if it lives only in memory.
    pub(super) folder: Option<PathBuf>,
}

/// A certificate and its key.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// PEM.
    pub certificate: String,
    /// PEM, to be kept secret.
    pub key: String,
}

/// Why there is no authority, or it did not sign.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A file could not be read or written.
    #[error("cannot use {path}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The files are there but do not make an authority.
    #[error("{what}; remove or replace the certificate authority's files")]
    Unusable {
        /// What is wrong with them.
        what: String,
    },
    /// A name cannot stand in a certificate, or the machine gives no randomness.
    #[error("cannot make a certificate")]
    Sign(#[from] rcgen::Error),
}

impl Authority {
    /// A new authority, known to nobody yet.
    pub fn create(now: Timestamp) -> Result<Self, AuthorityError> {
        Self::with_key(KeyPair::generate()?, now)
    }

    fn with_key(key: KeyPair, now: Timestamp) -> Result<Self, AuthorityError> {
        let mut params = lasting(now, in_years(now, AUTHORITY_YEARS));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        // Two authorities of two processes must not look like one to clients.
        let id = params.key_identifier(&key);
        let tail: String = id.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        params.distinguished_name.push(DnType::CommonName, format!("flagship-ca-{tail}"));
        let pem = params.self_signed(&key)?.pem();
        Self::from_pem(&pem, &key.serialize_pem(), now)
    }

    /// An authority from its certificate and key.
    pub fn from_pem(certificate: &str, key: &str, now: Timestamp) -> Result<Self, AuthorityError> {
        let unusable = |what: String| AuthorityError::Unusable { what };
        let key = KeyPair::from_pem(key)
            .map_err(|why| unusable(format!("the authority's key cannot be read: {why}")))?;
        let der = CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|why| {
            unusable(format!("the authority's certificate cannot be read: {why}"))
        })?;
        let (_, parsed) = X509Certificate::from_der(&der).map_err(|why| {
            unusable(format!("the authority's certificate cannot be read: {why}"))
        })?;
        if !parsed.is_ca() {
            return Err(unusable("the certificate is not that of an authority".to_owned()));
        }
        if parsed.public_key().subject_public_key.data.as_ref() != key.public_key_raw() {
            return Err(unusable("the authority's key is not that of its certificate".to_owned()));
        }
        let expires = Timestamp::from_second(parsed.validity().not_after.timestamp())
            .unwrap_or(Timestamp::MAX);
        if expires <= now {
            return Err(unusable(format!("the authority's certificate expired on {expires}")));
        }
        let issuer = Issuer::from_ca_cert_der(&der, key)?;
        let inner = Inner { issuer, pem: certificate.to_owned(), der, expires, folder: None };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The authority kept in a folder; made there when there is none.
    pub fn at(folder: &Path, now: Timestamp) -> Result<Self, AuthorityError> {
        let mut found = Self::found_or_made(folder, now)?;
        if let Some(inner) = Arc::get_mut(&mut found.inner) {
            inner.folder = Some(folder.to_owned());
        }
        Ok(found)
    }

    fn found_or_made(folder: &Path, now: Timestamp) -> Result<Self, AuthorityError> {
        let (certificate, key) = (folder.join("ca.crt"), folder.join("ca.key"));
        match (read(&certificate)?, read(&key)?) {
            (Some(certificate), Some(key)) => Self::from_pem(&certificate, &key, now),
            (Some(_), None) => {
                let what = format!("{} has no {}", certificate.display(), key.display());
                Err(AuthorityError::Unusable { what })
            }
            (None, known) => {
                files::make_folder(folder)
                    .map_err(|source| AuthorityError::File { path: folder.to_owned(), source })?;
                let pair = match known {
                    // Made by one who was stopped before the certificate was written.
                    Some(key) => KeyPair::from_pem(&key)?,
                    None => {
                        let pair = KeyPair::generate()?;
                        save(&key, &pair.serialize_pem())?;
                        pair
                    }
                };
                let made = Self::with_key(pair, now)?;
                save(&certificate, &made.inner.pem)?;
                Ok(made)
            }
        }
    }

    /// What clients must know to trust the server: its certificate as PEM.
    pub fn certificate_pem(&self) -> &str {
        &self.inner.pem
    }

    pub(super) fn certificate_der(&self) -> CertificateDer<'static> {
        self.inner.der.clone()
    }

    /// A certificate for a server that is called by these names and addresses.
    pub fn server(&self, names: &[String], now: Timestamp) -> Result<Credentials, AuthorityError> {
        let mut params = CertificateParams::new(names)?;
        let dates = self.lasting(now, SERVER_YEARS);
        (params.not_before, params.not_after) = (dates.not_before, dates.not_after);
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "flagship");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// A certificate that shows its holder to be `user`, in `group` if one is named.
    pub fn client(
        &self,
        user: &str,
        group: Option<&str>,
        now: Timestamp,
    ) -> Result<Credentials, AuthorityError> {
        let mut params = self.lasting(now, CLIENT_YEARS);
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn lasting(&self, now: Timestamp, years: i64) -> CertificateParams {
        lasting(now, in_years(now, years).min(self.inner.expires))
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Credentials, AuthorityError> {
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.inner.issuer)?.pem();
        Ok(Credentials { certificate, key: key.serialize_pem() })
    }
}

impl Credentials {
    /// Whether a server called by these names and addresses may show it until this moment.
    pub fn serves(&self, names: &[String], until: Timestamp) -> bool {
        let Ok(der) = CertificateDer::from_pem_slice(self.certificate.as_bytes()) else {
            return false;
        };
        let Ok((_, read)) = X509Certificate::from_der(&der) else { return false };
        let known = read.subject_alternative_name().ok().flatten();
        let known = known.map(|found| found.value.general_names.as_slice()).unwrap_or_default();
        let is_known = |name: &String| {
            known.iter().any(|one| match (one, name.parse::<IpAddr>()) {
                (GeneralName::DNSName(dns), Err(_)) => dns == name,
                (GeneralName::IPAddress(bytes), Ok(IpAddr::V4(ip))) => *bytes == ip.octets(),
                (GeneralName::IPAddress(bytes), Ok(IpAddr::V6(ip))) => *bytes == ip.octets(),
                _ => false,
            })
        };
        names.iter().all(is_known) && read.validity().not_after.timestamp() > until.as_second()
    }

    pub(super) fn chain(&self) -> Result<Vec<CertificateDer<'static>>, AuthorityError> {
        CertificateDer::pem_slice_iter(self.certificate.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|why| AuthorityError::Unusable { what: why.to_string() })
    }

    pub(super) fn key(&self) -> Result<PrivateKeyDer<'static>, AuthorityError> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes())
            .map_err(|why| AuthorityError::Unusable { what: why.to_string() })
    }
}

/// An empty certificate that is good from yesterday, for clocks that are behind.
fn lasting(now: Timestamp, until: Timestamp) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let from = now.checked_sub(SignedDuration::from_hours(24)).unwrap_or(now);
    let date = |at: Timestamp| {
        let date = TimeZone::UTC.to_datetime(at).date();
        let part = |number: i8| u8::try_from(number).unwrap_or(1);
        // Certificates know only years of four digits.
        rcgen::date_time_ymd(
            i32::from(date.year()).clamp(1950, 9999),
            part(date.month()),
            part(date.day()),
        )
    };
    (params.not_before, params.not_after) = (date(from), date(until));
    params
}

fn in_years(now: Timestamp, years: i64) -> Timestamp {
    let span = SignedDuration::from_hours(24 * 365 * years);
    now.checked_add(span).unwrap_or(Timestamp::MAX)
}

pub(super) fn save(path: &Path, text: &str) -> Result<(), AuthorityError> {
    files::replace(path, text.as_bytes())
        .map_err(|source| AuthorityError::File { path: path.to_owned(), source })
}

pub(super) fn read(path: &Path) -> Result<Option<String>, AuthorityError> {
    files::read(path).map_err(|source| AuthorityError::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use flagship_apiserver::auth::{certificate_user, group};

    fn now() -> Timestamp {
        "2026-06-15T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_client_certificate_names_its_user_and_group() {
        let authority = Authority::create(now()).unwrap();
        let shown = authority.client("eve", Some(group::MASTERS), now()).unwrap();
        let user = certificate_user(&shown.chain().unwrap()[0]).unwrap();
        assert_eq!(&*user.name, "eve");
        assert!(user.is_in(group::MASTERS) && user.is_in(group::AUTHENTICATED));
    }

    #[test]
    fn a_servers_certificate_is_good_for_its_names_until_it_ends() {
        let authority = Authority::create(now()).unwrap();
        let names = |of: &[&str]| of.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let shown = authority.server(&names(&["hooks.fleet.svc", "127.0.0.1"]), now()).unwrap();
        assert!(shown.serves(&names(&["127.0.0.1"]), in_years(now(), 9)));
        assert!(shown.serves(&names(&["hooks.fleet.svc", "127.0.0.1"]), now()));
        assert!(!shown.serves(&names(&["other.fleet.svc"]), now()));
        assert!(!shown.serves(&names(&["127.0.0.2"]), now()));
        assert!(!shown.serves(&names(&["127.0.0.1"]), in_years(now(), 11)));
    }

    #[test]
    fn an_authority_is_kept_in_its_folder_and_only_its_owner_reads_the_key() {
        let folder = scratch("kept");
        let made = Authority::at(&folder, now()).unwrap();
        let again = Authority::at(&folder, now()).unwrap();
        assert_eq!(made.certificate_pem(), again.certificate_pem());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(folder.join("ca.key")).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        // Stopped between key and certificate: the key is used.
        fs::remove_file(folder.join("ca.crt")).unwrap();
        let remade = Authority::at(&folder, now()).unwrap();
        assert_eq!(
            Authority::at(&folder, now()).unwrap().certificate_pem(),
            remade.certificate_pem()
        );
        fs::remove_file(folder.join("ca.key")).unwrap();
        let refused = Authority::at(&folder, now()).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("ca.crt has no"), "{refused}");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn files_that_make_no_authority_are_refused() {
        let folder = scratch("refused");
        let one = Authority::at(&folder, now()).unwrap();
        let key = fs::read_to_string(folder.join("ca.key")).unwrap();
        let other = Authority::create(now()).unwrap();
        let says = |certificate: &str, key: &str, at: Timestamp| {
            Authority::from_pem(certificate, key, at).map(|_| ()).unwrap_err().to_string()
        };
        let late = in_years(now(), 11);
        assert!(says(other.certificate_pem(), &key, now()).contains("not that of its certificate"));
        assert!(says(one.certificate_pem(), &key, late).contains("expired on 2036-06-"));
        assert!(says("", &key, now()).contains("cannot be read"));
        let client = one.client("eve", None, now()).unwrap();
        assert!(says(&client.certificate, &client.key, now()).contains("not that of an authority"));
        fs::remove_dir_all(&folder).unwrap();
    }

    fn scratch(name: &str) -> PathBuf {
        let name = format!("flagship-authority-{name}-{}", std::process::id());
        std::env::temp_dir().join(name)
    }
}
