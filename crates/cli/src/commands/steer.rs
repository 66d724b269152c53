//! Commands that steer a run: `approve`, `stop`, `resume`. New runs are made in `start`.
//!
//! They write what kubectl would write, and say what happens next.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use flagship_api::approval::{ApprovalRequestSpec, ApprovalRequestStatus};
use flagship_api::approval_decision::{Decision, Person};
use flagship_api::keys::label;
use flagship_api::names::ObjectKey;
use flagship_api::staged_update::{UpdateRunSpec, UpdateRunState};
use flagship_api::staged_update_status::UpdateRunStatus;
use flagship_explain::why::{detail, spoken};
use flagship_rules::update_run::approving::{approved, is_open};
use flagship_rules::update_run::lifecycle::{self, Ending};
use flagship_rules::update_run::superseded::{superseded, taken};
use flagship_rules::update_run::{Age, OtherRun};
use flagship_runtime::client::{Client, ClientError, Selection};
use flagship_runtime::env::Env;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::approvals::{Said, say};
use super::connect::{Connect, Hub};
use super::name::{self, Named};
use super::scoped_kind::{ScopedKind, Stored};

pub(super) type RunObject = Stored<UpdateRunSpec, UpdateRunStatus>;

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
    /// Why, for those who read the request later; who approves is added
    #[arg(long, visible_alias = "reason")]
    comment: Option<String>,
    /// The plan that you approve, if you want to be sure that it is still the one you saw
    #[arg(long)]
    plan: Option<String>,
    /// Let the stage pass in an emergency, as the policy's break-glass group; needs a reason
    #[arg(long)]
    break_glass: bool,
    /// How long to wait for a run that does not ask for this approval yet
    #[arg(long, default_value = "60s", value_parser = crate::agent::duration)]
    timeout: Duration,
    /// Approve although a newer run has taken clusters of this one
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    connect: Connect,
}

/// Stop a run: clusters under way finish, no other is begun
#[derive(Args)]
pub struct Stop {
    #[command(flatten)]
    named: RunName,
}

/// Let a stopped or merely initialized run go on
#[derive(Args)]
pub struct Resume {
    #[command(flatten)]
    named: RunName,
    /// Go on although a newer run has taken clusters of this one
    #[arg(long)]
    force: bool,
}

#[derive(Args)]
struct RunName {
    /// The run
    run: String,
    /// Namespace of a namespaced run
    #[arg(short, long)]
    namespace: Option<String>,
    #[command(flatten)]
    connect: Connect,
}

impl Approve {
    /// Writes the approval with the right generation; that it waits is told to `notes`.
    pub async fn run(self, out: &mut dyn Write, notes: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.connect.hub().await?;
        self.on(&hub, &Env::system(), out, notes).await
    }

    pub(super) async fn on(
        self,
        hub: &Hub,
        env: &Env,
        out: &mut dyn Write,
        notes: &mut dyn Write,
    ) -> anyhow::Result<u8> {
        let run = name::must_be(Named::Run, &self.run, self.namespace.as_deref())?;
        must_exist(hub, ScopedKind::Run, &run, "run").await?;
        if asked_now(hub, &run, self.stage.as_deref()).await?.is_none() {
            let patience = self.timeout.as_secs();
            let of = self.stage.as_deref().map_or_else(String::new, |s| format!(" of stage {s}"));
            let waits = format!("{run} does not ask for an approval{of} yet");
            writeln!(notes, "{waits}; waiting up to {patience}s")?;
            notes.flush()?;
        }
        let asking = asked(hub, &run, self.stage.as_deref());
        let request = match tokio::time::timeout(self.timeout, asking).await {
            Ok(found) => found?,
            Err(_) => bail!(
                "{run} does not ask for this approval yet; `{}` says what it waits for",
                command("why", &run)
            ),
        };
        if !self.force {
            // Asked last: while the approval was waited for, another run may have come by.
            may_go_on(hub, &run, env.now()).await?;
        }
        let said = Said {
            decision: Decision::Approve,
            why: self.comment.clone().unwrap_or_default(),
            break_glass: self.break_glass,
            plan: self.plan,
        };
        if say(hub, env, &run, &request, said, out).await? {
            writeln!(out, "follow it:  {}", command("watch", &run))?;
            return Ok(0);
        }
        if self.break_glass {
            bail!("no rollout policy holds {}, so there is no glass to break", request.name());
        }
        let comment = match (self.comment, whoami(hub).await) {
            (Some(comment), Some(who)) => format!("{comment} (by {who})"),
            (Some(comment), None) => comment,
            (None, Some(who)) => format!("approved by {who}"),
            (None, None) => "approved".to_owned(),
        };
        approve(hub, &run, &request, &comment).await?;
        writeln!(out, "{} approved", request.name())?;
        writeln!(out, "follow it:  {}", command("watch", &run))?;
        Ok(0)
    }
}

