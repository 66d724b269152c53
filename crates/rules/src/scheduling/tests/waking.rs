//! Which cluster changes wake which placements.

use std::sync::Arc;

use serde_json::json;

use super::fleet::{Fixture, ago, cluster, map, now, policy, silent};
use crate::model::{Binding, Cluster, Health, PackedMap, Taint};
use crate::scheduling::{ClusterChange, State, becomes_surplus, cluster_change, concerns};

fn change(old: &Cluster, edit: impl FnOnce(&mut Cluster)) -> ClusterChange {
    let mut new = old.clone();
    edit(&mut new);
    cluster_change(old, &new, now())
}

// checklist 18.30
#[test]
fn each_change_of_a_cluster() {
    use ClusterChange::{Nature, Nothing, Numbers};
    let taint =
        |value: &str| Taint { key: "k".into(), value: value.into(), effect: "NoSchedule".into() };
    let mut old = cluster("a", "env=prod");
    old.taints = vec![taint("v")];
    assert_eq!(change(&silent("a", ""), |c| *c = cluster("a", "")), Nature, "becomes ready");
    assert_eq!(change(&old, |c| c.labels = PackedMap::default()), Nature);
    assert_eq!(change(&old, |c| c.properties = map(&[("p", "1")])), Numbers);
    assert_eq!(change(&old, |c| c.capacity = map(&[("cpu", "1")])), Numbers);
    assert_eq!(change(&old, |c| c.allocatable = map(&[("cpu", "1")])), Numbers);
    assert_eq!(change(&old, |c| c.available = map(&[("cpu", "1")])), Numbers);
    assert_eq!(change(&old, |c| c.namespaces = Some(map(&[("team", "")]))), Nature);
    assert_eq!(
        change(&old, |c| c.taints.push(taint("w"))),
        Nothing,
        "an added taint opens nothing"
    );
    assert_eq!(change(&old, |c| c.taints = vec![taint("w")]), Nature, "an altered one may");
    assert_eq!(change(&old, |c| c.taints.clear()), Nature);
    assert_eq!(change(&old, |c| c.agent = None), Nothing, "out of sync");
    let sick = |c: &mut Cluster| {
        c.agent.as_mut().unwrap().health = Some(Health { healthy: false, since: ago(900) });
    };
    assert_eq!(change(&old, sick), Nothing);
    let mut was_sick = old.clone();
    sick(&mut was_sick);
    assert_eq!(cluster_change(&was_sick, &old, now()), Nature, "and back");
    assert_eq!(
        change(&old, |c| {
            c.leaving = true;
            c.labels = PackedMap::default();
        }),
        Nothing,
        "leaving is ignored until removed"
    );
    assert_eq!(change(&old, |_| ()), Nothing);
}

// checklist 18.30
#[test]
fn quantities_that_mean_the_same_are_no_change() {
    let old = Cluster { available: map(&[("cpu", "1000m")]), ..cluster("a", "") };
    assert_eq!(change(&old, |c| c.available = map(&[("cpu", "1")])), ClusterChange::Nothing);
}

#[test]
fn fully_scheduled_placements_are_left_alone() {
    use ClusterChange::{Nature, Nothing, Numbers};
    let pick_n = policy(json!({"placementType": "PickN"}));
    let fixed = policy(json!({"placementType": "PickFixed"}));
    let sorter = policy(json!({"placementType": "PickN", "affinity": {"clusterAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {
            "propertySorter": {"name": "p", "sortOrder": "Ascending"}}}]}}}));
    assert!(concerns(Nature, None, true), "no policy means PickAll");
    assert!(!concerns(Nature, pick_n.as_ref(), true));
    assert!(concerns(Nature, pick_n.as_ref(), false));
    assert!(concerns(Nature, fixed.as_ref(), false));
    assert!(!concerns(Nothing, None, false));
    assert!(!concerns(Numbers, pick_n.as_ref(), false), "it reads no property");
    assert!(concerns(Numbers, sorter.as_ref(), false));
}

#[test]
fn a_second_binding_that_comes_into_force_for_a_cluster() {
    let bound = |name: &str, state| {
        let mut fixture = Fixture::new(None);
        Binding { name: name.into(), ..fixture.bind("a", state, "web-0").clone() }
    };
    let (first, second) = (bound("first", State::Bound), bound("second", State::Scheduled));
    let released = bound("released", State::Unscheduled);
    let going = Binding { deleting: true, ..second.clone() };
    let known = |old: Option<&Binding>, new: &Binding, other: &Binding| {
        becomes_surplus(old, new, || vec![Arc::new(new.clone()), Arc::new(other.clone())])
    };
    assert!(known(None, &second, &first));
    assert!(known(None, &first, &second), "whichever is seen last");
    assert!(!known(None, &second, &released));
    assert!(!known(None, &second, &going));
    assert!(!known(None, &going, &first));
    assert!(!known(None, &second, &second), "it is its own and only one");
    assert!(!known(Some(&second), &second, &first), "told before");
    let taken = Binding { name: released.name.clone(), ..second };
    assert!(known(Some(&released), &taken, &first), "brought back beside another one");
}
