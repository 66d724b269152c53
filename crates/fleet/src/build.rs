//! What a fleet runs on, and its assembly.

use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_apiserver::rest::ClusterHandle;
use flagship_edge::{Config, Edge};
use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use flagship_runtime::metrics::Metrics;
use flagship_store::env::Env as ServerEnv;
use flagship_workloads::{WorkloadConfig, Workloads};
use futures::stream::{self, StreamExt};
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::{
    ClusterHost, ClusterLimits, ControllerTasks, EmbeddedFleet, FleetError, FleetSpec, HUB,
};
use crate::{HubAdmission, Storage};

/// Members that are made side by side.
const AT_ONCE: usize = 1024;

/// Clock, storage and edge of a fleet.
pub struct FleetBuilder {
    spec: FleetSpec,
    env: Env,
    server_env: ServerEnv,
    storage: Storage,
    host: Option<(ClusterHost, String)>,
    edge: Option<Config>,
}

impl FleetBuilder {
    pub(crate) fn new(spec: FleetSpec) -> Self {
        let (env, server_env) = (Env::system(), ServerEnv::system());
        Self { spec, env, server_env, storage: Storage::Ephemeral, host: None, edge: None }
    }

    /// Time and chance: of the controllers, and of the API servers, which faults and a trace
    /// may come with.
    #[must_use]
    pub fn clock(self, env: Env, server_env: ServerEnv) -> Self {
        Self { env, server_env, ..self }
    }

    /// Where a server of the fleet's own keeps objects.
    #[must_use]
    pub fn storage(self, storage: Storage) -> Self {
        Self { storage, ..self }
    }

    /// A server that others stand on, too, and a prefix for the names of clusters there.
    #[must_use]
    pub fn host(self, host: ClusterHost, prefix: String) -> Self {
        Self { host: Some((host, prefix)), ..self }
    }

    /// The way in from the network, over TLS.
    #[must_use]
    pub fn edge(self, edge: Config) -> Self {
        Self { edge: Some(edge), ..self }
    }

    /// The clusters of the fleet, with our definitions and with what a cluster does by
    /// itself. No controller of ours runs, and no member is registered.
    pub async fn build(self) -> Result<EmbeddedFleet, FleetError> {
        let Self { mut spec, env, server_env, storage, host, edge } = self;
        let (host, prefix) =
            host.unwrap_or_else(|| (ClusterHost::new(server_env.clone(), storage), String::new()));
        let ClusterLimits { hub: of_hub, member: of_member } = spec.limits.clone();
        let hub = host.hub(&format!("{prefix}{HUB}"), server_env.clone(), of_hub).await?;
        if spec.hub_admission {
            HubAdmission::install(&hub, &spec.hub);
            spec.hub.update_runs.senders_are_stamped = true;
            spec.hub.update_runs.approvers_are_verified = true;
        }
        if let Some(policies) = &spec.policies {
            // One that refuses everything must not keep out whoever could change it.
            let client = Client::in_process(hub.unguarded().called_by(spec.callers.hub));
            let client = client.named(spec.callers.hub);
            flagship_hub::policies::install(&client, &env, policies)
                .await
                .map_err(|source| FleetError::Policies { source })?;
        }
        let on_hub = match spec.hub.selection.workloads_run_here {
            true => spec.workloads.clone(),
            false => WorkloadConfig::hub(),
        };
        Workloads::new(on_hub).spawn(hub.clone());
        let workloads = Arc::new(Workloads::new(spec.workloads.clone()));
        let one = |member: &String| {
            let (host, env, limits) = (host.clone(), server_env.clone(), of_member.clone());
            let (member, name) = (member.clone(), format!("{prefix}{member}"));
            let own = spec.nodes.get(&member).map(|&nodes| {
                Arc::new(Workloads::new(WorkloadConfig { nodes, ..spec.workloads.clone() }))
            });
            let workloads = own.unwrap_or_else(|| workloads.clone());
            async move {
                let handle = host.member(&name, env, limits).await?;
                workloads.spawn(handle.clone());
                Ok::<_, FleetError>((member, handle))
            }
        };
        let mut handles = side_by_side(spec.members.iter().map(one).collect()).await?;
        handles.insert(HUB.to_owned(), hub);
        let edge = match edge {
            Some(config) => Some(Edge::start(host.server(), &server_env, config).await?),
            None => None,
        };
        let (metrics, tasks) = (Metrics::default(), ControllerTasks::default());
        Ok(EmbeddedFleet { env, metrics, spec, host, prefix, handles, edge, tasks })
    }
}

/// Makes members on all cores where the runtime has more than one; by one thread one after the
/// other, in the same order every time.
async fn side_by_side<F>(members: Vec<F>) -> Result<BTreeMap<String, ClusterHandle>, FleetError>
where
    F: Future<Output = Result<(String, ClusterHandle), FleetError>> + Send + 'static,
{
    let mut handles = BTreeMap::new();
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        for member in members {
            handles.extend([member.await?]);
        }
        return Ok(handles);
    }
    let mut made = stream::iter(members).map(tokio::spawn).buffered(AT_ONCE);
    while let Some(made) = made.next().await {
        let made = made.unwrap_or_else(|ended| std::panic::resume_unwind(ended.into_panic()));
        handles.extend([made?]);
    }
    Ok(handles)
}
