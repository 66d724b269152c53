//! `flagship support-bundle`: what others need to see of a fleet to help, and no Secret of it.
//!
//! What people place may be anything, so of manifests only their names are kept: in Works,
//! snapshots, envelopes and overrides. Of other objects, annotations that repeat a manifest are
//! left out. What controllers said of them, counts, names and labels stay.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::Args;
use flagship_api::kinds;
use flagship_api::names::SYSTEM_NAMESPACE;
use flagship_runtime::client::{Client, ResourceType, Selection};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::connect::{Connect, Hub};
use crate::version;

/// Write what others need to see to help: conditions, events and names, and no Secrets
#[derive(Args)]
pub struct SupportBundle {
    /// The folder that is made
    #[arg(default_value = "flagship-support", value_name = "FOLDER")]
    folder: PathBuf,
    #[command(flatten)]
    connect: Connect,
}

impl SupportBundle {
    /// Writes one file a kind, and says what is in them.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.connect.hub().await?;
        let files = bundle(&hub, &self.folder).await?;
        writeln!(out, "wrote {files} files to {}", self.folder.display())?;
        writeln!(out, "of what is placed they have names only; read them before you hand them on")?;
        Ok(0)
    }
}

/// Writes everything; how many files it came to.
async fn bundle(hub: &Hub, folder: &Path) -> anyhow::Result<usize> {
    ensure!(!folder.exists(), "{} is there already; choose another folder", folder.display());
    flagship_files::make_folder(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let mut files = 0;
    let mut put = |name: &str, value: &Value| -> anyhow::Result<()> {
        let path = folder.join(format!("{name}.yaml"));
        flagship_files::replace(&path, serde_saphyr::to_string(value)?.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
        files += 1;
        Ok(())
    };
    let server = hub.client.version().await.unwrap_or_else(|error| error.to_string());
    put("version", &json!({"flagship": version::LONG.as_str(), "server": server}))?;
    for info in kinds::all() {
        let Some(version) = info.versions.first() else { continue };
        let resource = ResourceType {
            group: info.group.to_owned(),
            version: version.name.to_owned(),
            plural: info.plural.to_owned(),
            kind: info.kind.to_owned(),
        };
        put(info.plural, &listed(&hub.client, resource, &Selection::all()).await)?;
    }
    let events = ResourceType::of::<Event>();
    put("events", &listed(&hub.client, events, &Selection::all()).await)?;
    let leases = Selection::namespace(SYSTEM_NAMESPACE);
    put("leases", &listed(&hub.client, ResourceType::of::<Lease>(), &leases).await)?;
    Ok(files)
}

/// The objects of a kind without what nobody else should see; or why they cannot be read.
async fn listed(client: &Client, resource: ResourceType, which: &Selection) -> Value {
    match client.of_type::<DynamicObject>(resource).list(which).await {
        Ok(listed) => {
            let objects = listed.items.iter().filter_map(|item| serde_json::to_value(item).ok());
            let mut objects: Vec<Value> = objects.collect();
            objects.iter_mut().for_each(redact);
            let unreadable = listed.malformed.iter().map(ToString::to_string);
            json!({"items": objects, "unreadable": unreadable.collect::<Vec<_>>()})
        }
        Err(error) => json!({"error": error.to_string()}),
    }
}

/// Where manifests of people stand in an object of ours.
const MANIFESTS: &[&str] = &["/spec/workload/manifests", "/spec/selectedResources"];

/// Leaves of an object what says how it is, and takes what it carries.
fn redact(object: &mut Value) {
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove("managedFields");
        if let Some(annotations) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
            // kubectl keeps whole manifests there, and others may as well.
            annotations.retain(|key, _| key.contains("kubernetes-fleet.io/"));
        }
    }
    for place in MANIFESTS {
        for manifest in
            object.pointer_mut(place).and_then(Value::as_array_mut).into_iter().flatten()
        {
            *manifest = named(manifest);
        }
    }
    // Envelopes carry manifests by file name.
    if let Some(data) = object.get_mut("data").and_then(Value::as_object_mut) {
        data.values_mut().for_each(|manifest| *manifest = named(manifest));
    }
    if let Some(spec) = object.get_mut("spec") {
        redact_overrides(spec);
    }
    if let Some(status) = object.get_mut("status") {
        redact_values(status);
    }
}

