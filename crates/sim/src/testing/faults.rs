//! What goes wrong between controllers and their API server.

use std::time::Duration;

use flagship_store::env::plan::{Effect, Rule, Verbs, When};
use flagship_store::env::{FaultOutcome, Point};

/// How late answers and events may come.
#[derive(Clone, Copy, Debug)]
pub struct Delays {
    /// Of a request.
    pub request: Duration,
    /// Of an event of a watch.
    pub event: Duration,
}

/// Something that goes wrong now and then for one caller, or for all whose name begins so.
pub fn sometimes(caller: &str, point: Point, effect: Effect, chance: f64, verbs: Verbs) -> Rule {
    Rule { who: caller.to_owned(), when: When::Chance(chance), verbs, ..Rule::at(point, effect) }
}

/// Refused, lost and late answers, and watches that are cut, late, replayed and expired, for
/// one caller, each now and then.
pub fn faults(caller: &str, delays: Delays) -> Vec<Rule> {
    let rule = |point, effect, chance, verbs| sometimes(caller, point, effect, chance, verbs);
    let answer = |code| Effect::Do(FaultOutcome::Answer { code, retry_after: None });
    let cut = || Effect::Do(FaultOutcome::Sever);
    vec![
        rule(Point::Request, answer(409), 0.1, Verbs::Writes),
        rule(Point::PreCommit, answer(503), 0.1, Verbs::Writes),
        rule(Point::PostCommit, cut(), 0.1, Verbs::Writes),
        rule(Point::Request, cut(), 0.05, Verbs::Reads),
        rule(Point::Request, Effect::DelayUpTo(delays.request), 0.1, Verbs::Any),
        rule(Point::WatchEvent, cut(), 0.02, Verbs::Any),
        rule(Point::WatchEvent, Effect::DelayUpTo(delays.event), 0.1, Verbs::Any),
        rule(Point::WatchStart, Effect::Do(FaultOutcome::Expire), 0.1, Verbs::Any),
        rule(Point::WatchStart, Effect::Do(FaultOutcome::Replay(5)), 0.2, Verbs::Any),
    ]
}
