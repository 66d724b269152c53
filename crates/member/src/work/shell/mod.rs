//! One pass over one Work: read, ask the rules, write.
//!
//! `manifests` brings one manifest to the member, `causes` says why objects are not available,
//! `withdrawal` ends a Work that is deleted.
//!
//! A manifest that fails is a condition, never the end of the pass. A pass ends early only
//! where going on would lose track of something: no AppliedWork to own what comes, no
//! record of what is about to come, or left-overs that could not be removed.

mod causes;
mod manifests;
mod withdrawal;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flagship_api::apply_strategy::ReportBackStrategyType;
use flagship_api::condition::Generation;
use flagship_api::keys::{field_manager, finalizer, label};
use flagship_api::names::{ObjectKey, cluster_of_namespace, rollout_trace};
use flagship_api::work::{AppliedWork, AppliedWorkSpec, AppliedWorkStatus, Work, WorkStatus};
use flagship_rules::apply::{
    self, ApplyOptions, Look, Manifest, Outcome as ManifestOutcome, RequeueBackOff, StatusWrite,
    complete, reconsider,
};
use flagship_runtime::client::{Precondition, ResourceType};
use flagship_runtime::effects::{Made, PendingWrites, Writer};
use flagship_runtime::error_action::Failure;
use flagship_runtime::queue::{About, Outcome, Priority, Queue};
use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::metrics;
use super::observe::{Mirrors, WorkState, observe};
use crate::kinds::Kinds;
use crate::member::Context;
use crate::watching::{Mark, Place, Watches};
use manifests::place;

/// Manifests of one Work that are under way at once.
const AT_ONCE: usize = 4;

/// How long kinds that this very Work defines are waited for, and how often looked for.
const NEW_KINDS: Duration = Duration::from_secs(5);
const NEW_KINDS_EVERY: Duration = Duration::from_millis(200);

/// Carries out what the rules say about the Works of the member.
pub(super) struct Shell {
    pub(super) cx: Context,
    pub(super) mirrors: Mirrors,
    pub(super) queue: Queue<ObjectKey>,
    kinds: Kinds,
    watches: Watches,
    seen: PendingWrites<ObjectKey>,
    back_offs: Mutex<BTreeMap<ObjectKey, RequeueBackOff>>,
}

impl Shell {
    pub fn new(cx: &Context, mirrors: Mirrors, queue: &Queue<ObjectKey>) -> Self {
        let seen = PendingWrites::default();
        seen.shown_by(ResourceType::of::<Work>(), &mirrors.works);
        seen.shown_by(ResourceType::of::<AppliedWork>(), &mirrors.applied);
        let cx = Context { member: cx.member.named(field_manager::WORK_APPLIER), ..cx.clone() };
        Self {
            kinds: Kinds::new(&cx.member),
            watches: Watches::new(&cx, queue),
            queue: queue.clone(),
            back_offs: Mutex::default(),
            cx,
            mirrors,
            seen,
        }
    }

    /// Writes to the hub on behalf of a pass.
    fn hub<'a>(&'a self, key: &'a ObjectKey) -> Writer<'a, ObjectKey> {
        Writer::new(&self.cx.hub, &self.cx.leadership, &self.seen, key)
    }

    /// Writes to the member on behalf of a pass; manifests have a way of their own.
    fn member<'a>(&'a self, key: &'a ObjectKey) -> Writer<'a, ObjectKey> {
        Writer::new(&self.cx.member, &self.cx.leadership, &self.seen, key)
    }

