//! Events live an hour after they were last written, as an API server's `--event-ttl` says,
//! and make room for newer ones when there are too many of them ([`Limits::event_objects`]).
//!
//! [`Limits::event_objects`]: flagship_store::Limits::event_objects
//!
//! Old ones go when another is written, so that a quiet cluster stays quiet; a server that
//! runs by the machine's clock also asks from time to time ([`ClusterHandle::expire_events`]).

use std::collections::VecDeque;
use std::sync::PoisonError;

use flagship_base::machinery::time;
use flagship_kinds::Kind as K;
use flagship_store::{ObjectKey, Scope, Store, Stored};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::cluster::{Cluster, ClusterHandle};
use super::write;
use crate::registry::Kind;

const EVENTS: &str = "events";
/// How long an Event is kept after it was last written.
const LIFE: SignedDuration = SignedDuration::from_hours(1);

/// When which Event was written, oldest first. One that was written again is in it twice.
#[derive(Debug, Default)]
pub(super) struct Written(Option<VecDeque<(Timestamp, ObjectKey, u64)>>);

impl Written {
    fn note(&mut self, now: Timestamp, stored: &Stored) {
        // Before the first look at what is there nothing is noted: that finds this one, too.
        if let Some(written) = &mut self.0 {
            written.push_back((now, stored.key.clone(), stored.revision));
        }
    }

    /// The Events whose time has come, with the revision that it has come for.
    fn due(&mut self, store: &Store, now: Timestamp) -> Vec<(ObjectKey, u64)> {
        let written = self.0.get_or_insert_with(|| found(store));
        let mut due = Vec::new();
        while written.front().is_some_and(|(at, ..)| now.duration_since(*at) >= LIFE) {
            due.extend(written.pop_front().map(|(_, key, revision)| (key, revision)));
        }
        let most = store.limits().event_objects;
        let mut excess = store.count(EVENTS).saturating_sub(due.len() + most);
        while excess > 0
            && let Some((_, key, revision)) = written.pop_front()
        {
            if is_there(store, &key, revision) {
                due.push((key, revision));
                excess -= 1;
            }
        }
        // Events that are counted up instead of repeated are written often.
        if written.len() > 2 * most.max(1) {
            written.retain(|(_, key, revision)| is_there(store, key, *revision));
        }
        due
    }
}

fn is_there(store: &Store, key: &ObjectKey, revision: u64) -> bool {
    store.get(EVENTS, key).is_some_and(|event| event.revision == revision)
}

/// What is there already, by what it says of itself.
fn found(store: &Store) -> VecDeque<(Timestamp, ObjectKey, u64)> {
    let stored = store.list(EVENTS, Scope::All).items.into_iter();
    let mut all: Vec<_> =
        stored.map(|event| (last_written(&event), event.key.clone(), event.revision)).collect();
    all.sort();
    all.into()
}

