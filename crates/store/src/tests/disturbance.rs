//! What faults do to watches and reads, and that a seed replays exactly.

use std::time::Duration;

use super::*;
use crate::env::plan::{Effect, Rule, Verbs, When, Window};
use crate::env::{Call, FaultOutcome, FaultPlan, Interference, Point, Trace};

fn call<'a>(who: &'a str, verb: &'a str) -> Call<'a> {
    Call { cluster: "hub", who, verb, resource: "pods", namespace: "a", name: "x" }
}

fn rule(point: Point, when: When, effect: Effect) -> Rule {
    Rule { when, ..Rule::at(point, effect) }
}

fn disturbed(rules: Vec<Rule>) -> (Arc<Store>, Arc<FaultPlan>) {
    let env = Env::simulated(1);
    let plan = Arc::new(FaultPlan::new(7, env.clock.clone(), rules));
    (Store::new(env.with_faults(plan.clone()), Limits::default()), plan)
}

fn watch(store: &Store, from: WatchFrom) -> Result<Subscription, Expired> {
    store.watch_as("pods", from, Filter::default(), &call("agent", "watch"))
}

#[tokio::test(start_paused = true)]
async fn a_delayed_watch_sees_nothing_and_then_catches_up() {
    let delay = Effect::Do(FaultOutcome::Delay(Duration::from_secs(60)));
    let (store, _) = disturbed(vec![rule(Point::WatchEvent, When::Nth(2), delay)]);
    let mut watch = watch(&store, WatchFrom::Now).unwrap();
    for content in 1..=4 {
        store.set("pods", "a/x", "web", content);
    }
    assert_eq!(drain(&mut watch), ["+ a/x web=1 @2"]);
    assert_eq!(watch.progress(), 2, "the event held back has not been seen");
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(drain(&mut watch).len(), 0);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(drain(&mut watch), ["~ a/x web=2 @3", "~ a/x web=3 @4", "~ a/x web=4 @5"]);
    assert_eq!(watch.progress(), 5);
}

#[test]
fn a_dropped_watch_can_be_resumed_without_loss() {
    let drop = Effect::Do(FaultOutcome::Drop);
    let (store, _) = disturbed(vec![rule(Point::WatchEvent, When::Nth(2), drop)]);
    let mut first = watch(&store, WatchFrom::Now).unwrap();
    for content in 1..=3 {
        store.set("pods", "a/x", "web", content);
    }
    assert_eq!(drain(&mut first), ["+ a/x web=1 @2"]);
    assert_eq!(first.why_closed(), Some(WatchEnd::Dropped));
    assert_eq!(first.progress(), 2);
    let mut second = watch(&store, WatchFrom::After(2)).unwrap();
    assert_eq!(drain(&mut second), ["~ a/x web=2 @3", "~ a/x web=3 @4"]);
}

#[test]
fn a_dropped_and_compacted_watch_must_list_again() {
    let expire = Effect::Do(FaultOutcome::Expire);
    let (store, plan) = disturbed(vec![rule(Point::WatchEvent, When::Nth(2), expire)]);
    let mut first = watch(&store, WatchFrom::Now).unwrap();
    for content in 1..=3 {
        store.set("pods", "a/x", "web", content);
    }
    assert_eq!(drain(&mut first), ["+ a/x web=1 @2"]);
    let error = watch(&store, WatchFrom::After(first.progress())).unwrap_err();
    assert_eq!(error.to_string(), "too old resource version: 2 (4)");
    assert_eq!(plan.fired(), [1]);
    let list = store.list("pods", Scope::All);
    assert!(watch(&store, WatchFrom::After(list.revision)).is_ok());
}

