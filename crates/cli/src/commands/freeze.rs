//! `flagship freeze` and `flagship unfreeze`: stop the line, and let it go on.
//!
//! A freeze is in force for a run once the run says so, and the command waits for that.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use flagship_api::freeze::{self, Except, FreezeSpec};
use flagship_api::keys::own;
use flagship_api::names::ObjectKey;
use flagship_api::rollout_policy::{RolloutPolicy, Selects};
use flagship_api::staged_update::{UpdateRunSpec, UpdateRunState};
use flagship_api::staged_update_status::UpdateRunStatus;
use flagship_rules::policy::selects::Wanted;
use flagship_rules::policy::{self, Labels};
use flagship_rules::update_run::lifecycle::{Phase, has_ended, phase};
use flagship_runtime::client::{Client, ClientError, Propagation, Selection};
use flagship_runtime::env::Env;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, Time};
use serde_json::Value;

use super::board_text::word;
use super::connect::{Connect, Hub};
use super::name::{self, Named};
use super::scoped_kind::ScopedKind;
use super::steer::{LOOK, RunObject, whoami};

/// Stop the line: no cluster of the runs it selects begins until it is lifted
#[derive(Args)]
pub struct Freeze {
    /// Why, for those who wait, such as "incident 4711"
    #[arg(value_name = "REASON")]
    why: String,
    /// Its name; made from the reason if left out
    #[arg(long)]
    name: Option<String>,
    /// End by itself after this time, such as 2h
    #[arg(long = "for", value_name = "TIME", value_parser = crate::agent::duration)]
    lasts: Option<Duration>,
    /// Only runs whose strategy has these labels, as key=value,key=value
    #[arg(long, value_name = "LABELS", value_parser = labels)]
    strategies: Option<BTreeMap<String, String>>,
    /// Only runs whose placement has these labels
    #[arg(long, value_name = "LABELS", value_parser = labels)]
    placements: Option<BTreeMap<String, String>>,
    /// Only runs in namespaces with these labels
    #[arg(long, value_name = "LABELS", value_parser = labels)]
    namespaces: Option<BTreeMap<String, String>>,
    /// Only these stages, with * and ?; may be repeated
    #[arg(long, value_name = "STAGE")]
    stage: Vec<String>,
    /// A run that goes on all the same, as NAME or NAMESPACE/NAME; may be repeated
    #[arg(long, value_name = "RUN")]
    except: Vec<String>,
    #[command(flatten)]
    connect: Connect,
}

/// Lift a freeze: the runs it held go on
#[derive(Args)]
pub struct Unfreeze {
    /// The freeze; may be left out when there is one
    name: Option<String>,
    #[command(flatten)]
    connect: Connect,
}

/// Reads `key=value,key=value`.
fn labels(text: &str) -> Result<BTreeMap<String, String>, String> {
    let pairs = text.split(',').map(|pair| match pair.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("want labels as key=value, such as tier=production".to_owned()),
    });
    pairs.collect()
}

/// How long runs may take to say that they are frozen.
const PATIENCE: SignedDuration = SignedDuration::from_secs(10);

