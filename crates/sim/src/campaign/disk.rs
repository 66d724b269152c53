//! The embedded store on a disk that fails: a file that is written, cut off and opened again, as
//! a seed decides, and the laws of its recovery.
//!
//! - Whatever was acknowledged, or shown to a reader, is there after the power was gone.
//! - What is there is what was written up to one moment, and nothing else.
//! - No revision that anybody was told of is given out again.
//! - A disk that says it has flushed and has not may cost what it lied about; then the file is
//!   refused as damaged, and never served as if it were whole.
//! - A full disk refuses changes and shows what it has; with room again everything that was
//!   taken on is stored.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flagship_store::durable::{Durable, DurableError, FailingDisk, Keys, Seen};
use flagship_store::env::Env;
use flagship_store::{Change, Encoded, Expect, Head, Limits, ObjectKey, Scope, Store, Write};
use serde_json::{Value, json};

use super::story::Draw;

/// What is stored.
const RESOURCE: &str = "configmaps";

/// How many names there are: few, so that they are written again and deleted.
const NAMES: u64 = 9;

/// How often a disk that has room again is asked whether all is stored.
const LOOKS: usize = 20;

/// What came of seeds.
#[derive(Clone, Debug, Default)]
pub struct DiskReport {
    /// Seeds told.
    pub seeds: u64,
    /// Changes that were taken on.
    pub writes: u64,
    /// Changes that were acknowledged as durable.
    pub acknowledged: u64,
    /// Times the power went.
    pub cuts: u64,
    /// Times the process was killed.
    pub kills: u64,
    /// Times the file was opened again and held against the laws.
    pub recoveries: u64,
    /// Files that were refused as damaged, after a disk that lied.
    pub refused: u64,
    /// What the disk did.
    pub seen: Seen,
    /// A planted bug: how far a file was acknowledged is forgotten.
    pub forgetful: bool,
    /// Seeds that broke a law, and what was seen.
    pub broken: Vec<(u64, String)>,
}

impl DiskReport {
    /// In words.
    pub fn text(&self) -> String {
        let Seen { full, slow, lies, lost, torn } = self.seen;
        let mut text = format!(
            "{} seeds: {} changes, {} acknowledged; {} power cuts, {} kills, {} recoveries, \
             {} files refused after a lie\n\
             {full} writes without room, {slow} slow flushes, {lies} flushes that did not happen, \
             {lost} writes lost, {torn} torn\n",
            self.seeds,
            self.writes,
            self.acknowledged,
            self.cuts,
            self.kills,
            self.recoveries,
            self.refused,
        );
        match self.broken.len() {
            0 => text += "no law was broken\n",
            number => text += &format!("{number} seeds broke a law\n"),
        }
        for (seed, what) in &self.broken {
            text += &format!("  seed {seed}: {what}\n");
        }
        text
    }

    /// Tells a seed. Its files are in a folder that is empty and stays.
    pub async fn tell(&mut self, seed: u64, folder: &Path) {
        self.seeds += 1;
        let draw = Draw::new(seed ^ 0xd15c);
        let disk = FailingDisk::new(seed);
        let mut file = DiskStory { report: self, draw, disk, history: History::default() };
        let ended = file.lives(&folder.join("data.redb")).await;
        let seen = file.disk.seen();
        self.seen.full += seen.full;
        self.seen.slow += seen.slow;
        self.seen.lies += seen.lies;
        self.seen.lost += seen.lost;
        self.seen.torn += seen.torn;
        self.broken.extend(ended.err().map(|what| (seed, what)));
    }
}

/// What was written, in order of revisions.
#[derive(Default)]
struct History {
    /// The object that a revision wrote; nothing if it was deleted.
    changes: BTreeMap<u64, (String, Option<u64>)>,
    /// The last revision that somebody was told is durable, or was shown.
    known: u64,
}

/// What is stored by name.
type Content = BTreeMap<String, u64>;

impl History {
    /// What is there after this revision.
    fn at(&self, revision: u64) -> Content {
        let mut content = Content::new();
        for (name, version) in self.changes.range(..=revision).map(|(_, change)| change) {
            match version {
                Some(version) => content.insert(name.clone(), *version),
                None => content.remove(name),
            };
        }
        content
    }

    /// Goes on from what a file had when it was opened again.
    fn goes_on(&mut self, found: &Content) -> Result<(), String> {
        let later = self.changes.range(self.known..).map(|(revision, _)| *revision);
        let moments: Vec<u64> = std::iter::once(self.known).chain(later).collect();
        let moment = moments.into_iter().rev().find(|revision| self.at(*revision) == *found);
        let Some(moment) = moment else {
            let wanted = self.at(self.known);
            return Err(format!("{found:?} is there, and {wanted:?} was acknowledged"));
        };
        self.changes.split_off(&(moment + 1));
        Ok(())
    }
}

struct DiskStory<'a> {
    report: &'a mut DiskReport,
    draw: Draw,
    disk: FailingDisk,
    history: History,
}

/// How a server ends.
enum End {
    Closed,
    Killed,
    PowerCut,
}

