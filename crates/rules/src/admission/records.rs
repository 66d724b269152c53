//! Who may write records of runs: a record is worth something only as long as nobody but the
//! hub writes it.
//!
//! Administrators may delete one, since a store must be cleaned in the end and
//! `flagship audit verify` tells such a gap from retention; nobody may change what is written.

use serde_json::Value;

use super::{Answer, Operation, Request};

/// Who asks for a write, as far as records are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// The hub, or what cleans up beside it: garbage collection, namespaces that go.
    Hub,
    /// Somebody in the group of administrators.
    Administrator,
    /// Anybody else.
    Other,
}

/// Judges a write to a record. `None` for everything else, and for what harms no record.
pub fn record(request: &Request<'_>, writer: Writer) -> Option<Answer> {
    let kinds = ["ClusterRolloutRecord", "RolloutRecord"];
    let ours = request.kind.group == flagship_api::keys::group::POLICY
        && kinds.contains(&request.kind.kind.as_str());
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
}