    /// One pass.
    pub async fn pass(&self, key: &ObjectKey) -> Result<Outcome, Failure> {
        let caught_up = self.seen.caught_up(key).await;
        let work = match observe(&self.cx, &self.mirrors, key).await? {
            WorkState::Gone => {
                self.forget(key);
                return Ok(Outcome::Done);
            }
            WorkState::NotJoined => return Ok(Outcome::Done),
            WorkState::Deleted(work, applied) => {
                return self.withdraw(key, &work, applied.as_deref()).await;
            }
            WorkState::Wanted(work) => work,
        };
        let trace = rollout_of(&work);
        let cluster = cluster_of_namespace(&self.cx.space);
        About { trace: trace.as_deref(), cluster, run: None }.note();
        let Some(work) = self.claim(key, work).await? else { return Ok(Outcome::Done) };
        let Some(applied) = self.applied_work(key).await? else {
            // Its end wakes us.
            return Ok(Outcome::After(Duration::from_secs(5)));
        };
        let processed = self.process(key, &work, &applied).await;
        if processed.is_err() {
            self.watches.abandon(key);
        }
        processed.map(|outcome| outcome.having_caught_up(caught_up))
    }

    async fn process(
        &self,
        key: &ObjectKey,
        work: &Arc<Work>,
        applied: &AppliedWork,
    ) -> Result<Outcome, Failure> {
        let uid = applied.metadata.uid.as_deref().unwrap_or_default();
        let terms = ApplyOptions::new(work.spec.apply_strategy.as_ref(), &key.name, uid)
            .at_home_in(&self.cx.options.home);
        let remembered = applied.status.clone().unwrap_or_default();
        let mut manifests = apply::read(&work.spec.workload.manifests);
        let found = self.kinds.find(&apply::types(&manifests)).await;
        apply::map(&mut manifests, &found);
        let generation = work.metadata.generation.unwrap_or_default();
        self.watches.begin(key, generation, places(&manifests), reports_status(work));
        let work = self.record_intent(key, work, &remembered, &terms, &manifests).await?;
        let mut outcomes = self.apply_in_waves(&terms, &manifests).await?;
        self.try_again(&terms, &mut manifests, &mut outcomes).await?;
        let outcomes = complete(&manifests, outcomes);
        self.tell(key, &work, applied, &remembered, &terms, outcomes).await
    }

    /// Puts our finalizer on the Work, unless the member has just left.
    async fn claim(&self, key: &ObjectKey, work: Arc<Work>) -> Result<Option<Arc<Work>>, Failure> {
        let all = work.metadata.finalizers.as_deref().unwrap_or_default();
        if all.iter().any(|one| one == finalizer::WORK) {
            return Ok(Some(work));
        }
        let Some(_entered) = self.cx.participation.claim().await else { return Ok(None) };
        let Some(precondition) = Precondition::of(&*work) else { return Ok(None) };
        let finalizers: Vec<&str> =
            all.iter().map(String::as_str).chain([finalizer::WORK]).collect();
        let patch = json!({"metadata": {"finalizers": finalizers}});
        let metadata = self.hub(key).patch::<Work>(&precondition, patch).await?.metadata;
        Ok(Some(Arc::new(Work { metadata, ..Arc::unwrap_or_clone(work) })))
    }

    /// The AppliedWork that owns what the Work brings, made if it is missing. `None` while
    /// an old one of that name is on its way out.
    async fn applied_work(&self, key: &ObjectKey) -> Result<Option<Arc<AppliedWork>>, Failure> {
        let name = ObjectKey::cluster(&key.name);
        let found = match self.mirrors.applied.get(&name) {
            Some(found) => found,
            None => Arc::new(self.make_applied_work(key, &name).await?),
        };
        Ok(found.metadata.deletion_timestamp.is_none().then_some(found))
    }

    async fn make_applied_work(
        &self,
        key: &ObjectKey,
        name: &ObjectKey,
    ) -> Result<AppliedWork, Failure> {
        let fresh = AppliedWork {
            metadata: ObjectMeta { name: Some(name.name.clone()), ..ObjectMeta::default() },
            spec: AppliedWorkSpec {
                work_name: key.name.clone(),
                work_namespace: self.cx.space.clone(),
            },
            status: None,
        };
        Ok(match self.member(key).create(&fresh).await? {
            Made::New(made) => AppliedWork { metadata: made.metadata, ..fresh },
            Made::Existed => self.cx.member.of::<AppliedWork>().get(name).await?,
        })
    }

