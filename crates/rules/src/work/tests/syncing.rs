//! Which Works there are, and when they are written.

use flagship_api::binding::BindingState;
use flagship_api::condition::{ConditionStatus, Conditions};
use flagship_api::keys::{annotation, label};
use jiff::SignedDuration;
use serde_json::json;

use super::fixture::{Fixture, map};
use crate::work::{ANSWER_WINDOW, Action, PARTIAL_GROUP_RETRY, Retry, Waiting};

const GONE: &str = "Overridden False OverriddenFailed: Failed to apply the override rules on the \
                    resources: the master resource snapshot is not found";

// checklist 12.38
#[test]
fn a_binding_that_is_only_scheduled_or_has_no_cluster_is_left_alone() {
    let mut fixture = Fixture::cluster_wide();
    fixture.binding().finalizers = [].into();
    fixture.snapshot(0, &[&[map("one", "1")]]);
    assert_eq!(fixture.pass().waiting, Some(Waiting::ToBeBound));
    fixture.bind(0);
    let cluster = fixture.seen.cluster.take();
    assert_eq!(fixture.pass().waiting, Some(Waiting::ForCluster));
    fixture.binding().spec.state = BindingState::Other("Odd".into());
    assert_eq!(fixture.pass().waiting, Some(Waiting::ToBeBound));
    assert!(fixture.objects.is_empty() && !fixture.has_finalizer() && fixture.told == 0);
    fixture.seen.cluster = cluster;
    fixture.binding().spec.state = BindingState::Bound;
    fixture.pass();
    assert!(fixture.has_finalizer());
    assert_eq!(fixture.works(), ["web-work (0, 1): one"]);
}

// checklist 12.39
#[test]
fn a_bound_binding_waits_for_the_word_about_its_own_generation() {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")]]);
    fixture.snapshot(1, &[&[map("one", "2")]]);
    fixture.binding().spec.resource_snapshot_name = "web-1-snapshot".into();
    fixture.binding().generation += 1;
    let before = fixture.seen.binding.status.clone();
    assert_eq!(fixture.pass().waiting, Some(Waiting::ForRollout));
    assert_eq!(fixture.works(), ["web-work (0, 1): one"]);
    assert_eq!(fixture.seen.binding.status, before);
    // Held back is a word, too.
    let generation = fixture.seen.binding.generation;
    let started = fixture.binding().status.conditions.first_mut().unwrap();
    started.status = "False".into();
    started.observed_generation = Some(generation);
    let started = started.clone();
    fixture.pass();
    assert_eq!(fixture.works(), ["web-work (1, 2): one"]);
    assert_eq!(fixture.seen.binding.status.conditions.first(), Some(&started));
}

// checklist 12.39
#[test]
fn an_unscheduled_binding_is_kept_in_step_without_a_start_signal() {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")]]);
    fixture.snapshot(1, &[&[map("one", "2")]]);
    fixture.binding().spec.resource_snapshot_name = "web-1-snapshot".into();
    fixture.binding().spec.state = BindingState::Unscheduled;
    fixture.binding().generation += 1;
    fixture.pass();
    assert_eq!(fixture.works(), ["web-work (1, 2): one"]);
}

// checklist 12.41
#[test]
fn works_come_and_go_with_the_snapshots_of_the_group() {
    for (mut fixture, base) in
        [(Fixture::cluster_wide(), "web"), (Fixture::in_namespace(), "app.web")]
    {
        fixture =
            fixture.delivered(&[&[map("one", "1")], &[map("two", "2")], &[map("three", "3")]]);
        let name = |sub: &str, rest: &str| format!("{base}-{sub} {rest}");
        assert_eq!(
            fixture.works(),
            [name("0", "(0, 1): two"), name("1", "(0, 1): three"), name("work", "(0, 1): one")]
        );
        fixture.snapshot(1, &[&[map("one", "9")], &[map("two", "2")]]);
        fixture.bind(1);
        fixture.pass();
        assert_eq!(
            fixture.works(),
            // What is in the second is the same, so its generation is.
            [name("0", "(1, 1): two"), name("work", "(1, 2): one")]
        );
        assert_eq!(fixture.last(), "Applied False ApplyInProgress: Resources are being applied");
        fixture.snapshot(2, &[&[map("one", "9")], &[map("two", "2")], &[map("four", "4")]]);
        fixture.bind(2);
        fixture.pass();
        assert_eq!(
            fixture.works(),
            [name("0", "(2, 1): two"), name("1", "(2, 1): four"), name("work", "(2, 2): one")]
        );
    }
}

