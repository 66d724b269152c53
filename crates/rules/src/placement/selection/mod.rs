//! Which objects of the hub a placement selects, in the form members will get them.
//!
//! All or nothing: a type that is not fully visible yet is a reason to wait, never to
//! select less, because whatever is missing would be withdrawn from the members.
//!
//! Splitting and hashing the result is `resource_snapshots`' business.

mod hub;
mod manifest;
mod never;
mod order;
mod type_rules;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use flagship_api::keys::group;
use flagship_api::kinds::Scope;
use flagship_api::placement::{ResourceSelectorTerm, SelectionScope};
use flagship_api::placement_status::ResourceIdentifier;
use flagship_api::printed::Printed;
use flagship_api::raw_json::RawJson;
use flagship_api::selector::{self, Selector};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pass_error::PassError;
pub use hub::{Hub, Kind, ResourceType, Watch};
pub use manifest::manifest;
pub use never::{SkippedNamespaces, stays};
pub use order::sort_key;
pub use type_rules::{BadTypeRules, TypeRules};

use never::not_synced;

/// How long a kind may be known without being watched before selecting it is a mistake.
const NEW_KIND_GRACE: SignedDuration = SignedDuration::from_mins(2);

/// What an operator decides about selection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectionOptions {
    /// Which types are propagated at all.
    pub types: TypeRules,
    /// Namespaces that stay on the hub besides the reserved ones.
    pub skipped_namespaces: SkippedNamespaces,
    /// Whether workloads run on the hub itself (`--enable-workload`).
    pub workloads_run_here: bool,
}

/// Everything a placement selects.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Selection {
    /// The resources, in order.
    pub resources: Vec<Selected>,
    /// How many of them are envelopes.
    pub envelopes: usize,
    /// Selectors that found nothing, and why.
    pub remarks: Vec<Remark>,
}

/// One selected resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Selected {
    /// What it is called.
    pub id: ResourceIdentifier,
    /// What members get.
    pub manifest: RawJson,
}

/// A selector that found nothing although nothing is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Remark {
    /// Its type is never propagated.
    Disabled {
        /// The selector, printed.
        selector: String,
    },
    /// The object it names is not there.
    Missing {
        /// The selector, printed.
        selector: String,
    },
}

/// Who selects.
#[derive(Debug, Clone, Copy)]
pub struct Selecting<'a> {
    /// Namespace of the placement; `None` for a cluster-scoped one.
    pub namespace: Option<&'a str>,
    /// Name of the placement.
    pub name: &'a str,
    /// Its selectors.
    pub selectors: &'a [ResourceSelectorTerm],
    /// What the operator decided.
    pub options: &'a SelectionOptions,
    /// The present moment, for kinds that have just appeared.
    pub now: Timestamp,
}

/// Selects.
pub fn select(hub: &dyn Hub, who: Selecting<'_>) -> Result<Selection, PassError> {
    let mut collector = Collector { hub, who, seen: BTreeSet::new(), found: Selection::default() };
    let inside = collector.selecting_namespace()?;
    for term in who.selectors {
        collector.select(term, inside)?;
    }
    let mut selection = collector.found;
    selection.resources.sort_by_cached_key(|selected| sort_key(&selected.id));
    Ok(selection)
}

/// A term's kind.
pub fn kind_of(term: &ResourceSelectorTerm) -> Kind {
    Kind::new(&term.group, &term.version, &term.kind)
}

/// Gathers what the terms of a placement select.
struct Collector<'a> {
    hub: &'a dyn Hub,
    who: Selecting<'a>,
    seen: BTreeSet<(Kind, String, String)>,
    found: Selection,
}

impl<'a> Collector<'a> {
    /// `/{name}` or `{namespace}/{name}`, as messages name a placement.
    fn key(&self) -> String {
        format!("{}/{}", self.who.namespace.unwrap_or_default(), self.who.name)
    }

