//! Names of the evictions that draining a cluster creates.

use flagship_base::names as rule;

use super::{ClusterName, Uid};

/// Eviction made by a drain: `drain-eviction-{placement}-{cluster}-{suffix, 8}`.
/// The suffix is random and comes from the caller, as each try is a new object.
///
/// What is wrong with a name Kubernetes would refuse is returned in its words;
/// two names of full length together are too long.
pub fn drain_eviction(
    placement: &str,
    cluster: impl Into<ClusterName>,
    suffix: impl Into<Uid>,
) -> Result<String, Vec<String>> {
    let cluster = cluster.into();
    let suffix: String = suffix.into().as_str().chars().take(8).collect();
    let name = format!("drain-eviction-{placement}-{cluster}-{suffix}");
    let problems = rule::qualified_name(&name);
    if problems.is_empty() { Ok(name) } else { Err(problems) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_names_placement_and_cluster() {
        assert_eq!(
            drain_eviction("crp-1", "member1", "0a1b2c3d-4e5f").unwrap(),
            "drain-eviction-crp-1-member1-0a1b2c3d"
        );
    }

    #[test]
    fn names_that_are_too_long_together_are_refused() {
        assert_eq!(
            drain_eviction(&"p".repeat(30), "c".repeat(30), "0a1b2c3d").unwrap_err(),
            ["name part must be no more than 63 characters"]
        );
    }
}
