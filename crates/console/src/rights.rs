//! What the caller may do, asked of the hub by SelfSubjectAccessReview before anybody clicks.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use flagship_api::approval::{ApprovalRequest, ClusterApprovalRequest};
use flagship_api::approval_decision::{Approval, ClusterApproval, Person};
use flagship_api::staged_update::{ClusterStagedUpdateRun, StagedUpdateRun};
use flagship_runtime::client::{Client, ClientError, ResourceType};
use flagship_runtime::whoami;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use tokio::time::Instant;

/// How long an answer holds: roles change without telling anybody.
const FRESH: Duration = Duration::from_secs(30);

/// One thing somebody may or may not do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    verb: &'static str,
    resource: ResourceType,
    subresource: &'static str,
    namespace: Option<String>,
}

impl Right {
    fn new(verb: &'static str, kinds: [ResourceType; 2], namespace: Option<&str>) -> Self {
        let [wide, narrow] = kinds;
        let resource = if namespace.is_some() { narrow } else { wide };
        Self { verb, resource, subresource: "", namespace: namespace.map(str::to_owned) }
    }

    /// To approve.
    pub fn approve(namespace: Option<&str>) -> Self {
        let kinds =
            [ResourceType::of::<ClusterApprovalRequest>(), ResourceType::of::<ApprovalRequest>()];
        Self { subresource: "status", ..Self::new("patch", kinds, namespace) }
    }

    /// To say yes or no where a policy counts who does.
    pub fn decide(namespace: Option<&str>) -> Self {
        let kinds = [ResourceType::of::<ClusterApproval>(), ResourceType::of::<Approval>()];
        Self::new("create", kinds, namespace)
    }

    /// To stop and resume runs.
    pub fn change_run(namespace: Option<&str>) -> Self {
        Self::new("patch", runs(), namespace)
    }

    /// To start runs.
    pub fn create_run(namespace: Option<&str>) -> Self {
        Self::new("create", runs(), namespace)
    }

    /// What is missing, as a role would have to grant it.
    fn told(&self) -> String {
        let sub = if self.subresource.is_empty() { "" } else { "/" };
        let place = match &self.namespace {
            Some(namespace) => format!(" in namespace {namespace}"),
            None => String::new(),
        };
        format!(
            "You lack the right to {} {}{sub}{} ({}){place}.",
            self.verb, self.resource.plural, self.subresource, self.resource.group
        )
    }

