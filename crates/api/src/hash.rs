//! The content hashes that decide whether something changed.
//!
//! Every one is the lower-case hex SHA-256 of [`crate::go_json`] text, and each
//! must come out as KubeFleet's would: hubs and members carry hashes written by
//! it, and a different one means a needless rollout.

use k8s_openapi::ByteString;
use serde::Serialize;
use serde_json::{Result, Value};
use sha2::{Digest, Sha256};

use crate::go_json;

mod declared;
mod manifest;

pub use declared::{cluster_override_hash, override_hash, policy_hash};
pub use manifest::{cleaned, spec_hash};

/// Hash of text that is already in its final form.
pub fn of_text(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hash of any value; fields in declaration order, maps sorted.
pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    Ok(of_text(&go_json::to_string(value)?))
}

/// Hash of a list that the API leaves out when it is empty. An empty list and an
/// absent one are the same there, so both count as absent.
pub fn of_list<T: Serialize>(list: &[T]) -> Result<String> {
    if list.is_empty() { of(&Value::Null) } else { of(list) }
}

/// Hash of the selected resources of a placement: all manifests of a snapshot
/// group, normalised and in order, before the group is split into objects.
/// Trees must be given as [`go_json::Sorted`]; kept text counts as it stands.
pub fn of_resources<T: Serialize>(manifests: impl IntoIterator<Item = T>) -> Result<String> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Selected<T> {
        selected_resources: Vec<T>,
    }
    of(&Selected { selected_resources: manifests.into_iter().collect() })
}

/// A hash as byte fields of the API hold it: the bytes of its hex digits, which
/// become base64 on the wire.
pub fn byte_field(hex: &str) -> ByteString {
    ByteString(hex.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::go_json::Sorted;
    use crate::placement_status::NamespacedName;
    use crate::raw_json::RawJson;

    const NULL: &str = "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b";

    #[test]
    fn lists_of_override_snapshots() {
        assert_eq!(of(&Value::Null).unwrap(), NULL);
        let empty: [&str; 0] = [];
        assert_eq!(
            of(&empty).unwrap(),
            "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"
        );
        assert_eq!(of_list(&empty).unwrap(), NULL);
        assert_eq!(
            of_list(&["cro-1-0"]).unwrap(),
            "66460d576a34b716ba8a98107c620b059fff15f741475d45bc2f5df06516ca82"
        );
        assert_eq!(
            of_list(&[NamespacedName { name: "ro-1-0".into(), namespace: "app".into() }]).unwrap(),
            "2c9b237bbf913f16899de22dd80bb79749e110c9cce490eff508277cd81b7845"
        );
    }

    #[test]
    fn selected_resources() {
        assert_eq!(
            of_resources::<Value>([]).unwrap(),
            "83ff749c5d8eb5a0b62d714175bcbaef1409b371fc5a229a002db6fcc1f144e1"
        );
        let manifests = [
            json!({
                "spec": {"finalizers": ["kubernetes"]},
                "metadata": {"name": "app", "labels": {"kubernetes.io/metadata.name": "app"}},
                "kind": "Namespace",
                "apiVersion": "v1",
            }),
            json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "cm", "namespace": "app"},
                "data": {"k": "a<b"},
            }),
        ];
        assert_eq!(
            of_resources(manifests.iter().map(Sorted)).unwrap(),
            "47765e86044204c2eb4ec5872fc4b3cd44a7873435e82da5eb7c3f5d1ed21601"
        );
        // The same as text, the way snapshots keep them.
        let kept = manifests
            .map(|tree| RawJson::from_text(go_json::to_string(&Sorted(&tree)).unwrap()).unwrap());
        assert_eq!(
            of_resources(&kept).unwrap(),
            "47765e86044204c2eb4ec5872fc4b3cd44a7873435e82da5eb7c3f5d1ed21601"
        );
    }

    #[test]
    fn byte_fields_carry_the_base64_of_the_digits() {
        let wire = |hex| serde_json::to_value(byte_field(hex)).unwrap();
        assert!(wire(NULL).as_str().unwrap().starts_with("NzQyMzRlOThhZmU3"));
        assert_eq!(
            wire("80d9b69e05acfdf1250256e7fbf6c8d40541721ed3de05df1b99fe87c5522ae6"),
            "ODBkOWI2OWUwNWFjZmRmMTI1MDI1NmU3ZmJmNmM4ZDQwNTQxNzIxZWQzZGUwNWRmMWI5OWZlODdjNTUyMmFlNg=="
        );
    }
}
