//! Who took a cluster away from a run? The runs' own records say who promised the cluster
//! when; the binding only says who wrote it last, which may have been long after.

use flagship_api::condition::Conditions;
use flagship_api::condition_type::binding;
use flagship_api::names::ObjectKey;

use super::facts::{BindingFacts, Facts, RunFacts};
use super::finding::{Finding, State};
use super::hints::{flagship, kubectl, placement_of};
use super::{Cause, refusal};
use flagship_rules::update_run::lifecycle::{ended_at, started_at};

/// Explains a run that another one, or a person, took a cluster from.
pub fn explain(facts: &Facts, key: &ObjectKey, run: &RunFacts, detail: &str) -> Finding {
    let cluster = refusal::quoted_after(detail, "updating cluster ").unwrap_or("a cluster");
    let stage = refusal::quoted_after(detail, "in the stage ").unwrap_or("its stage");
    let bound = facts.bindings.iter().find(|bound| bound.spec.target_cluster == cluster);
    let finding = |headline: String| Finding::new(State::Failed, Cause::Preempted, headline);
    let recorded = from_records(facts, run, cluster);
    let signed = bound.and_then(|bound| from_binding(facts, run, bound));
    let Some(signal) = recorded.or(signed).filter(|signal| signal.run != key.name) else {
        let finding = finding(format!(
            "{key} failed: somebody changed the binding of {cluster} in stage {stage}."
        ))
        .because(detail);
        return by_hand(finding, key, run, bound);
    };
    let rival = ObjectKey::new(key.namespace.as_deref(), signal.run);
    let ended = ended_at(&run.status).map_or_else(String::new, |at| format!(" at {at:.0}"));
    let mut finding =
        finding(format!("{key} failed: {rival} took over {cluster} in stage {stage}."))
            .because(format!(
                "{rival} gave {cluster} snapshot {}; {key} had begun to give it snapshot {}, and gave up{ended}",
                signal.index, run.status.resource_snapshot_index_used
            ));
    if let Some((bound, now)) = bound.and_then(|bound| Some((bound, Signal::of(bound)?))) {
        let says = format!("RolloutStarted=True  by {}", now.run);
        // Others may have come by since.
        let since = if now.run == signal.run { "" } else { " since" };
        finding = finding.saw("binding", bound.key.to_string(), format!("{says}{since}"));
    }
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

/// The run that took the cluster, by what the runs have recorded: the first that promised it
/// after ours did.
fn from_records<'a>(facts: &'a Facts, run: &RunFacts, cluster: &str) -> Option<Signal<'a>> {
    let entries = run.status.stages_status.iter().flat_map(|stage| &stage.clusters);
    let ours = entries.into_iter().find(|entry| entry.cluster_name == cluster);
    let ours = ours.and_then(started_at)?;
    let promises = facts.others.iter().filter_map(|other| {
        let at = *other.started.get(cluster)?;
        (at >= ours).then_some((at, other))
    });
    let (_, taker) = promises.min_by_key(|(at, _)| *at)?;
    Some(Signal { index: &taker.version, run: &taker.name })
}

/// The run that signed the binding, if it did so before ours gave up: of later ones the
/// record is elsewhere, or gone.
fn from_binding<'a>(facts: &Facts, run: &RunFacts, bound: &'a BindingFacts) -> Option<Signal<'a>> {
    let started = bound.status.conditions.of_type(binding::ROLLOUT_STARTED)?;
    let ended = ended_at(&run.status).unwrap_or(facts.now);
    (started.last_transition_time.0 <= ended).then(|| Signal::of(bound))?
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
