//! Whether the copy of the policies that a run follows is still what the hub wrote there.
//!
//! The copy is an annotation, and whoever may patch the run's metadata can change it or take it
//! away where no webhook stops them. So the status, which only the hub writes, says which
//! policies the run follows and which hash the copy has. A run whose copy has another hash
//! begins nothing until the copy is put back.
//!
//! What clusters had before is part of the copy and may change in mid-run. The status names the
//! hash of the next copy before that is written: a hub that dies between the two writes leaves a
//! copy that has one of the two.

use flagship_api::condition::{Conditions, Generation, draft};
use flagship_api::condition_type::update_run::FOLLOWS_POLICIES;
use flagship_api::hash;
use flagship_api::keys::own;
use flagship_api::reason::update_run::POLICIES_ADOPTED;
use flagship_api::staged_update_status::UpdateRunStatus;
use jiff::Timestamp;

use super::lifecycle::is_initialized;
use super::observed::Run;
use crate::policy::Adopted;

/// What comes before the hashes that the copy may have.
const HASHES: &str =
    "; the copy of them in annotation flagship.dev/adopted-policies has the SHA-256 ";
const OR: &str = " or ";

/// Says in a status which policies a run follows; `next` is the copy that is about to be written.
pub fn vouch(
    status: &mut UpdateRunStatus,
    adopted: &Adopted,
    next: Option<&Adopted>,
    generation: Generation,
    now: Timestamp,
) {
    if adopted.is_empty() {
        return;
    }
    let hashes: Vec<String> = [Some(adopted), next].into_iter().flatten().map(hash_of).collect();
    let told = format!("{}{HASHES}{}", followed(adopted), hashes.join(OR));
    let draft = draft(FOLLOWS_POLICIES).is_true(POLICIES_ADOPTED).because(told);
    draft.set(&mut status.conditions, generation, now);
}

/// Whether a status says that a run may have this copy.
pub fn vouches(status: &UpdateRunStatus, adopted: &Adopted) -> bool {
    told(status).is_some_and(|(_, hashes)| hashes.split(OR).any(|one| one == hash_of(adopted)))
}

/// What of the policies that an initialized run follows was changed behind the hub's back, and
/// what to do about it; `None` where all is as the hub wrote it.
pub fn changed(adopted: Option<&Adopted>, status: &UpdateRunStatus) -> Option<String> {
    if !is_initialized(status) {
        return None;
    }
    let adopted = adopted.filter(|adopted| !adopted.is_empty());
    let annotation = own::ADOPTED_POLICIES;
    let Some((followed, _)) = told(status) else {
        let names = self::followed(adopted?);
        return Some(format!(
            "annotation {annotation} was added to the update run, which was initialized under no rollout policy, and says that it {names}; remove the annotation, or delete the update run and start a new one"
        ));
    };
    let what = match adopted {
        Some(adopted) if vouches(status, adopted) => return None,
        None => "is gone or cannot be read".to_owned(),
        Some(adopted) if self::followed(adopted) != followed => {
            format!("was changed and says that it {}", self::followed(adopted))
        }
        Some(_) => "was changed: it has the right names and another content".to_owned(),
    };
    Some(format!(
        "the update run {followed}, and annotation {annotation}, which has the copy of them, {what}; nothing of the update run begins before the annotation is as the hub wrote it: put it back, or delete the update run and start a new one"
    ))
}

impl Run {
    /// What of the policies that it follows was changed behind the hub's back.
    pub fn changed_policies(&self) -> Option<String> {
        changed(self.adopted.as_ref(), &self.status)
    }
}

/// Which policies a run follows, as its status says, and the hashes that the copy may have.
fn told(status: &UpdateRunStatus) -> Option<(&str, &str)> {
    let said = status.conditions.of_type(FOLLOWS_POLICIES)?;
    Some(said.message.split_once(HASHES).unwrap_or((&said.message, "")))
}

