//! Defaults of PersistentVolume, PersistentVolumeClaim, StorageClass and CSIDriver.

use serde_json::json;

use super::super::json::{Fill, Object};
use super::{fill_text, requirements, resource_list};

pub(super) fn volume(object: &mut Object) {
    if let Some(status) = object.child_or_new("status") {
        fill_text(status, "phase", "Pending");
    }
    let Some(spec) = object.child_or_new("spec") else { return };
    fill_text(spec, "persistentVolumeReclaimPolicy", "Retain");
    spec.fill("volumeMode", "Filesystem");
    resource_list(spec, "capacity");
    volume_source(spec);
}

/// Defaults of the sources that pods and persistent volumes share.
pub(super) fn volume_source(holder: &mut Object) {
    if let Some(path) = holder.child("hostPath") {
        path.fill("type", "");
    }
    if let Some(iscsi) = holder.child("iscsi") {
        fill_text(iscsi, "iscsiInterface", "default");
    }
    if let Some(rbd) = holder.child("rbd") {
        fill_text(rbd, "pool", "rbd");
        fill_text(rbd, "user", "admin");
        fill_text(rbd, "keyring", "/etc/ceph/keyring");
    }
    if let Some(disk) = holder.child("azureDisk") {
        disk.fill("cachingMode", "ReadWrite");
        disk.fill("fsType", "ext4");
        disk.fill("readOnly", false);
        disk.fill("kind", "Shared");
    }
    if let Some(scale_io) = holder.child("scaleIO") {
        fill_text(scale_io, "storageMode", "ThinProvisioned");
        fill_text(scale_io, "fsType", "xfs");
    }
}

pub(super) fn claim(object: &mut Object) {
    if let Some(status) = object.child_or_new("status") {
        fill_text(status, "phase", "Pending");
        resource_list(status, "capacity");
    }
    if let Some(spec) = object.child_or_new("spec") {
        claim_spec(spec);
    }
}

pub(super) fn claim_spec(spec: &mut Object) {
    spec.fill("volumeMode", "Filesystem");
    if let Some(resources) = spec.child_or_new("resources") {
        requirements(resources);
    }
}

pub(super) fn class(object: &mut Object) {
    object.fill("reclaimPolicy", "Delete");
    object.fill("volumeBindingMode", "Immediate");
}

pub(super) fn csi_driver(object: &mut Object) {
    let Some(spec) = object.child_or_new("spec") else { return };
    spec.fill("attachRequired", true);
    spec.fill("podInfoOnMount", false);
    spec.fill("storageCapacity", false);
    spec.fill("fsGroupPolicy", "ReadWriteOnceWithFSType");
    spec.fill("requiresRepublish", false);
    spec.fill("seLinuxMount", false);
    spec.fill("volumeLifecycleModes", json!(["Persistent"]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_retained_and_a_class_deletes() {
        let mut object =
            json!({"spec": {"capacity": {"storage": "1024Mi"}, "hostPath": {"path": "/data"}}});
        volume(object.as_object_mut().unwrap());
        assert_eq!(
            object,
            json!({
                "spec": {
                    "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data", "type": ""},
                    "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem",
                },
                "status": {"phase": "Pending"},
            })
        );
        let mut object = json!({"provisioner": "p"});
        class(object.as_object_mut().unwrap());
        assert_eq!(
            object,
            json!({"provisioner": "p", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})
        );
    }
}
