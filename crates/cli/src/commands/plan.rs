//! `flagship plan`: what a run of this placement would do, before there is one.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use flagship_api::binding::{ResourceBindingSpec, ResourceBindingStatus};
use flagship_api::go_json::Sorted;
use flagship_api::hash::of_resources;
use flagship_api::keys::label;
use flagship_api::names::ObjectKey;
use flagship_api::placement::PlacementSpec;
use flagship_api::placement_status::{PlacementStatus, ResourceIdentifier};
use flagship_api::snapshot::{
    ResourceSnapshotSpec, SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus,
};
use flagship_api::staged_update::{UpdateRunSpec, UpdateStrategySpec};
use flagship_explain::board::{Gate, Side};
use flagship_explain::changes::{FieldChange, ObjectChange, What, between};
use flagship_explain::effect::{Content, Effect, usual, versions};
use flagship_explain::order::some_of;
use flagship_explain::plan::{Asked, Foreseen, Stages, foresee};
use flagship_explain::served_kinds::custom_kinds;
use flagship_rules::model::{Binding, Cluster, PolicySnapshot, ResourceSnapshot};
use flagship_rules::placement::selection::{Kind, manifest};
use flagship_rules::placement::{Placement, identifier};
use flagship_rules::update_run;
use flagship_runtime::client::{Client, Selection};
use flagship_runtime::dynamic::discover;
use flagship_runtime::env::Env;
use jiff::Timestamp;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::board_text::Look;
use super::connect::{Connect, Hub};
use super::name::{self, Named};
use super::print::{self, Output};
use super::scoped_kind::{ScopedKind, Stored, resource};
use super::start::usual_strategy;
use super::steer::{in_namespace, runs_of};
use super::table;
use super::wrap::after;
use super::{freeze, gather, quarantine};

/// Show what a run of a placement would do, before there is one
#[derive(Args)]
pub struct Plan {
    /// The placement
    placement: String,
    /// Namespace of a namespaced placement
    #[arg(short, long)]
    namespace: Option<String>,
    /// The strategy; the last run's, or the only one there is, if left out
    #[arg(long)]
    strategy: Option<String>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

impl Plan {
    /// Prints the stages, or why a run would be refused.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.connect.hub().await?;
        self.answer(&hub, Env::system().now(), out).await
    }

    pub(super) async fn answer(
        self,
        hub: &Hub,
        now: Timestamp,
        out: &mut dyn Write,
    ) -> anyhow::Result<u8> {
        let key = name::must_be(Named::Placement, &self.placement, self.namespace.as_deref())?;
        let strategy = match &self.strategy {
            Some(strategy) => strategy.clone(),
            None => usual_strategy(hub, &key).await?,
        };
        let asked = read(hub, &key, &strategy, None, now).await?;
        match foresee(asked) {
            Foreseen::Stages(stages) => {
                match self.output.output {
                    Some(shape) => {
                        let value = json!({"at": now, "placement": key.name,
                            "namespace": key.namespace, "strategy": strategy,
                            "stages": stages.stages, "atOnce": stages.at_once,
                            "clusters": stages.clusters, "approvals": stages.approvals,
                            "passed": stages.passed, "frozen": stages.frozen,
                            "calendar": stages.calendar,
                            "policies": stages.policies, "openRuns": stages.open,
                            "effect": stages.effect});
                        shape.write(&value, out)?;
                    }
                    None => show(&key, &strategy, &stages, Look::here(), out)?,
                }
                Ok(0)
            }
            Foreseen::Refused(refused) => {
                let found = refused.explain(gather::clusters(&hub.client).await?);
                match self.output.output {
                    Some(shape) => shape.write(&print::as_value(&found), out)?,
                    None => print::as_text(&found, Look::here(), out)?,
                }
                Ok(found.state.exit_code())
            }
            Foreseen::NotNow(why) => bail!(why),
        }
    }
}

