//! What a member shows of an object that failed there: the object, its pods, their events.
//!
//! Whatever cannot be read is said, and never ends the command: a hub without the
//! members' credentials still gets an answer.

use flagship_api::names::ObjectKey;
use flagship_api::placement_status::ResourceIdentifier;
use flagship_explain::why::MemberView;
use flagship_rules::diagnosis;
use flagship_runtime::client::{Client, ClientError, ResourceType, Selection};
use serde_json::Value;

use super::connect::Hub;

/// Most pods and events that are looked at: the first troubled one is enough.
const ENOUGH: usize = 50;

/// Looks at one object on a member.
pub async fn look(hub: &Hub, cluster: &str, resource: &ResourceIdentifier) -> MemberView {
    let client = match hub.member(cluster).await {
        Ok(client) => client,
        Err(blind) => return MemberView { blind, ..MemberView::default() },
    };
    match view(&client, resource).await {
        Ok(view) => view,
        Err(error) => MemberView { blind: error.to_string(), ..MemberView::default() },
    }
}

async fn view(client: &Client, resource: &ResourceIdentifier) -> Result<MemberView, ClientError> {
    let namespace = (!resource.namespace.is_empty()).then_some(resource.namespace.as_str());
    let object = match diagnosis::plural_of(&resource.kind) {
        Some(plural) => {
            let kind = ResourceType {
                group: resource.group.clone(),
                version: resource.version.clone(),
                plural: plural.to_owned(),
                kind: resource.kind.clone(),
            };
            client.of_type::<Value>(kind).find(&ObjectKey::new(namespace, &resource.name)).await?
        }
        None => None,
    };
    let Some(namespace) = namespace else {
        return Ok(MemberView { object, ..MemberView::default() });
    };
    let mut view = MemberView { object, ..MemberView::default() };
    if let Some(labels) = view.object.as_ref().and_then(diagnosis::selector) {
        let pods = client.of_type::<Value>(core("pods", "Pod"));
        let selection = Selection::namespace(namespace).with_labels(labels);
        view.pods = pods.list(&selection).await?.items;
        view.pods.truncate(ENOUGH);
    }
    let events = client.of_type::<Value>(core("events", "Event"));
    let mut seen = events.list(&Selection::namespace(namespace)).await?.items;
    seen.retain(|event| diagnosis::is_about(event, &resource.name));
    seen.sort_by_key(|event| text(&event["lastTimestamp"]));
    view.events = seen.split_off(seen.len().saturating_sub(ENOUGH));
    Ok(view)
}

fn core(plural: &str, kind: &str) -> ResourceType {
    ResourceType {
        group: String::new(),
        version: "v1".to_owned(),
        plural: plural.to_owned(),
        kind: kind.to_owned(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
