//! Which objects are selected, and what is said when none can be.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::hub::{FakeHub, crp, crp_with, deleting, labelled, listed, mistake, now, object, rp};
use crate::placement::PassError;
use crate::placement::selection::{
    Kind, Remark, SelectionOptions, SkippedNamespaces, TypeRules, Watch,
};

const RBAC: &str = "rbac.authorization.k8s.io";

fn namespace(name: &str, scope: &str) -> Value {
    json!({"group": "", "version": "v1", "kind": "Namespace", "name": name, "selectionScope": scope})
}

fn config_maps() -> Value {
    json!({"group": "", "version": "v1", "kind": "ConfigMap"})
}

// checklist 20.1
#[test]
fn by_name_by_labels_and_by_kind_only() {
    let hub = FakeHub::new()
        .with(labelled(object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "a"), "env", "x"))
        .with(labelled(object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "b"), "env", "y"))
        .with(object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "c"));
    let role = |more: Value| {
        let mut term = json!({"group": RBAC, "version": "v1", "kind": "ClusterRole"});
        term.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([term])
    };
    let rows = [
        (json!({"name": "b"}), "b"),
        (json!({"labelSelector": {"matchLabels": {"env": "x"}}}), "a"),
        (
            json!({"labelSelector": {"matchExpressions": [
                {"key": "env", "operator": "In", "values": ["x", "y"]}]}}),
            "a b",
        ),
        (
            json!({"labelSelector": {"matchExpressions": [
                {"key": "env", "operator": "DoesNotExist"}]}}),
            "c",
        ),
        (json!({"labelSelector": {}}), "a b c"),
        (json!({}), "a b c"),
    ];
    for (more, want) in rows {
        let want: Vec<_> = want.split(' ').map(|name| format!("ClusterRole /{name}")).collect();
        assert_eq!(listed(crp(&hub, role(more.clone()))), want, "{more}");
    }
}

// checklist 20.1
#[test]
fn a_namespace_selector_without_name_or_labels_means_every_namespace() {
    let hub = FakeHub::busy();
    let all = json!([{"group": "", "version": "v1", "kind": "Namespace",
        "selectionScope": "NamespaceOnly"}]);
    assert_eq!(listed(crp(&hub, all.clone())), ["Namespace /app", "Namespace /other"]);
    // A real hub always has reserved ones, so there it always fails.
    let hub = hub.with(object("v1", "Namespace", "", "kube-system"));
    assert_eq!(
        mistake(crp(&hub, all)),
        "invalid clusterRresourcePlacement web: namespace kube-system is not allowed to propagate"
    );
}

// checklist 20.2
#[test]
fn namespace_only_returns_only_namespace_objects() {
    let mut hub = FakeHub::busy();
    let app = hub.get_mut(&Kind::new("", "v1", "Namespace"), "", "app");
    *app = labelled(app.clone(), "team", "a");
    assert_eq!(listed(crp(&hub, json!([namespace("app", "NamespaceOnly")]))), ["Namespace /app"]);
    let by_label = json!([{"group": "", "version": "v1", "kind": "Namespace",
        "labelSelector": {"matchLabels": {"team": "a"}}, "selectionScope": "NamespaceOnly"}]);
    assert_eq!(listed(crp(&hub, by_label)), ["Namespace /app"]);
}

// checklist 20.3
#[test]
fn a_namespace_with_resources_brings_its_eligible_children() {
    let hub = FakeHub::busy();
    let one = json!([namespace("app", "NamespaceWithResources")]);
    let app =
        ["Namespace /app", "Secret app/password", "ConfigMap app/settings", "Role app/reader"];
    assert_eq!(listed(crp(&hub, one)), app);
    // The default scope is the same.
    let unsaid = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]);
    assert_eq!(listed(crp(&hub, unsaid)), app);
    let many = json!([{"group": "", "version": "v1", "kind": "Namespace", "labelSelector": {}}]);
    assert_eq!(
        listed(crp(&hub, many)),
        [
            "Namespace /app",
            "Namespace /other",
            "Secret app/password",
            "ConfigMap app/settings",
            "ConfigMap other/settings",
            "Role app/reader",
        ]
    );
}

