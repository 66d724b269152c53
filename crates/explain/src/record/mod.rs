//! What a record tells: whether it is as it was written (`audit`), the story of its run
//! (`report`), and the board as it was at some moment (`replay`).
//!
//! Everything here is a function of what was read; commands print it.

pub mod audit;
pub mod checks;
mod html;
mod markdown;
pub mod report;

use std::collections::BTreeMap;

use flagship_api::rollout_record::{
    Known, RecordEntry, RecordedPlan, RolloutRecordSpec, What, Who,
};
use flagship_rules::policy::{Adopted, Policy};
use flagship_rules::record::retention::Checkpoint;
use flagship_rules::update_run::replayed;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::board::Board;

pub use html::html;
pub use markdown::markdown;

/// The record of one run, all its parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// In order.
    pub parts: Vec<RolloutRecordSpec>,
    /// Where the record before it went, if retention has removed it.
    pub checkpoint: Option<Checkpoint>,
    /// When it was begun.
    pub created: Option<Timestamp>,
}

impl Record {
    /// Records out of the objects of one scope and namespace, in the order they were begun.
    pub fn gathered(objects: Vec<(ObjectMeta, RolloutRecordSpec)>) -> Vec<Self> {
        let mut by_run: BTreeMap<String, Self> = BTreeMap::new();
        for (metadata, part) in objects {
            let record = by_run.entry(part.run.uid.clone()).or_default();
            let created = metadata.creation_timestamp.as_ref().map(|time| time.0);
            record.created = record.created.into_iter().chain(created).min();
            record.checkpoint = record.checkpoint.take().or_else(|| Checkpoint::of(&metadata));
            record.parts.push(part);
        }
        let mut all: Vec<Self> = by_run.into_values().collect();
        all.iter_mut().for_each(|record| record.parts.sort_by_key(|part| part.part));
        all.sort_by(|a, b| (a.created, a.run()).cmp(&(b.created, b.run())));
        all
    }

    /// Name of its run.
    pub fn run(&self) -> &str {
        self.parts.first().map_or("", |part| &part.run.name)
    }

    /// UID of its run.
    pub fn uid(&self) -> &str {
        self.parts.first().map_or("", |part| &part.run.uid)
    }

    /// What its run was going to do.
    pub fn plan(&self) -> Option<&RecordedPlan> {
        self.parts.first()?.plan.as_ref()
    }

    /// What happened, in order.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &RecordEntry> + Clone {
        self.parts.iter().flat_map(|part| &part.entries)
    }

    /// Hash of the last entry: whoever keeps it elsewhere can prove the whole record later.
    pub fn last_hash(&self) -> &str {
        self.entries().next_back().map_or("", |entry| &entry.hash)
    }

    /// The board as it was at a moment; nothing before the first entry.
    pub fn board_at(&self, at: Timestamp) -> Option<Board> {
        let plan = self.plan()?;
        let past: Vec<&RecordEntry> = self.entries().filter(|entry| entry.time.0 <= at).collect();
        let first = past.first()?.time.0;
        let (spec, status) = replayed(self.run(), plan, &past);
        let board = Board::of(self.run(), Some(first), &spec, &status, at);
        Some(match self.adopted() {
            Some(adopted) => board.following(&adopted, &status, |_| None),
            None => board,
        })
    }

    /// The policies its run followed; nothing if there were none.
    fn adopted(&self) -> Option<Adopted> {
        let noted = &self.parts.first()?.policies;
        let read = noted.iter().filter_map(|noted| {
            let spec = serde_json::from_value(noted.spec.clone()).ok()?;
            Some(Policy { name: noted.name.clone(), spec })
        });
        let policies: Vec<Policy> = read.collect();
        (!policies.is_empty()).then(|| Adopted { policies, ..Adopted::default() })
    }

    /// What the last entry before a moment tells, and how many there are until then and in all.
    pub fn told_at(&self, at: Timestamp) -> Option<String> {
        let mut past = self.entries().filter(|entry| entry.time.0 <= at);
        let (count, all) = (past.clone().count(), self.entries().count());
        let last = past.next_back()?;
        Some(format!("entry {count} of {all}, {:.0}: {}.", last.time.0, sentence(last)))
    }
}

