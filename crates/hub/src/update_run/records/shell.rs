//! Adds entries to a record, begins one, goes on in a further object, removes old ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_api::keys::{label, own};
use flagship_api::names::ObjectKey;
use flagship_api::rollout_record::{Follows, RecordEntry, RecordedRun, RolloutRecordSpec, Who};
use flagship_base::names::label_value;
use flagship_rules::record::chain::{begun, has_room, next_part, sealed};
use flagship_rules::record::retention::{self, Checkpoint};
use flagship_rules::record::{Asked, EntryDraft, Head, Recording, who};
use flagship_rules::update_run;
use flagship_runtime::client::{ClientError, Precondition, Propagation, ResourceType};
use flagship_runtime::effects::{Kind, Made, Writer};
use flagship_runtime::error_action::Failure;
use futures::future::try_join;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use kube_core::metadata::PartialObjectMeta;
use serde_json::json;

use super::{Kept, Recorded, Records, metadata_of, parts, without_entries};
use crate::hub::Context;
use crate::mirrors::ScopeMirrors;
use crate::per_placement::PlacedKey;
use crate::scope::Scoped;

/// Old records that go at once; the rest goes with the next runs.
const REMOVED_AT_ONCE: usize = 20;

impl Records {
    /// Adds entries, over the version of the record that was read.
    pub async fn write<S: Scoped>(
        &self,
        cx: &Context,
        scope: &ScopeMirrors,
        writer: &Writer<'_, PlacedKey>,
        run: &update_run::Run,
        recording: Recording,
    ) -> Result<(), Failure> {
        let written = self.add::<S>(cx, scope, writer, run, recording).await;
        if written.is_err() {
            // Somebody wrote first, or nobody knows whether this was written.
            self.forget(&run.uid);
        }
        written
    }

    async fn add<S: Scoped>(
        &self,
        cx: &Context,
        scope: &ScopeMirrors,
        writer: &Writer<'_, PlacedKey>,
        run: &update_run::Run,
        recording: Recording,
    ) -> Result<(), Failure> {
        let read = Precondition {
            key: run.beside(&run.name),
            uid: run.uid.clone(),
            resource_version: run.resource_version.clone(),
        };
        let Some(kept) = self.of::<S>(cx, &read, false).await? else {
            return Err(Failure::reread("rollout records are no longer installed"));
        };
        let named = with_names::<S>(cx, run, recording.drafts);
        let (drafts, mut known) = match (&kept.last, &kept.others) {
            (Some(_), _) => (named.await?, Vec::new()),
            (None, Some(others)) => (named.await?, others.clone()),
            (None, None) => {
                let others = async { Ok(metadata_of::<S>(cx, run.namespace.as_deref()).await?) };
                try_join(named, others).await?
            }
        };
        let (last, head) = match &kept.last {
            Some((at, last)) => (Some((at.clone(), last.clone())), kept.head.clone()),
            None => {
                let head = recording.head.unwrap_or_default();
                (None, self.head::<S>(cx, run, &known, head).await?)
            }
        };
        let more = sealed(&head, kept.entries.last(), drafts, cx.env.now());
        let begins = last.is_none();
        let last = match last {
            Some((at, mut part)) if has_room(&part, &more) => {
                part.entries.extend(more.iter().cloned());
                let patch = json!({"spec": {"entries": part.entries}});
                let written = writer.patch::<S::Record>(&at, patch).await?;
                (Precondition::of(&written).unwrap_or(at), part)
            }
            full => {
                let part = full.map_or_else(|| head.clone(), |(_, part)| next_part(&part));
                let (made, part) = create::<S>(cx, writer, run, part, &more).await?;
                let at = Precondition::of(&made);
                let at = at.ok_or_else(|| Failure::reread("the record has no version"))?;
                known.push(made.metadata);
                (at, part)
            }
        };
        let mut entries = (*kept.entries).clone();
        entries.extend(more);
        let entries = Arc::new(entries);
        let kept = Kept { entries, head: without_entries(&head), last: Some(last), others: None };
        self.remember(&run.uid, Arc::new(kept));
        if begins && let Err(error) = remove_old::<S>(cx, scope, writer, run, &known).await {
            // The run does not wait for it, and the next one tries again.
            tracing::warn!(run = run.name, "old rollout records were not removed: {error}");
        }
        Ok(())
    }

    /// How the record of a run begins: after the last one of its placement.
    async fn head<S: Scoped>(
        &self,
        cx: &Context,
        run: &update_run::Run,
        known: &[ObjectMeta],
        head: Head,
    ) -> Result<RolloutRecordSpec, Failure> {
        let of_placement = known.iter().filter(|meta| {
            let labels = meta.labels.as_ref();
            labels.and_then(|labels| labels.get(label::PARENT_PLACEMENT))
                == Some(&run.spec.placement_name)
                && retention::run_of(meta) != Some(&run.uid)
        });
        let newest =
            of_placement.max_by_key(|meta| (meta.creation_timestamp.clone(), meta.name.clone()));
        let mut follows = None;
        if let Some(uid) = newest.and_then(retention::run_of) {
            let before = parts::<S>(cx, run.namespace.as_deref(), uid).await?;
            let last = before.iter().flat_map(|(_, part)| &part.entries).next_back();
            follows = before.first().zip(last).map(|((_, first), last)| Follows {
                run: first.run.name.clone(),
                uid: first.run.uid.clone(),
                hash: last.hash.clone(),
            });
        }
        let recorded = RecordedRun { name: run.name.clone(), uid: run.uid.clone() };
        Ok(begun(recorded, follows, head))
    }
}

