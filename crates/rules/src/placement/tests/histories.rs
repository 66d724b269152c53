//! Whatever happens in whatever order, these stay true.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::fleet::{AVAILABLE, Fixture};
use crate::placement::resource_snapshots::{LIMIT, split};

/// Something that happens to a placement.
#[derive(Debug, Clone)]
enum Turn {
    /// The selection changes.
    Select(u8),
    /// A cluster is moved to the latest version.
    Deliver(u8),
    /// The user changes how many revisions are kept.
    Limit(u8),
    /// A crash: only so many of the next plan's writes happen.
    Crash(usize),
    /// Nothing but a pass.
    Pass,
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        (0..4_u8).prop_map(Turn::Select),
        (0..3_u8).prop_map(Turn::Deliver),
        (1..4_u8).prop_map(Turn::Limit),
        (0..4_usize).prop_map(Turn::Crash),
        Just(Turn::Pass),
    ]
}

fn latest_index(fixture: &Fixture) -> Option<u32> {
    let latest = fixture.seen.resource_snapshots.iter().find(|s| s.latest)?;
    latest.index.as_ref()?.parse().ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_placement_settles_and_never_loses_what_is_in_use(turns in prop::collection::vec(turn(), 1..30)) {
        let clusters = ["c1", "c2", "c3"];
        let mut fixture = Fixture::crp(json!({"policy": {"placementType": "PickAll"}, "revisionHistoryLimit": 2}));
        fixture.step();
        fixture.schedule(&clusters, &[]);
        for turn in turns {
            match turn {
                Turn::Select(n) => {
                    let names: Vec<String> = (0..n).map(|i| format!("n{i}")).collect();
                    fixture.select(&names.iter().map(String::as_str).collect::<Vec<_>>());
                }
                Turn::Deliver(cluster) => {
                    if let Some(index) = latest_index(&fixture) {
                        fixture.deliver(clusters[usize::from(cluster)], index, AVAILABLE);
                    }
                }
                Turn::Limit(n) => {
                    fixture.edit(|spec| spec["revisionHistoryLimit"] = n.into());
                    fixture.step();
                    fixture.schedule(&clusters, &[]);
                }
                Turn::Crash(after) => fixture.crash(after),
                Turn::Pass => {}
            }
            fixture.step();
            fixture.later(1);
            // Settled: the same objects give rise to nothing new.
            prop_assert_eq!(fixture.plan().actions, vec![]);
            let masters = || fixture.seen.resource_snapshots.iter();
            prop_assert_eq!(masters().filter(|s| s.latest).count(), 1);
            // What a cluster holds is still there, and no more than that and the limit.
            let in_use: BTreeSet<&str> =
                fixture.seen.bindings.iter().map(|b| b.spec.resource_snapshot_name.as_str()).collect();
            for name in &in_use {
                prop_assert!(masters().any(|s| s.name == *name), "{} is gone", name);
            }
            let limit = fixture.seen.placement.spec.revision_history_limit.unwrap();
            let kept_for_limit = masters().filter(|s| !in_use.contains(s.name.as_str())).count();
            prop_assert!(kept_for_limit <= usize::try_from(limit).unwrap());
            let latest = latest_index(&fixture).map(|index| index.to_string());
            prop_assert_eq!(Some(&fixture.status().observed_resource_index), latest.as_ref());
        }
    }

    #[test]
    fn pieces_hold_everything_in_order_and_fit(sizes in prop::collection::vec(0..LIMIT * 2, 0..40)) {
        let pieces = split(sizes.iter().copied());
        let mut next = 0;
        for piece in &pieces {
            prop_assert_eq!(piece.start, next);
            next = piece.end;
            let sum: usize = sizes[piece.clone()].iter().map(|size| size + 1).sum();
            prop_assert!(sum <= LIMIT || piece.len() == 1);
        }
        prop_assert_eq!(next, sizes.len());
        prop_assert!(pieces.len() == 1 || pieces.iter().all(|piece| !piece.is_empty()));
    }
}