#[test]
fn a_watch_may_begin_by_repeating_itself() {
    let replay = Effect::Do(FaultOutcome::Replay(2));
    let (store, _) = disturbed(vec![rule(Point::WatchStart, When::Always, replay)]);
    for content in 1..=3 {
        store.set("pods", "a/x", "web", content);
    }
    let mut again = watch(&store, WatchFrom::After(4)).unwrap();
    assert_eq!(drain(&mut again), ["~ a/x web=2 @3", "~ a/x web=3 @4"]);
    // Never from before what is known: a replay is no reason to expire.
    store.compact(Some("pods"), 5);
    let mut again = watch(&store, WatchFrom::After(4)).unwrap();
    assert_eq!(drain(&mut again).len(), 0);
}

#[test]
fn a_watch_of_the_present_may_begin_in_the_past() {
    let stale = Effect::Do(FaultOutcome::Stale(2));
    let (store, _) = disturbed(vec![rule(Point::WatchStart, When::Always, stale)]);
    for content in 1..=3 {
        store.set("pods", "a/x", "web", content);
    }
    let mut watch = watch(&store, WatchFrom::CurrentThenLive).unwrap();
    store.set("pods", "a/x", "web", 4);
    assert_eq!(
        drain(&mut watch),
        ["+ a/x web=1 @2", "= @2", "~ a/x web=2 @3", "~ a/x web=3 @4", "~ a/x web=4 @5"]
    );
    assert_eq!(watch.progress(), 5);
}

#[test]
fn bookmarks_can_be_starved() {
    let starve = Effect::Do(FaultOutcome::Starve);
    let (store, _) = disturbed(vec![rule(Point::Bookmark, When::First(2), starve)]);
    let mut watch = watch(&store, WatchFrom::Now).unwrap();
    assert_eq!([watch.bookmark(), watch.bookmark(), watch.bookmark()], [None, None, Some(1)]);
}

#[test]
fn no_bookmark_is_sent_before_the_initial_list_is() {
    let store = store();
    let from = WatchFrom::CurrentThenLive;
    let mut watch = store.watch("pods", from, Filter::default()).unwrap();
    assert_eq!(watch.bookmark(), None);
    drain(&mut watch);
    assert_eq!(watch.bookmark(), Some(1));
}

#[test]
fn a_stale_read_shows_the_past_as_far_as_it_is_known() {
    let stale = Effect::Do(FaultOutcome::Stale(2));
    let (store, _) = disturbed(vec![rule(Point::Read, When::Nth(2), stale)]);
    for content in 1..=4 {
        store.set("pods", "a/x", "web", content);
    }
    let read = || store.env().staleness(&call("agent", "list"));
    assert_eq!([read(), read(), read()], [0, 2, 0]);
    let back = |revisions| {
        let list = store.list_back("pods", Scope::All, revisions);
        format!("{} | {}", list.revision, lines(&list).join(", "))
    };
    assert_eq!(back(0), "5 | a/x web=4 @5");
    assert_eq!(back(2), "3 | a/x web=2 @3");
    assert_eq!(back(4), "1 | ");
    store.compact(Some("pods"), 4);
    assert_eq!(back(4), "3 | a/x web=2 @3");
    let one = store.get_back("pods", &key("a/x"), 1).unwrap();
    assert_eq!(line(&one), "a/x web=3 @4");
}

#[tokio::test(start_paused = true)]
async fn a_client_can_be_killed_between_commit_and_reply() {
    let crash = Rule {
        who: "hub-*".to_owned(),
        verbs: Verbs::Writes,
        ..rule(Point::PostCommit, When::Nth(2), Effect::Crash)
    };
    let (store, plan) = disturbed(vec![crash]);
    let work = {
        let store = store.clone();
        tokio::spawn(async move {
            for content in 1..=3 {
                let call = call("hub-1", "update");
                store.env().pass(Point::PreCommit, &call).await.unwrap();
                store.set("pods", "a/x", "web", content);
                store.env().pass(Point::PostCommit, &call).await.unwrap();
            }
        })
    };
    let task = work.abort_handle();
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    plan.on_crash({
        let told = told.clone();
        move |crash| {
            told.lock().unwrap().push(crash.clone());
            task.abort();
        }
    });
    assert!(work.await.unwrap_err().is_cancelled());
    assert_eq!(lines(&store.list("pods", Scope::All)), ["a/x web=2 @3"]);
    let told = told.lock().unwrap();
    assert_eq!((told.len(), told[0].who.as_str()), (1, "hub-1"));
    assert_eq!((told[0].point, told[0].key.as_str()), (Point::PostCommit, "pods/a/x"));
}

