//! A writing server is killed again and again, and never loses what it acknowledged.
//!
//! The server is this test's own program, started anew with an environment variable. It
//! says what it found and what was acknowledged, a line each; after some of those lines,
//! chosen by chance, it is killed without warning. `FLAGSHIP_RESTARTS=1000` does it more
//! often than a change has patience for.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::server::{MAPS, ask, count_of, counted, open};

const FOLDER: &str = "FLAGSHIP_KILLED_FOLDER";
const WRITERS: usize = 8;

#[test]
fn a_killed_server_loses_nothing_it_acknowledged() {
    let restarts = std::env::var("FLAGSHIP_RESTARTS").map_or(25, |text| text.parse().unwrap());
    let folder = std::env::temp_dir().join(format!("flagship-killed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let chance = fastrand::Rng::with_seed(7);
    let mut known = Known::default();
    for _ in 0..restarts {
        known.life(&folder, chance.clone());
    }
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(known.acknowledged as usize > restarts * WRITERS, "{} writes", known.acknowledged);
    println!("{restarts} kills, {} acknowledged writes, none lost", known.acknowledged);
}

/// What the world outside knows.
#[derive(Default)]
struct Known {
    /// The last acknowledged count of each writer.
    counts: BTreeMap<String, u64>,
    /// The largest revision anybody saw.
    revision: u64,
    acknowledged: u64,
    lives: u64,
}

impl Known {
    /// Starts the server, checks what it has, and kills it in the middle of its writes.
    fn life(&mut self, folder: &Path, mut chance: fastrand::Rng) {
        self.lives += 1;
        chance.seed(self.lives);
        let lines_to_live = chance.usize(1..120);
        let mut server = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::the_server_that_is_killed", "--ignored", "--nocapture"])
            .env(FOLDER, folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let lines = BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap);
        let (mut found, mut acknowledged, mut before) = (BTreeMap::new(), 0, self.revision);
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["has", name, count, revision] => {
                    found.insert((*name).to_owned(), count.parse::<u64>().unwrap());
                    before = before.max(revision.parse().unwrap());
                }
                ["ready"] => self.compare(&found),
                ["wrote", name, count, revision] => {
                    let revision: u64 = revision.parse().unwrap();
                    assert!(revision > before, "revision {revision} is used again");
                    self.revision = self.revision.max(revision);
                    self.counts.insert((*name).to_owned(), count.parse().unwrap());
                    self.acknowledged += 1;
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
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
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

/// A whole line in one write, so that a kill cannot cut it.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    if out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}
