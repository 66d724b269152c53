//! Requests for certificates: who asks, who may approve and sign, and the signer of clients.
//!
//! What a request must look like is in `flagship_kinds`. As in `tokens`, what a real cluster leaves
//! to a controller is done with the write that asks for it: an approved request to
//! `kubernetes.io/kube-apiserver-client` is signed at once, by the authority that this
//! server trusts. Nobody signs for other signers here.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flagship_base::machinery::path::ObjectPath;
use flagship_base::machinery::status::ApiError;
use flagship_kinds::Kind as K;
use flagship_store::{Scope, Stored};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::FromDer;

use super::cluster::{Caller, Cluster, Place};
use super::subresource::Sub;
use super::{meta, write};
use crate::auth::{Decision, RequestAttributes, group};
use crate::registry::Kind;

const GROUP: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests.certificates.k8s.io";
/// The signer of those who speak to the server.
const CLIENTS: &str = "kubernetes.io/kube-apiserver-client";
/// No certificate is good for longer.
const LONGEST_LIFE: i64 = 365 * 24 * 3600;

/// Signs the certificates of a cluster's users.
pub trait Signer: Send + Sync {
    /// Its own certificate as PEM, by which others trust what it signs.
    fn certificate(&self) -> &str;

    /// A certificate as PEM, for clients.
    ///
    /// # Errors
    /// Why it does not sign, for the person who asked.
    fn sign(&self, wanted: &Wanted<'_>) -> Result<String, String>;
}

/// A certificate that was approved.
pub struct Wanted<'a> {
    /// The request in DER, with the subject and the key.
    pub request: &'a [u8],
    /// What it is to be good for.
    pub usages: &'a [&'a str],
    /// Identity of the only cluster where it is to be good: others did not approve it.
    pub cluster: &'a str,
    /// When it is signed.
    pub now: Timestamp,
    /// How long it is good from then on.
    pub life: SignedDuration,
}

/// Notes who asks for a certificate, whatever the request says of that.
pub(super) fn identify(caller: &Caller, kind: &Kind, object: &mut Value) {
    if !kind.is(K::CertificateSigningRequest) {
        return;
    }
    let Some(spec) = object["spec"].as_object_mut() else { return };
    let known = [
        ("username", json!(caller.name), caller.name.is_empty()),
        ("uid", json!(caller.uid), caller.uid.is_empty()),
        ("groups", json!(caller.groups), caller.groups.is_empty()),
        ("extra", json!(caller.extra), caller.extra.is_empty()),
    ];
    for (key, value, empty) in known {
        match empty {
            true => spec.remove(key),
            false => spec.insert(key.to_owned(), value),
        };
    }
}

/// Dates conditions that are not, and puts verdicts back as they were where they are none of
/// the writer's business.
pub(super) fn stamp(cluster: &Cluster, kind: &Kind, sub: Sub, new: &mut Value, old: &Value) {
    if !kind.is(K::CertificateSigningRequest) || !matches!(sub, Sub::Status | Sub::Approval) {
        return;
    }
    let before = conditions(old).to_vec();
    let list = new.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    let Some(list) = list else { return };
    if sub == Sub::Status {
        for verdict in ["Approved", "Denied"] {
            let is = |condition: &&Value| condition["type"] == verdict;
            let known: Vec<&Value> = before.iter().filter(is).collect();
            let now: Vec<&mut Value> =
                list.iter_mut().filter(|condition| condition["type"] == verdict).collect();
            if now.len() == known.len() {
                now.into_iter().zip(known).for_each(|(now, known)| *now = known.clone());
            }
        }
    }
    let now = cluster.now();
    for condition in list {
        if condition["lastUpdateTime"].is_null() {
            condition["lastUpdateTime"] = json!(now);
        }
        if condition["lastTransitionTime"].is_null() {
            let alike = |known: &&Value| {
                known["type"] == condition["type"] && known["status"] == condition["status"]
            };
            let since = before.iter().find(alike).map(|known| &known["lastTransitionTime"]);
            let since = since.filter(|since| !since.is_null()).cloned();
            condition["lastTransitionTime"] = since.unwrap_or_else(|| json!(now));
        }
    }
}

