//! Requests for certificates: what may be asked of whom, and what their conditions may say.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flagship_base::machinery::status::FieldError;
use flagship_base::names;
use serde_json::Value;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::{Pem, parse_x509_pem};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::super::json::{Field, same};
use super::Findings;

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
const SHORTEST_LIFE: i64 = 600;
const MAX_DOMAIN: usize = 253;
/// A domain, a slash, and a label before another domain.
const MAX_SIGNER: usize = MAX_DOMAIN + 1 + 63 + 1 + MAX_DOMAIN;

pub(super) fn request(object: &Field<'_>, out: &mut Findings) {
    let spec = object.get("spec");
    let request = spec.get("request");
    if let Err(why) = readable(request.text()) {
        out.push(request.invalid(why));
    }
    let usages = spec.get("usages");
    if usages.is_empty() {
        out.push(usages.required(""));
    }
    let mut seen = BTreeSet::new();
    for usage in usages.items() {
        if !USAGES.contains(&usage.text()) {
            out.push(usage.not_supported(&USAGES));
        }
        if !seen.insert(usage.text()) {
            out.push(usage.duplicate());
        }
    }
    match spec.get("signerName").text() {
        "kubernetes.io/legacy-unknown" => out.push(
            spec.get("signerName")
                .invalid("the legacy signerName is not allowed via this API version"),
        ),
        _ => signer(&spec.get("signerName"), out),
    }
    let life = spec.get("expirationSeconds");
    if life.int().is_some_and(|seconds| seconds < SHORTEST_LIFE) {
        out.push(life.invalid("may not specify a duration less than 600 seconds (10 minutes)"));
    }
    let status = object.get("status");
    conditions(&status.get("conditions"), out);
    let certificate = status.get("certificate");
    if let Err(why) = certificates(certificate.text()) {
        out.push(certificate.invalid_as("<certificate data>", why));
    }
}

/// Whether this is a request in PEM, in base64 once more.
fn readable(text: &str) -> Result<(), String> {
    let bytes = STANDARD.decode(text).map_err(|why| why.to_string())?;
    let not_one = "PEM block type must be CERTIFICATE REQUEST";
    let (_, pem) = parse_x509_pem(&bytes).map_err(|_| not_one)?;
    if pem.label != "CERTIFICATE REQUEST" {
        return Err(not_one.to_owned());
    }
    X509CertificationRequest::from_der(&pem.contents)
        .map(drop)
        .map_err(|_| "the request cannot be read".to_owned())
}

/// Whether there is nothing but certificates in PEM, in base64 once more.
fn certificates(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    let bytes = STANDARD.decode(text).map_err(|why| why.to_string())?;
    let mut blocks = 0;
    for pem in Pem::iter_from_buffer(&bytes) {
        let Ok(pem) = pem else { break };
        if pem.label != "CERTIFICATE" {
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {:?}", pem.label));
        }
        X509Certificate::from_der(&pem.contents)
            .map_err(|_| "a certificate cannot be read".to_owned())?;
        blocks += 1;
    }
    match blocks {
        0 => Err("must contain at least one CERTIFICATE PEM block".to_owned()),
        _ => Ok(()),
    }
}

/// A domain and a path below it.
fn signer(field: &Field<'_>, out: &mut Findings) {
    let name = field.text();
    if name.is_empty() {
        out.push(field.required(""));
        return;
    }
    let Some((domain, path)) = name.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        let form =
            "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        out.push(field.invalid(form));
        return;
    };
    if domain.len() > MAX_DOMAIN {
        out.push(field.too_long(MAX_DOMAIN));
    }
    labels(field, domain, names::dns1123_label, out);
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        out.push(field.invalid_as(domain, detail));
    }
    labels(field, path, names::dns1123_subdomain, out);
    if name.len() > MAX_SIGNER {
        out.push(field.too_long(MAX_SIGNER));
    }
}

fn labels(field: &Field<'_>, part: &str, rule: fn(&str) -> Vec<String>, out: &mut Findings) {
    for label in part.split('.') {
        for why in rule(label) {
            out.push(field.invalid_as(part, format!("validating label {label:?}: {why}")));
        }
    }
}

fn conditions(list: &Field<'_>, out: &mut Findings) {
    let mut seen = BTreeSet::new();
    for condition in list.items() {
        let (kind, status) = (condition.get("type"), condition.get("status"));
        if kind.text().is_empty() {
            out.push(kind.required(""));
        }
        let allowed: &[&str] = match kind.text() {
            "Approved" | "Denied" | "Failed" => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        match status.text() {
            "" => out.push(status.required("")),
            text if allowed.contains(&text) => {}
            _ => out.push(status.not_supported(allowed)),
        }
        if !seen.insert(kind.text()) {
            out.push(kind.duplicate());
        }
        let other = match kind.text() {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => continue,
        };
        if seen.contains(other) {
            let detail = "Approved and Denied conditions are mutually exclusive";
            out.push(list.invalid_as(kind.text(), detail));
        }
    }
}

/// Verdicts stay, and so does a certificate.
pub(super) fn request_change(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    let (new, old) = (new.get("status"), old.get("status"));
    for kind in ["Approved", "Denied", "Failed"] {
        if of_kind(&new, kind).len() < of_kind(&old, kind).len() {
            let detail = format!("updates may not remove a condition of type {kind:?}");
            out.push(new.get("conditions").forbidden(detail));
        }
    }
    let (certificate, before) = (new.get("certificate"), old.get("certificate"));
    if !before.text().is_empty() && !same(certificate.value(), before.value()) {
        out.push(certificate.forbidden("updates may not modify existing certificate content"));
    }
}

/// Findings about a write to another path than `/approval`, which alone approves and denies.
pub fn approvals_kept(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (new, old) = (Field::root(new), Field::root(old));
    let (new, old) = (new.get("status"), old.get("status"));
    for kind in ["Approved", "Denied"] {
        let (now, before) = (of_kind(&new, kind), of_kind(&old, kind));
        let does = match now.len().cmp(&before.len()) {
            std::cmp::Ordering::Greater => "add",
            std::cmp::Ordering::Equal if now != before => "modify",
            _ => continue,
        };
        let detail = format!("updates may not {does} a condition of type {kind:?}");
        errors.push(new.get("conditions").forbidden(detail));
    }
    errors
}

fn of_kind<'a>(status: &Field<'a>, kind: &str) -> Vec<&'a Value> {
    let list = status.get("conditions");
    let all: Vec<&'a Value> = list.items().map(|condition| condition.value()).collect();
    all.into_iter().filter(|condition| condition["type"] == *kind).collect()
}
