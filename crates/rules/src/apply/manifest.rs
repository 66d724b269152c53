//! Reads the manifests of a Work: what each one is, and whether it can be dealt with at all.
//!
//! [`read`] needs nothing but the text. What a kind is called in URLs only the member knows:
//! [`types`] says what to ask, [`map`] takes the answers. A manifest in trouble stays in the
//! list, because its place is its name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use flagship_api::kinds::Scope;
use flagship_api::raw_json::RawJson;
use flagship_api::work::WorkResourceIdentifier;
use serde_json::Value;

use super::outcome::Verdict;

/// What an object says it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupVersionKind {
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
}

impl GroupVersionKind {
    /// `apiVersion` as objects carry it.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }
}

impl fmt::Display for GroupVersionKind {
    /// `apps/v1, Kind=Deployment`; the core group leaves its place empty.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// Where objects of a kind are found on the member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Plural name of the kind.
    pub resource: String,
    /// Whether they live in namespaces.
    pub scope: Scope,
}

/// Why the member could not say where objects of a kind are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unmapped {
    /// It has no such kind.
    NoSuchKind,
    /// It could not be asked, or did not answer for that group. Worth another try before
    /// [`map`] is told.
    Unanswered(String),
}

/// Why a manifest is not even tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untried {
    /// What that makes of it.
    pub verdict: Verdict,
    /// The error.
    pub error: String,
}

/// One manifest of a Work.
#[derive(Clone, PartialEq)]
pub struct Manifest {
    /// What it is, as far as that is known.
    pub identifier: WorkResourceIdentifier,
    /// The object as written; null if it could not be read.
    pub object: Value,
    /// Why it is not even tried.
    pub untried: Option<Untried>,
}

impl fmt::Debug for Manifest {
    /// Without the object, which may be a Secret.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { identifier, untried, .. } = self;
        out.debug_tuple("Manifest").field(identifier).field(untried).finish()
    }
}

/// What tells one object of a Work from another: all of its identifier but the place.
pub(super) type Key = (String, String, String, String, String);

/// The key of an identifier; none for a manifest that could not be read.
pub(super) fn key(of: &WorkResourceIdentifier) -> Option<Key> {
    let readable = !of.kind.is_empty();
    readable.then(|| {
        let WorkResourceIdentifier { group, version, kind, namespace, name, .. } = of.clone();
        (group, version, kind, namespace, name)
    })
}

impl Manifest {
    /// What it says it is; none if it could not be read.
    pub fn kind(&self) -> Option<GroupVersionKind> {
        let WorkResourceIdentifier { group, version, kind, .. } = &self.identifier;
        (!kind.is_empty()).then(|| GroupVersionKind {
            group: group.clone(),
            version: version.clone(),
            kind: kind.clone(),
        })
    }

    /// Whether it holds what nobody may print.
    pub(super) fn is_secret(&self) -> bool {
        let WorkResourceIdentifier { group, version, kind, .. } = &self.identifier;
        (group.as_str(), version.as_str(), kind.as_str()) == ("", "v1", "Secret")
    }

    fn is_in_namespace(&self) -> bool {
        !self.identifier.namespace.is_empty()
    }

    fn blame(&mut self, verdict: Verdict, error: String) {
        self.untried = Some(Untried { verdict, error });
    }
}

/// Reads all manifests, in order.
pub fn read(manifests: &[RawJson]) -> Vec<Manifest> {
    manifests.iter().zip(0..).map(|(text, ordinal)| read_one(text, ordinal)).collect()
}

