//! A step told to people.

use flagship_api::condition_type::update_run::FOLLOWS_POLICIES;
use flagship_rules::update_run::Action;

use super::environment::Event;
use super::state::{Act, Model, State};
use super::state_table::StateTable;
use super::world::run_name;

impl Model {
    /// What happens in a step, in one line.
    pub fn told(&self, state: &State, act: Act) -> String {
        let inner = self.inner();
        let name = |slot: usize| name(&inner.table, state.store, slot);
        match act {
            Act::Read { hub, run } => format!("hub {hub} reads {}", run_name(run)),
            Act::ReadOld { hub, run, slot } => {
                let what = slot.map_or_else(|| "everything".to_owned(), name);
                format!("hub {hub} reads {}, but {what} as it was before", run_name(run))
            }
            Act::Write { hub, run } | Act::Overtake { hub, run } => {
                let worker = state.workers[self.worker(hub, run)];
                let plan = inner.passes.writes(worker.writes);
                let after = usize::from(matches!(act, Act::Overtake { .. }));
                let write = plan.writes.get(usize::from(worker.next) + after);
                let what = write.map_or_else(String::new, |write| written(&write.action));
                format!("hub {hub} writes {what}")
            }
            Act::Crash { hub } => format!("hub {hub} crashes"),
            Act::Event(event) => match event {
                Event::Works(slot) => format!("{} works", name(slot)),
                Event::Fails(slot) => format!("{} works no more", name(slot)),
                Event::Touched(slot) => format!("the scheduler rewrites {}", name(slot)),
                Event::Vanishes(slot) => format!("{} is gone", name(slot)),
                Event::Approved(slot) => format!("somebody approves {}", name(slot)),
                Event::Said(slot) => format!("{} says yes", inner.table.speaker(slot)),
                Event::Lost(slot) => format!("somebody deletes {}", name(slot)),
                Event::Stopped(run) => format!("somebody stops {}", run_name(run)),
                Event::Resumed(run) => format!("somebody resumes {}", run_name(run)),
                Event::Deleted(run) => format!("somebody deletes {}", run_name(run)),
                Event::RivalComes => format!("somebody creates {}", run_name(1)),
                Event::Frozen(_) => "somebody freezes everything".to_owned(),
                Event::Lifted(_) => "somebody lifts the freeze".to_owned(),
                Event::Quarantined(_) => "somebody quarantines what run0 brings".to_owned(),
                Event::Tick => "time passes".to_owned(),
            },
        }
    }
}

fn name(table: &StateTable, store: u32, slot: usize) -> String {
    if slot < table.runs {
        return run_name(slot);
    }
    if table.freeze_slot() == Some(slot) {
        return "the freeze".to_owned();
    }
    if table.quarantine_slot() == Some(slot) {
        return "the quarantine".to_owned();
    }
    if let Some(run) = (0..table.runs).find(|run| table.record_slot(*run) == Some(slot)) {
        return format!("the record of {}", run_name(run));
    }
    if table.word_slots().contains(&slot) {
        return format!("what {} said", table.speaker(slot));
    }
    let binding = table.binding(store, slot).map(|binding| format!("binding {}", binding.name));
    let request = || table.requests.get(slot - table.request_slots().start).cloned();
    binding.or_else(request).unwrap_or_default()
}

fn written(action: &Action) -> String {
    match action {
        Action::Status(status) => {
            let mut said = status.conditions.iter().rev();
            let told = said.find(|condition| condition.type_ != FOLLOWS_POLICIES);
            let told = told.map_or("", |condition| &condition.reason);
            let stages = status.stages_status.iter().flat_map(|stage| &stage.clusters);
            let clusters = stages.filter(|cluster| !cluster.conditions.is_empty()).map(|cluster| {
                let said: Vec<_> = cluster.conditions.iter().map(|c| c.type_.as_str()).collect();
                format!("{} {}", cluster.cluster_name, said.join("+"))
            });
            let clusters: Vec<_> = clusters.collect();
            format!("the status: {told} ({})", clusters.join(", "))
        }
        Action::Record(recording) => {
            let told = recording.drafts.iter().map(|draft| format!("{:?}", draft.what));
            format!("entries: {}", told.collect::<Vec<_>>().join(", "))
        }
        Action::Adopt(_) => "the policies it follows".to_owned(),
        Action::Quarantine(_) => "the quarantine of what it brings".to_owned(),
        Action::CreateRollback(create) => format!("the new run {}", create.name),
        Action::AnnounceWrites(_) => "what it will write again".to_owned(),
        Action::UpdateBinding(deliver) => format!("the spec of binding {}", deliver.binding),
        Action::SignalStart(signal) => format!("the start signal of binding {}", signal.binding),
        Action::DeleteBinding(withdraw) => format!("the deletion of binding {}", withdraw.binding),
        Action::CreateApprovalRequest(ask) => format!("the new request {}", ask.name),
        Action::AcceptApproval(accept) => format!("the answer to request {}", accept.request),
        Action::DeleteForeignRequest(dismiss) => {
            format!("the deletion of request {}", dismiss.request)
        }
        Action::DeleteApprovalRequests => "the deletion of its requests".to_owned(),
        Action::AddFinalizer | Action::RemoveFinalizer => "the finalizer".to_owned(),
        Action::Resources(_) => "a resource snapshot".to_owned(),
    }
}
