//! One look at one Work: what it brings back is written to the selected objects on the hub.
//!
//! A member may write what it likes into the status of its Works, so nothing it says is
//! trusted further than it must be: only selected resources are touched, of exactly the
//! kind the placement selected, and only their status.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flagship_api::names::{ObjectKey, Scope};
use flagship_api::placement::{ClusterResourcePlacement, ResourcePlacement};
use flagship_api::work::Work;
use flagship_rules::work::back_report::{Copy, Gate, copies, gate};
use flagship_runtime::client::{ClientError, ResourceType};
use flagship_runtime::error_action::Failure;
use flagship_runtime::events::{EventType, Recorder};
use flagship_runtime::queue::Outcome;
use futures::stream::{self, StreamExt};
use kube_core::DynamicObject;

use super::REFUSED;
use crate::hub::Context;
use crate::mirrors::{Mirrors, Placement};
use crate::patches::reference;

/// Originals of one Work that are written at once.
const AT_ONCE: usize = 4;

/// Placements by UID and generation.
type Versions = BTreeMap<ObjectKey, (String, i64)>;

/// Carries statuses back.
pub(super) struct Shell {
    cx: Context,
    mirrors: Arc<Mirrors>,
    recorder: Recorder,
    /// Those that were told why nothing comes back.
    refused: Mutex<Versions>,
}

impl Shell {
    pub fn new(cx: Context, mirrors: Arc<Mirrors>, recorder: Recorder) -> Self {
        Self { cx, mirrors, recorder, refused: Mutex::default() }
    }

    /// One look at a Work.
    pub async fn pass(&self, key: ObjectKey) -> Outcome {
        let Some(kept) = self.mirrors.works.works.get(&key) else { return Outcome::Done };
        let Some((placement, owner)) = kept.value.placement.as_ref().zip(kept.value.owner()) else {
            let told = kept.value.placement.as_deref().unwrap_or_default();
            return Outcome::Error(Failure::give_up(format!(
                "the placement tracking label is absent or invalid (label value: {told})"
            )));
        };
        let placement_key = ObjectKey::new(owner.namespace.as_deref(), placement);
        let scope = self.mirrors.of(&placement_key);
        let Some(placement) = scope.and_then(|scope| scope.placements.get(&placement_key)) else {
            self.refused().remove(&placement_key);
            return Outcome::Done;
        };
        match gate(&placement.value.spec) {
            Gate::Closed => return Outcome::Done,
            Gate::Refused(why) => {
                self.refuse(&placement_key, &placement, &why);
                return Outcome::Done;
            }
            Gate::Open => {}
        }
        let work = match self.cx.client.of::<Work>().find(&key).await {
            Ok(Some(work)) => work,
            Ok(None) => return Outcome::Done,
            Err(error) => return Outcome::Error(error.into()),
        };
        let brought = copies(&work, &placement.value.status.selected_resources);
        let carried = stream::iter(brought).map(|copy| self.carry(copy)).buffered(AT_ONCE);
        let results: Vec<Result<(), String>> = carried.collect().await;
        let problems: Vec<String> = results.into_iter().filter_map(Result::err).collect();
        if problems.is_empty() {
            return Outcome::Done;
        }
        Outcome::Error(Failure::back_off(problems.join(", ")))
    }

    /// Tells the owner of a placement why nothing comes back: once, however often its
    /// members report, and again only if the placement changes.
    fn refuse(&self, key: &ObjectKey, placement: &Placement, why: &str) {
        let version = (placement.precondition.uid.clone(), placement.value.generation);
        if self.refused().insert(key.clone(), version.clone()) == Some(version) {
            return;
        }
        tracing::info!(placement = %key, why, "statuses do not come back");
        let (namespace, uid) = (key.namespace.as_deref(), &placement.precondition.uid);
        let about = match key.scope() {
            Scope::Cluster => reference::<ClusterResourcePlacement>(namespace, &key.name, uid),
            Scope::Namespaced => reference::<ResourcePlacement>(namespace, &key.name, uid),
        };
        self.recorder.note_about(about, EventType::Warning, REFUSED, why);
    }

    fn refused(&self) -> MutexGuard<'_, Versions> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn carry(&self, copy: Copy) -> Result<(), String> {
        let status = copy.status?;
        let to = copy.to;
        let unknown = |why: String| {
            format!("failed to retrieve the target resource for status back-reporting: {why}")
        };
        if !is_plural(&to.resource) {
            return Err(unknown(format!("{:?} is not the name of a resource", to.resource)));
        }
        let resource = ResourceType {
            group: to.group.clone(),
            version: to.version.clone(),
            plural: to.resource.clone(),
            kind: to.kind.clone(),
        };
        let api_version = resource.api_version();
        let objects = self.cx.client.of_type::<DynamicObject>(resource);
        let key = ObjectKey::new(Some(&to.namespace), &to.name);
        let mut object = objects.get(&key).await.map_err(|error| unknown(error.to_string()))?;
        // The member named the resource; the placement selected a kind.
        let found = object.types.clone().unwrap_or_default();
        if found.kind != to.kind || found.api_version != api_version {
            return Err(unknown(format!("{} holds no {}", to.resource, to.kind)));
        }
        if object.data.get("status") == Some(&status) {
            return Ok(());
        }
        object.data["status"] = status;
        if !self.cx.leadership.is_held() {
            return Ok(());
        }
        let written = objects.update_status(&object).await;
        written.map(drop).map_err(|error: ClientError| {
            format!("failed to update status to the target resource: {error}")
        })
    }
}

/// Whether a text can be the plural name of a kind, and nothing but one segment of a path.
fn is_plural(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    !text.is_empty()
        && text.chars().all(plain)
        && text.starts_with(|c: char| c.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plural_is_one_plain_segment() {
        assert!(is_plural("deployments") && is_plural("ingressclasses2"));
        for bad in ["", "pods/log", "..", "Deployments", "a?b", "a%2fb", "pods status"] {
            assert!(!is_plural(bad), "{bad}");
        }
    }
}
