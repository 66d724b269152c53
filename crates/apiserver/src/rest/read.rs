//! Reading: one object, or a page of many from one snapshot.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use flagship_base::machinery::status::ApiError;
use flagship_store::{ObjectKey, PageError, Scope, Snapshot, Store, Stored};
use serde_json::{Value, json};

use super::cluster::Ctx;
use super::options::{ListOptions, Match};

/// A page of a list.
#[derive(Debug)]
pub(crate) struct Page {
    pub(super) revision: u64,
    pub(super) items: Vec<Arc<Stored>>,
    /// Where the next page begins; `None` on the last.
    pub(super) token: Option<String>,
    /// How many come after; only known without selectors.
    pub(super) remaining: Option<usize>,
}

/// One object. A revision asked for is a lower bound.
pub(crate) fn get(ctx: &Ctx<'_>, revision: Option<u64>) -> Result<Arc<Stored>, ApiError> {
    let store = &ctx.cluster.store;
    check_future(store, revision.unwrap_or_default())?;
    let resource = &ctx.place.served.kind.resource;
    let key = ctx.place.key();
    let back =
        if ctx.cluster.env.faults.is_quiet() { 0 } else { ctx.cluster.env.staleness(&ctx.call()) };
    let found = match back {
        0 => store.read(resource, &key),
        back => store.get_back(resource, &key, back),
    };
    found.ok_or_else(|| ctx.place.not_found())
}

/// Refuses fields that the kind's selectors do not know.
pub(crate) fn check_fields(ctx: &Ctx<'_>, options: &ListOptions) -> Result<(), ApiError> {
    let served = &ctx.place.served;
    let mut terms = options.fields.terms().iter();
    match terms.find(|term| !served.kind.selects(served.version, &term.path)) {
        None => Ok(()),
        // Kinds with fields of their own say it in other words.
        Some(term) if served.kind.row().is_some_and(|row| row.selectable.is_empty()) => {
            Err(ApiError::bad_request(format!(
                "{:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                term.path
            )))
        }
        Some(term) => Err(no_such_field(&term.path)),
    }
}

/// 400 for a field that selectors of a kind may not name.
pub(super) fn no_such_field(label: &str) -> ApiError {
    ApiError::bad_request(format!("field label not supported: {label}"))
}

/// A list, or one page of it.
pub(crate) fn list(ctx: &Ctx<'_>, options: &ListOptions) -> Result<Page, ApiError> {
    check_fields(ctx, options)?;
    let store = &ctx.cluster.store;
    let resource = &ctx.place.served.kind.resource;
    let only = only_object(ctx, options);
    let scope = match &only {
        Some(key) => Scope::Object(key),
        None if ctx.place.namespace.is_empty() => Scope::All,
        None => Scope::Namespace(&ctx.place.namespace),
    };
    let query = selection(options, &ctx.place.namespace);
    let (snapshot, start) = match &options.token {
        Some(token) => {
            if options.revision.is_some_and(|revision| revision > 0) {
                let says = "specifying resource version is not allowed when using continue";
                return Err(ApiError::bad_request(says));
            }
            store
                .resume_page(resource, scope, &query, token)
                .map_err(|error| page_error(error, token))?
        }
        None => (Arc::new(snapshot(ctx, options, scope)?), 0),
    };
    let selects = |object: &Stored| matches(options, &object.key, object);
    let everything = options.labels.is_everything() && options.fields.is_everything();
    let limit = if options.limit == 0 { usize::MAX } else { options.limit };
    let mut items = Vec::new();
    let mut rest = snapshot.items[start.min(snapshot.items.len())..].iter();
    for object in rest.by_ref().filter(|object| selects(object)).take(limit) {
        items.push(object.clone());
    }
    let left = rest.len();
    // A page is the last when nothing that matches comes after it.
    let more = items.len() == limit && rest.any(|object| selects(object));
    let token = match items.last() {
        Some(last) if more => Some(store.page_token(resource, &query, &snapshot, &last.key)),
        _ => None,
    };
    let remaining = token.is_some().then_some(left).filter(|_| everything);
    Ok(Page { revision: snapshot.revision, items, token, remaining })
}

