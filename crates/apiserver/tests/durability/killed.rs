//! A server is killed again and again while it is written and read, and never loses what it
//! acknowledged or showed to anybody.
//!
//! The server is this test's own program, started anew with an environment variable. It
//! says what it found, what reads and a watch showed and what was acknowledged, a line each;
//! after some of those lines, chosen by chance, it is killed without warning. The next one
//! goes on with the watch where the last left it: no event may be missing between the two.
//! `FLAGSHIP_RESTARTS=10000` does it more often than a change has patience for.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use bytes::Bytes;
use flagship_apiserver::rest::ClusterHandle;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tower::Service;

use super::server::{MAPS, ask, count_of, counted, open};

const FOLDER: &str = "FLAGSHIP_KILLED_FOLDER";
/// Where the watch of the last life ended.
const SINCE: &str = "FLAGSHIP_KILLED_SINCE";
const WRITERS: usize = 8;
const SERVERS: usize = 4;

#[test]
fn a_killed_server_loses_nothing_it_acknowledged_or_showed_and_uses_no_revision_twice() {
    let restarts = std::env::var("FLAGSHIP_RESTARTS").map_or(24, |text| text.parse().unwrap());
    // Several servers beside each other, for each waits most of its life for the disk.
    let servers: Vec<_> = (0..SERVERS)
        .map(|server| {
            let lives = restarts / SERVERS + usize::from(server < restarts % SERVERS);
            std::thread::spawn(move || Known::of(server).through(lives))
        })
        .collect();
    let ended = servers.into_iter().map(|server| server.join().unwrap());
    let ended = ended.fold([0; 3], |sum, one| [0, 1, 2].map(|at| sum[at] + one[at]));
    let [acknowledged, read, seen] = ended;
    assert!(acknowledged > restarts * WRITERS, "{acknowledged} writes");
    assert!(read > restarts && seen > restarts, "{read} reads, {seen} events");
    println!(
        "{restarts} kills: {acknowledged} acknowledged writes, {read} versions read and {seen} events watched, none lost"
    );
}

/// What the world outside knows of one server.
struct Known {
    folder: PathBuf,
    chance: fastrand::Rng,
    /// The last count of each writer that was acknowledged or shown.
    counts: BTreeMap<String, u64>,
    /// The last count of each writer that the watch showed.
    watched: BTreeMap<String, u64>,
    /// The last revision that the watch showed.
    since: u64,
    /// The largest revision anybody saw.
    revision: u64,
    /// What each revision of this life and the last was used for.
    used: BTreeMap<u64, String>,
    /// Writes that were acknowledged, versions that were read, events that were watched.
    told: [usize; 3],
}

impl Known {
    fn of(server: usize) -> Self {
        let name = format!("flagship-killed-{}-{server}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let chance = fastrand::Rng::with_seed(7 + server as u64);
        let (counts, watched, used) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { folder, chance, counts, watched, since: 0, revision: 0, used, told: [0; 3] }
    }

    /// So many lives; what was told in them.
    fn through(mut self, lives: usize) -> [usize; 3] {
        for _ in 0..lives {
            self.life();
        }
        std::fs::remove_dir_all(&self.folder).unwrap();
        self.told
    }

    /// Starts the server, checks what it has, and kills it in the middle of its writes.
    fn life(&mut self) {
        let lines_to_live = self.chance.usize(1..120);
        let mut server = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::the_server_that_is_killed", "--ignored", "--nocapture"])
            .env(FOLDER, &self.folder)
            .env(SINCE, self.since.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let lines = BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap);
        let (mut found, mut acknowledged) = (BTreeMap::new(), 0);
        let before = self.revision;
        self.used = self.used.split_off(&self.since);
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["has", name, count, revision] => {
                    found.insert((*name).to_owned(), count.parse::<u64>().unwrap());
                    self.uses(revision.parse().unwrap(), format!("{name} {count}"));
                }
                ["ready"] => self.compare(&found),
                ["expired"] => panic!("a watch from {} must list again", self.since),
                [said @ ("saw" | "read" | "wrote"), name, count, revision] => {
                    let (count, revision): (u64, u64) =
                        (count.parse().unwrap(), revision.parse().unwrap());
                    self.uses(revision, format!("{name} {count}"));
                    let known = self.counts.entry((*name).to_owned()).or_default();
                    *known = count.max(*known);
                    match *said {
                        "saw" => self.follow(name, count, revision),
                        "read" => self.told[1] += 1,
                        _ => {
                            assert!(revision > before, "revision {revision} is used again");
                            acknowledged += 1;
                        }
                    }
                    if acknowledged == lines_to_live && *said == "wrote" {
                        // What was said before the kill still comes through the pipe.
                        server.kill().unwrap();
                    }
                }
                _ => {}
            }
        }
        server.wait().unwrap();
        self.told[0] += acknowledged;
        assert!(acknowledged >= lines_to_live, "the server ended by itself");
    }

    fn uses(&mut self, revision: u64, what: String) {
        self.revision = self.revision.max(revision);
        let first = self.used.entry(revision).or_insert_with(|| what.clone());
        assert_eq!(*first, what, "revision {revision} is used twice");
    }

    /// A watch shows every count of a writer once, over all lives.
    fn follow(&mut self, name: &str, count: u64, revision: u64) {
        let last = self.watched.insert(name.to_owned(), count).unwrap_or(0);
        assert_eq!(count, last + 1, "{name}: the watch lost events or showed them twice");
        assert!(revision > self.since, "the watch goes back");
        self.since = revision;
        self.told[2] += 1;
    }

    fn compare(&self, found: &BTreeMap<String, u64>) {
        for (name, told) in &self.counts {
            let has = found.get(name).copied();
            // A write nobody was told of may be there as well.
            let kept = has.is_some_and(|has| has >= *told);
            assert!(kept, "{name}: {told} was acknowledged or shown, {has:?} is there");
        }
    }
}

