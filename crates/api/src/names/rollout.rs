//! What one rollout is called in logs and traces.

use super::ObjectKey;

/// The id of the rollout of one version of a placement: 32 hexadecimal digits, as OpenTelemetry
/// has them. The hub and every member find the same by themselves, so nothing is handed along.
pub fn rollout_trace(placement: &ObjectKey, version: &str) -> String {
    // FNV-1a: ids have to differ, and nothing else.
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let namespace = placement.namespace.as_deref().unwrap_or_default();
    let text = format!("{namespace}/{}/{version}", placement.name);
    let hash = text.bytes().fold(BASIS, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME));
    format!("{hash:032x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_of_each_placement_is_a_rollout_of_its_own() {
        let id = |placement: ObjectKey, version: &str| rollout_trace(&placement, version);
        let web = id(ObjectKey::cluster("web"), "7");
        assert_eq!(web.len(), 32);
        assert_eq!(web, id(ObjectKey::cluster("web"), "7"));
        for other in [
            id(ObjectKey::cluster("web"), "8"),
            id(ObjectKey::cluster("we"), "b7"),
            id(ObjectKey::namespaced("shop", "web"), "7"),
        ] {
            assert_ne!(web, other);
        }
    }
}
