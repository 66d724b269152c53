//! Members that do nothing but answer: they join, say that they are alive, and report every Work
//! as applied and available after a while.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use flagship_api::cluster::{InternalMemberCluster, MemberCluster};
use flagship_api::condition::{Conditions, Generation, draft};
use flagship_api::condition_type::{member_cluster, work as kind};
use flagship_api::names::{ObjectKey, member_namespace};
use flagship_api::work::Work;
use flagship_runtime::client::{Client, ClientError, Listed, ResourceType, Selection, key_of};
use flagship_runtime::env::Env;
use flagship_runtime::reflector::Reflector;
use futures::stream::{self, StreamExt, TryStreamExt};
use kube::core::PartialObjectMeta;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// What names of members begin with.
const PREFIX: &str = "bench-";
/// The label that places a member in a stage.
pub const STAGE: &str = "bench.flagship.dev/stage";
/// Requests at once while members join and leave.
const AT_ONCE: usize = 20;
/// How often members say that they are alive; the hub expects it every minute.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// How often a member looks whether it may join, and whether it is gone.
const POLL: Duration = Duration::from_millis(100);
/// How often it looks before it says once more that it has left.
const LOOKS: u32 = 20;

/// The members' tasks; they end when this is dropped.
pub struct FakeMembers {
    _tasks: JoinSet<()>,
}

impl FakeMembers {
    /// Registers members, one in five in stage a, three in ten in b, half in c, and waits until
    /// all have joined.
    pub async fn join(
        client: &Client,
        env: &Env,
        count: u16,
        answer_after: Duration,
    ) -> anyhow::Result<Self> {
        let names: Vec<String> = (0..count).map(|number| format!("{PREFIX}{number:03}")).collect();
        let mut tasks = JoinSet::new();
        for (at, name) in names.iter().enumerate() {
            register(client, name, stage(at, names.len())).await?;
        }
        stream::iter(&names)
            .map(|name| async move { joined(client, env, name).await })
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
        let (beating, beats, of) = (client.clone(), env.clone(), names);
        tasks.spawn(async move {
            loop {
                tokio::time::sleep(HEARTBEAT).await;
                for name in &of {
                    // One that is lost is made good by the next.
                    drop(reports(&beating, &beats, name, "True").await);
                }
            }
        });
        tasks.spawn(answer(client.clone(), env.clone(), answer_after));
        Ok(Self { _tasks: tasks })
    }
}

/// Members of a bench that the hub knows, those of an earlier one too: placements of a bench
/// choose all of them.
pub async fn known(client: &Client) -> Result<Vec<String>, ClientError> {
    let of_a_bench = Selection::all().with_labels(STAGE);
    let members = client.of_type(ResourceType::of::<MemberCluster>()).metadata_only();
    let listed: Listed<PartialObjectMeta<MemberCluster>> = members.list(&of_a_bench).await?;
    Ok(listed.items.into_iter().filter_map(|member| member.metadata.name).collect())
}

/// Takes members off the hub, and waits until they are gone. Nobody may say any more that they
/// are alive.
pub async fn leave(client: &Client, env: &Env, names: &[String]) -> anyhow::Result<()> {
    let leaving = stream::iter(names).map(|name| async move {
        let gone = left(client, env, name).await;
        gone.with_context(|| format!("cannot remove member {name}"))
    });
    leaving.buffer_unordered(AT_ONCE).try_collect().await
}

