//! When a policy becomes a snapshot.

use std::sync::Arc;

use flagship_api::error_class::ErrorClass;
use flagship_api::placement::PlacementSpec;
use flagship_api::policy::PlacementPolicy;
use serde_json::{Value, json};

use crate::model::PolicySnapshot;
use crate::placement::policy_snapshots::{NewPolicySnapshot, PolicyAction, plan};
use crate::placement::{Frozen, PassError, Placement};

fn policy(text: Value) -> Option<PlacementPolicy> {
    serde_json::from_value(text).unwrap()
}

struct Fixture {
    placement: Placement,
    snapshots: Vec<Arc<PolicySnapshot>>,
    limit: usize,
}

impl Fixture {
    fn new(text: Value) -> Self {
        let spec = PlacementSpec { policy: policy(text), ..PlacementSpec::default() };
        let placement = Placement::of_spec("web", spec);
        Self { placement, snapshots: Vec::new(), limit: 10 }
    }

    fn edit(&mut self, text: Value) {
        self.placement.spec.policy = policy(text);
        self.placement.generation += 1;
    }

    fn step(&mut self) -> Vec<PolicyAction> {
        let plan = plan(&self.placement, &self.snapshots, self.limit).unwrap();
        for action in &plan.actions {
            match action {
                PolicyAction::Retire { name } => self.named(name).latest = false,
                PolicyAction::Refresh { name, placement_generation, number_of_clusters } => {
                    let snapshot = self.named(name);
                    snapshot.latest = true;
                    snapshot.placement_generation = Some(placement_generation.to_string());
                    if let Some(number) = number_of_clusters {
                        snapshot.number_of_clusters = Some(number.to_string());
                    }
                }
                PolicyAction::Create(new) => self.snapshots.push(Arc::new(PolicySnapshot {
                    name: new.name.clone(),
                    generation: 1,
                    index: Some(new.index.clone()),
                    latest: true,
                    hash: new.hash.clone(),
                    placement_generation: Some(new.placement_generation.to_string()),
                    number_of_clusters: new.number_of_clusters.map(|n| n.to_string()),
                    ..PolicySnapshot::default()
                })),
                PolicyAction::Delete { name } => self.snapshots.retain(|s| s.name != *name),
            }
        }
        assert!(self.named(&plan.latest.name).latest);
        plan.actions
    }

    fn trouble(&self) -> PassError {
        plan(&self.placement, &self.snapshots, self.limit).unwrap_err()
    }

    fn named(&mut self, name: &str) -> &mut PolicySnapshot {
        Arc::make_mut(self.snapshots.iter_mut().find(|s| s.name == name).unwrap())
    }
}

fn retire(name: &str) -> PolicyAction {
    PolicyAction::Retire { name: name.into() }
}

// checklist 20.25
#[test]
fn a_new_placement_gets_index_0() {
    let mut fixture = Fixture::new(json!({"placementType": "PickN", "numberOfClusters": 3}));
    assert_eq!(
        fixture.step(),
        [PolicyAction::Create(NewPolicySnapshot {
            name: "web-0".into(),
            index: "0".into(),
            hash: "479f405eb7808cfc58366b2648680a3a815ef914fe6756ae8df0d6f74885416a".into(),
            placement_generation: 1,
            number_of_clusters: Some(3),
        })]
    );
    assert_eq!(fixture.step(), []);
}

// checklist 20.25
#[test]
fn no_policy_is_a_policy_of_its_own() {
    let mut fixture = Fixture::new(Value::Null);
    let actions = fixture.step();
    let [PolicyAction::Create(new)] = actions.as_slice() else { panic!() };
    assert_eq!(new.hash, "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b");
    assert_eq!(new.number_of_clusters, None);
    fixture.edit(json!({"placementType": "PickAll"}));
    assert!(matches!(
        fixture.step().as_slice(),
        [PolicyAction::Retire { .. }, PolicyAction::Create(_)]
    ));
}

// checklist 20.25
#[test]
fn a_changed_policy_retires_the_old_snapshot_first() {
    let mut fixture =
        Fixture::new(json!({"placementType": "PickFixed", "clusterNames": ["a", "b"]}));
    fixture.step();
    fixture.edit(json!({"placementType": "PickFixed", "clusterNames": ["b", "a"]}));
    let actions = fixture.step();
    assert_eq!(actions[0], retire("web-0"));
    assert!(matches!(&actions[1], PolicyAction::Create(new) if new.name == "web-1"));
    // Back again is a third one.
    fixture.edit(json!({"placementType": "PickFixed", "clusterNames": ["a", "b"]}));
    assert!(matches!(&fixture.step()[1], PolicyAction::Create(new) if new.name == "web-2"));
}

#[test]
fn what_a_pass_did_not_come_to_prune_goes_in_the_next() {
    let mut fixture = Fixture::new(json!({"placementType": "PickFixed", "clusterNames": ["a"]}));
    for cluster in ["a", "b", "c"] {
        fixture.edit(json!({"placementType": "PickFixed", "clusterNames": [cluster]}));
        fixture.step();
    }
    fixture.limit = 1;
    let names = ["web-0", "web-1"];
    assert_eq!(fixture.step(), names.map(|name| PolicyAction::Delete { name: name.into() }));
    assert_eq!(fixture.step(), []);
}

