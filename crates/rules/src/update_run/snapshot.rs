//! Which resource snapshot a run rolls out: the one it names, or one taken at once.

use std::sync::Arc;

use flagship_api::defaults::revision_history_limit;
use flagship_api::error_class::ErrorClass;
use flagship_api::placement_status::ResourceIdentifier;
use flagship_base::go_number::atoi;

use super::messages::{Failure, VALID};
use super::observed::Observed;
use crate::model::ResourceSnapshot;
use crate::overrides::contents::enveloped;
use crate::placement::resource_snapshots::{
    self, NewResourceSnapshot, Part, ResourceAction, Snapshots, content,
};
use crate::placement::{PassError, Placement};
use crate::policy::quarantine;

/// The snapshot to roll out.
#[derive(Debug, Clone, Default)]
pub struct Chosen {
    /// Its index, as its label has it.
    pub index: String,
    /// Everything inside, wrapped resources included.
    pub resources: Vec<ResourceIdentifier>,
    /// Hash of its content.
    pub hash: String,
    /// What must be written first for it to exist.
    pub actions: Vec<ResourceAction>,
}

/// Finds or takes it.
pub fn choose(seen: &Observed, placement: &Placement) -> Result<Chosen, Failure> {
    let chosen = match seen.run.spec.resource_snapshot_index.as_str() {
        "" => take(seen, placement)?,
        index => find(seen, index)?,
    };
    let snapshots = seen.resource_snapshots.iter().map(|snapshot| &**snapshot);
    match quarantine::holding(snapshots, &chosen.hash) {
        None => Ok(chosen),
        Some(found) => {
            let told = found.told(&seen.run.placement_key(), &chosen.index);
            Err(Failure::valid_user(told))
        }
    }
}

fn find(seen: &Observed, index: &str) -> Result<Chosen, Failure> {
    let number = atoi(index).ok().filter(|number| *number >= 0).ok_or_else(|| {
        Failure::valid_user(format!(
            "invalid resource snapshot index `{index}` provided, expected an integer >= 0"
        ))
    })?;
    // The label is compared as text, so `007` is a number nobody has.
    let of_index = |snapshot: &&Arc<ResourceSnapshot>| snapshot.index.as_deref() == Some(index);
    let group: Vec<_> = seen.resource_snapshots.iter().filter(of_index).collect();
    let placement = seen.run.placement_key().slashed();
    if group.is_empty() {
        return Err(Failure::valid_user(format!(
            "no resourceSnapshots with index `{number}` found for placement `{placement}`"
        )));
    }
    let is_master = |hash: &Option<String>| hash.as_ref().is_some_and(|hash| !hash.is_empty());
    let Some(master) = group.iter().find(|snapshot| is_master(&snapshot.hash)) else {
        return Err(Failure::valid_unexpected(format!(
            "no master resourceSnapshot found for placement {placement}"
        )));
    };
    // Half of it must not go anywhere: whoever makes the group may not be done yet.
    let count = master.count.as_deref().and_then(|count| atoi(count).ok()).unwrap_or(1);
    let there = i64::try_from(group.len()).unwrap_or(i64::MAX);
    if there < count {
        let why = ErrorClass::Expected.message(format!(
            "not all resource snapshot in the same index group are created, index `{index}` of placement `{placement}` has {there} of {count}"
        ));
        return Err(Failure::Early(format!("{VALID}: {why}")));
    }
    let mut resources = content(&seen.resource_snapshots, index);
    resources.extend(group.iter().flat_map(|snapshot| &snapshot.enveloped).cloned());
    let hash = master.hash.clone().unwrap_or_default();
    Ok(Chosen { index: index.to_owned(), resources, hash, actions: Vec::new() })
}

/// Freezes what the placement selects now. A run never waits for more changes.
fn take(seen: &Observed, placement: &Placement) -> Result<Chosen, Failure> {
    let selection = match &seen.selection {
        None => return Err(Failure::passing("the placement's resources are not selected yet")),
        Some(Err(trouble @ PassError::User(_))) => return Err(Failure::valid(trouble.to_string())),
        Some(Err(trouble)) => return Err(Failure::Passing(trouble.clone())),
        Some(Ok(selection)) => selection,
    };
    let snapshots = Snapshots {
        placement: &placement.name,
        existing: &seen.resource_snapshots,
        limit: revision_history_limit(&placement.spec),
        bindings: &seen.bindings,
        indexes_in_runs: &seen.indexes_in_runs,
        now: seen.now,
    };
    let plan = resource_snapshots::plan(&snapshots, selection, None).map_err(Failure::Passing)?;
    let created = plan.actions.iter().find_map(|action| match action {
        ResourceAction::Create(NewResourceSnapshot { part: Part::Master { hash, .. }, .. }) => {
            Some(hash.clone())
        }
        _ => None,
    });
    let known = || {
        let mut all = seen.resource_snapshots.iter();
        all.find(|snapshot| snapshot.name == plan.latest.master)?.hash.clone()
    };
    let hash = created.or_else(known).unwrap_or_default();
    let mut resources = plan.latest.resources;
    resources.extend(selection.resources.iter().flat_map(|held| enveloped(&held.manifest)));
    Ok(Chosen { index: plan.latest.index, resources, hash, actions: plan.actions })
}
