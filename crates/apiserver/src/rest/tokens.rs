//! Tokens of service accounts over the API: `serviceaccounts/token`, and secrets that are
//! filled with one.
//!
//! What a token is and when it is good is in `auth::accounts`. As in `crd`, what a real
//! cluster leaves to a controller is done with the write that asks for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flagship_base::machinery::status::{ApiError, FieldError};
use flagship_base::machinery::time;
use flagship_kinds::Kind as K;
use flagship_store::{ObjectKey, Scope, Stored};
use serde_json::{Value, json};

use super::admission::{Hooks, Options};
use super::cluster::{Caller, Cluster, ClusterHandle, Ctx};
use super::failure::Failure;
use super::options::WriteOptions;
use super::subresource::Sub;
use super::{meta, read, write};
use crate::auth::accounts::{self, ACCOUNTS, Grant, ISSUER, Keyring};
use crate::registry::Kind;

const GROUP: &str = "authentication.k8s.io";
const DEFAULT_LIFE: i64 = 3600;
const SHORTEST_LIFE: i64 = 600;
const LONGEST_LIFE: i64 = 1 << 32;

const SECRETS: &str = "secrets";
const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

impl ClusterHandle {
    /// Where the key lies that signs tokens here.
    pub(crate) fn keyring(&self) -> &Keyring {
        &self.cluster.keyring
    }
}

/// Answers a TokenRequest for the account of the path.
/// Also returns warnings.
pub(super) async fn request(
    ctx: &Ctx<'_>,
    mut body: Value,
    options: &WriteOptions,
) -> Result<(Value, Vec<String>), Failure> {
    let (cluster, place) = (ctx.cluster, ctx.place);
    let account = read::get(ctx, None)?;
    let account = write::parse(&account)?;
    if !body.is_object() || body["kind"].as_str().is_some_and(|kind| kind != "TokenRequest") {
        let says = "the object provided is unrecognized (must be of type TokenRequest)";
        return Err(ApiError::bad_request(says).into());
    }
    let (name, namespace) = (meta::text(&body, "name"), meta::text(&body, "namespace"));
    if !namespace.is_empty() && namespace != &*place.namespace {
        let says =
            "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(says).into());
    }
    if !name.is_empty() && name != &*place.name {
        let detail = "must match the service account name if specified";
        let error = FieldError::invalid("metadata.name", json!(name), detail);
        return Err(ApiError::invalid(GROUP, "TokenRequest", &place.name, &[error]).into());
    }
    if !body["spec"].is_object() {
        body["spec"] = json!({});
    }
    let spec = &mut body["spec"];
    if spec["expirationSeconds"].is_null() {
        spec["expirationSeconds"] = json!(DEFAULT_LIFE);
    }
    if spec["audiences"].as_array().is_none_or(Vec::is_empty) {
        spec["audiences"] = json!([ISSUER]);
    }
    let now = cluster.env.clock.now();
    body["kind"] = json!("TokenRequest");
    body["apiVersion"] = json!(format!("{GROUP}/v1"));
    body["metadata"] = json!({
        "name": place.name, "namespace": place.namespace, "uid": meta::text(&account, "uid"),
        "creationTimestamp": time::seconds(now),
    });
    body["status"] = json!({"token": "", "expirationTimestamp": null});
    let hooks = Hooks::below(ctx, "create", Sub::Token, Options::Write(options));
    let mut warnings = Vec::new();
    hooks.ask(&mut body, &mut warnings).await?;
    let spec = &body["spec"];
    let life = spec["expirationSeconds"].as_i64().unwrap_or(DEFAULT_LIFE);
    check_life(life)?;
    let named = spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut audiences: Vec<String> = named.map(str::to_owned).collect();
    if audiences.is_empty() {
        audiences.push(ISSUER.to_owned());
    }
    let reference = spec["boundObjectRef"].clone();
    let bound = bound_object(cluster, &place.namespace, &place.name, &reference)?;

    let from = now.as_second();
    let grant = Grant {
        namespace: &place.namespace,
        name: &place.name,
        uid: meta::text(&account, "uid"),
        audiences: &audiences,
        from,
        until: from.saturating_add(life),
        bound,
    };
    let key = cluster.keyring.key(&cluster.store)?;
    let token = accounts::issue(key, &cluster.env.entropy.uuid(), &grant)?;
    // A token that outlives its key would be worth nothing.
    cluster.store.settled(key.revision).await.map_err(ApiError::internal)?;
    let until = jiff::Timestamp::from_second(grant.until).map_err(ApiError::internal)?;
    body["spec"] =
        json!({"audiences": audiences, "expirationSeconds": life, "boundObjectRef": reference});
    body["status"] = json!({"token": token, "expirationTimestamp": time::seconds(until)});
    Ok((body, warnings))
}