// checklist 20.4
#[test]
fn resource_selectors_pick_inside_the_selecting_namespace() {
    let hub = FakeHub::busy()
        .with(labelled(object("v1", "ConfigMap", "app", "tuned"), "tier", "web"))
        .with(labelled(object("v1", "ConfigMap", "other", "tuned"), "tier", "web"));
    let app = namespace("app", "NamespaceWithResourceSelectors");
    let named = json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": "settings"});
    let tier = json!({"group": "", "version": "v1", "kind": "ConfigMap",
        "labelSelector": {"matchLabels": {"tier": "web"}}});
    let viewer = json!({"group": RBAC, "version": "v1", "kind": "ClusterRole", "name": "viewer"});
    let rows: [(&str, Value, &[&str]); 4] = [
        ("alone", json!([app]), &["Namespace /app"]),
        ("named", json!([app, named]), &["Namespace /app", "ConfigMap app/settings"]),
        ("labelled", json!([tier, app]), &["Namespace /app", "ConfigMap app/tuned"]),
        (
            "with a cluster-scoped one",
            json!([app, viewer]),
            &["Namespace /app", "ClusterRole /viewer"],
        ),
    ];
    for (what, selectors, want) in rows {
        assert_eq!(listed(crp(&hub, selectors)), want, "{what}");
    }
}

// checklist 20.5
#[test]
fn a_selecting_namespace_must_be_there() {
    let hub = FakeHub::new()
        .with(object("v1", "Namespace", "", "kube-public"))
        .with(deleting(object("v1", "Namespace", "", "ending")));
    for name in ["nowhere", "kube-public", "ending"] {
        let selectors = json!([namespace(name, "NamespaceWithResourceSelectors"), config_maps()]);
        assert_eq!(
            mistake(crp(&hub, selectors)),
            "invalid clusterResourcePlacement web: NamespaceWithResourceSelectors mode requires \
             exactly one namespace, but no namespaces were selected",
            "{name}"
        );
    }
}

// checklist 20.6
#[test]
fn each_scope_selects_its_own() {
    let hub = FakeHub::busy();
    assert_eq!(
        mistake(crp(&hub, json!([config_maps()]))),
        "invalid placement /web: cannot select namespace-scoped resource /v1, Resource=configmaps \
         in a clusterResourcePlacement"
    );
    let cluster_role = json!([{"group": RBAC, "version": "v1", "kind": "ClusterRole"}]);
    assert_eq!(
        mistake(rp(&hub, cluster_role)),
        "invalid placement app/web: cannot select cluster-scoped resource \
         rbac.authorization.k8s.io/v1, Resource=clusterroles in a resourcePlacement"
    );
    for scope in ["NamespaceOnly", "NamespaceWithResources", "NamespaceWithResourceSelectors"] {
        assert_eq!(
            mistake(rp(&hub, json!([namespace("app", scope)]))),
            "invalid placement app/web: cannot select cluster-scoped resource Namespace in a \
             resourcePlacement"
        );
    }
    assert_eq!(listed(rp(&hub, json!([config_maps()]))), ["ConfigMap app/settings"]);
}

// checklist 20.7
#[test]
fn an_object_chosen_twice_is_a_mistake() {
    let hub = FakeHub::busy();
    let named = json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": "settings"});
    assert_eq!(
        mistake(rp(&hub, json!([config_maps(), named]))),
        "found duplicate resource {Group: Version:v1 Kind:ConfigMap Name:settings Namespace:app \
         Envelope:<nil>}"
    );
}

// checklist 20.7
#[test]
fn an_unknown_kind_is_a_mistake() {
    let hub = FakeHub::busy();
    let unknown = json!([{"group": "example.com", "version": "v1", "kind": "Gadget"}]);
    assert_eq!(
        mistake(crp(&hub, unknown.clone())),
        "invalid placement /web, failed to get GVR of the selector: no matches for kind \"Gadget\" \
         in version \"example.com/v1\""
    );
    let trouble = rp(&hub, unknown).unwrap_err();
    assert_eq!(
        trouble.to_string(),
        "failed to process the request due to a client error: invalid placement app/web, failed to \
         get GVR of the selector: no matches for kind \"Gadget\" in version \"example.com/v1\""
    );
}

