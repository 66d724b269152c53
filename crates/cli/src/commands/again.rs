//! `flagship skip` and `flagship retry`: leave clusters out of a run, and try them again.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, bail};
use clap::Args;
use flagship_api::keys::own;
use flagship_api::names::ObjectKey;
use flagship_api::staged_update::{UpdateRunSpec, UpdateRunState};
use flagship_rules::policy::Skip as Skipped;
use flagship_rules::update_run::lifecycle::{self, Place};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{DynamicObject, TypeMeta};
use serde_json::json;

use super::connect::{Connect, Hub};
use super::name::{self, Named};
use super::scoped_kind::ScopedKind;
use super::start::free_name;
use super::steer::{RunObject, command, runs_of, whoami};

/// Leave a cluster out of a run, which goes on without it
#[derive(Args)]
pub struct Skip {
    /// The run
    run: String,
    /// The cluster
    cluster: String,
    /// Why, for those who read the run later
    #[arg(long = "reason", value_name = "WHY")]
    why: String,
    /// Namespace of a namespaced run
    #[arg(short, long)]
    namespace: Option<String>,
    #[command(flatten)]
    connect: Connect,
}

/// Bring the version of a run to the clusters that it failed on or skipped
#[derive(Args)]
pub struct Retry {
    /// The run, which has ended
    run: String,
    /// Namespace of a namespaced run
    #[arg(short, long)]
    namespace: Option<String>,
    #[command(flatten)]
    connect: Connect,
}

async fn found(
    hub: &Hub,
    run: &str,
    namespace: Option<&str>,
) -> anyhow::Result<(ObjectKey, RunObject)> {
    let key = name::must_be(Named::Run, run, namespace)?;
    let runs = ScopedKind::Run.of(&hub.client, key.namespace.as_deref());
    let run = runs.find(&key).await?.with_context(|| format!("there is no run {key}"))?;
    Ok((key, run))
}

impl Skip {
    /// Notes the cluster with the run.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.connect.hub().await?;
        self.on(&hub, out).await
    }

    pub(super) async fn on(self, hub: &Hub, out: &mut dyn Write) -> anyhow::Result<u8> {
        let (key, run) = found(hub, &self.run, self.namespace.as_deref()).await?;
        let cluster = &self.cluster;
        if lifecycle::has_ended(&run.status) {
            bail!("{key} has ended; try its clusters again: {}", command("retry", &key));
        }
        match lifecycle::place(&run.status, cluster) {
            None => {
                bail!("{cluster} is no cluster of {key}; see them: {}", command("status", &key))
            }
            Some(Place::Over) => bail!("{key} is done with {cluster}"),
            Some(Place::Open) => {}
        }
        let notes = run.metadata.annotations.as_ref();
        let noted = notes.and_then(|notes| notes.get(own::SKIPPED_CLUSTERS));
        let noted = noted.and_then(|text| serde_json::from_str(text).ok());
        let mut skips: BTreeMap<String, Skipped> = noted.unwrap_or_default();
        let by = whoami(hub).await.unwrap_or_default();
        skips.insert(cluster.clone(), Skipped { reason: self.why, by });
        let text = serde_json::to_string(&skips)?;
        let version = run.metadata.resource_version.clone();
        let patch = json!({"metadata": {"resourceVersion": version,
            "annotations": {own::SKIPPED_CLUSTERS: text}}});
        let runs = ScopedKind::Run
            .of::<UpdateRunSpec, serde_json::Value>(&hub.client, key.namespace.as_deref());
        runs.patch_anyway(&key, patch).await?;
        writeln!(out, "{key} goes on without {cluster}")?;
        writeln!(out, "try it later:  {}", command("retry", &key))?;
        Ok(0)
    }
}

impl Retry {
    /// Creates a run for these clusters alone.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.connect.hub().await?;
        self.on(&hub, out).await
    }

    pub(super) async fn on(self, hub: &Hub, out: &mut dyn Write) -> anyhow::Result<u8> {
        let (key, run) = found(hub, &self.run, self.namespace.as_deref()).await?;
        if !lifecycle::has_ended(&run.status) {
            bail!(
                "{key} is under way; what it fails on or skips can be tried again when it has ended"
            );
        }
        let clusters = lifecycle::not_updated(&run.status);
        if clusters.is_empty() {
            bail!("{key} has neither failed on a cluster nor skipped one");
        }
        let placement = ObjectKey::new(key.namespace.as_deref(), &run.spec.placement_name);
        let name =
            free_name(&runs_of(&hub.client, &placement).await?, &format!("{}-retry", key.name));
        let new = ObjectKey::new(key.namespace.as_deref(), &name);
        let kind = ScopedKind::Run.resource(key.namespace.as_deref());
        let spec = UpdateRunSpec {
            resource_snapshot_index: lifecycle::version(&run.status).to_owned(),
            state: Some(UpdateRunState::Run),
            ..run.spec.clone()
        };
        let only =
            BTreeMap::from([(own::ONLY_CLUSTERS.to_owned(), serde_json::to_string(&clusters)?)]);
        let object = DynamicObject {
            types: Some(TypeMeta { api_version: kind.api_version(), kind: kind.kind.clone() }),
            metadata: ObjectMeta {
                name: Some(name),
                namespace: key.namespace.clone(),
                annotations: Some(only),
                ..ObjectMeta::default()
            },
            data: json!({"spec": spec}),
        };
        let runs = hub.client.of_type::<DynamicObject>(kind);
        runs.create(&object).await.with_context(|| format!("cannot create the run {new}"))?;
        writeln!(
            out,
            "{new} created: brings snapshot {} of {placement} to {}",
            lifecycle::version(&run.status),
            clusters.join(", ")
        )?;
        writeln!(out, "follow it:  {}", command("watch", &new))?;
        Ok(0)
    }
}