fn check_life(life: i64) -> Result<(), ApiError> {
    let detail = match life {
        ..SHORTEST_LIFE => "may not specify a duration less than 10 minutes",
        SHORTEST_LIFE..=LONGEST_LIFE => return Ok(()),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let error = FieldError::invalid("spec.expirationSeconds", json!(life), detail);
    Err(ApiError::invalid(GROUP, "TokenRequest", "", &[error]))
}

/// The object that a token is to end with, as its claims name it.
fn bound_object(
    cluster: &Cluster,
    namespace: &str,
    account: &str,
    reference: &Value,
) -> Result<Option<(&'static str, String, String)>, ApiError> {
    if reference.is_null() {
        return Ok(None);
    }
    let text = |key: &str| reference[key].as_str().unwrap_or_default();
    let (claim, resource, within) = match (text("apiVersion"), text("kind")) {
        ("v1", "Pod") => ("pod", "pods", namespace),
        ("v1", "Node") => ("node", "nodes", ""),
        ("v1", "Secret") => ("secret", SECRETS, namespace),
        (version, kind) => {
            let version = match version.split_once('/') {
                Some(_) => version.to_owned(),
                None => format!("/{version}"),
            };
            let says = format!("cannot bind token to object of type {version}, Kind={kind}");
            return Err(ApiError::bad_request(says));
        }
    };
    let (name, uid) = (text("name"), text("uid"));
    let object = cluster
        .read(resource, &ObjectKey::new(within, name))
        .ok_or_else(|| ApiError::not_found(resource, name))?;
    let own = meta::text(&object, "uid");
    if !uid.is_empty() && uid != own {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(ApiError::conflict(text("kind"), name, &why));
    }
    if claim == "pod" && object["spec"]["serviceAccountName"] != *account {
        let says = format!(
            "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
        );
        return Err(ApiError::bad_request(says));
    }
    Ok(Some((claim, name.to_owned(), own.to_owned())))
}

/// Fills or removes the secrets that a write concerns. Only in clusters that people reach:
/// a signature cannot be replayed.
pub(super) fn after_commit(cluster: &Cluster, kind: &Kind, stored: &Arc<Stored>, removed: bool) {
    if !cluster.furnished.load(Ordering::Acquire) {
        return;
    }
    if kind.is(K::Secret) && !removed {
        fill(cluster, stored);
    }
    if kind.is(K::ServiceAccount) {
        let within = Scope::Namespace(&stored.key.namespace);
        for secret in cluster.store.list(SECRETS, within).items {
            fill(cluster, &secret);
        }
    }
}

/// Fills the secrets that wait for a token.
pub(super) fn fill_all(cluster: &Cluster) {
    for secret in cluster.store.list(SECRETS, Scope::All).items {
        fill(cluster, &secret);
    }
}

fn fill(cluster: &Cluster, stored: &Arc<Stored>) {
    // Selectable, so that most secrets need not be parsed.
    let mut fields = stored.head.fields.iter();
    if !fields.any(|(field, value)| field == "type" && value == TOKEN_TYPE) {
        return;
    }
    let Ok(secret) = write::parse(stored) else { return };
    let note = |key: &str| secret["metadata"]["annotations"][key].as_str().unwrap_or_default();
    let (name, known) = (note(ACCOUNT_NAME), note(ACCOUNT_UID));
    let namespace = &*stored.key.namespace;
    let account = cluster.store.get(ACCOUNTS, &ObjectKey::new(namespace, name));
    let uid = account.map(|account| account.head.uid.to_string());
    let system = Caller::named("kube-controller-manager");
    match uid {
        // The account it was for is gone: so is the secret.
        None if !known.is_empty() => write::expel(cluster, SECRETS, stored),
        Some(uid) if !known.is_empty() && known != uid => write::expel(cluster, SECRETS, stored),
        None => {}
        Some(uid) => {
            let data = &secret["data"];
            let kept = decoded_text(&data["token"]);
            let stale = kept.is_some_and(|token| {
                accounts::has_lost_its_key(&token, &cluster.keyring, &cluster.store)
            });
            let full = ["ca.crt", "namespace", "token"].iter().all(|key| data[key].is_string());
            if full && !stale {
                return;
            }
            let made = cluster.keyring.key(&cluster.store).and_then(|key| {
                accounts::issue_for_secret(key, (namespace, name, &uid), &stored.key.name)
            });
            let token = match made {
                Ok(token) => token,
                Err(why) => {
                    tracing::warn!(%why, secret = &*stored.key.name, "no token can be made");
                    return;
                }
            };
            let authority = cluster.authority.get().map_or("", |authority| authority.certificate());
            write::amend(cluster, &system, SECRETS, &stored.key, |secret| {
                for (key, value) in
                    [("ca.crt", authority), ("namespace", namespace), ("token", &token)]
                {
                    if !secret["data"][key].is_string() || (stale && key == "token") {
                        secret["data"][key] = json!(STANDARD.encode(value));
                    }
                }
                secret["metadata"]["annotations"][ACCOUNT_UID] = json!(uid);
            });
        }
    }
}

/// Text of a secret's entry.
pub(crate) fn decoded_text(value: &Value) -> Option<String> {
    String::from_utf8(STANDARD.decode(value.as_str()?).ok()?).ok()
}
