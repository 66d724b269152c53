//! The life of a namespace: what it starts with, and how it is emptied.
//!
//! A namespace that is going is emptied of every namespaced resource, pods first,
//! and says in its conditions what is left and which finalizers hold it. When it
//! is empty its own finalizer goes, and with it the namespace.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::condition::{self, ConditionDraft, Style};
use crate::object::{Fields, set};
use crate::plan::{Action, Plan, Target};

/// What one namespace looks like.
#[derive(Debug, Clone, Serialize)]
pub struct Observed {
    /// The namespace.
    pub namespace: Value,
    /// Everything in it.
    pub content: Vec<Item>,
    /// Text of the cluster's root certificate, for `kube-root-ca.crt`.
    pub root_ca: String,
    /// Why the server would not have what a namespace starts with, the last time.
    pub refusal: Option<String>,
    /// The present moment.
    pub now: Timestamp,
}

/// One object in a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Item {
    /// Which object.
    pub target: Target,
    /// Whether deletion was asked for.
    pub deleting: bool,
    /// What holds it.
    pub finalizers: Vec<String>,
}

/// Decides the next moves for one namespace.
pub fn plan(seen: &Observed) -> Plan {
    if seen.namespace.is_deleting() { drain(seen) } else { furnish(seen) }
}

/// A living namespace has a service account and the cluster's certificate.
fn furnish(seen: &Observed) -> Plan {
    if let Some(why) = &seen.refusal {
        return Plan::wait(why.clone());
    }
    let mut plan = Plan::default();
    let namespace = seen.namespace.name();
    let has = |resource: &str, name: &str| {
        seen.content.iter().any(|i| i.target.resource == resource && i.target.name == name)
    };
    if !has("serviceaccounts", "default") {
        plan.act(Action::Create {
            resource: "serviceaccounts",
            object: json!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": "default", "namespace": namespace}}),
            then: None,
            refused: None,
        });
    }
    if !has("configmaps", "kube-root-ca.crt") {
        let about = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";
        plan.act(Action::Create {
            resource: "configmaps",
            object: json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "kube-root-ca.crt", "namespace": namespace,
                    "annotations": {"kubernetes.io/description": about}},
                "data": {"ca.crt": seen.root_ca}}),
            then: None,
            refused: None,
        });
    }
    plan
}

fn drain(seen: &Observed) -> Plan {
    let mut plan = Plan::default();
    let namespace = &seen.namespace;
    if !namespace.list("/spec/finalizers").iter().any(|f| f == "kubernetes") {
        return Plan::wait("another finalizer holds the namespace itself");
    }
    if seen.content.is_empty() {
        let kept: Vec<Value> = namespace
            .list("/spec/finalizers")
            .iter()
            .filter(|f| *f != "kubernetes")
            .cloned()
            .collect();
        let mut object = namespace.clone();
        set(&mut object, &["spec", "finalizers"], json!(kept));
        plan.act(Action::Finalize { object });
        return plan;
    }
    // Pods first: what they use must outlive them.
    let pods = seen.content.iter().any(|i| i.target.resource == "pods");
    let is_next = |i: &&Item| !i.deleting && (!pods || i.target.resource == "pods");
    for item in seen.content.iter().filter(is_next) {
        plan.act(Action::delete(item.target.clone()));
    }
    let mut status = crate::object::status_of(namespace);
    set(&mut status, &["phase"], json!("Terminating"));
    let mut conditions = status.list("/conditions").to_vec();
    for draft in words(&seen.content) {
        condition::put(&mut conditions, Style::Plain, seen.now, &draft);
    }
    set(&mut status, &["conditions"], json!(conditions));
    plan.status("namespaces", namespace, status);
    plan.waiting.push(format!("{} objects are left", seen.content.len()));
    plan
}

