//! Commands that steer: `run`, `approve`, `stop`, `resume`, `rollback`.
//!
//! They write what kubectl would write, and say what happens next.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use flagship_api::approval::{ApprovalRequestSpec, ApprovalRequestStatus};
use flagship_api::condition::{Generation, draft};
use flagship_api::condition_type::approval_request;
use flagship_api::keys::label;
use flagship_api::names::{ObjectKey, StageSide, approval_request as request_name};
use flagship_api::placement_status::PlacementStatus;
use flagship_api::staged_update::{UpdateRunSpec, UpdateRunState};
use flagship_api::staged_update_status::UpdateRunStatus;
use flagship_explain::why::detail;
use flagship_rules::update_run::Age;
use flagship_rules::update_run::lifecycle::{self, Approval, Ending};
use flagship_runtime::client::{Client, ClientError, Selection};
use flagship_runtime::env::Env;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{DynamicObject, TypeMeta};
use serde_json::{Value, json};

use super::connect::{Connect, Hub};
use super::scoped_kind::{ScopedKind, Stored};

type RunObject = Stored<UpdateRunSpec, UpdateRunStatus>;

/// Start a run of a placement
#[derive(Args)]
pub struct Run {
    /// The placement
    placement: String,
    /// Namespace of a namespaced placement
    #[arg(short, long)]
    namespace: Option<String>,
    /// The strategy; the last run's, or the only one there is, if left out
    #[arg(long)]
    strategy: Option<String>,
    /// A version to roll out; what is on the hub now if left out
    #[arg(long, value_name = "INDEX", value_parser = index)]
    snapshot: Option<String>,
    /// The run's name; made from the placement's if left out
    #[arg(long)]
    name: Option<String>,
    /// Compute the stages and wait for `flagship resume`
    #[arg(long)]
    hold: bool,
    #[command(flatten)]
    connect: Connect,
}

/// Roll a placement back to the version it had before
#[derive(Args)]
pub struct Rollback {
    /// The placement
    placement: String,
    /// Namespace of a namespaced placement
    #[arg(short, long)]
    namespace: Option<String>,
    /// The version to go back to; the one before the newest rolled out if left out
    #[arg(long, value_name = "INDEX", value_parser = index)]
    to: Option<String>,
    /// The strategy; the last run's if left out
    #[arg(long)]
    strategy: Option<String>,
    #[command(flatten)]
    connect: Connect,
}

/// Reads the number of a snapshot.
fn index(text: &str) -> Result<String, String> {
    match text.parse::<u32>() {
        Ok(number) => Ok(number.to_string()),
        Err(_) => Err("versions are numbered: 0, 1, 2".to_owned()),
    }
}

/// Approve what a run waits for
#[derive(Args)]
pub struct Approve {
    /// The run
    run: String,
    /// The stage; may be left out when the run waits for one approval
    stage: Option<String>,
    /// Namespace of a namespaced run
    #[arg(short, long)]
    namespace: Option<String>,
    /// Why, for those who read the request later
    #[arg(long, default_value = "approved")]
    comment: String,
    /// How long to wait for a run that does not ask for this approval yet
    #[arg(long, default_value = "60s", value_parser = crate::agent::duration)]
    timeout: Duration,
    #[command(flatten)]
    connect: Connect,
}

/// Stop a run: clusters under way finish, no other is begun
#[derive(Args)]
pub struct Stop {
    #[command(flatten)]
    named: Named,
}

/// Let a stopped or merely initialized run go on
#[derive(Args)]
pub struct Resume {
    #[command(flatten)]
    named: Named,
}

#[derive(Args)]
struct Named {
    /// The run
    run: String,
    /// Namespace of a namespaced run
    #[arg(short, long)]
    namespace: Option<String>,
    #[command(flatten)]
    connect: Connect,
}

impl Run {
    /// Creates the run.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.connect.hub().await?;
        let placement = ObjectKey::new(self.namespace.as_deref(), &self.placement);
        must_exist(&hub, ScopedKind::Placement, &placement, "placement").await?;
        let strategy = match self.strategy {
            Some(strategy) => strategy,
            None => usual_strategy(&hub, &placement).await?,
        };
        let state = if self.hold { UpdateRunState::Initialize } else { UpdateRunState::Run };
        let wanted = Wanted { strategy, snapshot: self.snapshot.unwrap_or_default(), state };
        create(&hub, &placement, self.name, wanted, out).await
    }
}

