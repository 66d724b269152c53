//! Requests that a webhook server would hand over, answered from what the hub's server says.

use flagship_hub::admission::{Admission, Answer, Options, Request};
use flagship_rules::admission::Operation;
use flagship_rules::placement::selection::Kind;
use flagship_runtime::client::Client;
use serde_json::{Value, json};

use crate::story::{Story, everywhere, namespace};

async fn asked(admission: &Admission, kind: &str, object: &Value) -> Answer {
    let kind = Kind::new("placement.kubernetes-fleet.io", "v1beta1", kind);
    let request = Request {
        operation: Operation::Create,
        kind: &kind,
        subresource: "",
        namespace: "",
        name: object["metadata"]["name"].as_str().unwrap_or_default(),
        object,
        old: None,
    };
    admission.review(&request).await.expect("placements and evictions are judged")
}

#[tokio::test(start_paused = true)]
async fn requests_are_judged_by_what_the_server_knows() {
    let story = Story::cluster_wide(81).await;
    let client = Client::in_process(story.hub.called_by("webhook"));
    let admission = Admission::new(&client, Options::default());
    let crp = |term: Value| json!({"metadata": {"name": "web"}, "spec": everywhere(&[term])});
    let answer = asked(&admission, "ClusterResourcePlacement", &crp(namespace("app"))).await;
    assert_eq!(answer, Answer::Allowed("any user is allowed to modify v1beta1 CRP".to_owned()));
    let map = json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"});
    let answer = asked(&admission, "ClusterResourcePlacement", &crp(map)).await;
    assert_eq!(
        answer.message(),
        "deny create/update v1beta1 CRP has invalid fields the resource is not found in schema (please retry) or it is not a cluster scoped resource: /v1, Kind=ConfigMap"
    );
    let planet = json!({"group": "example.com", "version": "v1", "kind": "Planet"});
    let answer = asked(&admission, "ClusterResourcePlacement", &crp(planet)).await;
    assert_eq!(
        answer.message(),
        "deny create/update v1beta1 CRP has invalid fields failed to get GVR of the selector: no matches for kind \"Planet\" in version \"example.com/v1\""
    );
    // An eviction is held against the placement that it names.
    let eviction = json!({"metadata": {"name": "e"},
        "spec": {"placementName": "web", "clusterName": "member1"}});
    let kind = "ClusterResourcePlacementEviction";
    assert_eq!(asked(&admission, kind, &eviction).await.code(), 200);
    let mut spec = everywhere(&[namespace("app")]);
    spec["policy"] = json!({"placementType": "PickFixed", "clusterNames": ["member1"]});
    story.crp("web", spec).await;
    assert_eq!(
        asked(&admission, kind, &eviction).await,
        Answer::Denied(
            "cluster resource placement policy type PickFixed is not supported".to_owned()
        )
    );
}