/// The five conditions, in the order a real namespace shows them.
fn words(content: &[Item]) -> Vec<ConditionDraft<'static>> {
    let mut resources: BTreeMap<String, usize> = BTreeMap::new();
    let mut finalizers: BTreeMap<&str, usize> = BTreeMap::new();
    for item in content {
        let (plural, group) =
            item.target.resource.split_once('.').unwrap_or((&item.target.resource, ""));
        *resources.entry(format!("{plural}.{group}")).or_default() += 1;
        for finalizer in &item.finalizers {
            *finalizers.entry(finalizer).or_default() += 1;
        }
    }
    let left: Vec<String> =
        resources.iter().map(|(r, n)| format!("{r} has {n} resource instances")).collect();
    let held: Vec<String> =
        finalizers.iter().map(|(f, n)| format!("{f} in {n} resource instances")).collect();
    let say =
        |kind, status, reason, message: String| ConditionDraft { kind, status, reason, message };
    vec![
        say(
            "NamespaceDeletionDiscoveryFailure",
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered".into(),
        ),
        say(
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".into(),
        ),
        say(
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization".into(),
        ),
        if left.is_empty() {
            let message = "All content successfully removed".into();
            say("NamespaceContentRemaining", "False", "ContentRemoved", message)
        } else {
            let message = format!("Some resources are remaining: {}", left.join(", "));
            say("NamespaceContentRemaining", "True", "SomeResourcesRemain", message)
        },
        if held.is_empty() {
            let message = "All content-preserving finalizers finished".into();
            say("NamespaceFinalizersRemaining", "False", "ContentHasNoFinalizers", message)
        } else {
            let message = format!(
                "Some content in the namespace has finalizers remaining: {}",
                held.join(", ")
            );
            say("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain", message)
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(resource: &str, name: &str, deleting: bool, finalizers: &[&str]) -> Item {
        Item {
            target: Target {
                resource: resource.into(),
                namespace: "team".into(),
                name: name.into(),
                uid: format!("uid-{name}"),
            },
            deleting,
            finalizers: finalizers.iter().map(|f| (*f).to_owned()).collect(),
        }
    }

    fn seen(going: bool, content: Vec<Item>) -> Observed {
        let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "team"}, "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"}});
        if going {
            set(&mut namespace, &["metadata", "deletionTimestamp"], json!("2026-01-01T00:00:00Z"));
        }
        let now = Timestamp::from_second(1_767_225_600).unwrap();
        Observed { namespace, content, root_ca: "CA".into(), refusal: None, now }
    }

    fn deleted(plan: &Plan) -> Vec<String> {
        let name = |a: &Action| match a {
            Action::Delete { target, .. } => Some(target.name.clone()),
            _ => None,
        };
        plan.actions.iter().filter_map(name).collect()
    }

    #[test]
    fn a_new_namespace_gets_its_account_and_certificate_once() {
        let first = plan(&seen(false, vec![]));
        assert_eq!(first.actions.len(), 2);
        let both = vec![
            item("serviceaccounts", "default", false, &[]),
            item("configmaps", "kube-root-ca.crt", false, &[]),
        ];
        assert_eq!(plan(&seen(false, both)), Plan::idle());
    }

    #[test]
    fn pods_go_before_what_they_use() {
        let content = vec![
            item("configmaps", "settings", false, &[]),
            item("pods", "web", false, &[]),
            item("pods", "old", true, &[]),
        ];
        assert_eq!(deleted(&plan(&seen(true, content))), ["web"]);
        let content = vec![item("configmaps", "settings", false, &[])];
        assert_eq!(deleted(&plan(&seen(true, content))), ["settings"]);
    }

    #[test]
    fn what_is_left_and_what_holds_it_is_said() {
        let content = vec![
            item("configmaps", "a", true, &[]),
            item(
                "works.placement.kubernetes-fleet.io",
                "w",
                true,
                &["kubernetes-fleet.io/work-cleanup"],
            ),
        ];
        let plan = plan(&seen(true, content));
        let Some(Action::ReplaceStatus { object, .. }) = plan.actions.last() else {
            panic!("{plan:?}")
        };
        let said: Vec<String> = object
            .list("/status/conditions")
            .iter()
            .map(|c| {
                format!(
                    "{} {} {}: {}",
                    c.text("/type"),
                    c.text("/status"),
                    c.text("/reason"),
                    c.text("/message")
                )
            })
            .collect();
        expect_test::expect![[r#"
            NamespaceDeletionDiscoveryFailure False ResourcesDiscovered: All resources successfully discovered
            NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions: All legacy kube types successfully parsed
            NamespaceDeletionContentFailure False ContentDeleted: All content successfully deleted, may be waiting on finalization
            NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: configmaps. has 1 resource instances, works.placement.kubernetes-fleet.io has 1 resource instances
            NamespaceFinalizersRemaining True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: kubernetes-fleet.io/work-cleanup in 1 resource instances"#]]
        .assert_eq(&said.join("\n"));
        assert_eq!(object["status"]["phase"], "Terminating");
    }

    #[test]
    fn an_empty_namespace_is_finalized() {
        let plan = plan(&seen(true, vec![]));
        let [Action::Finalize { object }] = &plan.actions[..] else { panic!("{plan:?}") };
        assert_eq!(object["spec"]["finalizers"], json!([]));
    }
}
