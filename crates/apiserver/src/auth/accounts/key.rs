//! The key that signs the tokens of one cluster.
//!
//! It lies in the cluster's store, under a resource that no kind serves: it outlives a
//! restart with the objects it vouches for, and no request can read it. Another cluster
//! has another key, so a token is good in one cluster only.

use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use flagship_base::machinery::status::ApiError;
use flagship_store::{Change, Encoded, Expect, Head, ObjectKey, Pairs, Resource, Store, Write};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    UnparsedPublicKey,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// No kind has this name.
const RESOURCE: &str = "signingkeys.internal";
const NAME: &str = "service-accounts";

/// Where the key of a cluster is held once it was used.
#[derive(Default)]
pub struct Keyring {
    key: OnceLock<Key>,
}

/// A key for signing and verifying.
pub struct Key {
    pair: EcdsaKeyPair,
    /// Says by which key a token was signed.
    pub id: String,
    /// The revision it was stored at: before that is durable no token may leave.
    pub revision: u64,
}

impl Keyring {
    /// The key, made if the cluster has none yet.
    pub fn key(&self, store: &Store) -> Result<&Key, ApiError> {
        if let Some(key) = self.key.get() {
            return Ok(key);
        }
        let key = Key::load_or_make(store)?;
        // Somebody else may have loaded it meanwhile: the same one, for the store has one.
        Ok(self.key.get_or_init(|| key))
    }

    /// The key, if the cluster has one.
    pub fn known(&self, store: &Store) -> Option<&Key> {
        if self.key.get().is_none() {
            store.get(RESOURCE, &ObjectKey::new("", NAME))?;
        }
        self.key(store).ok()
    }
}

impl Key {
    fn load_or_make(store: &Store) -> Result<Self, ApiError> {
        let place = ObjectKey::new("", NAME);
        if store.get(RESOURCE, &place).is_none() {
            let random = SystemRandom::new();
            let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)
                .map_err(|_| ApiError::internal("no key can be made"))?;
            let object = json!({
                "metadata": {"name": NAME, "uid": store.env().entropy.uuid()},
                "pkcs8": STANDARD.encode(made.as_ref()),
            });
            let resource: Resource = RESOURCE.into();
            let (head, json) = (Head::of(&object, Pairs::default()), Encoded::new(&object));
            let change = Change::Put { head, json };
            let key = place.clone();
            let written =
                store.commit(Write { resource: &resource, key, expect: Expect::Absent, change });
            if let Err(why) = written {
                tracing::debug!(%why, "another request made the key");
            }
        }
        let stored = store.get(RESOURCE, &place).ok_or_else(|| ApiError::internal("no key"))?;
        let object: Value = serde_json::from_slice(&stored.json).map_err(ApiError::internal)?;
        let text = object["pkcs8"].as_str().unwrap_or_default();
        let pkcs8 = STANDARD.decode(text).map_err(ApiError::internal)?;
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let pair =
            EcdsaKeyPair::from_pkcs8(algorithm, &pkcs8, &random).map_err(ApiError::internal)?;
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(pair.public_key().as_ref()));
        Ok(Self { pair, id, revision: stored.revision })
    }

    /// Signs.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, ApiError> {
        let signed = self.pair.sign(&SystemRandom::new(), message);
        let signed = signed.map_err(|_| ApiError::internal("the token cannot be signed"))?;
        Ok(signed.as_ref().to_vec())
    }

    /// Whether this key signed that.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let public = self.pair.public_key().as_ref();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public).verify(message, signature).is_ok()
    }

    /// The public half as others fetch it, a JSON Web Key.
    pub fn public(&self) -> Value {
        // An uncompressed point: one byte to say so, then both coordinates.
        let point = self.pair.public_key().as_ref();
        let (x, y) = point.get(1..).unwrap_or_default().split_at(point.len() / 2);
        json!({
            "use": "sig", "kty": "EC", "crv": "P-256", "alg": "ES256", "kid": self.id,
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        })
    }
}

#[cfg(test)]
mod tests {
    use flagship_store::Limits;
    use flagship_store::durable::Durable;
    use flagship_store::env::Env;

    use super::*;

    #[tokio::test]
    async fn tokens_outlive_a_restart_because_their_key_does() {
        let file = |name| {
            let path = std::env::temp_dir().join(format!("flagship-{name}-{}", std::process::id()));
            drop(std::fs::remove_file(&path));
            path
        };
        let opened = |path| {
            let durable = Durable::open(path).unwrap();
            durable.store("hub", Env::simulated(1), Limits::default()).unwrap()
        };
        let (path, other) = (file("token-key"), file("no-token-key"));
        let (id, signature) = {
            let (store, keyring) = (opened(&path), Keyring::default());
            let key = keyring.key(&store).unwrap();
            store.settled(key.revision).await.unwrap();
            (key.id.clone(), key.sign(b"words").unwrap())
        };
        let (store, keyring) = (opened(&path), Keyring::default());
        let key = keyring.known(&store).unwrap();
        assert_eq!(key.id, id);
        assert!(key.verifies(b"words", &signature) && !key.verifies(b"other", &signature));
        assert!(Keyring::default().known(&opened(&other)).is_none());
        drop((std::fs::remove_file(&path), std::fs::remove_file(&other)));
    }
}
