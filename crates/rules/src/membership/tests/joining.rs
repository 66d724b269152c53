//! What the hub makes for a member, and how it keeps it in order.

use expect_test::expect;
use flagship_api::cluster::{ClusterState, MemberCluster};
use k8s_openapi::api::core::v1::Namespace as ApiNamespace;
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::json;

use super::fixture::{Fixture, events, now};
use crate::membership::{
    Action, Internal, Member, NAMESPACE_POLL, Namespace, Options, REVIEWED_RIGHTS, Rights,
    RoleBinding, rules,
};

#[test]
fn a_new_member_gets_everything_in_order() {
    let mut fixture = Fixture::new();
    let plan = fixture.step();
    let words: Vec<String> = plan
        .actions
        .iter()
        .map(|action| format!("{action:?}").split(['(', ' ']).next().unwrap().to_owned())
        .collect();
    assert_eq!(
        words,
        [
            "AddFinalizer",
            "Label",
            "CreateNamespace",
            "CreateRole",
            "CreateRoleBinding",
            "CreateInternal",
            "Status"
        ]
    );
    assert_eq!(
        events(&plan),
        [
            "NamespaceCreated: Namespace was created",
            "RoleCreated: role was created",
            "RoleBindingCreated: role binding was created",
            "InternalMemberClusterCreated: Internal member cluster was created",
            "MemberClusterReadyToJoin: member cluster ready to join",
        ]
    );
    // Each with its own write: the first of them is told even if the second one fails.
    let told: Vec<usize> = plan.events.iter().map(|planned| planned.after).collect();
    assert_eq!(told, [3, 4, 5, 6, 7]);
    // The agents are not heard in the pass that creates their counterpart.
    assert_eq!(
        fixture.told(),
        "ReadyToJoin@1 True MemberClusterReadyToJoin: Member cluster is ready to join the fleet\n"
    );
    let internal = fixture.seen.internal.clone().unwrap();
    assert_eq!(
        (internal.spec.state, internal.spec.heartbeat_period_seconds),
        (ClusterState::Join, Some(30))
    );
}

#[test]
fn a_member_in_order_is_left_alone() {
    let mut fixture = Fixture::joined();
    let plan = fixture.step();
    assert_eq!((plan.actions.as_slice(), plan.events.as_slice()), (&[][..], &[][..]));
}

/// Rules as the reviewed list writes them.
fn lines(rules: &[PolicyRule]) -> Vec<String> {
    let mut lines = Vec::new();
    for rule in rules {
        let mut verbs = rule.verbs.clone();
        verbs.sort_unstable();
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                let group = if group.is_empty() { "core" } else { group };
                lines.push(format!("{group} {resource}: {}", verbs.join(" ")));
            }
        }
    }
    lines.sort_unstable();
    lines
}

// laws S14
#[test]
fn a_member_gets_what_was_reviewed_and_no_more() {
    let given = |options: Options| lines(&rules(&options));
    let reviewed: Vec<&str> =
        REVIEWED_RIGHTS.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(given(Options::default()), reviewed);
    // The networking agents have kinds of their own, if there are such agents.
    let networking = given(Options { networking_agents: true, ..Options::default() });
    let more: Vec<&String> =
        networking.iter().filter(|l| !reviewed.contains(&l.as_str())).collect();
    assert_eq!(more, ["networking.fleet.azure.com *: *"]);
    assert_eq!(
        given(Options { rights: Rights::Original, ..Options::default() }),
        [
            "cluster.kubernetes-fleet.io *: *",
            "core events: create get list patch update watch",
            "networking.fleet.azure.com *: *",
            "placement.kubernetes-fleet.io *: *",
        ]
    );
}

