//! When a binding is in sync, and what it says about its cluster.

use flagship_api::binding::BindingState;
use flagship_api::condition::{ConditionStatus, Generation, draft};
use flagship_api::placement_status::NamespacedName;
use flagship_api::staged_update::UpdateRunState::Run;

use super::fixture::Fixture;
use crate::model::Binding;
use crate::update_run::delivery::{Delivery, Target, look};

/// A run that has delivered to m2, and what it makes of the binding after a change.
fn after(change: impl Fn(&mut Binding)) -> Delivery {
    let mut fixture = Fixture::new(None);
    let run = fixture.create("r", "1", Run);
    fixture.settle(run);
    change(fixture.binding("m2"));
    let seen = fixture.seen(run);
    let target = Target::of(&seen, &seen.run.status).unwrap();
    let binding = seen.bindings.iter().find(|binding| binding.cluster() == "m2").unwrap();
    look(&seen, &target, binding, &seen.run.status.stages_status[0].clusters[0])
}

#[test]
fn in_sync_comparison() {
    assert_eq!(after(|_| {}), Delivery::Running);
    let name = || NamespacedName { namespace: "app".into(), name: "o-0".into() };
    assert_eq!(after(|b| b.spec.resource_snapshot_name = "x".into()), Delivery::Taken);
    assert_eq!(after(|b| b.spec.resource_override_snapshots = vec![name()]), Delivery::Taken);
    assert_eq!(
        after(|b| b.spec.cluster_resource_override_snapshots = vec!["o-0".into()]),
        Delivery::Taken
    );
    assert_eq!(after(|b| b.spec.apply_strategy = None), Delivery::Taken);
    assert_eq!(after(|b| b.spec.state = BindingState::Scheduled), Delivery::Taken);
    assert_eq!(after(|b| b.generation += 1), Delivery::Unsignalled);
    // Nobody's mark on it: not reached yet.
    let untouched = after(|b| {
        b.spec.resource_snapshot_name = "x".into();
        b.fence = None;
        b.status.conditions.clear();
    });
    assert_eq!(untouched, Delivery::Untouched);
}

#[test]
fn result_evaluation() {
    let told = |kind: &'static str, truth: ConditionStatus, reason: &'static str, behind: i64| {
        after(move |binding| {
            let at = Generation(binding.generation - behind);
            let since = binding.status.conditions[0].last_transition_time.0;
            draft(kind).is(truth, reason).set(&mut binding.status.conditions, at, since);
        })
    };
    for (kind, truth, reason, behind, result) in [
        ("Available", ConditionStatus::True, "AllWorkAreAvailable", 0, Delivery::Done),
        (
            "Available",
            ConditionStatus::True,
            "NotAllWorkAreAvailabilityTrackable",
            0,
            Delivery::Done,
        ),
        ("DiffReported", ConditionStatus::True, "AllWorkHaveDiffReported", 0, Delivery::Done),
        ("Available", ConditionStatus::True, "AllWorkAreAvailable", 1, Delivery::Running),
        ("Overridden", ConditionStatus::False, "OverriddenFailed", 0, Delivery::Running),
        (
            "WorkSynchronized",
            ConditionStatus::False,
            "WorkNotSynchronizedYet",
            0,
            Delivery::Running,
        ),
        ("WorkSynchronized", ConditionStatus::False, "SyncWorkFailed", 0, Delivery::Running),
        ("Applied", ConditionStatus::False, "NotAllWorkHaveBeenApplied", 0, Delivery::Running),
        ("Available", ConditionStatus::False, "ResourceNotAvailableYet", 0, Delivery::Running),
        (
            "DiffReported",
            ConditionStatus::False,
            "NotAllWorkHaveDiffReported",
            0,
            Delivery::Running,
        ),
    ] {
        assert_eq!(told(kind, truth, reason, behind), result, "{kind} {reason}");
    }
}
