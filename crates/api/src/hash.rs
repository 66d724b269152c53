//! The content hashes that decide whether something changed.
//!
//! Every one is the lower-case hex SHA-256 of [`crate::go_json`] text, and each
//! must come out as KubeFleet's would: hubs and members carry hashes written by
//! it, and a different one means a needless rollout.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Result, Value};
use sha2::{Digest, Sha256};

use crate::go_json::{self, Sorted};

mod manifest;

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
pub fn of_resources<'a>(manifests: impl IntoIterator<Item = &'a Value>) -> Result<String> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Selected<'a> {
        selected_resources: Vec<Sorted<'a>>,
    }
    of(&Selected { selected_resources: manifests.into_iter().map(Sorted).collect() })
}

/// A hash as byte fields carry it: the base64 of the hex digits.
pub fn on_the_wire(hex: &str) -> String {
    STANDARD.encode(hex)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
            of_list(&[json!({"name": "ro-1-0", "namespace": "app"})]).unwrap(),
            "2c9b237bbf913f16899de22dd80bb79749e110c9cce490eff508277cd81b7845"
        );
    }

    #[test]
    fn selected_resources() {
        assert_eq!(
            of_resources([]).unwrap(),
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
            of_resources(&manifests).unwrap(),
            "47765e86044204c2eb4ec5872fc4b3cd44a7873435e82da5eb7c3f5d1ed21601"
        );
    }

    #[test]
    fn policies_as_text() {
        for (text, hash) in [
            ("null", NULL),
            (
                r#"{"placementType":"PickAll"}"#,
                "8cc57dee59684ff88766e26936c8fb125f4bde234a2beb5c54aded4569db0d5a",
            ),
            (
                r#"{"placementType":"PickN"}"#,
                "479f405eb7808cfc58366b2648680a3a815ef914fe6756ae8df0d6f74885416a",
            ),
            (
                r#"{"placementType":"PickFixed"}"#,
                "b77e88683ac48c5da8d9ec332ae68224437a9ecdc7679fa81f98364146558c8d",
            ),
            (
                r#"{"placementType":"PickFixed","clusterNames":["member-1","member-2"]}"#,
                "af934541d0dbdf1151c6c8d437f2dafdeaefd72bd0ac02a2046fd3556d5b57e3",
            ),
        ] {
            assert_eq!(of_text(text), hash);
        }
    }

    #[test]
    fn byte_fields_carry_the_base64_of_the_digits() {
        assert!(on_the_wire(NULL).starts_with("NzQyMzRlOThhZmU3"));
        assert_eq!(
            on_the_wire("80d9b69e05acfdf1250256e7fbf6c8d40541721ed3de05df1b99fe87c5522ae6"),
            "ODBkOWI2OWUwNWFjZmRmMTI1MDI1NmU3ZmJmNmM4ZDQwNTQxNzIxZWQzZGUwNWRmMWI5OWZlODdjNTUyMmFlNg=="
        );
    }
}
