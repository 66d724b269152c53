//! What a person may type for a name: `demo-run`, `csur/demo-run`, `app/demo-run` where `app`
//! is a namespace, `clusterstagedupdaterun.placement.kubernetes-fleet.io/demo-run`.

use anyhow::bail;
use flagship_api::kinds;
use flagship_api::names::ObjectKey;

/// What a word in front of a name says the object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// An update run of either scope.
    Run,
    /// A placement of either scope.
    Placement,
    /// A member.
    Cluster,
}

impl Named {
    /// As a sentence says it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Placement => "placement",
            Self::Cluster => "cluster",
        }
    }

    /// The kind that this word means, as kubectl and we spell it.
    pub fn read(word: &str) -> Option<Self> {
        let lower = word.to_lowercase();
        let plain = lower.split('.').next().unwrap_or_default();
        match plain {
            "run" | "runs" => return Some(Self::Run),
            "placement" | "placements" => return Some(Self::Placement),
            "cluster" | "clusters" | "member" | "members" => return Some(Self::Cluster),
            _ => {}
        }
        Some(match kinds::find(plain)?.kind {
            "ClusterStagedUpdateRun" | "StagedUpdateRun" => Self::Run,
            "ClusterResourcePlacement" | "ResourcePlacement" => Self::Placement,
            "MemberCluster" => Self::Cluster,
            _ => return None,
        })
    }
}

/// A name as typed, and what it was said to be.
pub fn read(text: &str, namespace: Option<&str>) -> anyhow::Result<(Option<Named>, ObjectKey)> {
    let key = |namespace: Option<&str>, name: &str| ObjectKey::new(namespace, name);
    match text.split('/').collect::<Vec<_>>().as_slice() {
        [name] if !name.is_empty() => Ok((None, key(namespace, name))),
        [front, name] if !front.is_empty() && !name.is_empty() => {
            if let Some(named) = Named::read(front) {
                return Ok((Some(named), key(namespace, name)));
            }
            match namespace {
                Some(given) if given != *front => {
                    bail!("{text:?} names namespace {front}, and -n says {given}")
                }
                _ => Ok((None, key(Some(front), name))),
            }
        }
        [kind, space, name] if Named::read(kind).is_some() && !name.is_empty() => {
            Ok((Named::read(kind), key(Some(space), name)))
        }
        _ => bail!("{text:?} is no name; want NAME, KIND/NAME or NAMESPACE/NAME"),
    }
}

/// The key of an object that must be of this kind.
pub fn must_be(wanted: Named, text: &str, namespace: Option<&str>) -> anyhow::Result<ObjectKey> {
    match read(text, namespace)? {
        (Some(other), key) if other != wanted => {
            bail!("{key} is said to be a {}; a {} is wanted here", other.word(), wanted.word())
        }
        (_, key) => Ok(key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_kubectl_spells_them() {
        for (text, namespace, kind, key) in [
            ("demo", None, None, "demo"),
            ("demo", Some("app"), None, "app/demo"),
            ("csur/x", None, Some(Named::Run), "x"),
            ("sur/x", Some("app"), Some(Named::Run), "app/x"),
            ("clusterstagedupdateruns/x", None, Some(Named::Run), "x"),
            ("clusterstagedupdaterun.placement.kubernetes-fleet.io/x", None, Some(Named::Run), "x"),
            ("crp/demo", None, Some(Named::Placement), "demo"),
            ("rp/app/demo", None, Some(Named::Placement), "app/demo"),
            ("membercluster/member1", None, Some(Named::Cluster), "member1"),
            ("cluster/member1", None, Some(Named::Cluster), "member1"),
            // Our own answers name namespaced objects this way.
            ("app/demo-run", None, None, "app/demo-run"),
        ] {
            let (found, named) = read(text, namespace).unwrap();
            assert_eq!((found, named.to_string().as_str()), (kind, key), "{text}");
        }
        for wrong in ["", "a/", "/a", "a/b/c", "csur/a/b/c"] {
            assert!(read(wrong, None).is_err(), "{wrong}");
        }
        assert!(read("app/x", Some("other")).is_err());
        let refused = must_be(Named::Run, "crp/demo", None).unwrap_err();
        assert_eq!(refused.to_string(), "demo is said to be a placement; a run is wanted here");
    }
}
