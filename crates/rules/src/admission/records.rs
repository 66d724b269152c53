//! Who may write records of runs: a record is worth something only as long as nobody but the
//! hub writes it.
//!
//! Administrators may delete one, since a store must be cleaned in the end and
//! `flagship audit verify` tells such a gap from retention; nobody may change what is written.

use flagship_base::machinery::user::group;
use serde_json::Value;

use super::{Answer, Operation, Request};

/// Who asks for a write, as far as records are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// The hub; on an embedded one also what cleans up beside it.
    Hub,
    /// Somebody in the group of administrators, or what cleans up in a cluster: garbage
    /// collection, namespaces that go.
    Administrator,
    /// Anybody else.
    Other,
}

/// Users of an API server that delete what has lost its namespace or owner.
const CLEANERS: [&str; 3] = [
    "system:serviceaccount:kube-system:namespace-controller",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:kube-controller-manager",
];

impl Writer {
    /// Who a user of an API server is that knows the hub by this name.
    pub fn of(user: &str, groups: &[&str], hub: &str) -> Self {
        if user == hub {
            Self::Hub
        } else if groups.contains(&group::MASTERS) || CLEANERS.contains(&user) {
            Self::Administrator
        } else {
            Self::Other
        }
    }
}

/// What an API server must ask about, as conditions of a webhook in CEL: everything but what
/// the hub writes and what cleaners delete. So records are written, and namespaces go, also
/// while no webhook answers.
pub fn asked_about(hub: &str) -> [(&'static str, String); 2] {
    let quoted = |text: &str| Value::String(text.to_owned()).to_string();
    let cleaners = CLEANERS.map(quoted).join(", ");
    let user = "request.userInfo.username";
    [
        ("not-the-hub", format!("{user} != {}", quoted(hub))),
        (
            "not-cleaning-up",
            format!("!(request.operation == \"DELETE\" && {user} in [{cleaners}])"),
        ),
    ]
}

/// The kinds of records.
pub const KINDS: [&str; 2] = ["ClusterRolloutRecord", "RolloutRecord"];

/// Judges a write to a record. `None` for everything else, and for what harms no record.
pub fn record(request: &Request<'_>, writer: Writer) -> Option<Answer> {
    let ours = request.kind.group == flagship_api::keys::group::POLICY
        && KINDS.contains(&request.kind.kind.as_str());
    if !ours || writer == Writer::Hub {
        return None;
    }
    let (kind, name) = (&request.kind.kind, request.name);
    let refused = match (request.operation, writer) {
        (Operation::Delete, Writer::Administrator) => return None,
        (Operation::Update, _) if request.old.is_some_and(|old| same(old, request.object)) => {
            return None;
        }
        (Operation::Create, _) => format!(
            "{kind} {name} cannot be created: records tell what the hub did, and the hub alone writes them; for one of every run start it with --rollout-records=All"
        ),
        (Operation::Update, _) => format!(
            "{kind} {name} cannot be changed: a record stays as the hub wrote it, or it would prove nothing; an administrator may delete it"
        ),
        (Operation::Delete, _) => format!(
            "{kind} {name} cannot be deleted: it is the account of what a run did; an administrator (group system:masters) may delete it, and the hub removes records that are too old"
        ),
    };
    Some(Answer::Denied(refused))
}

/// Whether an update leaves everything that a record tells as it is; finalizers are no part.
/// Owners are: garbage collection would delete a record whose owner somebody made up.
fn same(old: &Value, new: &Value) -> bool {
    ["/spec", "/metadata/labels", "/metadata/annotations", "/metadata/ownerReferences"]
        .into_iter()
        .all(|part| old.pointer(part) == new.pointer(part))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::placement::selection::Kind;

    #[test]
    fn nobody_but_the_hub_writes_records_and_administrators_may_delete_them() {
        use Operation::{Create, Delete, Update};
        let old = json!({"metadata": {"name": "r"}, "spec": {"entries": [{"n": 1}]}});
        let edited = json!({"metadata": {"name": "r"}, "spec": {"entries": [{"n": 2}]}});
        let checkpoint = json!({"metadata": {"name": "r", "annotations": {"a": "b"}},
            "spec": {"entries": [{"n": 1}]}});
        let kept = json!({"metadata": {"name": "r", "finalizers": ["x"]},
            "spec": {"entries": [{"n": 1}]}});
        let disowned = json!({"metadata": {"name": "r", "ownerReferences": [{"uid": "nobody"}]},
            "spec": {"entries": [{"n": 1}]}});
        let table = [
            (Writer::Hub, Create, &edited, None),
            (Writer::Hub, Update, &edited, None),
            (Writer::Hub, Delete, &old, None),
            (Writer::Administrator, Create, &edited, Some("cannot be created")),
            (Writer::Administrator, Update, &edited, Some("cannot be changed")),
            (Writer::Administrator, Update, &checkpoint, Some("cannot be changed")),
            (Writer::Administrator, Update, &kept, None),
            (Writer::Administrator, Delete, &old, None),
            (Writer::Other, Create, &edited, Some("cannot be created")),
            (Writer::Other, Update, &edited, Some("cannot be changed")),
            (Writer::Other, Update, &disowned, Some("cannot be changed")),
            (Writer::Other, Delete, &old, Some("cannot be deleted")),
        ];
        for (kind, namespace) in [("ClusterRolloutRecord", ""), ("RolloutRecord", "app")] {
            let kind = Kind::new("flagship.dev", "v1alpha1", kind);
            for (writer, operation, object, expected) in table {
                let request = Request {
                    operation,
                    kind: &kind,
                    subresource: "",
                    namespace,
                    name: "r",
                    object,
                    old: (operation != Create).then_some(&old),
                };
                let answer = record(&request, writer);
                let told = answer.as_ref().map(Answer::message);
                let fits = match (told, expected) {
                    (None, None) => true,
                    (Some(told), Some(part)) => told.contains(part),
                    _ => false,
                };
                assert!(fits, "{writer:?} {operation:?}: {told:?}");
            }
        }
        let freeze = Kind::new("flagship.dev", "v1alpha1", "Freeze");
        let request = Request {
            operation: Create,
            kind: &freeze,
            subresource: "",
            namespace: "",
            name: "r",
            object: &old,
            old: None,
        };
        assert_eq!(record(&request, Writer::Other), None);
    }
    #[test]
    fn a_writer_is_known_by_its_name_and_groups() {
        let hub = "system:serviceaccount:fleet-system:hub-agent";
        let people = ["system:authenticated"];
        for (user, groups, writer) in [
            (hub, &people[..], Writer::Hub),
            ("ana", &people, Writer::Other),
            ("ana", &["system:masters"], Writer::Administrator),
            ("system:serviceaccount:fleet-system:other", &people, Writer::Other),
            (CLEANERS[0], &people, Writer::Administrator),
            (CLEANERS[1], &people, Writer::Administrator),
        ] {
            assert_eq!(Writer::of(user, groups, hub), writer, "{user}");
        }
        // A name with quotes stays one string.
        assert_eq!(asked_about("a\"b")[0].1, r#"request.userInfo.username != "a\"b""#);
    }
}
