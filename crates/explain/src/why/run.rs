//! A run: initialized? started? waiting? If it moves, what does its slowest cluster say?

use flagship_api::condition::{Condition, Conditions, Generation};
use flagship_api::condition_type::update_run;
use flagship_api::names::{ObjectKey, member_namespace};
use flagship_api::reason;
use flagship_api::staged_update::UpdateRunState;
use flagship_api::staged_update_status::{ClusterUpdatingStatus, StageUpdatingStatus};
use jiff::SignedDuration;

use super::facts::{Facts, RunFacts};
use super::finding::{Evidence, Finding, State, Stuck};
use super::gate::{self, spoken};
use super::hints::{flagship, kubectl};
use super::stuck::{counted, grouped, is_coming_up};
use super::{Cause, cluster, hub_silent, refusal};
use crate::order::some_of;
use flagship_rules::update_run::lifecycle::{
    Ending, Phase, ending, in_flight, not_updated, outcome, phase, started_at, waits_at,
};
use flagship_rules::update_run::superseded::superseded;
use flagship_rules::update_run::trusted;

/// How long the hub may take to notice a change before silence is a finding.
pub const NOTICE: SignedDuration = SignedDuration::from_secs(15);

/// Explains a run.
pub fn explain(facts: &Facts, key: &ObjectKey) -> Finding {
    let Some(run) = &facts.run else {
        return subject_unreadable(facts, "run", key).unwrap_or_else(|| missing(key));
    };
    let finding = look(facts, key, run);
    finding.led_by(vec![Evidence::of_any("run", key.to_string(), headline_condition(run))])
}

fn look(facts: &Facts, key: &ObjectKey, run: &RunFacts) -> Finding {
    match ending(&run.status) {
        Some(Ending::Succeeded) => return done(facts, key, run),
        Some(Ending::Failed(message) | Ending::NotInitialized(message)) => {
            return refusal::explain(facts, key, run, message);
        }
        None => {}
    }
    if let Some(found) = silent(facts, key, run) {
        return found;
    }
    if let Some(found) = unreadable(facts, key, run) {
        return found;
    }
    if let Some(found) = policies_changed(key, run) {
        return found;
    }
    if let Some(found) = frozen(facts, key, run) {
        return found;
    }
    if let Some(found) = closed(facts, key, run) {
        return found;
    }
    if let Some(found) = checking(facts, key, run) {
        return found;
    }
    if let Some(found) = passed(facts, key, run) {
        return found;
    }
    if run.status.conditions.of_type(update_run::PROGRESSING).is_none() {
        return not_begun(key, phase(&run.spec, &run.status));
    }
    match phase(&run.spec, &run.status) {
        Phase::Waiting => gate::explain(facts, key, run).unwrap_or_else(|| moving(facts, key, run)),
        Phase::Stopped => stopped(key, run),
        _ => moving(facts, key, run),
    }
}

/// Something that the run needs is stored and cannot be read, as the run says itself or as
/// was seen beside it.
fn unreadable(facts: &Facts, key: &ObjectKey, run: &RunFacts) -> Option<Finding> {
    let told = run.status.conditions.of_type(update_run::INITIALIZED);
    let told = told.filter(|told| told.reason == reason::update_run::INPUT_UNREADABLE);
    let (headline, because) = match (told, facts.unreadable.first()) {
        (Some(told), _) => (format!("{key} cannot be initialized."), told.message.clone()),
        (None, Some(what)) => {
            (format!("{key} may be held up: not all that belongs to it can be read."), what.clone())
        }
        (None, None) => return None,
    };
    let finding = Finding::new(State::Stuck, Cause::ObjectUnreadable, headline).because(because);
    Some(finding.hint("fix", "correct the field that is named; see all of them", "flagship doctor"))
}

