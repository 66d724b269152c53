//! Service accounts: the tokens that programs in a cluster show.
//!
//! A token is good while its signature, its time and its audience are, and while the
//! account and whatever it is bound to are there under the uid they had. Issuing tokens
//! over the API is `rest::tokens`.

mod key;
mod token;

use flagship_base::machinery::status::ApiError;
use flagship_store::{ObjectKey, Store};
use serde_json::{Value, json};

pub use key::{Key, Keyring, drop_replaced, rotate};

use super::rbac::quoted;
use super::{Authenticator, Presented, User, bearer};
use crate::rest::ClusterHandle;

/// Who signs tokens, and for whom they are meant unless somebody else was named.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// Who signs the tokens in secrets, which never end.
const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// Where accounts are stored.
pub const ACCOUNTS: &str = "serviceaccounts";

/// Knows the service accounts of the cluster that is asked, by their tokens.
#[derive(Debug, Clone, Copy, Default)]
pub struct ServiceAccounts;

impl Authenticator for ServiceAccounts {
    fn authenticate(&self, presented: &Presented<'_>) -> Result<Option<User>, ApiError> {
        let (Some(token), Some(cluster)) = (bearer(presented.headers), presented.cluster) else {
            return Ok(None);
        };
        let Some(opened) = token::open(token) else { return Ok(None) };
        let claims = &opened.claims;
        let legacy = claims["iss"] == LEGACY_ISSUER;
        if !legacy && claims["iss"] != ISSUER {
            return Ok(None);
        }
        let refuse = |why: &str| Err(ApiError::new(401, "Unauthorized", why));
        let store = cluster.store();
        if !cluster.keyring().good(store).any(|key| opened.is_signed_by(key)) {
            return refuse("Unauthorized");
        }
        let outcome = match legacy {
            true => of_secret(claims, token, store),
            false => of_request(claims, presented.audiences, cluster),
        };
        outcome.map(Some).or_else(|why| refuse(&why))
    }
}

/// What a token is made for.
pub struct Grant<'a> {
    /// The account's namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
    /// For whom.
    pub audiences: &'a [String],
    /// When, in seconds since 1970.
    pub from: i64,
    /// Until when.
    pub until: i64,
    /// `pod`, `node` or `secret`, with the object's name and uid.
    pub bound: Option<(&'static str, String, String)>,
}

/// A token for a while.
pub fn issue(key: &Key, id: &str, grant: &Grant<'_>) -> Result<String, ApiError> {
    let Grant { namespace, name, uid, audiences, from, until, bound } = grant;
    let mut about = json!({
        "namespace": namespace, "serviceaccount": {"name": name, "uid": uid},
    });
    if let Some((kind, name, uid)) = bound {
        about[kind] = json!({"name": name, "uid": uid});
    }
    let claims = json!({
        "aud": audiences, "exp": until, "iat": from, "iss": ISSUER, "jti": id,
        "kubernetes.io": about, "nbf": from, "sub": subject(namespace, name),
    });
    token::seal(key, &claims)
}

/// A token that ends with the secret it lies in.
pub fn issue_for_secret(
    key: &Key,
    (namespace, name, uid): (&str, &str, &str),
    secret: &str,
) -> Result<String, ApiError> {
    let claims = json!({
        "iss": LEGACY_ISSUER,
        "kubernetes.io/serviceaccount/namespace": namespace,
        "kubernetes.io/serviceaccount/secret.name": secret,
        "kubernetes.io/serviceaccount/service-account.name": name,
        "kubernetes.io/serviceaccount/service-account.uid": uid,
        "sub": subject(namespace, name),
    });
    token::seal(key, &claims)
}

/// Whether this is a token for a secret whose key was dropped.
pub fn has_lost_its_key(token: &str, keyring: &Keyring, store: &Store) -> bool {
    let opened = token::open(token).filter(|opened| opened.claims["iss"] == LEGACY_ISSUER);
    opened.is_some_and(|opened| !keyring.good(store).any(|key| opened.is_signed_by(key)))
}

