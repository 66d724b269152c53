//! Which Flagship this is: version, commit, and the API versions it speaks.

use std::fmt::Write;
use std::sync::LazyLock;

use flagship_api::kinds;

/// The version of the whole workspace.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit it was built from, or `unknown`.
pub const COMMIT: &str = env!("FLAGSHIP_COMMIT");

/// What `flagship -V` says after the name.
pub static SHORT: LazyLock<String> = LazyLock::new(|| format!("{VERSION} ({COMMIT})"));

/// What `flagship --version` says after the name: also which versions of each API group
/// the definitions serve, the stored one first.
pub static LONG: LazyLock<String> = LazyLock::new(|| {
    let mut text = SHORT.clone();
    for (group, versions) in served() {
        write!(text, "\n{group}: {}", versions.join(", ")).expect("a string takes everything");
    }
    text
});

/// Every API group with the versions any of its kinds serves, in order of first naming.
fn served() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for info in kinds::all() {
        let at = groups.iter().position(|(group, _)| *group == info.group);
        let at = at.unwrap_or_else(|| {
            groups.push((info.group, Vec::new()));
            groups.len() - 1
        });
        for version in info.versions {
            if !groups[at].1.contains(&version.name) {
                groups[at].1.push(version.name);
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_version_names_every_api_and_what_it_serves() {
        let text = LONG.clone();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(format!("{VERSION} ({COMMIT})").as_str()));
        let apis: Vec<&str> = lines.collect();
        expect_test::expect![[r#"
            placement.kubernetes-fleet.io: v1beta1, v1, v1alpha1
            multicluster.x-k8s.io: v1alpha1
            cluster.kubernetes-fleet.io: v1beta1, v1"#]]
        .assert_eq(&apis.join("\n"));
    }

    #[test]
    fn the_commit_is_one_or_said_to_be_unknown() {
        let hex = COMMIT.len() >= 7 && COMMIT.chars().all(|letter| letter.is_ascii_hexdigit());
        assert!(hex || COMMIT == "unknown", "{COMMIT}");
    }
}
