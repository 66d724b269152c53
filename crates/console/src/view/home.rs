//! The first page: what needs somebody, what moves, what ended of late.

use flagship_api::names::ObjectKey;
use flagship_explain::board::{Board, Phase};
use flagship_explain::why::{Cause, Finding, State, explain, silent_since};
use flagship_rules::update_run::lifecycle::{ended_at, phase};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::{Model, ViewInputs, approvals, clusters, millis};

/// One line.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    /// What sort of thing it is: `approval`, `stuck`, `failed`, `silent`…
    sort: &'static str,
    /// The run; nothing for lines about clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<ObjectKeyShown>,
    /// The cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    cluster: String,
    /// One sentence.
    what: String,
    /// The cause, as `why` names it.
    cause: &'static str,
    /// Since when.
    since: Option<i64>,
    /// Why the caller cannot do the next step, where that is an approval that a policy counts.
    #[serde(skip_serializing_if = "String::is_empty")]
    may_not: String,
    /// The next step.
    next: String,
    done: usize,
    all: usize,
}

#[derive(Debug, Serialize)]
struct ObjectKeyShown {
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    name: String,
    placement: String,
    phase: Phase,
}

/// How far back "ended" looks.
const OF_LATE: SignedDuration = SignedDuration::from_hours(24);
/// Lines of what ended.
const MOST_ENDED: usize = 20;
/// Silent clusters that are named one by one.
const NAMED: usize = 5;

/// The first page.
pub fn model(seen: &ViewInputs<'_>) -> Model {
    let (mut needs, mut moves, mut ended) = (Vec::new(), Vec::new(), Vec::new());
    for (key, run) in seen.mirror.runs.all() {
        let over = ended_at(&run.facts.status);
        let is_old = over.is_some_and(|at| seen.now.duration_since(at) > OF_LATE);
        if is_old {
            continue;
        }
        let mut facts = seen.mirror.about_run(&key, seen.now);
        seen.looks.add_to(&mut facts);
        let finding = explain(&facts);
        let phase = phase(&run.facts.spec, &run.facts.status);
        let waits = matches!(finding.cause, Cause::ApprovalMissing | Cause::ApprovalStale);
        let board = waits.then(|| Board::of_facts(&facts, &key)).flatten();
        let cards = board.map(|board| approvals::cards(seen, &key, &run, &board));
        let card = cards.into_iter().flatten().next();
        let stages = &run.facts.status.stages_status;
        let cells = || stages.iter().flat_map(|stage| &stage.clusters);
        let finished = flagship_rules::update_run::lifecycle::is_finished;
        let line = Line {
            sort: sort(phase, &finding),
            run: Some(ObjectKeyShown {
                namespace: key.namespace.clone(),
                name: key.name.clone(),
                placement: run.facts.spec.placement_name.clone(),
                phase,
            }),
            cluster: String::new(),
            what: finding.headline.clone(),
            cause: finding.cause.code(),
            since: since(&run.facts.status, phase, over).map(millis),
            next: next(&finding),
            may_not: card.map_or_else(String::new, |card| card.may_not),
            done: cells().filter(|cluster| finished(cluster)).count(),
            all: cells().count(),
        };
        match line.sort {
            "ended" => ended.push(line),
            "failed" if over.is_some_and(|_| is_followed(seen, &key, run.facts.created)) => {
                ended.push(line);
            }
            "moving" => moves.push(line),
            _ => needs.push(line),
        }
    }
    needs.extend(silent(seen));
    let urgency = |line: &Line| match line.sort {
        "stuck" => 0,
        "failed" => 1,
        "approval" => 2,
        "silent" => 3,
        _ => 4,
    };
    needs.sort_by_key(|line| (urgency(line), line.since));
    moves.sort_by_key(|line| std::cmp::Reverse(line.since));
    ended.sort_by_key(|line| std::cmp::Reverse(line.since));
    let more = ended.len().saturating_sub(MOST_ENDED);
    ended.truncate(MOST_ENDED);
    let mut model = Model::default();
    model.set("needs", &needs);
    model.set("moves", &moves);
    model.set("ended", &ended);
    model.set("endedMore", &more);
    model.set("members", &seen.mirror.members.len());
    let placements = seen.mirror.placements.all();
    let first = placements.first().map(|(key, _)| key.to_string());
    model.set("placements", &placements.len());
    model.set("placement", &first);
    model
}

