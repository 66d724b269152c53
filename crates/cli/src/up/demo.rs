//! Something to look at: an application, a placement, a strategy, and a run that waits
//! for its first approval.

use anyhow::Context;
use flagship_api::names::{ObjectKey, Scope};
use flagship_runtime::client::{Applying, Client};
use flagship_runtime::dynamic::discover;
use serde_json::Value;

/// The run that the greeting names.
pub const RUN: &str = "demo-run";

const OBJECTS: &str = include_str!("demo.yaml");

/// Creates what is not there yet; what a person changed since stays as it is.
pub async fn create(hub: &Client) -> anyhow::Result<()> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(OBJECTS).context("the sample cannot be read")?;
    let served = discover(hub).await;
    for object in documents {
        let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let found = served
            .types
            .values()
            .find(|found| found.resource.kind == kind && found.resource.api_version() == version)
            .with_context(|| format!("the hub does not serve {version} {kind}"))?;
        let name = text(&object["metadata"]["name"]);
        let key = match found.scope {
            Scope::Namespaced => {
                ObjectKey::namespaced(&text(&object["metadata"]["namespace"]), &name)
            }
            Scope::Cluster => ObjectKey::cluster(&name),
        };
        let objects = hub.manifests(found.resource.clone());
        let refused = |refused| anyhow::anyhow!("cannot create {kind} {key}: {refused}");
        if objects.find(&key).await.map_err(refused)?.is_none() {
            let how = Applying { force: true, dry_run: false };
            objects.apply(&key, &object, how).await.map_err(refused)?;
        }
    }
    Ok(())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_is_readable_and_has_the_run_that_is_named() {
        let documents: Vec<Value> = serde_saphyr::from_multiple(OBJECTS).unwrap();
        let runs: Vec<&str> = documents
            .iter()
            .filter(|object| object["kind"] == "ClusterStagedUpdateRun")
            .filter_map(|object| object["metadata"]["name"].as_str())
            .collect();
        assert_eq!(runs, [RUN]);
    }
}
