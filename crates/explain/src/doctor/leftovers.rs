//! Objects that are stuck in deletion, and which controller holds their finalizer.

use flagship_api::keys::finalizer;
use jiff::SignedDuration;

use super::placements::kubectl;
use super::{Check, Deleting, Finding, HubContents};

/// Everything goes within so long, unless somebody is missing.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// Who takes a finalizer off.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Hub,
    Member,
    /// Nobody of ours.
    Nobody,
}

pub(super) fn check(seen: &HubContents) -> Check {
    let stuck = seen.deleting.iter().filter(|object| {
        !object.finalizers.is_empty() && seen.now.duration_since(object.since) > PATIENCE
    });
    let findings = stuck.map(|object| finding(seen, object)).collect();
    Check::new("leftovers", "finalizers", "nothing waits to be let go", findings)
}

fn finding(seen: &HubContents, object: &Deleting) -> Finding {
    let Deleting { resource, key, since, finalizers } = object;
    let minutes = seen.now.duration_since(*since).as_mins();
    let what = format!(
        "{resource} {key} was deleted {minutes} minutes ago and is held by {}",
        finalizers.join(", ")
    );
    let owners: Vec<Owner> = finalizers.iter().map(|name| owner(resource, name)).collect();
    let by_hand = kubectl(
        key,
        &format!(
            "patch {resource} {} --type=merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'",
            key.name
        ),
    );
    let mut by_absence = owners.contains(&Owner::Nobody);
    let fix = if owners.contains(&Owner::Nobody) {
        format!("nobody of ours sets this; if its owner is gone for good:  {by_hand}")
    } else if owners.contains(&Owner::Hub) {
        "the hub lets it go: see that it leads, and what it logs about it".to_owned()
    } else {
        let space = key.namespace.as_deref();
        let member = space.and_then(flagship_api::names::cluster_of_namespace).unwrap_or_default();
        match seen.members.contains_key(member) {
            true => format!("the agent of {member} lets it go:  flagship why cluster {member}"),
            false => {
                by_absence = true;
                format!("its member is gone, so nobody will:  {by_hand}")
            }
        }
    };
    Finding { by_absence, ..Finding::new(what, fix) }
}

fn owner(resource: &str, name: &str) -> Owner {
    match name {
        finalizer::WORK if resource.starts_with("works.") => Owner::Member,
        finalizer::PLACEMENT
        | finalizer::SCHEDULER
        | finalizer::SCHEDULER_BINDING
        | finalizer::WORK
        | finalizer::OVERRIDE
        | finalizer::UPDATE_RUN
        | finalizer::MEMBER_CLUSTER => Owner::Hub,
        // Profiles are not exported here, so their finalizer was set by another hub.
        _ => Owner::Nobody,
    }
}
