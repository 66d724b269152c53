//! What is allowed: bindings, budgets, webhooks and admission policies.

use serde_json::{Value, json};

use super::{AGE, NAME, Printer};
use crate::Kind;

const BINDING: Printer = Printer {
    columns: &[
        NAME,
        ("Role", "string", 0),
        AGE,
        ("Users", "string", 1),
        ("Groups", "string", 1),
        ("ServiceAccounts", "string", 1),
    ],
    cells: |object| {
        let role = format!("{}/{}", object.text("/roleRef/kind"), object.text("/roleRef/name"));
        let subjects = |kind: &str| {
            let named = object.list("/subjects").iter().filter(|subject| subject["kind"] == *kind);
            let names = named.map(|subject| {
                let text = |key: &str| subject[key].as_str().unwrap_or_default();
                match text("namespace") {
                    "" => text("name").to_owned(),
                    namespace => format!("{namespace}/{}", text("name")),
                }
            });
            json!(names.collect::<Vec<_>>().join(", "))
        };
        vec![
            object.name(),
            json!(role),
            object.age(),
            subjects("User"),
            subjects("Group"),
            subjects("ServiceAccount"),
        ]
    },
};

const BUDGET: Printer = Printer {
    columns: &[
        NAME,
        ("Min Available", "string", 0),
        ("Max Unavailable", "string", 0),
        ("Allowed Disruptions", "integer", 0),
        AGE,
    ],
    cells: |object| {
        let amount = |pointer: &str| match object.at(pointer) {
            Value::Null => json!("N/A"),
            Value::String(text) => json!(text),
            other => json!(other.to_string()),
        };
        vec![
            object.name(),
            amount("/spec/minAvailable"),
            amount("/spec/maxUnavailable"),
            object.count("/status/disruptionsAllowed"),
            object.age(),
        ]
    },
};

const WEBHOOKS: Printer = Printer {
    columns: &[NAME, ("Webhooks", "integer", 0), AGE],
    cells: |object| vec![object.name(), object.len("/webhooks"), object.age()],
};

const ADMISSION_POLICY: Printer = Printer {
    columns: &[NAME, ("Validations", "integer", 0), ("ParamKind", "string", 0), AGE],
    cells: |object| {
        let text = |key: &str| object.text(&format!("/spec/paramKind/{key}"));
        let kind = match object.at("/spec/paramKind").is_object() {
            true => format!("{}/{}", text("apiVersion"), text("kind")),
            false => "<unset>".to_owned(),
        };
        vec![object.name(), object.len("/spec/validations"), json!(kind), object.age()]
    },
};

const ADMISSION_BINDING: Printer = Printer {
    columns: &[NAME, ("PolicyName", "string", 0), ("ParamRef", "string", 0), AGE],
    cells: |object| {
        let text = |key: &str| object.text(&format!("/spec/paramRef/{key}"));
        let param = match (text("namespace"), text("name")) {
            (_, "") if object.at("/spec/paramRef/selector").is_object() => {
                object.selector("/spec/paramRef/selector")
            }
            (_, "") => json!("<unset>"),
            ("", name) => json!(format!("*/{name}")),
            (namespace, name) => json!(format!("{namespace}/{name}")),
        };
        vec![object.name(), json!(object.text("/spec/policyName")), param, object.age()]
    },
};

const FLOW_SCHEMA: Printer = Printer {
    columns: &[
        NAME,
        ("PriorityLevel", "string", 0),
        ("MatchingPrecedence", "string", 0),
        ("DistinguisherMethod", "string", 0),
        AGE,
        ("MissingPL", "string", 0),
    ],
    cells: |object| {
        let missing = object.condition("Dangling").and_then(|said| said["status"].as_str());
        vec![
            object.name(),
            object.text_or("/spec/priorityLevelConfiguration/name", "<none>"),
            object.count("/spec/matchingPrecedence"),
            object.text_or("/spec/distinguisherMethod/type", "<none>"),
            object.age(),
            json!(missing.unwrap_or("?")),
        ]
    },
};