/// What the pages of one list have in common, as text.
fn selection(ListOptions { labels, fields, .. }: &ListOptions, namespace: &str) -> String {
    format!("{namespace}|{labels:?}|{fields:?}")
}

fn snapshot(ctx: &Ctx<'_>, options: &ListOptions, scope: Scope<'_>) -> Result<Snapshot, ApiError> {
    let store = &ctx.cluster.store;
    let resource = &ctx.place.served.kind.resource;
    let asked = options.revision.unwrap_or_default();
    check_future(store, asked)?;
    if options.matching == Some(Match::Exact) && asked > 0 {
        return store
            .list_at(resource, scope, asked)
            .map_err(|why| ApiError::expired(why.to_string()));
    }
    let back =
        if ctx.cluster.env.faults.is_quiet() { 0 } else { ctx.cluster.env.staleness(&ctx.call()) };
    let now = || match options.labels.exact() {
        Some(label) => store.read_labelled(resource, scope, label),
        None => store.read_list(resource, scope),
    };
    let seen = match back {
        0 => now(),
        back => store.list_back(resource, scope, back),
    };
    // A stale view must still not be older than what was asked for.
    if seen.revision < asked { Ok(now()) } else { Ok(seen) }
}

/// The one object that the selectors can match, when there is only one.
pub(super) fn only_object(ctx: &Ctx<'_>, options: &ListOptions) -> Option<ObjectKey> {
    let name = options.fields.exact_name()?;
    let pinned = !ctx.place.served.kind.namespaced || !ctx.place.namespace.is_empty();
    pinned.then(|| ObjectKey::new(ctx.place.namespace.clone(), name))
}

/// Whether the selectors let an object through.
pub(super) fn matches(options: &ListOptions, key: &ObjectKey, object: &Stored) -> bool {
    let head = &object.head;
    options.labels.matches_what(|label| head.labels.get(label))
        && options.fields.matches(&key.namespace, &key.name, |path| head.fields.get(path))
}

/// Refuses a revision that is yet to come.
pub(super) fn check_future(store: &Store, asked: u64) -> Result<(), ApiError> {
    let current = store.revision();
    if asked <= current {
        return Ok(());
    }
    let says = format!("Timeout: Too large resource version: {asked}, current: {current}");
    Err(ApiError::new(504, "Timeout", says)
        .with_cause("ResourceVersionTooLarge", "Too large resource version", "")
        .retry_after(1))
}

fn page_error(error: PageError, token: &str) -> ApiError {
    match error {
        PageError::Invalid => {
            let why = no_token(token).map(|why| format!(": {why}")).unwrap_or_default();
            let says = format!("invalid continue token: continue key is not valid{why}");
            ApiError::bad_request(says)
        }
        PageError::Expired(_) => ApiError::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.",
        ),
    }
}

/// Why a text cannot be a token of any Kubernetes server, in its words: theirs are JSON.
fn no_token(token: &str) -> Option<String> {
    let Ok(bytes) = BASE64_URL_SAFE_NO_PAD.decode(token) else {
        let good = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let at = token.bytes().position(|byte| !good(&byte)).unwrap_or(token.len());
        return Some(format!("illegal base64 data at input byte {at}"));
    };
    let first = char::from(*bytes.first()?);
    let begins = matches!(first, '{' | '[' | '"' | '-' | 't' | 'f' | 'n' | '0'..='9');
    (first.is_ascii_graphic() && !begins)
        .then(|| format!("invalid character '{first}' looking for beginning of value"))
}

impl Page {
    /// `metadata` of the list.
    pub(super) fn metadata(&self) -> Value {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if let Some(token) = &self.token {
            metadata["continue"] = json!(token);
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
        metadata
    }
}
