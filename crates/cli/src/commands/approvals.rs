//! Approvals where a rollout policy asks for them: `approve` creates one, `reject` says no,
//! `inbox` shows what waits. Who counts is decided by the rules, and again by the hub.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use flagship_api::approval::{ApprovalRequestSpec, ApprovalRequestStatus};
use flagship_api::approval_decision::{Approval, ApprovalSpec, ClusterApproval, Decision, Person};
use flagship_api::names::ObjectKey;
use flagship_api::staged_update::UpdateRunSpec;
use flagship_api::staged_update_status::UpdateRunStatus;
use flagship_explain::inbox::{Asked, Item, Standing, inbox, standing};
use flagship_rules::policy::approvals::Word;
use flagship_rules::update_run;
use flagship_runtime::client::{Client, ClientError, Selection};
use flagship_runtime::env::Env;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::connect::{Connect, Hub};
use super::name::{self, Named};
use super::print::Output;
use super::scoped_kind::{ScopedKind, Stored};
use super::steer::{Request, asked, command, me};

/// Say no to what a run waits for; it waits until whoever said so takes it back
#[derive(Args)]
pub struct Reject {
    /// The run
    run: String,
    /// The stage; may be left out when the run waits for one approval
    stage: Option<String>,
    /// Namespace of a namespaced run
    #[arg(short, long)]
    namespace: Option<String>,
    /// Why, for those who wait
    #[arg(long = "reason", value_name = "REASON")]
    why: String,
    /// How long to wait for a run that does not ask for this approval yet
    #[arg(long, default_value = "60s", value_parser = crate::agent::duration)]
    timeout: Duration,
    #[command(flatten)]
    connect: Connect,
}

/// Show what waits for an approval: yours, and what you may not approve and why
#[derive(Args)]
pub struct Inbox {
    /// Only what you may approve
    #[arg(long)]
    mine: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

/// What somebody says with a command.
pub(super) struct Said {
    pub decision: Decision,
    pub why: String,
    pub break_glass: bool,
    /// The plan they have seen, if they say which.
    pub plan: Option<String>,
}

impl Reject {
    /// Creates the rejection.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.connect.hub().await?;
        self.on(&hub, &Env::system(), out).await
    }

    pub(super) async fn on(self, hub: &Hub, env: &Env, out: &mut dyn Write) -> anyhow::Result<u8> {
        let run = name::must_be(Named::Run, &self.run, self.namespace.as_deref())?;
        let asking = asked(hub, &run, self.stage.as_deref());
        let request = match tokio::time::timeout(self.timeout, asking).await {
            Ok(found) => found?,
            Err(_) => bail!(
                "{run} does not ask for this approval yet; `{}` says what it waits for",
                command("why", &run)
            ),
        };
        let said =
            Said { decision: Decision::Reject, why: self.why, break_glass: false, plan: None };
        if !say(hub, env, &run, &request, said, out).await? {
            bail!(
                "no rollout policy asks for approvals of {}, so nobody has to say no; hold the run: {}",
                request.name(),
                command("stop", &run)
            );
        }
        Ok(0)
    }
}

/// Creates what somebody says where a policy asks for approvals; false where none does.
pub(super) async fn say(
    hub: &Hub,
    env: &Env,
    run: &ObjectKey,
    request: &Request,
    said: Said,
    out: &mut dyn Write,
) -> anyhow::Result<bool> {
    let asked = about(&hub.client, run, request).await?;
    let Some(asked) = asked else { return Ok(false) };
    let person = me(hub).await.unwrap_or_default();
    let Some(now) = standing(&asked, &person, env.now()) else { return Ok(false) };
    may_say(&person, request, &said, &now)?;
    let spec = ApprovalSpec {
        request: request.name().to_owned(),
        request_uid: request.metadata.uid.clone().unwrap_or_default(),
        plan_hash: said.plan.unwrap_or(now.plan),
        decision: said.decision,
        reason: said.why,
        break_glass: said.break_glass,
        // Real API servers without the hub's mutating webhook refuse a name that is not ours.
        by: Some(person.clone()).filter(|person| !person.user.is_empty()),
    };
    let metadata = ObjectMeta {
        generate_name: Some(format!("{}-", request.name())),
        namespace: run.namespace.clone(),
        ..ObjectMeta::default()
    };
    let made = match run.namespace {
        None => {
            let object = ClusterApproval { metadata, spec };
            hub.client
                .of::<ClusterApproval>()
                .create(&object)
                .await
                .map(|made| Word::read(&made.metadata, &made.spec))
        }
        Some(_) => {
            let object = Approval { metadata, spec };
            hub.client
                .of::<Approval>()
                .create(&object)
                .await
                .map(|made| Word::read(&made.metadata, &made.spec))
        }
    };
    let word = made.with_context(|| format!("cannot answer {}", request.name()))?;
    let mut words = asked.words.clone();
    words.push(word);
    let now = standing(&Asked { words, ..asked }, &person, env.now());
    let told = now.map(|now| match now.tally.passes() {
        true => now.tally.approved(),
        false => now.tally.told(),
    });
    writeln!(out, "{}: {}", request.name(), told.unwrap_or_default())?;
    Ok(true)
}

