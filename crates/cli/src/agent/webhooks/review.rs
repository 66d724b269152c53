//! AdmissionReviews: what the API server asks, and how it is answered.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flagship_api::approval_decision::Person;
use flagship_hub::admission::{Admission, Answer, Request};
use flagship_rules::admission::approvals;
use flagship_rules::admission::guard_rails::{self, Sender};
use flagship_rules::admission::records::{Writer, record};
use flagship_rules::admission::{Operation, Webhook};
use flagship_rules::placement::selection::Kind;
use flagship_rules::policy::freeze;
use serde_json::{Value, json};

/// A review that was asked for.
pub struct Asked {
    /// The version of the review, which the answer has, too.
    api_version: String,
    uid: String,
    operation: Operation,
    kind: Kind,
    /// The kind as the client sent it, before the API server converted it.
    sent_kind: Kind,
    user: String,
    user_uid: String,
    groups: Vec<String>,
    subresource: String,
    namespace: String,
    name: String,
    object: Value,
    old: Option<Value>,
}

impl Asked {
    /// Reads a review, or says why it is none.
    pub fn read(body: &[u8]) -> Result<Self, String> {
        let mut review: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        if review["kind"] != "AdmissionReview" {
            return Err("this is no AdmissionReview".to_owned());
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let api_version = text(&review["apiVersion"]);
        let request = review["request"].take();
        let operation = match request["operation"].as_str() {
            Some("CREATE") => Operation::Create,
            Some("UPDATE") => Operation::Update,
            Some("DELETE") => Operation::Delete,
            other => return Err(format!("nobody asks about the operation {other:?}")),
        };
        let kind_of = |kind: &Value| {
            Kind::new(&text(&kind["group"]), &text(&kind["version"]), &text(&kind["kind"]))
        };
        let kind = kind_of(&request["kind"]);
        let sent_kind = match &request["requestKind"] {
            Value::Null => kind.clone(),
            sent => kind_of(sent),
        };
        let user = &request["userInfo"];
        let groups = user["groups"].as_array().into_iter().flatten().map(text).collect();
        let old = Some(request["oldObject"].clone()).filter(|old| !old.is_null());
        // What is to be deleted comes as the old object.
        let object = match operation {
            Operation::Delete => old.clone().unwrap_or_default(),
            _ => request["object"].clone(),
        };
        Ok(Self {
            api_version,
            uid: text(&request["uid"]),
            operation,
            kind,
            sent_kind,
            user: text(&user["username"]),
            user_uid: text(&user["uid"]),
            groups,
            subresource: text(&request["subResource"]),
            namespace: text(&request["namespace"]),
            name: text(&request["name"]),
            object,
            old,
        })
    }

    /// Asks the checks, and writes down what they say.
    pub async fn answered(&self, by: &Admission, webhook: &Webhook, hub: Option<&str>) -> Value {
        let request = self.request();
        if webhook.signs_freezes() {
            let mut signed = self.object.clone();
            freeze::stamp(&mut signed, self.old.as_ref(), &self.user);
            return self.response(&Answer::Allowed(String::new()), Some(signed));
        }
        if approvals::subject(&request).is_some() {
            let person = Person {
                user: self.user.clone(),
                uid: self.user_uid.clone(),
                groups: self.groups.clone(),
            };
            if webhook.mutates {
                let signed = by.sign(&request, &person, hub.is_some()).await;
                return self.response(&Answer::Allowed(String::new()), signed);
            }
            let answer = by.vouch(&request, &person, hub).await;
            return self.response(&answer.unwrap_or(Answer::Allowed(String::new())), None);
        }
        if webhook.mutates {
            return self.response(&Answer::Allowed(String::new()), by.complete(&request));
        }
        let nobody_minds = || Answer::Allowed(String::new());
        self.response(&by.review(&request).await.unwrap_or_else(nobody_minds), None)
    }

    /// Asks the guard rails, and writes down what they say.
    pub async fn guarded(&self, by: &Admission, options: &guard_rails::Options) -> Value {
        let groups: Vec<&str> = self.groups.iter().map(String::as_str).collect();
        let sender = Sender { name: &self.user, groups: &groups, sent_kind: &self.sent_kind };
        self.response(&by.guard(&self.request(), &sender, options).await, None)
    }

    /// Asks who may write records, where the API server knows the hub by this name.
    pub fn about_record(&self, hub: &str) -> Value {
        let groups: Vec<&str> = self.groups.iter().map(String::as_str).collect();
        let writer = Writer::of(&self.user, &groups, hub);
        let answer = record(&self.request(), writer);
        self.response(&answer.unwrap_or_else(|| Answer::Allowed(String::new())), None)
    }

    fn request(&self) -> Request<'_> {
        Request {
            operation: self.operation,
            kind: &self.kind,
            subresource: &self.subresource,
            namespace: &self.namespace,
            name: &self.name,
            object: &self.object,
            old: self.old.as_ref(),
        }
    }

    /// The parts of the object that were filled in, as a JSON patch.
    fn changed(&self, completed: &Value) -> Value {
        let parts = ["/spec", "/status", "/metadata/annotations", "/metadata/ownerReferences"];
        let changes = parts.into_iter().filter_map(|path| {
            let (old, new) = (self.object.pointer(path), completed.pointer(path));
            match (old, new) {
                (old, new) if old == new => None,
                (_, Some(new)) => Some(json!({"op": "add", "path": path, "value": new})),
                (_, None) => Some(json!({"op": "remove", "path": path})),
            }
        });
        Value::from(changes.collect::<Vec<_>>())
    }

    fn response(&self, answer: &Answer, completed: Option<Value>) -> Value {
        let mut response = json!({
            "uid": self.uid,
            "allowed": matches!(answer, Answer::Allowed(_)),
            "status": {"code": answer.code(), "message": answer.message()},
        });
        if matches!(answer, Answer::Denied(_)) {
            response["status"]["reason"] = json!("Forbidden");
        }
        if let Some(completed) = completed {
            let patch = self.changed(&completed);
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(STANDARD.encode(patch.to_string()));
        }
        json!({"apiVersion": self.api_version, "kind": "AdmissionReview", "response": response})
    }
}
