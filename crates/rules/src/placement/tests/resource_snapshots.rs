//! When resources become a snapshot, how it is cut, and which old ones go.

use std::sync::Arc;

use flagship_api::binding::{BindingState, ResourceBindingSpec};
use flagship_api::placement_status::ResourceIdentifier;
use flagship_api::raw_json::RawJson;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::hub::now;
use crate::model::{Binding, ResourceSnapshot};
use crate::placement::resource_snapshots::{
    LIMIT, Part, ResourceAction, ResourcePlan, Snapshots, plan, prune_only, split,
};
use crate::placement::selection::{Selected, Selection};
use crate::placement::{Batching, Frozen, PassError};

fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

/// A selection of config maps, each of so many bytes as a manifest.
fn selection(names: &[(&str, usize)]) -> Selection {
    let resources = names.iter().map(|(name, size)| {
        let bare = json!({"data": "", "metadata": {"name": name}}).to_string().len();
        let data = "x".repeat(size.saturating_sub(bare));
        let text = json!({"data": data, "metadata": {"name": name}}).to_string();
        let id = ResourceIdentifier {
            version: "v1".into(),
            kind: "ConfigMap".into(),
            name: (*name).into(),
            ..ResourceIdentifier::default()
        };
        Selected { id, manifest: RawJson::from_text(text).unwrap() }
    });
    Selection { resources: resources.collect(), ..Selection::default() }
}

fn small(name: &str) -> Selection {
    selection(&[(name, 0)])
}

/// The snapshots of one placement, and a controller that carries its plans out.
struct Fixture {
    snapshots: Vec<Arc<ResourceSnapshot>>,
    bindings: Vec<Arc<Binding>>,
    runs: Vec<String>,
    limit: usize,
    now: Timestamp,
}

impl Fixture {
    fn new() -> Self {
        Self { snapshots: vec![], bindings: vec![], runs: vec![], limit: 10, now: now() }
    }

    fn seen(&self) -> Snapshots<'_> {
        Snapshots {
            placement: "web",
            existing: &self.snapshots,
            limit: self.limit,
            bindings: &self.bindings,
            indexes_in_runs: &self.runs,
            now: self.now,
        }
    }

    fn plan(&self, selection: &Selection) -> ResourcePlan {
        plan(&self.seen(), selection, Some(Batching::NONE)).unwrap()
    }

    fn trouble(&self, selection: &Selection) -> PassError {
        plan(&self.seen(), selection, Some(Batching::NONE)).unwrap_err()
    }

    fn step(&mut self, selection: &Selection) -> ResourcePlan {
        let plan = self.plan(selection);
        self.carry_out(&plan.actions, selection);
        plan
    }

    fn carry_out(&mut self, actions: &[ResourceAction], selection: &Selection) {
        for action in actions {
            match action {
                ResourceAction::Create(new) => {
                    let (hash, count, subindex) = match &new.part {
                        Part::Master { hash, count, .. } => {
                            (Some(hash.clone()), Some(count.to_string()), None)
                        }
                        Part::Sub { subindex } => (None, None, Some(subindex.clone())),
                    };
                    assert!(!self.snapshots.iter().any(|s| s.name == new.name), "{}", new.name);
                    self.snapshots.push(Arc::new(ResourceSnapshot {
                        name: new.name.clone(),
                        created: self.now,
                        index: Some(new.index.clone()),
                        latest: hash.is_some(),
                        hash,
                        count,
                        subindex,
                        detected: None,
                        quarantine: None,
                        resources: selection.resources[new.resources.clone()]
                            .iter()
                            .map(|s| s.id.clone())
                            .collect(),
                        enveloped: vec![],
                    }));
                }
                ResourceAction::Mark { name, latest } => self.named(name).latest = *latest,
                ResourceAction::Stamp { name, at } => self.named(name).detected = Some(at.clone()),
                ResourceAction::Delete { name } => {
                    self.named(name);
                    self.snapshots.retain(|s| s.name != *name);
                }
            }
        }
    }

    fn named(&mut self, name: &str) -> &mut ResourceSnapshot {
        Arc::make_mut(self.snapshots.iter_mut().find(|s| s.name == name).unwrap())
    }

    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.snapshots.iter().map(|s| s.name.as_str()).collect();
        names.sort_unstable();
        names
    }

    fn bind(&mut self, cluster: &str, snapshot: &str) -> &mut Binding {
        let spec = ResourceBindingSpec {
            target_cluster: cluster.into(),
            scheduling_policy_snapshot_name: "web-0".into(),
            resource_snapshot_name: snapshot.into(),
            ..ResourceBindingSpec::default()
        };
        let name = format!("web-{cluster}");
        let binding = Binding { name, generation: 1, spec, ..Binding::default() };
        self.bindings.push(Arc::new(binding));
        Arc::make_mut(self.bindings.last_mut().unwrap())
    }
}

