//! `flagship join`: makes a cluster a member of a fleet, with two contexts of a kubeconfig.

use std::io::Write;

use anyhow::{bail, ensure};
use clap::Args;
use flagship_api::names::{ObjectKey, SYSTEM_NAMESPACE};
use flagship_explain::joining;
use flagship_runtime::client::Selection;
use serde_json::{Value, json};

use super::objects::{
    HubAccess, account_name, definitions, identity, member_agent, member_cluster,
};
use super::objects::{namespace, token_secret};
use super::target::Target;
use super::{Common, IMAGE, check, print, progress};

/// How long a member's token holds; its agent renews it at half time.
const TOKEN_SECONDS: i64 = 7 * 24 * 3600;

const FLEET: &str = "cluster.kubernetes-fleet.io/v1beta1";
const AGENT: &str = "member-agent";

/// Make a cluster a member of the fleet, and wait until it has joined
#[derive(Args, Clone, Debug)]
pub struct Join {
    /// The name the member gets on the hub
    name: String,
    /// The context of the hub
    #[arg(long, value_name = "CONTEXT")]
    hub_context: String,
    /// The context of the cluster that joins
    #[arg(long, value_name = "CONTEXT")]
    member_context: String,
    /// Where the member reaches the hub's API server; where the kubeconfig does by default
    #[arg(long, value_name = "URL")]
    hub_url: Option<String>,
    /// Let the agent trust whoever answers as the hub
    #[arg(long)]
    tls_insecure: bool,
    /// A label of the member on the hub; may be given more than once
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// The image of the agent
    #[arg(long, default_value = IMAGE)]
    image: String,
    /// Print what would be applied, and apply nothing
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    common: Common,
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("a label is written KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

impl Join {
    /// Joins, or says what is in the way before anything is written.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let file = self.common.kubeconfig.as_deref();
        let hub = Target::connect(file, Some(&self.hub_context)).await?;
        let mut member = Target::connect(file, Some(&self.member_context)).await?;
        ensure!(
            hub.url() != member.url(),
            "both contexts lead to {}: --hub-context is the hub, --member-context the cluster that joins",
            hub.url()
        );
        let url = self.hub_url.clone().unwrap_or_else(|| hub.url());
        let authority = hub.authority();
        ensure!(
            !hub.is_unchecked() || self.tls_insecure,
            "the context {} does not check who the hub is, so the agent cannot either: name the hub's \
             certificate authority in the kubeconfig, or take --tls-insecure",
            hub.context
        );
        let access = HubAccess {
            member: &self.name,
            url: &url,
            authority: authority.as_deref(),
            insecure: self.tls_insecure,
            image: &self.image,
        };
        let mut on_hub = identity(&self.name);
        on_hub.push(member_cluster(&self.name, &self.labels));
        let agent = member_agent(&access);
        if self.print {
            writeln!(out, "# On the hub, context {}:", hub.context)?;
            print(&on_hub, out)?;
            writeln!(
                out,
                "# On the member, context {}; the token is what `kubectl create token {} -n {SYSTEM_NAMESPACE}` prints on the hub:",
                member.context,
                account_name(&self.name)
            )?;
            let mut all = vec![namespace()];
            all.extend(definitions(true));
            all.push(token_secret("TOKEN"));
            all.extend(agent);
            print(&all, out)?;
            return Ok(0);
        }
        ensure!(
            hub.resource(FLEET, "MemberCluster").is_some(),
            "{} is no hub: `flagship install --context {}` makes it one",
            hub.context,
            hub.context
        );
        check::demand(&hub, check::TO_INVITE).await?;
        check::demand(&member, check::TO_INSTALL).await?;
        self.nobody_in_the_way(&hub, &member).await?;

        for object in &on_hub {
            hub.apply(object).await?;
        }
        let account = ObjectKey::namespaced(SYSTEM_NAMESPACE, &account_name(&self.name));
        let token = hub.token(&account, TOKEN_SECONDS).await?;
        member.apply(&namespace()).await?;
        for definition in definitions(true) {
            member.apply(&definition).await?;
        }
        member.look().await;
        member.apply(&token_secret(&token)).await?;
        for object in &agent {
            member.apply(object).await?;
        }
        writeln!(out, "{}: the agent is applied to {}", self.name, member.context)?;
        let missing = async || self.missing(&hub, &member, &url).await;
        progress::wait(&self.name, self.common.timeout, out, missing).await?;
        writeln!(out, "{} has joined", self.name)?;
        Ok(0)
    }

    /// Refuses a name that is another's, and a cluster that is a member already.
    async fn nobody_in_the_way(&self, hub: &Target, member: &Target) -> anyhow::Result<()> {
        let key = ObjectKey::namespaced(SYSTEM_NAMESPACE, AGENT);
        let agent = member.find("apps/v1", "Deployment", &key).await?;
        let called = agent.as_ref().and_then(member_name);
        if let Some(other) = called.as_ref().filter(|called| **called != self.name) {
            bail!(
                "the cluster of context {} is a member already, as {other}: `flagship leave {other}` first",
                member.context
            );
        }
        let there = hub.find(FLEET, "MemberCluster", &ObjectKey::cluster(&self.name)).await?;
        let Some(there) = there else { return Ok(()) };
        let wanted = member_cluster(&self.name, &[])["spec"]["identity"].clone();
        let identity = &there["spec"]["identity"];
        if ["kind", "name", "namespace"].iter().any(|field| identity[field] != wanted[field]) {
            bail!(
                "the hub has a member {} already, which comes as {} {}: choose another name, or `flagship leave {}` first",
                self.name,
                identity["kind"].as_str().unwrap_or("User"),
                identity["name"].as_str().unwrap_or_default(),
                self.name
            );
        }
        let joined = joining::of_member(Some(&there), None, "").is_none();
        if joined && called.is_none() {
            bail!(
                "{} has joined already, and not from the cluster of context {}: choose another name, or `flagship leave {}` first",
                self.name,
                member.context,
                self.name
            );
        }
        Ok(())
    }

    async fn missing(
        &self,
        hub: &Target,
        member: &Target,
        url: &str,
    ) -> anyhow::Result<Option<String>> {
        let there = hub.find(FLEET, "MemberCluster", &ObjectKey::cluster(&self.name)).await?;
        let pods = pods_missing(member, AGENT).await?;
        Ok(joining::of_member(there.as_ref(), pods, url))
    }
}

/// The name a member agent runs under.
fn member_name(deployment: &Value) -> Option<String> {
    let containers = deployment["spec"]["template"]["spec"]["containers"].as_array()?;
    let mut variables = containers.iter().filter_map(|c| c["env"].as_array()).flatten();
    let found = variables.find(|variable| variable["name"] == json!("MEMBER_CLUSTER_NAME"))?;
    found["value"].as_str().map(str::to_owned)
}

/// What the pods of an agent lack.
pub async fn pods_missing(target: &Target, agent: &str) -> anyhow::Result<Option<String>> {
    let key = ObjectKey::namespaced(SYSTEM_NAMESPACE, agent);
    let deployment = target.find("apps/v1", "Deployment", &key).await?;
    let mut which = Selection::namespace(SYSTEM_NAMESPACE);
    which.labels = format!("app.kubernetes.io/name={agent}");
    let pods = target.list("v1", "Pod", &which).await?;
    Ok(joining::of_pods(deployment.as_ref(), &pods))
}
