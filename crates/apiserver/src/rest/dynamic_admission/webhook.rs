//! One webhook: when it is asked, what it is told, and what is made of its answer.
//!
//! The wording is Kubernetes': people look for these sentences.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flagship_base::machinery::status::ApiError;
use flagship_schema::{Evaluation, Sight};
use serde_json::{Value, json};

use super::AdmissionInputs;
use super::call::Endpoint;
use super::matching::{Condition, Matching};

const REVIEW: &str = "admission.k8s.io/v1";

/// A webhook, compiled.
pub(super) struct Webhook {
    name: String,
    matching: Matching,
    conditions: Vec<Condition>,
    endpoint: Endpoint,
    /// A webhook that cannot be asked counts as one that agrees.
    ignores_failure: bool,
    /// Asked again when others changed the object after it.
    pub(super) reinvoked: bool,
}

/// Why an answer is none.
enum NoAnswer {
    /// The webhook says no.
    Denied(ApiError),
    /// It could not be asked, or did not answer properly.
    Failed(String),
}

impl Webhook {
    pub(super) fn read(hook: &Value) -> Self {
        Self {
            name: hook["name"].as_str().unwrap_or_default().to_owned(),
            matching: Matching::of_webhook(hook),
            conditions: Condition::list(&hook["matchConditions"]),
            endpoint: Endpoint::read(hook),
            ignores_failure: hook["failurePolicy"] == "Ignore",
            reinvoked: hook["reinvocationPolicy"] == "IfNeeded",
        }
    }

    /// Asks for changes. `None` when the write is none of its business, `Some(None)` when
    /// it leaves the object as it is.
    pub(super) async fn mutate(
        &self,
        seen: &AdmissionInputs<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Option<Value>>, ApiError> {
        let Some(version) = self.is_asked(seen)? else { return Ok(None) };
        let answered = match self.ask(seen, version).await {
            Ok(answered) => answered,
            Err(no_answer) => return self.excuse(no_answer).map(|()| Some(None)),
        };
        warnings.extend(answered.warnings);
        // What is deleted cannot be changed any more.
        let Some(patch) = answered.patch.filter(|_| !seen.object.is_null()) else {
            return Ok(Some(None));
        };
        let shown = seen.shown(seen.object, version);
        let changed = patched(&shown, &patch)?;
        let served = &seen.hooks.place.served;
        Ok(Some(Some(if version == served.version || seen.hooks.is_small() {
            changed
        } else {
            let stored = super::rules::convert(&served.kind, served.kind.storage, changed);
            super::rules::convert(&served.kind, served.version, stored)
        })))
    }

    /// Asks whether the write may happen. Returns warnings.
    pub(super) async fn validate(
        &self,
        seen: &AdmissionInputs<'_>,
    ) -> Result<Vec<String>, ApiError> {
        let Some(version) = self.is_asked(seen)? else { return Ok(Vec::new()) };
        match self.ask(seen, version).await {
            Ok(answered) => Ok(answered.warnings),
            Err(no_answer) => self.excuse(no_answer).map(|()| Vec::new()),
        }
    }

    fn is_asked(&self, seen: &AdmissionInputs<'_>) -> Result<Option<usize>, ApiError> {
        let Some(version) = self.matching.version_for(seen) else { return Ok(None) };
        if self.conditions.is_empty() {
            return Ok(Some(version));
        }
        let (object, old) = (seen.shown(seen.object, version), seen.shown(seen.old, version));
        let (request, namespace) = (seen.request("", version), seen.namespace_object());
        let sight = Sight {
            object: &object,
            old: &old,
            request: &request,
            params: &Value::Null,
            namespace: &namespace,
            asker: seen.asker(),
            at: seen.at(),
            variables: &[],
        };
        match Condition::all(&self.conditions, &mut Evaluation::new(&sight)) {
            Ok(true) => Ok(Some(version)),
            Ok(false) => Ok(None),
            Err(_) if self.ignores_failure => Ok(None),
            Err(why) => Err(seen.forbidden(&why)),
        }
    }

    fn excuse(&self, no_answer: NoAnswer) -> Result<(), ApiError> {
        match no_answer {
            NoAnswer::Denied(error) => Err(error),
            NoAnswer::Failed(why) if self.ignores_failure => {
                tracing::warn!(webhook = self.name, why, "failed and is ignored");
                Ok(())
            }
            NoAnswer::Failed(why) => {
                let says = format!("failed calling webhook {:?}: {why}", self.name);
                Err(ApiError::internal(says))
            }
        }
    }

    async fn ask(&self, seen: &AdmissionInputs<'_>, version: usize) -> Result<Answered, NoAnswer> {
        let uid = seen.hooks.cluster.env.entropy.uuid();
        let mut request = seen.request(&uid, version);
        request["object"] = seen.shown(seen.object, version);
        request["oldObject"] = seen.shown(seen.old, version);
        let review = json!({"kind": "AdmissionReview", "apiVersion": REVIEW, "request": request});
        let called = self.endpoint.call(&review, &seen.hooks.cluster.store).await;
        let answer =
            called.map_err(|why| NoAnswer::Failed(format!("failed to call webhook: {why}")))?;
        let answered = Answered::read(&answer, &uid);
        let answered = answered
            .map_err(|why| NoAnswer::Failed(format!("received invalid webhook response: {why}")))?;
        match answered.refusal {
            Some(status) => Err(NoAnswer::Denied(denied(&self.name, &status))),
            None => Ok(answered),
        }
    }
}

/// An object as a webhook wants it, which is an object still: whoever comes next relies on it.
fn patched(object: &Value, patch: &Value) -> Result<Value, ApiError> {
    let changed = flagship_patch::json(object, patch).map_err(ApiError::internal)?;
    match changed.is_object() {
        true => Ok(changed),
        false => Err(ApiError::internal("a webhook put something else in place of the object")),
    }
}

/// A proper answer.
struct Answered {
    /// The `status` of a denial; null when it has none.
    refusal: Option<Value>,
    patch: Option<Value>,
    warnings: Vec<String>,
}

impl Answered {
    fn read(review: &Value, uid: &str) -> Result<Self, String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&review["apiVersion"]), text(&review["kind"]));
        if version != REVIEW || kind != "AdmissionReview" {
            let version = if version.contains('/') { version } else { format!("/{version}") };
            return Err(format!(
                "expected webhook response of {REVIEW}, Kind=AdmissionReview, got {version}, Kind={kind}"
            ));
        }
        let response = &review["response"];
        if !response.is_object() {
            return Err("webhook response was absent".to_owned());
        }
        let got = text(&response["uid"]);
        if got != uid {
            return Err(format!("expected response.uid={uid:?}, got {got:?}"));
        }
        let (patch, kind) = (text(&response["patch"]), text(&response["patchType"]));
        let patch = match (patch.is_empty(), kind.as_str()) {
            (true, "") => None,
            (false, "") => {
                return Err("webhook returned response.patch but not response.patchType".to_owned());
            }
            (true, _) => {
                return Err("webhook returned response.patchType but not response.patch".to_owned());
            }
            (false, "JSONPatch") => {
                let bytes = STANDARD.decode(&patch).map_err(|why| why.to_string())?;
                let patch: Value = serde_json::from_slice(&bytes).map_err(|why| why.to_string())?;
                Some(patch)
            }
            (false, other) => return Err(format!("invalid response.patchType of {other:?}")),
        };
        let warnings = response["warnings"].as_array().into_iter().flatten();
        Ok(Self {
            refusal: (response["allowed"] != true).then(|| response["status"].clone()),
            patch,
            warnings: warnings.filter_map(Value::as_str).map(str::to_owned).collect(),
        })
    }
}

