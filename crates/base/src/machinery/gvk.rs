//! Groups, versions, kinds and resources, and how they are written.

use std::fmt;

/// An API group and a version: `v1` or `apps/v1`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersion {
    /// Empty for the core group.
    pub group: String,
    /// Such as `v1beta1`.
    pub version: String,
}

impl GroupVersion {
    /// From its two halves.
    pub fn new(group: impl Into<String>, version: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into() }
    }

    /// Reads an `apiVersion`. More than one slash, or an empty half, is none.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once('/') {
            None if text.is_empty() => None,
            None => Some(Self::new("", text)),
            Some((group, version))
                if group.is_empty() || version.is_empty() || version.contains('/') =>
            {
                None
            }
            Some((group, version)) => Some(Self::new(group, version)),
        }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.version)
        } else {
            write!(f, "{}/{}", self.group, self.version)
        }
    }
}

/// `plural` or `plural.group`, the form that errors and stores use.
pub fn qualified(plural: &str, group: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

/// The order in which Kubernetes prefers versions: GA before beta before alpha,
/// then the higher number, then anything else by name.
pub fn version_rank(version: &str) -> impl Ord + use<> {
    let parsed = parse_version(version);
    match parsed {
        Some((major, stage, minor)) => (
            0,
            std::cmp::Reverse(stage),
            std::cmp::Reverse(major),
            std::cmp::Reverse(minor),
            String::new(),
        ),
        None => (
            1,
            std::cmp::Reverse(0),
            std::cmp::Reverse(0),
            std::cmp::Reverse(0),
            version.to_owned(),
        ),
    }
}

/// `(major, stage, minor)` with stage 2 for GA, 1 for beta, 0 for alpha.
fn parse_version(version: &str) -> Option<(u32, u8, u32)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let major = rest[..digits].parse().ok()?;
    let tail = &rest[digits..];
    if tail.is_empty() {
        return Some((major, 2, 0));
    }
    let (stage, number) = match tail.strip_prefix("beta") {
        Some(number) => (1, number),
        None => (0, tail.strip_prefix("alpha")?),
    };
    Some((major, stage, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_versions_are_read_and_written() {
        for text in ["v1", "apps/v1", "placement.kubernetes-fleet.io/v1beta1"] {
            assert_eq!(GroupVersion::parse(text).map(|gv| gv.to_string()).as_deref(), Some(text));
        }
        for text in ["", "/v1", "apps/", "a/b/c"] {
            assert_eq!(GroupVersion::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn versions_sort_by_maturity_then_number() {
        let mut all = ["foo1", "v1alpha1", "v10", "v2", "v11beta2", "v3beta1", "v12alpha1", "v1"];
        all.sort_by_key(|v| version_rank(v));
        let want = ["v10", "v2", "v1", "v11beta2", "v3beta1", "v12alpha1", "v1alpha1", "foo1"];
        assert_eq!(all, want);
    }
}
