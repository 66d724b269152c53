//! Every row of the guard rails' table, with every class of sender.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;

const ADMIN: (&str, &[&str]) = ("root", &["system:masters"]);
const KUBEADM: (&str, &[&str]) = ("ops", &["kubeadm:cluster-admins"]);
const LISTED: (&str, &[&str]) = ("listed", &["system:authenticated"]);
const ACCOUNT: (&str, &[&str]) = ("system:serviceaccount:x:y", &["system:serviceaccounts"]);
const SCHEDULER: (&str, &[&str]) = ("system:kube-scheduler", &[]);
const MANAGER: (&str, &[&str]) = ("system:kube-controller-manager", &[]);
const NODE: (&str, &[&str]) = ("system:node:n", &["system:nodes"]);
const SUPPORT: (&str, &[&str]) = ("aks-support", &[]);
const PLAIN: (&str, &[&str]) = ("test-user", &["system:authenticated"]);

const ADMINISTRATORS: [(&str, &[&str]); 3] = [ADMIN, KUBEADM, LISTED];
const TRUSTED: [(&str, &[&str]); 8] =
    [ADMIN, KUBEADM, LISTED, ACCOUNT, SCHEDULER, MANAGER, NODE, SUPPORT];

fn options() -> Options {
    Options { administrators: vec!["listed".to_owned()], lock_member_labels: false }
}

struct Case<'a> {
    operation: Operation,
    kind: Kind,
    subresource: &'a str,
    object: Value,
    old: Option<Value>,
}

impl Case<'_> {
    fn by(
        &self,
        (name, groups): (&str, &[&str]),
        identity: Option<&str>,
        options: &Options,
    ) -> Answer {
        let text = |field: &str| self.object["metadata"][field].as_str().unwrap_or_default();
        let request = Request {
            operation: self.operation,
            kind: &self.kind,
            subresource: self.subresource,
            namespace: text("namespace"),
            name: text("name"),
            object: &self.object,
            old: self.old.as_ref(),
        };
        judge(&request, &Sender { name, groups, sent_kind: &self.kind }, identity, options)
    }

    fn free_to(&self, sender: (&str, &[&str])) -> bool {
        matches!(self.by(sender, None, &options()), Answer::Allowed(_))
    }

    fn refused(&self, sender: (&str, &[&str])) -> String {
        match self.by(sender, None, &options()) {
            Answer::Denied(why) => why,
            other => panic!("{sender:?} was answered {other:?}"),
        }
    }
}

fn written(operation: Operation, kind: Kind, object: Value) -> Case<'static> {
    Case { operation, kind, subresource: "", object, old: None }
}

fn member(annotations: Value) -> Value {
    json!({"metadata": {"name": "mc-1", "annotations": annotations},
        "spec": {"identity": {"kind": "User", "name": "agent"}, "heartbeatPeriodSeconds": 60}})
}

fn of_members() -> Kind {
    Kind::new(JOINING, "v1beta1", "MemberCluster")
}

fn updated(old: &Value, change: impl Fn(&mut Value)) -> Case<'static> {
    let mut object = old.clone();
    change(&mut object);
    Case { old: Some(old.clone()), ..written(Operation::Update, of_members(), object) }
}

fn claimed() -> Value {
    member(json!({"fleet.azure.com/cluster-resource-id": "7", "team": "red"}))
}

#[test]
fn only_administrators_touch_the_fleets_own_definitions() {
    let kind = || Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    for name in [
        "works.placement.kubernetes-fleet.io",
        "memberclusters.cluster.kubernetes-fleet.io",
        "serviceexports.networking.fleet.azure.com",
        "clusterprofiles.multicluster.x-k8s.io",
    ] {
        for operation in [Operation::Create, Operation::Update, Operation::Delete] {
            let case = written(operation, kind(), json!({"metadata": {"name": name}}));
            assert!(ADMINISTRATORS.iter().all(|who| case.free_to(*who)), "{name}");
            assert!([ACCOUNT, NODE, PLAIN].iter().all(|who| !case.free_to(*who)), "{name}");
        }
    }
    let other = written(Operation::Delete, kind(), json!({"metadata": {"name": "a.example.com"}}));
    assert!(other.free_to(PLAIN));
}

