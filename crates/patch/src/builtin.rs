//! What the kinds of Kubernetes are merged by, from one embedded table.
//!
//! The table holds nothing but merge keys and patch strategies, of every kind that Kubernetes'
//! own client knows; CustomResourceDefinitions and APIServices are not among those and are
//! patched like custom resources. It is derived, never edited: `cargo run -p xtask --
//! merge-keys` makes it from the schemas of the API server, whose tests compare the two.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::shape::Shape;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../data/merge-keys.json"))
        .expect("the table is embedded at build time and a test reads it")
});

/// The shape of a kind that Kubernetes brings with it; the core group is the empty string.
pub fn builtin(group: &str, version: &str, kind: &str) -> Option<Builtin> {
    let of = TABLE.kinds.get(&format!("{group}/{version}/{kind}"))?;
    Some(Builtin { of: Some(of), rules: None })
}

/// A place in a kind that Kubernetes brings with it.
#[derive(Debug, Clone, Copy)]
pub struct Builtin {
    /// The type of what stands here, or of its elements, if anything is known of it.
    of: Option<&'static str>,
    /// What is said of the field itself.
    rules: Option<&'static Place>,
}

#[derive(Debug, Deserialize)]
struct Table {
    /// `group/version/Kind` to its type.
    kinds: BTreeMap<String, String>,
    /// A type to those of its fields that something is known of.
    types: BTreeMap<String, BTreeMap<String, Place>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Place {
    #[serde(default)]
    of: Option<String>,
    #[serde(default)]
    merge_key: Option<String>,
    #[serde(default)]
    merge: bool,
    #[serde(default)]
    retain_keys: bool,
}

impl Shape for Builtin {
    fn field(self, name: &str) -> Option<Self> {
        let place = TABLE.types.get(self.of?)?.get(name)?;
        Some(Self { of: place.of.as_deref(), rules: Some(place) })
    }

    fn items(self) -> Option<Self> {
        self.of.map(|of| Self { of: Some(of), rules: None })
    }

    fn merges(self) -> bool {
        self.rules.is_some_and(|rules| rules.merge)
    }

    fn retains_keys(self) -> bool {
        self.rules.is_some_and(|rules| rules.retain_keys)
    }

    fn merge_key(&self) -> Option<&str> {
        self.rules?.merge_key.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Merge key, merge and retainKeys of a place in a Deployment.
    fn at(path: &str) -> (Option<&'static str>, bool, bool) {
        let deployment = builtin("apps", "v1", "Deployment").unwrap();
        let place = path.split('.').fold(deployment, |place, step| match step {
            "[]" => place.items().unwrap(),
            name => place.field(name).unwrap_or_else(|| panic!("{path} stops at {name}")),
        });
        (place.rules.and_then(|r| r.merge_key.as_deref()), place.merges(), place.retains_keys())
    }

    #[test]
    fn the_lists_met_daily_know_their_keys() {
        assert_eq!(at("metadata.ownerReferences"), (Some("uid"), true, false));
        assert_eq!(at("metadata.finalizers"), (None, true, false));
        assert_eq!(at("spec.strategy"), (None, false, true));
        for (path, key, retains) in [
            ("containers", "name", false),
            ("initContainers", "name", false),
            ("ephemeralContainers", "name", false),
            ("imagePullSecrets", "name", false),
            ("resourceClaims", "name", true),
            ("volumes", "name", true),
            ("hostAliases", "ip", false),
            ("topologySpreadConstraints", "topologyKey", false),
            ("containers.[].env", "name", false),
            ("containers.[].ports", "containerPort", false),
            ("containers.[].volumeMounts", "mountPath", false),
            ("containers.[].volumeDevices", "devicePath", false),
        ] {
            let whole = format!("spec.template.spec.{path}");
            assert_eq!(at(&whole), (Some(key), true, retains), "{path}");
        }
    }

    #[test]
    fn lists_without_a_key_are_not_in_the_table() {
        let field = |kind: (&str, &str, &str), path: &str| {
            let root = builtin(kind.0, kind.1, kind.2);
            path.split('.').try_fold(root.unwrap(), |place, step| match step {
                "[]" => place.items(),
                name => place.field(name),
            })
        };
        assert!(field(("apps", "v1", "Deployment"), "spec.template.spec.tolerations").is_none());
        assert!(field(("rbac.authorization.k8s.io", "v1", "Role"), "rules").is_none());
        assert!(field(("rbac.authorization.k8s.io", "v1", "RoleBinding"), "subjects").is_none());
        assert!(field(("networking.k8s.io", "v1", "NetworkPolicy"), "spec.ingress").is_none());
        let ports = field(("", "v1", "Service"), "spec.ports").unwrap();
        assert_eq!(ports.merge_key(), Some("port"));
        let secrets = field(("", "v1", "ServiceAccount"), "secrets").unwrap();
        assert_eq!(secrets.merge_key(), Some("name"));
    }

    #[test]
    fn definitions_and_custom_resources_are_unknown() {
        assert!(builtin("apiextensions.k8s.io", "v1", "CustomResourceDefinition").is_none());
        assert!(builtin("apiregistration.k8s.io", "v1", "APIService").is_none());
        assert!(builtin("apps", "v1beta2", "Deployment").is_none());
        assert!(builtin("example.com", "v1", "Deployment").is_none());
    }
}