/// An entry as a person reads it.
pub fn sentence(entry: &RecordEntry) -> String {
    let stage = entry.stage.as_deref().unwrap_or_default();
    let cluster = entry.cluster.as_deref().unwrap_or_default();
    let gate = entry.gate.as_deref().unwrap_or_default();
    let told = match entry.what {
        What::Planned => "planned".to_owned(),
        What::Started => "started".to_owned(),
        What::StageBegan => format!("stage {stage} begins"),
        What::ClusterBegan => format!("{cluster} begins in stage {stage}"),
        What::ClusterDone => format!("{cluster} is done"),
        What::ClusterFailed => format!("{cluster} failed"),
        What::ClusterSkipped => format!("{cluster} is skipped"),
        What::StageDone => format!("stage {stage} is done"),
        What::GateWaits => format!("stage {stage} waits, {gate}"),
        What::Approved => format!("stage {stage} is approved, {gate}"),
        What::WaitOver => format!("the wait of stage {stage} is over"),
        What::Rejected => format!("stage {stage} is rejected, {gate}"),
        What::GlassBroken => format!("stage {stage} is let pass in an emergency"),
        What::CheckMeasured => {
            let measured = entry.measured.clone().unwrap_or_default();
            let value = measured.value.map_or("no answer".to_owned(), |value| value);
            let rest = measured.rest.map_or(String::new(), |rest| format!(", others {rest}"));
            format!("check {gate} of {} measures {value}{rest}", checked(stage, cluster))
        }
        What::CheckPassed => format!("check {gate} of {} has passed", checked(stage, cluster)),
        What::CheckFailed => format!("check {gate} of {} has failed", checked(stage, cluster)),
        What::Frozen => "frozen".to_owned(),
        What::Unfrozen => "no longer frozen".to_owned(),
        What::WindowClosed => "no window is open".to_owned(),
        What::WindowOpened => "no window holds it any more".to_owned(),
        What::Stuck => "stuck".to_owned(),
        What::BudgetSpent => "the failure budget is spent".to_owned(),
        What::Stopped => "stopped".to_owned(),
        What::Resumed => "resumed".to_owned(),
        What::Ended => "ended".to_owned(),
    };
    let mut text = told;
    if let Some(who) = entry.who.as_ref().map(by) {
        text.push_str(&format!(" by {who}"));
    }
    let cause = entry.cause.as_deref().filter(|_| entry.what != What::ClusterDone);
    let why: Vec<&str> = cause.into_iter().chain(entry.text.as_deref()).collect();
    if !why.is_empty() {
        text.push_str(&format!(": {}", why.join(", ")));
    }
    text.trim_end_matches('.').to_owned()
}

fn checked(stage: &str, cluster: &str) -> String {
    if cluster.is_empty() { format!("stage {stage}") } else { cluster.to_owned() }
}

/// `kubectl-create (managedFields)`: somebody, and how that is known.
pub fn by(who: &Who) -> String {
    let name = match who.name.as_str() {
        "" => "somebody",
        name => name,
    };
    match who.known {
        Known::Admission => format!("{name} (admission)"),
        Known::ManagedFields => format!("{name} (managedFields)"),
        Known::Said => format!("{name} (as they say)"),
        Known::Unknown => format!("{name} (unknown)"),
    }
}

#[cfg(test)]
mod tests {
    use flagship_api::rollout_record::{RecordedRun, RecordedStage};
    use flagship_rules::record::chain::{begun, sealed};
    use flagship_rules::record::{EntryDraft, Head};

    use super::report::report;
    use super::*;

    /// Somebody who names things so that a page or a table would break.
    const HOSTILE: &str = "<script>alert('x')</script>\n| *a* | \"b\" & `c`";

    fn record(drafts: Vec<(EntryDraft, Option<Who>)>) -> Record {
        let run = RecordedRun { name: HOSTILE.to_owned(), uid: "u".to_owned() };
        let stages = vec![RecordedStage {
            name: "all".to_owned(),
            clusters: vec!["c1".to_owned(), HOSTILE.to_owned()],
            gates: vec!["after-Approval".to_owned()],
        }];
        let plan = RecordedPlan { placement: HOSTILE.to_owned(), stages, ..Default::default() };
        let mut spec = begun(run, None, Head { plan, policies: Vec::new() });
        let mut at = Timestamp::UNIX_EPOCH;
        for draft in drafts {
            at = at.saturating_add(jiff::SignedDuration::from_secs(60)).unwrap();
            let more = sealed(&spec, spec.entries.last(), vec![draft], at);
            spec.entries.extend(more);
        }
        Record { parts: vec![spec], checkpoint: None, created: None }
    }

    fn whole() -> Record {
        let who = Who { name: HOSTILE.to_owned(), known: Known::Said };
        let of = |what| EntryDraft::of(what).stage("all");
        record(vec![
            (EntryDraft::of(What::Planned), Some(who.clone())),
            (EntryDraft::of(What::Started), None),
            (of(What::StageBegan), None),
            (of(What::ClusterBegan).cluster("c1"), None),
            (of(What::ClusterBegan).cluster(HOSTILE), None),
            (of(What::ClusterDone).cluster("c1"), None),
            (of(What::ClusterFailed).cluster(HOSTILE).cause("X_Y").text(HOSTILE), None),
            (of(What::GateWaits).gate("after-Approval".to_owned()), None),
            (of(What::Approved).gate("after-Approval".to_owned()).text(HOSTILE), Some(who)),
            (EntryDraft::of(What::Frozen).text(HOSTILE), None),
        ])
    }