#[test]
fn reserved_namespaces_belong_to_the_trusted() {
    for kind in ["Pod", "Secret", "ServiceAccount"] {
        let object = json!({"metadata": {"name": "p", "namespace": "kube-system"}});
        let case = written(Operation::Create, Kind::new("", "v1", kind), object);
        assert!(TRUSTED.iter().all(|who| case.free_to(*who)));
        assert!(!case.free_to(PLAIN));
    }
    for (name, free) in [("fleet-system", false), ("kube-x", false), ("app", true)] {
        let object = json!({"metadata": {"name": name}});
        let case = written(Operation::Delete, Kind::new("", "v1", "Namespace"), object);
        assert!(TRUSTED.iter().all(|who| case.free_to(*who)));
        assert_eq!(case.free_to(PLAIN), free, "{name}");
    }
    let object = json!({"metadata": {"name": "e", "namespace": "kube-system"}});
    assert!(written(Operation::Create, Kind::new("", "v1", "Event"), object).free_to(PLAIN));
}

#[test]
fn a_refusal_names_user_groups_operation_and_object() {
    let mut case =
        updated(&member(json!({})), |object| object["status"] = json!({"agentStatus": []}));
    case.subresource = "status";
    case.object["status"] = json!({"conditions": [{"type": "Joined", "status": "True", "reason": "r", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    assert_eq!(
        case.refused(PLAIN),
        "user: 'test-user' in 'groups: [system:authenticated]' is not allowed to UPDATE resource cluster.kubernetes-fleet.io/v1beta1, Kind=MemberCluster/status: /mc-1"
    );
    let groups: Vec<String> = (0..11).map(|n| format!("g{n}")).collect();
    let many: Vec<&str> = groups.iter().map(String::as_str).collect();
    let object = json!({"metadata": {"name": "p", "namespace": "kube-system"}});
    let case = written(Operation::Create, Kind::new("", "v1", "Pod"), object);
    assert_eq!(
        case.refused(("u", &many)),
        "user: 'u' in 'groups: [g0, g1, g2,......]' is not allowed to CREATE resource /v1, Kind=Pod/: kube-system/p"
    );
    assert!(case.refused(("u", &many[..10])).contains("groups: [g0 g1 g2 g3 g4 g5 g6 g7 g8 g9]"));
}

#[test]
fn an_upstream_member_is_free_but_for_its_status_and_claims() {
    let plain = member(json!({"team": "red"}));
    for operation in [Operation::Create, Operation::Delete] {
        let answer = written(operation, of_members(), plain.clone()).by(PLAIN, None, &options());
        assert_eq!(
            answer.message(),
            "upstream member cluster resource is allowed to be created/deleted by any user"
        );
    }
    assert!(updated(&plain, |m| m["spec"]["heartbeatPeriodSeconds"] = json!(9)).free_to(PLAIN));
    let claim = updated(&plain, |m| m["metadata"]["annotations"]["fleet.azure.com/x"] = json!("1"));
    assert_eq!(
        claim.refused(ADMIN),
        "no user is allowed to add a fleet pre-fixed annotation to an upstream member cluster"
    );
}

#[test]
fn a_managed_member_is_the_trusted_ones_but_for_labels_taints_and_notes() {
    for operation in [Operation::Create, Operation::Delete] {
        let case = written(operation, of_members(), claimed());
        assert!(case.free_to(ACCOUNT) && !case.free_to(PLAIN));
    }
    let free: [fn(&mut Value); 4] = [
        |m| m["metadata"]["labels"] = json!({"env": "prod"}),
        |m| m["spec"]["taints"] = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]),
        |m| m["metadata"]["annotations"]["team"] = json!("blue"),
        |m| m["metadata"]["annotations"]["fleet.azure.com/more"] = json!("1"),
    ];
    for change in free {
        assert!(updated(&claimed(), change).free_to(PLAIN));
    }
    let guarded: [fn(&mut Value); 3] = [
        |m| m["spec"]["heartbeatPeriodSeconds"] = json!(9),
        |m| m["metadata"]["finalizers"] = json!(["x/y"]),
        |m| m["metadata"]["annotations"]["fleet.azure.com/cluster-resource-id"] = json!("8"),
    ];
    for change in guarded {
        let case = updated(&claimed(), change);
        assert!(case.free_to(ACCOUNT) && !case.free_to(PLAIN));
    }
    let last = updated(&claimed(), |m| m["metadata"]["annotations"] = json!({"team": "red"}));
    assert_eq!(
        last.refused(ADMIN),
        "no user is allowed to remove all fleet pre-fixed annotations from a fleet member cluster"
    );
}

#[test]
fn locked_labels_are_for_masters_and_the_fleets_own_stay_free() {
    let locked = Options { lock_member_labels: true, ..options() };
    let label = updated(&claimed(), |m| m["metadata"]["labels"] = json!({"env": "prod"}));
    assert!(matches!(label.by(ADMIN, None, &locked), Answer::Allowed(_)));
    for who in [ACCOUNT, PLAIN, LISTED] {
        assert_eq!(
            label.by(who, None, &locked).message(),
            "users are not allowed to modify labels through hub cluster directly"
        );
    }
    let own = updated(&claimed(), |m| {
        m["metadata"]["labels"] = json!({"kubernetes-fleet.io/member-name": "mc-1"});
    });
    assert!(matches!(own.by(PLAIN, None, &locked), Answer::Allowed(_)));
}

#[test]
fn a_member_writes_its_own_works_under_either_of_its_names() {
    let works = |namespace: &str| {
        let object = json!({"metadata": {"name": "w", "namespace": namespace}});
        written(Operation::Update, Kind::new(PLACING, "v1beta1", "Work"), object)
    };
    let case = works("fleet-member-mc-1");
    let answer = |name: &str, identity| {
        matches!(
            case.by((name, &["system:authenticated"]), identity, &options()),
            Answer::Allowed(_)
        )
    };
    assert!(answer("agent", Some("agent")));
    assert!(answer("system:serviceaccount:fleet-system:agent", Some("agent")));
    assert!(!answer("system:serviceaccount:other:agent", Some("agent")));
    assert!(!answer("agent-of-another", Some("agent")));
    // Without its MemberCluster nobody can tell: RBAC has the word.
    assert!(answer("anybody", None));
    assert!(!works("fleet-system").free_to(PLAIN));
    assert!(works("fleet-system").free_to(ACCOUNT));
}

#[test]
fn each_rail_is_shown_its_own_requests() {
    let rails = guard_rails();
    let names = |operation, of, labels: Option<&BTreeMap<String, String>>| -> Vec<&str> {
        let covering = rails.iter().filter(|rail| rail.covers(operation, of, labels));
        covering.map(|rail| rail.name).collect()
    };
    let labels = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    let system = labels("kubernetes.io/metadata.name", "fleet-system");
    let fleet = labels("kubernetes-fleet.io/is-fleet-resource", "true");
    let app = labels("kubernetes.io/metadata.name", "app");
    let secrets = ("", "v1", "secrets");
    assert_eq!(
        names(Operation::Create, secrets, Some(&system)),
        ["fleet.fleetsystemnamespacedresources.guardrail.validating"]
    );
    assert_eq!(
        names(Operation::Delete, ("a.b", "v1", "things"), Some(&fleet)),
        ["fleet.fleetmembernamespacedresources.guardrail.validating"]
    );
    assert!(names(Operation::Create, secrets, Some(&app)).is_empty());
    let leases = ("coordination.k8s.io", "v1", "leases");
    assert!(names(Operation::Update, leases, Some(&system)).is_empty());
    assert_eq!(
        names(Operation::Update, (JOINING, "v1beta1", "memberclusters/status"), None),
        ["fleet.membercluster.guardrail.validating"]
    );
    assert_eq!(
        names(Operation::Delete, ("", "v1", "namespaces"), None),
        ["fleet.namespace.guardrail.validating"]
    );
}
