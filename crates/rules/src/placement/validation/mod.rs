//! Whether a placement may be written, beyond what its schema checks.
//!
//! Messages are API: clients and the reference suite compare them, slips of the pen
//! included. All mistakes of an object are told at once.
//!
//! Rules the schema holds (immutability among them) are in the API's own definition.

mod policy;
mod properties;
mod strategy;

use flagship_api::kinds::Scope;
use flagship_api::placement::{PlacementSpec, SelectionScope};
use flagship_api::policy::{PlacementPolicy, Toleration};
use flagship_api::printed::{self, Printed};
use flagship_api::selector;
use flagship_base::names::LONGEST_LABEL;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::observed::Placement;
use super::selection::{Kind, kind_of};

/// The answer to a request, with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may pass.
    Allowed(String),
    /// It may not.
    Denied(String),
}

/// What discovery knows of a kind: `Err` that it knows nothing, `Ok(None)` that it is
/// there but nobody watches it yet.
pub type Kinds<'a> = &'a dyn Fn(&Kind) -> Result<Option<Scope>, String>;

/// Decides about the creation of a placement, or its update if there is an old one.
/// `kinds` is absent until the hub has looked around.
pub fn admit(old: Option<&Placement>, new: &Placement, kinds: Option<Kinds<'_>>) -> Verdict {
    let tag = match new.scope() {
        Scope::Cluster => "CRP",
        Scope::Namespaced => "RP",
    };
    if let Some(old) = old {
        // What was admitted by a less strict release must still be deletable.
        if let Err(error) = check(old, kinds) {
            return if new.deleting {
                Verdict::Allowed(format!(
                    "allow update on old invalid v1beta1 {tag} with DeletionTimestamp set"
                ))
            } else {
                Verdict::Denied(format!(
                    "deny update on old invalid v1beta1 {tag} with DeletionTimestamp not set {error}"
                ))
            };
        }
        if old.picks() != new.picks() {
            return Verdict::Denied("placement type is immutable".to_owned());
        }
        if loses_tolerations(&old.spec, &new.spec) {
            return Verdict::Denied(
                "tolerations have been updated/deleted, only additions to tolerations are allowed"
                    .to_owned(),
            );
        }
    }
    match check(new, kinds) {
        Ok(()) => Verdict::Allowed(format!("any user is allowed to modify v1beta1 {tag}")),
        Err(error) => {
            Verdict::Denied(format!("deny create/update v1beta1 {tag} has invalid fields {error}"))
        }
    }
}

/// Everything that is wrong with a placement, as one text.
pub fn check(placement: &Placement, kinds: Option<Kinds<'_>>) -> Result<(), String> {
    let mut mistakes = Mistakes::default();
    if placement.name.len() > LONGEST_LABEL {
        mistakes.add(format!("the name field cannot have length exceeding {LONGEST_LABEL}"));
    }
    let spec = &placement.spec;
    // A kind nobody knows makes every further check guesswork.
    if check_selectors(spec, placement.scope(), kinds, &mut mistakes).is_ok() {
        if let Some(policy) = &spec.policy {
            let mut inner = Mistakes::default();
            policy::check(policy, &mut inner);
            mistakes.wrap("the placement policy field is invalid", inner);
        }
        if let Some(strategy) = &spec.strategy {
            let mut inner = Mistakes::default();
            strategy::check(strategy, &mut inner);
            // Two spaces, as ever.
            mistakes.wrap("the rollout Strategy field  is invalid", inner);
        }
    }
    mistakes.told()
}

fn check_selectors(
    spec: &PlacementSpec,
    scope: Scope,
    kinds: Option<Kinds<'_>>,
    mistakes: &mut Mistakes,
) -> Result<(), ()> {
    let reaches_into_namespace = spec.resource_selectors.iter().any(|term| {
        kind_of(term).is_namespace()
            && term.selection_scope == Some(SelectionScope::NamespaceWithResourceSelectors)
    });
    for term in &spec.resource_selectors {
        if term.label_selector.is_some() {
            if !term.name.is_empty() {
                mistakes.add(format!(
                    "the labelSelector and name fields are mutually exclusive in selector {}",
                    Printed(term)
                ));
            }
            check_labels(term.label_selector.as_ref(), "resource selector", mistakes);
        }
        let kind = kind_of(term);
        let Some(kinds) = kinds else {
            mistakes.add("cannot perform resource scope check for now, please retry".to_owned());
            continue;
        };
        let found = match kinds(&kind) {
            Ok(found) => found,
            Err(error) => {
                mistakes.add(format!("failed to get GVR of the selector: {error}"));
                return Err(());
            }
        };
        match (scope, found == Some(Scope::Cluster)) {
            (Scope::Cluster, false) if !reaches_into_namespace => mistakes.add(format!(
                "the resource is not found in schema (please retry) or it is not a cluster scoped resource: {kind}"
            )),
            (Scope::Namespaced, true) => mistakes.add(format!(
                "the resource is not found in schema (please retry) or it is a cluster scoped resource: {kind}"
            )),
            _ => {}
        }
    }
    Ok(())
}

fn check_labels(selector: Option<&LabelSelector>, parent: &str, mistakes: &mut Mistakes) {
    if let Err(error) = selector::read(selector) {
        let printed = selector::Printed(selector);
        mistakes.add(format!("the labelSelector in {parent} {printed} is invalid: {error}"));
    }
}

/// Whether a toleration that was there is there no longer.
fn loses_tolerations(old: &PlacementSpec, new: &PlacementSpec) -> bool {
    fn all(spec: &PlacementSpec) -> &[Toleration] {
        spec.policy.as_ref().map_or(&[], |policy: &PlacementPolicy| &policy.tolerations)
    }
    let complete = |toleration: &Toleration| Toleration {
        operator: Some(toleration.operator.unwrap_or_default()),
        ..toleration.clone()
    };
    let kept: Vec<Toleration> = all(new).iter().map(complete).collect();
    all(old).iter().any(|toleration| !kept.contains(&complete(toleration)))
}

/// Mistakes found so far, in the order they are told.
#[derive(Debug, Default)]
struct Mistakes(Vec<String>);

impl Mistakes {
    fn add(&mut self, mistake: String) {
        self.0.push(mistake);
    }

    /// Adds the mistakes of a part as one.
    fn wrap(&mut self, what: &str, part: Mistakes) {
        if let Err(error) = part.told() {
            self.add(format!("{what}: {error}"));
        }
    }

    fn told(self) -> Result<(), String> {
        if self.0.is_empty() { Ok(()) } else { Err(printed::errors(self.0)) }
    }
}
