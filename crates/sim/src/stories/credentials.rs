//! What a member's credentials can do on the hub: its part, and nothing else.
//!
//! Told with a client that has them, on any server that asks roles. What they may do is
//! kept in `flagship_rules::membership::REVIEWED_RIGHTS`, which people have read.

use std::collections::{BTreeMap, BTreeSet};

use flagship_api::names::ObjectKey;
use flagship_rules::membership::REVIEWED_RIGHTS;
use flagship_runtime::client::{Client, ClientError, Merge, ResourceType, Selection};
use serde_json::{Value, json};

use super::telling::rows;
use crate::fleet::Clusters;

const PLACEMENT: &str = "placement.kubernetes-fleet.io";
const CLUSTER: &str = "cluster.kubernetes-fleet.io";
const RBAC: &str = "rbac.authorization.k8s.io";

/// What Kubernetes lets everybody do who is known: ask about itself.
const EVERYBODY: &str = "\
authentication.k8s.io selfsubjectreviews: create
authorization.k8s.io selfsubjectaccessreviews: create
authorization.k8s.io selfsubjectrulesreviews: create
";

/// Holds what a member's credentials can do against the reviewed list. The fleet needs
/// another member beside it.
pub async fn do_only_their_part(clusters: &Clusters, member: &str, credentials: &Client) {
    let own = format!("fleet-member-{member}");
    let reviewed = REVIEWED_RIGHTS.lines().filter(|line| !line.starts_with('#'));
    let mut expected: Vec<&str> = reviewed.chain(EVERYBODY.lines()).collect();
    expected.sort_unstable();
    assert_eq!(rights(credentials, &own).await, expected, "in its own namespace");
    let other =
        clusters.members.keys().find(|name| *name != member).expect("there is another member");
    let other = format!("fleet-member-{other}");
    for elsewhere in [other.as_str(), "default", "fleet-system", "kube-system"] {
        let everybody: Vec<&str> = EVERYBODY.lines().collect();
        assert_eq!(rights(credentials, elsewhere).await, everybody, "in {elsewhere}");
    }
    does_its_part(credentials, member, &own).await;
    is_refused(clusters, credentials, member, (&own, &other)).await;
}

/// The rules in force in a namespace, as `group resource: verbs`.
async fn rights(credentials: &Client, namespace: &str) -> Vec<String> {
    let reviews = of("authorization.k8s.io", "v1", "selfsubjectrulesreviews");
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace}});
    let answer = credentials.manifests(reviews).create(&ObjectKey::cluster(""), &review).await;
    let answer = answer.unwrap_or_else(|refused| panic!("everybody may ask that: {refused}"));
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for rule in rows(&answer["status"], "resourceRules") {
        let words = |field: &str| -> Vec<String> {
            rows(rule, field).filter_map(Value::as_str).map(str::to_owned).collect()
        };
        for group in words("apiGroups") {
            for resource in words("resources") {
                let group = if group.is_empty() { "core" } else { &group };
                let verbs = all.entry(format!("{group} {resource}")).or_default();
                verbs.extend(words("verbs"));
            }
        }
    }
    let line = |(what, verbs): (String, BTreeSet<String>)| {
        format!("{what}: {}", verbs.into_iter().collect::<Vec<_>>().join(" "))
    };
    let mut lines: Vec<String> = all.into_iter().map(line).collect();
    lines.sort_unstable();
    lines
}

/// What an agent does all day is let through.
async fn does_its_part(credentials: &Client, member: &str, own: &str) {
    let works = credentials.of_type::<Value>(of(PLACEMENT, "v1beta1", "works"));
    let listed = works.list(&Selection::namespace(own)).await.map(drop);
    let internals = credentials.of_type::<Value>(of(CLUSTER, "v1beta1", "internalmemberclusters"));
    let key = ObjectKey::namespaced(own, member);
    let found = internals.find(&key).await.map(drop);
    let said = internals.patch_status_anyway(&key, json!({"status": {}})).await.map(drop);
    for done in [listed, found, said] {
        done.unwrap_or_else(|error| panic!("{member} may do that: {error}"));
    }
    let about = json!({"apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "InternalMemberCluster", "name": member, "namespace": own});
    let event = json!({"apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{member}.checked"), "namespace": own},
        "involvedObject": about, "reason": "Checked", "message": "its part", "type": "Normal"});
    let key = ObjectKey::namespaced(own, &format!("{member}.checked"));
    let told = credentials.manifests(of("", "v1", "events")).create(&key, &event).await;
    told.unwrap_or_else(|refused| panic!("{member} may tell events: {refused}"));
}