#[test]
fn the_rights_of_a_member_are_these() {
    let mut fixture = Fixture::new();
    fixture.step();
    let member = &fixture.seen.member;
    let role = member.role(fixture.seen.role.clone().unwrap());
    let bound = member.role_binding(fixture.seen.role_binding.clone().unwrap());
    let text = serde_json::to_string_pretty(&json!({
        "role": role.metadata.name, "rules": role.rules, "binding": bound.metadata.name,
        "namespace": bound.metadata.namespace, "subjects": bound.subjects, "roleRef": bound.role_ref,
        "owner": bound.metadata.owner_references,
    }))
    .unwrap();
    expect![[r#"
        {
          "binding": "fleet-rolebinding-c1",
          "namespace": "fleet-member-c1",
          "owner": [
            {
              "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
              "controller": true,
              "kind": "MemberCluster",
              "name": "c1",
              "uid": "u"
            }
          ],
          "role": "fleet-role-c1",
          "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Role",
            "name": "fleet-role-c1"
          },
          "rules": [
            {
              "apiGroups": [
                "cluster.kubernetes-fleet.io"
              ],
              "resources": [
                "internalmemberclusters"
              ],
              "verbs": [
                "get",
                "list",
                "watch"
              ]
            },
            {
              "apiGroups": [
                "cluster.kubernetes-fleet.io"
              ],
              "resources": [
                "internalmemberclusters/status"
              ],
              "verbs": [
                "get",
                "update",
                "patch"
              ]
            },
            {
              "apiGroups": [
                "placement.kubernetes-fleet.io"
              ],
              "resources": [
                "works"
              ],
              "verbs": [
                "get",
                "list",
                "watch",
                "update",
                "patch"
              ]
            },
            {
              "apiGroups": [
                "placement.kubernetes-fleet.io"
              ],
              "resources": [
                "works/status"
              ],
              "verbs": [
                "get",
                "update",
                "patch"
              ]
            },
            {
              "apiGroups": [
                ""
              ],
              "resources": [
                "events"
              ],
              "verbs": [
                "get",
                "list",
                "update",
                "patch",
                "watch",
                "create"
              ]
            }
          ],
          "subjects": [
            {
              "apiGroup": "rbac.authorization.k8s.io",
              "kind": "User",
              "name": "agent"
            }
          ]
        }"#]]
    .assert_eq(&text);
}

#[test]
fn what_somebody_changed_is_put_right() {
    type Spoil = fn(&mut Fixture);
    let rows: [(&str, Spoil, &[&str]); 8] = [
        ("finalizer", |w| w.seen.member.has_finalizer = false, &[]),
        ("label", |w| w.seen.member.label = Some("other".into()), &[]),
        (
            "namespace label",
            |w| w.seen.namespace = Some(Namespace::default()),
            &["NamespacePatched: Namespace was patched"],
        ),
        ("role", |w| drop(w.seen.role.as_mut().unwrap().pop()), &["RoleUpdated: role was updated"]),
        (
            "subjects",
            |w| w.seen.role_binding.as_mut().unwrap().subjects.clear(),
            &["RoleBindingUpdated: role binding was updated"],
        ),
        (
            "role reference",
            |w| w.seen.role_binding.as_mut().unwrap().role.name = "admin".into(),
            &["RoleBindingUpdated: role binding was updated"],
        ),
        (
            "heartbeat period",
            |w| w.seen.member.spec.heartbeat_period_seconds = Some(5),
            &["InternalMemberClusterSpecUpdated: internal member cluster spec updated"],
        ),
        (
            "state",
            |w| w.seen.internal.as_mut().unwrap().spec.state = ClusterState::Leave,
            &["InternalMemberClusterSpecUpdated: internal member cluster spec updated"],
        ),
    ];
    for (what, spoil, want) in rows {
        let mut fixture = Fixture::joined();
        spoil(&mut fixture);
        let plan = fixture.step();
        assert_eq!(
            (plan.actions.len(), events(&plan).as_slice()),
            (1, want.map_owned().as_slice()),
            "{what}"
        );
        assert_eq!(fixture.step().actions, [], "{what}");
    }
    let mut fixture = Fixture::joined();
    fixture.seen.role_binding.as_mut().unwrap().role.name = "admin".into();
    assert!(matches!(fixture.step().actions.as_slice(), [Action::ReplaceRoleBinding(_)]));
}

trait MapOwned {
    fn map_owned(&self) -> Vec<String>;
}

impl MapOwned for &[&str] {
    fn map_owned(&self) -> Vec<String> {
        self.iter().map(|text| (*text).to_owned()).collect()
    }
}

#[test]
fn the_service_account_of_an_identity_keeps_its_empty_group() {
    let mut fixture = Fixture::new();
    fixture.seen.member.spec.identity = serde_json::from_value(
        json!({"kind": "ServiceAccount", "apiGroup": "", "name": "agent", "namespace": "fleet-system"}),
    )
    .unwrap();
    fixture.step();
    assert_eq!(fixture.seen.role_binding.as_ref().unwrap().subjects[0].api_group, None);
    fixture.step();
    assert_eq!(fixture.step().actions, []);
}

#[test]
fn a_namespace_that_is_going_is_waited_for() {
    let mut fixture = Fixture::joined();
    fixture.seen.namespace.as_mut().unwrap().deleting_since = Some(now());
    fixture.seen.role = None;
    let plan = fixture.step();
    assert_eq!((plan.actions.as_slice(), plan.wake), (&[][..], Some(NAMESPACE_POLL)));
}

#[test]
fn objects_are_read_as_they_are() {
    let member: MemberCluster = serde_json::from_value(json!({
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
        "metadata": {"name": "c1", "uid": "u", "generation": 3,
            "labels": {"kubernetes-fleet.io/member-name": "c1"},
            "finalizers": ["kubernetes-fleet.io/membercluster-finalizer"],
            "deletionTimestamp": "2026-01-01T12:00:00Z"},
        "spec": {"identity": {"kind": "User", "name": "agent"},
            "taints": [{"key": "k", "effect": "NoSchedule"}]},
    }))
    .unwrap();
    let read = Member::read(&member);
    assert_eq!((read.has_finalizer, read.label.as_deref()), (true, Some("c1")));
    assert_eq!((read.generation, read.leaving_since), (3, Some(now())));
    let internal = Internal::read(
        &serde_json::from_value(json!({
        "metadata": {"name": "c1"}, "spec": {"state": "Join"}}))
        .unwrap(),
    );
    assert_eq!(internal.spec.state, ClusterState::Join);

    let made = read.namespace();
    assert_eq!(made.metadata.name.as_deref(), Some("fleet-member-c1"));
    assert_eq!(Namespace::read(&made), Namespace { labelled: true, deleting_since: None });
    assert_eq!(Namespace::read(&ApiNamespace::default()), Namespace::default());
    let bound = crate::membership::binding("c1", &member.spec);
    assert_eq!(RoleBinding::read(&read.role_binding(bound.clone())), bound);
}
