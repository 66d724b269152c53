//! The taint that keeps new placements off a cluster: put on, taken off, nothing else touched.

use flagship_api::cluster::{MemberCluster, Taint};
use flagship_api::keys::cordon_taint;
use flagship_api::names::ObjectKey;
use flagship_api::policy::TaintEffect;
use flagship_runtime::client::{Client, ClientError, Precondition};
use flagship_runtime::effects::{Retry, retry};
use flagship_runtime::env::Env;
use serde_json::json;

/// Puts the taint on; a cluster that has it is left alone.
pub async fn cordon(hub: &Client, env: &Env, cluster: &str) -> anyhow::Result<()> {
    let taint = taint();
    rewrite(hub, env, cluster, |taints| {
        let missing = !taints.contains(&taint);
        missing.then(|| taints.iter().cloned().chain([taint.clone()]).collect())
    })
    .await
}

/// Takes exactly that taint off; a cluster without it is left alone.
pub async fn uncordon(hub: &Client, env: &Env, cluster: &str) -> anyhow::Result<()> {
    let taint = taint();
    rewrite(hub, env, cluster, |taints| {
        let there = taints.contains(&taint);
        there.then(|| taints.iter().filter(|other| **other != taint).cloned().collect())
    })
    .await
}

fn taint() -> Taint {
    Taint {
        key: cordon_taint::KEY.to_owned(),
        value: cordon_taint::VALUE.to_owned(),
        effect: TaintEffect::NoSchedule,
    }
}

/// Reads the taints, and writes them back if they are to be others. Somebody who writes in
/// between makes it start over.
async fn rewrite(
    hub: &Client,
    env: &Env,
    cluster: &str,
    change: impl Fn(&[Taint]) -> Option<Vec<Taint>>,
) -> anyhow::Result<()> {
    let clusters = hub.of::<MemberCluster>();
    let key = ObjectKey::cluster(cluster);
    let conflicts = |error: &ClientError| matches!(error, ClientError::Conflict { .. });
    retry(env, Retry::CONFLICT, conflicts, || async {
        let found = clusters.get(&key).await?;
        let Some(taints) = change(&found.spec.taints) else { return Ok(()) };
        let Some(precondition) = Precondition::of(&found) else { return Ok(()) };
        clusters.patch(&precondition, json!({"spec": {"taints": taints}})).await.map(drop)
    })
    .await?;
    Ok(())
}