fn sort(phase: Phase, finding: &Finding) -> &'static str {
    match (phase, finding.cause) {
        (_, Cause::HubSilent) => "stuck",
        (Phase::Succeeded, _) => "ended",
        (Phase::Failed, _) => "failed",
        (Phase::Stuck | Phase::PoliciesChanged, _) => "stuck",
        (_, Cause::Superseded) => "superseded",
        (_, Cause::ApprovalMissing | Cause::ApprovalStale) => "approval",
        (Phase::Stopped | Phase::Frozen | Phase::Closed, _) => "stopped",
        (Phase::Initialized, _) => "notStarted",
        // A cluster that cannot get better by itself needs somebody, stuck or not.
        _ if finding.state == State::Stuck => "stuck",
        _ if !matches!(
            finding.cause,
            Cause::InProgress | Cause::TimedWait | Cause::Checking | Cause::Stopping
        ) =>
        {
            "trouble"
        }
        _ => "moving",
    }
}

/// Whether somebody has started another run of the same placement since.
fn is_followed(seen: &ViewInputs<'_>, key: &ObjectKey, created: Option<Timestamp>) -> bool {
    let Some(run) = seen.mirror.runs.get(key) else { return false };
    let placement = ObjectKey::new(key.namespace.as_deref(), &run.facts.spec.placement_name);
    let runs = seen.mirror.runs_of(&placement);
    runs.iter().any(|(_, other)| other.facts.created > created)
}

fn since(
    status: &flagship_api::staged_update_status::UpdateRunStatus,
    phase: Phase,
    over: Option<Timestamp>,
) -> Option<Timestamp> {
    use flagship_api::condition::Conditions;
    use flagship_api::condition_type::update_run;
    if over.is_some() {
        return over;
    }
    let kind = match phase {
        Phase::Pending | Phase::Initialized => update_run::INITIALIZED,
        _ => update_run::PROGRESSING,
    };
    status.conditions.of_type(kind).map(|found| found.last_transition_time.0)
}

fn next(finding: &Finding) -> String {
    let hints = finding.hints.iter().filter(|hint| !hint.command.is_empty());
    let fix = hints.clone().find(|hint| hint.lead == "fix");
    fix.or(hints.clone().next()).map_or_else(String::new, |hint| hint.command.clone())
}

fn silent(seen: &ViewInputs<'_>) -> Vec<Line> {
    let members = seen.mirror.members.all().into_iter();
    let mut silent: Vec<(String, Timestamp)> = members
        .filter_map(|(key, member)| Some((key.name.clone(), silent_since(&member, seen.now)?)))
        .collect();
    silent.sort_by_key(|(_, since)| *since);
    let line = |cluster: String, what: String, since: Timestamp, next: String| Line {
        sort: "silent",
        run: None,
        cluster,
        what,
        cause: Cause::HeartbeatStale.code(),
        since: Some(millis(since)),
        may_not: String::new(),
        next,
        done: 0,
        all: 0,
    };
    if silent.len() > NAMED {
        let since = silent[0].1;
        let what = format!("{} are silent.", clusters(silent.len()));
        return vec![line(String::new(), what, since, "flagship clusters".to_owned())];
    }
    let named = silent.into_iter().map(|(name, since)| {
        let what = format!("{name} is silent: its agent does not report.");
        let next = format!("flagship why cluster {name}");
        line(name, what, since, next)
    });
    named.collect()
}
