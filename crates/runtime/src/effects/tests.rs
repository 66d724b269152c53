//! Plans that stop, writes that are waited for, and leaders that lost.

use std::sync::{Arc, Mutex};

use flagship_api::names::ObjectKey;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::Instant;

use super::*;
use crate::client::{
    Client, ClientError, Deleted, Precondition, Propagation, ResourceType, Selection,
};
use crate::fake::{Answer, End, Script, event, list, map, status};
use crate::lease::Leadership;
use crate::queue::Outcome;
use crate::reflector::{Reflector, ReflectorConfig, Store};

fn conflict(object: &str) -> ClientError {
    ClientError::Conflict { object: object.to_owned(), message: "stale".to_owned() }
}

#[tokio::test(start_paused = true)]
async fn a_plan_stops_at_the_first_conflict_and_starts_over() {
    let tried = Mutex::new(Vec::new());
    let stopped = carry_out(vec!["record", "deliver", "sweep"], async |action| {
        tried.lock().unwrap().push(action);
        if action == "deliver" { Err(conflict("binding b")) } else { Ok(()) }
    })
    .await
    .unwrap_err();
    assert_eq!(*tried.lock().unwrap(), ["record", "deliver"]);
    let failure = Failure::from(stopped);
    assert_eq!(failure.action, ErrorAction::Reread);
    assert_eq!(
        failure.why,
        "binding b changed under us: stale (after 1 of 3 actions, at \"deliver\")"
    );
}

#[tokio::test(start_paused = true)]
async fn a_group_begins_when_the_one_before_it_is_done() {
    let begun = Instant::now();
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let groups = vec![vec!["create 1", "create 2", "create 3"], vec!["patch 1"], vec!["mark 1"]];
    let done = carry_out_in_groups(groups, 2, |action| {
        let log = log.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            log.lock().unwrap().push(format!("{}s {action}", begun.elapsed().as_secs()));
            Ok::<_, ClientError>(())
        }
    })
    .await
    .unwrap();
    assert_eq!(done, 5);
    assert_eq!(
        *log.lock().unwrap(),
        ["1s create 1", "1s create 2", "2s create 3", "3s patch 1", "4s mark 1"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_group_keeps_the_next_from_beginning() {
    let ended: Arc<Mutex<Vec<u64>>> = Arc::default();
    let groups = vec![vec![3, 1, 2, 4], vec![5]];
    let stopped = carry_out_in_groups(groups, 3, |action| {
        let ended = ended.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(action)).await;
            ended.lock().unwrap().push(action);
            if action == 1 { Err(conflict("b")) } else { Ok(()) }
        }
    })
    .await
    .unwrap_err();
    assert_eq!((stopped.done, stopped.total, stopped.action.as_str()), (2, 5, "1"));
    assert_eq!(*ended.lock().unwrap(), [1, 2, 3], "begun is finished, nothing new is begun");
}

#[tokio::test(start_paused = true)]
async fn a_write_is_tried_four_times_with_growing_pauses() {
    let env = Env::simulated(1);
    let begun = Instant::now();
    let mut attempts = 0;
    let worth = |error: &ClientError| is_transient(error.action());
    let result: Result<(), _> = retry(&env, Retry::CONFLICT, worth, || {
        attempts += 1;
        std::future::ready(Err(conflict("b")))
    })
    .await;
    assert!(result.is_err());
    assert_eq!(attempts, 4);
    let millis = begun.elapsed().as_millis();
    assert!((310..=345).contains(&millis), "10 + 50 + 250 and a tenth: {millis}");

    let mut attempts = 0;
    let hopeless: Result<(), _> = retry(&env, Retry::CONFLICT, worth, || {
        attempts += 1;
        std::future::ready(Err(ClientError::NotFound {
            object: "b".to_owned(),
            message: String::new(),
        }))
    })
    .await;
    assert!(hopeless.is_err());
    assert_eq!(attempts, 1);
}

/// A cache that shows `shown` after ten seconds.
fn cache(shown: serde_json::Value) -> Store<()> {
    let line = (Duration::from_secs(4), shown);
    let script = Script::new([
        Answer::Json(200, list(7, [map("a", 3, "x")])),
        Answer::Lines(vec![line], End::Silence),
    ]);
    let maps = script.client().of::<ConfigMap>();
    let config = ReflectorConfig { streamed_lists: false, ..ReflectorConfig::default() };
    let reflector =
        Reflector::new(&Env::simulated(1), maps, Selection::all(), |_: ConfigMap| Some(()))
            .with_config(config);
    let store = reflector.store();
    tokio::spawn(reflector.run());
    store
}

fn seen(name: &str, version: u64) -> ConfigMap {
    serde_json::from_value(map(name, version, "seen")).unwrap()
}