fn show(
    key: &ObjectKey,
    strategy: &str,
    planned: &Stages,
    look: Look,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let title = format!("Rolling out {key} with strategy {strategy}");
    writeln!(out, "{}", after("", &title, look.width))?;
    writeln!(out)?;
    let rows: Vec<[String; 4]> = planned
        .stages
        .iter()
        .zip(&planned.at_once)
        .map(|(stage, at_once)| {
            let clusters: Vec<&str> =
                stage.cells.iter().map(|cell| cell.cluster.as_str()).collect();
            let clusters =
                if clusters.is_empty() { "none, skipped".to_owned() } else { clusters.join(" ") };
            [stage.name.clone(), clusters, at_once.clone(), gates(&stage.gates)]
        })
        .collect();
    table::write(["STAGE", "CLUSTERS", "AT ONCE", "GATES"], &rows, look, out)?;
    writeln!(out)?;
    writeln!(out, "{} cluster(s), {} approval(s).", planned.clusters, planned.approvals)?;
    let passed = planned.passed.iter().map(|passed| &passed.message);
    for note in planned.policies.iter().chain(passed).chain(&planned.frozen) {
        writeln!(out, "{}", after("note:  ", note, look.width))?;
    }
    let flag =
        key.namespace.as_ref().map_or_else(String::new, |namespace| format!(" -n {namespace}"));
    tell(planned, look, out)?;
    let plan = match &planned.effect.changes {
        Some(_) => format!(" --plan {}", planned.effect.hash),
        // A run could bring anything then, and no hash would notice.
        None => String::new(),
    };
    writeln!(out, "start it:  flagship run{flag} {} --strategy {strategy}{plan}", key.name)?;
    Ok(())
}

/// Changes of one object that are shown; `-o json` has all.
const FIELDS: usize = 8;

/// What would change on the clusters.
fn tell(planned: &Stages, look: Look, out: &mut dyn Write) -> anyhow::Result<()> {
    let effect = &planned.effect;
    writeln!(out)?;
    let now: Vec<String> = effect
        .versions
        .iter()
        .map(|(version, count)| match version.as_str() {
            "none" => format!("no version on {count}"),
            version => format!("snapshot {version} on {count}"),
        })
        .collect();
    let now = if now.is_empty() { "nothing".to_owned() } else { now.join(", ") };
    writeln!(out, "{}", after("now:      ", &now, look.width))?;
    if !effect.regions.is_empty() {
        let regions: Vec<String> =
            effect.regions.iter().map(|(region, count)| format!("{region} {count}")).collect();
        writeln!(out, "{}", after("regions:  ", &regions.join(", "), look.width))?;
    }
    let against = match &effect.from {
        Some(version) => format!("against snapshot {version}"),
        None => "no cluster has a version yet".to_owned(),
    };
    let changes = match effect.changes.as_ref().map(Vec::len) {
        None => "unknown: there is no snapshot yet, or what it selects cannot be read".to_owned(),
        Some(0) => format!("none, {against}"),
        Some(count) => format!("{count} object(s), {against}"),
    };
    writeln!(out, "{}", after("changes:  ", &changes, look.width))?;
    for change in effect.changes.iter().flatten() {
        let sign = match change.what {
            What::Added => "+",
            What::Removed => "-",
            What::Changed => "~",
        };
        let pods = match (change.restarts, change.pods) {
            (true, Some(pods)) => format!("  restarts {pods} pod(s) a cluster"),
            (true, None) => "  restarts its pods".to_owned(),
            (false, _) => String::new(),
        };
        let told = format!("{}{pods}", change.named());
        writeln!(out, "{}", after(&format!("  {sign} "), &told, look.width))?;
        for field in change.fields.iter().take(FIELDS) {
            writeln!(out, "{}", after("      ", &changed(field), look.width))?;
        }
        if change.fields.len() > FIELDS {
            writeln!(out, "      and {} more field(s)", change.fields.len() - FIELDS)?;
        }
        for path in &change.immutable {
            let told = format!("{path} cannot be changed: applying it will fail on every cluster");
            writeln!(out, "{}", after("      fails:  ", &told, look.width))?;
        }
    }
    tell_overrides(effect, look, out)?;
    if effect.pods > 0 {
        writeln!(out, "pods that restart: {} on all clusters", effect.pods)?;
    }
    for kind in &effect.missing_kinds {
        let named = format!("kind {} of {}", kind.kind, kind.group);
        if !kind.lacking.is_empty() {
            let told = format!("would fail on {}: no {named}", on(&kind.lacking));
            writeln!(out, "{}", after("fails:  ", &told, look.width))?;
        }
        if kind.unknown > 0 {
            let told = format!(
                "whether {} cluster(s) serve {named}: nothing of it was applied there yet",
                kind.unknown
            );
            writeln!(out, "{}", after("unknown:  ", &told, look.width))?;
        }
    }
    for group in &effect.unstaged {
        let told = format!("no stage takes {}: {}", on(&group.clusters), group.because);
        writeln!(out, "{}", after("note:  ", &told, look.width))?;
    }
    for open in &planned.open {
        let told = format!("{open} has not ended; both would roll out this placement");
        writeln!(out, "{}", after("note:  ", &told, look.width))?;
    }
    writeln!(out)?;
    Ok(())
}

