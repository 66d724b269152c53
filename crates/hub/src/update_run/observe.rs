//! What one pass looks at, from mirrors that show the last pass's writes.
//!
//! Good enough to go on. What is fixed once, or ends a run, is read by `fresh_reads`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use flagship_api::names::ObjectKey;
use flagship_rules::model::Binding;
use flagship_rules::update_run::{Approval, Observed, OtherRun};
use flagship_runtime::client::Precondition;

use crate::hub::Context;
use crate::mirrors::{MemberMirrors, Run, ScopeMirrors};
use crate::placement::Preconditions;

/// What a pass looks at, and what its writes carry as preconditions.
pub(super) struct PassInputs {
    pub observed: Observed,
    pub run: Precondition,
    pub finalizers: Vec<String>,
    /// The placement's resource snapshots.
    pub resources: Preconditions,
    /// Whether it was read from the server itself, and may be ahead of mirrors.
    pub fresh: bool,
}

impl PassInputs {
    /// A run, and nothing around it.
    pub fn alone(cx: &Context, run: &Run) -> Self {
        let observed = Observed {
            options: cx.options.update_runs,
            ..Observed::of(run.value.clone(), cx.env.now())
        };
        Self {
            observed,
            run: run.precondition.clone(),
            finalizers: run.finalizers.clone(),
            resources: Preconditions::new(),
            fresh: false,
        }
    }
}

/// UIDs of runs that a fresh look did not find any more. Bindings name their last writer
/// for as long as nobody else writes them, and a UID does not come back.
#[derive(Default)]
pub(super) struct Departed(Mutex<BTreeSet<String>>);

impl Departed {
    /// As many as are worth remembering; what is forgotten is looked for once more.
    const MOST: usize = 10_000;

    pub fn add(&self, uid: &str) {
        let mut gone = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if gone.len() >= Self::MOST {
            gone.clear();
        }
        gone.insert(uid.to_owned());
    }

    fn contains(&self, uid: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(uid)
    }
}

/// Everything for one pass over a run that is initialized.
pub(super) fn observe(
    cx: &Context,
    members: &MemberMirrors,
    scope: &ScopeMirrors,
    departed: &Departed,
    run: &Run,
) -> PassInputs {
    let key = &run.placement;
    let mut seen = PassInputs::alone(cx, run);
    let observed = &mut seen.observed;
    observed.placement = scope.placements.get(key).map(|placement| placement.value.clone());
    observed.policy_snapshots =
        scope.latest_policies_of(key).iter().map(|policy| policy.value.clone()).collect();
    observed.bindings = scope.bindings_of(key);
    let named: BTreeSet<&str> = observed.bindings.iter().map(|binding| binding.cluster()).collect();
    let known = named
        .into_iter()
        .filter_map(|name| Some(members.clusters.get(&ObjectKey::cluster(name))?.value.clone()));
    observed.clusters = known.collect();
    observed.approvals = approvals(scope, run);
    let snapshot = run.value.snapshot_key();
    observed.snapshot_gone = snapshot.is_some_and(|key| scope.resources.get(&key).is_none());
    let rivals = writers(&observed.bindings, run).into_iter();
    let rivals = rivals.filter_map(|uid| match scope.runs.with_uid(uid) {
        Some(known) => Some(known.rival.clone()),
        None => departed.contains(uid).then(|| OtherRun::departed(uid)),
    });
    let rivals: Vec<OtherRun> = rivals.collect();
    observed.rivals = rivals;
    under_way(scope, run, &mut observed.rivals);
    seen
}

/// Adds the runs of the same placement that have not ended. Bindings do not name the ones
/// that have promised something and not done it yet.
pub(super) fn under_way(scope: &ScopeMirrors, run: &Run, rivals: &mut Vec<OtherRun>) {
    for other in scope.runs.of(&run.placement) {
        let known = |known: &OtherRun| known.uid == other.precondition.uid;
        let is_new = other.precondition.uid != run.precondition.uid && !rivals.iter().any(known);
        if is_new && !other.rival.ended {
            rivals.push(other.rival.clone());
        }
    }
}

/// UIDs of the other runs that bindings name as their last writer.
pub(super) fn writers<'a>(bindings: &'a [Arc<Binding>], run: &Run) -> BTreeSet<&'a str> {
    let fences = bindings.iter().filter_map(|binding| binding.fence.as_ref());
    fences.map(|fence| fence.run.as_str()).filter(|uid| *uid != run.precondition.uid).collect()
}

/// Requests that name the run, and those that bear a name it gives.
pub(super) fn approvals(scope: &ScopeMirrors, run: &Run) -> Vec<Approval> {
    let mut found: BTreeMap<String, Approval> = BTreeMap::new();
    for request in scope.runs.approvals_of(&run.precondition.key) {
        found.insert(request.name.clone(), (*request).clone());
    }
    for name in request_names(run) {
        if let Some(request) = scope.runs.approvals.get(&run.value.beside(name)) {
            found.insert(name.to_owned(), (*request).clone());
        }
    }
    found.into_values().collect()
}

/// Names of the requests that the tasks of the run ask for.
pub(super) fn request_names(run: &Run) -> impl Iterator<Item = &str> {
    let stages = run.value.status.stages_status.iter();
    let tasks = stages.flat_map(|stage| {
        stage.before_stage_task_status.iter().chain(&stage.after_stage_task_status)
    });
    tasks.map(|task| task.approval_request_name.as_str()).filter(|name| !name.is_empty())
}
