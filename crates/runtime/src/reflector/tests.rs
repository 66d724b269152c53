//! What the reflector does when the wire misbehaves, against a scripted server.

use std::sync::{Arc, Mutex};

use expect_test::{Expect, expect};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::*;
use crate::fake::{Answer, End, Script, event, list, map, status};

/// Mirrors the script and returns what a subscriber was told, with the seconds.
struct Mirror {
    store: Store<String>,
    by_text: IndexId,
    told: Arc<Mutex<Vec<String>>>,
    script: Script,
    _subscription: Subscription,
}

fn mirror(streamed_lists: bool, script: impl IntoIterator<Item = Answer>) -> Mirror {
    mirror_with_seed(1, streamed_lists, script)
}

fn mirror_with_seed(seed: u64, streamed: bool, script: impl IntoIterator<Item = Answer>) -> Mirror {
    let script = Script::new(script);
    let maps = script.client().of::<ConfigMap>();
    let project = |map: ConfigMap| {
        let text = map.data?.remove("text")?;
        assert!(text != "panic", "a defect of ours");
        (text != "unwanted").then_some(text)
    };
    let config = ReflectorConfig { streamed_lists: streamed, ..ReflectorConfig::default() };
    let reflector =
        Reflector::new(&Env::simulated(seed), maps, Selection::all(), project).with_config(config);
    let by_text = reflector.index(|_, text| vec![text.clone()]);
    let store = reflector.store();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let (begun, log) = (Instant::now(), told.clone());
    let subscription = store.subscribe(move |change| log.lock().unwrap().push(said(begun, change)));
    tokio::spawn(reflector.run());
    Mirror { store, by_text, told, script, _subscription: subscription }
}

fn said(begun: Instant, change: &Change<String>) -> String {
    let text = |value: &Option<Arc<String>>| value.as_deref().map_or("-", |text| text).to_owned();
    let problem = change.malformed.as_ref().map_or(String::new(), |p| format!(" ({p})"));
    let Change { key, old, new, origin, .. } = change;
    let seconds = begun.elapsed().as_secs_f32();
    format!("{seconds:.1}s {key} {} -> {} {origin:?}{problem}", text(old), text(new))
}

impl Mirror {
    async fn after(&self, seconds: u64, expected: Expect) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        expected.assert_eq(&self.told.lock().unwrap().join("\n"));
    }

    fn texts(&self) -> String {
        let all = self.store.all();
        all.iter().map(|(key, text)| format!("{key}={text}")).collect::<Vec<_>>().join(" ")
    }
}

fn lines(lines: impl IntoIterator<Item = (Duration, Value)>, end: End) -> Answer {
    Answer::Lines(lines.into_iter().collect(), end)
}

fn bookmark(version: u64) -> (Duration, Value) {
    event(
        "BOOKMARK",
        json!({"kind": "ConfigMap", "metadata": {"resourceVersion": version.to_string()}}),
    )
}

fn list_ended(version: u64) -> (Duration, Value) {
    let marks = json!({"k8s.io/initial-events-end": "true"});
    let meta = json!({"resourceVersion": version.to_string(), "annotations": marks});
    event("BOOKMARK", json!({"kind": "ConfigMap", "metadata": meta}))
}

