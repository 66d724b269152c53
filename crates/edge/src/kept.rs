//! A client's certificate that is kept in the authority's folder from one start to the next.
//!
//! Nothing can call a certificate back, so a start that finds a good one makes no other.

use jiff::{SignedDuration, Timestamp};
use rcgen::KeyPair;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::authority::{Authority, AuthorityError, Credentials, read, save};

/// A certificate with less time left than this is replaced.
const RENEWED_BEFORE: SignedDuration = SignedDuration::from_hours(30 * 24);
const KEY: &str = "-----BEGIN PRIVATE KEY-----";

impl Authority {
    /// As [`Authority::client`], and kept: the same certificate at every start until a month
    /// before it ends. An authority in memory keeps nothing.
    pub fn kept_client(
        &self,
        user: &str,
        group: &str,
        now: Timestamp,
    ) -> Result<Credentials, AuthorityError> {
        let Some(folder) = &self.inner.folder else { return self.client(user, Some(group), now) };
        let path = folder.join(format!("{user}.pem"));
        let kept = read(&path)?.and_then(|text| taken_apart(&text));
        if let Some(kept) = kept.filter(|kept| self.is_good(kept, user, group, now)) {
            return Ok(kept);
        }
        let made = self.client(user, Some(group), now)?;
        // One file, so that no certificate is ever beside another's key.
        save(&path, &format!("{}{}", made.certificate, made.key))?;
        Ok(made)
    }

    fn is_good(&self, kept: &Credentials, user: &str, group: &str, now: Timestamp) -> bool {
        let (Ok(der), Ok(key)) = (
            CertificateDer::from_pem_slice(kept.certificate.as_bytes()),
            KeyPair::from_pem(&kept.key),
        ) else {
            return false;
        };
        let own = self.certificate_der();
        let (Ok((_, read)), Ok((_, own))) =
            (X509Certificate::from_der(&der), X509Certificate::from_der(&own))
        else {
            return false;
        };
        let until = now.checked_add(RENEWED_BEFORE).unwrap_or(Timestamp::MAX).as_second();
        let subject = read.subject();
        read.verify_signature(Some(own.public_key())).is_ok()
            && read.public_key().subject_public_key.data.as_ref() == key.public_key_raw()
            && subject.iter_common_name().any(|name| name.as_str() == Ok(user))
            && subject.iter_organization().any(|name| name.as_str() == Ok(group))
            && read.validity().not_before.timestamp() <= now.as_second()
            && read.validity().not_after.timestamp() > until
    }
}

fn taken_apart(text: &str) -> Option<Credentials> {
    let (certificate, key) = text.split_at(text.find(KEY)?);
    Some(Credentials { certificate: certificate.to_owned(), key: key.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let name = format!("flagship-kept-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        drop(fs::remove_dir_all(&path));
        path
    }

    fn day(text: &str) -> Timestamp {
        format!("{text}T12:00:00Z").parse().unwrap()
    }

    #[test]
    fn every_start_shows_the_same_certificate_until_a_month_before_it_ends() {
        let folder = scratch("same");
        let shown = |at: &str| {
            let authority = Authority::at(&folder, day(at)).unwrap();
            authority.kept_client("admin", "masters", day(at)).unwrap()
        };
        let first = shown("2026-06-15");
        assert_eq!(shown("2026-06-16").certificate, first.certificate);
        assert_eq!(shown("2027-05-10").key, first.key);
        let renewed = shown("2027-05-20");
        assert_ne!(renewed.certificate, first.certificate);
        assert_eq!(shown("2027-05-21").certificate, renewed.certificate);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_certificate_that_is_not_good_here_is_replaced() {
        let (folder, now) = (scratch("replaced"), day("2026-06-15"));
        let authority = Authority::at(&folder, now).unwrap();
        let other = Authority::create(now).unwrap();
        let foreign = other.client("admin", Some("masters"), now).unwrap();
        let nobody = authority.client("admin", Some("nobodies"), now).unwrap();
        let mixed = Credentials { key: foreign.key.clone(), ..nobody.clone() };
        let garbage = Credentials { certificate: "C".to_owned(), key: KEY.to_owned() };
        for kept in [foreign, nobody, mixed, garbage] {
            let text = format!("{}{}", kept.certificate, kept.key);
            fs::write(folder.join("admin.pem"), text).unwrap();
            let shown = authority.kept_client("admin", "masters", now).unwrap();
            assert_ne!(shown.certificate, kept.certificate);
            assert!(authority.is_good(&shown, "admin", "masters", now));
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