impl Rollback {
    /// Creates a run to the version before.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.connect.hub().await?;
        let placement = ObjectKey::new(self.namespace.as_deref(), &self.placement);
        let past = runs_of(&hub.client, &placement).await?;
        let to = match self.to {
            Some(to) => to,
            None => version_before(&hub, &placement, &past).await?,
        };
        let strategy = match (self.strategy, past.last()) {
            (Some(strategy), _) => strategy,
            (None, Some(last)) => last.spec.staged_rollout_strategy_name.clone(),
            (None, None) => only_strategy(&hub, &placement).await?,
        };
        let wanted = Wanted { strategy, snapshot: to, state: UpdateRunState::Run };
        create(&hub, &placement, None, wanted, out).await
    }
}

struct Wanted {
    strategy: String,
    snapshot: String,
    state: UpdateRunState,
}

async fn create(
    hub: &Hub,
    placement: &ObjectKey,
    name: Option<String>,
    wanted: Wanted,
    out: &mut dyn Write,
) -> anyhow::Result<u8> {
    let namespace = placement.namespace.as_deref();
    let name = match name {
        Some(name) => name,
        None => free_name(&runs_of(&hub.client, placement).await?, &placement.name),
    };
    let key = ObjectKey::new(namespace, &name);
    let kind = ScopedKind::Run.resource(namespace);
    let runs = hub.client.of_type::<DynamicObject>(kind.clone());
    let spec = UpdateRunSpec {
        placement_name: placement.name.clone(),
        resource_snapshot_index: wanted.snapshot.clone(),
        staged_rollout_strategy_name: wanted.strategy.clone(),
        state: Some(wanted.state.clone()),
    };
    let object = DynamicObject {
        types: Some(TypeMeta { api_version: kind.api_version(), kind: kind.kind }),
        metadata: ObjectMeta {
            name: Some(name),
            namespace: placement.namespace.clone(),
            ..ObjectMeta::default()
        },
        data: json!({"spec": spec}),
    };
    runs.create(&object).await.with_context(|| format!("cannot create the run {key}"))?;
    let what = match wanted.snapshot.as_str() {
        "" => format!("{placement} as it is on the hub now"),
        index => format!("snapshot {index} of {placement}"),
    };
    writeln!(out, "{key} created: rolls out {what}, with strategy {}", wanted.strategy)?;
    writeln!(out, "follow it:  {}", command("watch", &key))?;
    if wanted.state == UpdateRunState::Initialize {
        writeln!(out, "start it:   {}", command("resume", &key))?;
    }
    Ok(0)
}

impl Approve {
    /// Writes the approval with the right generation.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.connect.hub().await?;
        let run = ObjectKey::new(self.namespace.as_deref(), &self.run);
        must_exist(&hub, ScopedKind::Run, &run, "run").await?;
        let asking = asked(&hub, &run, self.stage.as_deref());
        let request = match tokio::time::timeout(self.timeout, asking).await {
            Ok(found) => found?,
            Err(_) => bail!(
                "{run} does not ask for this approval yet; `{}` says what it waits for",
                command("why", &run)
            ),
        };
        approve(&hub, &run, &request, &self.comment).await?;
        writeln!(out, "{} approved", request.name())?;
        writeln!(out, "follow it:  {}", command("watch", &run))?;
        Ok(0)
    }
}