#[tokio::test(start_paused = true)]
async fn a_list_and_its_watch_are_told_as_changes() {
    let mirror = mirror(
        false,
        [
            Answer::Json(
                200,
                list(7, [map("a", 3, "x"), map("b", 5, "y"), map("c", 6, "unwanted")]),
            ),
            lines(
                [
                    event("MODIFIED", map("a", 8, "z")),
                    event("ADDED", map("d", 9, "y")),
                    event("MODIFIED", map("c", 10, "wanted")),
                    event("MODIFIED", map("b", 11, "unwanted")),
                    event("DELETED", map("a", 12, "z")),
                ],
                End::Silence,
            ),
        ],
    );
    assert!(!mirror.store.is_synced());
    mirror.store.synced().await;
    mirror
        .after(
            1,
            expect![[r#"
                0.0s app/a - -> x Listed
                0.0s app/b - -> y Listed
                0.0s app/a x -> z Watched
                0.0s app/d - -> y Watched
                0.0s app/c - -> wanted Watched
                0.0s app/b y -> - Watched
                0.0s app/a z -> - Watched"#]],
        )
        .await;
    assert_eq!(mirror.texts(), "app/c=wanted app/d=y");
    assert_eq!(mirror.store.count(mirror.by_text, "y"), 1);
    let indexed = mirror.store.by(mirror.by_text, "y");
    assert_eq!(indexed.iter().map(|(key, _)| key.to_string()).collect::<Vec<_>>(), ["app/d"]);
    assert!(mirror.store.by(mirror.by_text, "z").is_empty());
    assert_eq!(mirror.store.in_namespace("app").len(), 2);
    assert!(mirror.store.in_namespace("ap").is_empty());
    assert_eq!(mirror.store.revision(), Revision(12));
    mirror.store.reached(Revision(12)).await;
}

#[tokio::test(start_paused = true)]
async fn an_index_has_one_object_or_many_under_a_key() {
    let steps = [
        event("ADDED", map("c", 2, "x")),
        event("ADDED", map("a", 3, "x")),
        event("ADDED", map("b", 4, "x")),
        event("MODIFIED", map("a", 5, "y")),
        event("DELETED", map("c", 6, "x")),
        event("DELETED", map("b", 7, "x")),
    ];
    let paced = steps.into_iter().map(|(_, event)| (Duration::from_secs(10), event));
    let mirror = mirror(false, [Answer::Json(200, list(1, [])), lines(paced, End::Silence)]);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut seen = Vec::new();
    for _ in 0..6 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let under = mirror.store.by(mirror.by_text, "x");
        assert_eq!(mirror.store.count(mirror.by_text, "x"), under.len());
        seen.push(under.iter().map(|(key, _)| key.name.as_str()).collect::<String>());
    }
    assert_eq!(seen, ["c", "ac", "abc", "bc", "b", ""]);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_stranger_is_told_where_that_is_asked_for() {
    let script = || {
        let gone = lines([event("DELETED", map("a", 8, "unwanted"))], End::Silence);
        [Answer::Json(200, list(7, [map("a", 3, "unwanted")])), gone]
    };
    mirror(false, script()).after(1, expect![[""]]).await;
    let curious = mirror(false, script());
    curious.store.tell_deletes_of_unkept();
    curious.after(1, expect!["0.0s app/a - -> - Watched"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_cut_watch_goes_on_where_it_was() {
    let pause = Duration::from_secs(100);
    let mirror = mirror(
        false,
        [
            Answer::Json(200, list(7, [map("a", 3, "x")])),
            lines([(pause, event("MODIFIED", map("a", 8, "y")).1), bookmark(20)], End::Close),
            lines([(pause, event("MODIFIED", map("a", 21, "z")).1)], End::Break),
            lines([], End::Silence),
        ],
    );
    mirror
        .after(
            500,
            expect![[r#"
                0.0s app/a - -> x Listed
                100.0s app/a x -> y Watched
                200.0s app/a y -> z Watched"#]],
        )
        .await;
    let versions: Vec<_> = mirror
        .script
        .log()
        .iter()
        .filter_map(|line| Some(line.split_once("resourceVersion=")?.1.to_owned()))
        .collect();
    assert_eq!(versions, ["7", "20", "21"]);
}

#[tokio::test(start_paused = true)]
async fn after_410_the_difference_is_told_with_deletions_and_namesakes() {
    let mut namesake = map("b", 30, "new b");
    namesake["metadata"]["uid"] = json!("another");
    let mirror = mirror(
        false,
        [
            Answer::Json(200, list(7, [map("a", 3, "x"), map("b", 5, "y"), map("c", 6, "z")])),
            lines([event("ERROR", status(410, "Expired"))], End::Close),
            Answer::Json(200, list(40, [map("a", 3, "x"), namesake, map("d", 31, "w")])),
            lines([], End::Silence),
        ],
    );
    mirror
        .after(
            1,
            expect![[r#"
                0.0s app/a - -> x Listed
                0.0s app/b - -> y Listed
                0.0s app/c - -> z Listed
                0.0s app/b y -> - Listed
                0.0s app/b - -> new b Listed
                0.0s app/d - -> w Listed
                0.0s app/c z -> - Listed"#]],
        )
        .await;
    assert_eq!(mirror.store.revision(), Revision(40));
}

#[tokio::test(start_paused = true)]
async fn a_malformed_object_keeps_its_last_good_value_and_harms_nobody() {
    let bad = |version: u64| {
        let mut bad = map("a", version, "x");
        bad["data"] = json!(5);
        bad
    };
    let mirror = mirror(
        false,
        [
            Answer::Json(
                200,
                list(7, [map("a", 3, "x"), json!({"data": 1}), map("p", 4, "panic")]),
            ),
            lines(
                [
                    event("MODIFIED", bad(8)),
                    event("MODIFIED", bad(9)),
                    event("ADDED", map("b", 10, "y")),
                    event("MODIFIED", map("a", 11, "mended")),
                    event("DELETED", map("p", 12, "panic")),
                ],
                End::Silence,
            ),
        ],
    );
    mirror
        .after(
            1,
            expect![[r#"
                0.0s app/a - -> x Listed
                0.0s app/p - -> - Listed (ConfigMap app/p: reading it made a rule panic)
                0.0s app/a x -> x Watched (ConfigMap app/a: data: invalid type: integer `5`, expected a map at line 1 column 27)
                0.0s app/a x -> x Watched (ConfigMap app/a: data: invalid type: integer `5`, expected a map at line 1 column 27)
                0.0s app/b - -> y Watched
                0.0s app/a x -> mended Watched
                0.0s app/p - -> - Watched"#]],
        )
        .await;
    assert!(mirror.store.all_malformed().is_empty());
}

#[tokio::test(start_paused = true)]
async fn old_news_in_a_watch_are_not_believed() {
    let mirror = mirror(
        false,
        [
            Answer::Json(200, list(20, [map("a", 15, "new")])),
            lines(
                [
                    event("ADDED", map("a", 12, "old")),
                    event("DELETED", map("a", 13, "old")),
                    event("ADDED", map("a", 15, "new")),
                ],
                End::Silence,
            ),
        ],
    );
    mirror.after(1, expect!["0.0s app/a - -> new Listed"]).await;
    assert_eq!(mirror.store.revision(), Revision(20));
}

#[tokio::test(start_paused = true)]
async fn a_list_is_streamed_where_the_server_can() {
    let mirror = mirror(
        true,
        [
            lines(
                [
                    event("ADDED", map("a", 3, "x")),
                    event("ADDED", map("b", 5, "y")),
                    list_ended(7),
                    event("MODIFIED", map("a", 8, "z")),
                    event("ERROR", status(410, "Expired")),
                ],
                End::Close,
            ),
            lines([event("ADDED", map("a", 9, "w")), list_ended(9)], End::Silence),
        ],
    );
    mirror
        .after(
            1,
            expect![[r#"
                0.0s app/a - -> x Listed
                0.0s app/b - -> y Listed
                0.0s app/a x -> z Watched
                0.0s app/a z -> w Listed
                0.0s app/b y -> - Listed"#]],
        )
        .await;
    assert_eq!(mirror.script.log().len(), 2);
    assert!(
        mirror.script.log()[0].contains("sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_stream_lists_is_asked_for_pages() {
    let refuses = Answer::Json(422, status(422, "Invalid"));
    let ignores = lines([event("ADDED", map("a", 3, "x"))], End::Silence);
    for first in [refuses, ignores] {
        let rest = [Answer::Json(200, list(7, [map("a", 3, "x")])), lines([], End::Silence)];
        let mirror = mirror(true, [first].into_iter().chain(rest));
        mirror.store.synced().await;
        assert_eq!(mirror.texts(), "app/a=x");
        assert_eq!(mirror.told.lock().unwrap().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_with_failures_and_heed_the_server() {
    let failing = || {
        let failures = (0..4).map(|_| Answer::Json(500, status(500, "InternalError")));
        failures.chain([
            Answer::RetryAfter(429, "60"),
            Answer::Json(200, list(7, [map("a", 3, "x")])),
            lines([], End::Silence),
        ])
    };
    let one = mirror_with_seed(1, false, failing());
    one.after(200, expect!["75.6s app/a - -> x Listed"]).await;
    let same = mirror_with_seed(1, false, failing());
    same.after(200, expect!["75.6s app/a - -> x Listed"]).await;
    let other = mirror_with_seed(2, false, failing());
    other.after(200, expect!["75.2s app/a - -> x Listed"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_does_not_spin() {
    let ends = (0..100).map(|_| lines([], End::Close));
    let first = Answer::Json(200, list(7, []));
    let mirror = mirror(false, [first].into_iter().chain(ends));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let requests = mirror.script.log().len();
    assert!((5..12).contains(&requests), "{requests} requests in a minute");
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_left_after_the_span_it_promised() {
    let mirror = mirror(
        false,
        [Answer::Json(200, list(7, [])), lines([], End::Silence), lines([], End::Silence)],
    );
    tokio::time::sleep(Duration::from_secs(290)).await;
    assert_eq!(mirror.script.log().len(), 2);
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!(mirror.script.log().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_late_subscriber_is_told_what_there_is_and_a_dropped_one_nothing() {
    let pause = Duration::from_secs(10);
    let mirror = mirror(
        false,
        [
            Answer::Json(200, list(7, [map("a", 3, "x")])),
            lines([(pause, event("ADDED", map("b", 8, "y")).1)], End::Silence),
        ],
    );
    let begun = Instant::now();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let late: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = late.clone();
    let _late = mirror.store.subscribe(move |change| log.lock().unwrap().push(said(begun, change)));
    let gone: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = gone.clone();
    drop(mirror.store.subscribe(move |change| log.lock().unwrap().push(said(begun, change))));
    let _panics = mirror.store.subscribe({
        let mut first = true;
        move |_| assert!(std::mem::replace(&mut first, false), "a defect of ours")
    });
    let (mut stream, _stream) = mirror.store.changes();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(*late.lock().unwrap(), ["5.0s app/a - -> x Listed", "10.0s app/b - -> y Watched"]);
    assert_eq!(*gone.lock().unwrap(), ["5.0s app/a - -> x Listed"]);
    assert_eq!(stream.recv().await.unwrap().key.to_string(), "app/a");
    assert_eq!(stream.recv().await.unwrap().key.to_string(), "app/b");
}

// A controller's handlers hold the mirrors they look into. Nothing changes in mirrors that
// nobody fills any more, so nothing else would ever let the two go.
#[test]
fn a_handler_that_holds_its_own_store_goes_with_its_subscription() {
    let held = Arc::new(());
    let store: Store<()> = Store::new();
    let (own, witness) = (store.clone(), held.clone());
    let subscription = store.subscribe(move |_| drop((own.len(), witness.clone())));
    drop(store);
    drop(subscription);
    assert_eq!(Arc::strong_count(&held), 1);
}
