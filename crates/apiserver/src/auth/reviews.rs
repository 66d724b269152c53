//! Questions about rights and identities: kinds that are answered, never stored.

use http::HeaderMap;
use serde_json::{Value, json};

use super::{Access, Ask, Decision, Presented, User};
use crate::machinery::path::ObjectPath;
use crate::machinery::status::{ApiError, FieldError};
use crate::rest::ClusterHandle;

/// One kind of question, as discovery shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Review {
    /// API group; the version is `v1`.
    pub group: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Resource name in paths.
    pub plural: &'static str,
    /// Whether the question is about one namespace.
    pub namespaced: bool,
}

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

/// Every kind of question.
pub const REVIEWS: [Review; 6] = [
    review(AUTHENTICATION, "SelfSubjectReview", "selfsubjectreviews", false),
    review(AUTHENTICATION, "TokenReview", "tokenreviews", false),
    review(AUTHORIZATION, "LocalSubjectAccessReview", "localsubjectaccessreviews", true),
    review(AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews", false),
    review(AUTHORIZATION, "SelfSubjectRulesReview", "selfsubjectrulesreviews", false),
    review(AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews", false),
];

const fn review(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    namespaced: bool,
) -> Review {
    Review { group, kind, plural, namespaced }
}

/// Who asks, and what decides.
pub struct Asking<'a> {
    /// The user of the request.
    pub user: &'a User,
    /// The rules in force.
    pub access: &'a Access,
    /// The cluster that is asked.
    pub cluster: &'a ClusterHandle,
}

impl Review {
    /// The question that a path asks.
    pub fn at(path: &ObjectPath) -> Option<Self> {
        let found = REVIEWS.iter().find(|r| r.group == path.group && r.plural == path.resource)?;
        let plain = path.name.is_none() && path.namespace.is_some() == found.namespaced;
        (plain && path.version == "v1").then_some(*found)
    }

    /// The question with its answer in `status`.
    pub fn answer(self, mut body: Value, asking: &Asking<'_>) -> Result<Value, ApiError> {
        if body["kind"].as_str().is_some_and(|kind| kind != self.kind) {
            let says =
                format!("the object provided is unrecognized (must be of type {})", self.kind);
            return Err(ApiError::bad_request(says));
        }
        if !body.is_object() {
            return Err(ApiError::bad_request("the object provided is unrecognized"));
        }
        let Asking { user, access, cluster } = *asking;
        let spec = &body["spec"];
        let status = match self.kind {
            "SelfSubjectReview" => json!({"userInfo": user_info(user)}),
            "TokenReview" => token(spec, asking),
            "SelfSubjectRulesReview" => {
                let namespace = spec["namespace"].as_str().unwrap_or_default();
                access.rules(user, namespace, Some(cluster))
            }
            "SelfSubjectAccessReview" => self.verdict(spec, user, asking)?,
            _ => self.verdict(spec, &subject(spec), asking)?,
        };
        body["apiVersion"] = json!(format!("{}/v1", self.group));
        body["kind"] = json!(self.kind);
        if !body["metadata"].is_object() {
            body["metadata"] = json!({});
        }
        body["status"] = status;
        Ok(body)
    }

    fn verdict(self, spec: &Value, user: &User, asking: &Asking<'_>) -> Result<Value, ApiError> {
        let ask = self.ask(spec)?;
        let Asking { access, cluster, .. } = asking;
        Ok(match access.may(user, &ask, Some(cluster)) {
            Decision::Allow => json!({"allowed": true}),
            Decision::Deny(why) if why.is_empty() => json!({"allowed": false}),
            Decision::Deny(why) => json!({"allowed": false, "reason": why}),
        })
    }

    fn ask(self, spec: &Value) -> Result<Ask, ApiError> {
        let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        match (resource.is_object(), path.is_object()) {
            (true, false) => {
                let some = |key: &str| Some(text(resource, key)).filter(|text| !text.is_empty());
                let at = ObjectPath {
                    group: text(resource, "group"),
                    version: text(resource, "version"),
                    namespace: some("namespace"),
                    resource: text(resource, "resource"),
                    name: some("name"),
                    subresource: some("subresource"),
                };
                Ok(Ask::Resource { verb: text(resource, "verb"), at })
            }
            (false, true) => Ok(Ask::Path { verb: text(path, "verb"), path: text(path, "path") }),
            _ => {
                let detail =
                    "exactly one of nonResourceAttributes or resourceAttributes must be specified";
                let error = FieldError::invalid("spec", spec.clone(), detail);
                Err(ApiError::invalid(self.group, self.kind, "", &[error]))
            }
        }
    }
}

/// The user that a review names.
fn subject(spec: &Value) -> User {
    let groups = spec["groups"].as_array().into_iter().flatten().filter_map(Value::as_str);
    User {
        name: spec["user"].as_str().unwrap_or_default().into(),
        uid: spec["uid"].as_str().unwrap_or_default().into(),
        groups: groups.map(Into::into).collect(),
        ..User::default()
    }
}

fn token(spec: &Value, asking: &Asking<'_>) -> Value {
    let mut headers = HeaderMap::new();
    let header = format!("Bearer {}", spec["token"].as_str().unwrap_or_default());
    if let Ok(value) = header.parse() {
        headers.insert(http::header::AUTHORIZATION, value);
    }
    let presented =
        Presented { certificate: None, headers: &headers, cluster: Some(asking.cluster) };
    match asking.access.authenticate(&presented) {
        Ok(Some(user)) => json!({"authenticated": true, "user": user_info(&user)}),
        Ok(None) => json!({"authenticated": false}),
        Err(error) => json!({"authenticated": false, "error": error.message}),
    }
}

fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = json!(user.uid);
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}
