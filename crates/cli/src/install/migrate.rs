//! `flagship migrate --check`: what would change for a hub that KubeFleet runs.
//!
//! Reads the hub and writes nothing; what the findings mean is `flagship_explain::migrating`'s.

use std::io::Write;

use clap::Args;
use flagship_api::names::{HUB_LEASE, ObjectKey, SYSTEM_NAMESPACE};
use flagship_explain::migrating::{self, Agent, Seen, Weight};
use flagship_runtime::client::Selection;
use serde_json::Value;

use super::Common;
use super::objects::definitions;
use super::target::Target;
use crate::agent;

const PLACEMENT: &str = "placement.kubernetes-fleet.io/v1beta1";

/// Say what would change for a hub that KubeFleet runs; nothing is written
#[derive(Args, Clone, Debug)]
pub struct Migrate {
    /// Only look; what to do then is in docs/operations/migrate.md
    #[arg(long, required = true)]
    check: bool,
    /// The context of the hub; the current one by default
    #[arg(long)]
    context: Option<String>,
    #[command(flatten)]
    common: Common,
}

impl Migrate {
    /// Prints a line a finding. Exit code 5: something is to be done first.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub =
            Target::connect(self.common.kubeconfig.as_deref(), self.context.as_deref()).await?;
        let findings = migrating::plan(&seen(&hub).await);
        writeln!(out, "{} ({})", hub.context, hub.url())?;
        for finding in &findings {
            let word = finding.weight.word();
            writeln!(out, "  {word:<8} {:<12} {}", finding.about, finding.says)?;
        }
        let first = findings.iter().filter(|finding| finding.weight == Weight::First).count();
        match first {
            0 => writeln!(out, "\nReady: nothing is to be done before the agents are swapped.")?,
            1 => writeln!(out, "\nNot ready: 1 thing is to be done first.")?,
            many => writeln!(out, "\nNot ready: {many} things are to be done first.")?,
        }
        Ok(if first == 0 { 0 } else { 5 })
    }
}

async fn seen(hub: &Target) -> Seen {
    let mut unread = Vec::new();
    let mut seen = Seen::default();
    let mut listed = async |version: &str, kind: &str, which: &Selection| {
        hub.list(version, kind, which).await.unwrap_or_else(|error| {
            unread.push(format!("{error}: {}", error.root_cause()));
            Vec::new()
        })
    };
    let all = Selection::all();
    let agents = Selection::all().with_labels("app.kubernetes.io/name=hub-agent".to_owned());
    let agents = listed("apps/v1", "Deployment", &agents).await;
    seen.agents = agents.iter().flat_map(agents_of).collect();
    seen.members = listed("cluster.kubernetes-fleet.io/v1beta1", "MemberCluster", &all).await;
    for kind in ["ClusterResourcePlacement", "ResourcePlacement"] {
        seen.placements.extend(listed(PLACEMENT, kind, &all).await);
    }
    for kind in ["ClusterStagedUpdateRun", "StagedUpdateRun"] {
        seen.runs.extend(listed(PLACEMENT, kind, &all).await);
    }
    for kind in ["ClusterApprovalRequest", "ApprovalRequest"] {
        seen.approvals.extend(listed(PLACEMENT, kind, &all).await);
    }
    // The one beside the agent; KubeFleet's chart puts both into its namespace.
    let namespaces = agents.iter().filter_map(|agent| agent["metadata"]["namespace"].as_str());
    for namespace in namespaces.chain([SYSTEM_NAMESPACE]) {
        let key = ObjectKey::namespaced(namespace, HUB_LEASE);
        match hub.find("coordination.k8s.io/v1", "Lease", &key).await {
            Ok(lease) => {
                let holder = lease.as_ref().and_then(|it| it["spec"]["holderIdentity"].as_str());
                let holder = holder.filter(|holder| !holder.is_empty()).map(str::to_owned);
                seen.leader = seen.leader.or(holder);
            }
            Err(error) => unread.push(format!("{error}: {}", error.root_cause())),
        }
    }
    let is_served = |definition: &&Value| {
        let text = |of: &Value| of.as_str().unwrap_or_default().to_owned();
        let (group, kind) =
            (text(&definition["spec"]["group"]), text(&definition["spec"]["names"]["kind"]));
        let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
        let mut names = versions.filter_map(|version| version["name"].as_str());
        names.any(|version| hub.resource(&format!("{group}/{version}"), &kind).is_some())
    };
    let wanted = definitions(false);
    let lacking = wanted.iter().filter(|definition| !is_served(definition));
    let names = lacking.filter_map(|definition| definition["metadata"]["name"].as_str());
    seen.lacking = names.map(str::to_owned).collect();
    unread.dedup();
    seen.unread = unread;
    seen
}

/// The hub agents in the pods of a Deployment.
fn agents_of(deployment: &Value) -> Vec<Agent> {
    let meta = &deployment["metadata"];
    let text = |of: &Value| of.as_str().unwrap_or_default().to_owned();
    let containers = deployment["spec"]["template"]["spec"]["containers"].as_array();
    let read = |container: &Value| {
        let words = container["args"].as_array().into_iter().flatten();
        let looked = agent::Hub::look_at(words.filter_map(Value::as_str));
        let (refused, without_effect) = match looked {
            Ok(flags) => (None, flags.into_iter().map(str::to_owned).collect()),
            Err(why) => (Some(why), Vec::new()),
        };
        Agent {
            name: format!("{}/{}", text(&meta["namespace"]), text(&meta["name"])),
            image: text(&container["image"]),
            replicas: deployment["spec"]["replicas"].as_i64().unwrap_or(1),
            refused,
            without_effect,
        }
    };
    containers.into_iter().flatten().map(read).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn flags_of_an_agent_are_looked_at() {
        let deployment = |args: &[&str]| {
            json!({"metadata": {"namespace": "fleet-system", "name": "hub-agent"},
                "spec": {"template": {"spec": {"containers": [{"image": "hub:v1", "args": args}]}}}})
        };
        let one = |args: &[&str]| agents_of(&deployment(args)).remove(0);
        let theirs = ["--leader-elect=true", "-add_dir_header", "--v=5", "--enable-pprof=true"];
        let agent = one(&theirs);
        assert_eq!((agent.name.as_str(), agent.replicas), ("fleet-system/hub-agent", 1));
        assert_eq!((agent.refused, agent.without_effect), (None, vec!["enable-pprof".to_owned()]));
        let refused = one(&["--from-the-future=1"]).refused.unwrap();
        assert_eq!(refused, "unexpected argument '--from-the-future' found");
        let refused = one(&["--max-fleet-size=1"]).refused.unwrap();
        assert_eq!(refused, "invalid parameter: --max-fleet-size must be from 30 to 200, not 1");
    }
}