// checklist 20.8
#[test]
fn reserved_namespaces_are_refused_in_every_scope() {
    let options = SelectionOptions {
        skipped_namespaces: SkippedNamespaces::read("vault; cellar,attic"),
        ..SelectionOptions::default()
    };
    let mut hub = FakeHub::new();
    let names = ["fleet-system", "kube-system", "default", "vault", "cellar", "attic"];
    for name in names {
        hub.add(labelled(object("v1", "Namespace", "", name), "all", "yes"));
    }
    for name in names.into_iter().chain(["fleet-not-even-there"]) {
        for scope in ["NamespaceOnly", "NamespaceWithResources"] {
            assert_eq!(
                mistake(crp_with(&hub, json!([namespace(name, scope)]), &options)),
                format!(
                    "invalid clusterRresourcePlacement web: namespace {name} is not allowed to propagate"
                )
            );
        }
    }
    let by_label = json!([{"group": "", "version": "v1", "kind": "Namespace",
        "labelSelector": {"matchLabels": {"all": "yes"}}}]);
    assert_eq!(
        mistake(crp_with(&hub, by_label, &options)),
        "invalid clusterRresourcePlacement web: namespace attic is not allowed to propagate; \
         neither are cellar, default, fleet-system, kube-system, vault"
    );
}

// checklist 20.9
#[test]
fn deleting_objects_are_skipped_among_live_ones() {
    let hub = FakeHub::busy()
        .with(deleting(object("v1", "ConfigMap", "app", "old")))
        .with(deleting(object("v1", "Namespace", "", "ending")))
        .with(object("v1", "ConfigMap", "ending", "left-over"));
    assert_eq!(listed(rp(&hub, json!([config_maps()]))), ["ConfigMap app/settings"]);
    let ending = json!([namespace("ending", "NamespaceWithResources")]);
    assert!(listed(crp(&hub, ending)).is_empty(), "its content is withdrawn");
}

// checklist 20.9
#[test]
fn a_missing_named_object_is_an_empty_success_with_a_remark() {
    let hub = FakeHub::busy();
    for selectors in [
        json!([namespace("nowhere", "NamespaceWithResources")]),
        json!([{"group": RBAC, "version": "v1", "kind": "ClusterRole", "name": "nobody"}]),
    ] {
        let selection = crp(&hub, selectors).unwrap();
        assert!(selection.resources.is_empty());
        assert!(matches!(selection.remarks.as_slice(), [Remark::Missing { .. }]));
    }
}

// checklist 20.10
#[test]
fn a_type_that_is_not_caught_up_is_waited_for() {
    let secrets = Kind::new("", "v1", "Secret");
    let mut hub = FakeHub::busy();
    hub.watch(&secrets, Watch::Syncing);
    let all = json!([namespace("app", "NamespaceWithResources")]);
    let named = json!([{"group": "", "version": "v1", "kind": "Secret", "name": "password"}]);
    for selection in [crp(&hub, all), rp(&hub, named)] {
        assert_eq!(
            selection.unwrap_err().to_string(),
            "expected behavior which can be recovered by itself: informer cache for /v1, \
             Resource=secrets is not synced yet"
        );
    }
    // Types nobody asks for do not matter.
    assert_eq!(listed(rp(&hub, json!([config_maps()]))), ["ConfigMap app/settings"]);
}

// checklist 20.10
#[test]
fn a_cache_that_fails_is_retried() {
    let mut hub = FakeHub::busy();
    hub.broken.insert(Kind::new("", "v1", "ConfigMap"));
    let all = json!([namespace("app", "NamespaceWithResources")]);
    for selection in [crp(&hub, all), rp(&hub, json!([config_maps()]))] {
        assert_eq!(selection.unwrap_err(), PassError::Server("the cache is broken".into()));
    }
}

#[test]
fn a_kind_that_just_appeared_is_given_two_minutes() {
    let role = Kind::new(RBAC, "v1", "ClusterRole");
    let selectors = json!([{"group": RBAC, "version": "v1", "kind": "ClusterRole"}]);
    let mut hub = FakeHub::busy();
    hub.watch(&role, Watch::Unwatched { since: now() - SignedDuration::from_secs(119) });
    assert!(matches!(crp(&hub, selectors.clone()), Err(PassError::Fresh(_))));
    hub.watch(&role, Watch::Unwatched { since: now() - SignedDuration::from_secs(120) });
    assert_eq!(
        mistake(crp(&hub, selectors)),
        "invalid placement /web: cannot select resource rbac.authorization.k8s.io/v1, \
         Resource=clusterroles, which is not watched: its API offers no list or no watch"
    );
}

