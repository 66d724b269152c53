//! Names of works, all in the namespace of one member.
//!
//! Dots are legal in placement names, so a cluster-scoped placement `app.web`
//! and a namespaced one `app/web` share their work names. Whoever creates a work
//! must look at its binding label before taking it for its own.

use std::fmt;

use super::{ObjectKey, SubIndex};
use crate::hash;

/// What all works of one placement start with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkBase(String);

impl WorkBase {
    /// `{placement}`, or `{namespace}.{placement}`.
    pub fn new(placement: &ObjectKey) -> Self {
        match &placement.namespace {
            Some(namespace) => Self(format!("{namespace}.{}", placement.name)),
            None => Self(placement.name.clone()),
        }
    }

    /// The work of the master snapshot: `{base}-work`.
    pub fn master(&self) -> String {
        format!("{}-work", self.0)
    }

    /// The work of a further snapshot of the group: `{base}-{subindex}`.
    pub fn sub(&self, subindex: impl Into<SubIndex>) -> String {
        format!("{}-{}", self.0, subindex.into())
    }
}

/// The kinds whose content becomes a work of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EnvelopeKind {
    /// Holds cluster-scoped objects.
    Cluster,
    /// Holds objects of its own namespace.
    Namespaced,
}

impl EnvelopeKind {
    /// The kind, which is also the value of the envelope label on works.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "ClusterResourceEnvelope",
            Self::Namespaced => "ResourceEnvelope",
        }
    }

    /// Reads a kind or a label value.
    pub fn read(kind: &str) -> Option<Self> {
        [Self::Cluster, Self::Namespaced].into_iter().find(|known| known.as_str() == kind)
    }
}

/// Which envelope a work was made from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnvelopeRef {
    /// Its kind.
    pub kind: EnvelopeKind,
    /// Its namespace and name.
    pub key: ObjectKey,
}

impl EnvelopeRef {
    /// The work of this envelope: `{work of its snapshot}-envelope-{16 hex}`.
    ///
    /// The hash stands for kind, namespace and name, so the name does not grow
    /// with them and stays the same from version to version.
    pub fn work(&self, snapshot_work: &str) -> String {
        format!("{snapshot_work}-envelope-{}", self.fingerprint())
    }

    /// First 16 hex digits of the hash of `{kind}/{namespace}/{name}`.
    pub fn fingerprint(&self) -> String {
        let mut hex = hash::of_text(&format!("{}/{}", self.kind.as_str(), self.key.slashed()));
        hex.truncate(16);
        hex
    }
}

impl fmt::Display for EnvelopeRef {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::SnapshotIndex;

    #[test]
    fn works_are_named_after_their_placement() {
        let crp = WorkBase::new(&ObjectKey::cluster("example-placement"));
        assert_eq!(crp.master(), "example-placement-work");
        assert_eq!(crp.sub(SnapshotIndex::FIRST), "example-placement-0");

        let rp = WorkBase::new(&ObjectKey::namespaced("my-app-namespace", "web-app-placement"));
        assert_eq!(rp.master(), "my-app-namespace.web-app-placement-work");
        assert_eq!(rp.sub(SnapshotIndex::from(3)), "my-app-namespace.web-app-placement-3");
    }

    #[test]
    fn an_envelope_has_a_fingerprint() {
        let namespaced = EnvelopeRef {
            kind: EnvelopeKind::Namespaced,
            key: ObjectKey::namespaced("default", "web"),
        };
        let cluster = EnvelopeRef { kind: EnvelopeKind::Cluster, key: ObjectKey::cluster("web") };
        assert_eq!(namespaced.fingerprint(), "b28676e85f7998c5");
        assert_eq!(cluster.fingerprint(), "7846b7c3bf17ded3");
        assert_eq!(cluster.work("crp-1-work"), "crp-1-work-envelope-7846b7c3bf17ded3");
        assert_eq!(cluster.work("crp-1-0"), "crp-1-0-envelope-7846b7c3bf17ded3");
        assert_eq!(
            (namespaced.to_string(), cluster.to_string()),
            ("default/web".into(), "web".into())
        );
    }

    #[test]
    fn an_envelope_kind_is_its_label() {
        for kind in [EnvelopeKind::Cluster, EnvelopeKind::Namespaced] {
            assert_eq!(EnvelopeKind::read(kind.as_str()), Some(kind));
        }
        assert_eq!(EnvelopeKind::read("ConfigMap"), None);
    }
}
