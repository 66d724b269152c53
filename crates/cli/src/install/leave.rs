//! `flagship leave`: a member leaves the fleet. As with KubeFleet, what was placed on it stays
//! there.

use std::io::Write;

use anyhow::bail;
use clap::Args;
use flagship_api::names::{ObjectKey, member_namespace};
use flagship_runtime::client::Selection;
use serde_json::Value;

use super::objects::{HubAccess, identity, member_agent, member_cluster, token_secret};
use super::target::Target;
use super::{Common, progress};

const FLEET: &str = "cluster.kubernetes-fleet.io/v1beta1";

/// Take a member out of the fleet; what was placed on it stays there
#[derive(Args, Clone, Debug)]
pub struct Leave {
    /// The member's name on the hub
    name: String,
    /// The context of the hub
    #[arg(long, value_name = "CONTEXT")]
    hub_context: String,
    /// The context of the member, to remove its agent, too
    #[arg(long, value_name = "CONTEXT")]
    member_context: Option<String>,
    #[command(flatten)]
    common: Common,
}

impl Leave {
    /// Leaves, and waits until the hub has let the member go.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let file = self.common.kubeconfig.as_deref();
        let hub = Target::connect(file, Some(&self.hub_context)).await?;
        // A context that leads nowhere is better known before anything is deleted.
        let member = match &self.member_context {
            Some(context) => Some(Target::connect(file, Some(context)).await?),
            None => None,
        };
        if !hub.delete(&member_cluster(&self.name, &[])).await? {
            let all = hub.list(FLEET, "MemberCluster", &Selection::all()).await?;
            let names = all.iter().filter_map(|member| member["metadata"]["name"].as_str());
            let names: Vec<&str> = names.collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            bail!("no member is called {} on {}; there are: {known}", self.name, hub.context);
        }
        let missing = async || self.missing(&hub).await;
        progress::wait(&self.name, self.common.timeout, out, missing).await?;
        for object in identity(&self.name).iter().rev() {
            hub.delete(object).await?;
        }
        writeln!(out, "{} has left; what was placed on it stays there", self.name)?;
        let access =
            HubAccess { member: &self.name, url: "", authority: None, insecure: false, image: "" };
        let mut agent = member_agent(&access);
        agent.push(token_secret(""));
        match member {
            Some(member) => {
                for object in agent.iter().rev() {
                    member.delete(object).await?;
                }
                writeln!(out, "the agent is gone from {}", member.context)?;
            }
            None => writeln!(
                out,
                "its agent still runs there; remove it with --member-context, or with kubectl: {}",
                agent.iter().map(named).collect::<Vec<_>>().join(" ")
            )?,
        }
        Ok(0)
    }

    async fn missing(&self, hub: &Target) -> anyhow::Result<Option<String>> {
        let there = hub.find(FLEET, "MemberCluster", &ObjectKey::cluster(&self.name)).await?;
        if there.is_none() {
            return Ok(None);
        }
        let works = Selection::namespace(&member_namespace(&self.name));
        let works = hub.list("placement.kubernetes-fleet.io/v1", "Work", &works).await?;
        Ok(Some(match works.len() {
            0 => "waiting for the hub to let it go".to_owned(),
            1 => "1 Work of it is still on the hub".to_owned(),
            many => format!("{many} Works of it are still on the hub"),
        }))
    }
}

fn named(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    format!("{kind}/{}", object["metadata"]["name"].as_str().unwrap_or_default())
}