#[test]
fn whoever_selects_a_version_that_is_not_watched_is_told_which_one_is() {
    let old = Kind::new("apps", "v1beta2", "Deployment");
    let since = now() - SignedDuration::from_secs(120);
    let mut hub = FakeHub::busy();
    let mut of = hub.types[&Kind::new("apps", "v1", "Deployment")].clone();
    of.kind = old.clone();
    (of.preferred, of.watch) = (false, Watch::Unwatched { since });
    hub.types.insert(old, of);
    let selectors = json!([{"group": "apps", "version": "v1beta2", "kind": "Deployment"}]);
    assert_eq!(
        mistake(rp(&hub, selectors)),
        "invalid placement app/web: cannot select resource apps/v1beta2, Resource=deployments, \
         which is not watched: select version v1 of it"
    );
}

#[test]
fn a_kind_watched_in_two_versions_comes_along_in_the_preferred_one() {
    let mut hub = FakeHub::busy();
    for (version, preferred) in [("v1beta2", false), ("v2", true)] {
        let kind = Kind::new("apps", version, "Deployment");
        let mut of = hub.types[&Kind::new("apps", "v1", "Deployment")].clone();
        (of.kind, of.preferred) = (kind.clone(), preferred);
        hub.types.insert(kind, of);
    }
    hub.types.get_mut(&Kind::new("apps", "v1", "Deployment")).unwrap().preferred = false;
    for version in ["apps/v1beta2", "apps/v1", "apps/v2"] {
        hub.add(object(version, "Deployment", "app", "web"));
    }
    let found = crp(&hub, json!([namespace("app", "NamespaceWithResources")])).unwrap();
    let deployments: Vec<_> =
        found.resources.iter().filter(|found| found.id.kind == "Deployment").collect();
    let [only] = deployments.as_slice() else { panic!("{deployments:?}") };
    assert_eq!(only.id.version, "v2");
    // While no version is preferred, one of them is better than none.
    for of in hub.types.values_mut() {
        of.preferred = false;
    }
    let found = listed(crp(&hub, json!([namespace("app", "NamespaceWithResources")])));
    assert_eq!(found.iter().filter(|line| line.starts_with("Deployment")).count(), 1);
}

// checklist 20.11
#[test]
fn disabled_types_contribute_nothing_in_either_scope() {
    let hub = FakeHub::busy().with(object("v1", "Pod", "app", "p")).with(object(
        "placement.kubernetes-fleet.io/v1beta1",
        "Work",
        "app",
        "w",
    ));
    let pods = json!([{"group": "", "version": "v1", "kind": "Pod"}]);
    for selection in [crp(&hub, pods.clone()), rp(&hub, pods)] {
        let selection = selection.unwrap();
        assert!(selection.resources.is_empty());
        assert_eq!(
            selection.remarks,
            [Remark::Disabled {
                selector: "{Group: Version:v1 Kind:Pod Name: LabelSelector:nil SelectionScope:}"
                    .into()
            }]
        );
    }
    let app = listed(crp(&hub, json!([namespace("app", "NamespaceWithResources")])));
    assert!(!app.iter().any(|line| line.starts_with("Pod") || line.starts_with("Work")));
    // An allow list turns the meaning around.
    let options = SelectionOptions {
        types: TypeRules::read("", "v1/Namespace,Pod").unwrap(),
        ..SelectionOptions::default()
    };
    assert_eq!(
        listed(crp_with(&hub, json!([namespace("app", "NamespaceWithResources")]), &options)),
        ["Namespace /app", "Pod app/p"]
    );
}