    #[test]
    fn nothing_of_other_peoples_words_is_taken_for_markup() {
        let record = whole();
        let verdict = audit::judge(&record, std::slice::from_ref(&record), None);
        assert!(verdict.holds(), "{verdict:?}");
        let told = report(&record, verdict, Timestamp::UNIX_EPOCH).unwrap();
        let page = html(&told);
        assert!(!page.contains("<script") && page.contains("&lt;script&gt;alert(&#39;x&#39;)"));
        // One document: as many tags are closed as are opened.
        for tag in ["table", "svg", "td", "p", "strong", "code", "title", "text"] {
            let opened = page.matches(&format!("<{tag}>")).count()
                + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        let text = markdown(&told);
        // An escaped one is text; none is left that is not.
        let bare = text.replace("\\<", "");
        assert!(!bare.contains('<') && text.contains("\\<script\\>"), "{text}");
        let cells = |line: &str| line.replace("\\|", "").matches('|').count();
        for line in text.lines().filter(|line| line.starts_with("| ")) {
            assert!([3, 4, 5].contains(&cells(line)), "{line}");
        }
    }

    #[test]
    fn durations_gates_people_and_what_held_the_run_are_told() {
        let record = whole();
        let verdict = audit::judge(&record, std::slice::from_ref(&record), None);
        let end = Timestamp::from_second(20 * 60).unwrap();
        let told = report(&record, verdict, end).unwrap();
        assert_eq!((told.outcome.as_str(), told.seconds), ("not ended", 19 * 60));
        let stage = &told.stages[0];
        let took: Vec<(&str, i64)> = stage
            .clusters
            .iter()
            .map(|cluster| (cluster.result, cluster.span.as_ref().unwrap().seconds()))
            .collect();
        assert_eq!(took, [("done", 120), ("failed", 120)]);
        assert_eq!((stage.gates[0].span.seconds(), stage.span.as_ref().unwrap().open), (60, true));
        assert_eq!(told.people[0].did, ["planned", "approved stage all"]);
        assert_eq!((told.held[0].what.as_str(), told.held[0].open), ("frozen", true));
        assert_eq!(told.failures[0].cause, "X_Y");
    }

    #[test]
    fn a_run_is_replayed_as_stuck_until_a_cluster_gets_on_and_as_closed_until_a_window_opens() {
        use crate::board::Phase;
        let of = |what| (EntryDraft::of(what).stage("all").cluster("c1"), None);
        let drafts = vec![
            (EntryDraft::of(What::Planned), None),
            (EntryDraft::of(What::Started), None),
            (
                EntryDraft::of(What::WindowClosed).text("closed until Mon 09:00 UTC (policy p)"),
                None,
            ),
            (EntryDraft::of(What::WindowOpened), None),
            of(What::ClusterBegan),
            (EntryDraft::of(What::Stuck).text("stuck waiting for c1"), None),
            of(What::ClusterDone),
            (EntryDraft::of(What::Stuck).text("stuck waiting for c1"), None),
            (EntryDraft::of(What::Stopped), None),
        ];
        let record = record(drafts);
        let phases: Vec<Phase> = (1..=9)
            .filter_map(|minute| record.board_at(Timestamp::from_second(minute * 60).ok()?))
            .map(|board| board.phase)
            .collect();
        let expected = [
            Phase::Initialized,
            Phase::Running,
            Phase::Closed,
            Phase::Running,
            Phase::Running,
            Phase::Stuck,
            Phase::Running,
            Phase::Stuck,
            Phase::Stopped,
        ];
        assert_eq!(phases, expected);
    }

    #[test]
    fn a_record_that_follows_another_needs_it_or_a_checkpoint() {
        use flagship_api::rollout_record::Follows;
        let (first, mut second) = (whole(), whole());
        let mut head = second.parts.remove(0);
        let entries: Vec<_> = std::mem::take(&mut head.entries);
        head.run.uid = "v".to_owned();
        let hash = first.last_hash().to_owned();
        head.follows =
            Some(Follows { run: "r".to_owned(), uid: "u".to_owned(), hash: hash.clone() });
        let drafts = entries.iter().map(|entry| (EntryDraft::of(entry.what), None)).collect();
        head.entries = sealed(&head, None, drafts, Timestamp::UNIX_EPOCH);
        second.parts.push(head);
        let judged = |all: &[Record], second: &Record| {
            let verdict = audit::judge(second, all, None);
            verdict.faults.iter().map(|fault| fault.what.clone()).collect::<Vec<_>>()
        };
        assert_eq!(judged(std::slice::from_ref(&first), &second), Vec::<String>::new());
        assert_eq!(
            judged(&[], &second),
            ["it follows the record of r, which is gone and was not removed by retention"]
        );
        let mut anew = first;
        anew.parts[0].entries.pop();
        assert!(judged(&[anew], &second)[0].contains("that record was written anew"));
        second.checkpoint =
            Some(Checkpoint { uid: "u".to_owned(), hash, removed: Timestamp::UNIX_EPOCH });
        assert_eq!(judged(&[], &second), Vec::<String>::new());
    }
}
