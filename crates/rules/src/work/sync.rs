//! What has to be written so that the Works carry what the binding names.
//!
//! A Work is left alone while its labels and annotations say that it carries the right
//! things: what is in it is not looked at. Its strategies follow the binding and the
//! placement whatever becomes of the rest.
//!
//! A hub of an older release may have written what is refused today. What such Works carry
//! beyond their reach is taken out of them, even while nothing else can be written.

use std::collections::BTreeMap;

use flagship_api::apply_strategy::{ApplyStrategy, ReportBackStrategy};
use flagship_api::hash;
use flagship_api::keys::{label, own};
use flagship_api::names::{EnvelopeKind, EnvelopeRef, SnapshotIndex, master_snapshot};
use flagship_api::placement_status::{EnvelopeIdentifier, EnvelopeType};
use flagship_api::raw_json::RawJson;
use flagship_api::reason::event::DUPLICATE_ENVELOPE_WORKS;
use flagship_api::work::{Work as Object, WorkSpec, WorkloadTemplate};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

use super::from_api::ABANDON;
use super::group::{Group, Wanted, master};
use super::observed::{Observed, Reads, Stamp, Work};
use super::pass_error::{PassError, Stage};
use super::render::{
    Rendered, by_older_rules, inputs_hash, inputs_refused, manifests_hash, render, without_refused,
};
use crate::event::Event;
use crate::model::Cluster;

/// One write to a Work.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// A new one.
    Create(Box<NewWork>),
    /// New content for one that is there, under the name it has.
    Update {
        /// Its name.
        name: String,
        /// What it is made from.
        stamp: Stamp,
        /// Its manifests.
        manifests: Vec<RawJson>,
        /// How they are to be treated.
        strategies: Strategies,
        /// Whether they are to outlive the placement.
        to_abandon: bool,
    },
    /// Metadata for us: the member has nothing to do.
    Note {
        /// Its name.
        name: String,
        /// What it is made from.
        stamp: Stamp,
        /// Whether its content is to outlive the placement.
        to_abandon: bool,
    },
    /// Other strategies for the same content.
    Steer {
        /// Its name.
        name: String,
        /// How the manifests are to be treated.
        strategies: Strategies,
        /// Whether they are to outlive the placement.
        to_abandon: bool,
    },
    /// Tells the member to let go of everything before the Work is deleted.
    Abandon {
        /// Its name.
        name: String,
    },
    /// Nothing of it is wanted any more.
    Delete {
        /// Its name.
        name: String,
    },
}

/// How the manifests of a Work are to be treated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Strategies {
    /// How they meet what is already in the member.
    pub apply_strategy: Option<ApplyStrategy>,
    /// Whether statuses come back.
    pub report_back_strategy: Option<ReportBackStrategy>,
}

impl Strategies {
    fn are_those_of(&self, work: &Work) -> bool {
        self.apply_strategy == work.apply_strategy && self.report_back_strategy == work.report_back
    }
}

/// A Work to create.
#[derive(Debug, Clone, PartialEq)]
pub struct NewWork {
    /// Namespace of the member.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What it belongs to.
    pub labels: BTreeMap<String, String>,
    /// What it is made from.
    pub annotations: BTreeMap<String, String>,
    /// Everything the member needs, so that the first write is the only one.
    pub spec: WorkSpec,
}

impl NewWork {
    /// The object to create.
    pub fn object(self) -> Object {
        let metadata = ObjectMeta {
            name: Some(self.name),
            namespace: Some(self.namespace),
            labels: Some(self.labels),
            annotations: Some(self.annotations),
            ..ObjectMeta::default()
        };
        Object { metadata, spec: self.spec, status: None }
    }
}

impl Write {
    /// Which Work it is about.
    pub fn name(&self) -> &str {
        match self {
            Self::Create(new) => &new.name,
            Self::Update { name, .. }
            | Self::Note { name, .. }
            | Self::Steer { name, .. }
            | Self::Abandon { name }
            | Self::Delete { name } => name,
        }
    }

    /// Whether the member will have something to say about it.
    pub fn concerns_member(&self) -> bool {
        !matches!(self, Self::Note { .. })
    }

    /// The condition that turns False if it is refused.
    pub fn stage(&self) -> Stage {
        if matches!(self, Self::Steer { .. }) { Stage::Override } else { Stage::Sync }
    }
}

/// How far the Works are from what the binding names.
#[derive(Debug, Default)]
pub struct Sync {
    /// What to write, at most one write per Work.
    pub writes: Vec<Write>,
    /// What people should hear of.
    pub events: Vec<Event>,
    /// What stands in the way.
    pub end: End,
}

