//! How long a run would take, where it would stop and who would have to approve when: the
//! stages that the rules foresee, played many times on a clock of their own.
//!
//! A cluster takes a slot of its stage, becomes ready after a time that is drawn, and frees the
//! slot; one that fails or stays silent keeps it, and the stage never ends. Approvals count as
//! given the moment they are asked for: what people take comes on top. Chance is handed in.

use flagship_rules::update_run::Run;
use flagship_rules::update_run::lifecycle::wait_over;
use jiff::Timestamp;
use serde::Serialize;

use crate::board::{Board, Gate, Mark, Side};
use crate::plan::Stages;

/// A number from 0 up to and without 1.
pub type Chance<'a> = &'a mut dyn FnMut() -> f64;

/// How clusters behave.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// How long they take to become ready.
    pub ready: Ready,
    /// Which part of them fails, from 0 to 1.
    pub fail: f64,
    /// Which part of them is never heard of.
    pub silent: f64,
}

/// How long clusters take to become ready, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub enum Ready {
    /// Half of them within the first, all but one in a hundred within the second.
    Percentiles {
        /// The median.
        p50: f64,
        /// All but one in a hundred.
        p99: f64,
    },
    /// As long as clusters took in past runs.
    Learned(Vec<f64>),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rehearsal {
    /// How often it was played.
    pub runs: usize,
    /// In how many of them the run ended.
    pub ended: usize,
    /// Seconds until the run ended, in those.
    pub seconds: Spread,
    /// How many runs ended in which span, for a chart: from these seconds on, so many.
    pub chart: Vec<(f64, usize)>,
    /// The stages.
    pub stages: Vec<StageRehearsal>,
    /// What people are asked.
    pub approvals: Vec<ApprovalRehearsal>,
}

/// A spread of times, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// One in ten is faster.
    pub p10: f64,
    /// The median.
    pub p50: f64,
    /// One in ten is slower.
    pub p90: f64,
    /// One in a hundred is slower.
    pub p99: f64,
}

/// What came of a stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StageRehearsal {
    /// Its name.
    pub name: String,
    /// Its clusters.
    pub clusters: usize,
    /// How many of them at once.
    pub at_once: usize,
    /// Seconds it took with its waits, where it ended.
    pub seconds: Spread,
    /// Its part of the whole time, from 0 to 1.
    pub share: f64,
    /// In how many runs a cluster of it did not become ready, so that the run stopped there.
    pub stops: usize,
}

/// An approval that will be asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRehearsal {
    /// The stage.
    pub stage: String,
    /// Whether it stands before the stage.
    pub before: bool,
    /// Seconds after the start at which it is asked for.
    pub asked: Spread,
}

/// How long clusters took in past runs, in seconds.
pub fn learned(runs: &[Run], now: Timestamp) -> Vec<f64> {
    let mut seconds = Vec::new();
    for run in runs {
        let board = Board::of(&run.name, Some(run.created), &run.spec, &run.status, now);
        for cell in board.stages.iter().flat_map(|stage| &stage.cells) {
            if let (Mark::Done | Mark::Taken, Some(start), Some(end)) =
                (cell.mark, cell.started, cell.ended)
            {
                seconds.push(end.duration_since(start).as_secs_f64().max(0.0));
            }
        }
    }
    seconds.sort_by(f64::total_cmp);
    seconds
}

/// One time through one stage.
struct Turn {
    /// When its clusters were all done, in seconds after the stage could begin; nothing if one
    /// of them never is.
    done: Option<f64>,
}

