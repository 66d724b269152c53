//! Encryption of what lies in the file: AES-256-GCM, one nonce for every record.
//!
//! The whole object is sealed, not only Secrets: snapshots and Works carry copies of them. Its
//! place (cluster, resource, namespace, name) is not, and is bound to it, so that no record
//! can be put in another's place.

use std::fmt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest, Sha256};

use super::record::Unreadable;

/// Bytes that say by which key a record was sealed.
const ID: usize = 8;
/// In a key file, in place of a key: what is written is not sealed.
const PLAIN: &str = "plain";

/// The keys of a file; none by default. The first seals, the others only open.
#[derive(Default)]
pub struct Keys {
    keys: Vec<([u8; ID], LessSafeKey)>,
    /// Whether what is written is not sealed although there are keys.
    plain: bool,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<String> = self.keys.iter().map(|(id, _)| hex(id)).collect();
        f.debug_struct("Keys").field("ids", &ids).field("plain", &self.plain).finish()
    }
}

impl Keys {
    /// From a file that only its owner should read.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|why| format!("the key file {} cannot be read: {why}", path.display()))?;
        Self::parse(&text).map_err(|why| format!("the key file {}: {why}", path.display()))
    }

    /// From lines of 32 bytes in base64. Empty lines and those that begin with `#` are left
    /// out; `plain` as the first seals nothing any more.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut found = Self::default();
        let lines = text.lines().map(str::trim).enumerate();
        for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            if line == PLAIN && found.keys.is_empty() {
                found.plain = true;
                continue;
            }
            let wrong = || format!("line {} is not 32 bytes in base64", number + 1);
            let bytes = STANDARD.decode(line).map_err(|_| wrong())?;
            let key = UnboundKey::new(&AES_256_GCM, &bytes).map_err(|_| wrong())?;
            found.keys.push((id_of(&bytes), LessSafeKey::new(key)));
        }
        match found.keys.is_empty() {
            true => Err("it has no key".to_owned()),
            false => Ok(found),
        }
    }

    /// Seals a text for its place; `None` when nothing is to be sealed.
    pub(super) fn seal(&self, place: &[u8], text: &[u8]) -> Option<Vec<u8>> {
        let (id, key) = self.keys.first().filter(|_| !self.plain)?;
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).expect("the system gives random bytes");
        let mut sealed = text.to_vec();
        let unique = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(unique, Aad::from(place), &mut sealed)
            .expect("a record is far shorter than what can be sealed");
        Some([&id[..], &nonce, &sealed].concat())
    }

    /// Opens what was sealed for this place.
    pub(super) fn open(&self, place: &[u8], sealed: &[u8]) -> Result<Vec<u8>, Unreadable> {
        let short = || Unreadable::Damaged("it is cut short".to_owned());
        let (id, rest) = sealed.split_first_chunk::<ID>().ok_or_else(short)?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>().ok_or_else(short)?;
        let Some((_, key)) = self.keys.iter().find(|(own, _)| own == id) else {
            return Err(Unreadable::Key(hex(id)));
        };
        let mut text = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = key
            .open_in_place(nonce, Aad::from(place), &mut text)
            .map_err(|_| Unreadable::Damaged("it was not sealed by its key".to_owned()))?
            .len();
        text.truncate(length);
        Ok(text)
    }

    /// Whether what is sealed like this would be written otherwise now.
    pub(super) fn would_rewrite(&self, sealed: Option<&[u8]>) -> bool {
        let now = self.keys.first().filter(|_| !self.plain).map(|(id, _)| &id[..]);
        now != sealed.and_then(|sealed| sealed.get(..ID))
    }
}

fn id_of(key: &[u8]) -> [u8; ID] {
    let digest = Sha256::digest([b"flagship encryption key ", key].concat());
    *digest.first_chunk().expect("a digest is longer")
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(byte: u8) -> String {
        STANDARD.encode([byte; 32])
    }

    #[test]
    fn what_one_key_sealed_another_does_not_open() {
        let (one, two) = (Keys::parse(&line(1)).unwrap(), Keys::parse(&line(2)).unwrap());
        let sealed = one.seal(b"place", b"secret").unwrap();
        assert!(!sealed.windows(6).any(|window| window == b"secret"));
        assert_eq!(one.open(b"place", &sealed).unwrap(), b"secret");
        assert!(matches!(two.open(b"place", &sealed), Err(Unreadable::Key(_))));
        assert!(matches!(Keys::default().open(b"place", &sealed), Err(Unreadable::Key(_))));
        assert!(matches!(one.open(b"other", &sealed), Err(Unreadable::Damaged(_))));
        assert_ne!(one.seal(b"place", b"secret"), Some(sealed), "a nonce is used once");
    }

    #[test]
    fn the_first_key_of_a_file_seals_and_all_of_them_open() {
        let old = Keys::parse(&line(1)).unwrap().seal(b"place", b"secret").unwrap();
        let both = Keys::parse(&format!("# new\n{}\n\n{}\n", line(2), line(1))).unwrap();
        assert_eq!(both.open(b"place", &old).unwrap(), b"secret");
        assert!(both.would_rewrite(Some(&old)) && both.would_rewrite(None));
        let new = both.seal(b"place", b"secret").unwrap();
        assert!(!both.would_rewrite(Some(&new)));
        let back = Keys::parse(&format!("plain\n{}", line(1))).unwrap();
        assert_eq!(back.seal(b"place", b"secret"), None);
        assert!(back.would_rewrite(Some(&old)) && !back.would_rewrite(None));
    }

    #[test]
    fn a_file_that_holds_no_keys_is_refused() {
        for (text, why) in [
            ("", "it has no key"),
            ("plain", "it has no key"),
            ("# none\n\nc2hvcnQ=", "line 3 is not 32 bytes in base64"),
            ("not base64!", "line 1 is not 32 bytes in base64"),
        ] {
            assert_eq!(Keys::parse(text).unwrap_err(), why);
        }
    }
}
