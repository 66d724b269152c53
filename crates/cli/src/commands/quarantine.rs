//! `flagship quarantine`: what must not be rolled out again, and letting it go.
//!
//! It stands on the resource snapshot; the hub refuses the content, under whatever index.

use std::io::Write;

use anyhow::{Context, bail};
use clap::Args;
use flagship_api::keys::{label, own};
use flagship_api::names::ObjectKey;
use flagship_api::snapshot::ResourceSnapshotSpec;
use flagship_rules::model::ResourceSnapshot;
use flagship_rules::policy::quarantine::{self, Quarantine as Note};
use flagship_runtime::client::Selection;
use serde_json::{Value, json};

use super::board_text::Look;
use super::connect::{Connect, Hub};
use super::name::{self, Named};
use super::scoped_kind::{ScopedKind, Stored};
use super::steer::{command, whoami};
use super::table;

/// Keep a version from being rolled out, lift that, or list what is kept
#[derive(Args)]
pub struct Quarantine {
    /// The placement; left out, everything that is quarantined is listed
    placement: Option<String>,
    /// Why no run may roll it out, for those who are refused
    #[arg(long = "reason", value_name = "WHY", requires = "placement")]
    why: Option<String>,
    /// Let its content be rolled out again
    #[arg(long, requires = "placement", conflicts_with = "why")]
    lift: bool,
    /// Index of the resource snapshot; left out, the latest, and with --lift each
    #[arg(long, value_name = "INDEX", requires = "placement")]
    snapshot: Option<String>,
    /// Namespace of a namespaced placement
    #[arg(short, long)]
    namespace: Option<String>,
    #[command(flatten)]
    connect: Connect,
}

/// A snapshot without what is inside.
type Bare = Stored<Option<Value>, Option<Value>>;

/// The first object of a version.
struct Master {
    key: ObjectKey,
    placement: ObjectKey,
    value: ResourceSnapshot,
}

impl Master {
    fn read(object: &Bare) -> Option<Self> {
        let value = ResourceSnapshot::read(&object.metadata, &ResourceSnapshotSpec::default());
        value.hash.as_ref()?;
        let space = object.metadata.namespace.as_deref();
        let placement = ObjectKey::new(space, object.label(label::PARENT_PLACEMENT));
        Some(Self { key: ObjectKey::new(space, object.name()), placement, value })
    }

    fn index(&self) -> &str {
        self.value.index.as_deref().unwrap_or_default()
    }
}

impl Quarantine {
    /// Notes it, lifts it, or lists.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.connect.hub().await?;
        self.on(&hub, out).await
    }

    pub(super) async fn on(self, hub: &Hub, out: &mut dyn Write) -> anyhow::Result<u8> {
        let namespace = self.namespace.as_deref();
        let placement = self.placement.as_deref();
        let placement =
            placement.map(|name| name::must_be(Named::Placement, name, namespace)).transpose()?;
        let all = masters(hub, placement.as_ref()).await?;
        let Some(placement) = placement else { return listed(&all, out) };
        if self.lift {
            return self.lifted(hub, &placement, &all, out).await;
        }
        match &self.why {
            None => listed(&all, out),
            Some(why) => self.noted(hub, &placement, &all, why, out).await,
        }
    }

    async fn noted(
        &self,
        hub: &Hub,
        placement: &ObjectKey,
        all: &[Master],
        why: &str,
        out: &mut dyn Write,
    ) -> anyhow::Result<u8> {
        let master = match &self.snapshot {
            None => all.iter().find(|master| master.value.latest),
            Some(index) => all.iter().find(|master| master.index() == index),
        };
        let Some(master) = master else {
            let which =
                self.snapshot.as_ref().map_or_else(String::new, |index| format!(" {index}"));
            bail!("{placement} has no resource snapshot{which}");
        };
        let note = Note {
            hash: master.value.hash.clone().unwrap_or_default(),
            reason: why.to_owned(),
            by: whoami(hub).await.unwrap_or_default(),
        };
        annotate(hub, master, json!(note.to_text())).await?;
        writeln!(
            out,
            "snapshot {} of {placement} is quarantined: no run to its content begins anything",
            master.index()
        )?;
        writeln!(out, "lift it:  {}", quarantine::lift(placement))?;
        Ok(0)
    }

    async fn lifted(
        &self,
        hub: &Hub,
        placement: &ObjectKey,
        all: &[Master],
        out: &mut dyn Write,
    ) -> anyhow::Result<u8> {
        let wanted = self.snapshot.as_deref();
        let hash = wanted.and_then(|index| all.iter().find(|master| master.index() == index));
        let hash = hash.and_then(|master| master.value.hash.as_deref());
        let mut lifted = 0;
        for master in all {
            let Some(note) = &master.value.quarantine else { continue };
            let meant = wanted
                .is_none_or(|index| master.index() == index || hash == Some(note.hash.as_str()));
            if meant {
                annotate(hub, master, Value::Null).await?;
                let index = master.index();
                writeln!(out, "snapshot {index} of {placement} may be rolled out again")?;
                lifted += 1;
            }
        }
        if lifted == 0 {
            bail!(
                "nothing of {placement} is quarantined{}",
                match wanted {
                    None => String::new(),
                    Some(index) => format!(" with the content of snapshot {index}"),
                }
            );
        }
        writeln!(out, "roll it out:  {}", command("run", placement))?;
        Ok(0)
    }
}