impl Freeze {
    /// Creates the freeze, and waits until the runs it selects say so.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.connect.hub().await?;
        self.on(&hub, &Env::system(), out).await
    }

    pub(super) async fn on(self, hub: &Hub, env: &Env, out: &mut dyn Write) -> anyhow::Result<u8> {
        let by = whoami(hub).await;
        let object = self.object(by, env.now())?;
        let freezes = hub.client.of::<freeze::Freeze>();
        let made = match freezes.create(&object).await {
            Err(ClientError::NotServed { .. }) => bail!(
                "the hub has no freezes yet; install them: flagship crds --policies | kubectl --context hub apply --server-side -f -"
            ),
            made => made.context("cannot create the freeze")?,
        };
        let freeze = policy::Freeze::read(&made);
        let held = settled(hub, env, &freeze).await?;
        writeln!(out, "{} is in force, {}", freeze.name, counted(held.len()))?;
        for (run, phase) in &held {
            writeln!(out, "  {run}  {}", word(*phase))?;
        }
        writeln!(out, "lift it:  flagship unfreeze {}", freeze.name)?;
        Ok(0)
    }

    fn object(&self, by: Option<String>, now: Timestamp) -> anyhow::Result<freeze::Freeze> {
        let select = |labels: &Option<BTreeMap<String, String>>| {
            let labels = labels.clone();
            labels.map(|labels| LabelSelector {
                match_labels: Some(labels),
                ..LabelSelector::default()
            })
        };
        let except = self.except.iter().map(|run| {
            Ok::<String, anyhow::Error>(name::must_be(Named::Run, run, None)?.to_string())
        });
        let until = self.lasts.map(|lasts| now.saturating_add(lasts)).transpose()?;
        let spec = FreezeSpec {
            reason: self.why.clone(),
            selects: Selects {
                strategies: select(&self.strategies),
                placements: select(&self.placements),
                namespaces: select(&self.namespaces),
                stages: self.stage.clone(),
            },
            until: until.map(Time),
            except: Except { runs: except.collect::<Result<_, _>>()? },
        };
        let annotations = by.map(|by| BTreeMap::from([(own::CREATED_BY.to_owned(), by)]));
        let name = self.name.clone().unwrap_or_else(|| named_after(&self.why));
        let metadata = ObjectMeta { name: Some(name), annotations, ..ObjectMeta::default() };
        Ok(freeze::Freeze { metadata, spec })
    }
}

fn counted(runs: usize) -> String {
    match runs {
        0 => "no run is under way that it holds".to_owned(),
        1 => "1 run stands still".to_owned(),
        _ => format!("{runs} runs stand still"),
    }
}

/// `incident-4711`: a name that an object may have.
fn named_after(reason: &str) -> String {
    let letters = reason.to_lowercase();
    let words = letters.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let name: String = words.join("-").chars().take(60).collect();
    match name.trim_end_matches('-') {
        "" => "freeze".to_owned(),
        name => name.to_owned(),
    }
}

