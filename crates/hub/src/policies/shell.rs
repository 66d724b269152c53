//! Writes the policies and removes those that are no longer wanted.

use std::collections::BTreeSet;
use std::time::Duration;

use flagship_api::names::ObjectKey;
use flagship_rules::admission::policies::{Config, LABELS};
use flagship_runtime::client::{Client, ClientError, Precondition, Propagation, Selection};
use flagship_runtime::effects::{Kind, Retry, retry};
use flagship_runtime::env::Env;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use serde_json::Value;

/// How often a write is tried, as KubeFleet does.
const TRIES: Retry = Retry { attempts: 3, base: Duration::from_secs(1), factor: 2, jitter: 0.0 };

/// Creates or updates every policy and binding of the configuration, and deletes those that
/// an earlier configuration had. Policies come before their bindings, and go after them.
pub async fn install(client: &Client, env: &Env, config: &Config) -> Result<(), ClientError> {
    let objects = config.objects();
    let policies = written::<ValidatingAdmissionPolicy>(client, env, &objects).await?;
    let bindings = written::<ValidatingAdmissionPolicyBinding>(client, env, &objects).await?;
    prune::<ValidatingAdmissionPolicyBinding>(client, env, &bindings).await?;
    prune::<ValidatingAdmissionPolicy>(client, env, &policies).await
}

/// Writes those of a kind; their names.
async fn written<K: Kind + Clone>(
    client: &Client,
    env: &Env,
    objects: &[Value],
) -> Result<BTreeSet<String>, ClientError> {
    let of_kind = objects.iter().filter(|object| object["kind"] == *K::kind(&()));
    let mut names = BTreeSet::new();
    for object in of_kind {
        // Only text goes into them that was checked, so what is read once is always read.
        let object = K::deserialize(object).expect("policies are written as Kubernetes reads them");
        names.extend(object.meta().name.clone());
        retry(env, TRIES, |_| true, async || put(client, object.clone()).await).await?;
    }
    Ok(names)
}

/// Deletes what carries the manager's labels and is not among the wanted.
async fn prune<K: Kind>(
    client: &Client,
    env: &Env,
    wanted: &BTreeSet<String>,
) -> Result<(), ClientError> {
    let ours: Vec<String> = LABELS.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let ours = Selection::all().with_labels(ours.join(","));
    let listed = client.of::<K>().list(&ours).await?;
    for precondition in listed.items.iter().filter_map(Precondition::of) {
        if wanted.contains(&precondition.key.name) {
            continue;
        }
        retry(
            env,
            TRIES,
            |_| true,
            async || match client.of::<K>().delete(&precondition, Propagation::Background).await {
                Err(ClientError::NotFound { .. }) => Ok(()),
                done => done.map(drop),
            },
        )
        .await?;
    }
    Ok(())
}

/// Writes a cluster-scoped object, whatever stood there: the name is ours.
pub async fn put<K: Kind>(client: &Client, mut wanted: K) -> Result<(), ClientError> {
    let objects = client.of::<K>();
    let name = wanted.meta().name.clone().unwrap_or_default();
    let there = objects.find(&ObjectKey::cluster(&name)).await?;
    match there {
        Some(there) => {
            wanted.meta_mut().resource_version = there.meta().resource_version.clone();
            objects.update(&wanted).await?
        }
        None => objects.create(&wanted).await?,
    };
    Ok(())
}