/// The run or placement asked about is stored and cannot be read, so nobody acts on it.
pub(super) fn subject_unreadable(facts: &Facts, what: &str, key: &ObjectKey) -> Option<Finding> {
    let why = facts.subject_unreadable.as_ref()?;
    let headline = format!("{what} {key} cannot be read, so nothing of it is acted upon.");
    let finding = Finding::new(State::Stuck, Cause::ObjectUnreadable, headline).because(why);
    let fix = "correct the field that is named (kubectl edit, with --subresource=status for one of the status)";
    Some(finding.hint("fix", fix, "flagship doctor"))
}

fn missing(key: &ObjectKey) -> Finding {
    let list = format!("get {}", refusal::runs(key));
    Finding::new(State::Failed, Cause::NotFound, format!("there is no run {key}.")).hint(
        "look",
        "see which runs exist",
        kubectl(key.namespace.as_deref(), &list),
    )
}

/// A run that waits, and that a newer one has passed: to let it go on takes clusters back.
fn passed(facts: &Facts, key: &ObjectKey, run: &RunFacts) -> Option<Finding> {
    let state = phase(&run.spec, &run.status);
    if !matches!(state, Phase::Waiting | Phase::Stopped | Phase::Initialized) {
        return None;
    }
    let found = superseded(&run.status, &facts.taken())?;
    let waits = match state {
        Phase::Waiting => "waits",
        Phase::Stopped => "is stopped",
        _ => "is not started",
    };
    let ago = spoken(facts.now.duration_since(found.at));
    let headline = format!("{key} {waits}, and {}, {ago} ago.", found.told());
    let back = format!(
        "if it goes on, it takes them back to snapshot {}",
        run.status.resource_snapshot_index_used
    );
    let gate = gate::explain(facts, key, run).filter(|_| state == Phase::Waiting);
    let later = ObjectKey::new(key.namespace.as_deref(), &found.by);
    let delete = format!("delete {} {}", refusal::runs(key), key.name);
    let finding = Finding::new(State::Waiting, Cause::Superseded, headline)
        .what(back)
        .hint("fix", "end it", kubectl(key.namespace.as_deref(), &delete))
        .hint("look", "see the newer run", flagship("status", &later))
        .hint("or", "go back on purpose", forced(key, run, state));
    Some(finding.led_by(gate.map(|gate| gate.evidence).unwrap_or_default()))
}

/// The command that lets the run go on although a newer one has passed it.
fn forced(key: &ObjectKey, run: &RunFacts, state: Phase) -> String {
    let asked = waits_at(&run.status).filter(|gate| gate.approval.is_some());
    match asked.filter(|_| state == Phase::Waiting) {
        Some(gate) => format!("{} --force", gate::approve(key, &gate.stage.stage_name)),
        // A wait ends by itself; nobody has to force it.
        None if state == Phase::Waiting => flagship("watch", key),
        None => format!("{} --force", flagship("resume", key)),
    }
}

fn done(facts: &Facts, key: &ObjectKey, run: &RunFacts) -> Finding {
    let clusters: usize = run.status.stages_status.iter().map(|stage| stage.clusters.len()).sum();
    if let Some(found) = superseded(&run.status, &facts.taken()) {
        let headline = format!("{key} is done; since then {}.", found.told());
        return Finding::new(State::Done, Cause::Done, headline);
    }
    let without = not_updated(&run.status);
    let version = format!(
        "snapshot {} of {}",
        run.status.resource_snapshot_index_used, run.spec.placement_name
    );
    if without.is_empty() {
        let headline = format!("{key} is done: {clusters} cluster(s) run {version}.");
        return Finding::new(State::Done, Cause::Done, headline);
    }
    let headline = format!(
        "{key} is done without {}: {} of {clusters} cluster(s) run {version}.",
        some_of(&without, 3),
        clusters - without.len()
    );
    Finding::new(State::Done, Cause::Done, headline).hint(
        "then",
        "bring it to these, too",
        flagship("retry", key),
    )
}