/// Plays the stages so many times.
pub fn rehearse(plan: &Stages, how: &Behaviour, runs: usize, chance: Chance<'_>) -> Rehearsal {
    let mut ends = Vec::new();
    let mut of_stage: Vec<Vec<f64>> = vec![Vec::new(); plan.stages.len()];
    let mut stops = vec![0; plan.stages.len()];
    let mut asked: Vec<(usize, bool, Vec<f64>)> = Vec::new();
    for (at, stage) in plan.stages.iter().enumerate() {
        let approvals = stage.gates.iter().filter(|gate| !gate.approval.is_empty());
        asked.extend(approvals.map(|gate| (at, gate.side == Side::Before, Vec::new())));
    }
    for _ in 0..runs {
        let mut now = 0.0;
        let mut stopped = false;
        for (at, stage) in plan.stages.iter().enumerate() {
            note(&mut asked, at, true, now);
            let slots = plan.slots.get(at).copied().unwrap_or(1);
            let Some(done) = turn(stage.cells.len(), slots, how, &mut *chance).done else {
                stops[at] += 1;
                stopped = true;
                break;
            };
            note(&mut asked, at, false, now + done);
            // A stage without clusters is skipped with what stands after it.
            let waits = stage.gates.iter().filter(|_| !stage.cells.is_empty()).map(waits);
            let took = done + waits.fold(0.0, f64::max);
            of_stage[at].push(took);
            now += took;
        }
        if !stopped {
            ends.push(now);
        }
    }
    let whole: f64 = of_stage.iter().map(|times| spread(times).p50).sum();
    let stages = plan.stages.iter().zip(of_stage).zip(stops).enumerate();
    let stages = stages.map(|(at, ((stage, times), stops))| {
        let seconds = spread(&times);
        StageRehearsal {
            name: stage.name.clone(),
            clusters: stage.cells.len(),
            at_once: plan.slots.get(at).copied().unwrap_or(1),
            seconds,
            share: if whole > 0.0 { seconds.p50 / whole } else { 0.0 },
            stops,
        }
    });
    let approvals = asked.iter().map(|(at, before, times)| ApprovalRehearsal {
        stage: plan.stages[*at].name.clone(),
        before: *before,
        asked: spread(times),
    });
    Rehearsal {
        runs,
        ended: ends.len(),
        seconds: spread(&ends),
        chart: chart(&ends),
        stages: stages.collect(),
        approvals: approvals.collect(),
    }
}

fn note(asked: &mut [(usize, bool, Vec<f64>)], at: usize, before: bool, now: f64) {
    let ours = asked.iter_mut().filter(|(stage, side, _)| (*stage, *side) == (at, before));
    ours.for_each(|(_, _, times)| times.push(now));
}

/// How long a gate holds by itself, in seconds.
fn waits(gate: &Gate) -> f64 {
    let Ok(wait) = gate.wait.parse() else { return 0.0 };
    let from = Timestamp::UNIX_EPOCH;
    wait_over(from, wait).duration_since(from).as_secs_f64()
}

/// The clusters of a stage in their order, as many at once as there are slots.
fn turn(clusters: usize, slots: usize, how: &Behaviour, chance: Chance<'_>) -> Turn {
    let mut free = vec![0.0_f64; slots.clamp(1, clusters.max(1))];
    let (mut done, mut lost) = (0.0_f64, false);
    for _ in 0..clusters {
        if chance() < how.fail + how.silent {
            lost = true;
        }
        let ready = how.ready.draw(&mut *chance);
        if let Some(first) = free.iter_mut().min_by(|a, b| a.total_cmp(b)) {
            *first += ready;
            done = done.max(*first);
        }
    }
    Turn { done: (!lost).then_some(done) }
}

impl Ready {
    /// The time of one cluster, in seconds.
    pub fn draw(&self, chance: Chance<'_>) -> f64 {
        match self {
            Self::Learned(times) => {
                let at = (chance() * times.len() as f64) as usize;
                times.get(at).or(times.last()).copied().unwrap_or(0.0)
            }
            // Times have a long tail on one side: their logarithm is what is normal.
            Self::Percentiles { p50, p99 } => {
                let (one, two) = (1.0 - chance(), chance());
                let normal = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * two).cos();
                let (middle, far) = (p50.max(0.001).ln(), p99.max(*p50).max(0.001).ln());
                (middle + normal * (far - middle) / NORMAL_P99).exp()
            }
        }
    }
}

/// Where all but one in a hundred of a normal distribution lie below.
const NORMAL_P99: f64 = 2.326;

/// The spread of some times.
pub fn spread(times: &[f64]) -> Spread {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |part: f64| {
        let place = (sorted.len().saturating_sub(1) as f64 * part).round() as usize;
        sorted.get(place).copied().unwrap_or(0.0)
    };
    Spread { p10: at(0.1), p50: at(0.5), p90: at(0.9), p99: at(0.99) }
}

/// Rows of the chart.
const ROWS: usize = 10;

fn chart(ends: &[f64]) -> Vec<(f64, usize)> {
    let least = ends.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ends.iter().copied().fold(0.0, f64::max);
    if ends.is_empty() {
        return Vec::new();
    }
    let step = ((most - least) / ROWS as f64).max(f64::MIN_POSITIVE);
    let rows = if most > least { ROWS } else { 1 };
    let mut chart: Vec<(f64, usize)> =
        (0..rows).map(|row| (least + step * row as f64, 0)).collect();
    for end in ends {
        let row = (((end - least) / step) as usize).min(rows - 1);
        chart[row].1 += 1;
    }
    chart
}

#[cfg(test)]
mod tests {
    use flagship_api::names::ObjectKey;

    use super::*;
    use crate::board::{Cell, GateState, Stage};
    use crate::effect::{Content, Effect, Planned};