/// Everything else is refused when it is really tried.
async fn is_refused(
    clusters: &Clusters,
    credentials: &Client,
    member: &str,
    (own, other): (&str, &str),
) {
    let admin = clusters.hub.client();
    // Something to reach for, in each place.
    let work = |space: &str| {
        json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "Work",
        "metadata": {"name": "bait", "namespace": space}, "spec": {"workload": {}}})
    };
    for space in [own, other] {
        clusters.hub.apply_object(&work(space)).await;
    }
    let reads = [
        (of(PLACEMENT, "v1beta1", "works"), Some(other)),
        (of(PLACEMENT, "v1beta1", "works"), None),
        (of(CLUSTER, "v1beta1", "internalmemberclusters"), Some(other)),
        (of(CLUSTER, "v1beta1", "memberclusters"), None),
        (of(PLACEMENT, "v1beta1", "clusterresourceplacements"), None),
        (of(PLACEMENT, "v1beta1", "clusterresourcesnapshots"), None),
        (of(PLACEMENT, "v1beta1", "clusterresourcebindings"), None),
        (of(PLACEMENT, "v1beta1", "clusterapprovalrequests"), None),
        (of(PLACEMENT, "v1beta1", "resourceplacements"), Some(own)),
        (of("", "v1", "secrets"), Some(own)),
        (of("", "v1", "configmaps"), Some(own)),
        (of("", "v1", "serviceaccounts"), Some(own)),
        (of("", "v1", "namespaces"), None),
        (of("", "v1", "events"), Some(other)),
        (of(RBAC, "v1", "roles"), Some(own)),
        (of(RBAC, "v1", "clusterroles"), None),
        (of("apiextensions.k8s.io", "v1", "customresourcedefinitions"), None),
    ];
    for (kind, space) in reads {
        let some = space.map_or_else(Selection::all, Selection::namespace);
        let listed = credentials.of_type::<Value>(kind.clone()).list(&some).await;
        let refused = matches!(listed, Err(ClientError::Forbidden { .. }));
        assert!(refused, "{member} lists {} in {space:?}", kind.plural);
    }
    let new = |group: &str, version: &str, plural: &str, kind: &str, space: Option<&str>| {
        let api_version =
            if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let key = ObjectKey::new(space, "grabbed");
        let mut meta = json!({"name": "grabbed"});
        if let Some(space) = space {
            meta["namespace"] = json!(space);
        }
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": meta});
        (of(group, version, plural), key, object)
    };
    let creates = [
        new(PLACEMENT, "v1beta1", "works", "Work", Some(own)),
        new(PLACEMENT, "v1beta1", "works", "Work", Some(other)),
        new(PLACEMENT, "v1beta1", "resourceplacements", "ResourcePlacement", Some(own)),
        new(PLACEMENT, "v1beta1", "resourceenvelopes", "ResourceEnvelope", Some(own)),
        new(PLACEMENT, "v1beta1", "approvalrequests", "ApprovalRequest", Some(own)),
        new(PLACEMENT, "v1beta1", "clusterresourceplacements", "ClusterResourcePlacement", None),
        new(CLUSTER, "v1beta1", "memberclusters", "MemberCluster", None),
        new(CLUSTER, "v1beta1", "internalmemberclusters", "InternalMemberCluster", Some(own)),
        new("", "v1", "serviceaccounts/default/token", "TokenRequest", Some(own)),
        new("", "v1", "secrets", "Secret", Some(own)),
        new("", "v1", "pods", "Pod", Some(own)),
        new("", "v1", "events", "Event", Some(other)),
        new(RBAC, "v1", "rolebindings", "RoleBinding", Some(own)),
        new(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", None),
        new(
            "certificates.k8s.io",
            "v1",
            "certificatesigningrequests",
            "CertificateSigningRequest",
            None,
        ),
    ];
    for (kind, key, object) in creates {
        let made = credentials.manifests(kind.clone()).create(&key, &object).await;
        assert_eq!(made.err().map(|refused| refused.code), Some(403), "{} {key}", kind.plural);
    }
    let touch = json!({"metadata": {"annotations": {"touched": "by a member"}}});
    let key = |space: Option<&str>, name: &str| ObjectKey::new(space, name);
    let patches = [
        (of(PLACEMENT, "v1beta1", "works"), key(Some(other), "bait")),
        (of(CLUSTER, "v1beta1", "memberclusters"), key(None, member)),
        (of(CLUSTER, "v1beta1", "internalmemberclusters"), key(Some(own), member)),
        (of(RBAC, "v1", "roles"), key(Some(own), &format!("fleet-role-{member}"))),
        (of(RBAC, "v1", "rolebindings"), key(Some(own), &format!("fleet-rolebinding-{member}"))),
        (of("", "v1", "namespaces"), key(None, own)),
    ];
    for (kind, key) in patches {
        let patched = credentials.manifests(kind.clone()).patch(&key, Merge::Json, &touch).await;
        assert_eq!(patched.err().map(|refused| refused.code), Some(403), "{} {key}", kind.plural);
    }
    let works = of(PLACEMENT, "v1beta1", "works");
    let theirs = ObjectKey::namespaced(other, "bait");
    let status = credentials.of_type::<Value>(works.clone());
    let said = status.patch_status_anyway(&theirs, json!({"status": {"conditions": []}})).await;
    assert!(matches!(said, Err(ClientError::Forbidden { .. })), "the status of another's Work");
    for space in [own, other] {
        let key = ObjectKey::namespaced(space, "bait");
        let there = admin.manifests(works.clone()).find(&key).await;
        let uid = there.ok().flatten().map(|work| work["metadata"]["uid"].clone());
        let uid = uid.unwrap_or_default();
        let gone =
            credentials.manifests(works.clone()).delete(&key, uid.as_str().unwrap_or("")).await;
        assert_eq!(gone.err().map(|refused| refused.code), Some(403), "deletes {key}");
        clusters.hub.delete("works", space, "bait").await;
    }
}

fn of(group: &str, version: &str, plural: &str) -> ResourceType {
    // Only paths are made of it, and those do not name the kind.
    let word = str::to_owned;
    ResourceType {
        group: word(group),
        version: word(version),
        plural: word(plural),
        kind: word(""),
    }
}
