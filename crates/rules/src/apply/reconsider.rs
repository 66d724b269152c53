//! Manifests that are worth another try in the same pass.

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

fn is_definition(outcome: &Outcome) -> bool {
    let of = &outcome.identifier;
    let is = of.group == "apiextensions.k8s.io" && of.kind == "CustomResourceDefinition";
    is && outcome.verdict.is_applied()
}

fn defines(definition: &Outcome, kind: &GroupVersionKind) -> bool {
    let word = |pointer: &str| definition.live.as_ref()?.pointer(pointer)?.as_str();
    word("/spec/group") == Some(&kind.group) && word("/spec/names/kind") == Some(&kind.kind)
}