impl DiskStory<'_> {
    async fn lives(&mut self, path: &Path) -> Result<(), String> {
        for _ in 0..2 + self.draw.below(4) {
            if self.report.forgetful {
                // There is none before the first life.
                drop(std::fs::remove_file(path.with_extension("redb.mark")));
            }
            let durable = match Durable::open_on(path, Keys::default(), self.disk.clone()) {
                Ok(durable) => durable,
                Err(DurableError::Damaged { .. }) if self.disk.seen().lies > 0 => {
                    self.report.refused += 1;
                    return Ok(());
                }
                Err(why) => return Err(why.to_string()),
            };
            self.report.recoveries += 1;
            let opened = durable.store("hub", Env::simulated(1), Limits::default());
            let store = opened.map_err(|why| why.to_string())?;
            self.history.goes_on(&content(&store))?;
            for _ in 0..5 + self.draw.below(40) {
                self.step(&durable, &store).await?;
            }
            self.end(path, durable, store)?;
        }
        Ok(())
    }

    async fn step(&mut self, durable: &Durable, store: &Arc<Store>) -> Result<(), String> {
        match self.draw.below(20) {
            0 => self.disk.set_slow(Duration::from_millis(self.draw.below(3))),
            1 if self.draw.below(8) == 0 => self.disk.set_lying(true),
            2 if self.draw.below(4) == 0 => return self.full(durable, store).await,
            3 | 4 => self.look(store),
            _ => {
                if let Some(revision) = self.change(store)?
                    && self.draw.below(3) == 0
                {
                    self.settle(store, revision).await?;
                }
            }
        }
        Ok(())
    }

    /// Whatever a reader sees must stay.
    fn look(&mut self, store: &Arc<Store>) {
        let seen = store.read_list(RESOURCE, Scope::All).revision;
        self.history.known = self.history.known.max(seen);
    }

    async fn settle(&mut self, store: &Arc<Store>, revision: u64) -> Result<(), String> {
        store.settled(revision).await.map_err(|why| why.to_string())?;
        self.report.acknowledged += 1;
        self.history.known = self.history.known.max(revision);
        Ok(())
    }

    /// Writes or deletes something; nothing if the store does not take it on.
    fn change(&mut self, store: &Arc<Store>) -> Result<Option<u64>, String> {
        let name = format!("c{}", self.draw.below(NAMES));
        let key = ObjectKey::new("default", name.as_str());
        let there = store.get(RESOURCE, &key);
        let version = store.last_commit() + 1;
        let padding = "x".repeat(usize::try_from(self.draw.below(6000)).unwrap_or(0));
        let object = json!({"metadata": {"name": name, "namespace": "default"},
            "data": {"version": version.to_string(), "padding": padding}});
        let (expect, change, is) = match there {
            Some(there) if self.draw.below(4) == 0 => {
                let (head, json) = (there.head.clone(), Encoded::stored(&there.json));
                (Expect::At(there.revision), Change::Delete { head, json }, None)
            }
            there => {
                let expect = there.map_or(Expect::Absent, |there| Expect::At(there.revision));
                let head = Head::of(&object, Default::default());
                let change = Change::Put { head, json: Encoded::new(&object) };
                (expect, change, Some(version))
            }
        };
        let write = Write { resource: &RESOURCE.into(), key, expect, change };
        if store.commit(write).is_err() {
            return Ok(None);
        }
        let revision = store.last_commit();
        if revision <= self.history.known {
            let known = self.history.known;
            return Err(format!("revision {revision} is given out after {known} was told"));
        }
        self.history.changes.insert(revision, (name, is));
        self.report.writes += 1;
        Ok(Some(revision))
    }

    /// There is no room for a while. What is shown goes on being shown, and what was taken on
    /// is stored once there is room.
    async fn full(&mut self, durable: &Durable, store: &Arc<Store>) -> Result<(), String> {
        self.disk.set_full(true);
        let mut last = None;
        for _ in 0..self.draw.below(30) {
            last = self.change(store)?.or(last);
        }
        let before = store.read_list(RESOURCE, Scope::All).revision;
        self.look(store);
        // Acknowledged or refused, but answered.
        if let Some(last) = last
            && store.settled(last).await.is_ok()
        {
            self.history.known = self.history.known.max(last);
        }
        if store.read_list(RESOURCE, Scope::All).revision < before {
            return Err("a reader on a full disk sees less than before".to_owned());
        }
        self.disk.set_full(false);
        let stored = (0..LOOKS).any(|_| durable.flush().is_ok());
        match stored {
            true => match last {
                Some(last) => self.settle(store, last).await,
                None => Ok(()),
            },
            false => Err(format!("the disk has room and refuses: {:?}", durable.trouble())),
        }
    }

    fn end(&mut self, path: &Path, durable: Durable, store: Arc<Store>) -> Result<(), String> {
        let end = match self.draw.below(8) {
            0 => End::Closed,
            1 | 2 => End::Killed,
            _ => End::PowerCut,
        };
        match end {
            End::Closed => {
                durable.close()?;
                self.history.known = self.history.known.max(store.last_commit());
            }
            End::Killed | End::PowerCut => self.disk.goes_off(),
        }
        store.close();
        drop((store, durable));
        match end {
            End::Closed => {}
            End::Killed => {
                self.report.kills += 1;
                self.disk.comes_on();
            }
            End::PowerCut => {
                self.report.cuts += 1;
                self.disk.comes_back(path).map_err(|why| why.to_string())?;
            }
        }
        Ok(())
    }
}

fn content(store: &Arc<Store>) -> Content {
    let all = store.list(RESOURCE, Scope::All).items;
    let version = |object: &Value| object["data"]["version"].as_str()?.parse().ok();
    all.iter()
        .map(|stored| {
            let object: Value = serde_json::from_slice(&stored.json).unwrap_or_default();
            (stored.key.name.to_string(), version(&object).unwrap_or(0))
        })
        .collect()
}
