//! Certificates that others ask for: their subject and their key, our signature.
//!
//! The library that makes our own certificates knows a name only as a map, in which somebody
//! of two groups has one. So a certificate is made for nobody in particular, the request's
//! own bytes take the place of its subject and key, and it is signed again.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose,
    SanType, SerialNumber, SigningKey,
};
use sha2::{Digest, Sha256};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

use super::authority::Authority;
use crate::auth::CLUSTER_URI;
use crate::rest::{Signer, Wanted};

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
        let certificate = put_in(template.der(), request, |bytes| issuer.key().sign(bytes).ok());
        Ok(pem(&certificate.ok_or_else(unreadable)?))
    }
}

/// A certificate with the subject and the key of a request in place of its own.
fn put_in(
    template: &[u8],
    request: &[u8],
    sign: impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    // Version, subject, key and attributes.
    let asked = elements(content(elements(content(request)?)?.first()?)?)?;
    let [_, subject, key, ..] = asked.as_slice() else { return None };
    let whole = elements(content(template)?)?;
    let [body, algorithm, _] = whole.as_slice() else { return None };
    // Version, serial number, algorithm, issuer, validity, subject, key and extensions.
    let mut parts = elements(content(body)?)?;
    *parts.get_mut(5)? = subject;
    *parts.get_mut(6)? = key;
    let body = element(SEQUENCE, &parts.concat());
    let mut signature = vec![0]; // no unused bits
    signature.extend(sign(&body)?);
    let all = [body, algorithm.to_vec(), element(BITS, &signature)].concat();
    Some(element(SEQUENCE, &all))
}

const SEQUENCE: u8 = 0x30;
const BITS: u8 = 0x03;

/// Splits DER after its first element: where the content begins, and where it ends.
fn measure(der: &[u8]) -> Option<(usize, usize)> {
    let first = usize::from(*der.get(1)?);
    let (begin, length) = match first {
        ..0x80 => (2, first),
        _ => {
            let bytes = der.get(2..2 + (first & 0x7f))?;
            if bytes.len() > 4 {
                return None;
            }
            let length = bytes.iter().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
            (2 + bytes.len(), length)
        }
    };
    let end = begin.checked_add(length).filter(|end| *end <= der.len())?;
    Some((begin, end))
}

fn content(element: &[u8]) -> Option<&[u8]> {
    let (begin, end) = measure(element)?;
    element.get(begin..end)
}

/// The elements side by side, each with its head.
fn elements(mut der: &[u8]) -> Option<Vec<&[u8]>> {
    let mut all = Vec::new();
    while !der.is_empty() {
        let (_, end) = measure(der)?;
        let (one, rest) = der.split_at(end);
        all.push(one);
        der = rest;
    }
    Some(all)
}

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let length = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    let mut der = vec![tag];
    match length {
        [] => der.push(0),
        [one @ ..0x80] => der.push(*one),
        many => {
            der.push(0x80 | u8::try_from(many.len()).unwrap_or_default());
            der.extend(many);
        }
    }
    der.extend(content);
    der
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

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut lines = vec!["-----BEGIN CERTIFICATE-----"];
    let (mut rest, mut line);
    rest = text.as_str();
    while !rest.is_empty() {
        (line, rest) = rest.split_at(rest.len().min(64));
        lines.push(line);
    }
    lines.push("-----END CERTIFICATE-----\n");
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use rcgen::KeyPair;
    use x509_parser::prelude::X509Certificate;

    use super::*;
    use crate::auth::certificate_user;

    fn now() -> Timestamp {
        "2026-06-15T12:34:56Z".parse().unwrap()
    }

    /// A request for `ann` of two groups, which the library cannot make: twice the same part.
    fn request(key: &KeyPair) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "ann");
        params.distinguished_name.push(DnType::OrganizationName, "devs");
        let made = params.serialize_request(key).unwrap();
        let parts = elements(content(made.der()).unwrap()).unwrap();
        let mut info = elements(content(parts[0]).unwrap()).unwrap();
        let mut names = elements(content(info[1]).unwrap()).unwrap();
        let mut ops = names[1].to_vec();
        let at = ops.len() - 4;
        ops[at..].copy_from_slice(b"oops");
        names.push(&ops);
        let subject = element(SEQUENCE, &names.concat());
        info[1] = &subject;
        let info = element(SEQUENCE, &info.concat());
        let mut signature = vec![0];
        signature.extend(key.sign(&info).unwrap());
        element(SEQUENCE, &[info, parts[1].to_vec(), element(BITS, &signature)].concat())
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
}
