//! What a hub did not see happen, it sees in the next list: whichever events a list replaces,
//! the end is the same.

use flagship_store::env::plan::{Effect, Rule, Verbs};
use flagship_store::env::{FaultOutcome, Point};
use serde_json::{Value, json};

use crate::rollout::story::{CLUSTER_WIDE, CRS, IN_NAMESPACE, Side, Story, rolling};
use flagship_sim::testing::{CLUSTERS, CRB, CRP, CSPS, RB, WORK, text, tries_everything};

/// Placed, answered, and another version.
const CHAPTERS: usize = 3;

/// A kind whose watch is down, and the part of the story in which it is.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Blind {
    kind: &'static str,
    chapter: usize,
}

/// Lets the hub see nothing of a kind: its watch is cut and forgotten, and lists fail.
fn blind(story: &Story, kind: &str) {
    let rule = |point, verdict| Rule {
        who: "hub".to_owned(),
        resource: kind.to_owned(),
        verbs: Verbs::Reads,
        ..Rule::at(point, Effect::Do(verdict))
    };
    story.disturb(vec![
        rule(Point::WatchEvent, FaultOutcome::Expire),
        rule(Point::Bookmark, FaultOutcome::Expire),
        rule(Point::Request, FaultOutcome::Answer { code: 503, retry_after: None }),
    ]);
}

/// A placement on two clusters, their answers, and another version with answers to it. A blind
/// hub is given its sight back at the end of the chapter, and members answer what follows.
async fn tell(side: Side, blinded: Option<Blind>) -> Vec<String> {
    let story = Story::delivering(80, side, 2).await;
    for chapter in 0..CHAPTERS {
        if let Some(Blind { kind, .. }) = blinded.filter(|blind| blind.chapter == chapter) {
            blind(&story, kind);
        }
        match chapter {
            0 => story.places(rolling(json!("100%"), json!(0))).await,
            2 => story.changes("v1").await,
            _ => {}
        }
        answers(&story).await;
        story.faults.heal();
        // A reflector that was refused for a while comes back after half a minute at the latest.
        story.heartbeats(1).await;
    }
    story.heartbeats(1).await;
    answers(&story).await;
    story.heartbeats(1).await;
    let Side { placements, bindings, space } = side;
    let mut end = conditions(&story.get(placements, space, "web"));
    end.extend(story.bindings_of(bindings, "web").iter().flat_map(conditions));
    end.extend(story.told());
    end
}

/// Both members answer every Work that they have not answered.
async fn answers(story: &Story) {
    for member in ["m1", "m2"] {
        let works = story.list(WORK, &format!("fleet-member-{member}"));
        let generation = |work: &Value| work["metadata"]["generation"].clone();
        let answered = |work: &Value| {
            let said = &work["status"]["conditions"][0]["observedGeneration"];
            *said == generation(work)
        };
        if !works.iter().all(answered) {
            story.member_is_fine(member).await;
        }
    }
    story.settle().await;
}

fn conditions(object: &Value) -> Vec<String> {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let line = |c: &Value| {
        let [kind, status, reason] = ["type", "status", "reason"].map(|field| text(&c[field]));
        format!("{kind} {status} {reason} at {}", c["observedGeneration"])
    };
    let mut lines: Vec<String> = all.iter().map(line).collect();
    lines.sort();
    lines
}

async fn ends_the_same(side: Side, kinds: &[&'static str]) {
    let expected = tell(side, None).await;
    assert!(expected.iter().filter(|line| line.starts_with("Available True")).count() == 2);
    assert!(expected.contains(&"m2 Bound 1 started".to_owned()), "{expected:#?}");
    for (at, &kind) in kinds.iter().enumerate() {
        // Unless everything is tried, one chapter for each kind, and every chapter for some.
        let chapters =
            (0..CHAPTERS).filter(|chapter| tries_everything() || *chapter == at % CHAPTERS);
        for chapter in chapters {
            let blinded = Blind { kind, chapter };
            assert_eq!(tell(side, Some(blinded)).await, expected, "{blinded:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_a_list_replaces_a_placement_ends_the_same() {
    ends_the_same(CLUSTER_WIDE, &[CRP, CSPS, CRS, CRB, WORK, CLUSTERS]).await;
}

#[tokio::test(start_paused = true)]
async fn whatever_a_list_replaces_a_namespaced_placement_ends_the_same() {
    ends_the_same(IN_NAMESPACE, &[RB, WORK]).await;
}