// checklist 12.41
#[test]
fn half_a_group_is_told_and_tried_again_in_a_second() {
    let mut fixture = Fixture::in_namespace();
    fixture.snapshot(0, &[&[map("one", "1")], &[map("two", "2")]]);
    let second = fixture.seen.snapshots.pop().unwrap();
    fixture.bind(0);
    let plan = fixture.pass();
    assert_eq!(plan.trouble.unwrap().retry, Retry::After(PARTIAL_GROUP_RETRY));
    assert_eq!(
        fixture.conditions(),
        ["Overridden False OverriddenFailed: Failed to apply the override rules on the \
          resources: not all resource snapshot in the same index group are created: resource \
          snapshots are still being created for the masterResourceSnapshot web-0-snapshot, total \
          snapshot in the index group = 2, num Of existing snapshot in the group= 1, placement = \
          app/web"]
    );
    assert!(fixture.objects.is_empty());
    fixture.seen.snapshots.push(second);
    fixture.pass();
    assert_eq!(fixture.works(), ["app.web-0 (0, 1): two", "app.web-work (0, 1): one"]);
}

/// How something is spoiled, and what is said of it.
type Spoilt = (fn(&mut Fixture), &'static str);

// checklist 12.40
#[test]
fn labels_and_annotations_that_cannot_be_read_say_which() {
    let table: [Spoilt; 5] = [
        (
            |w| w.snapshot_at(1).subindex = Some("x".into()),
            "resource snapshot web-0-0 has an invalid sub-index annotation x or err \
             strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            |w| w.snapshot_at(1).subindex = Some("-1".into()),
            "resource snapshot web-0-0 has an invalid sub-index annotation -1 or err must not be \
             negative",
        ),
        (
            |w| w.snapshot_at(0).count = Some("many".into()),
            "master resource snapshot web-0-snapshot for placement web has an invalid snapshot \
             count many or err strconv.Atoi: parsing \"many\": invalid syntax",
        ),
        (
            |w| w.snapshot_at(0).index = None,
            "resource snapshot web-0-snapshot has an invalid resource index label  or err \
             strconv.Atoi: parsing \"\": invalid syntax",
        ),
        (
            |w| {
                w.seen.snapshots.clear();
                w.held.snapshots.get_mut("web-0-snapshot").unwrap().placement = None;
            },
            "resource snapshot web-0-snapshot has an invalid CRP tracking label",
        ),
    ];
    for (spoil, cause) in table {
        let mut fixture = Fixture::cluster_wide();
        fixture.snapshot(0, &[&[map("one", "1")], &[map("two", "2")]]);
        spoil(&mut fixture);
        fixture.bind(0);
        assert_eq!(fixture.pass().trouble.unwrap().retry, Retry::BackOff);
        let told = "Overridden False OverriddenFailed: Failed to apply the override rules on the \
                    resources:";
        assert_eq!(fixture.conditions(), [format!("{told} {cause}")]);
    }
}

// checklist 12.42
#[test]
fn a_snapshot_with_nothing_in_it_still_has_a_work() {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[]]);
    assert_eq!(fixture.works(), ["web-work (0, 1): "]);
    let spec = serde_json::to_value(&fixture.objects["web-work"].spec).unwrap();
    assert_eq!(spec, json!({"workload": {}}));
    fixture.all_fine();
    fixture.pass();
    assert_eq!(
        fixture.conditions()[2..],
        [
            "Applied True AllWorkHaveBeenApplied: All corresponding work objects are applied",
            "Available True AllWorkAreAvailable: All corresponding work objects are available",
        ]
    );
}