fn read_one(text: &RawJson, ordinal: i64) -> Manifest {
    let identifier = WorkResourceIdentifier { ordinal, ..WorkResourceIdentifier::default() };
    let mut manifest = Manifest { identifier, object: Value::Null, untried: None };
    let unreadable = |why: &dyn fmt::Display| {
        format!("failed to decode manifest: failed to unmarshal JSON: {why}")
    };
    let object: Value = match text.parse() {
        Ok(object) => object,
        Err(error) => {
            manifest.blame(Verdict::DecodingErred, unreadable(&error));
            return manifest;
        }
    };
    let word = |pointer: &str| {
        object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let api_version = word("/apiVersion");
    let parts: Vec<&str> = api_version.split('/').collect();
    let (group, version) = match parts[..] {
        [version] => ("", version),
        [group, version] => (group, version),
        _ => {
            let why = format!("unexpected GroupVersion string: {api_version}");
            manifest.blame(Verdict::DecodingErred, unreadable(&why));
            return manifest;
        }
    };
    // KubeFleet repeats the whole object here; it may be a Secret.
    let kind = word("/kind");
    if kind.is_empty() {
        let what = if object.is_object() { "Object 'Kind' is missing" } else { "not an object" };
        manifest.blame(Verdict::DecodingErred, unreadable(&what));
        return manifest;
    }
    manifest.identifier = WorkResourceIdentifier {
        ordinal,
        group: group.to_owned(),
        version: version.to_owned(),
        kind,
        resource: String::new(),
        namespace: word("/metadata/namespace"),
        name: word("/metadata/name"),
    };
    manifest.object = object;
    manifest
}

/// The kinds to look up before [`map`].
pub fn types(manifests: &[Manifest]) -> BTreeSet<GroupVersionKind> {
    manifests.iter().filter(|one| one.untried.is_none()).filter_map(Manifest::kind).collect()
}

/// Takes the answers of the member, and marks what cannot be dealt with: unknown kinds,
/// objects of a whole cluster that say they are in a namespace, objects without a name of
/// their own, and every object after the first of the same name.
/// Manifests whose kind nobody looked up count as unanswered. May be called again with new
/// answers for manifests that are in trouble for their kind.
pub fn map(
    manifests: &mut [Manifest],
    found: &BTreeMap<GroupVersionKind, Result<Mapping, Unmapped>>,
) {
    let mut seen = BTreeSet::new();
    for manifest in manifests {
        let Some(kind) = manifest.kind() else { continue };
        if manifest.identifier.resource.is_empty() {
            match found.get(&kind) {
                // The hub took it for an object of that namespace, and nothing else was allowed.
                Some(Ok(mapping))
                    if mapping.scope == Scope::Cluster && manifest.is_in_namespace() =>
                {
                    let error = misplaced(&kind, &manifest.identifier.namespace);
                    manifest.blame(Verdict::DecodingErred, error);
                    continue;
                }
                Some(Ok(mapping)) => {
                    manifest.identifier.resource.clone_from(&mapping.resource);
                    manifest.untried = None;
                }
                None if manifest.untried.is_some() => continue,
                missing => {
                    manifest.blame(Verdict::DecodingErred, unmapped(&kind, missing));
                    continue;
                }
            }
        }
        if manifest.identifier.name.is_empty() && has_generate_name(&manifest.object) {
            let error = "objects with only generate name are not supported".to_owned();
            manifest.blame(Verdict::FoundGenerateName, error);
        } else if !seen.insert(key(&manifest.identifier)) {
            let error = "a duplicate manifest has been found".to_owned();
            manifest.blame(Verdict::Duplicated, error);
        }
    }
}

fn has_generate_name(object: &Value) -> bool {
    let prefix = object.pointer("/metadata/generateName").and_then(Value::as_str);
    prefix.is_some_and(|prefix| !prefix.is_empty())
}

fn misplaced(kind: &GroupVersionKind, namespace: &str) -> String {
    format!(
        "failed to decode manifest: {} is cluster-scoped in the member cluster, and the manifest is in namespace {namespace:?}",
        kind.kind
    )
}

fn unmapped(kind: &GroupVersionKind, found: Option<&Result<Mapping, Unmapped>>) -> String {
    let why = match found {
        Some(Err(Unmapped::Unanswered(why))) => why.clone(),
        Some(Err(Unmapped::NoSuchKind)) => {
            format!("no matches for kind {:?} in version {:?}", kind.kind, kind.api_version())
        }
        Some(Ok(_)) | None => "the kind was not looked up".to_owned(),
    };
    format!(
        "failed to decode manifest: failed to find GVR from member cluster client REST mapping: {why}"
    )
}
