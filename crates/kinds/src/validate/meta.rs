//! Metadata: names, labels, annotations, owners and finalizers.

use std::collections::BTreeSet;

use flagship_base::machinery::bounds::MAX_ANNOTATIONS;
use flagship_base::machinery::status::{FieldError, FieldProblem};
use flagship_base::names;
use serde_json::{Value, json};

use super::super::catalog::{BuiltinKind, NameRule};
use super::super::json::Field;
use super::Findings;
use crate::CLEANUP_FINALIZER;

/// Which finalizers an object may carry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Finalizers {
    /// Qualified ones, and the few plain ones that Kubernetes knows.
    Standard,
    /// Any qualified name, with or without a prefix.
    Any,
}

/// Findings about the metadata of a custom resource, whose names are subdomains.
pub fn validate_metadata(object: &Value) -> Vec<FieldError> {
    let mut out = Findings::default();
    let metadata = Field::root(object).get("metadata");
    given_names(NameRule::Subdomain, &metadata, &mut out);
    common(&metadata, Finalizers::Any, &mut out);
    out.kept
}

/// A finding when finalizers were added after deletion began.
pub fn late_finalizers(new: &Value, old: &Value) -> Option<FieldError> {
    late(&Field::root(new).get("metadata"), &Field::root(old).get("metadata"))
}

/// Metadata of a new object.
pub(super) fn create(kind: &BuiltinKind, metadata: &Field<'_>, out: &mut Findings) {
    given_names(kind.name_rule, metadata, out);
    let namespace = metadata.get("namespace");
    match (kind.namespaced, namespace.text()) {
        (true, "") => out.push(namespace.required("")),
        (true, text) => {
            out.extend(names::dns1123_label(text).into_iter().map(|says| namespace.invalid(says)));
        }
        (false, "") => {}
        (false, _) => out.push(namespace.forbidden("not allowed on this type")),
    }
    common(metadata, Finalizers::Standard, out);
}

fn given_names(rule: NameRule, metadata: &Field<'_>, out: &mut Findings) {
    let prefix = metadata.get("generateName");
    if !prefix.text().is_empty() {
        // A trailing dash is fine where letters follow.
        let masked = match prefix.text().strip_suffix('-') {
            Some(rest) if !rest.is_empty() => format!("{rest}a"),
            _ => prefix.text().to_owned(),
        };
        let complaints = name_complaints(rule, &masked);
        out.extend(complaints.into_iter().map(|says| prefix.invalid(says)));
    }
    let name = metadata.get("name");
    if name.text().is_empty() {
        out.push(name.required("name or generateName is required"));
    } else {
        let complaints = name_complaints(rule, name.text());
        out.extend(complaints.into_iter().map(|says| name.invalid(says)));
    }
}

/// Metadata that changed.
pub(super) fn update(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    common(new, Finalizers::Standard, out);
    out.extend(late(new, old));
    for key in ["name", "namespace", "uid", "creationTimestamp"] {
        let (now, before) = (new.get(key), old.get(key));
        if before.is_set() && now.value() != before.value() {
            out.push(now.invalid("field is immutable"));
        }
    }
}

fn late(new: &Field<'_>, old: &Field<'_>) -> Option<FieldError> {
    if !old.get("deletionTimestamp").is_set() {
        return None;
    }
    let (before, after) = (old.get("finalizers"), new.get("finalizers"));
    let known: BTreeSet<&str> = before.items().map(|f| f.text()).collect();
    let added: Vec<String> = after
        .items()
        .map(|f| f.text())
        .filter(|f| !known.contains(f))
        .map(|f| format!("{f:?}"))
        .collect();
    (!added.is_empty()).then(|| {
        after.forbidden(format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        ))
    })
}

pub(super) fn name_complaints(rule: NameRule, name: &str) -> Vec<String> {
    match rule {
        NameRule::DnsLabel => names::dns1123_label(name),
        NameRule::Dns1035Label => names::dns1035_label(name),
        NameRule::Subdomain => names::dns1123_subdomain(name),
        NameRule::PathSegment => names::path_segment(name),
    }
}