// checklist 20.12
#[test]
fn what_clusters_make_by_themselves_is_never_propagated() {
    let owned = |mut object: Value| {
        object["metadata"]["ownerReferences"] = json!([{"kind": "Deployment", "name": "d"}]);
        object
    };
    let token = |mut object: Value| {
        object["type"] = "kubernetes.io/service-account-token".into();
        object
    };
    let managed =
        |object: Value| labelled(object, "endpointslice.kubernetes.io/managed-by", "anybody");
    let rows: [(Value, bool); 15] = [
        (owned(object("apps/v1", "ReplicaSet", "app", "owned")), false),
        (object("apps/v1", "ReplicaSet", "app", "alone"), true),
        (owned(object("apps/v1", "ControllerRevision", "app", "owned")), false),
        (object("apps/v1", "ControllerRevision", "app", "alone"), true),
        (object("v1", "ConfigMap", "app", "kube-root-ca.crt"), false),
        (owned(object("v1", "ConfigMap", "app", "owned")), true),
        (object("v1", "ServiceAccount", "app", "default"), false),
        (object("v1", "ServiceAccount", "app", "robot"), true),
        (token(object("v1", "Secret", "app", "token")), false),
        (object("v1", "Secret", "app", "password"), true),
        (object("v1", "Endpoints", "app", "served"), false),
        (object("v1", "Endpoints", "app", "by-hand"), true),
        (managed(object("discovery.k8s.io/v1", "EndpointSlice", "app", "managed")), false),
        (object("discovery.k8s.io/v1", "EndpointSlice", "app", "by-hand"), true),
        (deleting(object("v1", "Secret", "app", "ending")), false),
    ];
    for (object, taken) in rows {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let hub = FakeHub::busy()
            .with(super::hub::object("v1", "Service", "app", "served"))
            .with(object.clone());
        let api_version = object["apiVersion"].as_str().unwrap();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let name = object["metadata"]["name"].as_str().unwrap();
        let selectors = json!([{"group": group, "version": version, "kind": kind, "name": name}]);
        assert_eq!(listed(rp(&hub, selectors)).len(), usize::from(taken), "{object}");
    }
}

#[test]
fn endpoints_wait_for_services_to_be_known() {
    let mut hub = FakeHub::busy().with(object("v1", "Endpoints", "app", "e"));
    hub.watch(&Kind::new("", "v1", "Service"), Watch::Syncing);
    let endpoints = json!([{"group": "", "version": "v1", "kind": "Endpoints"}]);
    assert!(matches!(rp(&hub, endpoints), Err(PassError::Expected(_))));
}

// checklist 20.12
#[test]
fn volume_claims_stay_only_where_workloads_run_on_the_hub() {
    let hub = FakeHub::busy().with(object("v1", "PersistentVolumeClaim", "app", "disk"));
    let app = json!([namespace("app", "NamespaceWithResources")]);
    let mut options = SelectionOptions::default();
    assert!(
        listed(crp_with(&hub, app.clone(), &options))
            .contains(&"PersistentVolumeClaim app/disk".into())
    );
    options.workloads_run_here = true;
    assert_eq!(
        listed(crp_with(&hub, app, &options)),
        ["Namespace /app", "Secret app/password", "ConfigMap app/settings", "Role app/reader"]
    );
}

// checklist 20.15
#[test]
fn replica_sets_and_pods_of_hub_workloads_are_not_selected() {
    let mut replica_set = object("apps/v1", "ReplicaSet", "app", "d-1");
    replica_set["metadata"]["ownerReferences"] = json!([{"kind": "Deployment", "name": "d"}]);
    let hub = FakeHub::busy()
        .with(object("apps/v1", "Deployment", "app", "d"))
        .with(replica_set)
        .with(object("v1", "Pod", "app", "d-1-x"));
    let options = SelectionOptions { workloads_run_here: true, ..SelectionOptions::default() };
    let app = json!([namespace("app", "NamespaceWithResources")]);
    assert_eq!(
        listed(crp_with(&hub, app, &options)),
        [
            "Namespace /app",
            "Secret app/password",
            "ConfigMap app/settings",
            "Role app/reader",
            "Deployment app/d"
        ]
    );
}

#[test]
fn envelopes_are_counted_and_config_maps_are_not() {
    let hub = FakeHub::busy().with(object(
        "placement.kubernetes-fleet.io/v1beta1",
        "ResourceEnvelope",
        "app",
        "parcel",
    ));
    let selection = crp(&hub, json!([namespace("app", "NamespaceWithResources")])).unwrap();
    assert_eq!(selection.envelopes, 1);
    assert_eq!(selection.resources.last().unwrap().id.kind, "ResourceEnvelope");
}

#[test]
fn a_selector_that_makes_no_sense_is_a_mistake() {
    let hub = FakeHub::busy();
    let bad = json!([{"group": "", "version": "v1", "kind": "ConfigMap", "labelSelector":
        {"matchExpressions": [{"key": "a", "operator": "Near"}]}}]);
    assert!(
        mistake(rp(&hub, bad))
            .ends_with(r#"is invalid: "Near" is not a valid label selector operator"#)
    );
}