/// How looking for what to write ended.
#[derive(Debug, Default)]
pub enum End {
    /// All of it is in the writes.
    #[default]
    Known,
    /// Manifests have to be read first; there are no writes yet.
    Asks(Reads),
    /// The snapshot is there, but has not been seen where the others are.
    Lags,
    /// It cannot be told what to write, strategies apart.
    Failed(PassError),
}

/// Compares the Works with what the binding names.
pub fn sync(seen: &Observed, cluster: &Cluster) -> Sync {
    let mut sync = Sync::default();
    match sync.decide(seen, cluster) {
        Ok(end) => sync.end = end,
        Err(trouble) => {
            sync.writes.clear();
            sync.end = End::Failed(trouble);
        }
    }
    if matches!(sync.end, End::Known | End::Failed(_)) {
        sync.withdraw_escaped(seen);
    }
    if !matches!(sync.end, End::Asks(_)) {
        sync.steer(seen);
    }
    sync
}

impl Sync {
    fn decide(&mut self, seen: &Observed, cluster: &Cluster) -> Result<End, PassError> {
        let Some(master) = master(seen) else { return without_master(seen) };
        let group = Group::read(seen, master)?;
        let goal = Goal::of(seen, cluster, &group)?;
        let wanted = group.wanted();
        let matches: Vec<_> = wanted.iter().map(|one| self.stands_for(seen, one)).collect();
        let settled = |found: &Result<Option<&Work>, PassError>| match found {
            Ok(Some(work)) => goal.is_met_by(work),
            Ok(None) => false,
            // Whatever is rendered, it cannot be written.
            Err(_) => true,
        };
        let rendered = if matches.iter().all(settled) {
            None
        } else {
            match &seen.content {
                Some(content) => match render(seen, cluster, &group, content) {
                    Ok(rendered) => Some(rendered),
                    Err(trouble) => {
                        let allowed = || without_refused(seen, cluster, &group, content);
                        self.withdraw_refused(seen, &goal, &wanted, &matches, allowed);
                        return Ok(End::Failed(trouble));
                    }
                },
                None => return Ok(End::Asks(reads(seen, &group))),
            }
        };
        let mut kept = Vec::new();
        for (one, found) in wanted.iter().zip(matches) {
            let found = found?;
            kept.extend(found.map(|work| &work.name));
            let fits = found.is_some_and(|work| goal.is_met_by(work));
            if let Some(rendered) = rendered.as_ref().filter(|_| !fits) {
                let manifests = rendered.get(&one.name).cloned().unwrap_or_default();
                self.writes.push(write(seen, &goal, one, found, manifests));
            }
        }
        for work in seen.live_works().filter(|work| !kept.contains(&&work.name)) {
            self.writes.push(Write::Delete { name: work.name.clone() });
        }
        Ok(End::Known)
    }

    /// Takes what is refused today out of Works that an older hub made of the very same
    /// snapshots. What was made of others stays: it is not what is refused.
    fn withdraw_refused(
        &mut self,
        seen: &Observed,
        goal: &Goal,
        wanted: &[Wanted],
        matches: &[Result<Option<&Work>, PassError>],
        allowed: impl FnOnce() -> Option<Rendered>,
    ) {
        let stale =
            |work: &&Work| goal.is_met_in_public_by(&work.stamp) && by_older_rules(&work.stamp);
        let found = matches.iter().map(|found| found.as_ref().ok().copied().flatten());
        let stale: Vec<(&Wanted, &Work)> = wanted
            .iter()
            .zip(found)
            .filter_map(|(one, found)| Some((one, found.filter(stale)?)))
            .collect();
        if stale.is_empty() {
            return;
        }
        let Some(allowed) = allowed() else { return };
        for (one, work) in stale {
            let manifests = allowed.get(&one.name).cloned().unwrap_or_default();
            let mut stamp = goal.stamp.clone();
            stamp.inputs = Some(inputs_refused());
            stamp.manifests = Some(manifests_hash(&manifests));
            self.writes.push(Write::Update {
                name: work.name.clone(),
                stamp,
                manifests,
                strategies: strategies(seen, Some(work)),
                to_abandon: outlives(seen, Some(work)),
            });
        }
    }

    /// Deletes Works that reach out of the namespace of their placement and are not rendered
    /// anew.
    fn withdraw_escaped(&mut self, seen: &Observed) {
        for work in seen.live_works().filter(|work| work.escapes) {
            let written = |write: &Write| {
                write.name() == work.name
                    && matches!(write, Write::Update { .. } | Write::Delete { .. })
            };
            if !self.writes.iter().any(written) {
                self.writes.retain(|write| write.name() != work.name);
                self.writes.push(Write::Delete { name: work.name.clone() });
            }
        }
    }