/// What overrides make of it, those with the same effect together.
fn tell_overrides(effect: &Effect, look: Look, out: &mut dyn Write) -> anyhow::Result<()> {
    if effect.overrides_unread {
        let told = "unknown, you may not read all of them";
        writeln!(out, "{}", after("overrides:  ", told, look.width))?;
    }
    if effect.overrides.is_empty() {
        return Ok(());
    }
    writeln!(out, "overrides:")?;
    for one in &effect.overrides {
        let object =
            if one.object.is_empty() { String::new() } else { format!(" on {}", one.object) };
        writeln!(out, "{}", after("  ", &format!("{}{object}", one.by), look.width))?;
        for field in one.fields.iter().take(FIELDS) {
            writeln!(out, "{}", after("      ", &changed(field), look.width))?;
        }
        if one.fields.len() > FIELDS {
            writeln!(out, "      and {} more field(s)", one.fields.len() - FIELDS)?;
        }
        if one.dropped {
            writeln!(out, "      is not delivered")?;
        }
        if !one.fails.is_empty() {
            let told = format!("nothing reaches these clusters: {}", one.fails);
            writeln!(out, "{}", after("      fails:  ", &told, look.width))?;
        }
        if !one.clusters.is_empty() {
            writeln!(out, "{}", after("      on:  ", &on(&one.clusters), look.width))?;
        }
    }
    Ok(())
}

/// Clusters that are named; `-o json` has all.
const NAMED: usize = 10;

/// `2 cluster(s), a, b`.
fn on(clusters: &[String]) -> String {
    let names: Vec<&str> = clusters.iter().map(String::as_str).collect();
    format!("{} cluster(s), {}", names.len(), some_of(&names, NAMED))
}

/// `spec.replicas: 3 → 5`.
fn changed(field: &FieldChange) -> String {
    let or_none = |value: &Option<String>| value.clone().unwrap_or_else(|| "unset".to_owned());
    format!("{}: {} → {}", field.path, or_none(&field.from), or_none(&field.to))
}

fn gates(gates: &[Gate]) -> String {
    let texts: Vec<String> = gates
        .iter()
        .map(|gate| {
            let side = if gate.side == Side::Before { "before" } else { "after" };
            match gate.wait.as_str() {
                "" => format!("approval {side}"),
                wait => format!("wait {wait} {side}"),
            }
        })
        .collect();
    texts.join(", ")
}