    async fn ask(&self, client: &Client) -> Result<bool, ClientError> {
        let attributes = ResourceAttributes {
            verb: Some(self.verb.to_owned()),
            group: Some(self.resource.group.clone()),
            version: Some(self.resource.version.clone()),
            resource: Some(self.resource.plural.clone()),
            subresource: Some(self.subresource.to_owned()).filter(|sub| !sub.is_empty()),
            namespace: self.namespace.clone(),
            ..ResourceAttributes::default()
        };
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let answer = client.of::<SelfSubjectAccessReview>().create(&review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}

fn runs() -> [ResourceType; 2] {
    [ResourceType::of::<ClusterStagedUpdateRun>(), ResourceType::of::<StagedUpdateRun>()]
}

/// What is known so far of what the caller may do.
#[derive(Debug, Default)]
pub struct Rights {
    known: Mutex<BTreeMap<Right, Known>>,
    /// The caller as the hub knows them; nothing until somebody has asked.
    person: Mutex<Option<Viewer>>,
    /// Why nobody may do anything here.
    read_only: Option<&'static str>,
}

#[derive(Clone, Debug, Default)]
struct Viewer {
    asked: Option<Instant>,
    person: Person,
}

#[derive(Clone, Debug)]
struct Known {
    asked: Option<Instant>,
    /// Nothing until the hub has answered.
    missing: Option<String>,
}

impl Rights {
    /// Those of somebody who may look and nothing else, for this reason.
    pub fn read_only(why: Option<&'static str>) -> Self {
        Self { read_only: why, ..Self::default() }
    }

    /// What is missing for this; empty if nothing is. Whoever asks is answered from memory,
    /// and [`Rights::refresh`] asks the hub.
    pub fn missing(&self, right: &Right) -> String {
        if let Some(why) = self.read_only {
            return why.to_owned();
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let unknown = Known { asked: None, missing: None };
        let known = known.entry(right.clone()).or_insert(unknown);
        known.missing.clone().unwrap_or_else(|| "Your rights are being checked.".to_owned())
    }

    /// The caller, with groups; nobody until the hub has answered. Answered from memory, too.
    pub fn person(&self) -> Person {
        let mut known = self.person.lock().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert_default().person.clone()
    }

    /// Asks again who the caller is, if somebody wanted to know. Says whether that is new.
    async fn refresh_person(&self, client: &Client) -> bool {
        let is_due = |viewer: &&mut Viewer| viewer.asked.is_none_or(|at| at.elapsed() > FRESH);
        {
            let mut known = self.person.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(viewer) = known.as_mut().filter(is_due) else { return false };
            viewer.asked = Some(Instant::now());
        }
        let Some(person) = whoami::person(client).await else { return false };
        let mut known = self.person.lock().unwrap_or_else(PoisonError::into_inner);
        let viewer = known.get_or_insert_default();
        let is_new = viewer.person != person;
        viewer.person = person;
        is_new
    }

    /// Asks the hub about everything somebody wanted to know and nobody has asked of late.
    /// Says whether an answer is new.
    pub async fn refresh(&self, client: &Client) -> bool {
        let due: Vec<Right> = {
            let now = Instant::now();
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let is_due = |known: &Known| known.asked.is_none_or(|at| now - at > FRESH);
            let due = known.iter_mut().filter(|(_, known)| is_due(known));
            due.map(|(right, known)| {
                known.asked = Some(now);
                right.clone()
            })
            .collect()
        };
        let mut news = self.refresh_person(client).await;
        for right in due {
            let missing = match right.ask(client).await {
                Ok(true) => String::new(),
                Ok(false) => right.told(),
                // Whoever cannot be asked decides at the click.
                Err(error) => {
                    tracing::debug!(%error, "cannot ask for rights");
                    String::new()
                }
            };
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = known.get_mut(&right) {
                news |= known.missing.as_ref() != Some(&missing);
                known.missing = Some(missing);
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use http::Response;
    use http_body_util::Full;
    use serde_json::json;

    use super::*;

    /// A hub that lets the caller create and nothing else.
    fn hub() -> Client {
        Client::in_process(tower::service_fn(|request: http::Request<kube::client::Body>| async {
            use http_body_util::BodyExt;
            let body = request.into_body().collect().await.map(|body| body.to_bytes());
            let asked: serde_json::Value = serde_json::from_slice(&body.unwrap()).unwrap();
            let allowed = asked["spec"]["resourceAttributes"]["verb"] == "create";
            let answer = json!({"apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview", "metadata": {}, "spec": asked["spec"],
                "status": {"allowed": allowed}});
            let answer = Full::new(Bytes::from(answer.to_string()));
            Ok::<_, Infallible>(Response::builder().status(201).body(answer).unwrap())
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_missing_is_named_as_a_role_would_grant_it() {
        let (rights, hub) = (Rights::default(), hub());
        let (approve, stop) = (Right::approve(None), Right::change_run(Some("shop")));
        let start = Right::create_run(None);
        assert_eq!(rights.missing(&approve), "Your rights are being checked.");
        let asked = [&approve, &stop, &start].map(|right| rights.missing(right));
        assert!(asked.iter().all(|missing| !missing.is_empty()));
        assert!(rights.refresh(&hub).await);
        assert_eq!(
            rights.missing(&approve),
            "You lack the right to patch clusterapprovalrequests/status (placement.kubernetes-fleet.io)."
        );
        assert_eq!(
            rights.missing(&stop),
            "You lack the right to patch stagedupdateruns (placement.kubernetes-fleet.io) in namespace shop."
        );
        assert_eq!(rights.missing(&start), "");
        // Answers hold for a while, and are asked for again after it.
        assert!(!rights.refresh(&hub).await);
        tokio::time::advance(FRESH * 2).await;
        assert!(!rights.refresh(&hub).await, "nothing is new");
    }
}