    /// Removes what no manifest asks for any more, and records what is about to be applied.
    async fn record_intent(
        &self,
        key: &ObjectKey,
        work: &Arc<Work>,
        remembered: &AppliedWorkStatus,
        terms: &ApplyOptions,
        manifests: &[Manifest],
    ) -> Result<Arc<Work>, Failure> {
        let now = self.cx.env.now();
        let Some(intent) = apply::intent(work, remembered, terms, manifests, now) else {
            return Ok(work.clone());
        };
        let left_overs = intent.left_overs.iter();
        let removing: Vec<_> =
            left_overs.map(|one| self.remove_left_over(one, &terms.owner)).collect();
        let removed: Vec<_> = stream::iter(removing).buffered(AT_ONCE).collect().await;
        let errors: Vec<String> = removed.into_iter().filter_map(Result::err).collect();
        if !errors.is_empty() {
            return Err(Failure::back_off(apply::removal_failed(&errors)));
        }
        let old = work.status.clone().unwrap_or_default();
        if work.status.is_some() && old.manifest_conditions == intent.manifest_conditions {
            return Ok(work.clone());
        }
        let status = WorkStatus { manifest_conditions: intent.manifest_conditions, ..old };
        Ok(Arc::new(self.write_status(key, work, &status).await?))
    }

    async fn write_status(
        &self,
        key: &ObjectKey,
        work: &Work,
        status: &WorkStatus,
    ) -> Result<Work, Failure> {
        let Some(precondition) = Precondition::of(work) else {
            return Err(Failure::give_up("the Work was never stored"));
        };
        Ok(self.hub(key).patch_status_whole::<Work>(&precondition, status_patch(status)).await?)
    }

    /// Applies what can be applied, wave after wave.
    async fn apply_in_waves(
        &self,
        terms: &ApplyOptions,
        manifests: &[Manifest],
    ) -> Result<BTreeMap<usize, ManifestOutcome>, Failure> {
        let mut outcomes = BTreeMap::new();
        for wave in apply::waves(manifests, terms) {
            outcomes.extend(self.apply_side_by_side(terms, manifests, wave).await?);
        }
        Ok(outcomes)
    }

    async fn apply_side_by_side(
        &self,
        terms: &ApplyOptions,
        manifests: &[Manifest],
        wave: Vec<usize>,
    ) -> Result<Vec<(usize, ManifestOutcome)>, Failure> {
        if !self.cx.leadership.is_held() {
            return Err(Failure::give_up("another agent leads by now"));
        }
        let under_way: Vec<_> = wave.iter().map(|at| self.bring(&manifests[*at], terms)).collect();
        let outcomes: Vec<_> = stream::iter(under_way).buffered(AT_ONCE).collect().await;
        Ok(wave.into_iter().zip(outcomes).collect())
    }

    /// Manifests of kinds that another manifest of the Work has just defined.
    async fn try_again(
        &self,
        terms: &ApplyOptions,
        manifests: &mut [Manifest],
        outcomes: &mut BTreeMap<usize, ManifestOutcome>,
    ) -> Result<(), Failure> {
        let until = Instant::now() + NEW_KINDS;
        loop {
            let done: Vec<ManifestOutcome> = outcomes.values().cloned().collect();
            let waiting = reconsider(manifests, &done);
            if waiting.is_empty() {
                return Ok(());
            }
            let kinds = waiting.iter().filter_map(|at| manifests[*at].kind()).collect();
            let found = self.kinds.find(&kinds).await;
            apply::map(manifests, &found);
            let ready = waiting.into_iter().filter(|at| manifests[*at].untried.is_none());
            let ready: Vec<usize> = ready.collect();
            outcomes.extend(self.apply_side_by_side(terms, manifests, ready).await?);
            if Instant::now() >= until {
                return Ok(());
            }
            tokio::time::sleep(NEW_KINDS_EVERY).await;
        }
    }