/// What is quarantined of a placement, as far as one may see it.
pub(super) async fn held(hub: &Hub, placement: &ObjectKey) -> Vec<ResourceSnapshot> {
    let all = masters(hub, Some(placement)).await.unwrap_or_default();
    let held = all.into_iter().filter(|master| master.value.quarantine.is_some());
    held.map(|master| master.value).collect()
}

/// First objects of all versions, of one placement if one is named.
async fn masters(hub: &Hub, placement: Option<&ObjectKey>) -> anyhow::Result<Vec<Master>> {
    let scopes = match placement {
        Some(key) => vec![key.namespace.clone()],
        None => vec![None, Some(String::new())],
    };
    let mut found = Vec::new();
    for scope in scopes {
        let namespace = scope.as_deref();
        let objects = ScopedKind::ResourceSnapshot.of(&hub.client, namespace).metadata_only();
        let mut which = match namespace {
            None | Some("") => Selection::all(),
            Some(namespace) => Selection::namespace(namespace),
        };
        if let Some(key) = placement {
            which = which.with_labels(format!("{}={}", label::PARENT_PLACEMENT, key.name));
        }
        let listed: Vec<Bare> = objects.list(&which).await?.items;
        found.extend(listed.iter().filter_map(Master::read));
    }
    found.sort_by_cached_key(|master| {
        let index = master.index().parse::<u64>().unwrap_or(u64::MAX);
        (master.placement.clone(), index)
    });
    Ok(found)
}

async fn annotate(hub: &Hub, master: &Master, text: Value) -> anyhow::Result<()> {
    let namespace = master.key.namespace.as_deref();
    let objects = ScopedKind::ResourceSnapshot.of::<Value, Value>(&hub.client, namespace);
    let patch = json!({"metadata": {"annotations": {own::QUARANTINED: text}}});
    let patched = objects.patch_anyway(&master.key, patch).await;
    patched.with_context(|| format!("cannot note it on resource snapshot {}", master.key))?;
    Ok(())
}

fn listed(all: &[Master], out: &mut dyn Write) -> anyhow::Result<u8> {
    let rows: Vec<[String; 4]> = all
        .iter()
        .filter_map(|master| {
            let Note { by, reason, .. } = master.value.quarantine.clone()?;
            let (placement, index) = (master.placement.to_string(), master.index().to_owned());
            Some([placement, index, by, reason])
        })
        .collect();
    if rows.is_empty() {
        writeln!(out, "Nothing is quarantined.")?;
        return Ok(0);
    }
    table::write(["PLACEMENT", "SNAPSHOT", "BY", "REASON"], &rows, Look::here(), out)?;
    Ok(0)
}