// checklist 12.44
#[test]
fn a_work_is_rewritten_only_if_it_does_not_say_what_it_carries() {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")]]);
    fixture.writes.clear();
    fixture.pass();
    // The name of the snapshot is for people, and for when the snapshot is gone.
    fixture.tamper("web-work", |meta| {
        meta.annotations.get_or_insert_default().remove(annotation::PARENT_RESOURCE_SNAPSHOT_NAME);
    });
    fixture.pass();
    assert_eq!(fixture.writes, Vec::<String>::new());
    let table: [(&str, Option<&str>); 6] = [
        (label::PARENT_RESOURCE_SNAPSHOT_INDEX, None),
        (label::PARENT_RESOURCE_SNAPSHOT_INDEX, Some("x")),
        (label::PARENT_RESOURCE_SNAPSHOT_INDEX, Some("7")),
        (annotation::PARENT_RESOURCE_OVERRIDE_HASH, None),
        (annotation::PARENT_RESOURCE_OVERRIDE_HASH, Some("other")),
        (annotation::PARENT_CLUSTER_RESOURCE_OVERRIDE_HASH, Some("other")),
    ];
    for (key, value) in table {
        fixture.writes.clear();
        fixture.tamper("web-work", |meta| {
            let is_label = key == label::PARENT_RESOURCE_SNAPSHOT_INDEX;
            let map = if is_label { &mut meta.labels } else { &mut meta.annotations };
            let map = map.get_or_insert_default();
            match value {
                Some(value) => map.insert(key.to_owned(), value.to_owned()),
                None => map.remove(key),
            };
            map.insert("mine".to_owned(), "stays".to_owned());
        });
        fixture.pass();
        assert_eq!(fixture.writes, ["update web-work"], "{key} {value:?}");
        // Only metadata changed, and nothing of others was lost.
        assert_eq!(fixture.works(), ["web-work (0, 1): one"]);
        let meta = &fixture.objects["web-work"].metadata;
        let kept = [&meta.labels, &meta.annotations];
        assert!(kept.into_iter().flatten().any(|map| map.contains_key("mine")));
    }
}

// checklist 12.47
#[test]
fn strategies_reach_works_even_if_the_snapshot_is_gone() {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")]]);
    fixture.all_fine();
    fixture.pass();
    fixture.lose("web-0-snapshot");
    let strategy = json!({"type": "ReportDiff", "comparisonOption": "FullComparison"});
    fixture.binding().spec.apply_strategy = Some(serde_json::from_value(strategy).unwrap());
    fixture.changed();
    fixture.writes.clear();
    fixture.pass();
    assert_eq!(fixture.writes, ["steer web-work"]);
    assert_eq!(
        fixture.conditions()[2..],
        ["DiffReported False DiffReportInProgress: Diff reporting on resources is in progress"]
    );
    // Also when nothing else can be done.
    fixture.binding().spec.resource_snapshot_name = "web-5-snapshot".into();
    fixture.binding().spec.apply_strategy = None;
    fixture.changed();
    fixture.writes.clear();
    assert_eq!(fixture.pass().trouble.unwrap().retry, Retry::Never);
    assert_eq!(fixture.writes, ["steer web-work"]);
    assert_eq!(fixture.objects["web-work"].spec.apply_strategy, None);
    assert_eq!(fixture.conditions(), [GONE]);
}

// checklist 12.47
#[test]
fn comparing_only_and_back_swaps_the_conditions_and_clears_the_lists() {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")]]);
    fixture.says("web-work", "Applied", ConditionStatus::False, "SomeManifestsAreNotApplied");
    let identifier = json!({"ordinal": 0, "version": "v1", "kind": "ConfigMap", "name": "one",
        "namespace": "app"});
    let failed = json!([{"type": "Applied", "status": "False", "reason": "ManifestApplyFailed",
        "message": "", "lastTransitionTime": "2026-01-12T22:44:08Z"}]);
    fixture.manifest("web-work", json!({"identifier": identifier, "conditions": failed}));
    fixture.pass();
    assert_eq!(fixture.seen.binding.status.failed_placements.len(), 1);
    let diff = Some(serde_json::from_value(json!({"type": "ReportDiff"})).unwrap());
    fixture.binding().spec.apply_strategy = diff;
    fixture.changed();
    fixture.pass();
    assert!(fixture.seen.binding.status.failed_placements.is_empty());
    fixture.says("web-work", "DiffReported", ConditionStatus::True, "AllManifestsDiffReported");
    fixture.pass();
    let kinds = |fixture: &Fixture| -> Vec<String> {
        fixture.conditions().iter().map(|line| line.split(' ').next().unwrap().into()).collect()
    };
    assert_eq!(kinds(&fixture), ["Overridden", "WorkSynchronized", "DiffReported"]);
    fixture.binding().spec.apply_strategy = None;
    fixture.changed();
    fixture.pass();
    assert_eq!(kinds(&fixture), ["Overridden", "WorkSynchronized", "Applied"]);
    fixture.objects.get_mut("web-work").unwrap().status = None;
    fixture.all_fine();
    fixture.pass();
    assert_eq!(kinds(&fixture), ["Overridden", "WorkSynchronized", "Applied", "Available"]);
}