    /// The Work that stands for a wanted one already.
    fn stands_for<'a>(
        &mut self,
        seen: &'a Observed,
        wanted: &Wanted,
    ) -> Result<Option<&'a Work>, PassError> {
        let same = |work: &&Work| match &wanted.envelope {
            Some(envelope) => work.envelope.as_ref() == Some(&labels_of(envelope)),
            None => work.name == wanted.name,
        };
        let found: Vec<&Work> = seen.works.iter().filter(same).collect();
        let live: Vec<&Work> = found.iter().copied().filter(|work| !work.deleting).collect();
        match (live.as_slice(), found.as_slice(), &wanted.envelope) {
            ([work], _, _) => Ok(Some(work)),
            ([], [], _) => Ok(None),
            // It is deleted by somebody else's hand, and its name is free when it is gone.
            ([], [going, ..], _) => Err(PassError::expected(
                Stage::Sync,
                format!("work {} is being deleted", going.name),
            )),
            (several, _, envelope) => {
                let names: Vec<&str> = several.iter().map(|work| work.name.as_str()).collect();
                let envelope = envelope.as_ref().map(EnvelopeRef::to_string).unwrap_or_default();
                let message = format!(
                    "Multiple Work objects ([{}]) found for envelope {envelope} in namespace {}; \
                     delete all but the oldest to recover",
                    names.join(" "),
                    seen.binding.member_namespace()
                );
                self.events.push(Event::warning(DUPLICATE_ENVELOPE_WORKS, message));
                Err(PassError::unexpected(
                    Stage::Sync,
                    format!(
                        "{} work objects found for the same envelope {envelope}, only one expected",
                        several.len()
                    ),
                ))
            }
        }
    }

    /// Gives Works that are not written anyway the strategies and the policy of today.
    fn steer(&mut self, seen: &Observed) {
        for work in seen.live_works() {
            if self.writes.iter().any(|write| write.name() == work.name) {
                continue;
            }
            let name = work.name.clone();
            let strategies = strategies(seen, Some(work));
            let to_abandon = outlives(seen, Some(work));
            if !strategies.are_those_of(work) {
                self.writes.push(Write::Steer { name, strategies, to_abandon });
            } else if to_abandon != work.to_abandon {
                self.writes.push(Write::Note {
                    name,
                    stamp: Stamp::clone(&work.stamp),
                    to_abandon,
                });
            }
        }
    }
}

/// What every Work of the group must say of itself.
struct Goal {
    index: SnapshotIndex,
    stamp: Stamp,
}

impl Goal {
    fn of(seen: &Observed, cluster: &Cluster, group: &Group<'_>) -> Result<Self, PassError> {
        let unhashable =
            |error: serde_json::Error| PassError::unexpected(Stage::Override, error.to_string());
        let spec = &seen.binding.spec;
        let stamp = Stamp {
            index: Some(group.index.to_string()),
            snapshot: Some(spec.resource_snapshot_name.clone()),
            overrides: Some(hash::of_list(&spec.resource_override_snapshots).map_err(unhashable)?),
            cluster_overrides: Some(
                hash::of_list(&spec.cluster_resource_override_snapshots).map_err(unhashable)?,
            ),
            inputs: inputs_hash(seen, cluster),
            manifests: None,
        };
        Ok(Self { index: group.index, stamp })
    }

    /// Whether a Work says that it carries the right things, and nothing beyond its reach.
    fn is_met_by(&self, work: &Work) -> bool {
        let stamp = &work.stamp;
        !work.escapes
            && self.is_met_in_public_by(stamp)
            && (self.stamp.inputs.is_none() || self.stamp.inputs == stamp.inputs)
    }

    /// Whether a hub that knows nothing of our own annotations would leave the Work alone.
    fn is_met_in_public_by(&self, stamp: &Stamp) -> bool {
        let index = stamp.index.as_deref().and_then(|text| text.parse().ok());
        index == Some(self.index)
            && stamp.overrides == self.stamp.overrides
            && stamp.cluster_overrides == self.stamp.cluster_overrides
    }
}

