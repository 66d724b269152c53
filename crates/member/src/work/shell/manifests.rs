//! The way of one manifest: does what each step says and hands the answer back.
//!
//! Which step comes next is decided in `flagship_rules::apply`. Every answer of the
//! member's API server is one, a refusal and a silence too.

use std::collections::BTreeSet;

use flagship_api::names::ObjectKey;
use flagship_api::work::{Work, WorkResourceIdentifier};
use flagship_rules::apply::{
    self, ApplyOptions, Manifest, Operation, Outcome, PatchStyle, Refusal, RefusalKind, Removal,
    Step,
};
use flagship_runtime::client::{Applying, ClientError, Manifests, Merge, Refused, ResourceType};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_core::metadata::PartialObjectMeta;
use serde_json::Value;

use super::Shell;
use crate::watching::Place;

impl Shell {
    /// Brings one manifest to the member, or compares it, as the terms say.
    pub(super) async fn bring(&self, manifest: &Manifest, terms: &ApplyOptions) -> Outcome {
        let (kind, key) = place(&manifest.identifier).unwrap_or_else(nowhere);
        let objects = self.cx.member.manifests(kind);
        let mut step = apply::begin(manifest, terms);
        loop {
            step = match step {
                Step::Done(outcome) => return *outcome,
                Step::Find(find) => find.answer(self.told(objects.find(&key).await).await),
                Step::FindWorks(question) => {
                    let existing = self.existing_works(&question.names).await;
                    question.answer(existing)
                }
                Step::DryRun(dry) => {
                    let how = Applying { force: true, dry_run: true };
                    let answer = objects.apply(&key, &dry.body, how).await;
                    dry.answer(self.told(answer).await)
                }
                Step::TakeOver(take) => {
                    let answer = objects.update(&key, &take.object).await;
                    take.answer(self.told(answer).await)
                }
                Step::Write(write) => {
                    let answer = carry_out(&objects, &key, &write.operation).await;
                    write.answer(self.told(answer).await)
                }
            };
        }
    }

    /// Deals with an object that no manifest asks for any more.
    pub(super) async fn remove_left_over(
        &self,
        left_over: &WorkResourceIdentifier,
        owner: &OwnerReference,
    ) -> Result<(), String> {
        let Some((kind, key)) = place(left_over) else { return Ok(()) };
        let objects = self.cx.member.manifests(kind);
        let live = match objects.find(&key).await {
            Ok(live) => live,
            // The kind is gone, and all its objects with it.
            Err(refused) if refused.code == 404 => return Ok(()),
            Err(refused) => return Err(refused.says),
        };
        let done = match apply::removal(live.as_ref(), owner) {
            Removal::Nothing => Ok(()),
            Removal::Disown(object) => objects.update(&key, &object).await.map(drop),
            Removal::Delete { uid } => objects.delete(&key, &uid).await,
        };
        match done {
            Err(refused) if refused.code != 404 => Err(apply::redacted(refused.says, &live)),
            _ => Ok(()),
        }
    }

    /// Those of the Works that exist on the hub, asked of the hub itself: a mirror that
    /// lags would have us take what belongs to a new Work.
    async fn existing_works(&self, names: &BTreeSet<String>) -> Result<BTreeSet<String>, Refusal> {
        let works = self.cx.hub.of_type(ResourceType::of::<Work>()).metadata_only();
        let mut existing = BTreeSet::new();
        for name in names {
            let key = ObjectKey::namespaced(&self.cx.space, name);
            let found: Result<Option<PartialObjectMeta<Work>>, ClientError> =
                works.find(&key).await;
            match found {
                Ok(Some(_)) => drop(existing.insert(name.clone())),
                Ok(None) => {}
                Err(error) => return Err(Refusal::new(RefusalKind::Other, error.to_string())),
            }
        }
        Ok(existing)
    }

    /// The answer as the rules want it.
    async fn told<T>(&self, answer: Result<T, Refused>) -> Result<T, Refusal> {
        match answer {
            Ok(good) => Ok(good),
            Err(refused) => {
                if matches!(refused.error, ClientError::NotServed { .. }) {
                    self.kinds.forget().await;
                }
                let kind = match refused.code {
                    422 => RefusalKind::Invalid,
                    409 => RefusalKind::Conflict,
                    _ => RefusalKind::Other,
                };
                Err(Refusal::new(kind, refused.says))
            }
        }
    }
}

async fn carry_out(
    objects: &Manifests,
    key: &ObjectKey,
    operation: &Operation,
) -> Result<Value, Refused> {
    match operation {
        Operation::Create { body } => objects.create(key, body).await,
        Operation::Patch { style, body } => {
            let merge = match style {
                PatchStyle::Strategic => Merge::Strategic,
                PatchStyle::Merge => Merge::Json,
            };
            objects.patch(key, merge, body).await
        }
        Operation::Apply { body, force } => {
            objects.apply(key, body, Applying { force: *force, dry_run: false }).await
        }
    }
}

/// Where the object of a manifest is; `None` until its kind is known.
pub(super) fn place(of: &WorkResourceIdentifier) -> Option<Place> {
    let WorkResourceIdentifier { group, version, kind, resource, namespace, name, .. } = of;
    if resource.is_empty() {
        return None;
    }
    let resource = ResourceType {
        group: group.clone(),
        version: version.clone(),
        plural: resource.clone(),
        kind: kind.clone(),
    };
    let namespace = Some(namespace.as_str()).filter(|namespace| !namespace.is_empty());
    Some((resource, ObjectKey::new(namespace, name)))
}

/// The place of a manifest in trouble, which is never looked at.
fn nowhere() -> Place {
    let nothing = String::new;
    let kind =
        ResourceType { group: nothing(), version: nothing(), plural: nothing(), kind: nothing() };
    (kind, ObjectKey::cluster(""))
}
