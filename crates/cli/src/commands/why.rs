//! `flagship why`: the first true cause, the way to it, and the next command.

use std::io::Write;

use clap::Args;
use flagship_api::names::ObjectKey;
use flagship_explain::why::{Subject, explain};
use flagship_runtime::client::Selection;
use flagship_runtime::env::Env;
use jiff::Timestamp;

use super::board_text::Look;
use super::connect::{Connect, Hub};
use super::gather;
use super::name::{self, Named};
use super::print::{self, Output};
use super::scoped_kind::{ScopedKind, Stored, resource};

/// Say why a run, placement or cluster is not done: the first true cause and the next command
#[derive(Args)]
pub struct Why {
    /// What to explain: NAME, KIND NAME or KIND/NAME as kubectl has it; the kind (run,
    /// placement, cluster) is found out by itself if left out
    #[arg(value_name = "[KIND] NAME", num_args = 1..=2, required = true)]
    words: Vec<String>,
    /// Namespace of a namespaced run or placement
    #[arg(short, long)]
    namespace: Option<String>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

impl Why {
    /// Prints the finding; the exit code is its state.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let connect = self.connect.clone();
        connect.read(async |hub| self.answer(hub, Env::system().now(), out).await).await
    }

    pub(super) async fn answer(
        self,
        hub: &Hub,
        now: Timestamp,
        out: &mut dyn Write,
    ) -> anyhow::Result<u8> {
        let subject = self.subject(hub).await?;
        let facts = gather::facts(hub, subject, now).await?;
        let facts = gather::deepened(hub, facts).await;
        let found = explain(&facts);
        match self.output.output {
            Some(shape) => shape.write(&print::as_value(&found), out)?,
            None => print::as_text(&found, Look::here(), out)?,
        }
        Ok(found.state.exit_code())
    }

    async fn subject(&self, hub: &Hub) -> anyhow::Result<Subject> {
        let namespace = self.namespace.as_deref();
        let (named, key) = match self.words.as_slice() {
            [kind, text] => {
                let Some(wanted) = Named::read(kind) else {
                    anyhow::bail!(
                        "{kind:?} is not something to ask about: run, placement or cluster"
                    )
                };
                (Some(wanted), name::must_be(wanted, text, namespace)?)
            }
            [text] => name::read(text, namespace)?,
            _ => anyhow::bail!("name what to explain: flagship why [run|placement|cluster] NAME"),
        };
        match named {
            Some(Named::Run) => Ok(Subject::Run(key)),
            Some(Named::Placement) => Ok(Subject::Placement(key)),
            Some(Named::Cluster) => Ok(Subject::Cluster(key.name)),
            None => guess(hub, &key).await,
        }
    }
}

/// A name alone: a run first, then a placement, then a cluster.
pub async fn guess(hub: &Hub, key: &ObjectKey) -> anyhow::Result<Subject> {
    let exists = async |kind: ScopedKind| {
        let objects =
            kind.of::<serde_json::Value, serde_json::Value>(&hub.client, key.namespace.as_deref());
        let found: Option<Stored<_, _>> = objects.find(key).await?;
        anyhow::Ok(found.is_some())
    };
    if exists(ScopedKind::Run).await? {
        return Ok(Subject::Run(key.clone()));
    }
    if exists(ScopedKind::Placement).await? {
        return Ok(Subject::Placement(key.clone()));
    }
    let members = hub
        .client
        .of_type::<Stored<serde_json::Value, serde_json::Value>>(resource("MemberCluster"));
    if members.find(&ObjectKey::cluster(&key.name)).await?.is_some() {
        return Ok(Subject::Cluster(key.name.clone()));
    }
    Ok(Subject::Nothing(key.clone(), elsewhere(hub, key).await?))
}

/// Runs and placements of this name in other namespaces, or in none.
async fn elsewhere(hub: &Hub, key: &ObjectKey) -> anyhow::Result<Vec<ObjectKey>> {
    let mut found = Vec::new();
    let named = Selection::all().with_fields(format!("metadata.name={}", key.name));
    for kind in [ScopedKind::Run, ScopedKind::Placement] {
        for scope in [None, Some("")] {
            let objects = kind.of::<serde_json::Value, serde_json::Value>(&hub.client, scope);
            let listed = objects.list(&named).await?.items;
            let keys = listed
                .iter()
                .map(|object| ObjectKey::new(object.metadata.namespace.as_deref(), object.name()));
            found.extend(keys.filter(|other| other != key));
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}