async fn left(client: &Client, env: &Env, name: &str) -> Result<(), ClientError> {
    let members = client.of::<MemberCluster>();
    let key = ObjectKey::cluster(name);
    match members.delete_anyway(&key, Default::default()).await {
        Ok(_) | Err(ClientError::NotFound { .. }) => {}
        Err(error) => return Err(error),
    }
    loop {
        // The hub lets it go when its agent says that it has left.
        match reports(client, env, name, "False").await {
            Ok(()) | Err(ClientError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        for _ in 0..LOOKS {
            if members.find(&key).await?.is_none() {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Which stage the nth member belongs to.
fn stage(at: usize, of: usize) -> &'static str {
    match at * 100 / of.max(1) {
        0..20 => "a",
        20..50 => "b",
        _ => "c",
    }
}

async fn register(client: &Client, name: &str, stage: &str) -> anyhow::Result<()> {
    let identity = json!({"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"});
    let object = json!({
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "MemberCluster",
        "metadata": {"name": name, "labels": {STAGE: stage}},
        "spec": {"identity": identity, "heartbeatPeriodSeconds": 60},
    });
    let applied =
        client.of::<MemberCluster>().apply(&ObjectKey::cluster(name), &object, true).await;
    applied.map(drop).with_context(|| format!("cannot register member {name}"))
}

/// Joins as soon as the hub has a place for the member, and waits until the hub says so.
async fn joined(client: &Client, env: &Env, name: &str) -> anyhow::Result<()> {
    loop {
        match reports(client, env, name, "True").await {
            Ok(()) | Err(ClientError::NotFound { .. }) => {}
            Err(error) => return Err(error).context(format!("member {name} cannot join")),
        }
        let found = client.of::<MemberCluster>().find(&ObjectKey::cluster(name)).await?;
        let status = found.and_then(|found| found.status).unwrap_or_default();
        let joined = status.conditions.of_type(member_cluster::JOINED);
        if joined.is_some_and(|joined| joined.status == "True") {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Reports as the agent of a member that it has joined or left.
async fn reports(client: &Client, env: &Env, name: &str, joined: &str) -> Result<(), ClientError> {
    let key = ObjectKey::namespaced(&member_namespace(name), name);
    let status = agent(env, joined);
    client.of::<InternalMemberCluster>().patch_status_anyway(&key, status).await.map(drop)
}

/// What the agent of a member reports.
fn agent(env: &Env, joined: &str) -> Value {
    let now = flagship_base::machinery::time::seconds(env.now());
    let says = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": "Bench", "message": "",
            "lastTransitionTime": now})
    };
    json!({"status": {"agentStatus": [{
        "type": "MemberAgent",
        "lastReceivedHeartbeat": now,
        "conditions": [says("Joined", joined), says("Healthy", "True")],
    }]}})
}

/// Reports every Work of these members as applied and available, each after the same while.
async fn answer(client: Client, env: Env, after: Duration) {
    let (sender, mut due) = mpsc::unbounded_channel();
    let works = client.of::<Work>();
    let prefix = member_namespace(PREFIX);
    // A Work may change again before it is answered.
    let asked: Mutex<BTreeMap<ObjectKey, Generation>> = Mutex::default();
    let mirror = Reflector::new(&env, works.clone(), Selection::all(), move |work: Work| {
        let space = work.metadata.namespace.as_deref().unwrap_or_default();
        let at = Generation::of(&work.metadata);
        let conditions = work.status.as_ref().map(|status| &status.conditions);
        let answered = conditions.is_some_and(|said| said.is_true_at(kind::AVAILABLE, at));
        if space.starts_with(&prefix) && !answered {
            let key = key_of(&work)?;
            let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
            if asked.insert(key.clone(), at) != Some(at) {
                // Nobody answers any more once the program ends.
                sender.send((key, at)).ok()?;
            }
        }
        None::<()>
    });
    let _mirroring = JoinSet::from_iter([mirror.run()]);
    let mut answers = JoinSet::new();
    while let Some((key, at)) = due.recv().await {
        let (works, env) = (works.clone(), env.clone());
        answers.spawn(async move {
            tokio::time::sleep(after).await;
            let mut conditions = Vec::new();
            for done in [
                draft(kind::APPLIED).is_true("AllManifestsApplied"),
                draft(kind::AVAILABLE).is_true("AllManifestsAvailable"),
            ] {
                done.because("").set(&mut conditions, at, env.now());
            }
            let status = json!({"status": {"conditions": conditions}});
            if let Err(error) = works.patch_status_anyway(&key, status).await {
                tracing::debug!(%key, %error, "a Work was not answered");
            }
        });
        while answers.try_join_next().is_some() {}
    }
}
