//! `status.typeChecking` of a ValidatingAdmissionPolicy: what its expressions do wrong with
//! the kinds that it names.
//!
//! A real cluster leaves this to a controller; here the write that changes the
//! specification does it. Nothing is refused: a policy may know of kinds that come later.

use std::collections::BTreeSet;
use std::sync::Arc;

use flagship_base::machinery::gvk::GroupVersion;
use flagship_kinds::Kind as K;
use flagship_schema::{Sighted, Subject};
use flagship_store::{Change, CommitError, Expect, Stored, Write};
use serde_json::{Value, json};

use super::POLICIES;
use crate::registry::{Kind, Served};
use crate::rest::cluster::Cluster;
use crate::rest::subresource::Sub;
use crate::rest::{managers, write};

/// Who owns what is found.
const MANAGER: &str = "validatingadmissionpolicy-status";
/// Policies that name more kinds are checked against the first of them.
const MAX_KINDS: usize = 10;

/// Checks a policy that was just committed, unless it was before.
pub(in crate::rest) fn after_commit(
    cluster: &Cluster,
    kind: &Kind,
    stored: &Arc<Stored>,
    removed: bool,
) {
    if !kind.is(K::ValidatingAdmissionPolicy) || removed {
        return;
    }
    let mut there = stored.clone();
    while let Some(Err(CommitError::Moved(_))) = check(cluster, &there) {
        match cluster.store.get(POLICIES, &stored.key) {
            Some(moved) => there = moved,
            None => return,
        }
    }
}

/// Writes down what is wrong with a policy; `None` when that was done, or cannot be.
fn check(cluster: &Cluster, stored: &Stored) -> Option<Result<Arc<Stored>, CommitError>> {
    let policy = write::parse(stored).ok()?;
    let generation = &policy["metadata"]["generation"];
    if policy["status"]["observedGeneration"] == *generation {
        return None;
    }
    let served = cluster.registry.stored(POLICIES)?;
    let mut told = json!({});
    let warnings = warnings(cluster, &policy["spec"]);
    if !warnings.is_empty() {
        told["expressionWarnings"] = json!(warnings);
    }
    let wanted = json!({
        "apiVersion": policy["apiVersion"], "kind": policy["kind"],
        "metadata": {"name": policy["metadata"]["name"]},
        "status": {"observedGeneration": generation, "typeChecking": told},
    });
    let applied =
        managers::apply(cluster, &served, Some(&policy), &wanted, MANAGER, true, Sub::Status);
    let (head, json) = write::encode(&served.kind, &applied.ok()?).ok()?;
    let expect = Expect::At(stored.revision);
    let change = Change::Put { head, json };
    let resource = &served.kind.resource;
    Some(cluster.store.commit(Write { resource, key: stored.key.clone(), expect, change }))
}

/// `expressionWarnings`.
fn warnings(cluster: &Cluster, spec: &Value) -> Vec<Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
    let list = |key: &str| spec[key].as_array().into_iter().flatten();
    let variables: Vec<(String, String)> =
        list("variables").map(|one| (text(&one["name"]), text(&one["expression"]))).collect();
    let params = subject_of_params(cluster, &spec["paramKind"]);
    let mut fields = Vec::new();
    for (at, validation) in list("validations").enumerate() {
        for key in ["expression", "messageExpression"] {
            let source = text(&validation[key]);
            if !source.is_empty() {
                fields.push((format!("spec.validations[{at}].{key}"), source, Vec::new()));
            }
        }
    }
    for (name, object) in subjects(cluster, &spec["matchConstraints"]["resourceRules"]) {
        let sighted =
            Sighted { object: Some(&object), params: params.as_ref(), variables: &variables };
        let sources: Vec<&str> = fields.iter().map(|(_, source, _)| source.as_str()).collect();
        let complaints = sighted.complaints(&sources);
        for ((.., told), complaint) in fields.iter_mut().zip(complaints) {
            told.extend(complaint.map(|says| format!("{name}: {says}\n")));
        }
    }
    let told = fields.into_iter().filter(|(.., told)| !told.is_empty());
    told.map(|(field, _, told)| json!({"fieldRef": field, "warning": told.join("\n")})).collect()
}

/// The kinds that rules name one by one, as Kubernetes prints them and in that order.
/// Whoever says `*` means too many to tell.
fn subjects(cluster: &Cluster, rules: &Value) -> Vec<(String, Subject)> {
    let mut kinds = BTreeSet::new();
    for rule in rules.as_array().into_iter().flatten() {
        let named = |key: &str| -> Vec<&str> {
            let all: Vec<&str> =
                rule[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            if all.contains(&"*") { Vec::new() } else { all }
        };
        let (groups, versions) = (named("apiGroups"), named("apiVersions"));
        for group in groups {
            for version in &versions {
                for resource in named("resources").iter().filter(|text| !text.contains(['/', '*']))
                {
                    let served = cluster.registry.find(group, version, resource);
                    kinds.extend(served.map(|served| {
                        (
                            group.to_owned(),
                            version.to_string(),
                            served.kind.kind.to_string(),
                            served.kind.plural.to_string(),
                        )
                    }));
                }
            }
        }
    }
    let each = kinds.into_iter().take(MAX_KINDS).filter_map(|(group, version, kind, plural)| {
        let served = cluster.registry.find(&group, &version, &plural)?;
        Some((format!("{group}/{version}, Kind={kind}"), subject(&served)?))
    });
    each.collect()
}

fn subject(served: &Served) -> Option<Subject> {
    let schema = served.version().schema()?.clone();
    Some(Subject { kind: served.kind.kind.to_string(), schema })
}

fn subject_of_params(cluster: &Cluster, kind: &Value) -> Option<Subject> {
    let (api_version, kind) = (kind["apiVersion"].as_str()?, kind["kind"].as_str()?);
    subject(&cluster.registry.named(&GroupVersion::parse(api_version)?, kind)?)
}