/// The hub has had time to answer, and has not.
fn silent(facts: &Facts, key: &ObjectKey, run: &RunFacts) -> Option<Finding> {
    let what = format!("{key} does not move");
    if let Some(found) = hub_silent::of_hub(facts, &what) {
        return Some(found);
    }
    let seen = run.status.conditions.iter().map(Generation::seen_by).max();
    if facts.hub_renewed.is_some() || seen.is_some_and(|seen| seen >= run.generation) {
        return None;
    }
    let waited = facts.now.duration_since(run.created?);
    let because = format!("generation {} of the run has not been looked at", run.generation.0);
    (waited > NOTICE).then(|| hub_silent::finding(&what, waited, because))
}

fn not_begun(key: &ObjectKey, phase: Phase) -> Finding {
    if phase == Phase::Initialized {
        return Finding::new(
            State::Waiting,
            Cause::NotStarted,
            format!("{key} is initialized and has not been started."),
        )
        .what("spec.state is Initialize: the stages are computed, and nothing is rolled out")
        .hint("fix", "start it", flagship("resume", key));
    }
    Finding::new(State::Waiting, Cause::InProgress, format!("{key} is being initialized."))
}

/// A run that begins nothing, since its copy of the policies is not what the hub wrote.
fn policies_changed(key: &ObjectKey, run: &RunFacts) -> Option<Finding> {
    let what = trusted::changed(run.adopted.as_ref(), &run.status)?;
    let headline = format!("{key} begins nothing: the policies that it follows were changed.");
    let runs = refusal::runs(key);
    let kubectl =
        |verb: &str| kubectl(key.namespace.as_deref(), &format!("{verb} {runs} {}", key.name));
    let finding = Finding::new(State::Stuck, Cause::PoliciesChanged, headline).what(what);
    let finding =
        finding.hint("look", "see who wrote it", kubectl("get --show-managed-fields -o yaml"));
    Some(finding.hint("or", "end it, and start a new one", kubectl("delete")))
}

/// A run that a freeze holds, in the words of the run itself.
fn frozen(facts: &Facts, key: &ObjectKey, run: &RunFacts) -> Option<Finding> {
    let told = run.status.conditions.of_type(update_run::PROGRESSING);
    let told = told.filter(|_| phase(&run.spec, &run.status) == Phase::Frozen)?;
    let since = spoken(facts.now.duration_since(told.last_transition_time.0));
    let under_way = under_way(run);
    let begun = match under_way.first() {
        None => "nothing of it is under way".to_owned(),
        Some((_, first)) => {
            let more = under_way.len() - 1;
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("what is under way finishes: {}{more}", first.cluster_name)
        }
    };
    let gate = gate::explain(facts, key, run);
    let headline = format!("{key} is frozen, for {since}.");
    let finding = Finding::new(State::Waiting, Cause::Frozen, headline)
        .what(told.message.clone())
        .because(match &gate {
            Some(gate) => format!("{begun}; besides, {}", gate.what),
            None => begun,
        })
        .hint("fix", "lift it, if the reason is gone", "flagship unfreeze")
        .hint("look", "see every freeze", kubectl(None, "get freezes"));
    Some(finding.led_by(gate.map(|gate| gate.evidence).unwrap_or_default()))
}

/// A run that waits for a window, in the words of the run itself.
fn closed(facts: &Facts, key: &ObjectKey, run: &RunFacts) -> Option<Finding> {
    let told = run.status.conditions.of_type(update_run::PROGRESSING);
    let told = told.filter(|_| phase(&run.spec, &run.status) == Phase::Closed)?;
    let since = spoken(facts.now.duration_since(told.last_transition_time.0));
    let policy = told.message.rsplit_once("(policy ").map(|(_, name)| name.trim_end_matches(')'));
    let policy = policy.and_then(|names| names.split(", ").next()).unwrap_or_default();
    let headline = format!("{key} is {}.", told.message);
    let because = format!("nothing of it is under way, and nothing may begin, for {since}");
    let finding = Finding::new(State::Waiting, Cause::WindowClosed, headline)
        .because(because)
        .hint("look", "see the windows", kubectl(None, &format!("get rpol {policy} -o yaml")));
    Some(finding)
}

