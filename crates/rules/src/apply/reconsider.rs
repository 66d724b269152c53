//! Manifests that are worth another try in the same pass.

use std::collections::BTreeSet;

use super::manifest::{GroupVersionKind, Manifest};
use super::outcome::{Outcome, Verdict};

/// Places of manifests whose kind the member did not know, but should now: a definition of it
/// was applied in this very pass. Look their kinds up once more, [`map`](super::map) again and
/// process those that are out of trouble; five seconds are time enough for that.
pub fn reconsider(manifests: &[Manifest], outcomes: &[Outcome]) -> Vec<usize> {
    let brought: Vec<&Outcome> = outcomes.iter().filter(|one| is_definition(one)).collect();
    let unknown = |manifest: &Manifest| {
        let untried = manifest.untried.as_ref()?;
        (untried.verdict == Verdict::DecodingErred).then(|| manifest.kind()).flatten()
    };
    let defined = |kind: GroupVersionKind| brought.iter().any(|one| defines(one, &kind));
    let places = manifests.iter().enumerate();
    places.filter(|(_, one)| unknown(one).is_some_and(defined)).map(|(at, _)| at).collect()
}

/// Namespaces that manifests wait for: the member refused them only because those are not there.
/// Another Work may bring one a moment later.
pub fn awaited_namespaces(outcomes: &[Outcome]) -> BTreeSet<String> {
    let awaited = outcomes.iter().filter_map(|outcome| {
        let namespace = Some(&outcome.identifier.namespace).filter(|name| !name.is_empty())?;
        let error = outcome.error.as_deref().filter(|_| outcome.live.is_none())?;
        error.contains(&format!("namespaces \"{namespace}\" not found")).then(|| namespace.clone())
    });
    awaited.collect()
}

fn is_definition(outcome: &Outcome) -> bool {
    let of = &outcome.identifier;
    let is = of.group == "apiextensions.k8s.io" && of.kind == "CustomResourceDefinition";
    is && outcome.verdict.is_applied()
}

fn defines(definition: &Outcome, kind: &GroupVersionKind) -> bool {
    let word = |pointer: &str| definition.live.as_ref()?.pointer(pointer)?.as_str();
    word("/spec/group") == Some(&kind.group) && word("/spec/names/kind") == Some(&kind.kind)
}
