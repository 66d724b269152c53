//! Roles and their bindings.

use flagship_base::names;
use serde_json::json;

use super::super::json::{Field, same};
use super::Findings;
use super::rules::{named, required_name};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn role(object: &Field<'_>, namespaced: bool, out: &mut Findings) {
    for rule in object.get("rules").items() {
        let (verbs, urls) = (rule.get("verbs"), rule.get("nonResourceURLs"));
        let (groups, resources) = (rule.get("apiGroups"), rule.get("resources"));
        if verbs.is_empty() {
            out.push(verbs.required("verbs must contain at least one value"));
        }
        if !urls.is_empty() {
            if namespaced {
                out.push(urls.invalid("namespaced rules cannot apply to non-resource URLs"));
            }
            if groups.len() + resources.len() + rule.get("resourceNames").len() > 0 {
                let says = "rules cannot apply to both regular resources and non-resource URLs";
                out.push(urls.invalid(says));
            }
            continue;
        }
        if groups.is_empty() {
            out.push(groups.required("resource rules must supply at least one api group"));
        }
        if resources.is_empty() {
            out.push(resources.required("resource rules must supply at least one resource"));
        }
    }
}

pub(super) fn binding(object: &Field<'_>, namespaced: bool, out: &mut Findings) {
    let role = object.get("roleRef");
    let group = role.get("apiGroup");
    if group.text() != GROUP {
        out.push(group.not_supported(&[GROUP]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let kind = role.get("kind");
    if !kinds.contains(&kind.text()) {
        out.push(kind.not_supported(kinds));
    }
    required_name(&role.get("name"), names::path_segment, out);
    for subject in object.get("subjects").items() {
        binding_subject(&subject, namespaced, out);
    }
}

fn binding_subject(subject: &Field<'_>, namespaced: bool, out: &mut Findings) {
    let (name, group) = (subject.get("name"), subject.get("apiGroup"));
    if name.text().is_empty() {
        out.push(name.required(""));
    }
    match subject.get("kind").text() {
        "ServiceAccount" => {
            if !name.text().is_empty() {
                named(&name, names::dns1123_subdomain, out);
            }
            if !group.text().is_empty() {
                out.push(group.not_supported(&[""]));
            }
            let namespace = subject.get("namespace");
            if !namespaced && namespace.text().is_empty() {
                out.push(namespace.required(""));
            }
        }
        "User" | "Group" if group.text() != GROUP => out.push(group.not_supported(&[GROUP])),
        "User" | "Group" => {}
        _ => out.push(subject.get("kind").not_supported(&["ServiceAccount", "User", "Group"])),
    }
}

pub(super) fn binding_change(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    let role = new.get("roleRef");
    if !same(role.value(), old.get("roleRef").value()) {
        // By the names of its fields in Go.
        let text = |key: &str| role.get(key).text().to_owned();
        let shown =
            json!({"APIGroup": text("apiGroup"), "Kind": text("kind"), "Name": text("name")});
        out.push(role.invalid_as(shown, "cannot change roleRef"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::catalog::Kind;
    use super::super::super::default_object;
    use super::super::tests::{on_create, on_update};
    use serde_json::Value;
    use serde_json::json;

    #[test]
    fn rules_say_verbs_groups_and_resources() {
        let role = json!({"metadata": {"name": "a", "namespace": "n"}, "rules": [{"resources": ["pods"]}, {"verbs": ["get"], "nonResourceURLs": ["/x"]}]});
        assert_eq!(
            on_create(Kind::Role, &role),
            "rules[0].verbs: Required value: verbs must contain at least one value\n\
             rules[0].apiGroups: Required value: resource rules must supply at least one api group\n\
             rules[1].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs"
        );
    }

    #[test]
    fn a_binding_keeps_its_role() {
        let binding = |role: &str, subject: Value| {
            let mut object = json!({
                "metadata": {"name": "a"},
                "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [subject],
            });
            default_object(Kind::ClusterRoleBinding, &mut object);
            object
        };
        let user = json!({"kind": "User", "name": "u"});
        let old = binding("view", user.clone());
        assert_eq!(on_create(Kind::ClusterRoleBinding, &old), "");
        assert_eq!(
            on_update(Kind::ClusterRoleBinding, &binding("edit", user), &old),
            "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"ClusterRole\",\"Name\":\"edit\"}: cannot change roleRef"
        );
        assert_eq!(
            on_create(
                Kind::ClusterRoleBinding,
                &binding("view", json!({"kind": "ServiceAccount", "name": "s"}))
            ),
            "subjects[0].namespace: Required value"
        );
        assert_eq!(
            on_create(
                Kind::ClusterRoleBinding,
                &binding("view", json!({"kind": "Robot", "name": "s"}))
            ),
            "subjects[0].kind: Unsupported value: \"Robot\": supported values: \"ServiceAccount\", \"User\", \"Group\""
        );
    }
}