/// `follows rollout policies night, production`.
fn followed(adopted: &Adopted) -> String {
    let follows = match adopted.policies.len() {
        0 => "follows no rollout policy".to_owned(),
        1 => format!("follows rollout policy {}", adopted.names()),
        _ => format!("follows rollout policies {}", adopted.names()),
    };
    match &adopted.undoes {
        None => follows,
        Some(undoes) => format!("{follows} and takes back update run {}", undoes.run),
    }
}

fn hash_of(adopted: &Adopted) -> String {
    // What cannot be written has no hash, and no copy has an empty one.
    hash::of(adopted).unwrap_or_else(|_| "none".to_owned())
}

#[cfg(test)]
mod tests {
    use flagship_api::condition_type::update_run::INITIALIZED;
    use serde_json::{Value, json};

    use super::*;

    fn adopted(value: Value) -> Adopted {
        serde_json::from_value(value).unwrap()
    }

    fn night(then: &str) -> Value {
        json!({"policies": [{"name": "night", "spec": {"failure": {"then": then}}}]})
    }

    #[test]
    fn a_copy_is_trusted_that_has_the_hash_in_the_status() {
        let mut initialized = UpdateRunStatus::default();
        let told = draft(INITIALIZED).is_true("UpdateRunInitializedSuccessfully");
        told.set(&mut initialized.conditions, Generation(1), Timestamp::UNIX_EPOCH);
        let vouched = |copy: &Value, next: Option<&Value>| {
            let mut status = initialized.clone();
            let next = next.map(|next| adopted(next.clone()));
            let (copy, at) = (adopted(copy.clone()), Timestamp::UNIX_EPOCH);
            vouch(&mut status, &copy, next.as_ref(), Generation(1), at);
            status
        };
        let (stop, go_on) = (night("Stop"), night("Continue"));
        let named = json!({"policies": [{"name": "day", "spec": {}}]});
        let mut noted = stop.clone();
        noted["before"] = json!({"held": {"1": ["m1"]}});
        let mut other = stop.clone();
        other["before"] = json!({"held": {"2": ["m1"]}});
        let mut planned = stop.clone();
        planned["plan"] = json!("0123");
        let undoes = json!({"policies": [], "undoes": {"run": "web", "uid": "u"}});
        let (one, two) = (vouched(&stop, None), vouched(&stop, Some(&noted)));
        let back = vouched(&undoes, None);
        let (none, empty) = (UpdateRunStatus::default(), json!({"policies": []}));
        let free = initialized.clone();
        // What the status says, the copy, and what is said of it.
        let table: [(&UpdateRunStatus, Option<&Value>, &str); 17] = [
            (&one, Some(&stop), ""),
            (&one, Some(&noted), "another content"),
            (&one, Some(&go_on), "the right names and another content"),
            (&one, Some(&planned), "another content"),
            (&one, Some(&named), "says that it follows rollout policy day"),
            (&one, Some(&undoes), "and takes back update run web"),
            (&one, Some(&empty), "is gone"),
            (
                &one,
                None,
                "the update run follows rollout policy night, and annotation flagship.dev/adopted-policies, which has the copy of them, is gone",
            ),
            (&two, Some(&stop), ""),
            (&two, Some(&noted), ""),
            (&two, Some(&other), "another content"),
            (&two, None, "is gone"),
            (&back, Some(&undoes), ""),
            (&back, None, "follows no rollout policy and takes back update run web"),
            (&free, None, ""),
            (&free, Some(&stop), "was added to the update run"),
            (&none, Some(&stop), ""),
        ];
        for (at, (status, copy, expected)) in table.into_iter().enumerate() {
            let copy = copy.map(|copy| adopted(copy.clone()));
            let told = changed(copy.as_ref(), status).unwrap_or_default();
            assert_eq!(told.is_empty(), expected.is_empty(), "row {at}: {told}");
            assert!(told.contains(expected), "row {at}: {told}");
        }
        // A run that follows nothing says nothing (law P7).
        assert_eq!(vouched(&json!({"policies": []}), None), initialized);
        // The copy has the same hash when it was stored and read.
        let text = serde_json::to_string(&adopted(noted.clone())).unwrap();
        assert!(vouches(&two, &serde_json::from_str(&text).unwrap()));
    }
}
