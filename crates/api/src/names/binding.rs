//! Names of bindings.

use flagship_base::names as rule;

use super::{ClusterName, Uid};

const PLACEMENT_AT_MOST: usize = 26;
const CLUSTER_AT_MOST: usize = 27;
const SUFFIX: usize = 8;

/// Name of a new binding: `{placement, 26 characters}-{cluster, 27}-{suffix, 8}`,
/// so 63 at most. The suffix is random and comes from the caller, because two
/// pairs of long names may be cut to the same text.
///
/// A dot, legal in both names and illegal here, becomes a dash. What is wrong
/// with a name that is still no DNS label is returned as Kubernetes says it.
pub fn binding(
    placement: &str,
    cluster: impl Into<ClusterName>,
    suffix: impl Into<Uid>,
) -> Result<String, Vec<String>> {
    let part = |text: &str, length: usize| -> String {
        text.chars().take(length).map(|c| if c == '.' { '-' } else { c }).collect()
    };
    let name = format!(
        "{}-{}-{}",
        part(placement, PLACEMENT_AT_MOST),
        part(cluster.into().as_str(), CLUSTER_AT_MOST),
        part(suffix.into().as_str(), SUFFIX)
    );
    let problems = rule::dns1123_label(&name);
    if problems.is_empty() { Ok(name) } else { Err(problems) }
}

#[cfg(test)]
mod tests {
    use super::*;

    // checklist 18.12
    #[test]
    fn a_binding_is_named_after_placement_and_cluster() {
        assert_eq!(
            binding("example-placement", "member2", "43991b15-aaaa-bbbb").unwrap(),
            "example-placement-member2-43991b15"
        );
        let (cluster, uid) = (ClusterName::from("m1"), Uid::from("43991b15-aaaa-bbbb"));
        assert_eq!(binding("web", &cluster, &uid).unwrap(), "web-m1-43991b15");
    }

    // checklist 18.12
    #[test]
    fn long_names_are_cut_to_a_label() {
        let name = binding(&"p".repeat(40), "c".repeat(50), "0123456789").unwrap();
        assert_eq!(name, format!("{}-{}-01234567", "p".repeat(26), "c".repeat(27)));
        assert_eq!(name.len(), 63);
    }

    // checklist 18.12
    #[test]
    fn names_that_are_cut_to_the_same_text_differ_by_their_suffix() {
        let of = |end: &str, suffix: &str| {
            binding(&format!("{}{end}", "p".repeat(30)), "c", suffix).unwrap()
        };
        assert_eq!(of("-one", "01234567"), of("-two", "01234567"));
        assert_ne!(of("-one", "01234567"), of("-two", "76543210"));
        // Two bindings of one pair are told apart, too.
        assert_ne!(of("-one", "01234567"), of("-one", "76543210"));
    }

    #[test]
    fn a_cut_may_leave_a_dash_inside() {
        let placement = format!("{}-tail", "p".repeat(25));
        assert_eq!(
            binding(&placement, "c", "01234567").unwrap(),
            format!("{}--c-01234567", "p".repeat(25))
        );
    }

    #[test]
    fn dots_become_dashes() {
        assert_eq!(binding("web.app", "eu.m1", "01234567").unwrap(), "web-app-eu-m1-01234567");
    }

    #[test]
    fn a_name_kubernetes_would_refuse_is_refused_here() {
        for (placement, cluster, suffix) in
            [("Web", "c", "01234567"), ("", "c", "01234567"), ("w", "c", "")]
        {
            assert_eq!(binding(placement, cluster, suffix).unwrap_err().len(), 1);
        }
        assert!(binding("ü", "c", "01234567").is_err());
    }
}