/// A run that waits for checks, in the words of the run itself.
fn checking(facts: &Facts, key: &ObjectKey, run: &RunFacts) -> Option<Finding> {
    let told = run.status.conditions.of_type(update_run::PROGRESSING);
    let told = told.filter(|_| phase(&run.spec, &run.status) == Phase::Checking)?;
    let since = spoken(facts.now.duration_since(told.last_transition_time.0));
    let (which, stands) = told.message.split_once(" are not done: ")?;
    let headline = format!("{key} waits for {which}.");
    let finding = Finding::new(State::Waiting, Cause::Checking, headline)
        .what(stands)
        .because(format!("what was begun is updated and is being checked; moving for {since}"))
        .hint("look", "see what was measured", flagship("report", key));
    Some(finding)
}

fn stopped(key: &ObjectKey, run: &RunFacts) -> Finding {
    let left = run
        .status
        .stages_status
        .iter()
        .flat_map(|stage| &stage.clusters)
        .filter(|cluster| outcome(cluster).is_none())
        .count();
    Finding::new(State::Waiting, Cause::Stopped, format!("{key} is stopped."))
        .what(format!("spec.state is Stop; {left} cluster(s) are still on what they had"))
        .hint("fix", "go on", flagship("resume", key))
}

/// A run with clusters under way: one of the most frequent trouble tells for all.
fn moving(facts: &Facts, key: &ObjectKey, run: &RunFacts) -> Finding {
    let flying = under_way(run);
    let Some((first_stage, first)) = flying.first().copied() else {
        return deleting(facts, key, run);
    };
    let stuck = phase(&run.spec, &run.status) == Phase::Stuck;
    let stopping = run.spec.state == Some(UpdateRunState::Stop);
    let held: Vec<(&str, Finding)> = flying
        .iter()
        .filter_map(|(_, cluster)| {
            let name = cluster.cluster_name.as_str();
            Some((name, cluster::of_run(facts, name)?))
        })
        // Pods take a while; that alone is no trouble yet.
        .filter(|(_, found)| stuck || !is_coming_up(found.cause))
        .collect();
    let groups = grouped(&held);
    let told = groups.first().and_then(|group| {
        let (name, _) = held.iter().find(|(_, found)| found.cause == group.cause)?;
        flying.iter().copied().find(|(_, cluster)| cluster.cluster_name == *name)
    });
    let (stage, cluster) = told.unwrap_or((first_stage, first));
    let since = started_at(cluster)
        .map_or(SignedDuration::ZERO, |started| facts.now.duration_since(started));
    let moment = Moment { key, stage: &stage.stage_name, cluster, since, stuck, stopping };
    let headline = moment.headline(&groups, held.len(), flying.len());
    let mut finding = moment.finding(facts, headline);
    finding.stuck = groups;
    finding
}

/// What is said about one cluster of a run that moves, or should.
struct Moment<'a> {
    key: &'a ObjectKey,
    stage: &'a str,
    cluster: &'a ClusterUpdatingStatus,
    since: SignedDuration,
    stuck: bool,
    stopping: bool,
}

