//! A story: everything that a seed decides, written out. A fleet, who does what when, and what
//! goes wrong.
//!
//! A story is a value that can be stored in a file, told again and made smaller. What it does
//! not say (UIDs, jitter, which calls a fault hits) follows from its seed, and each fault draws
//! for itself: a story that loses one keeps the draws of the others.

use std::time::Duration;

use flagship_runtime::env::Entropy;
use flagship_store::env::plan::{Effect, Rule, Verbs, When};
use flagship_store::env::{FaultOutcome, Point};
use serde::{Deserialize, Serialize};

use super::planted::Bug;

/// A fleet and what happens to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Story {
    /// Decides what is not written here.
    pub seed: u64,
    /// Whether placement and runs live in a namespace.
    pub namespaced: bool,
    /// The offset of each hub's clock from the true time, in seconds. All hubs lead.
    pub hubs: Vec<i64>,
    /// The members at the beginning.
    pub members: Vec<MemberStory>,
    /// The stages of the strategy.
    pub stages: Vec<StageStory>,
    /// Seconds between the heartbeats of a member.
    pub heartbeat: u64,
    /// Whether a second placement is rolled out without runs.
    pub rolling: bool,
    /// What goes wrong between controllers and API server.
    pub faults: Vec<FaultStory>,
    /// What people do and what happens to machines, in order of time.
    pub steps: Vec<Step>,
    /// A bug that is planted to see whether it is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bug: Option<Bug>,
}

/// A member, played.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStory {
    /// Its name.
    pub name: String,
    /// Its label `env`, by which stages choose.
    pub env: String,
    /// Seconds from a delivery until it is available.
    pub ready: u64,
    /// What is special about it.
    pub manner: Manner,
}

/// How a member reports on what was delivered, until the faults end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Manner {
    /// It becomes available and says so.
    Plain,
    /// It becomes available, fails after so many seconds, and recovers after as many.
    Flaps(u64),
    /// It speaks of the generation before, and only later of the present one.
    SpeaksOfThePast,
    /// It says nothing.
    Silent,
    /// It says that nothing can be applied.
    Fails,
}

/// A stage of the strategy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageStory {
    /// Its name, and the `env` of its clusters.
    pub name: String,
    /// How many at once, as a number or a percentage.
    pub at_once: String,
    /// Whether somebody must approve before it.
    pub approve_before: bool,
    /// Whether somebody must approve after it.
    pub approve_after: bool,
    /// Seconds to wait after it; none if 0.
    pub wait: u64,
}

/// One kind of fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaultStory {
    /// Its name in reports.
    pub kind: String,
    /// When it hits, and what it does.
    pub rule: Rule,
}

/// Something that happens at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Seconds after the fleet has joined.
    pub at: u64,
    /// What happens.
    pub what: What,
}

/// What people do, and what happens to machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// Somebody creates a run; by what is there now if no version is named.
    Run {
        /// Its name.
        name: String,
        /// `spec.state`.
        state: String,
        /// `spec.resourceSnapshotIndex`; empty for none.
        index: String,
    },
    /// Somebody sets the state of a run.
    SetState {
        /// The run.
        run: String,
        /// `spec.state`.
        state: String,
    },
    /// Somebody deletes a run.
    DeleteRun(String),
    /// Somebody approves the n-th open request.
    Approve(usize),
    /// The same, for a generation that the request does not have.
    ApproveWrongly(usize),
    /// Somebody takes the n-th approval back.
    TakeBack(usize),
    /// Somebody deletes the n-th request.
    DeleteRequest(usize),
    /// Somebody creates a request by hand, approved, before the run asks.
    ApproveEarly {
        /// The run.
        run: String,
        /// The stage.
        stage: String,
    },
    /// Somebody edits what is placed.
    Edit(u64),
    /// Somebody edits the strategy: so many at once in every stage.
    EditStrategy(u64),
    /// Somebody moves a member to another stage.
    Relabel {
        /// The member.
        member: String,
        /// Its new `env`.
        env: String,
    },
    /// A member joins.
    Join(MemberStory),
    /// A member is removed from the fleet.
    Leave(String),
    /// Somebody evicts the placement from a member.
    Evict(String),
    /// Somebody deletes the placement, and creates it again a minute later.
    Replace,
    /// What a member runs fails by itself, and recovers after so many seconds.
    Regress {
        /// The member.
        member: String,
        /// Seconds.
        seconds: u64,
    },
    /// An object that nobody can read is stored.
    Malformed(String),
    /// A hub dies and is started again after so many seconds.
    Crash {
        /// Which one.
        hub: usize,
        /// Seconds.
        seconds: u64,
    },
    /// The clock of a hub is set.
    SetClock {
        /// Which one.
        hub: usize,
        /// Its offset from the true time from now on, in seconds.
        offset: i64,
    },
}