/// Reads what a plan of this placement is made from.
pub async fn read(
    hub: &Hub,
    key: &ObjectKey,
    strategy: &str,
    version: Option<&str>,
    now: Timestamp,
) -> anyhow::Result<Asked> {
    let client = &hub.client;
    let namespace = key.namespace.as_deref();
    let selection = match namespace {
        Some(namespace) => Selection::namespace(namespace),
        None => Selection::all(),
    };
    let of_placement =
        selection.clone().with_labels(format!("{}={}", label::PARENT_PLACEMENT, key.name));
    let latest = selection.with_labels(format!(
        "{}={},{}=true",
        label::PARENT_PLACEMENT,
        key.name,
        label::IS_LATEST_SNAPSHOT
    ));
    let placement: Option<Stored<PlacementSpec, PlacementStatus>> =
        ScopedKind::Placement.of(client, namespace).find(key).await?;
    let placement = placement.with_context(|| format!("there is no placement {key}"))?;
    let strategy_key = ObjectKey::new(namespace, strategy);
    let found: Option<Stored<UpdateStrategySpec, Value>> =
        ScopedKind::Strategy.of(client, namespace).find(&strategy_key).await?;
    let policies = ScopedKind::PolicySnapshot.of(client, namespace).list(&latest).await?.items;
    let bindings = ScopedKind::Binding.of(client, namespace).list(&of_placement).await?.items;
    let members = client.of_type::<Stored<Value, Value>>(resource("MemberCluster"));
    let members = members.list(&Selection::all()).await?.items;
    let bindings: Vec<Arc<Binding>> = bindings
        .into_iter()
        .map(|found: Stored<ResourceBindingSpec, ResourceBindingStatus>| {
            Arc::new(Binding::read(found.metadata, found.spec, Some(found.status)))
        })
        .collect();
    let from = usual(&versions(&bindings)).map(str::to_owned);
    // Whoever may start runs need not be able to read what they carry.
    let old = match &from {
        Some(index) => snapshots(client, key, index).await.map(|found| manifests(&found)).ok(),
        None => Some(Vec::new()),
    };
    let (version, new, hash) = match version {
        None => {
            let selected = &placement.status.selected_resources;
            let new = on_the_hub(client, key, selected).await.unwrap_or_default();
            let sorted = new.as_ref().map(|new| new.iter().map(Sorted));
            let hash = sorted.and_then(|sorted| of_resources(sorted).ok());
            (quarantined(hub, key, new.as_deref()).await, new, hash)
        }
        Some(index) => {
            let found = snapshots(client, key, index).await?;
            let mut read = read_all(&found);
            // The same content may be quarantined under another index.
            let mut others = quarantine::held(hub, key).await;
            others.retain(|other| other.index.as_deref() != Some(index));
            let hash = read.iter().find_map(|one| one.hash.clone());
            read.extend(others.into_iter().map(Arc::new));
            (Some((index.to_owned(), read)), Some(manifests(&found)), hash)
        }
    };
    let imagined = UpdateRunSpec {
        placement_name: key.name.clone(),
        staged_rollout_strategy_name: strategy.to_owned(),
        ..UpdateRunSpec::default()
    };
    let policy = freeze::seen(client, key, &imagined).await?;
    let (overrides, overrides_unread) = overrides(client, namespace).await;
    // Only a kind that some clusters may lack is worth asking all bindings about.
    let others = match new.as_deref().map(custom_kinds) {
        Some(kinds) if !kinds.is_empty() => all_bindings(client).await,
        _ => Vec::new(),
    };
    let content = Content { from, old, new, hash, overrides, overrides_unread, others };
    Ok(Asked {
        now,
        policy,
        key: key.clone(),
        strategy_name: strategy.to_owned(),
        strategy: found.map(|found| found.spec),
        placement: Placement::read(&placement.metadata, &placement.spec, &placement.status),
        policy_snapshots: policies
            .iter()
            .map(|found: &Stored<SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus>| {
                Arc::new(PolicySnapshot::read(&found.metadata, &found.spec, Some(&found.status)))
            })
            .collect(),
        bindings,
        clusters: members.iter().map(|member| Arc::new(Cluster::named(&member.metadata))).collect(),
        version,
        runs: runs_of(client, key)
            .await?
            .iter()
            .map(|run| update_run::Run::read(&run.metadata, &run.spec, &run.status))
            .collect(),
        content,
    })
}

type SnapshotObject = Stored<ResourceSnapshotSpec, Value>;

/// A version and its snapshots.
type Version = (String, Vec<Arc<ResourceSnapshot>>);

fn read_all(found: &[SnapshotObject]) -> Vec<Arc<ResourceSnapshot>> {
    let read = found.iter().map(|one| ResourceSnapshot::read(&one.metadata, &one.spec));
    read.map(Arc::new).collect()
}

/// The quarantined version that has the content which a run would bring: the run would be
/// refused as if it had named it.
async fn quarantined(hub: &Hub, key: &ObjectKey, new: Option<&[Value]>) -> Option<Version> {
    let sorted = |all: &[Value]| {
        let mut texts: Vec<String> = all.iter().map(Value::to_string).collect();
        texts.sort();
        texts
    };
    let new = sorted(new?);
    for index in quarantine::held(hub, key).await.into_iter().filter_map(|held| held.index) {
        let Ok(found) = snapshots(&hub.client, key, &index).await else { continue };
        if sorted(&manifests(&found)) == new {
            return Some((index, read_all(&found)));
        }
    }
    None
}

/// The snapshots of one version.
async fn snapshots(
    client: &Client,
    key: &ObjectKey,
    index: &str,
) -> anyhow::Result<Vec<SnapshotObject>> {
    let of_index = in_namespace(key).with_labels(format!(
        "{}={},{}={index}",
        label::PARENT_PLACEMENT,
        key.name,
        label::RESOURCE_INDEX
    ));
    let namespace = key.namespace.as_deref();
    Ok(ScopedKind::ResourceSnapshot.of(client, namespace).list(&of_index).await?.items)
}

/// What differs between two versions of a placement.
pub async fn changes_between(
    hub: &Hub,
    key: &ObjectKey,
    from: &str,
    to: &str,
) -> anyhow::Result<Vec<ObjectChange>> {
    let mut versions = Vec::new();
    for index in [from, to] {
        let found = snapshots(&hub.client, key, index).await?;
        if found.is_empty() {
            bail!("snapshot {index} of {key} is not there any more");
        }
        versions.push(manifests(&found));
    }
    Ok(between(&versions[0], &versions[1]))
}

