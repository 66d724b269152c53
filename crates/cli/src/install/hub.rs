//! `flagship install` and `flagship uninstall`: the hub's agent on a cluster that is there.

use std::io::Write;

use anyhow::ensure;
use clap::Args;
use flagship_api::names::{HUB_LEASE, ObjectKey, SYSTEM_NAMESPACE};
use flagship_rules::admission::guard_rails;
use flagship_runtime::client::Selection;
use serde_json::{Value, json};

use super::join::pods_missing;
use super::objects::{definitions, hub_agent, namespace, policies};
use super::target::Target;
use super::{Common, IMAGE, check, print, progress};

const AGENT: &str = "hub-agent";
const FLEET: &str = "cluster.kubernetes-fleet.io/v1beta1";
/// The holder of a lease that a hub of ours has begins so.
const OURS: &str = "flagship-hub_";
const ADMISSION: &str = "admissionregistration.k8s.io/v1";

/// Make a cluster the hub of a fleet, and wait until its agent leads
#[derive(Args, Clone, Debug)]
pub struct Install {
    /// The context of the cluster; the current one by default
    #[arg(long)]
    context: Option<String>,
    /// The image of the agent
    #[arg(long, default_value = IMAGE)]
    image: String,
    /// Do not judge what is written to the hub
    #[arg(long)]
    without_webhooks: bool,
    /// Print what would be applied, and apply nothing
    #[arg(long, conflicts_with = "check")]
    print: bool,
    /// Only say whether it could be installed; exit code 0 yes, 1 no
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    common: Common,
}

/// Remove the hub's agent from a cluster; what it made stays
#[derive(Args, Clone, Debug)]
pub struct Uninstall {
    /// The context of the cluster; the current one by default
    #[arg(long)]
    context: Option<String>,
    /// Remove the definitions, too, and with them every placement, run and member of the fleet
    #[arg(long)]
    with_definitions: bool,
    #[command(flatten)]
    common: Common,
}

impl Install {
    /// Installs, or brings what is there up to date.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let agent = hub_agent(&self.image, !self.without_webhooks);
        if self.print {
            let mut all = vec![namespace()];
            all.extend(definitions(false));
            all.extend(policies());
            all.extend(agent);
            print(&all, out)?;
            return Ok(0);
        }
        let file = self.common.kubeconfig.as_deref();
        let mut hub = Target::connect(file, self.context.as_deref()).await?;
        if self.check {
            return Ok(u8::from(!check::before_install(&hub, out).await?));
        }
        check::demand(&hub, check::TO_INSTALL).await?;
        hub.apply(&namespace()).await?;
        let (definitions, policies) = (definitions(false), policies());
        for definition in definitions.iter().chain(&policies) {
            hub.apply(definition).await?;
        }
        let (all, own) = (definitions.len(), policies.len());
        writeln!(out, "{}: {all} definitions are applied, and {own} of policies", hub.context)?;
        for object in &agent {
            hub.apply(object).await?;
        }
        hub.look().await;
        writeln!(out, "{}: the agent is applied", hub.context)?;
        let missing = async || {
            if let Some(missing) = pods_missing(&hub, AGENT).await? {
                return anyhow::Ok(Some(missing));
            }
            let key = ObjectKey::namespaced(SYSTEM_NAMESPACE, HUB_LEASE);
            let lease = hub.find("coordination.k8s.io/v1", "Lease", &key).await?;
            let holder = lease.as_ref().and_then(|lease| lease["spec"]["holderIdentity"].as_str());
            Ok(match holder.filter(|holder| !holder.is_empty()) {
                Some(holder) if holder.starts_with(OURS) => None,
                Some(holder) => {
                    Some(format!("the agent waits until {holder} gives the lease back"))
                }
                None => Some("waiting for the agent to lead".to_owned()),
            })
        };
        progress::wait(&hub.context, self.common.timeout, out, missing).await?;
        writeln!(out, "{} is a hub; `flagship join` adds members", hub.context)?;
        Ok(0)
    }
}

impl Uninstall {
    /// Removes the agent, once there is no member it looks after.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let file = self.common.kubeconfig.as_deref();
        let hub = Target::connect(file, self.context.as_deref()).await?;
        let members = hub.list(FLEET, "MemberCluster", &Selection::all()).await?;
        let names = members.iter().filter_map(|member| member["metadata"]["name"].as_str());
        let names: Vec<&str> = names.collect();
        ensure!(
            names.is_empty(),
            "{} member(s) are still there: {}; `flagship leave` them first",
            names.len(),
            names.join(", ")
        );
        // Before the agent goes: webhooks that nobody answers would stop every write.
        for object in webhooks() {
            hub.delete(&object).await?;
        }
        for object in hub_agent("", true).iter().rev() {
            hub.delete(object).await?;
        }
        hub.delete(&certificate()).await?;
        writeln!(out, "the agent is gone from {}", hub.context)?;
        if self.with_definitions {
            for definition in definitions(false).into_iter().chain(policies()) {
                hub.delete(&definition).await?;
            }
            writeln!(out, "the definitions are gone, and everything of their kinds")?;
        }
        Ok(0)
    }
}

/// The Secret in which the agent keeps the webhooks' certificate, as the chart calls it.
fn certificate() -> Value {
    json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "hub-agent-webhook", "namespace": SYSTEM_NAMESPACE}})
}

fn webhooks() -> [Value; 3] {
    [
        ("Mutating", "fleet-mutating-webhook-configuration"),
        ("Validating", "fleet-validating-webhook-configuration"),
        ("Validating", guard_rails::CONFIGURATION),
    ]
    .map(|(sort, name)| {
        json!({"apiVersion": ADMISSION, "kind": format!("{sort}WebhookConfiguration"),
            "metadata": {"name": name}})
    })
}
