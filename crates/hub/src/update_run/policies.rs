//! What a pass sees of policies and freezes, and of clusters where a policy asks for it.
//!
//! Labels, reports and policies are only asked for where something needs them, so a hub
//! without policies and freezes asks for nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flagship_api::condition::{ConditionStatus, Conditions};
use flagship_api::condition_type::binding::{APPLIED, AVAILABLE};
use flagship_api::freeze;
use flagship_api::keys::{label, own};
use flagship_api::names::{ObjectKey, member_namespace, rollback_run, rolled_back_run};
use flagship_api::rollout_policy::{RolloutPolicy, Then};
use flagship_api::work::Work;
use flagship_rules::diagnosis::report::{self, Reported};
use flagship_rules::policy::quarantine;
use flagship_rules::policy::selects::Wanted;
use flagship_rules::policy::{Adopted, Follower, Freeze, Labels, Policy};
use flagship_rules::update_run::{self, Observed, lifecycle};
use flagship_runtime::client::{ClientError, ResourceType, Selection};
use flagship_runtime::effects::Kind;
use flagship_runtime::error_action::Failure;
use k8s_openapi::api::core::v1::Namespace;
use kube_core::Resource;
use kube_core::metadata::PartialObjectMeta;

use super::observe::PassInputs;
use crate::hub::Context;
use crate::mirrors::{Mirrors, Run};
use crate::scope::{Parts, Scoped};

/// Adds what policies and freezes say, and what they want to know.
pub(super) async fn complete<S: Scoped>(
    cx: &Context,
    mirrors: &Mirrors,
    run: &Run,
    seen: &mut PassInputs,
) -> Result<(), Failure> {
    let observed = &mut seen.observed;
    if observed.unreadable.is_some() {
        return Ok(());
    }
    let mut selections = Vec::new();
    if run.value.is_initialized() {
        let freezes: Vec<Arc<Freeze>> = match seen.fresh {
            true => {
                let (listed, _) = listed::<freeze::Freeze>(cx).await?;
                listed.iter().map(Freeze::read).map(Arc::new).collect()
            }
            false => mirrors.freezes.all().into_iter().map(|(_, freeze)| freeze).collect(),
        };
        observed.policy.freezes = freezes;
        selections.extend(observed.policy.freezes.iter().map(|freeze| freeze.spec.selects.clone()));
    } else {
        let (policies, unreadable) = listed::<RolloutPolicy>(cx).await?;
        // What cannot be read is not absent.
        if unreadable.is_some() {
            observed.unreadable = unreadable;
            return Ok(());
        }
        observed.policy.policies = policies.iter().map(Policy::read).collect();
        selections
            .extend(observed.policy.policies.iter().map(|policy| policy.spec.selects.clone()));
    }
    undoing::<S>(cx, mirrors, run, seen.fresh, observed).await?;
    observed.policy.labels = labels::<S>(cx, run, Wanted::by(&selections)).await?;
    if run.value.adopted.as_ref().is_some_and(Adopted::asks_for_approvals)
        && let Some(scope) = mirrors.of(&run.precondition.key)
    {
        let requests = observed.approvals.iter().map(|request| run.value.beside(&request.name));
        let words = requests.flat_map(|request| scope.runs.words_to(&request));
        observed.policy.words = words.collect();
    }
    let policed = run.value.adopted.is_some() || !observed.policy.policies.is_empty();
    if policed && seen.fresh {
        with_what_members_say(mirrors, observed);
    }
    if policed && run.value.is_initialized() {
        observed.policy.reports = reports(cx, run, observed).await?;
    }
    Ok(())
}

/// What runs want to know that take others back, or may be taken back.
async fn undoing<S: Scoped>(
    cx: &Context,
    mirrors: &Mirrors,
    run: &Run,
    fresh: bool,
    observed: &mut Observed,
) -> Result<(), Failure> {
    let value = &run.value;
    let runs = cx.client.of::<S::UpdateRun>();
    let read = |object: &S::UpdateRun| {
        let status = object.status().cloned().unwrap_or_default();
        update_run::Run::read(object.meta(), object.spec(), &status)
    };
    if value.is_initialized() {
        observed.policy.brought = brought(mirrors, run);
        let may_roll_back = value.adopted.as_ref().is_some_and(Adopted::may_roll_back);
        let name = rollback_run(&value.name).filter(|_| may_roll_back && fresh);
        if let Some(name) = name {
            let found = runs.find(&value.beside(&name)).await?.map(|found| read(&found));
            let follower = |found: update_run::Run| {
                Box::new(Follower { rollback_of: found.rollback_of, spec: found.spec })
            };
            observed.policy.follower = found.map(follower);
        }
        return Ok(());
    }
    let source = value.rollback_of.as_ref().and_then(|_| rolled_back_run(&value.name));
    if let Some(source) = source {
        let found = runs.find(&value.beside(source)).await?;
        observed.policy.source = found.map(|found| Box::new(read(&found)));
    }
    let mut policies = observed.policy.policies.iter();
    let rolls_back = policies.any(|policy| {
        policy.spec.failure.as_ref().is_some_and(|rules| rules.then == Some(Then::Rollback))
    });
    let held: BTreeSet<&str> =
        observed.bindings.iter().map(|b| b.spec.resource_snapshot_name.as_str()).collect();
    if rolls_back && held.len() > 1 {
        let all = Selection { namespace: value.namespace.clone(), ..Selection::all() };
        let listed = runs.list(&all).await?.items;
        let past = listed.iter().map(read);
        let past = past.filter(|past| past.spec.placement_name == value.spec.placement_name);
        observed.policy.proven = lifecycle::succeeded_with(past);
    }
    Ok(())
}