/// Creates a part with its first entries. Runs are often named `web-2`, which is also how the
/// second part of the record of `web` is called, and names of runs come back: where the name
/// is taken the UID makes another.
async fn create<S: Scoped>(
    cx: &Context,
    writer: &Writer<'_, PlacedKey>,
    run: &update_run::Run,
    mut part: RolloutRecordSpec,
    entries: &[RecordEntry],
) -> Result<(PartialObjectMeta<S::Record>, RolloutRecordSpec), Failure> {
    part.entries = entries.to_vec();
    let suffix = if part.part == 1 { String::new() } else { format!("-{}", part.part) };
    let short: String = run.uid.chars().take(8).collect();
    let names = [format!("{}{suffix}", run.name), format!("{}-{short}{suffix}", run.name)];
    for name in names {
        // A Kubernetes owner takes what it owns with it; a record outlives its run, so the
        // run is named by its UID and owns nothing.
        let follows = part.follows.as_ref().map(|follows| follows.uid.as_str());
        let labels = [
            (own::UPDATE_RUN_UID, Some(run.uid.as_str())),
            (label::TARGET_UPDATE_RUN, Some(run.name.as_str())),
            (label::PARENT_PLACEMENT, Some(run.spec.placement_name.as_str())),
            (own::FOLLOWS_UID, follows),
        ];
        // A name too long for a label must not keep the record from being written.
        let labels = labels.into_iter().filter_map(|(key, value)| {
            let value = value.filter(|value| label_value(value).is_empty())?;
            Some((key.to_owned(), value.to_owned()))
        });
        let labels: BTreeMap<String, String> = labels.collect();
        let metadata = ObjectMeta {
            name: Some(name),
            namespace: run.namespace.clone(),
            labels: Some(labels),
            ..ObjectMeta::default()
        };
        let key = run.beside(metadata.name.as_deref().unwrap_or_default());
        let object = S::Record::new(metadata, part.clone());
        if let Made::New(made) = writer.create(&object).await? {
            return Ok((made, part));
        }
        // Another hub that leads, too, may have begun the very part.
        let there = cx.client.of::<S::Record>().find(&key).await?;
        if there.is_some_and(|there| there.spec().run.uid == run.uid) {
            break;
        }
    }
    Err(Failure::reread(format!("a rollout record of {} exists already", run.name)))
}

/// Finds out who is behind each draft.
async fn with_names<S: Scoped>(
    cx: &Context,
    run: &update_run::Run,
    drafts: Vec<EntryDraft>,
) -> Result<Vec<(EntryDraft, Option<Who>)>, Failure> {
    let mut named = Vec::with_capacity(drafts.len());
    for draft in drafts {
        let who = match &draft.who {
            Asked::Hub => None,
            Asked::Known(who) => Some(who.clone()),
            Asked::Creator => {
                Some(wrote::<S::UpdateRun>(cx, &run.beside(&run.name), &who::CREATED).await?)
            }
            Asked::State => {
                Some(wrote::<S::UpdateRun>(cx, &run.beside(&run.name), &who::STATE).await?)
            }
            Asked::Approval(request) => {
                Some(wrote::<S::ApprovalRequest>(cx, &run.beside(request), &who::APPROVED).await?)
            }
        };
        named.push((draft, who));
    }
    Ok(named)
}

/// Who wrote a field last, as the server remembers it.
async fn wrote<K: Kind>(cx: &Context, key: &ObjectKey, path: &[&str]) -> Result<Who, Failure> {
    let objects = cx.client.of_type::<PartialObjectMeta<K>>(ResourceType::of::<K>());
    let found = objects.metadata_only().find(key).await?;
    let fields = found.and_then(|found| found.meta().managed_fields.clone()).unwrap_or_default();
    Ok(who::wrote(&fields, path))
}

/// Removes what of the known records retention no longer keeps; whoever follows it is told so
/// first.
async fn remove_old<S: Scoped>(
    cx: &Context,
    scope: &ScopeMirrors,
    writer: &Writer<'_, PlacedKey>,
    run: &update_run::Run,
    known: &[ObjectMeta],
) -> Result<(), ClientError> {
    let known: Vec<&ObjectMeta> = known.iter().collect();
    let under_way = |uid: &str| {
        uid == run.uid || scope.runs.with_uid(uid).is_some_and(|known| !known.rival.ended)
    };
    let (now, kept) = (cx.env.now(), cx.options.record_retention);
    for uid in retention::expired(&known, kept, under_way, now).iter().take(REMOVED_AT_ONCE) {
        let old = parts::<S>(cx, run.namespace.as_deref(), uid).await?;
        for follower in retention::followers(&known, uid) {
            let name = follower.name.as_deref().unwrap_or_default();
            let found = cx.client.of::<S::Record>().find(&run.beside(name)).await?;
            let Some(found) = found else { continue };
            let Some(at) = Precondition::of(&found) else { continue };
            let follows = found.spec().follows.map(|follows| follows.hash).unwrap_or_default();
            // A link that was broken before is not made good.
            let mut entries = old.iter().flat_map(|(_, part)| &part.entries);
            if entries.any(|entry| entry.hash == follows) {
                let checkpoint = Checkpoint { uid: uid.clone(), hash: follows, removed: now };
                let text = serde_json::to_string(&checkpoint).unwrap_or_default();
                let patch = json!({"metadata": {"annotations": {own::RECORD_CHECKPOINT: text}}});
                writer.patch::<S::Record>(&at, patch).await?;
            }
        }
        for (at, _) in old.iter().rev() {
            tracing::info!(record = %at.key, "removing an old rollout record");
            writer.delete::<S::Record>(at, Propagation::Background).await?;
        }
    }
    Ok(())
}