/// The runs that a freeze holds, once all of them say so or have had time enough.
async fn settled(
    hub: &Hub,
    env: &Env,
    freeze: &policy::Freeze,
) -> anyhow::Result<Vec<(ObjectKey, Phase)>> {
    let patience = env.now().saturating_add(PATIENCE)?;
    loop {
        let mut held = Vec::new();
        for run in under_way(&hub.client).await? {
            let key = ObjectKey::new(run.metadata.namespace.as_deref(), run.name());
            let wanted = Wanted::by([&freeze.spec.selects]);
            if freeze.selects(&key, &labels_of(&hub.client, wanted, &key, &run.spec).await?) {
                held.push((key, phase(&run.spec, &run.status)));
            }
        }
        // Where only some stages are meant, a run goes on until it comes to one.
        let all = held.iter().all(|(_, phase)| *phase == Phase::Frozen);
        if all || !freeze.spec.selects.stages.is_empty() || env.now() >= patience {
            return Ok(held);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Runs of both scopes that are to go on.
async fn under_way(client: &Client) -> anyhow::Result<Vec<RunObject>> {
    let mut all = Vec::new();
    for scope in [None, Some("")] {
        let runs = ScopedKind::Run.of::<UpdateRunSpec, UpdateRunStatus>(client, scope);
        all.extend(runs.list(&Selection::all()).await?.items);
    }
    all.retain(|run| run.spec.state == Some(UpdateRunState::Run) && !has_ended(&run.status));
    Ok(all)
}

/// Every freeze and policy there is, with the labels by which they select a run.
pub async fn seen(
    client: &Client,
    key: &ObjectKey,
    run: &UpdateRunSpec,
) -> anyhow::Result<policy::Seen> {
    let freezes = all(client).await?.into_iter().map(Arc::new).collect::<Vec<_>>();
    let policies = match client.of::<RolloutPolicy>().list(&Selection::all()).await {
        Err(ClientError::NotServed { .. }) => Vec::new(),
        all => all?.items.iter().map(policy::Policy::read).collect(),
    };
    let selections = freezes.iter().map(|freeze| &freeze.spec.selects);
    let selections = selections.chain(policies.iter().map(|policy| &policy.spec.selects));
    let labels = labels_of(client, Wanted::by(selections), key, run).await?;
    Ok(policy::Seen { freezes, policies, labels, ..policy::Seen::default() })
}

/// Every freeze there is; none where they are not installed.
async fn all(client: &Client) -> Result<Vec<policy::Freeze>, ClientError> {
    match client.of::<freeze::Freeze>().list(&Selection::all()).await {
        Err(ClientError::NotServed { .. }) => Ok(Vec::new()),
        all => Ok(all?.items.iter().map(policy::Freeze::read).collect()),
    }
}

/// The labels of what belongs to a run.
async fn labels_of(
    client: &Client,
    wanted: Wanted,
    key: &ObjectKey,
    run: &UpdateRunSpec,
) -> anyhow::Result<Labels> {
    let namespace = key.namespace.as_deref();
    let of = async |kind: ScopedKind, name: &str| {
        let objects = kind.of::<Value, Value>(client, namespace);
        let found = objects.find(&ObjectKey::new(namespace, name)).await?;
        anyhow::Ok(found.and_then(|found| found.metadata.labels).unwrap_or_default())
    };
    let mut labels = Labels::default();
    if wanted.strategy {
        labels.strategy = of(ScopedKind::Strategy, &run.staged_rollout_strategy_name).await?;
    }
    if wanted.placement {
        labels.placement = of(ScopedKind::Placement, &run.placement_name).await?;
    }
    if let (true, Some(space)) = (wanted.namespace, namespace) {
        let found = client.of::<Namespace>().find(&ObjectKey::cluster(space)).await?;
        labels.namespace = Some(found.and_then(|found| found.metadata.labels).unwrap_or_default());
    }
    Ok(labels)
}

impl Unfreeze {
    /// Deletes the freeze.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.connect.hub().await?;
        self.on(&hub, out).await
    }

    pub(super) async fn on(self, hub: &Hub, out: &mut dyn Write) -> anyhow::Result<u8> {
        let freezes = hub.client.of::<freeze::Freeze>();
        let all = all(&hub.client).await?;
        let names: Vec<&str> = all.iter().map(|freeze| freeze.name.as_str()).collect();
        let name = match (&self.name, names.as_slice()) {
            (Some(name), _) if names.contains(&name.as_str()) => name.clone(),
            (_, []) => bail!("nothing is frozen"),
            (Some(name), _) => bail!("there is no freeze {name}; there are: {}", names.join(", ")),
            (None, [only]) => (*only).to_owned(),
            (None, several) => {
                bail!("several freezes are in force; name one: {}", several.join(", "))
            }
        };
        freezes.delete_anyway(&ObjectKey::cluster(&name), Propagation::Background).await?;
        writeln!(out, "{name} is lifted: what it held goes on")?;
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freeze_is_named_after_its_reason() {
        for (reason, name) in [
            ("incident 4711", "incident-4711"),
            ("DB: fail-over!", "db-fail-over"),
            ("???", "freeze"),
        ] {
            assert_eq!(named_after(reason), name);
        }
        assert!(named_after(&"a ".repeat(99)).len() <= 60);
    }

    #[test]
    fn labels_are_read_in_pairs() {
        let read = labels("tier=prod, team=a").unwrap();
        assert_eq!(
            read.into_iter().collect::<Vec<_>>(),
            [("team".to_owned(), "a".to_owned()), ("tier".to_owned(), "prod".to_owned()),]
        );
        assert!(labels("tier").is_err());
    }
}
