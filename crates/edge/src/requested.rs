//! Certificates that others ask for: their subject and their key, our signature.
//!
//! `rcgen`, which makes our own certificates, keeps one organization of a subject, so that a
//! user of two groups would lose one. So `rcgen` makes a certificate for nobody, `x509-cert`
//! replaces subject and key in it by those of the request, and it is signed again (decision 18).

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose,
    SanType, SerialNumber, SigningKey,
};
use sha2::{Digest, Sha256};
use x509_cert::Certificate;
use x509_cert::der::asn1::BitString;
use x509_cert::der::pem::LineEnding;
use x509_cert::der::{Decode, Encode, EncodePem};
use x509_cert::name::Name;
use x509_cert::spki::SubjectPublicKeyInfoOwned;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

use super::authority::Authority;
use flagship_apiserver::auth::CLUSTER_URI;
use flagship_apiserver::rest::{Signer, Wanted};

/// For clocks that are behind.
const BEFORE: SignedDuration = SignedDuration::from_mins(5);

impl Signer for Authority {
    fn certificate(&self) -> &str {
        self.certificate_pem()
    }

    fn sign(&self, wanted: &Wanted<'_>) -> Result<String, String> {
        let Wanted { request, usages, cluster, now, life } = *wanted;
        let unreadable = || "the request cannot be read".to_owned();
        let (_, read) = X509CertificationRequest::from_der(request).map_err(|_| unreadable())?;
        read.verify_signature()
            .map_err(|_| "the request is not signed by the key that it names".to_owned())?;
        let until = now.checked_add(life).unwrap_or(Timestamp::MAX).min(self.inner.expires);
        let mut params = lasting(now.checked_sub(BEFORE).unwrap_or(now), until);
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let allowed = [
            ("digital signature", KeyUsagePurpose::DigitalSignature),
            ("key encipherment", KeyUsagePurpose::KeyEncipherment),
        ];
        let asked = allowed.into_iter().filter(|(usage, _)| usages.contains(usage));
        params.key_usages = asked.map(|(_, purpose)| purpose).collect();
        let only = format!("{CLUSTER_URI}{cluster}").try_into();
        let only = only.map_err(|_| format!("{cluster:?} cannot stand in a certificate"))?;
        params.subject_alt_names = vec![SanType::URI(only)];
        params.serial_number = Some(serial(request, now));
        let issuer = &self.inner.issuer;
        let template = params.signed_by(issuer.key(), issuer).map_err(|why| why.to_string())?;
        let info = &read.certification_request_info;
        let asked = Asked { subject: info.subject.as_raw(), key: info.subject_pki.raw };
        let signed = put_in(template.der(), &asked, |bytes| issuer.key().sign(bytes).ok());
        signed.ok_or_else(unreadable)
    }
}

/// What a certificate takes over from its request: the bytes whose signature was verified.
struct Asked<'a> {
    subject: &'a [u8],
    key: &'a [u8],
}

/// A certificate as PEM, with the subject and the key of a request in place of its own.
fn put_in(
    template: &[u8],
    asked: &Asked<'_>,
    sign: impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> Option<String> {
    let mut certificate = Certificate::from_der(template).ok()?;
    let body = &mut certificate.tbs_certificate;
    body.subject = Name::from_der(asked.subject).ok()?;
    body.subject_public_key_info = SubjectPublicKeyInfoOwned::from_der(asked.key).ok()?;
    let signature = sign(&body.to_der().ok()?)?;
    certificate.signature = BitString::from_bytes(&signature).ok()?;
    certificate.to_pem(LineEnding::LF).ok()
}

/// A number that no other certificate of this authority has.
fn serial(request: &[u8], now: Timestamp) -> SerialNumber {
    let mut hash = Sha256::new();
    hash.update(now.as_nanosecond().to_be_bytes());
    hash.update(request);
    let mut bytes = hash.finalize()[..16].to_vec();
    // Positive, and never shorter for it.
    bytes[0] = bytes[0] & 0x7f | 0x40;
    SerialNumber::from(bytes)
}

/// An empty certificate that is good from one second to another.
fn lasting(from: Timestamp, until: Timestamp) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "nobody");
    let moment = |at: Timestamp| {
        let at = TimeZone::UTC.to_datetime(at);
        let part = |number: i8| u8::try_from(number).unwrap_or_default();
        let (hour, minute, second) = (at.hour(), at.minute(), at.second());
        let passed = u64::from(part(hour)) * 3600 + u64::from(part(minute)) * 60;
        // Certificates know only years of four digits.
        rcgen::date_time_ymd(
            i32::from(at.year()).clamp(1950, 9999),
            part(at.month()).max(1),
            part(at.day()).max(1),
        ) + std::time::Duration::from_secs(passed + u64::from(part(second)))
    };
    (params.not_before, params.not_after) = (moment(from), moment(until));
    params
}

#[cfg(test)]
mod tests {
    use rcgen::KeyPair;
    use x509_cert::request::CertReq;
    use x509_parser::prelude::X509Certificate;

    use super::*;
    use flagship_apiserver::auth::certificate_user;

    fn now() -> Timestamp {
        "2026-06-15T12:34:56Z".parse().unwrap()
    }

