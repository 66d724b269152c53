//! As whom an API server knows this process.

use flagship_api::approval_decision::Person;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{DynamicObject, TypeMeta};
use serde_json::{Value, json};

use crate::client::{Client, ResourceType};

/// The user that requests of this client come from; nothing where the server does not say.
pub async fn whoami(client: &Client) -> Option<String> {
    person(client).await.map(|person| person.user)
}

/// The same with groups.
pub async fn person(client: &Client) -> Option<Person> {
    let reviews = client.of_type::<DynamicObject>(ResourceType {
        group: "authentication.k8s.io".to_owned(),
        version: "v1".to_owned(),
        plural: "selfsubjectreviews".to_owned(),
        kind: "SelfSubjectReview".to_owned(),
    });
    let question = DynamicObject {
        types: Some(TypeMeta {
            api_version: "authentication.k8s.io/v1".to_owned(),
            kind: "SelfSubjectReview".to_owned(),
        }),
        metadata: ObjectMeta::default(),
        data: json!({}),
    };
    let answer = reviews.create(&question).await.ok()?;
    let info = &answer.data["status"]["userInfo"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let groups = info["groups"].as_array().into_iter().flatten().map(text).collect();
    let person = Person { user: text(&info["username"]), uid: text(&info["uid"]), groups };
    (!person.user.is_empty()).then_some(person)
}
