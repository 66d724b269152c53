//! The roles and bindings that every cluster starts with.
//!
//! They are data, taken from a real API server (`data/README.md`). What of them people
//! change stays changed only where the annotation says so, as in Kubernetes.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::policy::Policy;
use super::rule::{self, Rule};

static DATA: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../data/bootstrap-roles.json"))
        .expect("the table is part of the program, and a test reads it")
});

/// What holds where there is no cluster.
pub static NOWHERE: LazyLock<Policy> = LazyLock::new(|| Policy::of(roles(), bindings()));

/// ClusterRoles.
pub fn roles() -> &'static [Value] {
    DATA["clusterroles"].as_array().map_or(&[], Vec::as_slice)
}

/// ClusterRoleBindings.
pub fn bindings() -> &'static [Value] {
    DATA["clusterrolebindings"].as_array().map_or(&[], Vec::as_slice)
}

/// A role or binding of the start as it should be when `there` is what the cluster has;
/// `None` when that will do.
pub fn reconciled(wanted: &Value, there: &Value) -> Option<Value> {
    if there["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"] != "true" {
        return None;
    }
    let mut fixed = there.clone();
    let list = if wanted["roleRef"].is_null() { "rules" } else { "subjects" };
    let add: Vec<&Value> = match list {
        "rules" => {
            let held = Rule::list(there);
            let rules = wanted["rules"].as_array().into_iter().flatten();
            rules.filter(|one| !rule::missing(&held, &[Rule::read(one)]).is_empty()).collect()
        }
        _ => {
            let held = there["subjects"].as_array();
            let subjects = wanted["subjects"].as_array().into_iter().flatten();
            subjects.filter(|one| !held.is_some_and(|held| held.contains(one))).collect()
        }
    };
    if add.is_empty() {
        return None;
    }
    if !fixed[list].is_array() {
        fixed[list] = json!([]);
    }
    if let Some(items) = fixed[list].as_array_mut() {
        items.extend(add.into_iter().cloned());
    }
    Some(fixed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_roles_and_binds_them() {
        let names = |list: &'static [Value]| -> Vec<&str> {
            list.iter().filter_map(|one| one["metadata"]["name"].as_str()).collect()
        };
        let roles = names(roles());
        for wanted in ["cluster-admin", "admin", "edit", "view", "system:discovery"] {
            assert!(roles.contains(&wanted), "{wanted}");
        }
        assert!(names(bindings()).iter().all(|name| roles.contains(name)));
    }

    #[test]
    fn rules_that_were_taken_away_come_back_unless_the_role_says_no() {
        let wanted = roles().iter().find(|r| r["metadata"]["name"] == "system:basic-user").unwrap();
        assert_eq!(reconciled(wanted, wanted), None);
        let mut less = wanted.clone();
        less["rules"] = json!([]);
        assert_eq!(reconciled(wanted, &less).as_ref(), Some(wanted));
        less["metadata"]["annotations"] = json!({});
        assert_eq!(reconciled(wanted, &less), None);
    }
}