/// Whose approval it is, as the hub knows the caller; nothing where it does not say.
pub(super) async fn whoami(hub: &Hub) -> Option<String> {
    me(hub).await.map(|person| person.user)
}

/// The caller as the hub knows them; nothing where it does not say.
pub(super) async fn me(hub: &Hub) -> Option<Person> {
    flagship_runtime::whoami::person(&hub.client).await
}

/// The request to approve, once the run asks for it.
pub(super) async fn asked(
    hub: &Hub,
    run: &ObjectKey,
    stage: Option<&str>,
) -> anyhow::Result<Request> {
    loop {
        if let Some(request) = asked_now(hub, run, stage).await? {
            return Ok(request);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The request to approve, if the run asks for it now.
async fn asked_now(
    hub: &Hub,
    run: &ObjectKey,
    stage: Option<&str>,
) -> anyhow::Result<Option<Request>> {
    let mut open = open_requests(hub, run).await?;
    open.retain(|request| stage.is_none_or(|stage| request.spec.target_stage == stage));
    match open.len() {
        0 => ahead(hub, run, stage).await.map(|()| None),
        1 => Ok(Some(open.remove(0))),
        _ => {
            let stages: Vec<&str> =
                open.iter().map(|request| request.spec.target_stage.as_str()).collect();
            bail!("{run} waits for several approvals; name the stage: {}", stages.join(", "));
        }
    }
}

/// How often a run that does not ask yet is looked at.
pub(super) const LOOK: Duration = Duration::from_millis(200);

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

pub(super) type Request = Stored<ApprovalRequestSpec, ApprovalRequestStatus>;

async fn approve(
    hub: &Hub,
    run: &ObjectKey,
    request: &Request,
    comment: &str,
) -> anyhow::Result<()> {
    let now = Env::system().now();
    let conditions = approved(&request.metadata, &request.status, comment, now);
    let requests = ScopedKind::Approval
        .of::<ApprovalRequestSpec, ApprovalRequestStatus>(&hub.client, run.namespace.as_deref());
    let key = ObjectKey::new(run.namespace.as_deref(), request.name());
    let version = request.metadata.resource_version.clone();
    // Only at the version we saw: nobody approves what has just been replaced.
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
    open.retain(|request| is_open(&run.name, &request.metadata, &request.spec, &request.status));
    Ok(open)
}

/// Refuses to let a run go on that a newer one has passed: it would take clusters back.
async fn may_go_on(hub: &Hub, key: &ObjectKey, now: Timestamp) -> anyhow::Result<()> {
    let runs =
        ScopedKind::Run.of::<UpdateRunSpec, UpdateRunStatus>(&hub.client, key.namespace.as_deref());
    let Some(run) = runs.find(key).await?.filter(|run| !lifecycle::has_ended(&run.status)) else {
        return Ok(());
    };
    let placement = ObjectKey::new(key.namespace.as_deref(), &run.spec.placement_name);
    let others = runs_of(&hub.client, &placement).await?;
    let others = others.iter().filter(|other| other.metadata.uid != run.metadata.uid);
    let others: Vec<OtherRun> =
        others.map(|other| OtherRun::read(&other.metadata, &other.status)).collect();
    let created = run.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    match superseded(&run.status, &taken(&run.status, created, &others)) {
        None => Ok(()),
        Some(found) => bail!(
            "{}, {} ago; if {key} goes on, it takes them back to snapshot {}. `{}` says more, --force does it all the same",
            found.told(),
            spoken(now.duration_since(found.at)),
            run.status.resource_snapshot_index_used,
            command("why", key)
        ),
    }
}

impl Stop {
    /// Sets the state.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.named.connect.hub().await?;
        self.on(&hub, out).await
    }

    pub(super) async fn on(self, hub: &Hub, out: &mut dyn Write) -> anyhow::Result<u8> {
        let key = set_state(hub, &self.named, UpdateRunState::Stop).await?;
        writeln!(out, "{key} stops: clusters under way finish, no other is begun")?;
        writeln!(out, "go on:  {}", command("resume", &key))?;
        Ok(0)
    }
}

impl Resume {
    /// Sets the state.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.named.connect.hub().await?;
        self.on(&hub, &Env::system(), out).await
    }

    pub(super) async fn on(self, hub: &Hub, env: &Env, out: &mut dyn Write) -> anyhow::Result<u8> {
        let key = name::must_be(Named::Run, &self.named.run, self.named.namespace.as_deref())?;
        if !self.force {
            may_go_on(hub, &key, env.now()).await?;
        }
        let key = set_state(hub, &self.named, UpdateRunState::Run).await?;
        writeln!(out, "{key} goes on")?;
        writeln!(out, "follow it:  {}", command("watch", &key))?;
        Ok(0)
    }
}

async fn set_state(hub: &Hub, named: &RunName, state: UpdateRunState) -> anyhow::Result<ObjectKey> {
    let key = name::must_be(Named::Run, &named.run, named.namespace.as_deref())?;
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
    // The API refuses it in words of its own rules.
    if state == UpdateRunState::Stop && !lifecycle::may_stop(&run.spec) {
        bail!(
            "{key} was not started, so there is nothing to stop; start it: {}",
            command("resume", &key)
        );
    }
    runs.patch_anyway(&key, json!({"spec": {"state": state}})).await?;
    Ok(key)
}

/// Runs of a placement, oldest first.
pub async fn runs_of(
    client: &Client,
    placement: &ObjectKey,
) -> Result<Vec<RunObject>, ClientError> {
    runs_beside(client, placement, None).await
}

/// The same, where one of them was read already: a run of many clusters is not read twice.
pub async fn runs_beside(
    client: &Client,
    placement: &ObjectKey,
    known: Option<RunObject>,
) -> Result<Vec<RunObject>, ClientError> {
    let runs = ScopedKind::Run.of(client, placement.namespace.as_deref());
    let selection = match &known {
        Some(known) => {
            in_namespace(placement).with_fields(format!("metadata.name!={}", known.name()))
        }
        None => in_namespace(placement),
    };
    let mut found: Vec<RunObject> = runs.list(&selection).await?.items;
    found.retain(|run| run.spec.placement_name == placement.name);
    found.extend(known);
    found.sort_by_cached_key(|run| Age::of(&run.metadata, &run.status));
    Ok(found)
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

pub(super) fn in_namespace(key: &ObjectKey) -> Selection {
    match &key.namespace {
        Some(namespace) => Selection::namespace(namespace),
        None => Selection::all(),
    }
}

pub(super) fn command(verb: &str, key: &ObjectKey) -> String {
    match &key.namespace {
        Some(namespace) => format!("flagship {verb} -n {namespace} {}", key.name),
        None => format!("flagship {verb} {}", key.name),
    }
}