    /// A request for `ann` of two groups, which `rcgen` cannot make.
    fn request(key: &KeyPair) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "nobody");
        let made = params.serialize_request(key).unwrap();
        let mut request = CertReq::from_der(made.der()).unwrap();
        request.info.subject = "O=oops,O=devs,CN=ann".parse().unwrap();
        let signature = key.sign(&request.info.to_der().unwrap()).unwrap();
        request.signature = BitString::from_bytes(&signature).unwrap();
        request.to_der().unwrap()
    }

    fn wanted(request: &[u8], now: Timestamp) -> Wanted<'_> {
        let life = SignedDuration::from_secs(600);
        let usages = &["client auth", "digital signature"];
        Wanted { request, usages, cluster: "hub", now, life }
    }

    #[test]
    fn a_certificate_has_the_whole_subject_and_the_seconds_that_were_asked_for() {
        let authority = Authority::create(now()).unwrap();
        let key = KeyPair::generate().unwrap();
        let request = request(&key);
        let made = authority.sign(&wanted(&request, now())).unwrap();
        let (_, read) = x509_parser::pem::parse_x509_pem(made.as_bytes()).unwrap();
        let user = certificate_user(&read.contents).unwrap();
        assert_eq!(&*user.name, "ann");
        assert!(user.is_in("devs") && user.is_in("oops"));
        let (_, certificate) = X509Certificate::from_der(&read.contents).unwrap();
        assert_eq!(certificate.public_key().subject_public_key.data, key.public_key_raw());
        assert!(!certificate.is_ca());
        let second = now().as_second();
        assert_eq!(certificate.validity().not_before.timestamp(), second - 300);
        assert_eq!(certificate.validity().not_after.timestamp(), second + 600);
        let ca = authority.certificate_der();
        let (_, ca) = X509Certificate::from_der(&ca).unwrap();
        certificate.verify_signature(Some(ca.public_key())).unwrap();
        let again = authority.sign(&wanted(&request, now() + BEFORE)).unwrap();
        assert_ne!(made, again);
    }

    #[test]
    fn a_request_that_its_key_did_not_sign_is_refused() {
        let authority = Authority::create(now()).unwrap();
        let mut request = request(&KeyPair::generate().unwrap());
        let last = request.len() - 1;
        request[last] ^= 1;
        let refused = authority.sign(&wanted(&request, now())).unwrap_err();
        assert!(refused.contains("not signed by the key") || refused.contains("read"), "{refused}");
        for short in 0..request.len() {
            assert!(authority.sign(&wanted(&request[..short], now())).is_err());
        }
    }

    /// Made by OpenSSL 3 for `/CN=ann/O=devs/O=oops+OU=x`, with keys of three kinds.
    const OPENSSL: [&str; 3] = [
        include_str!("testdata/rsa.csr"),
        include_str!("testdata/p384.csr"),
        include_str!("testdata/ed25519.csr"),
    ];

    #[test]
    fn subject_and_key_of_a_request_are_taken_over_byte_by_byte() {
        let authority = Authority::create(now()).unwrap();
        let ca = authority.certificate_der();
        let (_, ca) = X509Certificate::from_der(&ca).unwrap();
        for text in OPENSSL {
            let (_, request) = x509_parser::pem::parse_x509_pem(text.as_bytes()).unwrap();
            let made = authority.sign(&wanted(&request.contents, now())).unwrap();
            let (_, read) = x509_parser::pem::parse_x509_pem(made.as_bytes()).unwrap();
            let (rest, certificate) = X509Certificate::from_der(&read.contents).unwrap();
            assert!(rest.is_empty());
            certificate.verify_signature(Some(ca.public_key())).unwrap();
            let (_, asked) = X509CertificationRequest::from_der(&request.contents).unwrap();
            let asked = &asked.certification_request_info;
            assert_eq!(certificate.subject().as_raw(), asked.subject.as_raw());
            assert_eq!(certificate.public_key().raw, asked.subject_pki.raw);
            let user = certificate_user(&read.contents).unwrap();
            assert!(user.is_in("devs") && user.is_in("oops"));
        }
    }

    /// A parser may be lenient about the few bytes around what is signed, never about that.
    #[test]
    fn a_turned_bit_never_changes_whom_a_certificate_is_for() {
        let authority = Authority::create(now()).unwrap();
        let key = KeyPair::generate().unwrap();
        let request = request(&key);
        let mut signed = 0;
        for at in 0..request.len() * 8 {
            let mut turned = request.clone();
            turned[at / 8] ^= 1 << (at % 8);
            let Ok(made) = authority.sign(&wanted(&turned, now())) else { continue };
            signed += 1;
            let (_, read) = x509_parser::pem::parse_x509_pem(made.as_bytes()).unwrap();
            let (_, certificate) = X509Certificate::from_der(&read.contents).unwrap();
            assert_eq!(certificate.subject().to_string(), "CN=ann, O=devs, O=oops", "bit {at}");
            assert_eq!(certificate.public_key().subject_public_key.data, key.public_key_raw());
        }
        assert!(signed < 32, "{signed} of {} were signed", request.len() * 8);
    }
}