// checklist 12.48
#[test]
fn works_that_carry_a_lost_snapshot_keep_reporting() {
    for with_annotation in [true, false] {
        let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")], &[]]);
        fixture.lose("web-0-snapshot");
        if !with_annotation {
            for work in ["web-work", "web-0"] {
                let lost = annotation::PARENT_RESOURCE_SNAPSHOT_NAME;
                fixture.tamper(work, |meta| {
                    meta.annotations.get_or_insert_default().remove(lost);
                });
            }
        }
        fixture.all_fine();
        let plan = fixture.pass();
        assert!(plan.trouble.is_none());
        assert!(fixture.last().starts_with("Available True AllWorkAreAvailable"));
    }
}

// checklist 12.48
#[test]
fn a_lost_snapshot_that_no_work_carries_is_the_end() {
    let mut fixture = Fixture::cluster_wide();
    fixture.bind(0);
    assert_eq!(fixture.pass().trouble.unwrap().retry, Retry::Never);
    assert_eq!(fixture.conditions(), [GONE]);

    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")]]);
    fixture.bind(3);
    fixture.pass();
    assert_eq!(fixture.conditions(), [GONE]);
    assert_eq!(fixture.works(), ["web-work (0, 1): one"]);
    // Nothing named at all is no different, and nobody is asked for it.
    fixture.binding().spec.resource_snapshot_name = String::new();
    fixture.changed();
    fixture.pass();
    assert_eq!(fixture.conditions(), [GONE]);
}

#[test]
fn a_snapshot_that_only_the_mirror_lacks_is_waited_for_in_silence() {
    let mut fixture = Fixture::cluster_wide();
    fixture.snapshot(0, &[&[map("one", "1")]]);
    let late = fixture.seen.snapshots.pop().unwrap();
    fixture.bind(0);
    let plan = fixture.pass();
    assert_eq!((plan.waiting, plan.wake), (Some(Waiting::ForSnapshot), Some(PARTIAL_GROUP_RETRY)));
    assert_eq!(fixture.conditions(), Vec::<String>::new());
    fixture.seen.snapshots.push(late);
    fixture.pass();
    assert_eq!(fixture.works(), ["web-work (0, 1): one"]);
}

#[test]
fn a_work_that_somebody_deletes_is_made_again_once_it_is_gone() {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")]]);
    fixture.hold();
    fixture.tamper("web-work", |meta| {
        meta.deletion_timestamp = serde_json::from_value(json!("2026-01-12T22:44:08Z")).unwrap();
    });
    assert_eq!(fixture.pass().trouble.unwrap().retry, Retry::BackOff);
    assert_eq!(
        fixture.last(),
        "WorkSynchronized False SyncWorkFailed: Failed to synchronize the work to the latest: \
         work web-work is being deleted"
    );
    fixture.objects.clear();
    fixture.pass();
    assert_eq!(fixture.works(), ["web-work (0, 1): one"]);
}