// checklist 20.25
#[test]
fn without_an_active_label_the_highest_index_counts() {
    let mut fixture = Fixture::new(json!({"placementType": "PickAll"}));
    fixture.step();
    fixture.named("web-0").latest = false;
    // Unchanged: it only lost its label.
    assert_eq!(
        fixture.step(),
        [PolicyAction::Refresh {
            name: "web-0".into(),
            placement_generation: 1,
            number_of_clusters: None
        }]
    );
    fixture.named("web-0").latest = false;
    fixture.edit(json!({"placementType": "PickAll", "tolerations": [{"operator": "Exists"}]}));
    assert!(
        matches!(fixture.step().as_slice(), [PolicyAction::Create(new)] if new.name == "web-1")
    );
}

// checklist 20.25
#[test]
fn another_number_of_clusters_is_the_same_snapshot() {
    let mut fixture = Fixture::new(json!({"placementType": "PickN", "numberOfClusters": 3}));
    fixture.step();
    fixture.edit(json!({"placementType": "PickN", "numberOfClusters": 5}));
    assert_eq!(
        fixture.step(),
        [PolicyAction::Refresh {
            name: "web-0".into(),
            placement_generation: 2,
            number_of_clusters: Some(5)
        }]
    );
    assert_eq!(fixture.step(), []);
}

// checklist 20.26
#[test]
fn changed_selectors_only_change_the_generation() {
    let mut fixture = Fixture::new(json!({"placementType": "PickAll"}));
    fixture.step();
    fixture.placement.generation = 7;
    assert_eq!(
        fixture.step(),
        [PolicyAction::Refresh {
            name: "web-0".into(),
            placement_generation: 7,
            number_of_clusters: None
        }]
    );
    assert_eq!(fixture.step(), []);
}

// checklist 20.26
#[test]
fn the_limit_prunes_the_oldest_after_the_new_one_exists() {
    for (limit, want) in [(1, vec!["web-3"]), (3, vec!["web-1", "web-2", "web-3"])] {
        let mut fixture =
            Fixture::new(json!({"placementType": "PickFixed", "clusterNames": ["c"]}));
        fixture.limit = limit;
        for name in ["c", "d", "e", "f"] {
            fixture.edit(json!({"placementType": "PickFixed", "clusterNames": [name]}));
            let actions = fixture.step();
            let position = |wanted: fn(&PolicyAction) -> bool| actions.iter().position(wanted);
            let created = position(|a| matches!(a, PolicyAction::Create(_)));
            let deleted = position(|a| matches!(a, PolicyAction::Delete { .. }));
            assert!(deleted.is_none() || created < deleted);
        }
        let names: Vec<_> = fixture.snapshots.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, want);
    }
}

// checklist 20.27
#[test]
fn two_active_snapshots_heal_to_the_highest_index() {
    let mut fixture = Fixture::new(json!({"placementType": "PickFixed", "clusterNames": ["a"]}));
    fixture.step();
    fixture.edit(json!({"placementType": "PickFixed", "clusterNames": ["b"]}));
    fixture.step();
    fixture.named("web-0").latest = true;
    assert_eq!(fixture.step(), [retire("web-0")]);
    assert_eq!(fixture.step(), []);
}

// checklist 20.27
#[test]
fn snapshots_that_cannot_be_read_are_internal_errors() {
    type Spoil = fn(&mut PolicySnapshot);
    let rows: [(Spoil, &str); 7] = [
        (|s| s.index = None, "policy-index: it is missing"),
        (
            |s| s.index = Some("x".into()),
            r#"policy-index: strconv.Atoi: parsing "x": invalid syntax"#,
        ),
        (|s| s.index = Some("-1".into()), "policy-index: must not be negative"),
        (|s| s.placement_generation = None, "CRP-generation: it is missing"),
        (
            |s| s.placement_generation = Some("x".into()),
            r#"CRP-generation: strconv.Atoi: parsing "x": invalid syntax"#,
        ),
        (|s| s.number_of_clusters = None, "number-of-clusters: it is missing"),
        (|s| s.number_of_clusters = Some("-3".into()), "number-of-clusters: must not be negative"),
    ];
    for (spoil, want) in rows {
        let mut fixture = Fixture::new(json!({"placementType": "PickN", "numberOfClusters": 3}));
        fixture.step();
        spoil(fixture.named("web-0"));
        let trouble = fixture.trouble();
        assert_eq!(trouble.cause(), format!("policy snapshot web-0 has a bad {want}"));
        let of = Frozen::Policy;
        let cause = trouble.cause().to_owned();
        assert_eq!(trouble, PassError::Snapshot { of, name: "web-0".into(), cause });
        assert_eq!(trouble.class(), ErrorClass::Unexpected);
    }
}