/// What a run brings, and whether that is quarantined.
fn brought(mirrors: &Mirrors, run: &Run) -> Option<quarantine::Brought> {
    let scope = mirrors.of(&run.precondition.key)?;
    let snapshots = scope.resources_of(&run.placement);
    let values = snapshots.iter().map(|snapshot| &*snapshot.value);
    quarantine::brought(values, &run.value.status.resource_snapshot_index_used)
}

/// Everything of a kind of ours, and what of it cannot be read; nothing where it is not
/// installed.
async fn listed<K: Kind>(cx: &Context) -> Result<(Vec<K>, Option<String>), Failure> {
    match cx.client.of::<K>().list(&Selection::all()).await {
        Err(ClientError::NotServed { .. }) => Ok((Vec::new(), None)),
        listed => {
            let listed = listed?;
            let unreadable = listed.malformed.first().map(ToString::to_string);
            Ok((listed.items, unreadable))
        }
    }
}

/// Fresh reads of members have no more than their labels; heartbeats and properties are as
/// fresh in the mirror as agents report them.
fn with_what_members_say(mirrors: &Mirrors, observed: &mut Observed) {
    for cluster in &mut observed.clusters {
        let key = ObjectKey::cluster(&cluster.name);
        if let Some(known) = mirrors.members.clusters.get(&key) {
            let known = &known.value;
            let mut told = (**cluster).clone();
            told.agent = known.agent.clone();
            told.properties = known.properties.clone();
            *cluster = Arc::new(told);
        }
    }
}

/// Why clusters under way are not available, as the agents of those report it that say so.
async fn reports(
    cx: &Context,
    run: &Run,
    observed: &Observed,
) -> Result<BTreeMap<String, Vec<Reported>>, Failure> {
    let stages = observed.run.status.stages_status.iter();
    let flying = stages.flat_map(|stage| &stage.clusters).filter(|c| lifecycle::in_flight(c));
    let mut found = BTreeMap::new();
    for cluster in flying.map(|cluster| &cluster.cluster_name) {
        let mut bindings = observed.bindings.iter().filter(|binding| binding.cluster() == cluster);
        let fails = bindings.any(|binding| {
            let conditions = &binding.status.conditions;
            let said = [APPLIED, AVAILABLE].iter().filter_map(|kind| conditions.of_type(kind));
            said.map(ConditionStatus::of).any(|truth| truth == ConditionStatus::False)
        });
        if !fails {
            continue;
        }
        let labels = format!("{}={}", label::PARENT_PLACEMENT, run.placement.name);
        let works = Selection::namespace(&member_namespace(cluster)).with_labels(labels);
        let objects = cx.client.of_type::<PartialObjectMeta<Work>>(ResourceType::of::<Work>());
        let listed = objects.metadata_only().list(&works).await?;
        let notes = listed
            .items
            .iter()
            .filter_map(|work| work.meta().annotations.as_ref()?.get(own::FAILURE_CAUSES));
        found.insert(cluster.clone(), notes.flat_map(|note| report::read(note)).collect());
    }
    Ok(found)
}

async fn labels<S: Scoped>(cx: &Context, run: &Run, wanted: Wanted) -> Result<Labels, Failure> {
    labels_by_name::<S>(cx, wanted, &run.value.strategy_key(), &run.placement).await
}

/// The labels by which a run is selected that follows this strategy and rolls this placement out.
pub(crate) async fn labels_by_name<S: Scoped>(
    cx: &Context,
    wanted: Wanted,
    strategy: &ObjectKey,
    placement: &ObjectKey,
) -> Result<Labels, Failure> {
    let mut labels = Labels::default();
    if wanted.strategy {
        labels.strategy = labels_of::<S::UpdateStrategy>(cx, strategy).await?;
    }
    if wanted.placement {
        labels.placement = labels_of::<S::Placement>(cx, placement).await?;
    }
    if let (true, Some(space)) = (wanted.namespace, &placement.namespace) {
        let space = labels_of::<Namespace>(cx, &ObjectKey::cluster(space)).await?;
        labels.namespace = Some(space);
    }
    Ok(labels)
}

/// The labels of an object; none if it is not there.
async fn labels_of<K: Kind>(
    cx: &Context,
    key: &ObjectKey,
) -> Result<BTreeMap<String, String>, Failure> {
    let objects = cx.client.of_type::<PartialObjectMeta<K>>(ResourceType::of::<K>());
    let found = objects.metadata_only().find(key).await?;
    Ok(found.and_then(|object| object.meta().labels.clone()).unwrap_or_default())
}