/// Those among `wanted` for whom a token is meant that was found good.
pub fn shared_audiences(token: &str, wanted: &[&str]) -> Vec<String> {
    let own = token::open(token).map(|opened| audiences(&opened.claims)).unwrap_or_default();
    let own = if own.is_empty() { vec![ISSUER.to_owned()] } else { own };
    let wanted = if wanted.is_empty() { &[ISSUER] } else { wanted };
    own.into_iter().filter(|one| wanted.contains(&one.as_str())).collect()
}

fn subject(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

fn audiences(claims: &Value) -> Vec<String> {
    let list = claims["aud"].as_array().into_iter().flatten().filter_map(Value::as_str);
    list.map(str::to_owned).collect()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

fn of_request(claims: &Value, wanted: &[&str], cluster: &ClusterHandle) -> Result<User, String> {
    let now = cluster.env().clock.now().as_second();
    if claims["exp"].as_i64().is_none_or(|end| end <= now) {
        return Err("service account token has expired".to_owned());
    }
    if claims["nbf"].as_i64().is_some_and(|start| start > now) {
        return Err("service account token is not valid yet".to_owned());
    }
    let meant = audiences(claims);
    let wanted = if wanted.is_empty() { &[ISSUER] } else { wanted };
    if !meant.iter().any(|one| wanted.contains(&one.as_str())) {
        return Err(format!(
            "token audiences {} is invalid for the target audiences {}",
            quoted(&meant),
            quoted(wanted)
        ));
    }
    let about = &claims["kubernetes.io"];
    let (store, namespace) = (cluster.store(), text(about, "namespace"));
    let account = &about["serviceaccount"];
    there(store, ACCOUNTS, namespace, account)?;
    let mut user = user_of(namespace, text(account, "name"), text(account, "uid"));
    let mut note = |key: &str, value: String| {
        user.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value]);
    };
    note("credential-id", format!("JTI={}", text(claims, "jti")));
    for (kind, resource, within) in
        [("pod", "pods", namespace), ("node", "nodes", ""), ("secret", "secrets", namespace)]
    {
        let bound = &about[kind];
        if bound.is_null() {
            continue;
        }
        there(store, resource, within, bound)?;
        if kind != "secret" {
            note(&format!("{kind}-name"), text(bound, "name").to_owned());
            note(&format!("{kind}-uid"), text(bound, "uid").to_owned());
        }
    }
    Ok(user)
}

fn of_secret(claims: &Value, token: &str, store: &Store) -> Result<User, String> {
    let claim = |key: &str| text(claims, &format!("kubernetes.io/serviceaccount/{key}"));
    let namespace = claim("namespace");
    let (name, uid) = (claim("service-account.name"), claim("service-account.uid"));
    there(store, ACCOUNTS, namespace, &json!({"name": name, "uid": uid}))?;
    let place = ObjectKey::new(namespace, claim("secret.name"));
    let secret = store.get("secrets", &place).filter(|stored| !stored.head.terminating);
    let gone = || "token has been invalidated".to_owned();
    let secret: Value =
        secret.and_then(|s| serde_json::from_slice(&s.json).ok()).ok_or_else(gone)?;
    let kept = crate::rest::decoded_text(&secret["data"]["token"]);
    if kept.as_deref() != Some(token) {
        return Err(gone());
    }
    Ok(user_of(namespace, name, uid))
}

/// Whether an object is there under the uid that a token has for it.
fn there(store: &Store, resource: &str, namespace: &str, claim: &Value) -> Result<(), String> {
    let (name, uid) = (text(claim, "name"), text(claim, "uid"));
    let stored = store.get(resource, &ObjectKey::new(namespace, name));
    match stored {
        Some(stored) if stored.head.terminating => {
            Err(format!("{resource} {name:?} has been deleted"))
        }
        Some(stored) if *stored.head.uid == *uid => Ok(()),
        Some(_) => Err(format!("{resource} {name:?} was deleted and made anew")),
        None => Err(format!("{resource} {name:?} not found")),
    }
}

fn user_of(namespace: &str, name: &str, uid: &str) -> User {
    let own = format!("system:serviceaccounts:{namespace}");
    let user = User::authenticated(&subject(namespace, name), ["system:serviceaccounts", &own]);
    User { uid: uid.into(), ..user }
}
