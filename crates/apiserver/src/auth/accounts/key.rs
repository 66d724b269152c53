//! The keys of the tokens of one cluster: one that signs, and those it replaced.
//!
//! They lie in the cluster's store, under a resource that no kind serves: they outlive a
//! restart with the objects they vouch for, and no request can read them. Another cluster
//! has other keys, so a token is good in one cluster only.
//!
//! Of a key that was replaced only the public half is kept: its tokens stay good until it is
//! dropped, and nobody signs with it again.

use std::sync::{Arc, OnceLock};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use flagship_base::machinery::status::ApiError;
use flagship_store::{
    Change, CommitError, Encoded, Expect, Head, ObjectKey, Pairs, Resource, Scope, Store, Stored,
    Write,
};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    UnparsedPublicKey,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// No kind has this name.
pub(super) const RESOURCE: &str = "signingkeys.internal";
/// The key that signs; the others are named by their id.
const NAME: &str = "service-accounts";

/// Where the keys of a cluster are held once they were used.
#[derive(Default)]
pub struct Keyring {
    key: OnceLock<Key>,
    replaced: OnceLock<Vec<Public>>,
}

/// A key for signing.
pub struct Key {
    pair: EcdsaKeyPair,
    /// Its other half.
    pub public: Public,
    /// The revision it was stored at: before that is durable no token may leave.
    pub revision: u64,
}

/// A key for verifying.
pub struct Public {
    /// An uncompressed point: one byte to say so, then both coordinates.
    point: Vec<u8>,
    /// Says by which key a token was signed.
    pub id: String,
}

impl Keyring {
    /// The key that signs, made if the cluster has none yet.
    pub fn key(&self, store: &Store) -> Result<&Key, ApiError> {
        if let Some(key) = self.key.get() {
            return Ok(key);
        }
        let key = Key::load_or_make(store)?;
        // Somebody else may have loaded it meanwhile: the same one, for the store has one.
        Ok(self.key.get_or_init(|| key))
    }

    /// The key that signs, if the cluster has one.
    pub fn known(&self, store: &Store) -> Option<&Key> {
        if self.key.get().is_none() {
            store.get(RESOURCE, &place())?;
        }
        self.key(store).ok()
    }

    /// The keys whose tokens are good.
    pub fn good(&self, store: &Store) -> impl Iterator<Item = &Public> {
        let replaced = self.replaced.get_or_init(|| replaced(store));
        self.known(store).map(|key| &key.public).into_iter().chain(replaced)
    }
}

impl Key {
    fn load_or_make(store: &Store) -> Result<Self, ApiError> {
        if store.get(RESOURCE, &place()).is_none()
            && let Err(why) = put(store, place(), Expect::Absent, &made(store)?)
        {
            tracing::debug!(%why, "another request made the key");
        }
        let stored = store.get(RESOURCE, &place()).ok_or_else(|| ApiError::internal("no key"))?;
        Self::of(&stored)
    }

    fn of(stored: &Stored) -> Result<Self, ApiError> {
        let object: Value = serde_json::from_slice(&stored.json).map_err(ApiError::internal)?;
        let text = object["pkcs8"].as_str().unwrap_or_default();
        let pkcs8 = STANDARD.decode(text).map_err(ApiError::internal)?;
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let pair =
            EcdsaKeyPair::from_pkcs8(algorithm, &pkcs8, &random).map_err(ApiError::internal)?;
        let public = Public::new(pair.public_key().as_ref().to_vec());
        Ok(Self { pair, public, revision: stored.revision })
    }

    /// Signs.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, ApiError> {
        let signed = self.pair.sign(&SystemRandom::new(), message);
        let signed = signed.map_err(|_| ApiError::internal("the token cannot be signed"))?;
        Ok(signed.as_ref().to_vec())
    }
}

impl Public {
    fn new(point: Vec<u8>) -> Self {
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(&point));
        Self { point, id }
    }

    /// Whether this key signed that.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.point)
            .verify(message, signature)
            .is_ok()
    }

    /// As others fetch it, a JSON Web Key.
    pub fn document(&self) -> Value {
        let (x, y) = self.point.get(1..).unwrap_or_default().split_at(self.point.len() / 2);
        json!({
            "use": "sig", "kty": "EC", "crv": "P-256", "alg": "ES256", "kid": self.id,
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        })
    }
}