/// A little world: two writers and a watcher, everything decided by the seed.
async fn world(seed: u64) -> (u64, Vec<String>) {
    let trace = Arc::new(Trace::recording());
    let env = Env::simulated(seed).with_trace(trace.clone());
    let chance = |point, p, effect| rule(point, When::Chance(p), effect);
    let busy = Effect::Do(FaultOutcome::Answer { code: 429, retry_after: Some(1) });
    let conflict = Effect::Do(FaultOutcome::Answer { code: 409, retry_after: None });
    let mut late = chance(Point::Request, 0.5, Effect::DelayUpTo(Duration::from_secs(3)));
    late.window = Some(Window { from: Duration::from_secs(10), until: Duration::from_secs(40) });
    let rules = vec![
        late,
        chance(Point::Request, 0.1, busy),
        chance(Point::PreCommit, 0.1, conflict),
        chance(Point::PostCommit, 0.1, Effect::Do(FaultOutcome::Sever)),
        chance(Point::WatchEvent, 0.2, Effect::DelayUpTo(Duration::from_secs(5))),
        chance(Point::WatchEvent, 0.1, Effect::Do(FaultOutcome::Drop)),
        chance(Point::WatchStart, 0.5, Effect::Do(FaultOutcome::Replay(3))),
    ];
    let plan = Arc::new(FaultPlan::new(seed, env.clock.clone(), rules));
    let store = Store::new(env.with_faults(plan), Limits::default());
    let writer = |name: &'static str| {
        let store = store.clone();
        async move {
            for content in 0..40 {
                let pause = Duration::from_millis(store.env().entropy.u64() % 1000);
                tokio::time::sleep(pause).await;
                let call = call(name, "update");
                let outcome = async {
                    store.env().pass(Point::Request, &call).await?;
                    store.env().pass(Point::PreCommit, &call).await?;
                    let written = store.set("pods", "a/x", name, content);
                    store.env().pass(Point::PostCommit, &call).await?;
                    Ok(written.revision)
                };
                let (revision, code) = match outcome.await {
                    Ok(revision) => (revision, 200),
                    Err(Interference::Severed) => (0, 0),
                    Err(Interference::Answer(error)) => (0, error.code),
                };
                store.env().record(&call, revision, code);
            }
        }
    };
    let watcher = async {
        let mut from = WatchFrom::CurrentThenLive;
        loop {
            let mut subscription = watch(&store, from).expect("nothing is compacted");
            while let Some(seen) = subscription.next().await {
                store.env().record(&call("watcher", "watch"), seen.revision(), 0);
            }
            from = WatchFrom::After(subscription.progress());
        }
    };
    let writers = futures::future::join(writer("w1"), writer("w2"));
    let both = std::pin::pin!(writers);
    futures::future::select(both, std::pin::pin!(watcher)).await;
    (trace.hash(), trace.lines())
}

#[tokio::test(start_paused = true)]
async fn a_seed_replays_exactly() {
    let (hash, lines) = world(11).await;
    let (again, same) = world(11).await;
    assert_eq!(lines, same);
    assert_eq!(hash, again);
    assert_ne!(hash, world(12).await.0);
    let codes = |code: &str| lines.iter().filter(|line| line.ends_with(code)).count();
    assert!(codes(" 429") > 0 && codes(" 409") > 0, "something went wrong on the way");
}