async fn waited(writes: &PendingWrites<ObjectKey>, pass: &ObjectKey) -> u64 {
    let begun = Instant::now();
    writes.caught_up(pass).await;
    begun.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn a_pass_waits_until_the_cache_shows_its_last_write() {
    let (pass, other) = (ObjectKey::cluster("web"), ObjectKey::cluster("db"));
    let maps = ResourceType::of::<ConfigMap>();
    let store = cache(event("MODIFIED", map("a", 9, "y")).1);
    store.synced().await;
    let writes = PendingWrites::default();
    writes.shown_by(maps.clone(), &store);
    assert_eq!(waited(&writes, &pass).await, 0, "nothing was written");
    writes.wrote(&pass, &maps, &seen("a", 6));
    assert_eq!(waited(&writes, &pass).await, 0, "the cache is further already");
    writes.wrote(&pass, &maps, &seen("a", 9));
    assert_eq!(writes.waiting(&pass).unwrap().key.to_string(), "app/a");
    assert_eq!(waited(&writes, &other).await, 0, "other passes need not wait");
    assert_eq!(waited(&writes, &pass).await, 4);
    assert!(writes.waiting(&pass).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_delete_is_shown_when_that_very_object_is_gone() {
    let pass = ObjectKey::cluster("web");
    let maps = ResourceType::of::<ConfigMap>();
    let store = cache(event("DELETED", map("a", 9, "y")).1);
    store.synced().await;
    let writes = PendingWrites::default();
    writes.shown_by(maps.clone(), &store);
    let precondition = Precondition::of(&seen("a", 3)).unwrap();
    writes.deleted(&pass, &maps, &precondition, &Deleted::Gone);
    assert_eq!(waited(&writes, &pass).await, 4);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_never_shows_is_forgotten_in_time() {
    let pass = ObjectKey::cluster("web");
    let maps = ResourceType::of::<ConfigMap>();
    let store = cache(event("MODIFIED", map("a", 9, "y")).1);
    store.synced().await;
    let writes = PendingWrites::with_expiry(Duration::from_secs(6));
    writes.wrote(&pass, &maps, &seen("a", 99));
    assert_eq!(waited(&writes, &pass).await, 0, "no cache shows this resource");
    writes.shown_by(maps.clone(), &store);
    writes.wrote(&pass, &maps, &seen("a", 99));
    assert_eq!(waited(&writes, &pass).await, 6);
    assert_eq!(waited(&writes, &pass).await, 0, "once");
}

// A status went there and back while the cache was behind: the pass after the way back found
// nothing to do, and what the cache showed later woke nobody (seed 1487).
#[tokio::test(start_paused = true)]
async fn a_pass_that_has_not_seen_its_own_write_looks_again_until_it_has() {
    let pass = ObjectKey::cluster("web");
    let maps = ResourceType::of::<ConfigMap>();
    let store = cache(event("MODIFIED", map("a", 9, "y")).1);
    store.synced().await;
    let writes = PendingWrites::with_expiry(Duration::from_secs(1));
    writes.shown_by(maps.clone(), &store);
    writes.wrote(&pass, &maps, &seen("a", 9));
    assert!(!writes.caught_up(&pass).await, "the cache shows it after four seconds");
    assert!(!writes.caught_up(&pass).await, "and is still behind");
    assert!(matches!(Outcome::Done.having_caught_up(false), Outcome::After(_)));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(writes.caught_up(&pass).await);
    assert!(matches!(Outcome::Done.having_caught_up(true), Outcome::Done));
}

#[tokio::test(start_paused = true)]
async fn a_deposed_leader_writes_nothing() {
    let script = Script::default();
    let client: Client = script.client();
    let (pass, writes) = (ObjectKey::cluster("web"), PendingWrites::default());
    let leadership = Leadership::expired();
    let writer = Writer::new(&client, &leadership, &writes, &pass);
    let error = writer.update(&seen("a", 3)).await.unwrap_err();
    assert_eq!(error.to_string(), "ConfigMap app/a was not written: we no longer lead");
    let precondition = Precondition::of(&seen("a", 3)).unwrap();
    assert!(writer.delete::<ConfigMap>(&precondition, Propagation::Background).await.is_err());
    assert!(script.log().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_there_already_or_gone_already_is_no_error() {
    let mut missing = status(404, "NotFound");
    missing["details"] = serde_json::json!({"name": "a"});
    let script = Script::new([
        Answer::Json(409, status(409, "AlreadyExists")),
        Answer::Json(404, missing),
        Answer::Json(201, map("a", 5, "x")),
    ]);
    let (client, leadership) = (script.client(), Leadership::uncontested());
    let (pass, writes) = (ObjectKey::cluster("web"), PendingWrites::default());
    let writer = Writer::new(&client, &leadership, &writes, &pass);
    let new = seen("a", 3);
    assert!(matches!(writer.create(&new).await.unwrap(), Made::Existed));
    let precondition = Precondition::of(&new).unwrap();
    let deleted = writer.delete::<ConfigMap>(&precondition, Propagation::Background).await.unwrap();
    assert_eq!(deleted, Deleted::Gone);
    assert!(matches!(writer.create(&new).await.unwrap(), Made::New(_)));
}

#[test]
fn a_dropped_result_is_counted() {
    let dropped = Counter::default();
    assert_eq!(drop_counted("event", Ok::<_, String>(1), &dropped), Some(1));
    assert_eq!(drop_counted("event", Err::<u8, _>("refused"), &dropped), None);
    assert_eq!(dropped.get(), 1);
}