const PRIORITY_LEVEL: Printer = Printer {
    columns: &[
        NAME,
        ("Type", "string", 0),
        ("NominalConcurrencyShares", "string", 0),
        ("Queues", "string", 0),
        ("HandSize", "string", 0),
        ("QueueLengthLimit", "string", 0),
        AGE,
    ],
    cells: |object| {
        let number = |key: &str| match object.at(&format!("/spec/limited/{key}")) {
            Value::Null => json!("<none>"),
            number => number.clone(),
        };
        vec![
            object.name(),
            json!(object.text("/spec/type")),
            number("nominalConcurrencyShares"),
            number("limitResponse/queuing/queues"),
            number("limitResponse/queuing/handSize"),
            number("limitResponse/queuing/queueLengthLimit"),
            object.age(),
        ]
    },
};

/// Kinds that show nothing but their name.
const NAMED: Printer =
    Printer { columns: &[NAME, AGE], cells: |object| vec![object.name(), object.age()] };

const RESOURCE_CLAIM: Printer = Printer {
    columns: &[NAME, ("State", "string", 0), AGE],
    cells: |object| {
        let mut states = Vec::new();
        if object.is_deleting() {
            states.push("deleted");
        }
        if object.at("/status/allocation").is_object() {
            states.push("allocated");
        } else if !object.is_deleting() {
            states.push("pending");
        }
        if !object.list("/status/reservedFor").is_empty() {
            states.push("reserved");
        }
        vec![object.name(), json!(states.join(",")), object.age()]
    },
};

const RESOURCE_SLICE: Printer = Printer {
    columns: &[NAME, ("Node", "string", 0), ("Driver", "string", 0), ("Pool", "string", 0), AGE],
    cells: |object| {
        vec![
            object.name(),
            object.text_or("/spec/nodeName", "<unset>"),
            json!(object.text("/spec/driver")),
            json!(object.text("/spec/pool/name")),
            object.age(),
        ]
    },
};

pub(super) fn printer(kind: Kind) -> Option<&'static Printer> {
    Some(match kind {
        Kind::RoleBinding | Kind::ClusterRoleBinding => &BINDING,
        Kind::PodDisruptionBudget => &BUDGET,
        Kind::MutatingWebhookConfiguration | Kind::ValidatingWebhookConfiguration => &WEBHOOKS,
        Kind::ValidatingAdmissionPolicy => &ADMISSION_POLICY,
        Kind::ValidatingAdmissionPolicyBinding => &ADMISSION_BINDING,
        Kind::FlowSchema => &FLOW_SCHEMA,
        Kind::PriorityLevelConfiguration => &PRIORITY_LEVEL,
        Kind::DeviceClass | Kind::ResourceClaimTemplate => &NAMED,
        Kind::ResourceClaim => &RESOURCE_CLAIM,
        Kind::ResourceSlice => &RESOURCE_SLICE,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::object::shown;

    #[test]
    fn bindings_show_the_role_and_who_has_it() {
        let binding = json!({
            "metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "view"},
            "subjects": [
                {"kind": "User", "name": "eve"}, {"kind": "User", "name": "bob"},
                {"kind": "ServiceAccount", "namespace": "n", "name": "a"},
            ],
        });
        assert_eq!(
            shown(&BINDING, &binding),
            "b | ClusterRole/view | <unknown> | eve, bob |  | n/a"
        );
    }

    #[test]
    fn budgets_show_the_side_they_name() {
        let budget = json!({"metadata": {"name": "p"}, "spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}});
        assert_eq!(shown(&BUDGET, &budget), "p | 50% | N/A | 1 | <unknown>");
        let budget = json!({"metadata": {"name": "p"}, "spec": {"maxUnavailable": 1}});
        assert_eq!(shown(&BUDGET, &budget), "p | N/A | 1 | 0 | <unknown>");
    }

    #[test]
    fn levels_and_claims_show_what_they_have() {
        let level = json!({"metadata": {"name": "global"}, "spec": {"type": "Limited",
            "limited": {"nominalConcurrencyShares": 20, "limitResponse": {"type": "Reject"}}}});
        assert_eq!(
            shown(&PRIORITY_LEVEL, &level),
            "global | Limited | 20 | <none> | <none> | <none> | <unknown>"
        );
        let claim = json!({"metadata": {"name": "gpu"}, "status": {"allocation": {},
            "reservedFor": [{"name": "pod"}]}});
        assert_eq!(shown(&RESOURCE_CLAIM, &claim), "gpu | allocated,reserved | <unknown>");
        let waiting = json!({"metadata": {"name": "gpu"}});
        assert_eq!(shown(&RESOURCE_CLAIM, &waiting), "gpu | pending | <unknown>");
    }
}
