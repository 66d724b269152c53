//! Volumes, claims and what provides them.

use serde_json::{Value, json};

use super::object::Object;
use super::{AGE, NAME, Printer};
use crate::Kind;

const VOLUME: Printer = Printer {
    columns: &[
        NAME,
        ("Capacity", "string", 0),
        ("Access Modes", "string", 0),
        ("Reclaim Policy", "string", 0),
        ("Status", "string", 0),
        ("Claim", "string", 0),
        ("StorageClass", "string", 0),
        ("VolumeAttributesClass", "string", 0),
        ("Reason", "string", 0),
        AGE,
        ("VolumeMode", "string", 1),
    ],
    cells: |object| {
        let claim = match object.at("/spec/claimRef").is_object() {
            true => {
                let text = |key: &str| object.text(&format!("/spec/claimRef/{key}"));
                format!("{}/{}", text("namespace"), text("name"))
            }
            false => String::new(),
        };
        vec![
            object.name(),
            object.text_or("/spec/capacity/storage", "0"),
            json!(modes(object.list("/spec/accessModes"))),
            json!(object.text("/spec/persistentVolumeReclaimPolicy")),
            json!(phase(object)),
            json!(claim),
            json!(class(object)),
            object.text_or("/spec/volumeAttributesClassName", "<unset>"),
            json!(object.text("/status/reason")),
            object.age(),
            object.text_or("/spec/volumeMode", "<unset>"),
        ]
    },
};

const CLAIM: Printer = Printer {
    columns: &[
        NAME,
        ("Status", "string", 0),
        ("Volume", "string", 0),
        ("Capacity", "string", 0),
        ("Access Modes", "string", 0),
        ("StorageClass", "string", 0),
        ("VolumeAttributesClass", "string", 0),
        AGE,
        ("VolumeMode", "string", 1),
    ],
    cells: |object| {
        // Before it is bound, a claim has neither.
        let (capacity, modes) = match object.text("/spec/volumeName") {
            "" => (json!(""), String::new()),
            _ => (
                object.text_or("/status/capacity/storage", "0"),
                modes(object.list("/status/accessModes")),
            ),
        };
        vec![
            object.name(),
            json!(phase(object)),
            json!(object.text("/spec/volumeName")),
            capacity,
            json!(modes),
            json!(class(object)),
            object.text_or("/spec/volumeAttributesClassName", "<unset>"),
            object.age(),
            object.text_or("/spec/volumeMode", "<unset>"),
        ]
    },
};

const STORAGE_CLASS: Printer = Printer {
    columns: &[
        NAME,
        ("Provisioner", "string", 0),
        ("ReclaimPolicy", "string", 0),
        ("VolumeBindingMode", "string", 0),
        ("AllowVolumeExpansion", "string", 0),
        AGE,
    ],
    cells: |object| {
        let marks = object.at("/metadata/annotations");
        let default = ["storageclass", "storageclass.beta"]
            .iter()
            .any(|group| marks[format!("{group}.kubernetes.io/is-default-class")] == "true");
        let name = object.text("/metadata/name");
        vec![
            json!(if default { format!("{name} (default)") } else { name.to_owned() }),
            json!(object.text("/provisioner")),
            object.text_or("/reclaimPolicy", "Delete"),
            object.text_or("/volumeBindingMode", "Immediate"),
            object.flag("/allowVolumeExpansion", false),
            object.age(),
        ]
    },
};

const ATTACHMENT: Printer = Printer {
    columns: &[
        NAME,
        ("Attacher", "string", 0),
        ("PV", "string", 0),
        ("Node", "string", 0),
        ("Attached", "boolean", 0),
        AGE,
    ],
    cells: |object| {
        vec![
            object.name(),
            json!(object.text("/spec/attacher")),
            json!(object.text("/spec/source/persistentVolumeName")),
            json!(object.text("/spec/nodeName")),
            object.flag("/status/attached", false),
            object.age(),
        ]
    },
};

const CSI_NODE: Printer = Printer {
    columns: &[NAME, ("Drivers", "integer", 0), AGE],
    cells: |object| vec![object.name(), object.len("/spec/drivers"), object.age()],
};

const CSI_DRIVER: Printer = Printer {
    columns: &[
        NAME,
        ("AttachRequired", "boolean", 0),
        ("PodInfoOnMount", "boolean", 0),
        ("StorageCapacity", "boolean", 0),
        ("TokenRequests", "string", 0),
        ("RequiresRepublish", "boolean", 0),
        ("Modes", "string", 0),
        AGE,
    ],
    cells: |object| {
        let texts = |list: &[Value], key: Option<&str>| {
            let each = list.iter().map(|item| key.map_or(item, |key| &item[key]));
            each.filter_map(Value::as_str).collect::<Vec<_>>().join(",")
        };
        let tokens = match object.at("/spec/tokenRequests").is_array() {
            true => texts(object.list("/spec/tokenRequests"), Some("audience")),
            false => "<unset>".to_owned(),
        };
        let modes = texts(object.list("/spec/volumeLifecycleModes"), None);
        vec![
            object.name(),
            object.flag("/spec/attachRequired", true),
            object.flag("/spec/podInfoOnMount", false),
            object.flag("/spec/storageCapacity", false),
            json!(tokens),
            object.flag("/spec/requiresRepublish", false),
            json!(if modes.is_empty() { "<none>".to_owned() } else { modes }),
            object.age(),
        ]
    },
};

pub(super) fn printer(kind: Kind) -> Option<&'static Printer> {
    Some(match kind {
        Kind::PersistentVolume => &VOLUME,
        Kind::PersistentVolumeClaim => &CLAIM,
        Kind::StorageClass => &STORAGE_CLASS,
        Kind::VolumeAttachment => &ATTACHMENT,
        Kind::CsiNode => &CSI_NODE,
        Kind::CsiDriver => &CSI_DRIVER,
        _ => return None,
    })
}

fn phase<'a>(object: &Object<'a>) -> &'a str {
    if object.is_deleting() { "Terminating" } else { object.text("/status/phase") }
}

/// The annotation of old, or the field.
fn class<'a>(object: &Object<'a>) -> &'a str {
    let annotations = object.at("/metadata/annotations");
    match annotations["volume.beta.kubernetes.io/storage-class"].as_str() {
        Some(class) => class,
        None => object.text("/spec/storageClassName"),
    }
}

/// Access modes in their short form and usual order.
fn modes(list: &[Value]) -> String {
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let there = known.iter().filter(|(mode, _)| list.iter().any(|listed| listed == mode));
    there.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::object::shown;

    #[test]
    fn claims_show_their_volume_once_bound() {
        let claim = |volume: &str| {
            json!({
                "metadata": {"name": "c"},
                "spec": {"volumeName": volume, "storageClassName": "fast", "volumeMode": "Filesystem"},
                "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"]},
            })
        };
        assert_eq!(
            shown(&CLAIM, &claim("v")),
            "c | Bound | v | 1Gi | RWO,RWX | fast | <unset> | <unknown> | Filesystem"
        );
        assert_eq!(
            shown(&CLAIM, &claim("")),
            "c | Bound |  |  |  | fast | <unset> | <unknown> | Filesystem"
        );
    }

    #[test]
    fn the_default_class_says_so() {
        let class = json!({"metadata": {"name": "s", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "p"});
        assert_eq!(
            shown(&STORAGE_CLASS, &class),
            "s (default) | p | Delete | Immediate | false | <unknown>"
        );
    }
}