/// Refuses what the caller may not ask for, approve or sign.
pub(super) fn check(
    cluster: &Cluster,
    caller: &Caller,
    place: &Place,
    sub: Sub,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    if !place.served.kind.is(K::CertificateSigningRequest) {
        return Ok(());
    }
    let forbidden =
        |why: &str| Err(ApiError::forbidden(&place.qualified(), meta::text(new, "name"), why));
    let signer = new["spec"]["signerName"].as_str().unwrap_or_default();
    let verb = match (sub, old) {
        (Sub::Main, None) if signer == CLIENTS && asks_for_everything(new) => {
            return forbidden(
                "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed",
            );
        }
        (Sub::Approval, _) => "approve",
        (Sub::Status, Some(old)) if judged(new) != judged(old) => "sign",
        _ => return Ok(()),
    };
    let domain = signer.split_once('/').map_or(signer, |(domain, _)| domain);
    let policy = cluster.policy.current(&cluster.store);
    let user = caller.user();
    let may = |name: String| {
        let at = ObjectPath {
            group: GROUP.to_owned(),
            version: "*".to_owned(),
            resource: "signers".to_owned(),
            name: Some(name),
            ..ObjectPath::default()
        };
        let ask = RequestAttributes::Resource { verb: verb.to_owned(), at };
        matches!(policy.decide(&user, &ask), Decision::Allow(_))
    };
    if may(signer.to_owned()) || may(format!("{domain}/*")) {
        return Ok(());
    }
    forbidden(&format!("user not permitted to {verb} requests with signerName {signer:?}"))
}

/// What a signer writes.
fn judged(request: &Value) -> (&Value, &[Value]) {
    (&request["status"]["certificate"], conditions(request))
}

fn conditions(request: &Value) -> &[Value] {
    request["status"]["conditions"].as_array().map_or(&[], Vec::as_slice)
}

/// The request itself, in DER.
fn der(request: &Value) -> Option<Vec<u8>> {
    let text = request["spec"]["request"].as_str()?;
    let (_, pem) = parse_x509_pem(&STANDARD.decode(text).ok()?).ok()?;
    Some(pem.contents)
}

/// Whether its holder could do everything.
fn asks_for_everything(request: &Value) -> bool {
    let Some(der) = der(request) else { return false };
    let Ok((_, read)) = X509CertificationRequest::from_der(&der) else { return false };
    let mut groups = read.certification_request_info.subject.iter_organization();
    groups.any(|name| name.as_str().is_ok_and(|name| name == group::MASTERS))
}

/// Signs what was approved with the write that was just committed.
pub(super) fn after_commit(cluster: &Cluster, kind: &Kind, stored: &Arc<Stored>, removed: bool) {
    if kind.is(K::CertificateSigningRequest) && !removed {
        sign(cluster, stored);
    }
}

/// Signs what was approved before there was anybody to sign it.
pub(super) fn sign_all(cluster: &Cluster) {
    for stored in cluster.store.list(REQUESTS, Scope::All).items {
        sign(cluster, &stored);
    }
}

fn sign(cluster: &Cluster, stored: &Arc<Stored>) {
    let Some(authority) = cluster.authority.get() else { return };
    let Ok(request) = write::parse(stored) else { return };
    if !waits(&request) {
        return;
    }
    let spec = &request["spec"];
    let usages: Vec<&str> =
        spec["usages"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let life = spec["expirationSeconds"].as_i64().unwrap_or(LONGEST_LIFE).min(LONGEST_LIFE);
    let signed = for_clients(&usages).and_then(|()| {
        let der = der(&request).ok_or("the request cannot be read")?;
        authority.sign(&Wanted {
            request: &der,
            usages: &usages,
            cluster: &cluster.identity(),
            now: cluster.env.clock.now(),
            life: SignedDuration::from_secs(life),
        })
    });
    let system = Caller::named("kube-controller-manager");
    write::amend(cluster, &system, REQUESTS, &stored.key, |request| {
        if !waits(request) {
            return;
        }
        match &signed {
            Ok(pem) => request["status"]["certificate"] = json!(STANDARD.encode(pem)),
            Err(why) => {
                let failed = json!({
                    "type": "Failed", "status": "True", "reason": "SignerValidationFailure",
                    "message": why, "lastUpdateTime": cluster.now(),
                    "lastTransitionTime": cluster.now(),
                });
                if let Some(list) = request["status"]["conditions"].as_array_mut() {
                    list.push(failed);
                }
            }
        }
    });
}

/// Whether a request was approved and nothing came of it yet.
fn waits(request: &Value) -> bool {
    let has = |kind: &str| conditions(request).iter().any(|one| one["type"] == *kind);
    request["spec"]["signerName"] == CLIENTS
        && has("Approved")
        && !has("Denied")
        && !has("Failed")
        && request["status"]["certificate"].as_str().unwrap_or_default().is_empty()
}

/// What a certificate of a client may be good for.
fn for_clients(usages: &[&str]) -> Result<(), String> {
    const CLIENT: &str = "client auth";
    let known = [CLIENT, "digital signature", "key encipherment"];
    if let Some(other) = usages.iter().find(|usage| !known.contains(usage)) {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    match usages.contains(&CLIENT) {
        true => Ok(()),
        false => Err(format!("missing required usage for client certificate: {CLIENT}")),
    }
}