impl What {
    /// Its kind, for counting.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Run { .. } => "run",
            Self::SetState { state, .. } if state == "Stop" => "stop",
            Self::SetState { .. } => "resume",
            Self::DeleteRun(_) => "delete run",
            Self::Approve(_) => "approve",
            Self::ApproveWrongly(_) => "wrong approval",
            Self::TakeBack(_) => "approval taken back",
            Self::DeleteRequest(_) => "request deleted",
            Self::ApproveEarly { .. } => "early approval",
            Self::Edit(_) => "edit",
            Self::EditStrategy(_) => "edit strategy",
            Self::Relabel { .. } => "relabel",
            Self::Join(_) => "join",
            Self::Leave(_) => "leave",
            Self::Evict(_) => "evict",
            Self::Replace => "replace placement",
            Self::Regress { .. } => "regression",
            Self::Malformed(_) => "malformed object",
            Self::Crash { .. } => "crash",
            Self::SetClock { .. } => "clock jump",
        }
    }
}

/// Environments of members, each a stage.
const STAGES: [&str; 3] = ["canary", "east", "west"];

/// Seconds in which everything happens; then faults end.
pub const LENGTH: u64 = 900;

/// Draws from a seed.
pub(super) struct Draw(Entropy);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self(Entropy::seeded(seed))
    }

    /// A number below `end`; 0 if that is 0.
    pub(super) fn below(&self, end: u64) -> u64 {
        self.0.u64().checked_rem(end).unwrap_or(0)
    }

    fn from(&self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// True so many times in a hundred.
    fn percent(&self, part: u64) -> bool {
        self.below(100) < part
    }

    fn one_of<T: Clone>(&self, of: &[T]) -> T {
        let at = usize::try_from(self.below(of.len() as u64)).unwrap_or(0);
        of[at].clone()
    }
}

/// How large the fleets of a campaign are.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// At most so many members.
    pub members: u64,
    /// At most so many steps.
    pub steps: u64,
}

impl Shape {
    /// Of a campaign.
    pub const CAMPAIGN: Self = Self { members: 6, steps: 24 };
    /// Of a test that tells many stories in a few seconds.
    pub const SMALL: Self = Self { members: 2, steps: 8 };
    /// Of a test that only asks whether stories go the same way again.
    pub const SHORT: Self = Self { members: 2, steps: 4 };
}

/// The story of a seed.
pub fn draw(seed: u64, shape: Shape) -> Story {
    // Its own sequence: the seed also decides UIDs and jitter.
    let draw = Draw::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5eed);
    let namespaced = draw.percent(40);
    let mut hubs = vec![0];
    if draw.percent(33) {
        hubs.push(0);
    }
    let skewed = draw.percent(25);
    if skewed {
        for hub in &mut hubs {
            // Further ahead than five minutes a hub takes living members for lost, again and
            // again, which no rule could tell from members that are.
            *hub = i64::try_from(draw.below(480)).unwrap_or(0) - 240;
        }
    }
    let stages = stages(&draw);
    let envs: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
    let count = draw.from(1, shape.members);
    let odd = draw.percent(50);
    let mut members: Vec<MemberStory> =
        (1..=count).map(|number| member(&draw, number, &envs, odd)).collect();
    if let (Some(first), Some(env)) = (members.first_mut(), envs.first()) {
        first.env = (*env).to_owned();
    }
    let steps = steps(&draw, shape, &members, &envs, &hubs, skewed, namespaced);
    let faults = faults(&draw, hubs.len());
    let rolling = draw.percent(25);
    Story {
        seed,
        namespaced,
        hubs,
        members,
        stages,
        heartbeat: 120,
        rolling,
        faults,
        steps,
        bug: None,
    }
}

fn stages(draw: &Draw) -> Vec<StageStory> {
    let count = usize::try_from(draw.from(1, 3)).unwrap_or(1);
    let stage = |name: &&str| StageStory {
        name: (*name).to_owned(),
        at_once: draw.one_of(&["1", "1", "2", "50%", "100%"]).to_owned(),
        approve_before: draw.percent(30),
        approve_after: draw.percent(25),
        wait: if draw.percent(30) { draw.from(5, 90) } else { 0 },
    };
    STAGES.iter().take(count).map(stage).collect()
}

fn member(draw: &Draw, number: u64, envs: &[&str], odd: bool) -> MemberStory {
    let manner = match draw.below(10) {
        0 if odd => Manner::Flaps(draw.from(5, 120)),
        1 if odd => Manner::SpeaksOfThePast,
        2 if odd => Manner::Silent,
        3 if odd => Manner::Fails,
        _ => Manner::Plain,
    };
    let ready = draw.one_of(&[0, 1, 3, 10, 40, 400]);
    let env = draw.one_of(envs).to_owned();
    MemberStory { name: format!("m{number}"), env, ready, manner }
}