fn common(metadata: &Field<'_>, allowed: Finalizers, out: &mut Findings) {
    labels(&metadata.get("labels"), out);
    annotations(&metadata.get("annotations"), out);
    owners(&metadata.get("ownerReferences"), out);
    finalizers(&metadata.get("finalizers"), allowed, out);
}

/// A map of labels, wherever it stands.
pub(super) fn labels(labels: &Field<'_>, out: &mut Findings) {
    for (key, value) in labels.entries() {
        for says in names::qualified_name(key) {
            out.push(labels.invalid_as(key, says));
        }
        for says in names::label_value(value.text()) {
            out.push(labels.invalid_as(value.text(), says));
        }
    }
}

/// A map of annotations, wherever it stands.
pub(super) fn annotations(annotations: &Field<'_>, out: &mut Findings) {
    let mut size = 0;
    for (key, value) in annotations.entries() {
        for says in names::qualified_name(&key.to_lowercase()) {
            out.push(annotations.invalid_as(key, says));
        }
        size += key.len() + value.text().len();
    }
    if size > MAX_ANNOTATIONS {
        out.push(annotations.too_long(MAX_ANNOTATIONS));
    }
}

fn owners(owners: &Field<'_>, out: &mut Findings) {
    let mut controllers = Vec::new();
    for owner in owners.items() {
        // Kubernetes names the list, not the entry.
        let about = |key| {
            let value = owner.get(key);
            (format!("{}.{key}", owners.path()), value.text())
        };
        let (path, version) = about("apiVersion");
        if version.is_empty() || version.ends_with('/') {
            out.push(super::invalid(path, version, "version must not be empty"));
        }
        for key in ["kind", "name", "uid"] {
            let (path, text) = about(key);
            if text.is_empty() {
                out.push(super::invalid(path, "", "must not be empty"));
            }
        }
        let (kind, name) = (owner.get("kind").text(), owner.get("name").text());
        if version == "v1" && kind == "Event" {
            let says = "/v1, Kind=Event is disallowed from being an owner";
            out.push(owners.invalid_as(owner.value().clone(), says));
        }
        // The first two tell enough.
        if owner.get("controller").is_true() && controllers.len() < 2 {
            controllers.push(format!("{kind}/{name}"));
        }
    }
    if let [first, second] = controllers.as_slice() {
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        let shown = in_go_order(owners);
        let detail = match shown.len() {
            ..=MAX_OWNERS_SHOWN => format!("{shown}: {detail}"),
            _ => detail,
        };
        let problem = FieldProblem::Invalid;
        out.push(FieldError { problem, path: owners.path(), value: None, detail });
    }
}

/// The list is long when somebody means harm.
const MAX_OWNERS_SHOWN: usize = 1024;

/// Owners as JSON with their fields in the order in which Go has them.
fn in_go_order(owners: &Field<'_>) -> String {
    const FIELDS: [&str; 6] =
        ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let owner = |owner: Field<'_>| {
        let set = FIELDS.into_iter().filter(|key| owner.get(key).is_set());
        let entries: Vec<_> =
            set.map(|key| format!("\"{key}\":{}", owner.get(key).value())).collect();
        format!("{{{}}}", entries.join(","))
    };
    format!("[{}]", owners.items().map(owner).collect::<Vec<_>>().join(","))
}

