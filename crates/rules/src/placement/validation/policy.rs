//! What may be wrong with a policy.

use std::collections::BTreeSet;

use flagship_api::policy::{
    ClusterAffinity, ClusterSelector, PlacementPolicy, PlacementType, PreferredClusterSelector,
    Toleration, TolerationOperator,
};
use flagship_api::printed::Printed;
use flagship_base::names::{self, LONGEST_LABEL};

use super::properties::{check_requirements, check_sorter};
use super::{Mistakes, check_labels};

pub fn check(policy: &PlacementPolicy, mistakes: &mut Mistakes) {
    match policy.placement_type.unwrap_or_default() {
        PlacementType::PickFixed => {
            check_names(&policy.cluster_names, mistakes);
            forbid_number(policy, "PickFixed", mistakes);
            if policy.affinity.is_some() {
                mistakes.add("affinity must be nil for policy type PickFixed, only valid for PickAll/PickN placement policy types".to_owned());
            }
            forbid_spread(policy, "PickFixed", mistakes);
            if !policy.tolerations.is_empty() {
                mistakes.add("tolerations needs to be empty for policy type PickFixed, only valid for PickAll/PickN".to_owned());
            }
        }
        PlacementType::PickAll => {
            forbid_names(policy, "PickAll", mistakes);
            forbid_number(policy, "PickAll", mistakes);
            if let Some(affinity) = cluster_affinity(policy) {
                check_required(affinity, mistakes);
                if !affinity.preferred_during_scheduling_ignored_during_execution.is_empty() {
                    mistakes.add("PreferredDuringSchedulingIgnoredDuringExecution will be ignored for placement policy type PickAll".to_owned());
                }
            }
            forbid_spread(policy, "PickAll", mistakes);
            check_tolerations(&policy.tolerations, mistakes);
        }
        PlacementType::PickN => {
            forbid_names(policy, "PickN", mistakes);
            match policy.number_of_clusters {
                None => {
                    mistakes
                        .add("number of cluster cannot be nil for policy type PickN".to_owned());
                }
                Some(n) if n < 0 => {
                    mistakes.add(format!("number of clusters cannot be {n} for policy type PickN"));
                }
                Some(_) => {}
            }
            if let Some(affinity) = cluster_affinity(policy) {
                check_required(affinity, mistakes);
                for preferred in &affinity.preferred_during_scheduling_ignored_during_execution {
                    check_preferred(preferred, mistakes);
                }
            }
            check_tolerations(&policy.tolerations, mistakes);
        }
    }
}

fn cluster_affinity(policy: &PlacementPolicy) -> Option<&ClusterAffinity> {
    policy.affinity.as_ref()?.cluster_affinity.as_ref()
}

fn check_names(names: &[String], mistakes: &mut Mistakes) {
    let mut seen = BTreeSet::new();
    for name in names {
        let problems = names::dns1123_subdomain(name);
        if !problems.is_empty() {
            let problems = problems.join("; ");
            mistakes.add(format!(
                "PickFixed cluster name {name} is not a valid member name: {problems}"
            ));
        }
        if name.len() > LONGEST_LABEL {
            mistakes.add(format!(
                "PickFixed cluster name {name} cannot have length exceeding {LONGEST_LABEL}"
            ));
        }
        if !seen.insert(name) {
            mistakes.add("cluster names must be unique for policy type PickFixed".to_owned());
            break;
        }
    }
}

fn forbid_names(policy: &PlacementPolicy, kind: &str, mistakes: &mut Mistakes) {
    if !policy.cluster_names.is_empty() {
        mistakes.add(format!(
            "cluster names needs to be empty for policy type {kind}, only valid for PickFixed policy type"
        ));
    }
}

fn forbid_number(policy: &PlacementPolicy, kind: &str, mistakes: &mut Mistakes) {
    if policy.number_of_clusters.is_some() {
        mistakes.add(format!(
            "number of clusters must be nil for policy type {kind}, only valid for PickN placement policy type"
        ));
    }
}

fn forbid_spread(policy: &PlacementPolicy, kind: &str, mistakes: &mut Mistakes) {
    if !policy.topology_spread_constraints.is_empty() {
        mistakes.add(format!(
            "topology spread constraints needs to be empty for policy type {kind}, only valid for PickN policy type"
        ));
    }
}

fn check_required(affinity: &ClusterAffinity, mistakes: &mut Mistakes) {
    let required = &affinity.required_during_scheduling_ignored_during_execution;
    let Some(ClusterSelector { cluster_selector_terms: terms }) = required else { return };
    for term in terms {
        if term.label_selector.is_some() {
            check_labels(term.label_selector.as_ref(), "cluster selector", mistakes);
        }
        if term.property_sorter.is_some() {
            mistakes.add("PropertySorter is not allowed for RequiredDuringSchedulingIgnoredDuringExecution affinity".to_owned());
        }
        if let Some(properties) = &term.property_selector {
            check_requirements(&properties.match_expressions, mistakes);
        }
    }
}

fn check_preferred(preferred: &PreferredClusterSelector, mistakes: &mut Mistakes) {
    let term = &preferred.preference;
    if term.label_selector.is_some() {
        check_labels(term.label_selector.as_ref(), "preferred cluster selector", mistakes);
    }
    if term.property_selector.is_some() {
        mistakes.add("PropertySelector is not allowed for PreferredDuringSchedulingIgnoredDuringExecution affinity".to_owned());
    }
    if let Some(sorter) = &term.property_sorter {
        check_sorter(sorter, mistakes);
    }
}

fn check_tolerations(tolerations: &[Toleration], mistakes: &mut Mistakes) {
    let mut seen = BTreeSet::new();
    for toleration in tolerations {
        let printed = Printed(toleration).to_string();
        if !toleration.key.is_empty() {
            for problem in names::qualified_name(&toleration.key) {
                mistakes.add(format!("invalid toleration key {printed}: {problem}"));
            }
        }
        match toleration.operator {
            Some(TolerationOperator::Exists) if !toleration.value.is_empty() => {
                mistakes.add(format!(
                    "invalid toleration {printed}: toleration value needs to be empty, when operator is Exists"
                ));
            }
            Some(TolerationOperator::Equal) => {
                if toleration.key.is_empty() {
                    mistakes.add(format!(
                        "invalid toleration {printed}: toleration key cannot be empty, when operator is Equal"
                    ));
                }
                for problem in names::label_value(&toleration.value) {
                    mistakes.add(format!("invalid toleration value {printed}: {problem}"));
                }
            }
            _ => {}
        }
        // The printed form tells all there is to tell about one.
        if !seen.insert(printed.clone()) {
            mistakes
                .add(format!("toleration {printed} already exists, tolerations must be unique"));
        }
    }
}
