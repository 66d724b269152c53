//! A writing server is killed again and again, and never loses what it acknowledged.
//!
//! The server is this test's own program, started anew with an environment variable. It
//! says what it found, what a watch showed and what was acknowledged, a line each; after
//! some of those lines, chosen by chance, it is killed without warning.
//! `FLAGSHIP_RESTARTS=1000` does it more often than a change has patience for.

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
const WRITERS: usize = 8;
const SERVERS: usize = 4;

#[test]
fn a_killed_server_loses_nothing_it_acknowledged_and_uses_no_revision_twice() {
    let restarts = std::env::var("FLAGSHIP_RESTARTS").map_or(24, |text| text.parse().unwrap());
    // Several servers beside each other, for each waits most of its life for the disk.
    let servers: Vec<_> = (0..SERVERS)
        .map(|server| {
            let lives = restarts / SERVERS + usize::from(server < restarts % SERVERS);
            std::thread::spawn(move || Known::of(server).through(lives))
        })
        .collect();
    let ended = servers.into_iter().map(|server| server.join().unwrap());
    let acknowledged: usize = ended.sum();
    assert!(acknowledged > restarts * WRITERS, "{acknowledged} writes");
    println!("{restarts} kills, {acknowledged} acknowledged writes, none lost");
}

/// What the world outside knows of one server.
struct Known {
    folder: PathBuf,
    chance: fastrand::Rng,
    /// The last acknowledged count of each writer.
    counts: BTreeMap<String, u64>,
    /// The largest revision anybody saw, acknowledged or not.
    revision: u64,
    acknowledged: usize,
}

impl Known {
    fn of(server: usize) -> Self {
        let name = format!("flagship-killed-{}-{server}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let chance = fastrand::Rng::with_seed(7 + server as u64);
        Self { folder, chance, counts: BTreeMap::new(), revision: 0, acknowledged: 0 }
    }

    /// So many lives; how many writes were acknowledged in them.
    fn through(mut self, lives: usize) -> usize {
        for _ in 0..lives {
            self.life();
        }
        std::fs::remove_dir_all(&self.folder).unwrap();
        self.acknowledged
    }

    /// Starts the server, checks what it has, and kills it in the middle of its writes.
    fn life(&mut self) {
        let lines_to_live = self.chance.usize(1..120);
        let mut server = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::the_server_that_is_killed", "--ignored", "--nocapture"])
            .env(FOLDER, &self.folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let lines = BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap);
        let (mut found, mut acknowledged, mut before) = (BTreeMap::new(), 0, self.revision);
        // What each revision of this life was used for.
        let mut used: BTreeMap<u64, String> = BTreeMap::new();
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["has", name, count, revision] => {
                    found.insert((*name).to_owned(), count.parse::<u64>().unwrap());
                    before = before.max(revision.parse().unwrap());
                }
                ["ready"] => self.compare(&found),
                [said @ ("saw" | "wrote"), name, count, revision] => {
                    let revision: u64 = revision.parse().unwrap();
                    assert!(revision > before, "revision {revision} is used again");
                    self.revision = self.revision.max(revision);
                    let what = format!("{name} {count}");
                    let first = used.entry(revision).or_insert_with(|| what.clone());
                    assert_eq!(*first, what, "revision {revision} is used twice");
                    if *said == "saw" {
                        continue;
                    }
                    self.counts.insert((*name).to_owned(), count.parse().unwrap());
                    acknowledged += 1;
                    if acknowledged == lines_to_live {
                        // What was said before the kill still comes through the pipe.
                        server.kill().unwrap();
                    }
                }
                _ => {}
            }
        }
        server.wait().unwrap();
        self.acknowledged += acknowledged;
        assert!(acknowledged >= lines_to_live, "the server ended by itself");
    }

    fn compare(&self, found: &BTreeMap<String, u64>) {
        for (name, acknowledged) in &self.counts {
            let has = found.get(name).copied();
            // A write nobody was told of may be there as well.
            let kept = has.is_some_and(|has| has >= *acknowledged);
            assert!(kept, "{name}: {acknowledged} was acknowledged, {has:?} is there");
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
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
        tokio::spawn(watch(cluster.clone(), revision.to_owned()));
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

/// Says what a watcher is shown, which may be before it is acknowledged to its writer.
async fn watch(cluster: ClusterHandle, since: String) {
    let path = format!("{MAPS}?watch=true&resourceVersion={since}");
    let request = Request::get(path).body(Full::<Bytes>::default()).unwrap();
    let mut body = cluster.clone().call(request).await.unwrap().into_body();
    while let Some(frame) = body.frame().await {
        for line in frame.unwrap().into_data().unwrap().split(|byte| *byte == b'\n') {
            let Ok(event) = serde_json::from_slice::<Value>(line) else { continue };
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