/// Without the master nothing can be written; what carries it already is good enough.
fn without_master(seen: &Observed) -> Result<End, PassError> {
    let binding = &seen.binding;
    let named = &binding.spec.resource_snapshot_name;
    let carries = |work: &Work| match (&work.stamp.snapshot, &work.stamp.index) {
        (Some(snapshot), _) => snapshot == named,
        (None, Some(index)) => index
            .parse()
            .is_ok_and(|index: SnapshotIndex| master_snapshot(&binding.placement, index) == *named),
        (None, None) => false,
    };
    if seen.live_works().next().is_some() && seen.live_works().all(carries) {
        return Ok(End::Known);
    }
    let gone = || PassError::user(Stage::Override, "the master resource snapshot is not found");
    if named.is_empty() {
        return Err(gone());
    }
    let Some(content) = &seen.content else {
        let snapshots = vec![named.clone()];
        return Ok(End::Asks(Reads { snapshots, ..Reads::default() }));
    };
    let held = content.snapshots.get(named).ok_or_else(gone)?;
    if held.placement.as_ref() == Some(&binding.placement) {
        return Ok(End::Lags);
    }
    let key = binding.sibling(named);
    let cause = format!("resource snapshot {key} has an invalid CRP tracking label");
    Err(PassError::unexpected(Stage::Override, cause))
}

fn reads(seen: &Observed, group: &Group<'_>) -> Reads {
    Reads {
        snapshots: group.snapshots.iter().map(|(snapshot, _)| snapshot.name.clone()).collect(),
        cluster_overrides: seen.binding.spec.cluster_resource_override_snapshots.clone(),
        overrides: seen.binding.spec.resource_override_snapshots.clone(),
    }
}

/// The write that makes a Work carry the manifests.
fn write(
    seen: &Observed,
    goal: &Goal,
    wanted: &Wanted,
    found: Option<&Work>,
    manifests: Vec<RawJson>,
) -> Write {
    let mut stamp = goal.stamp.clone();
    stamp.manifests = stamp.inputs.is_some().then(|| manifests_hash(&manifests));
    let (strategies, to_abandon) = (strategies(seen, found), outlives(seen, found));
    let Some(work) = found else {
        return Write::Create(Box::new(fresh(
            seen, wanted, stamp, manifests, strategies, to_abandon,
        )));
    };
    let name = work.name.clone();
    let same = stamp.manifests.is_some() && stamp.manifests == work.stamp.manifests;
    if same
        && !work.escapes
        && strategies.are_those_of(work)
        && goal.is_met_in_public_by(&work.stamp)
    {
        return Write::Note { name, stamp, to_abandon };
    }
    Write::Update { name, stamp, manifests, strategies, to_abandon }
}

fn fresh(
    seen: &Observed,
    wanted: &Wanted,
    stamp: Stamp,
    manifests: Vec<RawJson>,
    strategies: Strategies,
    to_abandon: bool,
) -> NewWork {
    let binding = &seen.binding;
    let mut labels = stamp.labels();
    let mut label = |key: &str, value: &str| labels.insert(key.to_owned(), value.to_owned());
    label(label::PARENT_BINDING, &binding.name);
    label(label::PARENT_PLACEMENT, &binding.placement);
    if let Some(namespace) = &binding.namespace {
        label(label::PARENT_PLACEMENT_NAMESPACE, namespace);
    }
    if let Some(envelope) = &wanted.envelope {
        label(label::ENVELOPE_TYPE, envelope.kind.as_str());
        label(label::ENVELOPE_NAME, &envelope.key.name);
        if let Some(namespace) = &envelope.key.namespace {
            label(label::ENVELOPE_NAMESPACE, namespace);
        }
    }
    let mut annotations = stamp.annotations();
    if to_abandon {
        annotations.insert(own::DELETE_POLICY.to_owned(), ABANDON.to_owned());
    }
    NewWork {
        namespace: binding.member_namespace(),
        name: wanted.name.clone(),
        labels,
        annotations,
        spec: WorkSpec {
            workload: WorkloadTemplate { manifests },
            apply_strategy: strategies.apply_strategy,
            report_back_strategy: strategies.report_back_strategy,
        },
    }
}

/// The strategies of today. What nobody knows stays as it is.
fn strategies(seen: &Observed, found: Option<&Work>) -> Strategies {
    let report_back_strategy = match &seen.placement {
        Some(placement) => placement.report_back.clone(),
        None => found.and_then(|work| work.report_back.clone()),
    };
    Strategies { apply_strategy: seen.binding.spec.apply_strategy.clone(), report_back_strategy }
}

fn outlives(seen: &Observed, found: Option<&Work>) -> bool {
    match &seen.placement {
        Some(placement) => placement.abandons,
        None => found.is_some_and(|work| work.to_abandon),
    }
}

/// An envelope as the labels of its Work tell it.
fn labels_of(envelope: &EnvelopeRef) -> EnvelopeIdentifier {
    EnvelopeIdentifier {
        name: envelope.key.name.clone(),
        namespace: envelope.key.namespace.clone().unwrap_or_default(),
        r#type: Some(match envelope.kind {
            EnvelopeKind::Cluster => EnvelopeType::ClusterResourceEnvelope,
            EnvelopeKind::Namespaced => EnvelopeType::ResourceEnvelope,
        }),
    }
}
