//! What must be so before anything is written: rights, and nobody in the way.

use std::io::Write;

use flagship_api::names::{HUB_LEASE, ObjectKey, SYSTEM_NAMESPACE};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};

use super::objects;
use super::target::Target;

/// Something one has to be allowed to: verb, group, resource, namespace.
pub type Need = (&'static str, &'static str, &'static str, &'static str);

const RBAC: &str = "rbac.authorization.k8s.io";
const FLEET: &str = "cluster.kubernetes-fleet.io";

/// What whoever installs an agent must be allowed to on its cluster.
pub const TO_INSTALL: &[Need] = &[
    ("patch", "", "namespaces", ""),
    ("patch", "apiextensions.k8s.io", "customresourcedefinitions", ""),
    ("patch", RBAC, "clusterroles", ""),
    ("patch", RBAC, "clusterrolebindings", ""),
    ("patch", "", "serviceaccounts", SYSTEM_NAMESPACE),
    ("patch", "apps", "deployments", SYSTEM_NAMESPACE),
];

/// What whoever lets a member join must be allowed to on the hub.
pub const TO_INVITE: &[Need] = &[
    ("patch", FLEET, "memberclusters", ""),
    ("patch", "", "serviceaccounts", SYSTEM_NAMESPACE),
    ("create", "", "serviceaccounts/token", SYSTEM_NAMESPACE),
    ("patch", RBAC, "roles", SYSTEM_NAMESPACE),
    ("patch", RBAC, "rolebindings", SYSTEM_NAMESPACE),
];

/// The rights that are lacking, as `patch deployments.apps in fleet-system`.
pub async fn lacking(target: &Target, needs: &[Need]) -> anyhow::Result<Vec<String>> {
    let mut lacking = Vec::new();
    for (verb, group, resource, namespace) in needs {
        let word = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let (plain, sub) = resource.split_once('/').unwrap_or((*resource, ""));
        let spec = SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: word(verb),
                group: word(group),
                resource: word(plain),
                subresource: word(sub),
                namespace: word(namespace),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        };
        let asked = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        let answer = target.client.of::<SelfSubjectAccessReview>().create(&asked).await?;
        if !answer.status.is_some_and(|status| status.allowed) {
            let dot = if group.is_empty() { "" } else { "." };
            let place =
                if namespace.is_empty() { String::new() } else { format!(" in {namespace}") };
            lacking.push(format!("{verb} {resource}{dot}{group}{place}"));
        }
    }
    Ok(lacking)
}

/// Refuses in one sentence if a right is lacking.
pub async fn demand(target: &Target, needs: &[Need]) -> anyhow::Result<()> {
    let lacking = lacking(target, needs).await?;
    anyhow::ensure!(
        lacking.is_empty(),
        "the user of context {} may not: {}; nothing was changed",
        target.context,
        lacking.join(", ")
    );
    Ok(())
}

/// `install --check`: says what is there and what is in the way; whether nothing is.
pub async fn before_install(target: &Target, out: &mut dyn Write) -> anyhow::Result<bool> {
    let mut well = true;
    let mut tell = |out: &mut dyn Write, good: bool, name: &str, says: &str| {
        well &= good;
        writeln!(out, "  {} {name:<12} {says}", if good { "✔" } else { "✘" })
    };
    writeln!(out, "{} ({})", target.context, target.url())?;
    let version = target.client.version().await?;
    tell(out, true, "server", &version)?;
    let lacking = lacking(target, TO_INSTALL).await?;
    match lacking.as_slice() {
        [] => tell(out, true, "rights", "enough to install")?,
        some => tell(out, false, "rights", &format!("you may not: {}", some.join(", ")))?,
    }
    let wanted = objects::definitions(false);
    let served = |definition: &&serde_json::Value| {
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap_or_default();
        let group = definition["spec"]["group"].as_str().unwrap_or_default();
        let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
        versions
            .filter_map(|version| version["name"].as_str())
            .any(|version| target.resource(&format!("{group}/{version}"), kind).is_some())
    };
    let there = wanted.iter().filter(served).count();
    let says = match there {
        0 => format!("none of {} is there; they will be installed", wanted.len()),
        all if all == wanted.len() => {
            format!("all {all} are there; they will be brought up to date")
        }
        some => format!("{some} of {} are there; all will be brought up to date", wanted.len()),
    };
    tell(out, true, "definitions", &says)?;
    let lease = ObjectKey::namespaced(SYSTEM_NAMESPACE, HUB_LEASE);
    let lease = target.find("coordination.k8s.io/v1", "Lease", &lease).await?.unwrap_or_default();
    match lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty()) {
        None => tell(out, true, "hub agent", "nobody leads here")?,
        Some(holder) => {
            let says =
                format!("{holder} leads here; a new agent waits until it gives the lease back");
            tell(out, true, "hub agent", &says)?;
        }
    }
    let says = if well { "Ready to install." } else { "Not ready to install." };
    writeln!(out, "\n{says}")?;
    Ok(well)
}
