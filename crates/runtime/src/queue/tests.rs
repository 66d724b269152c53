//! Laws of the queue, as stories and as properties over random scripts.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use proptest::prelude::*;

use super::*;
use crate::client::ClientError;
use crate::error_action::{ErrorAction, Failure};

fn queue<K: Ord + Clone>() -> Queue<K> {
    Queue::new(QueueConfig::named("test"), &Metrics::default())
}

/// What can be claimed right now, without waiting.
fn claimed<K: Ord + Clone, G: Ord + Clone>(queue: &Queue<K, G>) -> Option<Claim<K, G>> {
    queue.next().now_or_never().flatten()
}

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[tokio::test(start_paused = true)]
async fn a_key_added_twice_runs_once() {
    let queue = queue();
    queue.add("a");
    queue.add("a");
    claimed(&queue).unwrap().finish(Next::Forget);
    assert!(claimed(&queue).is_none());
    assert_eq!(queue.depth(), Depth::default());
}

#[tokio::test(start_paused = true)]
async fn a_key_added_while_it_is_worked_on_runs_once_more_afterwards() {
    let queue = queue();
    queue.add("a");
    let claim = claimed(&queue).unwrap();
    queue.add("a");
    queue.add("a");
    assert!(claimed(&queue).is_none(), "never two passes of one key");
    claim.finish(Next::Forget);
    claimed(&queue).unwrap().finish(Next::Forget);
    assert!(claimed(&queue).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_timer_fires_at_its_time_and_the_earlier_of_two_wins() {
    let (queue, begun) = (queue(), Instant::now());
    queue.add_after("a", millis(500));
    queue.add_after("a", millis(200));
    queue.add_after("a", millis(900));
    let claim = queue.next().await.unwrap();
    assert_eq!(begun.elapsed(), millis(200));
    claim.finish(Next::Forget);
    assert_eq!(queue.depth(), Depth::default());
}

#[tokio::test(start_paused = true)]
async fn turns_come_one_after_the_other_whatever_their_key() {
    let (queue, window, begun) = (queue(), BatchingWindow::default(), Instant::now());
    for key in ["a", "b", "a", "c", "b", "a"] {
        window.add(&queue, key, millis(20), Duration::ZERO);
    }
    for (key, at) in [("a", 0), ("b", 20), ("c", 40)] {
        let claim = queue.next().await.unwrap();
        assert_eq!((*claim.key(), begun.elapsed()), (key, millis(at)));
        claim.finish(Next::Forget);
    }
    assert_eq!(queue.depth(), Depth::default());
    tokio::time::advance(millis(100)).await;
    window.add(&queue, "a", millis(20), Duration::ZERO);
    assert!(claimed(&queue).is_some(), "time that passed is not made up for");
}

#[tokio::test(start_paused = true)]
async fn news_about_a_key_that_is_worked_on_or_waits_long_gets_a_turn() {
    let (queue, window, begun) = (queue(), BatchingWindow::default(), Instant::now());
    queue.add_after("slow", millis(900));
    window.add(&queue, "a", millis(20), Duration::ZERO);
    let claim = claimed(&queue).unwrap();
    window.add(&queue, "a", millis(20), Duration::ZERO);
    window.add(&queue, "slow", millis(20), Duration::ZERO);
    claim.finish(Next::Forget);
    for (key, at) in [("a", 20), ("slow", 40)] {
        let claim = queue.next().await.unwrap();
        assert_eq!((*claim.key(), begun.elapsed()), (key, millis(at)));
        claim.finish(Next::Forget);
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_passes_stay_apart_keeps_no_other_key_waiting() {
    let (queue, window, begun) = (queue(), BatchingWindow::default(), Instant::now());
    let apart = millis(500);
    for key in ["a", "b"] {
        window.add(&queue, key, millis(20), apart);
    }
    for (key, at) in [("a", 0), ("b", 20)] {
        let claim = queue.next().await.unwrap();
        assert_eq!((*claim.key(), begun.elapsed()), (key, millis(at)));
        claim.finish(Next::Forget);
    }
    for key in ["a", "c", "b", "a"] {
        window.add(&queue, key, millis(20), apart);
    }
    // One that is new comes next; the others when their own last pass is long enough ago.
    for (key, at) in [("c", 60), ("a", 500), ("b", 520)] {
        let claim = queue.next().await.unwrap();
        assert_eq!((*claim.key(), begun.elapsed()), (key, millis(at)));
        claim.finish(Next::Forget);
    }
}

#[tokio::test(start_paused = true)]
async fn when_many_passes_wait_each_reserves_half_as_much_again() {
    let (queue, window, begun) = (queue(), BatchingWindow::default(), Instant::now());
    (0..20).for_each(|key: usize| window.add(&queue, key, millis(20), Duration::ZERO));
    let mut starts = Vec::new();
    for _ in 0..20 {
        let claim = queue.next().await.unwrap();
        starts.push(begun.elapsed());
        claim.finish(Next::Forget);
    }
    let spans: Vec<Duration> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(spans, [vec![millis(20); 16], vec![millis(30); 3]].concat());
}

#[tokio::test(start_paused = true)]
async fn a_key_in_quarantine_takes_no_turns() {
    let (queue, window) = (queue(), BatchingWindow::default());
    queue.add("bad");
    claimed(&queue).unwrap().finish(Next::Quarantine);
    for _ in 0..10 {
        window.add(&queue, "bad", millis(20), Duration::ZERO);
    }
    window.add(&queue, "good", millis(20), Duration::ZERO);
    assert_eq!(claimed(&queue).map(|claim| *claim.key()), Some("good"));
}

#[tokio::test(start_paused = true)]
async fn an_event_ends_a_wait() {
    let queue = queue();
    queue.add_after("a", Duration::from_secs(3600));
    assert!(claimed(&queue).is_none());
    queue.add("a");
    assert_eq!(claimed(&queue).unwrap().key(), &"a");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_conflicts_do_not_make_each_other_wait() {
    let (queue, begun) = (queue(), Instant::now());
    (0..1000).for_each(|key| queue.add(key));
    for _ in 0..1000 {
        claimed(&queue).unwrap().finish(Next::StartOver);
    }
    for _ in 0..1000 {
        queue.next().await.unwrap().finish(Next::Forget);
    }
    assert_eq!(begun.elapsed(), millis(5), "each waits for its own back-off only");
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_keeps_losing_races_is_tried_every_second() {
    let (queue, begun) = (queue(), Instant::now());
    queue.add("a");
    for _ in 0..20 {
        queue.next().await.unwrap().finish(Next::StartOver);
    }
    let before = begun.elapsed();
    queue.next().await.unwrap().finish(Next::Forget);
    assert_eq!(begun.elapsed() - before, LONGEST_START_OVER);
}

#[tokio::test(start_paused = true)]
async fn lost_races_are_no_failures() {
    let queue = queue();
    queue.add("a");
    for _ in 0..100 {
        queue.next().await.unwrap().finish(Next::StartOver);
    }
    let claim = queue.next().await.unwrap();
    let begun = Instant::now();
    claim.finish(Next::BackOff { at_least: Duration::ZERO });
    queue.next().await.unwrap().finish(Next::Forget);
    assert_eq!(begun.elapsed(), millis(5), "the server was busy once");
}

#[tokio::test(start_paused = true)]
async fn back_off_grows_until_the_key_is_forgotten() {
    let queue = queue();
    let mut waits = Vec::new();
    queue.add("a");
    for next in [Next::BackOff { at_least: Duration::ZERO }; 4] {
        let claim = queue.next().await.unwrap();
        let begun = Instant::now();
        claim.finish(next);
        let claim = queue.next().await.unwrap();
        waits.push(begun.elapsed().as_millis());
        claim.finish(Next::After(Duration::ZERO));
        queue.forget(&"a");
    }
    assert_eq!(waits, [5, 5, 5, 5], "a wish for a fixed span starts the back-off afresh");

    let mut waits = Vec::new();
    for _ in 0..4 {
        let claim = queue.next().await.unwrap();
        let begun = Instant::now();
        claim.finish(Next::BackOff { at_least: Duration::ZERO });
        queue.next().await.unwrap().finish(Next::BackOff { at_least: Duration::ZERO });
        waits.push(begun.elapsed().as_millis());
    }
    assert_eq!(waits, [5, 20, 80, 320]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_names_a_time_is_not_asked_before() {
    let queue = queue();
    queue.add("a");
    let claim = claimed(&queue).unwrap();
    let begun = Instant::now();
    claim.finish(Next::BackOff { at_least: Duration::from_secs(7) });
    queue.next().await.unwrap().finish(Next::Forget);
    assert_eq!(begun.elapsed(), Duration::from_secs(7));
}

#[tokio::test(start_paused = true)]
async fn quarantine_holds_against_events() {
    let queue = queue();
    queue.add("a");
    claimed(&queue).unwrap().finish(Next::Quarantine);
    let begun = Instant::now();
    queue.add_with("a", Priority::High);
    assert!(claimed(&queue).is_none());
    queue.next().await.unwrap().finish(Next::Quarantine);
    assert_eq!(begun.elapsed(), QUARANTINE);
    queue.next().await.unwrap().finish(Next::Forget);
    assert_eq!(begun.elapsed(), QUARANTINE * 3);
    assert_eq!(queue.depth(), Depth::default());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_claim_gives_its_key_back() {
    let queue = queue();
    queue.add("a");
    drop(claimed(&queue).unwrap());
    assert_eq!(queue.depth().waiting, 1);
    assert_eq!(queue.next().await.unwrap().key(), &"a");
}

#[tokio::test(start_paused = true)]
async fn a_ready_key_can_be_hurried_but_not_slowed() {
    let queue = queue();
    queue.add_with("a", Priority::Low);
    queue.add_with("b", Priority::Normal);
    queue.add_with("a", Priority::High);
    queue.add_with("a", Priority::Low);
    assert_eq!(claimed(&queue).unwrap().key(), &"a");
}

#[tokio::test(start_paused = true)]
async fn what_failed_is_as_urgent_as_it_was() {
    let queue = queue();
    queue.add_with("a", Priority::High);
    claimed(&queue).unwrap().finish(Next::BackOff { at_least: millis(20) });
    tokio::time::sleep(millis(20)).await;
    queue.add("b");
    let again = claimed(&queue).unwrap();
    assert_eq!(again.key(), &"a");
    // What only time asks for is not.
    again.finish(Next::After(millis(20)));
    tokio::time::sleep(millis(20)).await;
    assert_eq!(claimed(&queue).unwrap().key(), &"b");
}

#[tokio::test(start_paused = true)]
async fn a_closed_queue_drains_what_was_asked_for_before() {
    let queue = queue();
    for key in ["a", "b"] {
        queue.add(key);
    }
    queue.add_after("later", millis(10));
    let a = claimed(&queue).unwrap();
    queue.add("a");
    queue.close();
    queue.add("c");
    a.finish(Next::Forget);
    let rest: Vec<_> = std::iter::from_fn(|| {
        let claim = claimed(&queue)?;
        let key = *claim.key();
        claim.finish(Next::Again());
        Some(key)
    })
    .collect();
    assert_eq!(rest, ["b", "a"]);
    assert!(queue.next().await.is_none());
    assert_eq!(queue.depth(), Depth::default());
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_queue_drops_everything() {
    let queue = queue();
    queue.add("a");
    queue.add("c");
    queue.add_after("b", millis(10));
    let claim = claimed(&queue).unwrap();
    queue.add("a");
    queue.abandon();
    claim.finish(Next::Again());
    assert!(queue.next().await.is_none());
    assert_eq!(queue.depth(), Depth::default());
}

impl Next {
    #[allow(non_snake_case, reason = "reads as the variant it stands for")]
    fn Again() -> Self {
        Self::BackOff { at_least: Duration::ZERO }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8, u8),
    AddAfter(u8, u64),
    AddRateLimited(u8),
    Claim,
    /// Ends the oldest claim but n.
    Finish(usize, u8),
    Sleep(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6u8, 0..3u8).prop_map(|(key, priority)| Step::Add(key, priority)),
        2 => (0..6u8, 0..2000u64).prop_map(|(key, wait)| Step::AddAfter(key, wait)),
        2 => (0..6u8).prop_map(Step::AddRateLimited),
        5 => Just(Step::Claim),
        5 => (0..4usize, 0..5u8).prop_map(|(nth, next)| Step::Finish(nth, next)),
        1 => (0..1500u64).prop_map(Step::Sleep),
    ]
}

fn paused() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

/// Plays a script and returns the order of claims. Checks exclusion and that no key is lost.
async fn play(steps: Vec<Step>) -> Vec<(u128, u8)> {
    let queue = Queue::grouped(
        QueueConfig { group_cap: 2, ..QueueConfig::named("test") },
        &Metrics::default(),
        |key: &u8| key % 2,
    );
    let begun = Instant::now();
    let mut owed = BTreeSet::new();
    let mut held: Vec<Claim<u8, u8>> = Vec::new();
    let mut order = Vec::new();
    for step in steps {
        match step {
            Step::Add(key, priority) => {
                let priority = [Priority::High, Priority::Normal, Priority::Low][priority as usize];
                queue.add_with(key, priority);
                owed.insert(key);
            }
            Step::AddAfter(key, wait) => {
                queue.add_after(key, millis(wait));
                owed.insert(key);
            }
            Step::AddRateLimited(key) => {
                queue.add_rate_limited(key);
                owed.insert(key);
            }
            Step::Claim => {
                let Some(claim) = claimed(&queue) else { continue };
                let key = *claim.key();
                assert!(held.iter().all(|held| held.key() != &key), "{key} is with two workers");
                let siblings = held.iter().filter(|held| held.key() % 2 == key % 2).count();
                assert!(siblings < 2, "a group is past its cap");
                owed.remove(&key);
                order.push((begun.elapsed().as_millis(), key));
                held.push(claim);
            }
            Step::Finish(nth, next) => {
                if held.is_empty() {
                    continue;
                }
                let claim = held.remove(nth % held.len());
                let key = *claim.key();
                let next = [
                    Next::Forget,
                    Next::After(millis(50)),
                    Next::Again(),
                    Next::Quarantine,
                    Next::Forget,
                ][next as usize];
                if next != Next::Forget {
                    owed.insert(key);
                }
                claim.finish(next);
            }
            Step::Sleep(wait) => tokio::time::sleep(millis(wait)).await,
        }
    }
    held.into_iter().for_each(|claim| claim.finish(Next::Forget));
    // Whatever is owed comes within the longest wait a step can ask for.
    let soon = Duration::from_secs(600);
    while let Ok(Some(claim)) = tokio::time::timeout(soon, queue.next()).await {
        owed.remove(claim.key());
        order.push((begun.elapsed().as_millis(), *claim.key()));
        claim.finish(Next::Forget);
    }
    assert!(owed.is_empty(), "lost: {owed:?}");
    assert_eq!(queue.depth(), Depth::default());
    order
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_key_is_lost_or_worked_on_twice_at_once(steps in prop::collection::vec(step(), 0..80)) {
        let first = paused().block_on(play(steps.clone()));
        let second = paused().block_on(play(steps));
        prop_assert_eq!(first, second, "the same script has one order");
    }

    #[test]
    fn every_ready_group_gets_its_turn(keys in prop::collection::btree_set((0..5u8, 0..40u8), 1..80)) {
        let order = paused().block_on(async {
            let queue = Queue::grouped(QueueConfig::named("test"), &Metrics::default(), |k: &(u8, u8)| k.0);
            for key in &keys {
                queue.add(*key);
            }
            std::iter::from_fn(|| {
                let claim = claimed(&queue)?;
                let key = *claim.key();
                claim.finish(Next::Forget);
                Some(key)
            })
            .collect::<Vec<_>>()
        });
        prop_assert_eq!(order.len(), keys.len());
        for group in 0..5u8 {
            let turns: Vec<_> = (0..order.len()).filter(|&at| order[at].0 == group).collect();
            if let Some(first) = turns.first() {
                prop_assert!(*first < 5, "group {} waited {} turns", group, first);
            }
            for pair in turns.windows(2) {
                prop_assert!(pair[1] - pair[0] <= 5, "group {} was passed over: {:?}", group, pair);
            }
        }
    }
}

type Log = Arc<Mutex<Vec<String>>>;

async fn run_to_the_end<F, Fut>(queue: &Queue<u32>, workers: usize, metrics: &Metrics, pass: F)
where
    F: Fn(u32) -> Fut,
    Fut: Future<Output = Outcome> + Send + 'static,
{
    let run = Workers::new(queue.clone(), workers, metrics).run(pass);
    let stop = async {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        queue.close();
    };
    futures::join!(run, stop);
}

#[tokio::test(start_paused = true)]
async fn no_more_passes_than_workers_run_at_once() {
    let (queue, metrics) = (queue(), Metrics::default());
    let (now, most) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
    (0..20).for_each(|key| queue.add(key));
    run_to_the_end(&queue, 3, &metrics, |_| {
        let (now, most) = (now.clone(), most.clone());
        async move {
            let running = {
                let mut now = now.lock().unwrap();
                *now += 1;
                *now
            };
            let highest = running.max(*most.lock().unwrap());
            *most.lock().unwrap() = highest;
            tokio::time::sleep(millis(10)).await;
            *now.lock().unwrap() -= 1;
            Outcome::Done
        }
    })
    .await;
    assert_eq!(*most.lock().unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_panicking_key_does_not_stop_the_others() {
    let (queue, metrics) = (queue(), Metrics::default());
    let log = Log::default();
    (0..4).for_each(|key| queue.add(key));
    let begun = Instant::now();
    run_to_the_end(&queue, 2, &metrics, |key| {
        let log = log.clone();
        let seen = log.lock().unwrap().iter().filter(|line| line.starts_with("1 ")).count();
        log.lock().unwrap().push(format!("{key} {}s", begun.elapsed().as_secs()));
        async move {
            tokio::task::yield_now().await;
            assert!(key != 1 || seen >= 2, "key 1 panics twice");
            Outcome::Done
        }
    })
    .await;
    assert_eq!(*log.lock().unwrap(), ["0 0s", "1 0s", "2 0s", "3 0s", "1 1s", "1 3s"]);
    let text = metrics.render();
    assert!(text.contains("flagship_reconcile_panics_total{controller=\"test\"} 2"), "{text}");
    assert!(text.contains("fleet_workload_active_workers{controller=\"test\"} 0"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn outcomes_become_waits_and_results() {
    let metrics = Metrics::default();
    let queue = Queue::new(QueueConfig::named("test"), &metrics);
    let log = Log::default();
    (0..5).for_each(|key| queue.add(key));
    let begun = Instant::now();
    run_to_the_end(&queue, 1, &metrics, |key| {
        let first = !log.lock().unwrap().iter().any(|line| line.starts_with(&format!("{key} ")));
        log.lock().unwrap().push(format!("{key} {}ms", begun.elapsed().as_millis()));
        let busy = ErrorAction::BackOff { after: Some(Duration::from_secs(2)) };
        std::future::ready(match key {
            _ if !first => Outcome::Done,
            0 => Outcome::After(Duration::from_secs(1)),
            1 => Outcome::Again,
            2 => Err::<Outcome, _>(Failure::reread("somebody wrote first")).into(),
            3 => Outcome::Error(Failure::new(busy, "too many requests")),
            _ => Outcome::Error(Failure::give_up("no such stage")),
        })
    })
    .await;
    let expected =
        ["0 0ms", "1 0ms", "2 0ms", "3 0ms", "4 0ms", "1 5ms", "2 5ms", "0 1000ms", "3 2000ms"];
    assert_eq!(*log.lock().unwrap(), expected);
    let text = metrics.render();
    for line in [
        "fleet_workload_reconcile_total{controller=\"test\",result=\"error\"} 3",
        "fleet_workload_reconcile_total{controller=\"test\",result=\"requeue\"} 1",
        "fleet_workload_reconcile_total{controller=\"test\",result=\"requeue_after\"} 1",
        "fleet_workload_reconcile_total{controller=\"test\",result=\"success\"} 4",
        "fleet_workload_reconcile_errors_total{controller=\"test\"} 3",
        "workqueue_retries_total{name=\"test\"} 3",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
}

// A webhook or policy that refuses what a pass writes may be gone later, which nobody is told.
#[tokio::test(start_paused = true)]
async fn what_was_refused_is_tried_again_ever_more_seldom() {
    let metrics = Metrics::default();
    let queue = Queue::new(QueueConfig::named("test"), &metrics);
    let log = Log::default();
    queue.add(0);
    let begun = Instant::now();
    run_to_the_end(&queue, 1, &metrics, |_| {
        log.lock().unwrap().push(format!("{}s", begun.elapsed().as_secs()));
        let refused =
            ClientError::Invalid { object: "Work w".to_owned(), message: "no".to_owned() };
        let tries = log.lock().unwrap().len();
        let ended = if tries < 12 { Err(refused) } else { Ok(Outcome::Done) };
        std::future::ready(Outcome::from(ended))
    })
    .await;
    let expected =
        ["0s", "1s", "3s", "7s", "15s", "31s", "63s", "127s", "255s", "511s", "811s", "1111s"];
    assert_eq!(*log.lock().unwrap(), expected);
    let text = metrics.render();
    assert!(text.contains("flagship_refused_writes_total{controller=\"test\"} 11"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_workers_ends_their_passes() {
    let (queue, metrics) = (queue(), Metrics::default());
    let log = Log::default();
    queue.add(1);
    let run = Workers::new(queue.clone(), 1, &metrics).run(|_| {
        let log = log.clone();
        async move {
            tokio::time::sleep(millis(100)).await;
            log.lock().unwrap().push("wrote".to_owned());
            Outcome::Done
        }
    });
    assert!(tokio::time::timeout(millis(50), run).await.is_err());
    tokio::time::sleep(millis(200)).await;
    assert!(log.lock().unwrap().is_empty());
    assert_eq!(queue.depth().waiting + queue.depth().ready, 1, "the key is not lost");
}