fn created(plan: &ResourcePlan) -> Vec<&str> {
    let new = plan.actions.iter().filter_map(|action| match action {
        ResourceAction::Create(new) => Some(new.name.as_str()),
        _ => None,
    });
    new.collect()
}

fn mark(name: &str, latest: bool) -> ResourceAction {
    ResourceAction::Mark { name: name.into(), latest }
}

fn delete(name: &str) -> ResourceAction {
    ResourceAction::Delete { name: name.into() }
}

// checklist 20.16
#[test]
fn the_first_snapshot_has_index_0_and_unchanged_content_writes_nothing() {
    let mut fixture = Fixture::new();
    let plan = fixture.step(&small("a"));
    assert_eq!(created(&plan), ["web-0-snapshot"]);
    assert_eq!((plan.latest.index.as_str(), plan.wait), ("0", None));
    let again = fixture.step(&small("a"));
    assert_eq!(again.actions, []);
    assert_eq!(again.latest.master, "web-0-snapshot");
}

// checklist 20.16
#[test]
fn changed_content_is_the_next_index_and_the_old_one_is_no_longer_latest() {
    let mut fixture = Fixture::new();
    fixture.step(&small("a"));
    let plan = fixture.step(&small("b"));
    assert_eq!(plan.actions[0], mark("web-0-snapshot", false));
    assert_eq!(created(&plan), ["web-1-snapshot"]);
    assert_eq!(plan.latest.index, "1");
    // Going back is a new version like any other.
    assert_eq!(fixture.step(&small("a")).latest.index, "2");
}

// checklist 20.17
#[test]
fn content_that_came_back_before_anything_was_created_is_labelled_again() {
    let mut fixture = Fixture::new();
    fixture.step(&small("a"));
    fixture.named("web-0-snapshot").latest = false;
    let plan = fixture.plan(&small("a"));
    assert_eq!(plan.actions, [mark("web-0-snapshot", true)]);
    // Other content does not wait once the label is gone.
    let seen = fixture.seen();
    let plan = super::resource_snapshots::plan(&seen, &small("b"), Some(Batching::default()));
    assert_eq!(created(&plan.unwrap()), ["web-1-snapshot"]);
}

