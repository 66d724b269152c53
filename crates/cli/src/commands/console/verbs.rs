//! What the page's verbs do: exactly what the command of the same words does.

use std::sync::Arc;

use anyhow::bail;
use clap::{Args, Parser};
use flagship_api::names::ObjectKey;
use flagship_api::placement_status::ResourceIdentifier;
use flagship_console::{Act, Commands};
use flagship_explain::plan::{Foreseen, foresee};
use flagship_explain::why::MemberView;
use flagship_runtime::env::Env;
use futures::future::{BoxFuture, FutureExt};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::super::approvals::Reject;
use super::super::connect::Hub;
use super::super::start::{Rollback, Run, usual_strategy};
use super::super::steer::{Approve, Resume, Stop};
use super::super::{gather, member_view, plan};

/// The commands, on one hub.
#[derive(Clone)]
pub struct Verbs(Arc<(Hub, Env)>);

/// A command line, as a person types it.
#[derive(Parser)]
struct Line<C: Args> {
    #[command(flatten)]
    command: C,
}

impl Verbs {
    /// The commands on this hub.
    pub fn new(hub: Hub, env: &Env) -> Self {
        Self(Arc::new((hub, env.clone())))
    }

    async fn carried_out(&self, act: &Act) -> anyhow::Result<String> {
        let (hub, env) = &*self.0;
        let mut words = act.words();
        let mut out = Vec::new();
        let code = match act {
            Act::Approve { .. } => {
                // Whoever clicks has seen the gate: there is next to nothing to wait for.
                words.push("--timeout=5s".to_owned());
                read::<Approve>(&words)?.on(hub, env, &mut out, &mut std::io::sink()).await?
            }
            Act::Reject { .. } => {
                words.push("--timeout=5s".to_owned());
                read::<Reject>(&words)?.on(hub, env, &mut out).await?
            }
            Act::Stop { .. } => read::<Stop>(&words)?.on(hub, &mut out).await?,
            Act::Resume { .. } => read::<Resume>(&words)?.on(hub, env, &mut out).await?,
            Act::Rollback { .. } => read::<Rollback>(&words)?.on(hub, env, &mut out).await?,
            Act::Run { .. } => read::<Run>(&words)?.on(hub, env, &mut out).await?,
        };
        let text = String::from_utf8_lossy(&out).into_owned();
        if code != 0 {
            bail!(text);
        }
        Ok(text)
    }

    async fn planned(
        &self,
        placement: &ObjectKey,
        strategy: Option<&str>,
    ) -> anyhow::Result<Value> {
        let (hub, env) = &*self.0;
        let strategy = match strategy {
            Some(strategy) => strategy.to_owned(),
            None => usual_strategy(hub, placement).await?,
        };
        let asked = plan::read(hub, placement, &strategy, None, env.now()).await?;
        Ok(match foresee(asked) {
            Foreseen::Stages(planned) => {
                let act = Act::Run {
                    namespace: placement.namespace.clone(),
                    placement: placement.name.clone(),
                    strategy: strategy.clone(),
                    plan: match planned.effect.changes {
                        Some(_) => planned.effect.hash.to_string(),
                        None => String::new(),
                    },
                };
                json!({
                "strategy": strategy,
                "stages": planned.stages,
                "atOnce": planned.at_once,
                "clusters": planned.clusters,
                "approvals": planned.approvals,
                "passed": planned.passed,
                "frozen": planned.frozen,
                "calendar": planned.calendar,
                "policies": planned.policies,
                "open": planned.open,
                "effect": planned.effect,
                "act": act,
                "command": act.command(),
                })
            }
            Foreseen::Refused(refused) => {
                let finding = refused.explain(gather::clusters(&hub.client).await?);
                json!({"strategy": strategy, "refused": finding})
            }
            Foreseen::NotNow(why) => bail!(why),
        })
    }
}

/// Reads the words after the verb.
fn read<C: Args>(words: &[String]) -> anyhow::Result<C> {
    Ok(Line::<C>::try_parse_from(words)?.command)
}

impl Commands for Verbs {
    fn act(&self, act: Act) -> BoxFuture<'_, Result<String, String>> {
        let this = self.clone();
        // Commands write to a writer that stays on its thread.
        let work = move || {
            let done = Handle::current().block_on(this.carried_out(&act));
            done.map_err(|error| format!("{error:#}"))
        };
        tokio::task::spawn_blocking(work)
            .map(|done| done.unwrap_or_else(|_| Err("the command broke off".to_owned())))
            .boxed()
    }

    fn plan(
        &self,
        placement: &ObjectKey,
        strategy: Option<&str>,
    ) -> BoxFuture<'_, Result<Value, String>> {
        let (placement, strategy) = (placement.clone(), strategy.map(str::to_owned));
        async move {
            let planned = self.planned(&placement, strategy.as_deref()).await;
            planned.map_err(|error| format!("{error:#}"))
        }
        .boxed()
    }

    fn changes(
        &self,
        placement: &ObjectKey,
        from: &str,
        to: &str,
    ) -> BoxFuture<'_, Result<Value, String>> {
        let (placement, from, to) = (placement.clone(), from.to_owned(), to.to_owned());
        async move {
            let changes = plan::changes_between(&self.0.0, &placement, &from, &to).await;
            let changes = changes.map_err(|error| format!("{error:#}"))?;
            Ok(json!({"from": from, "to": to, "changes": changes}))
        }
        .boxed()
    }

    fn look(&self, cluster: &str, resource: &ResourceIdentifier) -> BoxFuture<'_, MemberView> {
        let (cluster, resource) = (cluster.to_owned(), resource.clone());
        async move { member_view::look(&self.0.0, &cluster, &resource).await }.boxed()
    }
}