fn finalizers(list: &Field<'_>, allowed: Finalizers, out: &mut Findings) {
    let (mut orphans, mut foreground) = (false, false);
    for finalizer in list.items() {
        let text = finalizer.text();
        for says in names::qualified_name(text) {
            out.push(list.invalid_as(text, says));
        }
        orphans |= text == "orphan";
        foreground |= text == "foregroundDeletion";
        // Definitions carry the last one, which is older than the rule.
        let standard = ["kubernetes", "orphan", "foregroundDeletion", CLEANUP_FINALIZER];
        if allowed == Finalizers::Standard && !text.contains('/') && !standard.contains(&text) {
            let says = "name is neither a standard finalizer name nor is it fully qualified";
            out.push(finalizer.invalid(says));
        }
    }
    if orphans && foreground {
        let says = "finalizer orphan and foregroundDeletion cannot be both set";
        out.push(list.invalid_as(json!(list.value()), says));
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::catalog::Kind;
    use super::super::tests::{on_create, on_update};
    use serde_json::json;

    #[test]
    fn names_follow_the_rule_of_the_kind() {
        let said =
            on_create(Kind::ConfigMap, &json!({"metadata": {"name": "My_Map", "namespace": "a"}}));
        assert!(said.starts_with("metadata.name: Invalid value: \"My_Map\": a lowercase RFC 1123 subdomain must consist"), "{said}");
        let said = on_create(Kind::Namespace, &json!({"metadata": {"name": "a.b"}}));
        assert_eq!(said, "metadata.name: Invalid value: \"a.b\": must not contain dots");
        let said = on_create(Kind::ConfigMap, &json!({"metadata": {"namespace": "a"}}));
        assert_eq!(said, "metadata.name: Required value: name or generateName is required");
        let role = json!({"metadata": {"name": "system:a", "namespace": "a"}});
        assert_eq!(on_create(Kind::Role, &role), "");
        let space = json!({"metadata": {"name": "a", "namespace": "a"}});
        assert_eq!(
            on_create(Kind::Namespace, &space),
            "metadata.namespace: Forbidden: not allowed on this type"
        );
    }

    #[test]
    fn labels_annotations_owners_and_finalizers_are_checked() {
        let map = json!({"metadata": {
            "name": "a", "namespace": "b", "labels": {"a": "b c"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "", "controller": true}],
            "finalizers": ["mine"],
        }});
        let said = on_create(Kind::ConfigMap, &map);
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].starts_with(
            "metadata.labels: Invalid value: \"b c\": a valid label must be an empty string"
        ));
        assert_eq!(
            lines[1],
            "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty"
        );
        assert_eq!(
            lines[2],
            "metadata.finalizers[0]: Invalid value: \"mine\": name is neither a standard finalizer name nor is it fully qualified"
        );
        let big = json!({"metadata": {"name": "a", "namespace": "b", "annotations": {"a": "x".repeat(262_144)}}});
        assert_eq!(
            on_create(Kind::ConfigMap, &big),
            "metadata.annotations: Too long: may not be more than 262144 bytes"
        );
    }

    #[test]
    fn one_finding_names_two_controllers_however_many_there_are() {
        let owner = |name: usize| json!({"apiVersion": "v1", "kind": "Pod", "name": format!("p{name}"), "uid": "u", "controller": true});
        let owners: Vec<_> = (0..500).map(owner).collect();
        let map = json!({"metadata": {"name": "a", "namespace": "b", "ownerReferences": owners}});
        assert_eq!(
            on_create(Kind::ConfigMap, &map),
            "metadata.ownerReferences: Invalid value: Only one reference can have Controller set to true. Found \"true\" in references for Pod/p0 and Pod/p1"
        );
    }

    #[test]
    fn custom_resources_are_judged_at_the_same_places() {
        let object = json!({"metadata": {
            "name": "A", "generateName": "web-", "finalizers": ["mine", "b/"], "ownerReferences": [{"kind": "X"}],
        }});
        let found = super::validate_metadata(&object);
        let paths: Vec<&str> = found.iter().map(|error| error.path.as_str()).collect();
        let owner = |key: &str| format!("metadata.ownerReferences.{key}");
        let [version, name, uid] = ["apiVersion", "name", "uid"].map(owner);
        let finalizers = "metadata.finalizers";
        assert_eq!(paths, ["metadata.name", &version, &name, &uid, finalizers, finalizers]);
        assert!(found[4].detail.starts_with("name part must"), "{}", found[4].detail);
    }

    #[test]
    fn a_terminating_object_takes_no_new_finalizers() {
        let old = json!({"metadata": {"name": "a", "namespace": "b", "deletionTimestamp": "t", "finalizers": ["a/b"]}});
        let mut new = old.clone();
        new["metadata"]["finalizers"] = json!(["a/b", "a/c"]);
        new["metadata"]["uid"] = json!("u");
        assert_eq!(
            on_update(Kind::ConfigMap, &new, &old),
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"a/c\"}"
        );
    }
}