    /// The one namespace whose content the other selectors pick from, if there is one.
    fn selecting_namespace(&self) -> Result<Option<&'a str>, PassError> {
        let selecting = |term: &&ResourceSelectorTerm| {
            kind_of(term).is_namespace()
                && term.selection_scope == Some(SelectionScope::NamespaceWithResourceSelectors)
        };
        let term = match self.who.namespace {
            None => self.who.selectors.iter().find(selecting),
            Some(_) => None,
        };
        let Some(term) = term else { return Ok(None) };
        let of = self.visible(&kind_of(term))?;
        let kept_back = self.who.options.skipped_namespaces.keep_back(&term.name);
        let found = match kept_back {
            true => None,
            false => self.hub.get(of, None, &term.name).map_err(PassError::Server)?,
        };
        if found.is_some_and(|namespace| !is_deleting(&namespace)) {
            return Ok(Some(&term.name));
        }
        Err(PassError::User(format!(
            "invalid clusterResourcePlacement {}: NamespaceWithResourceSelectors mode requires exactly one namespace, but no namespaces were selected",
            self.who.name
        )))
    }

    fn select(
        &mut self,
        term: &ResourceSelectorTerm,
        inside: Option<&str>,
    ) -> Result<(), PassError> {
        let kind = kind_of(term);
        if self.who.options.types.disables(&kind) {
            self.found.remarks.push(Remark::Disabled { selector: Printed(term).to_string() });
            return Ok(());
        }
        if kind.is_namespace() {
            return self.select_namespaces(&kind, term);
        }
        let of = self.mapped(&kind)?;
        self.check_watched(of)?;
        let namespace = self.place_of(of, inside)?;
        self.check_synced(of)?;
        self.select_in(of, namespace, term)
    }

    /// Where objects of this type are looked for; `None` is everywhere.
    fn place_of<'p>(
        &self,
        of: &ResourceType,
        inside: Option<&'p str>,
    ) -> Result<Option<&'p str>, PassError>
    where
        'a: 'p,
    {
        match (self.who.namespace, of.scope) {
            (None, Scope::Cluster) => Ok(None),
            (None, Scope::Namespaced) if inside.is_some() => Ok(inside),
            (None, Scope::Namespaced) => Err(PassError::User(format!(
                "invalid placement {}: cannot select namespace-scoped resource {} in a clusterResourcePlacement",
                self.key(),
                of.gvr()
            ))),
            (Some(own), Scope::Namespaced) => Ok(Some(own)),
            (Some(_), Scope::Cluster) => Err(PassError::User(format!(
                "invalid placement {}: cannot select cluster-scoped resource {} in a resourcePlacement",
                self.key(),
                of.gvr()
            ))),
        }
    }

    fn select_in(
        &mut self,
        of: &ResourceType,
        namespace: Option<&str>,
        term: &ResourceSelectorTerm,
    ) -> Result<(), PassError> {
        if !term.name.is_empty() {
            let found = self.hub.get(of, namespace, &term.name).map_err(PassError::Server)?;
            return match found {
                Some(object) => self.take(of, object),
                None => {
                    self.missing(term);
                    Ok(())
                }
            };
        }
        let selector = self.label_selector(term)?;
        for object in self.hub.list(of, namespace, selector.as_ref()) {
            self.take(of, object.map_err(PassError::Server)?)?;
        }
        Ok(())
    }

    fn select_namespaces(
        &mut self,
        kind: &Kind,
        term: &ResourceSelectorTerm,
    ) -> Result<(), PassError> {
        if self.who.namespace.is_some() {
            return Err(PassError::User(format!(
                "invalid placement {}: cannot select cluster-scoped resource Namespace in a resourcePlacement",
                self.key()
            )));
        }
        let of = self.visible(kind)?;
        let namespaces = self.namespaces(of, term)?;
        let kept_back = |name: &str| self.who.options.skipped_namespaces.keep_back(name);
        let refused: Vec<&str> =
            namespaces.iter().map(|n| name_of(n)).filter(|name| kept_back(name)).collect();
        if let [first, others @ ..] = refused.as_slice() {
            return Err(self.not_allowed(first, others));
        }
        if !term.name.is_empty() && kept_back(&term.name) {
            return Err(self.not_allowed(&term.name, &[]));
        }
        let with_content =
            term.selection_scope.unwrap_or_default() == SelectionScope::NamespaceWithResources;
        let types = if with_content { self.content_types()? } else { Vec::new() };
        for namespace in namespaces {
            if is_deleting(&namespace) {
                continue;
            }
            let name = name_of(&namespace).to_owned();
            self.take(of, namespace)?;
            for content in &types {
                for object in self.hub.list(content, Some(&name), None) {
                    self.take(content, object.map_err(PassError::Server)?)?;
                }
            }
        }
        Ok(())
    }

    /// The namespaces a term means, by name.
    fn namespaces(
        &mut self,
        of: &ResourceType,
        term: &ResourceSelectorTerm,
    ) -> Result<Vec<Cow<'a, Value>>, PassError> {
        if !term.name.is_empty() {
            let found = self.hub.get(of, None, &term.name).map_err(PassError::Server)?;
            if found.is_none() {
                self.missing(term);
            }
            return Ok(found.into_iter().collect());
        }
        let selector = self.label_selector(term)?;
        let listed = self.hub.list(of, None, selector.as_ref());
        let mut listed: Vec<_> = listed.collect::<Result<_, _>>().map_err(PassError::Server)?;
        listed.sort_by(|a, b| name_of(a).cmp(name_of(b)));
        Ok(listed)
    }

    /// Types whose objects come along with their namespace, all of them caught up. A type
    /// that is watched in several versions comes along in one, or its objects would twice.
    fn content_types(&self) -> Result<Vec<&'a ResourceType>, PassError> {
        let options = self.who.options;
        let content =
            |of: &&ResourceType| of.scope == Scope::Namespaced && !options.types.disables(&of.kind);
        let mut one_version = BTreeMap::new();
        for of in self.hub.watched().into_iter().filter(content) {
            let kept = one_version.entry((&of.kind.group, &of.plural)).or_insert(of);
            if of.preferred && !kept.preferred {
                *kept = of;
            }
        }
        let types: Vec<_> = one_version.into_values().collect();
        for of in &types {
            self.check_synced(of)?;
        }
        Ok(types)
    }

    fn take(&mut self, of: &ResourceType, object: Cow<'_, Value>) -> Result<(), PassError> {
        if stays(self.hub, &of.kind, &object, self.who.options.workloads_run_here)? {
            return Ok(());
        }
        let Kind { group, version, kind } = of.kind.clone();
        let name = name_of(&object).to_owned();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let id = ResourceIdentifier { group, version, kind, name, namespace, envelope: None };
        if !self.seen.insert((of.kind.clone(), id.namespace.clone(), id.name.clone())) {
            return Err(PassError::User(format!("found duplicate resource {}", Printed(&id))));
        }
        if is_envelope(&of.kind) {
            self.found.envelopes += 1;
        }
        let manifest = manifest(&of.kind, object.into_owned()).map_err(|error| {
            PassError::Unexpected(format!("cannot write {}: {error}", Printed(&id)))
        })?;
        self.found.resources.push(Selected { id, manifest });
        Ok(())
    }

    fn missing(&mut self, term: &ResourceSelectorTerm) {
        self.found.remarks.push(Remark::Missing { selector: Printed(term).to_string() });
    }

    fn label_selector(&self, term: &ResourceSelectorTerm) -> Result<Option<Selector>, PassError> {
        let Some(labels) = &term.label_selector else { return Ok(None) };
        let read = selector::read(Some(labels)).map_err(|error| {
            PassError::User(format!(
                "invalid placement {}: the labelSelector in selector {} is invalid: {error}",
                self.key(),
                Printed(term)
            ))
        })?;
        Ok(Some(read))
    }

    fn not_allowed(&self, first: &str, others: &[&str]) -> PassError {
        let mut message = format!(
            "invalid clusterRresourcePlacement {}: namespace {first} is not allowed to propagate",
            self.who.name
        );
        if !others.is_empty() {
            message.push_str("; neither are ");
            message.push_str(&others.join(", "));
        }
        PassError::User(message)
    }

    fn mapped(&self, kind: &Kind) -> Result<&'a ResourceType, PassError> {
        self.hub.look_up(kind).map_err(|error| {
            let key = self.key();
            PassError::User(format!(
                "invalid placement {key}, failed to get GVR of the selector: {error}"
            ))
        })
    }

    /// A type all of whose objects can be seen.
    fn visible(&self, kind: &Kind) -> Result<&'a ResourceType, PassError> {
        let of = self.mapped(kind)?;
        self.check_synced(of)?;
        Ok(of)
    }

    fn check_synced(&self, of: &ResourceType) -> Result<(), PassError> {
        self.check_watched(of)?;
        match of.watch {
            Watch::Synced => Ok(()),
            Watch::Syncing | Watch::Unwatched { .. } => Err(not_synced(&of.gvr())),
        }
    }

    /// A type that has just appeared will be watched in a moment; later it is known that
    /// it never will.
    fn check_watched(&self, of: &ResourceType) -> Result<(), PassError> {
        let Watch::Unwatched { since } = of.watch else { return Ok(()) };
        if self.who.now.duration_since(since) < NEW_KIND_GRACE {
            return Err(PassError::Fresh(format!("{} is not watched yet", of.gvr())));
        }
        let same = |other: &&ResourceType| {
            (&other.kind.group, &other.kind.kind) == (&of.kind.group, &of.kind.kind)
        };
        let advice = match self.hub.watched().into_iter().find(same) {
            Some(other) => format!("select version {} of it", other.kind.version),
            None => "its API offers no list or no watch".to_owned(),
        };
        Err(PassError::User(format!(
            "invalid placement {}: cannot select resource {}, which is not watched: {advice}",
            self.key(),
            of.gvr()
        )))
    }
}

fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn is_envelope(kind: &Kind) -> bool {
    kind.group == group::PLACEMENT
        && matches!(kind.kind.as_str(), "ClusterResourceEnvelope" | "ResourceEnvelope")
}