/// A denial as the client is told.
fn denied(webhook: &str, status: &Value) -> ApiError {
    let text = |key: &str| status[key].as_str().unwrap_or_default();
    let why = match (text("message"), text("reason")) {
        ("", "") => " without explanation".to_owned(),
        ("", reason) => format!(": {reason}"),
        (message, _) => format!(": {message}"),
    };
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    let code = code.filter(|code| (400..600).contains(code)).unwrap_or(400);
    let says = format!("admission webhook {webhook:?} denied the request{why}");
    ApiError::new(code, known_reason(text("reason")), says)
}

/// The reason as one that clients know; empty for any other.
fn known_reason(text: &str) -> &'static str {
    const KNOWN: [&str; 17] = [
        "Unauthorized",
        "Forbidden",
        "NotFound",
        "AlreadyExists",
        "Conflict",
        "Gone",
        "Invalid",
        "Timeout",
        "TooManyRequests",
        "BadRequest",
        "MethodNotAllowed",
        "NotAcceptable",
        "RequestEntityTooLarge",
        "UnsupportedMediaType",
        "InternalError",
        "Expired",
        "ServiceUnavailable",
    ];
    KNOWN.into_iter().find(|known| *known == text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_may_replace_the_object_by_another_but_by_nothing_else() {
        let replaced = |value: Value| {
            let patch = json!([{"op": "replace", "path": "", "value": value}]);
            patched(&json!({"kind": "TokenRequest"}), &patch).map_err(|error| error.code)
        };
        assert_eq!(replaced(json!({"kind": "Other"})), Ok(json!({"kind": "Other"})));
        for other in [json!("a"), json!([]), json!(null), json!(1)] {
            assert_eq!(replaced(other), Err(500));
        }
    }
}