fn last_written(event: &Stored) -> Timestamp {
    let object: Value = serde_json::from_slice(&event.json).unwrap_or_default();
    let times = [
        &object["metadata"]["creationTimestamp"],
        &object["lastTimestamp"],
        &object["eventTime"],
        &object["series"]["lastObservedTime"],
    ];
    let times = times.into_iter().filter_map(|at| time::parse(at.as_str()?));
    times.max().unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Notes an Event that was just committed, and lets old ones go.
pub(super) fn after_commit(cluster: &Cluster, kind: &Kind, stored: &Stored, removed: bool) {
    if !kind.is(K::Event) || removed {
        return;
    }
    let now = cluster.env.clock.now();
    let mut written = cluster.events.lock().unwrap_or_else(PoisonError::into_inner);
    written.note(now, stored);
    let due = written.due(&cluster.store, now);
    drop(written);
    remove(cluster, due);
}

fn remove(cluster: &Cluster, due: Vec<(ObjectKey, u64)>) {
    for (key, revision) in due {
        let there = cluster.store.get(EVENTS, &key);
        // One that was written since waits for another hour.
        if let Some(there) = there.filter(|there| there.revision == revision) {
            write::expel(cluster, EVENTS, &there);
        }
    }
}

impl ClusterHandle {
    /// Removes Events that were last written more than an hour ago.
    pub fn expire_events(&self) {
        let cluster = &*self.cluster;
        let mut written = cluster.events.lock().unwrap_or_else(PoisonError::into_inner);
        let due = written.due(&cluster.store, cluster.env.clock.now());
        drop(written);
        remove(cluster, due);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use flagship_store::Limits;
    use flagship_store::durable::Durable;
    use flagship_store::env::Env;
    use serde_json::json;

    use super::*;
    use crate::rest::{DeleteOptions, Server};

    fn event(name: &str) -> Value {
        json!({"metadata": {"name": name}, "involvedObject": {"namespace": "default"}, "reason": "Said"})
    }

    fn names(cluster: &ClusterHandle) -> Vec<String> {
        let events = cluster.store().list(EVENTS, Scope::All).items;
        events.iter().map(|event| event.key.name.to_string()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_goes_an_hour_after_it_was_last_written() {
        let cluster = Server::new(Env::simulated(1)).add_cluster("hub");
        let local = cluster.local("somebody");
        for name in ["old", "again"] {
            local.create(EVENTS, "default", event(name)).await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(30 * 60)).await;
        let mut again = local.get(EVENTS, "default", "again").await.unwrap();
        again["count"] = json!(2);
        local.update(EVENTS, again).await.unwrap();
        tokio::time::sleep(Duration::from_secs(30 * 60)).await;
        // Nothing happens by itself: others that speak bring it about.
        assert_eq!(names(&cluster), ["again", "old"]);
        local.create(EVENTS, "default", event("new")).await.unwrap();
        assert_eq!(names(&cluster), ["again", "new"]);
        tokio::time::sleep(Duration::from_secs(59 * 60)).await;
        cluster.expire_events();
        assert_eq!(names(&cluster), ["new"]);
        tokio::time::sleep(Duration::from_secs(60)).await;
        cluster.expire_events();
        assert_eq!(names(&cluster), Vec::<String>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_events_make_room_for_new_ones() {
        let env = Env::simulated(1);
        let limits = Limits { event_objects: 3, ..Limits::default() };
        let store = Store::new(env.clone(), limits);
        let cluster = Server::new(env).add_cluster_with("hub", store);
        let local = cluster.local("somebody");
        for name in ["a", "b", "c"] {
            local.create(EVENTS, "default", event(name)).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        // One that is counted up is as young as its last count, however often that was.
        for count in 2..20 {
            let mut again = local.get(EVENTS, "default", "a").await.unwrap();
            again["count"] = json!(count);
            local.update(EVENTS, again).await.unwrap();
        }
        local.create(EVENTS, "default", event("d")).await.unwrap();
        assert_eq!(names(&cluster), ["a", "c", "d"]);
        local.create(EVENTS, "default", event("e")).await.unwrap();
        assert_eq!(names(&cluster), ["a", "d", "e"]);
        let noted = cluster.cluster.events.lock().unwrap().0.as_ref().map(VecDeque::len);
        assert!(noted <= Some(6), "{noted:?}");
        // It was removed by somebody else, and makes no room twice.
        local.delete(EVENTS, "default", "d", DeleteOptions::default()).await.unwrap();
        local.create(EVENTS, "default", event("f")).await.unwrap();
        assert_eq!(names(&cluster), ["a", "e", "f"]);
    }

    #[tokio::test(start_paused = true)]
    async fn events_of_before_a_restart_go_by_their_own_time() {
        let folder = std::env::temp_dir().join(format!("flagship-events-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&folder));
        std::fs::create_dir(&folder).unwrap();
        let env = Env::simulated(1);
        let started = || {
            let durable = Durable::open(&folder.join("data")).unwrap();
            let store = durable.store("hub", env.clone(), Limits::default()).unwrap();
            (Server::new(env.clone()).add_cluster_with("hub", store), durable)
        };
        let (cluster, durable) = started();
        cluster.local("somebody").create(EVENTS, "default", event("old")).await.unwrap();
        durable.close().unwrap();
        drop(cluster);
        let (cluster, _durable) = started();
        tokio::time::sleep(Duration::from_secs(59 * 60)).await;
        cluster.expire_events();
        assert_eq!(names(&cluster), ["old"]);
        tokio::time::sleep(Duration::from_secs(60)).await;
        cluster.expire_events();
        assert_eq!(names(&cluster), Vec::<String>::new());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
