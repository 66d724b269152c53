//! What clusters had before a run moved them, so that it can be undone.
//!
//! Kept with the run (`Adopted`), and noted before the binding is written. A run that would
//! not be rolled back keeps nothing.

use std::collections::{BTreeMap, BTreeSet};

use flagship_api::names::{SnapshotIndex, SnapshotName};
use serde::{Deserialize, Serialize};

use crate::model::Binding;

/// Names of clusters by the index of a resource snapshot.
pub type ByVersion = BTreeMap<String, BTreeSet<String>>;

/// What clusters had before a run moved them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// By what they held; the empty version stands for nothing.
    held: ByVersion,
    /// By what they had succeeded with, where they did not all hold the same.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    proven: ByVersion,
}

/// The index of the snapshot that a binding holds; empty if it holds none.
pub fn version(binding: &Binding) -> String {
    let name = &binding.spec.resource_snapshot_name;
    match SnapshotName::read(&binding.placement, name) {
        Some(SnapshotName::Master { index }) => index.to_string(),
        _ => String::new(),
    }
}

impl Before {
    /// What these bindings hold, and, where that differs, what their clusters had succeeded with.
    pub fn of(bindings: &[&Binding], proven: &ByVersion) -> Self {
        let mut before = Self::default();
        bindings.iter().for_each(|binding| before.note(binding));
        if before.held.len() > 1 {
            let known: BTreeSet<&str> = bindings.iter().map(|b| b.cluster()).collect();
            for (version, clusters) in proven {
                let ours = clusters.iter().filter(|cluster| known.contains(cluster.as_str()));
                let ours: BTreeSet<String> = ours.cloned().collect();
                if !ours.is_empty() {
                    before.proven.insert(version.clone(), ours);
                }
            }
        }
        before
    }

    /// Whether nothing is noted.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Notes what a binding holds, over what was noted of its cluster.
    pub fn note(&mut self, binding: &Binding) {
        let cluster = binding.cluster();
        self.held.retain(|_, clusters| {
            clusters.remove(cluster);
            !clusters.is_empty()
        });
        self.held.entry(version(binding)).or_default().insert(cluster.to_owned());
    }

    /// The version that a cluster had; empty if it had none.
    pub fn held(&self, cluster: &str) -> Option<&str> {
        let found = self.held.iter().find(|(_, clusters)| clusters.contains(cluster));
        found.map(|(version, _)| version.as_str())
    }

    /// The clusters of which something is noted.
    pub fn clusters(&self) -> BTreeSet<&str> {
        self.held.values().flatten().map(String::as_str).collect()
    }

    /// Versions that may be wanted again.
    pub fn versions(&self) -> impl Iterator<Item = &String> {
        self.held.keys().chain(self.proven.keys()).filter(|version| !version.is_empty())
    }

    /// The version that these clusters go back to: the one that all of them had, or the newest
    /// that every one of them had succeeded with. An error says why there is none.
    pub fn goes_back_to(&self, clusters: &BTreeSet<&str>) -> Result<String, String> {
        let held: BTreeSet<&str> = clusters.iter().filter_map(|c| self.held(c)).collect();
        let nothing = clusters.iter().find(|c| self.held(c).is_none_or(str::is_empty));
        if let Some(cluster) = nothing {
            return Err(format!("{cluster} had nothing before"));
        }
        if let [only] = held.iter().collect::<Vec<_>>().as_slice() {
            return Ok((**only).to_owned());
        }
        let all = self
            .proven
            .iter()
            .filter(|(_, proven)| clusters.iter().all(|cluster| proven.contains(*cluster)));
        let number = |version: &String| version.parse::<SnapshotIndex>().ok();
        let newest = all.map(|(version, _)| version).max_by_key(|version| number(version));
        let differ = || {
            let held: Vec<&str> = held.iter().copied().collect();
            format!(
                "its clusters had the snapshots {} before, and none that all of them had succeeded with",
                held.join(", ")
            )
        };
        newest.cloned().ok_or_else(differ)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(cluster: &str, version: &str) -> Binding {
        let mut binding = Binding { placement: "web".into(), ..Binding::default() };
        binding.spec.target_cluster = cluster.into();
        if !version.is_empty() {
            binding.spec.resource_snapshot_name = format!("web-{version}-snapshot");
        }
        binding
    }

    fn by_version(all: &[(&str, &[&str])]) -> ByVersion {
        let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        all.iter().map(|(version, names)| ((*version).to_owned(), of(names))).collect()
    }

    #[test]
    fn clusters_go_back_to_what_they_had_or_to_the_newest_that_all_had_succeeded_with() {
        let proven = by_version(&[("0", &["a", "b", "x"]), ("2", &["a", "b"]), ("10", &["a"])]);
        type Row<'a> = (&'a [(&'a str, &'a str)], Result<&'a str, &'a str>);
        let table: [Row<'_>; 6] = [
            (&[("a", "3"), ("b", "3")], Ok("3")),
            (&[("a", "10"), ("b", "2")], Ok("2")),
            (&[("a", "")], Err("a had nothing before")),
            (&[("a", "2"), ("b", "")], Err("b had nothing before")),
            (
                &[("a", "2"), ("c", "1")],
                Err(
                    "its clusters had the snapshots 1, 2 before, and none that all of them had succeeded with",
                ),
            ),
            (&[("x", "1"), ("a", "2")], Ok("0")),
        ];
        for (held, wanted) in table {
            let bindings: Vec<Binding> = held.iter().map(|(c, v)| binding(c, v)).collect();
            let before = Before::of(&bindings.iter().collect::<Vec<_>>(), &proven);
            let clusters = held.iter().map(|(cluster, _)| *cluster).collect();
            let found = before.goes_back_to(&clusters);
            assert_eq!(found.as_deref().map_err(String::as_str), wanted, "{held:?}");
        }
    }

    #[test]
    fn what_is_noted_last_counts() {
        let mut before = Before::of(&[&binding("a", "1"), &binding("b", "1")], &ByVersion::new());
        before.note(&binding("a", "2"));
        assert_eq!(
            (before.held("a"), before.held("b"), before.held("c")),
            (Some("2"), Some("1"), None)
        );
        let text = serde_json::to_string(&before).unwrap();
        assert_eq!(text, r#"{"held":{"1":["b"],"2":["a"]}}"#);
    }
}