/// The request to approve, once the run asks for it.
async fn asked(hub: &Hub, run: &ObjectKey, stage: Option<&str>) -> anyhow::Result<Request> {
    loop {
        let mut open = open_requests(hub, run).await?;
        let right =
            |request: &Request| stage.is_none_or(|stage| request.spec.target_stage == stage);
        open.retain(right);
        match open.len() {
            0 => ahead(hub, run, stage).await?,
            1 => return Ok(open.remove(0)),
            _ => {
                let stages: Vec<&str> =
                    open.iter().map(|request| request.spec.target_stage.as_str()).collect();
                bail!("{run} waits for several approvals; name the stage: {}", stages.join(", "));
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// How often a run that does not ask yet is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Refuses to wait for an approval that the run will never ask for.
async fn ahead(hub: &Hub, run: &ObjectKey, stage: Option<&str>) -> anyhow::Result<()> {
    let runs =
        ScopedKind::Run.of::<UpdateRunSpec, UpdateRunStatus>(&hub.client, run.namespace.as_deref());
    let found = runs.get(run).await?;
    if !lifecycle::will_ask(&found.status, stage) {
        let stage = stage.map_or_else(String::new, |stage| format!(" for stage {stage}"));
        bail!(
            "{run} will ask for no approval{stage}; `{}` shows what it asks for",
            command("status", run)
        );
    }
    Ok(())
}

type Request = Stored<ApprovalRequestSpec, ApprovalRequestStatus>;

async fn approve(
    hub: &Hub,
    run: &ObjectKey,
    request: &Request,
    comment: &str,
) -> anyhow::Result<()> {
    let generation = Generation::of(&request.metadata);
    let mut conditions = request.status.conditions.clone();
    draft(approval_request::APPROVED).is_true("approved").because(comment).set_afresh(
        &mut conditions,
        generation,
        Env::system().now(),
    );
    let requests = ScopedKind::Approval
        .of::<ApprovalRequestSpec, ApprovalRequestStatus>(&hub.client, run.namespace.as_deref());
    let key = ObjectKey::new(run.namespace.as_deref(), request.name());
    let version = request.metadata.resource_version.clone();
    // Fenced by the version we saw: nobody approves what has just been replaced.
    let patch =
        json!({"metadata": {"resourceVersion": version}, "status": {"conditions": conditions}});
    requests
        .patch_status_anyway(&key, patch)
        .await
        .with_context(|| format!("cannot approve {key}"))?;
    Ok(())
}

/// Requests of the run that nobody has validly approved, both sides.
async fn open_requests(hub: &Hub, run: &ObjectKey) -> anyhow::Result<Vec<Request>> {
    let selection =
        in_namespace(run).with_labels(format!("{}={}", label::TARGET_UPDATE_RUN, run.name));
    let requests = ScopedKind::Approval.of(&hub.client, run.namespace.as_deref());
    let mut open: Vec<Request> = requests.list(&selection).await?.items;
    open.retain(|request| {
        let generation = Generation::of(&request.metadata);
        let ours = [StageSide::Before, StageSide::After].iter().any(|side| {
            request_name(&run.name, *side, request.spec.target_stage.as_str()) == request.name()
        });
        ours && lifecycle::approval(&request.status.conditions, generation) != Approval::Given
    });
    Ok(open)
}

impl Stop {
    /// Sets the state.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.named.connect.hub().await?;
        let key = set_state(&hub, &self.named, UpdateRunState::Stop).await?;
        writeln!(out, "{key} stops: clusters under way finish, no other is begun")?;
        writeln!(out, "go on:  {}", command("resume", &key))?;
        Ok(0)
    }
}

impl Resume {
    /// Sets the state.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.named.connect.hub().await?;
        self.on(&hub, out).await
    }

    pub(super) async fn on(self, hub: &Hub, out: &mut dyn Write) -> anyhow::Result<u8> {
        let key = set_state(hub, &self.named, UpdateRunState::Run).await?;
        writeln!(out, "{key} goes on")?;
        writeln!(out, "follow it:  {}", command("watch", &key))?;
        Ok(0)
    }
}

async fn set_state(hub: &Hub, named: &Named, state: UpdateRunState) -> anyhow::Result<ObjectKey> {
    let key = ObjectKey::new(named.namespace.as_deref(), &named.run);
    let runs =
        ScopedKind::Run.of::<UpdateRunSpec, UpdateRunStatus>(&hub.client, key.namespace.as_deref());
    let run = runs.find(&key).await?.with_context(|| format!("there is no run {key}"))?;
    if let Some(ending) = lifecycle::ending(&run.status) {
        let placement = ObjectKey::new(key.namespace.as_deref(), &run.spec.placement_name);
        let why = match ending {
            Ending::Succeeded => "has ended".to_owned(),
            Ending::Failed(message) => format!("can never go on, it failed: {}", detail(message)),
            Ending::NotInitialized(message) => {
                format!("can never go on, it could not be initialized: {}", detail(message))
            }
        };
        bail!("{key} {why}; start a new run: {}", command("run", &placement));
    }
    runs.patch_anyway(&key, json!({"spec": {"state": state}})).await?;
    Ok(key)
}

/// The version that was fully rolled out before the one the placement has now.
async fn version_before(
    hub: &Hub,
    placement: &ObjectKey,
    past: &[RunObject],
) -> anyhow::Result<String> {
    let placements = ScopedKind::Placement
        .of::<Value, PlacementStatus>(&hub.client, placement.namespace.as_deref());
    let found = placements.find(placement).await?;
    let found = found.with_context(|| format!("there is no placement {placement}"))?;
    let past: Vec<&UpdateRunStatus> = past.iter().map(|run| &run.status).collect();
    let before = lifecycle::version_before(&past, &found.status.observed_resource_index);
    before.map(str::to_owned).with_context(|| {
        format!("no other version of {placement} was rolled out before; choose one with --to")
    })
}

/// Runs of a placement, oldest first.
pub async fn runs_of(
    client: &Client,
    placement: &ObjectKey,
) -> Result<Vec<RunObject>, ClientError> {
    let runs = ScopedKind::Run.of(client, placement.namespace.as_deref());
    let mut found: Vec<RunObject> = runs.list(&in_namespace(placement)).await?.items;
    found.retain(|run| run.spec.placement_name == placement.name);
    found.sort_by_cached_key(|run| Age::of(&run.metadata, &run.status));
    Ok(found)
}

/// The strategy of the last run if it is still there, else the only one.
pub async fn usual_strategy(hub: &Hub, placement: &ObjectKey) -> anyhow::Result<String> {
    let past = runs_of(&hub.client, placement).await?;
    if let Some(last) = past.last() {
        let name = &last.spec.staged_rollout_strategy_name;
        let key = ObjectKey::new(placement.namespace.as_deref(), name);
        let strategies =
            ScopedKind::Strategy.of::<Value, Value>(&hub.client, key.namespace.as_deref());
        if strategies.find(&key).await?.is_some() {
            return Ok(key.name);
        }
    }
    only_strategy(hub, placement).await
}

/// The one strategy there is, so that nobody has to name it.
pub async fn only_strategy(hub: &Hub, placement: &ObjectKey) -> anyhow::Result<String> {
    let strategies =
        ScopedKind::Strategy.of::<Value, Value>(&hub.client, placement.namespace.as_deref());
    let found = strategies.list(&in_namespace(placement)).await?.items;
    match found.as_slice() {
        [only] => Ok(only.name().to_owned()),
        [] => bail!("there is no update strategy yet; create one, then name it with --strategy"),
        several => {
            let names: Vec<&str> = several.iter().map(Stored::name).collect();
            bail!("several strategies exist; choose with --strategy: {}", names.join(", "));
        }
    }
}

/// Says plainly that something is not there.
pub async fn must_exist(
    hub: &Hub,
    kind: ScopedKind,
    key: &ObjectKey,
    what: &str,
) -> anyhow::Result<()> {
    let objects = kind.of::<Value, Value>(&hub.client, key.namespace.as_deref());
    objects.find(key).await?.with_context(|| format!("there is no {what} {key}"))?;
    Ok(())
}

fn in_namespace(key: &ObjectKey) -> Selection {
    match &key.namespace {
        Some(namespace) => Selection::namespace(namespace),
        None => Selection::all(),
    }
}

/// `demo-1`, `demo-2`: the first number nobody used.
fn free_name(taken: &[RunObject], placement: &str) -> String {
    // A run's name has at most 63 characters and may not end in a sign.
    let stem: String = placement.chars().take(57).collect();
    let stem = stem.trim_end_matches(['-', '.']);
    (1..)
        .map(|number| format!("{stem}-{number}"))
        .find(|name| taken.iter().all(|run| run.name() != name))
        .expect("numbers do not end")
}

fn command(verb: &str, key: &ObjectKey) -> String {
    match &key.namespace {
        Some(namespace) => format!("flagship {verb} -n {namespace} {}", key.name),
        None => format!("flagship {verb} {}", key.name),
    }
}