/// Says early what the hub would say: whose word does not count.
fn may_say(person: &Person, request: &Request, said: &Said, now: &Standing) -> anyhow::Result<()> {
    let name = request.name();
    if let Some(plan) = said.plan.as_ref().filter(|plan| **plan != now.plan) {
        bail!("{name} is about plan {}, and not about {plan}; look at it again", now.plan);
    }
    if said.break_glass {
        if !now.may_break_glass {
            bail!("{} may not break the glass of {name} (policy {})", person.user, now.policies);
        }
        if said.why.is_empty() {
            bail!("whoever breaks the glass says why: --reason");
        }
        return Ok(());
    }
    if said.decision == Decision::Approve {
        if let Some(why) = &now.may_not {
            bail!(
                "your approval of {name} would not count: {why}; it waits for {}",
                now.tally.wanted
            );
        }
        if now.wants_reason && said.why.is_empty() {
            bail!("policy {} wants a reason: --reason", now.policies);
        }
    }
    Ok(())
}

/// A request with its run and what was said; nothing if the run is gone.
async fn about(
    client: &Client,
    run: &ObjectKey,
    request: &Request,
) -> Result<Option<Asked>, ClientError> {
    let namespace = run.namespace.as_deref();
    let runs = ScopedKind::Run.of::<UpdateRunSpec, UpdateRunStatus>(client, namespace);
    let Some(found) = runs.find(run).await? else { return Ok(None) };
    let run = update_run::Run::read(&found.metadata, &found.spec, &found.status);
    let policies = run.adopted.iter().flat_map(|adopted| &adopted.policies);
    // Who approves as KubeFleet has it needs no right to read our own kinds.
    if !policies.into_iter().any(|policy| policy.spec.approvals.is_some()) {
        return Ok(None);
    }
    let words = words(client, namespace).await?;
    Ok(Some(Asked {
        run,
        request: update_run::Approval::read(
            &request.metadata,
            &request.spec,
            Some(&request.status),
        ),
        words,
    }))
}

/// Everything that was said in a scope; nothing where approvals are not installed.
async fn words(client: &Client, namespace: Option<&str>) -> Result<Vec<Word>, ClientError> {
    let kept = |metadata: &ObjectMeta, spec: &ApprovalSpec| Word::read(metadata, spec);
    let listed = match namespace {
        None => {
            let all = client.of::<ClusterApproval>().list(&Selection::all()).await;
            all.map(|all| all.items.iter().map(|one| kept(&one.metadata, &one.spec)).collect())
        }
        Some(namespace) => {
            let within = match namespace {
                "" => Selection::all(),
                namespace => Selection::namespace(namespace),
            };
            let all = client.of::<Approval>().list(&within).await;
            all.map(|all| all.items.iter().map(|one| kept(&one.metadata, &one.spec)).collect())
        }
    };
    match listed {
        Err(ClientError::NotServed { .. }) => Ok(Vec::new()),
        listed => listed,
    }
}

impl Inbox {
    /// Prints what waits.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.connect.hub().await?;
        self.on(&hub, &Env::system(), out).await
    }

    pub(super) async fn on(self, hub: &Hub, env: &Env, out: &mut dyn Write) -> anyhow::Result<u8> {
        let person = me(hub).await.unwrap_or_default();
        let mut items = waiting(&hub.client, &person, env.now()).await?;
        if self.mine {
            items.retain(|item| item.may_not.is_none());
        }
        if let Some(shape) = self.output.output {
            shape.write(&serde_json::to_value(&items)?, out)?;
            return Ok(0);
        }
        let (open, closed): (Vec<&Item>, Vec<&Item>) =
            items.iter().partition(|item| item.may_not.is_none());
        if open.is_empty() {
            writeln!(out, "nothing waits for {}", named(&person))?;
        } else {
            writeln!(out, "waits for {}:", named(&person))?;
        }
        for item in open {
            writeln!(out, "  {}  {}  {}", item.run, item.stage, item.told)?;
            writeln!(out, "    {}", item.command)?;
        }
        if !closed.is_empty() {
            writeln!(out, "not for {}:", named(&person))?;
        }
        for item in closed {
            writeln!(out, "  {}  {}  {}", item.run, item.stage, item.told)?;
            writeln!(out, "    {}", item.may_not.as_deref().unwrap_or_default())?;
        }
        Ok(0)
    }
}

fn named(person: &Person) -> &str {
    if person.user.is_empty() { "you" } else { &person.user }
}

/// Every request of both scopes that waits.
async fn waiting(
    client: &Client,
    person: &Person,
    now: Timestamp,
) -> Result<Vec<Item>, ClientError> {
    let mut all = Vec::new();
    for scope in [None, Some("")] {
        let requests = ScopedKind::Approval
            .of::<ApprovalRequestSpec, ApprovalRequestStatus>(client, scope)
            .list(&Selection::all())
            .await?
            .items;
        if requests.is_empty() {
            continue;
        }
        let runs: Vec<Stored<UpdateRunSpec, UpdateRunStatus>> =
            ScopedKind::Run.of(client, scope).list(&Selection::all()).await?.items;
        let words = words(client, scope).await?;
        for request in requests {
            let read =
                update_run::Approval::read(&request.metadata, &request.spec, Some(&request.status));
            let run = runs.iter().find(|run| {
                run.name() == read.run && run.metadata.namespace == request.metadata.namespace
            });
            let Some(run) = run else { continue };
            let run = update_run::Run::read(&run.metadata, &run.spec, &run.status);
            all.push(Asked { run, request: read, words: words.clone() });
        }
    }
    Ok(inbox(&all, person, now))
}
