//! Records of runs: read once and remembered, since only hubs write them, and only this one
//! while it leads. Whoever wrote meanwhile makes the next write a conflict, and it is read anew.
//!
//! What belongs into a record is `flagship_rules::update_run::recorded`; `shell` writes it.

mod shell;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use flagship_api::keys::own;
use flagship_api::rollout_record::{
    ClusterRolloutRecord, RecordEntry, RolloutRecord, RolloutRecordSpec,
};
use flagship_rules::record::Keep;
use flagship_rules::update_run::recorded::are_behind;
use flagship_runtime::client::{ClientError, Precondition, ResourceType, Selection};
use flagship_runtime::effects::Kind;
use flagship_runtime::error_action::Failure;
use futures::future::try_join;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::metadata::PartialObjectMeta;

use super::observe::PassInputs;
use crate::hub::Context;
use crate::mirrors::{Mirrors, Run};
use crate::scope::Scoped;

/// A record of either scope.
pub(crate) trait Recorded: Kind + Send + Sync + 'static {
    fn new(metadata: ObjectMeta, spec: RolloutRecordSpec) -> Self;
    fn spec(self) -> RolloutRecordSpec;
}

macro_rules! recorded {
    ($($Kind:ty),*) => {$(
        impl Recorded for $Kind {
            fn new(metadata: ObjectMeta, spec: RolloutRecordSpec) -> Self {
                Self { metadata, spec }
            }

            fn spec(self) -> RolloutRecordSpec {
                self.spec
            }
        }
    )*};
}

recorded!(ClusterRolloutRecord, RolloutRecord);

/// What is remembered of the record of one run.
#[derive(Clone, Default)]
struct Kept {
    /// All entries, over all parts.
    entries: Arc<Vec<RecordEntry>>,
    /// The first part, without its entries.
    head: RolloutRecordSpec,
    /// The part that is being written, and the version of it; nothing before the first.
    last: Option<(Precondition, RolloutRecordSpec)>,
    /// Metadata of the records beside it, where it was read for a record that is to begin.
    others: Option<Vec<ObjectMeta>>,
}

/// Records of the runs of one scope.
#[derive(Default)]
pub(super) struct Records {
    kept: Mutex<BTreeMap<String, Arc<Kept>>>,
    told: AtomicBool,
}

impl Records {
    /// Adds the entries of the run's record, where one is kept.
    pub async fn complete<S: Scoped>(
        &self,
        cx: &Context,
        mirrors: &Mirrors,
        run: &Run,
        seen: &mut PassInputs,
    ) -> Result<(), Failure> {
        let observed = &mut seen.observed;
        let policed = match run.value.is_initialized() {
            true => run.value.adopted.as_ref().is_some_and(|adopted| !adopted.is_empty()),
            false => !observed.policy.policies.is_empty(),
        };
        let keep = &mut observed.options.records;
        if *keep == Keep::Policies && !mirrors.channels.is_empty() {
            // Channels tell what records say.
            *keep = Keep::All;
        }
        if observed.unreadable.is_some() || !keep.keeps(policed) {
            return Ok(());
        }
        let known = self.kept().get(&run.value.uid).cloned();
        if known.is_some_and(|known| are_behind(&known.entries, &run.value.status)) {
            // Another hub that leads, too, has written entries since this one read them.
            self.forget(&run.value.uid);
        }
        match self.of::<S>(cx, &run.precondition, !run.value.is_initialized()).await {
            Ok(kept) => observed.record = kept.map(|kept| kept.entries.clone()),
            Err(ClientError::Malformed(what)) => observed.unreadable = Some(what.to_string()),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// The record of a run, empty if there is none yet; `None` where records are not installed.
    ///
    /// A record that is to begin needs the others' metadata, too. That is read here, before
    /// the pass writes: a list right after a write waits until the API server's cache shows it.
    async fn of<S: Scoped>(
        &self,
        cx: &Context,
        run: &Precondition,
        to_begin: bool,
    ) -> Result<Option<Arc<Kept>>, ClientError> {
        let known = self.kept().get(&run.uid).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let namespace = run.key.namespace.as_deref();
        let others = async {
            match to_begin {
                true => Ok(Some(metadata_of::<S>(cx, namespace).await?)),
                false => Ok(None),
            }
        };
        let (parts, others) = match try_join(parts::<S>(cx, namespace, &run.uid), others).await {
            Err(ClientError::NotServed { .. }) => {
                if !self.told.swap(true, Ordering::Relaxed) {
                    tracing::info!(
                        "rollout records are not installed, none are kept; `flagship crds --policies | kubectl apply --server-side -f -` installs them"
                    );
                }
                return Ok(None);
            }
            read => read?,
        };
        let kept = Arc::new(Kept { others, ..Kept::read(parts) });
        self.remember(&run.uid, kept.clone());
        Ok(Some(kept))
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Kept>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, uid: &str, kept: Arc<Kept>) {
        self.kept().insert(uid.to_owned(), kept);
    }

    /// Nothing of a run that is over is remembered.
    pub fn forget(&self, uid: &str) {
        self.kept().remove(uid);
    }
}

impl Kept {
    fn read(parts: Vec<(Precondition, RolloutRecordSpec)>) -> Self {
        let entries = parts.iter().flat_map(|(_, part)| part.entries.iter().cloned()).collect();
        let head = parts.first().map(|(_, first)| without_entries(first)).unwrap_or_default();
        Self { entries: Arc::new(entries), head, last: parts.into_iter().next_back(), others: None }
    }
}

fn without_entries(part: &RolloutRecordSpec) -> RolloutRecordSpec {
    let RolloutRecordSpec { run, part, follows, plan, policies, .. } = part.clone();
    RolloutRecordSpec { run, part, follows, plan, policies, entries: Vec::new() }
}

/// The parts of a run's record, in order. What cannot be read is not absent.
async fn parts<S: Scoped>(
    cx: &Context,
    namespace: Option<&str>,
    uid: &str,
) -> Result<Vec<(Precondition, RolloutRecordSpec)>, ClientError> {
    let selection = namespace.map_or_else(Selection::all, Selection::namespace);
    let selection = selection.with_labels(format!("{}={uid}", own::UPDATE_RUN_UID));
    let listed = cx.client.of::<S::Record>().list(&selection).await?;
    if let Some(malformed) = listed.malformed.first() {
        return Err(ClientError::Malformed(Box::new(malformed.clone())));
    }
    let mut parts: Vec<_> = listed
        .items
        .into_iter()
        .filter_map(|object| Some((Precondition::of(&object)?, object.spec())))
        .filter(|(_, spec)| spec.run.uid == uid)
        .collect();
    parts.sort_by_key(|(_, spec)| spec.part);
    Ok(parts)
}

/// Metadata of every record beside a run.
async fn metadata_of<S: Scoped>(
    cx: &Context,
    namespace: Option<&str>,
) -> Result<Vec<ObjectMeta>, ClientError> {
    let records =
        cx.client.of_type::<PartialObjectMeta<S::Record>>(ResourceType::of::<S::Record>());
    let beside = namespace.map_or_else(Selection::all, Selection::namespace);
    let listed = records.metadata_only().list(&beside).await?;
    Ok(listed.items.into_iter().map(|record| record.metadata).collect())
}