    fn stage(name: &str, clusters: usize, gates: Vec<Gate>) -> Stage {
        let cell = |number: usize| Cell {
            cluster: format!("c{number}"),
            mark: Mark::Queued,
            seconds: None,
            taken_by: None,
            cause: None,
            started: None,
            ended: None,
            deadline: None,
            says: None,
        };
        let cells = (0..clusters).map(cell).collect();
        Stage { name: name.to_owned(), cells, gates, done: false, begun: false }
    }

    fn gate(side: Side, approval: &str, wait: &str) -> Gate {
        let (approval, wait) = (approval.to_owned(), wait.to_owned());
        Gate { side, state: GateState::Ahead, approval, wait, seconds_left: None }
    }

    fn plan(stages: Vec<Stage>, slots: &[usize]) -> Stages {
        let clusters = stages.iter().map(|stage| stage.cells.len()).sum();
        let at_once = slots.iter().map(usize::to_string).collect();
        let slots = slots.to_vec();
        let (passed, frozen, policies) = (Vec::new(), Vec::new(), Vec::new());
        let planned = Planned {
            placement: &ObjectKey::cluster("web"),
            stages: &stages,
            bringing: stages.len(),
            strategy: None,
            policies: &policies,
            bindings: &[],
            clusters: &[],
        };
        let effect = Effect::of(&Content::default(), &planned);
        Stages {
            stages,
            at_once,
            slots,
            clusters,
            approvals: 0,
            passed,
            calendar: Vec::new(),
            frozen,
            policies,
            open: Vec::new(),
            effect,
        }
    }

    /// Numbers that come again and again, each as often as the others.
    fn even() -> impl FnMut() -> f64 {
        let mut last = 0_u64;
        move || {
            last = last
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (last >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    const ALWAYS_TEN: &[f64] = &[10.0];

    fn fine() -> Behaviour {
        Behaviour { ready: Ready::Learned(ALWAYS_TEN.to_vec()), fail: 0.0, silent: 0.0 }
    }

    #[test]
    fn slots_waits_and_stages_add_up() {
        let wait = gate(Side::After, "", "1m");
        let plan =
            plan(vec![stage("canary", 1, vec![wait]), stage("prod", 5, Vec::new())], &[1, 2]);
        let found = rehearse(&plan, &fine(), 3, &mut even());
        // Ten seconds, the wait and the second it may lose; then three rounds of two.
        assert_eq!(found.seconds.p50, 10.0 + 61.0 + 30.0);
        assert_eq!((found.ended, found.stages[1].seconds.p50), (3, 30.0));
        assert_eq!(found.chart, [(101.0, 3)]);
        assert!(found.stages[0].share > found.stages[1].share);
    }

    #[test]
    fn a_cluster_that_fails_stops_the_run_in_its_stage() {
        let plan =
            plan(vec![stage("canary", 1, Vec::new()), stage("prod", 20, Vec::new())], &[1, 5]);
        let how = Behaviour { fail: 0.02, silent: 0.01, ..fine() };
        let found = rehearse(&plan, &how, 2_000, &mut even());
        let stops: Vec<usize> = found.stages.iter().map(|stage| stage.stops).collect();
        assert_eq!(found.ended + stops.iter().sum::<usize>(), 2_000);
        // 3 % of one cluster; 1 - 0.97^20 = 46 % of what is left.
        assert!((40..80).contains(&stops[0]), "{stops:?}");
        assert!((820..960).contains(&stops[1]), "{stops:?}");
        let none = rehearse(&plan, &Behaviour { fail: 1.0, ..fine() }, 10, &mut even());
        assert_eq!((none.ended, none.chart.len(), none.seconds), (0, 0, Spread::default()));
    }

    #[test]
    fn people_are_told_when_they_will_be_asked() {
        let gates = vec![gate(Side::Before, "r-before-prod", "")];
        let last = vec![gate(Side::After, "r-after-last", "")];
        let stages =
            vec![stage("canary", 2, Vec::new()), stage("prod", 1, gates), stage("last", 1, last)];
        let found = rehearse(&plan(stages, &[1, 1, 1]), &fine(), 5, &mut even());
        let told: Vec<(&str, bool, f64)> =
            found.approvals.iter().map(|a| (a.stage.as_str(), a.before, a.asked.p50)).collect();
        assert_eq!(told, [("prod", true, 20.0), ("last", false, 40.0)]);
    }

    #[test]
    fn percentiles_come_out_as_they_were_put_in() {
        let ready = Ready::Percentiles { p50: 40.0, p99: 180.0 };
        let mut chance = even();
        let times: Vec<f64> = (0..20_000).map(|_| ready.draw(&mut chance)).collect();
        let found = spread(&times);
        assert!((38.0..42.0).contains(&found.p50), "{found:?}");
        assert!((160.0..200.0).contains(&found.p99), "{found:?}");
    }
}
