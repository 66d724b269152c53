//! As whom an API server knows this process.

use flagship_runtime::client::{Client, ResourceType};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{DynamicObject, TypeMeta};
use serde_json::json;

/// The user that requests of this client come from; nothing where the server does not say.
pub async fn whoami(client: &Client) -> Option<String> {
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
    let name = answer.data["status"]["userInfo"]["username"].as_str()?;
    (!name.is_empty()).then(|| name.to_owned())
}
