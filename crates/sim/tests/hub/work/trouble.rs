//! The work generators in trouble: crashes after any write, lost answers, conflicts. The
//! end is the same.

use std::time::Duration;

use flagship_sim::testing::{Delays, WORK, faults, tries_everything};
use flagship_store::env::plan::{Effect, Rule, Verbs, When};
use flagship_store::env::{FaultOutcome as Fault, Point};

use crate::work::story::{CLUSTER_WIDE, Story, Told, map};

/// Two versions of two Works on two clusters, of which one loses its binding.
async fn live(story: &mut Story, told: Told, crash: bool) -> Vec<String> {
    story.snapshots(told, 0, &[vec![map("one", "1")], vec![map("two", "2")]]).await;
    for member in ["m1", "m2"] {
        let name = format!("web-{member}");
        story.scheduled(told, &name, member).await;
        story.bound(told, &name, 0).await;
    }
    if crash {
        story.kill("hub").await;
        story.start_as("hub").await;
    }
    story.pass(300).await;
    story.snapshots(told, 1, &[vec![map("one", "9")]]).await;
    story.bound(told, "web-m1", 1).await;
    if crash {
        story.kill("hub").await;
        story.start_as("hub").await;
    }
    story.pass(300).await;
    story.delete(told.binding, told.space, "web-m2").await;
    story.faults.heal();
    story.pass(300).await;
    story.member_is_fine("m1", "web-work").await;
    story.pass(60).await;
    let mut end = story.works("m1");
    end.extend(story.works("m2"));
    end.extend(story.ours(told, "web-m1"));
    assert!(story.find(told.binding, told.space, "web-m2").is_none());
    end
}

/// How late answers and events may come while a hub is in trouble.
const LATE: Delays = Delays { request: Duration::from_secs(2), event: Duration::from_secs(5) };

#[tokio::test(start_paused = true)]
async fn whatever_goes_wrong_the_works_end_the_same() {
    let expected = [
        "web-work (1, 2): ConfigMap one",
        "Overridden True NoOverrideSpecified (3): No override rules are configured for the selected resources",
        "WorkSynchronized True AllWorkSynced (3): All of the works are synchronized to the latest",
        "Applied True AllWorkHaveBeenApplied (3): All corresponding work objects are applied",
        "Available True AllWorkAreAvailable (3): All corresponding work objects are available",
    ];
    let mut calm = Story::running(1).await;
    assert_eq!(live(&mut calm, CLUSTER_WIDE, false).await, expected);
    for seed in if tries_everything() { 2..12 } else { 2..4 } {
        let mut story = Story::running(seed).await;
        story.disturb(faults("hub", LATE));
        assert_eq!(live(&mut story, CLUSTER_WIDE, true).await, expected, "seed {seed}");
    }
}

// A list shows the Work for the first time, and its member's answer with it.
#[tokio::test(start_paused = true)]
async fn a_member_that_answers_while_nobody_watches_is_heard_with_the_next_list() {
    let (story, told) = (Story::running(8).await, CLUSTER_WIDE);
    story.snapshots(told, 0, &[vec![map("one", "1")]]).await;
    let rule = |point, fault| Rule {
        who: "hub".to_owned(),
        resource: WORK.to_owned(),
        verbs: Verbs::Reads,
        ..Rule::at(point, Effect::Do(fault))
    };
    let refused = Fault::Answer { code: 503, retry_after: None };
    story.disturb(vec![rule(Point::WatchEvent, Fault::Expire), rule(Point::Request, refused)]);
    story.delivers(told, "web-m1", "m1", 0).await;
    story.member_is_fine("m1", "web-work").await;
    story.faults.heal();
    story.pass(60).await;
    let ours = story.ours(told, "web-m1");
    assert!(ours.iter().any(|line| line.starts_with("Available True")), "{ours:#?}");
}

// Guard, two Works, status: after each of them, and after none.
#[tokio::test(start_paused = true)]
async fn a_hub_that_dies_after_any_write_is_followed_by_one_that_goes_on() {
    let mut story = Story::new(9).await;
    story.options.controllers.membership = false;
    let told = CLUSTER_WIDE;
    story.snapshots(told, 0, &[vec![map("one", "1")], vec![map("two", "2")]]).await;
    for nth in 1..=5 {
        let (name, binding) = (format!("hub-{nth}"), format!("web-{nth}"));
        story.scheduled(told, &binding, "m1").await;
        story.bound(told, &binding, 0).await;
        let stuck = Rule {
            who: name.clone(),
            when: When::Nth(nth),
            verbs: Verbs::Writes,
            ..Rule::at(Point::PostCommit, Effect::Do(Fault::Hang))
        };
        story.disturb(vec![stuck]);
        story.start_as(&name).await;
        story.kill(&name).await;
        story.faults.heal();
        story.start_as("heir").await;
        let works = ["web-0 (0, 1): ConfigMap two", "web-work (0, 1): ConfigMap one"];
        assert_eq!(story.works("m1"), works, "after {nth} writes");
        let ours = story.ours(told, &binding);
        assert!(ours[1].starts_with("WorkSynchronized True"), "{ours:?}");
        assert!(ours[2].starts_with("Applied False"), "{ours:?}");
        story.delete(told.binding, told.space, &binding).await;
        story.settle().await;
        assert_eq!(story.works("m1"), Vec::<String>::new());
        story.stop("heir").await;
    }
}
