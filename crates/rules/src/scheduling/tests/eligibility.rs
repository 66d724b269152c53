//! Eligibility and namespaces, row by row.

use super::fleet::{Fixture, ago, cluster, map, now, pick_n};
use crate::model::{Agent, Cluster, Health};
use crate::scheduling::ineligible;

// checklist 18.22
#[test]
fn each_way_to_be_ineligible() {
    let sick = |seconds| Some(Health { healthy: false, since: ago(seconds) });
    let agent = |heartbeat, joined, health| Cluster {
        agent: Some(Agent { heartbeat: ago(heartbeat), joined, health }),
        ..cluster("a", "")
    };
    let well = || Some(Health { healthy: true, since: ago(9999) });
    let rows = [
        (Cluster { leaving: true, ..cluster("a", "") }, Some("cluster has left the fleet")),
        (
            Cluster { agent: None, ..cluster("a", "") },
            Some("cluster is not connected to the fleet: member agent not online yet"),
        ),
        (
            agent(330, true, well()),
            Some(
                "cluster is not connected to the fleet: no recent heartbeat signals (last received 5.50 minutes ago)",
            ),
        ),
        (agent(300, true, well()), None),
        (
            agent(1, false, well()),
            Some("cluster is not connected to the fleet: member agent not joined yet"),
        ),
        (
            agent(1, true, None),
            Some(
                "cluster is not connected to the fleet: health condition from member agent is not available",
            ),
        ),
        (
            agent(1, true, sick(601)),
            Some(
                "cluster is not connected to the fleet: unhealthy for a prolonged period of time (last transitioned 10.02 minutes ago)",
            ),
        ),
        (agent(1, true, sick(300)), None),
        (cluster("a", ""), None),
    ];
    for (cluster, want) in rows {
        assert_eq!(ineligible(&cluster, now()).as_deref(), want);
    }
}

fn in_team(mut fixture: Fixture) -> Fixture {
    fixture.seen.namespace = Some("team".into());
    fixture
}

// checklist 18.28
#[test]
fn a_namespaced_placement_needs_its_namespace_on_the_cluster() {
    let reporting = |namespaces: Option<&[(&str, &str)]>| Cluster {
        collects_namespaces: true,
        namespaces: namespaces.map(map),
        ..cluster("a", "")
    };
    let no_data = Some("ClusterUnschedulable, cluster has no namespace information available");
    let absent = Some("ClusterUnschedulable, target namespace does not exist on cluster");
    let rows = [
        (cluster("a", ""), None),
        (reporting(None), no_data),
        (reporting(Some(&[("other", "w")])), absent),
        (reporting(Some(&[("team", "w")])), None),
        (reporting(Some(&[("team", "")])), None),
    ];
    for (cluster, want) in rows {
        let mut unaffected = Fixture::new(None).over([cluster.clone()]);
        unaffected.settle();
        assert_eq!(unaffected.placed(), ["a"], "a cluster-scoped placement does not care");

        let mut fixture = in_team(Fixture::new(None)).over([cluster]);
        let report = fixture.settle().report.unwrap();
        assert_eq!(
            report.decisions.first().filter(|d| !d.selected).map(|d| d.reason.as_str()),
            want
        );
    }
}

// checklist 18.28
#[test]
fn namespaces_that_are_collected_in_part_count_as_far_as_they_go() {
    // The provider tracks no more than it may: the condition is False, what is there holds.
    let degraded = |namespaces: serde_json::Value| {
        let member = serde_json::json!({
            "metadata": {"name": "a"},
            "spec": {"identity": {"kind": "User", "name": "a"}},
            "status": {
                "namespaces": namespaces,
                "conditions": [{"type": "NamespaceCollectionSucceeded", "status": "False",
                    "reason": "Degraded", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            },
        });
        let read = Cluster::read(&serde_json::from_value(member).unwrap());
        assert!(read.collects_namespaces);
        Cluster {
            collects_namespaces: read.collects_namespaces,
            namespaces: read.namespaces,
            ..cluster("a", "")
        }
    };
    let rows = [
        (serde_json::json!({"team": ""}), None),
        (
            serde_json::json!({"other": "w"}),
            Some("ClusterUnschedulable, target namespace does not exist on cluster"),
        ),
        (
            serde_json::json!({}),
            Some("ClusterUnschedulable, cluster has no namespace information available"),
        ),
    ];
    for (namespaces, want) in rows {
        let mut fixture = in_team(Fixture::new(None)).over([degraded(namespaces)]);
        let report = fixture.settle().report.unwrap();
        let refused = report.decisions.first().filter(|d| !d.selected);
        assert_eq!(refused.map(|d| d.reason.as_str()), want);
    }
}

// checklist 18.28
#[test]
fn pick_n_counts_only_clusters_with_the_namespace() {
    let has = |name: &str, namespace: &str| Cluster {
        collects_namespaces: true,
        namespaces: Some(map(&[(namespace, "")])),
        ..cluster(name, "")
    };
    let mut fixture =
        in_team(pick_n(2)).over([has("a", "team"), has("b", "other"), has("c", "team")]);
    let exact = fixture.settle().report.unwrap();
    assert!(exact.verdict.fulfilled);
    assert_eq!(fixture.placed(), ["a", "c"]);
    fixture.snapshot().number_of_clusters = Some("3".into());
    let short = fixture.settle().report.unwrap();
    assert_eq!((short.verdict.fulfilled, short.verdict.found), (false, 2));
    fixture.cluster("b").namespaces = Some(map(&[("team", "")]));
    assert!(fixture.settle().report.unwrap().verdict.fulfilled, "a namespace added later counts");
}