#[allow(clippy::too_many_arguments)] // what a person may act on
fn steps(
    draw: &Draw,
    shape: Shape,
    members: &[MemberStory],
    envs: &[&str],
    hubs: &[i64],
    skewed: bool,
    namespaced: bool,
) -> Vec<Step> {
    let runs = ["a", "b", "c"];
    // People differ, too: a story has only some of the things they may do.
    let mut kinds: Vec<u64> = vec![1, 1, 2, 2, 4, 4, 4, 8];
    kinds.extend((0..19).filter(|_| draw.percent(45)));
    let first = What::Run { name: "a".to_owned(), state: "Run".to_owned(), index: String::new() };
    let mut steps = vec![Step { at: 1, what: first }];
    for number in 0..draw.from(shape.steps / 4, shape.steps) {
        let run = draw.one_of(&runs).to_owned();
        let nth = usize::try_from(draw.below(3)).unwrap_or(0);
        let member = draw.one_of(members).name;
        let env = draw.one_of(envs).to_owned();
        let hub = usize::try_from(draw.below(hubs.len() as u64)).unwrap_or(0);
        let what = match draw.one_of(&kinds) {
            0 => What::Run { name: run, state: "Initialize".to_owned(), index: String::new() },
            1 => What::Run {
                name: run,
                state: "Run".to_owned(),
                index: draw.one_of(&["", "", "0", "1"]).to_owned(),
            },
            2 => What::SetState { run, state: draw.one_of(&["Stop", "Run"]).to_owned() },
            3 => What::DeleteRun(run),
            4 => What::Approve(nth),
            5 => What::ApproveWrongly(nth),
            6 => What::TakeBack(nth),
            7 => What::DeleteRequest(nth),
            8 => What::Edit(number + 1),
            9 => What::EditStrategy(draw.from(1, 3)),
            10 => What::Relabel { member, env },
            11 => What::Join(self::member(draw, 10 + number, envs, true)),
            12 => What::Leave(member),
            13 if !namespaced => What::Evict(member),
            13 | 14 => What::Regress { member, seconds: draw.from(1, 200) },
            15 => What::Crash { hub, seconds: draw.one_of(&[0, 1, 30, 600]) },
            16 if skewed => {
                let offset = i64::try_from(draw.below(1200)).unwrap_or(0) - 600;
                What::SetClock { hub, offset }
            }
            16 | 17 => What::ApproveEarly { run, stage: env },
            _ if draw.percent(30) => What::Replace,
            _ => What::Malformed(format!("odd{number}")),
        };
        steps.push(Step { at: draw.below(LENGTH), what });
    }
    steps.sort_by_key(|step| step.at);
    steps
}

/// A large fleet for so many hours: the canary, then a tenth, then the rest, a new version and
/// a run of it every day, and faults of the usual kinds.
pub fn large(seed: u64, members: u64, hours: u64) -> Story {
    let drawn = draw(seed, Shape::CAMPAIGN);
    let stage = |name: &str, at_once: &str| StageStory {
        name: name.to_owned(),
        at_once: at_once.to_owned(),
        approve_before: false,
        approve_after: false,
        wait: 600,
    };
    let member = |number: u64| MemberStory {
        name: format!("m{number:04}"),
        env: match number {
            0..10 => STAGES[0],
            number if number < members / 10 => STAGES[1],
            _ => STAGES[2],
        }
        .to_owned(),
        ready: 20 + number % 100,
        manner: Manner::Plain,
    };
    let day = |day: u64| {
        let name = format!("day{day}");
        let run = What::Run { name, state: "Run".to_owned(), index: String::new() };
        let at = day * 86_400;
        [Step { at: at + 1, what: What::Edit(day) }, Step { at: at + 60, what: run }]
    };
    let mut steps: Vec<Step> = (0..hours.div_ceil(24)).flat_map(day).collect();
    steps.push(Step { at: hours * 3600, what: What::Edit(99) });
    Story {
        seed,
        namespaced: false,
        hubs: vec![0],
        members: (0..members).map(member).collect(),
        stages: vec![stage(STAGES[0], "100%"), stage(STAGES[1], "25%"), stage(STAGES[2], "10%")],
        heartbeat: 600,
        rolling: false,
        faults: drawn.faults,
        steps,
        bug: None,
    }
}

/// Every kind of fault between controllers and API server, by name.
pub const FAULTS: [&str; 19] = [
    "409 conflict",
    "429 with Retry-After",
    "500",
    "503",
    "504, not done",
    "reply lost, done",
    "refused connection",
    "no answer",
    "slow request",
    "slow reply",
    "crash before a write",
    "crash after a write",
    "watch from an older list",
    "watch cut",
    "watch expired (410)",
    "events late",
    "events ten minutes late",
    "events repeated",
    "no bookmarks",
];