    /// Tells the hub and the member what became of the Work, and decides when to look again.
    async fn tell(
        &self,
        key: &ObjectKey,
        work: &Work,
        applied: &AppliedWork,
        remembered: &AppliedWorkStatus,
        terms: &ApplyOptions,
        outcomes: Vec<ManifestOutcome>,
    ) -> Result<Outcome, Failure> {
        let generation = Generation::of(&work.metadata).0;
        let awaited: Vec<Place> =
            apply::awaited_namespaces(&outcomes).iter().map(|name| namespace(name)).collect();
        if !awaited.is_empty() {
            self.watches.begin(key, generation, awaited.clone(), reports_status(work));
        }
        let (now, options) = (self.cx.env.now(), self.cx.options.report);
        let report = apply::report(work, remembered, terms, &outcomes, options, now);
        let mut written = None;
        for write in report.writes {
            match write {
                StatusWrite::Work(status) => {
                    written = Some(self.write_status(key, work, &status).await?);
                }
                StatusWrite::AppliedWork(status) => {
                    let fresh = AppliedWork { status: Some(status), ..applied.clone() };
                    self.member(key).update_status(&fresh).await?;
                }
            }
        }
        self.tell_causes(key, written.as_ref().unwrap_or(work), &report.status, &outcomes).await;
        metrics::count(&self.cx.metrics, work, &report.status);
        let look = Look::new(generation, &outcomes, report.settled);
        let pause = {
            let mut back_offs = self.back_offs.lock().unwrap_or_else(PoisonError::into_inner);
            let back_off = back_offs.entry(key.clone()).or_default();
            back_off.next(&self.cx.options.timing, &look)
        };
        let saw = outcomes.iter().filter_map(|outcome| {
            let place = place(&outcome.identifier)?;
            let mark = outcome.live.as_ref().and_then(|live| Mark::of_live(&place.0, live));
            Some((place, mark))
        });
        let missing = awaited.into_iter().map(|place| (place, None));
        self.watches.end(key, saw.chain(missing).collect());
        // Only time asks for that look; whoever waits for something goes first.
        let pause = Duration::try_from(pause).unwrap_or_default();
        self.queue.add_after_with(key.clone(), pause, Priority::Low);
        Ok(Outcome::Done)
    }

    /// Nothing is to be remembered of the Work.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.watches.forget(key);
        self.back_offs.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// A namespace of the member.
fn namespace(name: &str) -> Place {
    (ResourceType::of::<Namespace>(), ObjectKey::cluster(name))
}

fn reports_status(work: &Work) -> bool {
    let strategy = work.spec.report_back_strategy.as_ref();
    strategy.is_some_and(|strategy| strategy.r#type == ReportBackStrategyType::Mirror)
}

fn places(manifests: &[Manifest]) -> Vec<Place> {
    manifests.iter().filter_map(|manifest| place(&manifest.identifier)).collect()
}

/// Both lists written out, because a merge patch keeps what it does not name.
fn status_patch(status: &WorkStatus) -> Value {
    let WorkStatus { conditions, manifest_conditions } = status;
    json!({"status": {"conditions": conditions, "manifestConditions": manifest_conditions}})
}

/// The rollout that brought a Work, as the hub calls it.
fn rollout_of(work: &Work) -> Option<String> {
    let labels = work.metadata.labels.as_ref()?;
    let namespace = labels.get(label::PARENT_PLACEMENT_NAMESPACE).map(String::as_str);
    let placement = ObjectKey::new(namespace, labels.get(label::PARENT_PLACEMENT)?);
    Some(rollout_trace(&placement, labels.get(label::PARENT_RESOURCE_SNAPSHOT_INDEX)?))
}