// checklist 20.18
#[test]
fn sizes_are_cut_greedily_and_in_order() {
    let cut = |sizes: &[usize]| {
        let pieces = split(sizes.iter().copied());
        pieces.into_iter().map(|piece| sizes[piece].to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(
        cut(&[300_000, 500_000, 30_000, 900_000, 10]),
        [vec![300_000, 500_000], vec![30_000], vec![900_000], vec![10]]
    );
    assert_eq!(cut(&[]), [Vec::<usize>::new()]);
    assert_eq!(cut(&[LIMIT - 1]), [vec![LIMIT - 1]]);
    // The line feed behind each counts.
    assert_eq!(cut(&[LIMIT - 11, 9]), [vec![LIMIT - 11, 9]]);
    assert_eq!(cut(&[LIMIT - 11, 10]), [vec![LIMIT - 11], vec![10]]);
    assert_eq!(cut(&[1, 2_000_000, 1]), [vec![1], vec![2_000_000], vec![1]]);
}

// checklist 20.18
#[test]
fn large_content_is_a_master_and_others_under_one_index() {
    let large =
        selection(&[("ns", 100), ("s1", 280_000), ("s2", 280_000), ("s3", 280_000), ("cm", 100)]);
    let plan = Fixture::new().plan(&large);
    let ResourceAction::Create(master) = &plan.actions[0] else { panic!() };
    let ResourceAction::Create(second) = &plan.actions[1] else { panic!() };
    assert_eq!(plan.actions.len(), 2);
    assert_eq!((master.name.as_str(), master.resources.clone()), ("web-0-snapshot", 0..3));
    assert!(matches!(&master.part, Part::Master { count: 2, envelopes: 0, .. }));
    assert_eq!((second.name.as_str(), second.resources.clone()), ("web-0-0", 3..5));
    assert_eq!(second.part, Part::Sub { subindex: "0".into() });
    assert_eq!((master.index.as_str(), second.index.as_str()), ("0", "0"));
}

// checklist 20.18
#[test]
fn an_empty_selection_is_one_empty_master() {
    let plan = Fixture::new().plan(&selection(&[]));
    let [ResourceAction::Create(master)] = plan.actions.as_slice() else { panic!() };
    let hash = "83ff749c5d8eb5a0b62d714175bcbaef1409b371fc5a229a002db6fcc1f144e1".to_owned();
    assert_eq!(master.part, Part::Master { hash, count: 1, envelopes: 0 });
    assert_eq!(master.resources, 0..0);
}

// checklist 20.19
#[test]
fn after_a_crash_only_the_tail_is_created() {
    let large = selection(&[("a", 700_000), ("b", 700_000), ("c", 700_000), ("d", 700_000)]);
    let mut fixture = Fixture::new();
    let whole = fixture.plan(&large);
    assert_eq!(created(&whole), ["web-0-snapshot", "web-0-0", "web-0-1", "web-0-2"]);
    fixture.carry_out(&whole.actions[..2], &large);
    let rest = fixture.step(&large);
    assert_eq!(created(&rest), ["web-0-1", "web-0-2"]);
    assert_eq!(fixture.step(&large).actions, []);
}

// checklist 20.20
#[test]
fn the_limit_counts_groups_and_new_ones_come_first() {
    let large = |name: &str| selection(&[(name, 700_000), ("z", 700_000)]);
    let mut fixture = Fixture::new();
    fixture.limit = 2;
    for name in ["a", "b"] {
        fixture.step(&large(name));
    }
    let plan = fixture.step(&large("c"));
    assert_eq!(
        plan.actions.iter().filter(|a| matches!(a, ResourceAction::Delete { .. })).count(),
        2
    );
    assert_eq!(
        plan.actions[plan.actions.len() - 2..],
        [delete("web-0-0"), delete("web-0-snapshot")]
    );
    assert_eq!(fixture.names(), ["web-1-0", "web-1-snapshot", "web-2-0", "web-2-snapshot"]);

    let mut fixture = Fixture::new();
    fixture.limit = 1;
    fixture.step(&small("a"));
    let plan = fixture.step(&small("b"));
    assert_eq!(created(&plan), ["web-1-snapshot"]);
    assert_eq!(plan.actions.last(), Some(&delete("web-0-snapshot")));
    assert_eq!(fixture.names(), ["web-1-snapshot"]);
}

// checklist 20.20
#[test]
fn a_group_with_missing_members_is_pruned_as_a_group() {
    let large = selection(&[("a", 700_000), ("z", 700_000)]);
    let mut fixture = Fixture::new();
    fixture.limit = 1;
    fixture.step(&large);
    fixture.snapshots.retain(|s| s.hash.is_none());
    fixture.snapshots.push(Arc::new(ResourceSnapshot {
        name: "web-1-snapshot".into(),
        index: Some("1".into()),
        latest: true,
        hash: Some("h".into()),
        count: Some("1".into()),
        ..ResourceSnapshot::default()
    }));
    let plan = fixture.step(&small("b"));
    assert_eq!(created(&plan), ["web-2-snapshot"]);
    assert_eq!(fixture.names(), ["web-2-snapshot"]);
}

#[test]
fn an_index_in_use_outlives_the_limit_until_it_is_let_go() {
    let mut fixture = Fixture::new();
    fixture.limit = 1;
    fixture.step(&small("a"));
    fixture.bind("c1", "web-0-snapshot");
    fixture.step(&small("b"));
    assert_eq!(fixture.names(), ["web-0-snapshot", "web-1-snapshot"]);
    let bound = Arc::make_mut(&mut fixture.bindings[0]);
    bound.spec.resource_snapshot_name = "web-1-snapshot".into();
    fixture.runs = vec!["0".into()];
    assert_eq!(fixture.step(&small("b")).actions, [], "a run still works with it");
    fixture.runs.clear();
    assert_eq!(fixture.step(&small("b")).actions, [delete("web-0-snapshot")]);
    assert_eq!(prune_only(&fixture.seen()), []);
}

#[test]
fn bindings_that_are_going_do_not_hold_an_index() {
    for state in ["deleting", "unscheduled"] {
        let mut fixture = Fixture::new();
        fixture.limit = 1;
        fixture.step(&small("a"));
        let binding = fixture.bind("c1", "web-0-snapshot");
        binding.deleting = state == "deleting";
        if state == "unscheduled" {
            binding.spec.state = BindingState::Unscheduled;
        }
        fixture.step(&small("b"));
        assert_eq!(fixture.names(), ["web-1-snapshot"], "{state}");
    }
}

#[test]
fn two_latest_snapshots_heal_to_the_highest_index() {
    let mut fixture = Fixture::new();
    fixture.step(&small("a"));
    fixture.step(&small("b"));
    fixture.named("web-0-snapshot").latest = true;
    let plan = fixture.step(&small("b"));
    assert_eq!(plan.actions, [mark("web-0-snapshot", false)]);
    assert_eq!(plan.latest.index, "1");
    assert_eq!(fixture.step(&small("b")).actions, []);
}

// checklist 20.21
#[test]
fn labels_and_annotations_that_cannot_be_read_are_internal_errors() {
    type Spoil = fn(&mut ResourceSnapshot);
    let rows: [(&str, Spoil, &str); 8] = [
        ("no index", |s| s.index = None, "resource index label: it is missing"),
        (
            "text for an index",
            |s| s.index = Some("x".into()),
            r#"resource index label: strconv.Atoi: parsing "x": invalid syntax"#,
        ),
        (
            "negative index",
            |s| s.index = Some("-1".into()),
            "resource index label: must not be negative",
        ),
        ("no count", |s| s.count = None, "count annotation: it is missing"),
        (
            "count of zero",
            |s| s.count = Some("0".into()),
            "count annotation: it must be at least 1",
        ),
        (
            "negative count",
            |s| s.count = Some("-2".into()),
            "count annotation: must not be negative",
        ),
        ("no subindex", |s| s.subindex = None, "subindex annotation: it is missing"),
        (
            "negative subindex",
            |s| s.subindex = Some("-1".into()),
            "subindex annotation: must not be negative",
        ),
    ];
    for (what, spoil, want) in rows {
        let mut fixture = Fixture::new();
        fixture.step(&small("a"));
        fixture.named("web-0-snapshot").count = Some("2".into());
        fixture.snapshots.push(Arc::new(ResourceSnapshot {
            name: "web-0-0".into(),
            index: Some("0".into()),
            subindex: Some("0".into()),
            ..ResourceSnapshot::default()
        }));
        let name = if what.ends_with("subindex") { "web-0-0" } else { "web-0-snapshot" };
        spoil(fixture.named(name));
        assert_eq!(
            fixture.trouble(&small("a")),
            PassError::Snapshot {
                of: Frozen::Resources,
                name: name.into(),
                cause: format!("resource snapshot {name} has a bad {want}"),
            },
            "{what}"
        );
    }
    // Labelled latest, but nobody has the hash.
    let mut fixture = Fixture::new();
    fixture.step(&small("a"));
    fixture.named("web-0-snapshot").hash = None;
    assert!(matches!(fixture.trouble(&small("a")), PassError::Snapshot { .. }));
    fixture.named("web-0-snapshot").latest = false;
    fixture.named("web-0-snapshot").subindex = Some("0".into());
    assert!(matches!(fixture.trouble(&small("a")), PassError::Snapshot { .. }));
}

// checklist 20.22
#[test]
fn a_change_waits_for_the_interval_and_for_others() {
    let seconds = SignedDuration::from_secs;
    // age of the snapshot, stamp (seconds ago), minimum interval, collection -> wait, stamped
    type Row = (&'static str, i64, Option<&'static str>, i64, i64, Option<i64>, bool);
    let rows: [Row; 9] = [
        ("both zero", 5, None, 0, 0, None, false),
        ("young snapshot", 5, None, 30, 15, Some(25), true),
        ("old snapshot", 100, None, 30, 15, Some(15), true),
        ("long old, no collection", 100, None, 30, 0, None, false),
        ("young, no collection", 10, None, 30, 0, Some(20), true),
        ("no interval", 1, None, 0, 15, Some(15), true),
        ("stamped, not due", 100, Some("2026-01-01T11:59:50Z"), 30, 15, Some(5), false),
        ("stamped, due", 100, Some("2026-01-01T11:59:45Z"), 30, 15, None, false),
        ("stamp cannot be read", 100, Some("yesterday"), 30, 15, Some(15), true),
    ];
    for (what, age, stamp, interval, collection, wait, stamped) in rows {
        let mut fixture = Fixture::new();
        fixture.step(&small("a"));
        fixture.named("web-0-snapshot").created = ago(age);
        fixture.named("web-0-snapshot").detected = stamp.map(str::to_owned);
        let batching =
            Batching { minimum_interval: seconds(interval), collection: seconds(collection) };
        let plan = plan(&fixture.seen(), &small("b"), Some(batching)).unwrap();
        assert_eq!(plan.wait, wait.map(seconds), "{what}");
        assert_eq!(plan.latest.index, if wait.is_some() { "0" } else { "1" }, "{what}");
        let stamp = ResourceAction::Stamp {
            name: "web-0-snapshot".into(),
            at: "2026-01-01T12:00:00Z".into(),
        };
        assert_eq!(plan.actions.contains(&stamp), stamped, "{what}");
        if wait.is_some() {
            assert_eq!(plan.latest.resources, [small("a").resources[0].id.clone()], "{what}");
        }
    }
}

#[test]
fn a_run_does_not_wait() {
    let mut fixture = Fixture::new();
    fixture.step(&small("a"));
    let plan = plan(&fixture.seen(), &small("b"), None).unwrap();
    assert_eq!(created(&plan), ["web-1-snapshot"]);
}

// checklist 20.23
#[test]
fn while_a_change_waits_the_old_content_is_told_in_order() {
    let large = selection(&[("a", 700_000), ("b", 700_000), ("c", 700_000)]);
    let mut fixture = Fixture::new();
    fixture.step(&large);
    fixture.snapshots.reverse();
    let plan = plan(&fixture.seen(), &small("x"), Some(Batching::default())).unwrap();
    let names: Vec<&str> = plan.latest.resources.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
}
