//! Questions about rights and identities: kinds that are answered, never stored.

use flagship_base::machinery::path::ObjectPath;
use flagship_base::machinery::status::{ApiError, FieldError};
use flagship_base::machinery::time;
use http::HeaderMap;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Access, Decision, Presented, RequestAttributes, User};
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
    /// The namespace of the path; mostly empty.
    pub namespace: &'a str,
}

/// The fields of a value as `managedFields` names them; lists are whole.
fn fields(value: &Value) -> Value {
    let Some(map) = value.as_object() else { return json!({}) };
    let each = map.iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| {
        let mut below = fields(value);
        if value.is_object() {
            below["."] = json!({});
        }
        (format!("f:{key}"), below)
    });
    Value::Object(each.collect())
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
        let Asking { user, access, cluster, .. } = *asking;
        let spec = &body["spec"];
        let status = match self.kind {
            "SelfSubjectReview" => json!({"userInfo": user_info(user)}),
            "TokenReview" => token(spec, asking)?,
            "SelfSubjectRulesReview" => match spec["namespace"].as_str().unwrap_or_default() {
                "" => return Err(ApiError::bad_request("no namespace on request")),
                namespace => access.rules(user, namespace, Some(cluster)),
            },
            "SelfSubjectAccessReview" => self.verdict(spec, user, asking)?,
            _ => self.verdict(spec, &self.subject(spec)?, asking)?,
        };
        body["apiVersion"] = json!(format!("{}/v1", self.group));
        body["kind"] = json!(self.kind);
        if !body["metadata"].is_object() {
            body["metadata"] = json!({});
        }
        if self.kind == "SelfSubjectReview" {
            let now = time::seconds(cluster.env().clock.now());
            body["metadata"]["creationTimestamp"] = json!(now);
        }
        if self.kind == "SelfSubjectRulesReview" {
            // Kubernetes does not repeat the question.
            body["spec"] = json!({});
        }
        body["status"] = status;
        Ok(body)
    }

    /// Notes who asked, as for everything that is sent: of those reviews that come back as they
    /// were.
    pub fn own(self, answered: &mut Value, manager: &str, now: Timestamp) {
        if matches!(self.kind, "SelfSubjectReview" | "SelfSubjectRulesReview") {
            return;
        }
        let owned = json!({"f:spec": fields(&answered["spec"])});
        answered["metadata"]["managedFields"] = json!([{
            "apiVersion": answered["apiVersion"], "fieldsType": "FieldsV1", "fieldsV1": owned,
            "manager": manager, "operation": "Update", "time": time::seconds(now),
        }]);
    }

    fn verdict(self, spec: &Value, user: &User, asking: &Asking<'_>) -> Result<Value, ApiError> {
        let ask = self.ask(spec, asking.namespace)?;
        let Asking { access, cluster, .. } = asking;
        let (allowed, why) = match access.may(user, &ask, Some(cluster)) {
            Decision::Allow(why) => (true, why),
            Decision::Deny(why) => (false, why),
        };
        let mut status = json!({"allowed": allowed});
        if !why.is_empty() {
            status["reason"] = json!(why);
        }
        Ok(status)
    }

    fn ask(self, spec: &Value, within: &str) -> Result<RequestAttributes, ApiError> {
        let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        match (resource.is_object(), path.is_object()) {
            (false, true) if self.namespaced => {
                let detail = "disallowed on this kind of request";
                let shown = json!({"Path": path["path"], "Verb": path["verb"]});
                Err(self.invalid("spec.nonResourceAttributes", shown, detail))
            }
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
                if self.namespaced && at.namespace.as_deref().unwrap_or_default() != within {
                    let field = "spec.resourceAttributes.namespace";
                    let sent = json!(at.namespace.unwrap_or_default());
                    return Err(self.invalid(field, sent, "must match metadata.namespace"));
                }
                Ok(RequestAttributes::Resource { verb: text(resource, "verb"), at })
            }
            (false, true) => {
                Ok(RequestAttributes::Path { verb: text(path, "verb"), path: text(path, "path") })
            }
            (true, true) => {
                let detail = "cannot be specified in combination with resourceAttributes";
                let shown = json!({"Path": path["path"], "Verb": path["verb"]});
                Err(self.invalid("spec.nonResourceAttributes", shown, detail))
            }
            (false, false) => {
                let detail =
                    "exactly one of nonResourceAttributes or resourceAttributes must be specified";
                Err(self.invalid("spec.resourceAttributes", Value::Null, detail))
            }
        }
    }

    /// 422 in Kubernetes' words, which leave out the kind.
    fn invalid(self, field: &str, value: Value, detail: &str) -> ApiError {
        ApiError::invalid(self.group, "", "", &[FieldError::invalid(field, value, detail)])
    }

    /// The user that a review names.
    fn subject(self, spec: &Value) -> Result<User, ApiError> {
        let texts = |list: &Value| -> Vec<String> {
            let texts = list.as_array().into_iter().flatten().filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        };
        let extra = spec["extra"].as_object().into_iter().flatten();
        let user = User {
            name: spec["user"].as_str().unwrap_or_default().into(),
            uid: spec["uid"].as_str().unwrap_or_default().into(),
            groups: texts(&spec["groups"]).into_iter().map(Into::into).collect(),
            extra: extra.map(|(key, list)| (key.clone(), texts(list))).collect(),
        };
        if user.name.is_empty() && user.groups.is_empty() {
            let detail = "at least one of user or group must be specified";
            return Err(self.invalid("spec.user", json!(""), detail));
        }
        Ok(user)
    }
}

fn token(spec: &Value, asking: &Asking<'_>) -> Result<Value, ApiError> {
    let token = spec["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        let says = "token is required for TokenReview in authentication";
        return Err(ApiError::bad_request(says));
    }
    let mut headers = HeaderMap::new();
    if let Ok(value) = format!("Bearer {token}").parse() {
        headers.insert(http::header::AUTHORIZATION, value);
    }
    let wanted = spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let wanted: Vec<&str> = wanted.collect();
    let presented = Presented {
        certificate: None,
        headers: &headers,
        cluster: Some(asking.cluster),
        audiences: &wanted,
    };
    Ok(match asking.access.authenticate(&presented) {
        Ok(Some(user)) => {
            let audiences = super::accounts::shared_audiences(token, &wanted);
            json!({"authenticated": true, "user": user_info(&user), "audiences": audiences})
        }
        Ok(None) => json!({"user": {}, "error": "invalid bearer token"}),
        Err(error) => match error.message.as_str() {
            "Unauthorized" => json!({"user": {}, "error": "invalid bearer token"}),
            why => json!({"user": {}, "error": format!("[invalid bearer token, {why}]")}),
        },
    })
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
