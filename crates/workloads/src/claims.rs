//! PersistentVolumeClaims and the volumes made for them.
//!
//! A claim gets a volume of its own, of the size it asks for, and is bound at once.
//! Volumes that people made are bound when the claim names them; nothing searches
//! for a match.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};

use crate::object::{Fields, set};
use crate::plan::{Action, Note, Plan, Target};

const SOURCE: &str = "persistentvolume-controller";
/// How soon a class that is missing is looked for again.
const AGAIN: SignedDuration = SignedDuration::from_secs(5);
const BOUND: &str = "pv.kubernetes.io/bind-completed";
const PROVISIONED: &str = "pv.kubernetes.io/provisioned-by";
const PROVISIONER: &str = "workloads.flagship.dev/provisioner";

/// What one claim looks like.
#[derive(Debug, Clone, Serialize)]
pub struct Observed {
    /// The claim.
    pub claim: Value,
    /// The volume that it names, or that would be made for it.
    pub volume: Option<Value>,
    /// Whether volumes are made.
    pub provision: bool,
    /// The class that it asks for and that is not there.
    pub lacks_class: Option<String>,
    /// The present moment.
    pub now: Timestamp,
}

/// The name of the volume made for a claim.
pub fn volume_name(claim: &Value) -> String {
    format!("pvc-{}", claim.uid())
}

/// Decides the next moves for one claim.
pub fn plan(seen: &Observed) -> Plan {
    let claim = &seen.claim;
    let mut plan = Plan::default();
    if claim.is_deleting() || claim.text("/status/phase") == "Bound" {
        return plan;
    }
    let named = claim.text("/spec/volumeName");
    let Some(volume) = &seen.volume else {
        if named.is_empty() && seen.provision && seen.lacks_class.is_none() {
            make(claim, &mut plan);
        } else {
            let mut status = crate::object::status_of(claim);
            set(&mut status, &["phase"], json!("Pending"));
            plan.status("persistentvolumeclaims", claim, status);
            plan.waiting.push("no volume".into());
            if let Some(class) = &seen.lacks_class {
                if !plan.actions.is_empty() {
                    let why = format!("storageclass.storage.k8s.io {class:?} not found");
                    let note = Note::warning(claim, SOURCE, "ProvisioningFailed", why);
                    plan.act(Action::Say(note));
                }
                plan.wake_at(seen.now.checked_add(AGAIN).unwrap_or(Timestamp::MAX));
            }
        }
        return plan;
    };
    let owner = volume.text("/spec/claimRef/uid");
    if !owner.is_empty() && owner != claim.uid() {
        plan.waiting.push(format!("volume {} belongs to another claim", volume.name()));
        return plan;
    }
    if owner.is_empty() {
        let mut object = volume.clone();
        set(&mut object, &["spec", "claimRef"], claim_ref(claim));
        plan.act(Action::Replace { resource: "persistentvolumes".into(), object });
        return plan;
    }
    if named.is_empty() {
        let mut object = claim.clone();
        set(&mut object, &["spec", "volumeName"], json!(volume.name()));
        set(&mut object, &["metadata", "annotations", BOUND], json!("yes"));
        plan.act(Action::Replace { resource: "persistentvolumeclaims".into(), object });
        return plan;
    }
    let status = json!({
        "phase": "Bound", "accessModes": volume.at("/spec/accessModes").clone(),
        "capacity": volume.at("/spec/capacity").clone(),
    });
    plan.status("persistentvolumeclaims", claim, status);
    plan
}

/// Keeps a volume's phase in step with its claim, and removes it after its claim.
pub fn plan_volume(volume: &Value, claim: Option<&Value>) -> Plan {
    let mut plan = Plan::default();
    if volume.is_deleting() {
        return plan;
    }
    let owner = volume.text("/spec/claimRef/uid");
    let alive = claim.is_some_and(|c| c.uid() == owner);
    if !owner.is_empty() && !alive && volume.text("/spec/persistentVolumeReclaimPolicy") == "Delete"
    {
        plan.act(Action::delete(Target::of("persistentvolumes", volume)));
        return plan;
    }
    let phase = match (owner.is_empty(), alive) {
        (true, _) => "Available",
        (false, true) => "Bound",
        (false, false) => "Released",
    };
    let mut status = crate::object::status_of(volume);
    set(&mut status, &["phase"], json!(phase));
    plan.status("persistentvolumes", volume, status);
    plan
}

fn claim_ref(claim: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": claim.name(),
        "namespace": claim.namespace(), "uid": claim.uid(),
        "resourceVersion": claim.text("/metadata/resourceVersion")})
}

fn make(claim: &Value, plan: &mut Plan) {
    let name = volume_name(claim);
    let size = match claim.at("/spec/resources/requests/storage") {
        Value::Null => json!("1Gi"),
        size => size.clone(),
    };
    let modes = match claim.list("/spec/accessModes") {
        [] => json!(["ReadWriteOnce"]),
        modes => json!(modes),
    };
    let mut spec = json!({
        "accessModes": modes, "capacity": {"storage": size}, "claimRef": claim_ref(claim),
        "persistentVolumeReclaimPolicy": "Delete",
        "hostPath": {"path": format!("/var/lib/flagship/{name}"), "type": "DirectoryOrCreate"},
    });
    if let Some(class) = claim.at("/spec").get("storageClassName") {
        spec["storageClassName"] = class.clone();
    }
    let message = format!("Successfully provisioned volume {name}");
    plan.act(Action::Create {
        resource: "persistentvolumes",
        object: json!({"apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": {PROVISIONED: PROVISIONER}}, "spec": spec}),
        then: Some(Note::normal(claim, SOURCE, "ProvisioningSucceeded", message)),
        refused: Some(Note::warning(
            claim,
            SOURCE,
            "ProvisioningFailed",
            "failed to provision volume: ",
        )),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn a_claim_is_given_a_volume_and_bound() {
        let mut fixture = Fixture::new();
        fixture.put("persistentvolumeclaims", json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}}));
        for _ in 0..6 {
            let claim = fixture.get("persistentvolumeclaims", "data").clone();
            let volume = fixture.list("persistentvolumes").pop();
            let plan = plan(&Observed {
                claim,
                volume,
                provision: true,
                lacks_class: None,
                now: fixture.now,
            });
            fixture.apply(plan);
        }
        let claim = fixture.get("persistentvolumeclaims", "data").clone();
        assert_eq!(
            claim["status"],
            json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "5Gi"}})
        );
        let volume = fixture.list("persistentvolumes").pop().unwrap();
        assert_eq!(claim["spec"]["volumeName"], volume["metadata"]["name"]);
        let kept = plan_volume(&volume, Some(&claim));
        assert!(matches!(kept.actions[..], [Action::ReplaceStatus { .. }]), "{kept:?}");
        let gone = plan_volume(&volume, None);
        assert!(matches!(gone.actions[..], [Action::Delete { .. }]), "{gone:?}");
    }

    #[test]
    fn without_provisioning_a_claim_stays_pending() {
        let claim = json!({"metadata": {"name": "data", "uid": "u"}, "spec": {}});
        let now = Timestamp::from_second(0).unwrap();
        let plan =
            plan(&Observed { claim, volume: None, provision: false, lacks_class: None, now });
        assert_eq!(plan.waiting, ["no volume"]);
    }
}