fn manifests(snapshots: &[SnapshotObject]) -> Vec<Value> {
    let all = snapshots.iter().flat_map(|snapshot| &snapshot.spec.selected_resources);
    all.filter_map(|manifest| manifest.parse().ok()).collect()
}

/// The objects that the placement selects, as the next snapshot would hold them; nothing if it
/// does not say yet what it selects. Whoever was deleted in between is not among them.
async fn on_the_hub(
    client: &Client,
    key: &ObjectKey,
    selected: &[ResourceIdentifier],
) -> anyhow::Result<Option<Vec<Value>>> {
    // While clusters have different versions, the placement names no objects.
    let latest;
    let selected = match selected {
        [] => {
            latest = latest_content(client, key).await?;
            latest.as_slice()
        }
        selected => selected,
    };
    if selected.is_empty() {
        return Ok(None);
    }
    let served = discover(client).await;
    let reads = selected.iter().filter(|object| object.envelope.is_none()).map(async |object| {
        let kind = Kind::new(&object.group, &object.version, &object.kind);
        let known =
            served.types.keys().find(|known| kind.is(&known.group, &known.version, &known.kind));
        let resource = known.with_context(|| format!("the hub does not serve {}", object.kind))?;
        let namespace = Some(object.namespace.as_str()).filter(|name| !name.is_empty());
        let key = ObjectKey::new(namespace, &object.name);
        let objects = client.of_type::<DynamicObject>(resource.clone());
        let Some(found) = objects.find(&key).await? else { return Ok(None) };
        let manifest = manifest(&kind, serde_json::to_value(found)?)?;
        anyhow::Ok(Some(manifest.parse()?))
    });
    let read = futures::future::try_join_all(reads).await?;
    Ok(Some(read.into_iter().flatten().collect()))
}

/// What the newest snapshot holds.
async fn latest_content(
    client: &Client,
    key: &ObjectKey,
) -> anyhow::Result<Vec<ResourceIdentifier>> {
    let newest = in_namespace(key).with_labels(format!(
        "{}={},{}=true",
        label::PARENT_PLACEMENT,
        key.name,
        label::IS_LATEST_SNAPSHOT
    ));
    let namespace = key.namespace.as_deref();
    let found: Vec<SnapshotObject> =
        ScopedKind::ResourceSnapshot.of(client, namespace).list(&newest).await?.items;
    let labels = found.first().and_then(|one| one.metadata.labels.as_ref());
    let index = labels.and_then(|labels| labels.get(label::RESOURCE_INDEX));
    let Some(index) = index else { return Ok(Vec::new()) };
    let all = snapshots(client, key, index).await?;
    let held = all.iter().flat_map(|snapshot| &snapshot.spec.selected_resources);
    Ok(held.map(identifier).collect())
}

/// Overrides that could concern the placement, with what they say, and whether there may be
/// others: whoever may start runs need not be able to read overrides.
async fn overrides(client: &Client, namespace: Option<&str>) -> (BTreeMap<String, Value>, bool) {
    let (mut found, mut unread) = (BTreeMap::new(), false);
    let narrow = namespace.map_or_else(Selection::all, Selection::namespace);
    for (kind, selection) in
        [("ClusterResourceOverride", Selection::all()), ("ResourceOverride", narrow)]
    {
        let listed = client.of_type::<Stored<Value, Value>>(resource(kind)).list(&selection).await;
        unread |= listed.is_err();
        for one in listed.map_or_else(|_| Vec::new(), |listed| listed.items) {
            let key = ObjectKey::new(one.metadata.namespace.as_deref(), one.name());
            found.insert(format!("{kind} {key}"), one.spec);
        }
    }
    (found, unread)
}

/// Bindings of all placements, as far as they can be read.
async fn all_bindings(client: &Client) -> Vec<Arc<Binding>> {
    let mut found = Vec::new();
    for kind in ["ClusterResourceBinding", "ResourceBinding"] {
        let bindings = client
            .of_type::<Stored<ResourceBindingSpec, ResourceBindingStatus>>(resource(kind))
            .list(&Selection::all())
            .await;
        let bindings = bindings.map_or_else(|_| Vec::new(), |listed| listed.items);
        found.extend(
            bindings
                .into_iter()
                .map(|one| Arc::new(Binding::read(one.metadata, one.spec, Some(one.status)))),
        );
    }
    found
}