#[test]
#[ignore = "the other half of the test above"]
fn the_server_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (_durable, cluster) = open(&folder);
        let (_, list) = ask(&cluster, "GET", MAPS, &Value::Null).await;
        let mut counts = BTreeMap::new();
        say("");
        for map in list["items"].as_array().unwrap() {
            let name = map["metadata"]["name"].as_str().unwrap().to_owned();
            if !name.starts_with("writer-") {
                continue;
            }
            let (count, revision) = count_of(map);
            say(&format!("has {name} {count} {revision}"));
            counts.insert(name, count);
        }
        say("ready");
        let since = std::env::var(SINCE).unwrap_or_default();
        // The first life begins with what there is, which is nothing.
        let now = list["metadata"]["resourceVersion"].as_str().unwrap();
        let since = if since == "0" { now } else { &since };
        tokio::spawn(watch(cluster.clone(), since.to_owned()));
        tokio::spawn(get_again_and_again(cluster.clone()));
        tokio::spawn(list_again_and_again(cluster.clone()));
        let writers = (0..WRITERS).map(|number| {
            let (cluster, name) = (cluster.clone(), format!("writer-{number}"));
            let mut count = counts.get(&name).copied().unwrap_or_default();
            tokio::spawn(async move {
                loop {
                    count += 1;
                    let map = counted(&name, count, 200);
                    let (code, made) = match count {
                        1 => ask(&cluster, "POST", MAPS, &map).await,
                        _ => ask(&cluster, "PUT", &format!("{MAPS}/{name}"), &map).await,
                    };
                    assert!(code < 300, "{code} {made}");
                    let (count, revision) = count_of(&made);
                    say(&format!("wrote {name} {count} {revision}"));
                }
            })
        });
        let (ended, ..) = futures::future::select_all(writers).await;
        panic!("a writer ended by itself: {ended:?}");
    });
}

/// Says what reads of one object show, each version once.
async fn get_again_and_again(cluster: ClusterHandle) {
    let mut known = BTreeMap::new();
    for number in (0..WRITERS).cycle() {
        let path = format!("{MAPS}/writer-{number}");
        let (code, map) = ask(&cluster, "GET", &path, &Value::Null).await;
        if code == 200 {
            say_read(&mut known, &map);
        }
        tokio::task::yield_now().await;
    }
}

/// Says what lists show, each version once.
async fn list_again_and_again(cluster: ClusterHandle) {
    let mut known = BTreeMap::new();
    loop {
        let (_, list) = ask(&cluster, "GET", MAPS, &Value::Null).await;
        list["items"].as_array().unwrap().iter().for_each(|map| say_read(&mut known, map));
        tokio::task::yield_now().await;
    }
}

fn say_read(known: &mut BTreeMap<String, u64>, map: &Value) {
    let name = map["metadata"]["name"].as_str().unwrap();
    if name.starts_with("writer-") {
        let (count, revision) = count_of(map);
        if known.insert(name.to_owned(), count) != Some(count) {
            say(&format!("read {name} {count} {revision}"));
        }
    }
}

/// Says what a watcher is shown, which may be before it is acknowledged to its writer.
async fn watch(cluster: ClusterHandle, since: String) {
    let path = format!("{MAPS}?watch=true&resourceVersion={since}");
    let request = Request::get(path).body(Full::<Bytes>::default()).unwrap();
    let mut body = cluster.clone().call(request).await.unwrap().into_body();
    while let Some(frame) = body.frame().await {
        for line in frame.unwrap().into_data().unwrap().split(|byte| *byte == b'\n') {
            let Ok(event) = serde_json::from_slice::<Value>(line) else { continue };
            if event["type"] == "ERROR" {
                say("expired");
            }
            let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if name.starts_with("writer-") {
                let (count, revision) = count_of(&event["object"]);
                say(&format!("saw {name} {count} {revision}"));
            }
        }
    }
}

/// A whole line in one write, so that a kill cannot cut it.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    if out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}
