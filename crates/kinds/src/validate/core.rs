//! Namespace and Node.

use super::super::json::{Field, same};
use super::rules::amount;
use super::{Findings, scheduling};

pub(super) fn namespace(object: &Field<'_>, out: &mut Findings) {
    let list = object.get("spec").get("finalizers");
    for finalizer in list.items() {
        if !finalizer.text().contains('/') && finalizer.text() != "kubernetes" {
            let says = "name is neither a standard finalizer name nor is it fully qualified";
            out.push(finalizer.reported_at(&list).invalid(says));
        }
    }
}

pub(super) fn node(object: &Field<'_>, out: &mut Findings) {
    // Kubernetes reports taints below `metadata`, and amounts as if they were fields.
    let taints = object.get("spec").get("taints");
    scheduling::taints(&taints.reported_at(&object.get("metadata").get("taints")), out);
    let status = object.get("status");
    for list in ["capacity", "allocatable"] {
        for (name, field) in status.get(list).entries() {
            amount(&field.reported_at(&status.get(list).get(name)), out);
        }
    }
}

pub(super) fn node_change(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    let (new, old) = (new.get("spec"), old.get("spec"));
    for (key, says) in [
        ("podCIDRs", "node updates may not change podCIDR except from \"\" to valid"),
        ("providerID", "node updates may not change providerID except from \"\" to valid"),
    ] {
        let (now, before) = (new.get(key), old.get(key));
        if !before.is_empty() && !same(now.value(), before.value()) {
            out.push(now.forbidden(says));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::catalog::Kind;
    use super::super::tests::{on_create, on_update};
    use serde_json::json;

    #[test]
    fn a_node_has_each_taint_once() {
        let taint = json!({"key": "a", "effect": "NoSchedule"});
        let node = json!({"metadata": {"name": "n"}, "spec": {"taints": [taint, taint]}});
        assert_eq!(
            on_create(Kind::Node, &node),
            "metadata.taints[1]: Duplicate value: {\"effect\":\"NoSchedule\",\"key\":\"a\"}: taints must be unique by key and effect pair"
        );
        let known = |id: &str| json!({"metadata": {"name": "n"}, "spec": {"providerID": id}});
        assert_eq!(on_update(Kind::Node, &known("a"), &known("")), "");
        assert_eq!(
            on_update(Kind::Node, &known("b"), &known("a")),
            "spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid"
        );
    }
}
