//! Looks into objects that do not become available, and says on the Work why.
//!
//! People need no access to a member then. Only that annotation is written here; whatever
//! cannot be read or written is left for the next pass, and never ends this one.

use flagship_api::keys::own;
use flagship_api::names::ObjectKey;
use flagship_api::work::{Work, WorkStatus};
use flagship_rules::apply::Outcome;
use flagship_rules::diagnosis::report::{self, Reported};
use flagship_rules::diagnosis::{self, diagnose};
use flagship_rules::policy::checks::jobs::is_check;
use flagship_runtime::client::{ClientError, Precondition, ResourceType, Selection};
use futures::stream::{self, StreamExt};
use serde_json::{Value, json};

use super::{AT_ONCE, Shell};

impl Shell {
    /// Renews the causes on a Work, of which this is the version just read or written.
    pub(super) async fn tell_causes(
        &self,
        key: &ObjectKey,
        work: &Work,
        status: &WorkStatus,
        outcomes: &[Outcome],
    ) {
        let looks = report::worth_a_look(outcomes, status, self.cx.env.now());
        let looks: Vec<_> = looks.into_iter().map(|outcome| self.cause_of(outcome)).collect();
        let found: Vec<_> = stream::iter(looks).buffered(AT_ONCE).collect().await;
        let found: Result<Vec<Option<Reported>>, ClientError> = found.into_iter().collect();
        let found = match found {
            Ok(found) => found.into_iter().flatten().collect::<Vec<_>>(),
            Err(error) => {
                tracing::debug!(work = %key, %error, "cannot look into what is not available");
                return;
            }
        };
        let notes = work.metadata.annotations.as_ref();
        let current = notes.and_then(|notes| notes.get(own::FAILURE_CAUSES)).map(String::as_str);
        let (Some(change), Some(fence)) = (report::change(current, &found), Precondition::of(work))
        else {
            return;
        };
        let patch = json!({"metadata": {"annotations": {own::FAILURE_CAUSES: change}}});
        if let Err(error) = self.hub(key).patch::<Work>(&fence, patch).await {
            tracing::debug!(work = %key, %error, "cannot say why objects are not available");
        }
    }

    /// Why an object is not available, if its pods or events tell.
    async fn cause_of(&self, outcome: &Outcome) -> Result<Option<Reported>, ClientError> {
        let (of, Some(live)) = (&outcome.identifier, &outcome.live) else { return Ok(None) };
        let pods = match diagnosis::selector(live) {
            Some(labels) => {
                let selection = Selection::namespace(&of.namespace).with_labels(labels);
                self.on_member("pods", "Pod", &selection).await?
            }
            None => Vec::new(),
        };
        let ended = if is_check(live) { diagnosis::of_check(&pods) } else { None };
        let found = match ended.or_else(|| diagnose(&pods, &[])) {
            Some(found) => Some(found),
            // Without a troubled pod, events tell who refuses to let one be made.
            None => {
                let everything = Selection::namespace(&of.namespace);
                let mut events = self.on_member("events", "Event", &everything).await?;
                events.retain(|event| diagnosis::is_about(event, &of.name));
                diagnose(&[], &events)
            }
        };
        Ok(found.map(|found| Reported::of(of, &found)))
    }

    async fn on_member(
        &self,
        plural: &str,
        kind: &str,
        selection: &Selection,
    ) -> Result<Vec<Value>, ClientError> {
        let resource = ResourceType {
            group: String::new(),
            version: "v1".to_owned(),
            plural: plural.to_owned(),
            kind: kind.to_owned(),
        };
        Ok(self.cx.member.of_type::<Value>(resource).list(selection).await?.items)
    }
}
