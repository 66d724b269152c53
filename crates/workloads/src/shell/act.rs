//! Carries plans out through the server's own in-process API, and sorts what goes wrong.

use std::sync::Arc;

use flagship_apiserver::rest::{DeleteOptions, Local, PatchKind, Propagation, WriteOptions};
use flagship_base::machinery::status::ApiError;
use jiff::Timestamp;
use serde_json::Value;

use crate::events::{Record, Recorder};
use crate::gc::amend_object;
use crate::object::{Fields, set};
use crate::plan::{self, Action, Note, Target};
use crate::work_counters::WorkCounters;

/// What to do about a plan that could not be carried out to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ActionError {
    /// The fixture has moved: look again.
    LookAgain,
    /// The server cannot answer now: try later.
    TryLater,
    /// The server will not have it: tell the controller, which tells its user.
    Refused(String),
}

/// What writes for the controllers of one cluster.
pub(super) struct ClusterWriter {
    pub local: Local,
    pub recorder: Recorder,
    pub effort: Arc<WorkCounters>,
    /// Events that could not be written, which nobody waits for.
    pub lost_events: u64,
}

impl ClusterWriter {
    /// Does everything in order, up to the first that fails.
    pub async fn carry_out(
        &mut self,
        actions: Vec<Action>,
        now: Timestamp,
    ) -> Result<(), ActionError> {
        for action in actions {
            self.act(action, now).await?;
        }
        Ok(())
    }

    async fn act(&mut self, action: Action, now: Timestamp) -> Result<(), ActionError> {
        if !matches!(action, Action::Say(_)) {
            self.effort.write();
        }
        match action {
            Action::Create { resource, object, then, refused } => {
                self.create(resource, object, then, refused, now).await
            }
            Action::Replace { resource, object } => {
                settled(self.local.update(&resource, object).await)
            }
            Action::Merge { target, version, mut patch } => {
                let Target { resource, namespace, name, uid } = &target;
                for (field, precondition) in [("uid", uid), ("resourceVersion", &version)] {
                    set(&mut patch, &["metadata", field], Value::String(precondition.clone()));
                }
                let (kind, options) = (PatchKind::Merge, WriteOptions::default());
                let local = &self.local;
                settled(local.patch(resource, namespace, name, "", kind, patch, &options).await)
            }
            Action::ReplaceStatus { resource, object } => {
                settled(self.local.update_status(resource, object).await)
            }
            Action::Finalize { object } => settled(self.local.finalize_namespace(object).await),
            Action::Delete { target, propagation, grace, then } => {
                let options = DeleteOptions {
                    grace_period_seconds: grace,
                    propagation: Some(policy(propagation)),
                    uid: Some(target.uid),
                    ..DeleteOptions::default()
                };
                let (space, name) = (&target.namespace, &target.name);
                match self.local.delete(&target.resource, space, name, options).await {
                    Ok(_) => {
                        if let Some(note) = then {
                            self.say(&note, now).await;
                        }
                        Ok(())
                    }
                    // Gone, or another object of the name: either way ours is no more.
                    Err(error) if error.code == 404 => Ok(()),
                    Err(error) => Err(sort(error)),
                }
            }
            Action::Bind { target, node } => {
                let bound = self.local.bind_pod(&target.namespace, &target.name, &node).await;
                bound.map_err(sort)
            }
            Action::Amend { target, amendment } => self.amend(&target, &amendment).await,
            Action::Say(note) => {
                self.say(&note, now).await;
                Ok(())
            }
        }
    }

    async fn create(
        &mut self,
        resource: &str,
        object: Value,
        then: Option<Note>,
        refused: Option<Note>,
        now: Timestamp,
    ) -> Result<(), ActionError> {
        let space = object.namespace().to_owned();
        match self.local.create(resource, &space, object).await {
            Ok(made) => {
                if let Some(mut note) = then {
                    note.message = note.message.replace("{name}", made.name());
                    self.say(&note, now).await;
                }
                Ok(())
            }
            Err(error) if error.reason == "AlreadyExists" => Ok(()),
            Err(error) => {
                let failed = sort(error);
                if let (ActionError::Refused(why), Some(mut note)) = (&failed, refused) {
                    note.message.push_str(why);
                    self.say(&note, now).await;
                }
                Err(failed)
            }
        }
    }

    async fn amend(&self, target: &Target, amendment: &plan::Amendment) -> Result<(), ActionError> {
        let found = self.local.get(&target.resource, &target.namespace, &target.name).await;
        let mut object = match found {
            Ok(object) if object.uid() == target.uid => object,
            Ok(_) => return Ok(()),
            Err(error) if error.code == 404 => return Ok(()),
            Err(error) => return Err(sort(error)),
        };
        let before = object.clone();
        amend_object(&mut object, amendment);
        if object == before {
            return Ok(());
        }
        match self.local.update(&target.resource, object).await {
            Err(error) if error.code == 404 => Ok(()),
            other => settled(other),
        }
    }

    /// Records an event. Nobody waits for one: a lost event is counted and forgotten.
    async fn say(&mut self, note: &Note, now: Timestamp) {
        self.effort.event();
        let written = match self.recorder.record(note, now) {
            Record::Create(event) => {
                let space = event.namespace().to_owned();
                self.local.create("events", &space, event).await
            }
            Record::Count { namespace, name, patch } => {
                let options = WriteOptions::default();
                let kind = PatchKind::Merge;
                let counted =
                    self.local.patch("events", &namespace, &name, "", kind, patch, &options).await;
                match (counted, self.recorder.recreate(note, now)) {
                    (Err(error), Some(event)) if error.code == 404 => {
                        self.local.create("events", &namespace, event).await
                    }
                    (counted, _) => counted,
                }
            }
        };
        if let Err(error) = written {
            self.lost_events += 1;
            tracing::debug!(%error, reason = note.reason, "an event was lost");
        }
        // One may go for each that comes, and another to catch up.
        for _ in 0..2 {
            let Some((namespace, name)) = self.recorder.expired(now) else { break };
            let options = DeleteOptions::default();
            if let Err(error) = self.local.delete("events", &namespace, &name, options).await {
                tracing::debug!(%error, name, "an old event could not be removed");
            }
        }
    }
}

fn settled(outcome: Result<Value, ApiError>) -> Result<(), ActionError> {
    outcome.map(|_| ()).map_err(sort)
}

fn sort(error: ApiError) -> ActionError {
    match error.code {
        404 | 409 => ActionError::LookAgain,
        0 | 429 | 500.. => ActionError::TryLater,
        _ => ActionError::Refused(error.message),
    }
}

fn policy(propagation: plan::Propagation) -> Propagation {
    match propagation {
        plan::Propagation::Background => Propagation::Background,
        plan::Propagation::Foreground => Propagation::Foreground,
        plan::Propagation::Orphan => Propagation::Orphan,
    }
}
