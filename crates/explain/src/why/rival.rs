//! Who took a cluster away from a run? The binding says who wrote it last.

use flagship_api::condition::Conditions;
use flagship_api::condition_type::binding;
use flagship_api::names::ObjectKey;

use super::facts::{BindingFacts, Facts, RunFacts};
use super::finding::{Finding, State};
use super::hints::{flagship, kubectl, placement_of};
use super::{Cause, refusal};

/// Explains a run that another one, or a person, took a cluster from.
pub fn explain(facts: &Facts, key: &ObjectKey, run: &RunFacts, detail: &str) -> Finding {
    let cluster = refusal::quoted_after(detail, "updating cluster ").unwrap_or("a cluster");
    let stage = refusal::quoted_after(detail, "in the stage ").unwrap_or("its stage");
    let bound = facts.bindings.iter().find(|bound| bound.spec.target_cluster == cluster);
    let signal = bound.and_then(Signal::of);
    let finding = |headline: String| Finding::new(State::Failed, Cause::Preempted, headline);
    let Some(signal) = signal.filter(|signal| signal.run != key.name) else {
        let finding = finding(format!(
            "{key} failed: somebody changed the binding of {cluster} in stage {stage}."
        ))
        .because(detail);
        return by_hand(finding, key, run, bound);
    };
    let rival = ObjectKey::new(key.namespace.as_deref(), signal.run);
    let name = bound.map_or_else(String::new, |bound| bound.key.to_string());
    let mut finding =
        finding(format!("{key} failed: {rival} took over {cluster} in stage {stage}."))
            .because(format!(
                "{cluster} gets snapshot {} from {rival}; {key} had begun to give it snapshot {}",
                signal.index, run.status.resource_snapshot_index_used
            ))
            .saw("binding", name, format!("RolloutStarted=True  by {}", signal.run));
    if facts.rivals.contains(&rival.name) {
        finding = finding.hint("then", "let the newer run finish", flagship("watch", &rival)).hint(
            "or",
            "stop it, if it is not what you want",
            flagship("stop", &rival),
        );
    } else {
        finding = finding.hint("look", "see how the newer run ended", flagship("status", &rival));
    }
    finding
}

fn by_hand(
    finding: Finding,
    key: &ObjectKey,
    run: &RunFacts,
    bound: Option<&BindingFacts>,
) -> Finding {
    let namespace = key.namespace.as_deref();
    let kinds = if namespace.is_some() { "rb" } else { "crb" };
    let finding = match bound {
        Some(bound) => finding.hint(
            "look",
            "read the binding",
            kubectl(namespace, &format!("get {kinds} {} -o yaml", bound.key.name)),
        ),
        None => {
            finding.hint("look", "see the bindings", kubectl(namespace, &format!("get {kinds}")))
        }
    };
    let placement = placement_of(key, &run.spec.placement_name);
    finding.hint("then", "start again with a new run", flagship("run", &placement))
}

/// What a run leaves on a binding when it begins: which version, and who.
struct Signal<'a> {
    index: &'a str,
    run: &'a str,
}

impl<'a> Signal<'a> {
    fn of(bound: &'a BindingFacts) -> Option<Self> {
        let started = bound.status.conditions.of_type(binding::ROLLOUT_STARTED)?;
        let (rest, run) = started.message.rsplit_once(", updateRun: ")?;
        let (_, index) = rest.rsplit_once("resourceSnapshotIndex: ")?;
        Some(Self { index, run })
    }
}