impl Moment<'_> {
    fn headline(&self, groups: &[Stuck], held: usize, flying: usize) -> String {
        let Self { key, stage, cluster, stuck, stopping, .. } = self;
        let (name, since) = (&cluster.cluster_name, spoken(self.since));
        let several = match held {
            0 | 1 => String::new(),
            _ if *stuck => format!(" {held} stuck: {}.", counted(groups)),
            _ => format!(" {held} do not get on: {}.", counted(groups)),
        };
        match (stuck, stopping) {
            (true, true) => format!(
                "{key} was told to stop and is stuck in stage {stage}: {name}, begun before the stop, has not become available for {since}.{several}"
            ),
            (true, false) => format!(
                "{key} is stuck in stage {stage}: {name} has not become available for {since}.{several}"
            ),
            (false, true) => {
                format!("{key} is stopping: {name} is still finishing, for {since} now.{several}")
            }
            (false, false) if flying > 1 => format!(
                "{key} is updating {flying} clusters in stage {stage}, {name} for {since} now.{several}"
            ),
            (false, false) => {
                format!("{key} is updating {name} in stage {stage}, for {since} now.")
            }
        }
    }

    fn finding(&self, facts: &Facts, headline: String) -> Finding {
        let Self { key, cluster, stuck, stopping, .. } = self;
        let name = &cluster.cluster_name;
        let state = if *stuck { State::Stuck } else { State::Waiting };
        match cluster::trouble(facts, name, Some(key)) {
            Some(found) if !stuck && is_coming_up(found.cause) => {
                let cause = if *stopping { Cause::Stopping } else { Cause::InProgress };
                let finding = Finding::new(state, cause, headline)
                    .what(format!("{name} has the new version, and it is coming up"));
                finding.led_by(found.evidence).hint(
                    "look",
                    "follow the run",
                    flagship("watch", key),
                )
            }
            Some(mut found) => {
                found.state = state;
                found.headline = headline;
                found
            }
            None if *stuck => self.unanswered(facts, headline),
            None if *stopping => Finding::new(state, Cause::Stopping, headline)
                .what(format!("{name} was started before the stop and is waited for")),
            None => Finding::new(state, Cause::InProgress, headline),
        }
    }

    /// Stuck, and nothing says why: the member has not answered, or answers this moment.
    fn unanswered(&self, facts: &Facts, headline: String) -> Finding {
        let name = &self.cluster.cluster_name;
        let bound = facts.bindings.iter().find(|bound| bound.spec.target_cluster == *name);
        if bound.is_some_and(cluster::is_there) {
            return Finding::new(State::Waiting, Cause::InProgress, headline)
                .what(format!("{name} has just become available; the run goes on in a moment"));
        }
        let seen = bound.map(|bound| {
            let last = bound.status.conditions.last();
            Evidence::of_any("binding", bound.key.to_string(), last)
        });
        let works = format!("get works -o wide -n {}", member_namespace(name));
        Finding::new(State::Stuck, Cause::NotReported, headline)
            .what(format!("{name} has not said what became of what it was given"))
            .led_by(seen.into_iter().collect())
            .hint("look", "see how the member is", format!("flagship why cluster {name}"))
            .hint("look", "see what it was given", kubectl(None, &works))
    }
}

fn deleting(facts: &Facts, key: &ObjectKey, run: &RunFacts) -> Finding {
    let deletion = run.status.deletion_stage_status.as_ref();
    let leaving =
        deletion.and_then(|stage| stage.clusters.iter().find(|cluster| in_flight(cluster)));
    match leaving {
        Some(cluster) => {
            let name = &cluster.cluster_name;
            let headline = format!("{key} is removing its resources from {name}.");
            let mut finding = cluster::heartbeat(facts, name).unwrap_or_else(|| {
                Finding::new(State::Waiting, Cause::InProgress, headline.clone())
            });
            finding.headline = headline;
            finding
        }
        None => {
            Finding::new(State::Waiting, Cause::InProgress, format!("{key} is making progress."))
        }
    }
}

/// Clusters under way with their stages, in order.
fn under_way(run: &RunFacts) -> Vec<(&StageUpdatingStatus, &ClusterUpdatingStatus)> {
    run.status
        .stages_status
        .iter()
        .flat_map(|stage| stage.clusters.iter().map(move |cluster| (stage, cluster)))
        .filter(|(_, cluster)| in_flight(cluster))
        .collect()
}

/// The condition a person looks at first: how it ended, how it moves, whether it began.
fn headline_condition(run: &RunFacts) -> Option<&Condition> {
    [update_run::SUCCEEDED, update_run::PROGRESSING, update_run::INITIALIZED]
        .iter()
        .find_map(|kind| run.status.conditions.of_type(kind))
}
