//! Defaults of role bindings; roles have none.

use super::super::json::{Fill, Object};
use super::fill_text;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn binding(object: &mut Object) {
    if let Some(role) = object.child("roleRef") {
        fill_text(role, "apiGroup", GROUP);
    }
    for subject in object.children("subjects") {
        if matches!(subject.text("kind"), "User" | "Group") {
            fill_text(subject, "apiGroup", GROUP);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn people_belong_to_the_group_of_rbac_and_accounts_do_not() {
        let mut object = json!({
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}],
        });
        binding(object.as_object_mut().unwrap());
        assert_eq!(
            object,
            json!({
                "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "r"},
                "subjects": [
                    {"apiGroup": GROUP, "kind": "User", "name": "u"},
                    {"kind": "ServiceAccount", "name": "s"},
                ],
            })
        );
    }
}