/// Has another key sign from now on; tokens of the one before stay good. Whether the cluster
/// had a key at all. A server that runs on the store would not notice.
pub fn rotate(store: &Store) -> Result<bool, ApiError> {
    let Some(stored) = store.get(RESOURCE, &place()) else { return Ok(false) };
    let Public { point, id } = Key::of(&stored)?.public;
    let kept = json!({"metadata": {"name": id}, "public": STANDARD.encode(point)});
    // First kept, then replaced: a crash in between leaves a key that is good twice.
    let expect = match store.get(RESOURCE, &ObjectKey::new("", id.as_str())) {
        Some(there) => Expect::At(there.revision),
        None => Expect::Absent,
    };
    put(store, ObjectKey::new("", id), expect, &kept).map_err(ApiError::internal)?;
    let made = made(store)?;
    put(store, place(), Expect::At(stored.revision), &made).map_err(ApiError::internal)?;
    Ok(true)
}

/// Drops the keys that no longer sign: their tokens are good no more. How many there were.
pub fn drop_replaced(store: &Store) -> Result<usize, ApiError> {
    let mut dropped = 0;
    for stored in store.list(RESOURCE, Scope::All).items {
        if stored.key != place() {
            let (head, json) = (stored.head.clone(), Encoded::stored(&stored.json));
            let change = Change::Delete { head, json };
            let (key, expect) = (stored.key.clone(), Expect::At(stored.revision));
            let resource = RESOURCE.into();
            store
                .commit(Write { resource: &resource, key, expect, change })
                .map_err(ApiError::internal)?;
            dropped += 1;
        }
    }
    Ok(dropped)
}

fn place() -> ObjectKey {
    ObjectKey::new("", NAME)
}

fn made(store: &Store) -> Result<Value, ApiError> {
    let random = SystemRandom::new();
    let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)
        .map_err(|_| ApiError::internal("no key can be made"))?;
    Ok(json!({
        "metadata": {"name": NAME, "uid": store.env().entropy.uuid()},
        "pkcs8": STANDARD.encode(made.as_ref()),
    }))
}

fn replaced(store: &Store) -> Vec<Public> {
    let stored = store.list(RESOURCE, Scope::All).items.into_iter();
    let others = stored.filter(|stored| stored.key != place());
    let point = |stored: Arc<Stored>| {
        let object: Value = serde_json::from_slice(&stored.json).ok()?;
        STANDARD.decode(object["public"].as_str()?).ok()
    };
    others.filter_map(point).map(Public::new).collect()
}

fn put(
    store: &Store,
    key: ObjectKey,
    expect: Expect,
    object: &Value,
) -> Result<Arc<Stored>, CommitError> {
    let resource: Resource = RESOURCE.into();
    let (head, json) = (Head::of(object, Pairs::default()), Encoded::new(object));
    store.commit(Write { resource: &resource, key, expect, change: Change::Put { head, json } })
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
            let name = format!("flagship-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            drop(std::fs::remove_dir_all(&folder));
            std::fs::create_dir(&folder).unwrap();
            folder.join("data.redb")
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
            (key.public.id.clone(), key.sign(b"words").unwrap())
        };
        let (store, keyring) = (opened(&path), Keyring::default());
        let key = &keyring.known(&store).unwrap().public;
        assert_eq!(key.id, id);
        assert!(key.verifies(b"words", &signature) && !key.verifies(b"other", &signature));
        assert!(Keyring::default().known(&opened(&other)).is_none());
        for path in [path, other] {
            std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
        }
    }

    #[test]
    fn tokens_of_a_replaced_key_stay_good_until_it_is_dropped() {
        let store = Store::new(Env::simulated(1), Limits::default());
        assert!(!rotate(&store).unwrap(), "there is none yet");
        let mut signed = Vec::new();
        for round in 0..3 {
            // As after a restart: what was known before is not.
            let keyring = Keyring::default();
            let key = keyring.key(&store).unwrap();
            signed.push((key.public.id.clone(), key.sign(b"words").unwrap()));
            let good = |signature: &[u8]| {
                keyring.good(&store).filter(|key| key.verifies(b"words", signature)).count()
            };
            assert!(signed.iter().all(|(_, signature)| good(signature) == 1), "round {round}");
            assert_eq!(keyring.good(&store).count(), round + 1);
            assert!(rotate(&store).unwrap());
        }
        let private = store.list(RESOURCE, Scope::All).items.into_iter();
        let private = private.filter(|one| String::from_utf8_lossy(&one.json).contains("pkcs8"));
        assert_eq!(private.count(), 1, "only the key that signs can sign");
        assert_eq!(drop_replaced(&store).unwrap(), 3);
        let keyring = Keyring::default();
        assert_eq!(keyring.good(&store).count(), 1);
        for (id, signature) in signed {
            assert!(keyring.good(&store).all(|key| key.id != id));
            assert!(!keyring.good(&store).any(|key| key.verifies(b"words", &signature)));
        }
    }
}