#[test]
fn a_dropped_work_that_lingers_does_not_keep_the_others_from_reporting() {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")], &[map("two", "2")]]);
    fixture.hold();
    fixture.snapshot(1, &[&[map("one", "1")]]);
    fixture.bind(1);
    fixture.pass();
    assert_eq!(fixture.last(), "Applied False ApplyInProgress: Resources are being applied");
    fixture.all_fine();
    fixture.says("web-0", "Applied", ConditionStatus::False, "SomeManifestsAreNotApplied");
    let plan = fixture.pass();
    assert_eq!(plan.wake, Some(crate::work::DROPPED_RETRY));
    assert!(fixture.last().starts_with("Available True AllWorkAreAvailable"));
}

#[test]
fn statuses_come_back_as_the_placement_says() {
    let mut fixture = Fixture::cluster_wide();
    let mirror = json!({"type": "Mirror", "destination": "OriginalResource"});
    let mirror = Some(serde_json::from_value(mirror).unwrap());
    fixture.seen.placement.as_mut().unwrap().report_back.clone_from(&mirror);
    let mut fixture = fixture.delivered(&[&[map("one", "1")]]);
    assert_eq!(fixture.objects["web-work"].spec.report_back_strategy, mirror);
    assert_eq!(fixture.works(), ["web-work (0, 1): one"]);
    // A placement nobody knows any more changes nothing.
    fixture.seen.placement = None;
    fixture.writes.clear();
    fixture.pass();
    assert_eq!(fixture.writes, Vec::<String>::new());
    fixture.seen.placement = Some(crate::work::Placement::default());
    fixture.pass();
    assert_eq!(fixture.writes, ["steer web-work"]);
    assert_eq!(fixture.objects["web-work"].spec.report_back_strategy, None);
}

#[test]
fn a_member_that_answers_at_once_is_told_of_by_one_status() {
    let mut fixture = Fixture::cluster_wide();
    fixture.snapshot(0, &[&[map("one", "1")]]);
    fixture.bind(0);
    let first = fixture.quick_pass();
    assert_eq!((first.answer_due, first.wake), (Some(ANSWER_WINDOW), Some(ANSWER_WINDOW)));
    assert_eq!(fixture.told, 0, "the Work is written, and nothing said");
    fixture.seen.answer_due = Some(SignedDuration::from_millis(500));
    let waiting = fixture.quick_pass();
    assert_eq!(waiting.wake, fixture.seen.answer_due, "it looks again when the time is over");
    fixture.all_fine();
    fixture.quick_pass();
    assert_eq!(fixture.told, 1);
    let conditions = &fixture.seen.binding.status.conditions;
    assert!(conditions.is_true_at("Available", fixture.seen.binding.generation()));
}

#[test]
fn a_member_that_takes_its_time_is_said_to_be_at_it() {
    let mut fixture = Fixture::cluster_wide();
    fixture.snapshot(0, &[&[map("one", "1")]]);
    fixture.bind(0);
    fixture.quick_pass();
    fixture.seen.answer_due = Some(SignedDuration::ZERO);
    fixture.quick_pass();
    let said = fixture.seen.binding.status.conditions.of_type("Applied").unwrap();
    assert_eq!(said.reason, "ApplyInProgress");
}

#[test]
fn success_of_other_content_does_not_stand_while_a_member_is_waited_for() {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")]]);
    fixture.all_fine();
    fixture.pass();
    // Somebody tampers with the Work, whose binding keeps its generation.
    fixture.tamper("web-work", |meta| {
        meta.labels.get_or_insert_default().remove(label::PARENT_RESOURCE_SNAPSHOT_INDEX);
        meta.annotations.get_or_insert_default().clear();
    });
    let plan = fixture.quick_pass();
    assert_eq!(plan.answer_due, None);
    let claims = |fixture: &Fixture| {
        let binding = &fixture.seen.binding;
        binding.status.conditions.is_true_at("Available", binding.generation())
    };
    assert!(!claims(&fixture), "{:?}", plan.actions);
}

#[test]
fn a_start_signal_reaches_the_status_although_there_is_no_cluster() {
    let mut fixture = Fixture::cluster_wide();
    fixture.snapshot(0, &[&[map("one", "1")]]);
    fixture.bind(0);
    fixture.binding().signal_unwritten = true;
    fixture.seen.cluster = None;
    let plan = fixture.quick_pass();
    let told = Box::new(fixture.seen.binding.status.clone());
    assert_eq!(plan.actions, [Action::Status(told)]);
}