/// Which faults a story has, and how often they hit.
fn faults(draw: &Draw, hubs: usize) -> Vec<FaultStory> {
    let some = draw.percent(90);
    let mut all = Vec::new();
    for kind in FAULTS {
        // Drawn in any case, so that each kind is as likely whatever came before.
        let (often, there) = (draw.from(1, 15) as f64 / 100.0, draw.percent(30));
        let (seconds, nth) = (draw.from(1, 20), draw.from(1, 40));
        let who = match draw.below(hubs as u64 + 1) {
            0 => "hub*".to_owned(),
            number => format!("hub{}", number - 1),
        };
        if !(some && there) {
            continue;
        }
        let answer = |code, retry_after| Effect::Do(FaultOutcome::Answer { code, retry_after });
        let late = |seconds| Effect::DelayUpTo(Duration::from_secs(seconds));
        let retry = u32::try_from(seconds).ok();
        let (point, verbs, effect) = match kind {
            "409 conflict" => (Point::Request, Verbs::Writes, answer(409, None)),
            "429 with Retry-After" => (Point::Request, Verbs::Any, answer(429, retry)),
            "500" => (Point::PreCommit, Verbs::Writes, answer(500, None)),
            "503" => (Point::Request, Verbs::Any, answer(503, None)),
            "504, not done" => (Point::PreCommit, Verbs::Writes, answer(504, None)),
            "reply lost, done" => {
                (Point::PostCommit, Verbs::Writes, Effect::Do(FaultOutcome::Sever))
            }
            "refused connection" => (Point::Request, Verbs::Any, Effect::Do(FaultOutcome::Sever)),
            "no answer" => (Point::Request, Verbs::Any, Effect::Do(FaultOutcome::Hang)),
            "slow request" => (Point::Request, Verbs::Any, late(seconds)),
            "slow reply" => (Point::PostCommit, Verbs::Writes, late(seconds)),
            "crash before a write" => (Point::PreCommit, Verbs::Writes, Effect::Crash),
            "crash after a write" => (Point::PostCommit, Verbs::Writes, Effect::Crash),
            "watch from an older list" => {
                (Point::WatchStart, Verbs::Any, Effect::StaleUpTo(seconds))
            }
            "watch cut" => (Point::WatchEvent, Verbs::Any, Effect::Do(FaultOutcome::Sever)),
            "watch expired (410)" => {
                (Point::WatchStart, Verbs::Any, Effect::Do(FaultOutcome::Expire))
            }
            "events late" => (Point::WatchEvent, Verbs::Any, late(seconds)),
            "events ten minutes late" => (Point::WatchEvent, Verbs::Any, late(600)),
            "events repeated" => {
                (Point::WatchStart, Verbs::Any, Effect::Do(FaultOutcome::Replay(nth)))
            }
            _ => (Point::Bookmark, Verbs::Any, Effect::Do(FaultOutcome::Starve)),
        };
        let when = match kind {
            "crash before a write" | "crash after a write" => When::Every(nth.max(8) * 2),
            "events ten minutes late" | "no answer" => When::Chance(often / 10.0),
            _ => When::Chance(often),
        };
        let rule = Rule { who, verbs, when, ..Rule::at(point, effect) };
        all.push(FaultStory { kind: kind.to_owned(), rule });
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_of_fault_step_and_member_is_drawn() {
        let stories: Vec<Story> = (0..400).map(|seed| draw(seed, Shape::CAMPAIGN)).collect();
        let kinds = stories.iter().flat_map(|story| &story.faults);
        let kinds: BTreeSet<&str> = kinds.map(|fault| fault.kind.as_str()).collect();
        assert_eq!(kinds, BTreeSet::from(FAULTS));
        let steps = stories.iter().flat_map(|story| &story.steps);
        let steps: BTreeSet<&str> = steps.map(|step| step.what.kind()).collect();
        assert_eq!(steps.len(), 20, "{steps:?}");
        for manner in [Manner::Plain, Manner::SpeaksOfThePast, Manner::Silent, Manner::Fails] {
            assert!(stories.iter().flat_map(|s| &s.members).any(|m| m.manner == manner));
        }
        assert!(stories.iter().any(|story| story.hubs.len() == 2));
        assert!(stories.iter().any(|story| story.hubs[0] != 0));
    }

    #[test]
    fn a_story_is_the_same_after_it_was_stored() {
        for seed in 0..20 {
            let story = draw(seed, Shape::CAMPAIGN);
            let text = serde_json::to_string(&story).unwrap();
            assert_eq!(serde_json::from_str::<Story>(&text).unwrap(), story, "seed {seed}");
        }
    }
}