/// Which object a manifest is, and nothing else of it.
fn named(manifest: &Value) -> Value {
    let meta = &manifest["metadata"];
    let mut names = json!({"apiVersion": manifest["apiVersion"], "kind": manifest["kind"],
        "metadata": {"name": meta["name"]}});
    if meta["namespace"].is_string() {
        names["metadata"]["namespace"] = meta["namespace"].clone();
    }
    names
}

/// Overrides write values into what is placed.
fn redact_overrides(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match (name.as_str(), field) {
                    ("jsonPatchOverrides", Value::Array(patches)) => {
                        for patch in patches.iter_mut().filter_map(Value::as_object_mut) {
                            patch.entry("value").and_modify(|value| *value = json!("REDACTED"));
                        }
                    }
                    (_, field) => redact_overrides(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact_overrides),
        _ => {}
    }
}

/// Drifts and differences show both sides.
fn redact_values(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if name == "valueInHub" || name == "valueInMember" {
                    *field = json!("REDACTED");
                } else {
                    redact_values(field);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact_values),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use flagship_sim::fleet::{Fleet, FleetConfig};

    use super::*;

    /// Every word of a folder's files, for those who look for one that must not be there.
    fn words(folder: &Path) -> BTreeSet<String> {
        let mut words = BTreeSet::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            let all = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
            words.extend(all.map(str::to_owned));
        }
        words
    }

    // law S15
    #[tokio::test]
    async fn no_secret_is_in_it() {
        let fleet = Fleet::joined(FleetConfig::of(1)).await;
        let hub = &fleet.clusters.hub;
        let placed = "
apiVersion: v1
kind: Namespace
metadata: {name: app}
---
apiVersion: v1
kind: Secret
metadata:
  name: login
  namespace: app
  annotations: {note: canary-annotation}
stringData: {password: canary-secret}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: app}
data: {greeting: canary-settings}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceEnvelope
metadata: {name: wrapped, namespace: app}
data:
  inner.yaml:
    apiVersion: v1
    kind: Secret
    metadata: {name: inner, namespace: app}
    stringData: {password: canary-envelope}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceOverride
metadata:
  name: login
  namespace: app
  annotations: {kubectl.kubernetes.io/last-applied-configuration: canary-applied}
spec:
  placement: {name: app}
  resourceSelectors: [{group: '', version: v1, kind: ConfigMap, name: settings}]
  policy:
    overrideRules:
    - clusterSelector: {clusterSelectorTerms: []}
      jsonPatchOverrides: [{op: replace, path: /data/greeting, value: canary-override}]
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: app}
spec:
  resourceSelectors: [{group: '', version: v1, kind: Namespace, name: app}]
";
        hub.apply(placed).await;
        let available = "ClusterResourcePlacementAvailable";
        hub.becomes("clusterresourceplacements", "", "app", available, "True").await;
        let folder = std::env::temp_dir().join(format!("flagship-bundle-{}", std::process::id()));
        let reached = Hub::of(hub.client().clone(), Default::default());
        let files = bundle(&reached, &folder).await.unwrap();
        assert_eq!(files, kinds::all().len() + 3);
        let refusal = bundle(&reached, &folder).await.unwrap_err().to_string();
        assert!(refusal.ends_with("is there already; choose another folder"), "{refusal}");

        let words = words(&folder);
        let canary: Vec<&String> = words.iter().filter(|word| word.starts_with("canary")).collect();
        assert_eq!(canary, Vec::<&String>::new());
        for plain in ["canary-secret", "canary-envelope"] {
            assert!(!words.contains(STANDARD.encode(plain).trim_end_matches('=')), "{plain}");
        }
        // What helps is there.
        for word in ["login", "settings", "inner", "member1", available] {
            assert!(words.contains(word), "{word} is missing");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
