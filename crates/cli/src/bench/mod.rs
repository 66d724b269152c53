//! `flagship bench`: the scenarios that KubeFleet publishes, against any hub that speaks its API.
//!
//! Members are played from inside, so nothing but a hub and its API server is measured; a hub of
//! KubeFleet's can be measured beside ours by the same program. What is made has a
//! label, and is removed at the end or by the next bench.
//!
//! `fake_members` plays the members, `scenarios` creates and waits, `binding_delays` sees how long
//! bindings take to follow their Works, `requests` reads what the API server counted meanwhile.

mod binding_delays;
mod fake_members;
mod requests;
mod scenarios;
#[cfg(test)]
mod stories;

use std::io::{IsTerminal, Write};
use std::pin::pin;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::{Args, ValueEnum};
use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use futures::future::{Either, select};
use serde::Serialize;
use serde_json::json;

use crate::agent::told_to_stop;
use crate::commands::Connect;
use requests::Requests;
use scenarios::Scenarios;

/// Measure placements and update runs on any hub that speaks KubeFleet's API
///
/// Members are played by this program, named bench-000 and so on; what is made is removed at the
/// end, also when the program is told to stop. `flagship up` counts no requests from inside its
/// process, so writes and reads are those of the bench alone there. Scenarios, on objects of a namespace with a ConfigMap of 1 KiB and a Deployment:
///   S1  one placement on all members, from its creation until it is Available
///   S2  as many placements at once as --placements says
///   S3  one more beside those
///   S4  the hub is restarted by --restart with those, until nothing is written for 10 s
///   S5  one update run through stages of 20, 30 and 50 %, half of each at once, no gates
///   S6  as many runs at once as --runs says
///   S7  S1 during S6
#[derive(Args, Clone, Debug)]
#[command(verbatim_doc_comment)]
pub struct Bench {
    #[command(flatten)]
    connect: Connect,
    /// Which scenarios, in this order
    #[arg(value_name = "SCENARIO", ignore_case = true, default_values = ["s1", "s5"])]
    scenarios: Vec<Scenario>,
    #[command(flatten)]
    size: Size,
    /// A command that restarts the hub, for S4
    #[arg(long, value_name = "COMMAND")]
    restart: Option<String>,
    /// JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Leave members and placements behind
    #[arg(long)]
    keep: bool,
}

/// How much is made, and how fast members are.
#[derive(Args, Clone, Debug)]
pub struct Size {
    /// How many members
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    members: u16,
    /// Placements at once in S2
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    placements: u16,
    /// Runs at once in S6 and S7
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    runs: u16,
    /// How soon members answer, in milliseconds
    #[arg(long, default_value_t = 20, value_name = "MS")]
    answer_after: u32,
    /// How long one scenario may take, in seconds
    #[arg(long, default_value_t = 1800, value_name = "S")]
    patience: u32,
}

/// One published scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs, reason = "the help of the command says what each is")]
pub enum Scenario {
    S1,
    S2,
    S3,
    S4,
    S5,
    S6,
    S7,
}

/// What one scenario took.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    /// Which.
    pub scenario: Scenario,
    /// Placements or runs that were waited for.
    pub objects: usize,
    /// Half of them took at most so many seconds.
    pub p50_seconds: f64,
    /// Nine of ten took at most so many seconds.
    pub p90_seconds: f64,
    /// All of them.
    pub seconds: f64,
    /// The longest that a binding took to say what its Work said, if any had to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding_after_work_seconds: Option<f64>,
    /// Changes of bindings, Works, placements and runs that were seen meanwhile: successful
    /// writes by whoever it was.
    pub changes: u64,
    /// What the API server was asked meanwhile, if it lets us read its metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<Requests>,
}

impl Bench {
    /// Measures and prints.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.connect.hub().await?;
        let client = hub.client.named("flagship-bench");
        let told = |line: &str| {
            let mut to = std::io::stderr();
            // Over the line before, where somebody looks on.
            let end = if to.is_terminal() { "\r" } else { "\n" };
            // Progress that cannot be shown is no failure.
            drop(write!(to, "{line:<70}{end}"));
        };
        let measured = self.measure(client, Env::system(), &told, told_to_stop).await?;
        if self.json {
            let members = self.size.members;
            let all = json!({"members": members, "scenarios": measured});
            writeln!(out, "{all:#}")?;
        } else {
            write!(out, "{}", table(&measured))?;
        }
        Ok(0)
    }

    /// Sets up, runs the scenarios in order, and removes what was made, also after a failure or
    /// when it is told to stop.
    async fn measure(
        &self,
        client: Client,
        env: Env,
        told: &dyn Fn(&str),
        stop: impl AsyncFn(),
    ) -> anyhow::Result<Vec<Measured>> {
        if self.scenarios.contains(&Scenario::S4) && self.restart.is_none() {
            bail!("S4 restarts the hub: say how with --restart 'COMMAND'");
        }
        let mut scenarios = Scenarios::new(client, env, self.size.clone(), told);
        let measuring = async {
            scenarios.set_up().await?;
            let mut measured = Vec::new();
            for &scenario in &self.scenarios {
                measured.push(scenarios.run(scenario, self.restart.as_deref()).await?);
            }
            anyhow::Ok(measured)
        };
        let measured = match select(pin!(measuring), pin!(stop())).await {
            Either::Left((measured, _)) => measured,
            Either::Right(_) => Err(anyhow!("stopped before the end")),
        };
        if self.keep {
            return measured;
        }
        let cleaned = match select(pin!(scenarios.clean_up()), pin!(stop())).await {
            Either::Left((cleaned, _)) => cleaned,
            Either::Right(_) => Err(anyhow!("not all is removed; the next bench removes it")),
        };
        let measured = measured?;
        cleaned.map(|()| measured)
    }
}

/// What was measured, as people read it.
fn table(measured: &[Measured]) -> String {
    let mut text = "\
| scenario | objects | p50 | p90 | all | binding after Work | changes | writes | conflicts | reads | API server |
|---|---|---|---|---|---|---|---|---|---|---|
"
    .to_owned();
    for one in measured {
        let Measured { scenario, objects, p50_seconds, p90_seconds, seconds, .. } = one;
        let Measured { changes, requests, binding_after_work_seconds: behind, .. } = one;
        let behind = behind.map_or("-".to_owned(), |seconds| format!("{seconds:.2} s"));
        let [writes, conflicts, reads] = match requests {
            Some(told) => [told.writes, told.conflicts, told.reads].map(|count| count.to_string()),
            None => [(); 3].map(|()| "unknown".to_owned()),
        };
        let cpu = requests.as_ref().and_then(|told| told.cpu_seconds);
        let cpu = cpu.map_or("unknown".to_owned(), |seconds| format!("{seconds:.2} CPU s"));
        text.push_str(&format!(
            "| {scenario:?} | {objects} | {p50_seconds:.2} s | {p90_seconds:.2} s | {seconds:.2} s | {behind} | {changes} | {writes} | {conflicts} | {reads} | {cpu} |\n"
        ));
    }
    text
}

impl Measured {
    /// Of what single objects took.
    fn of(
        scenario: Scenario,
        mut took: Vec<Duration>,
        behind: Option<Duration>,
        changes: u64,
        requests: Option<Requests>,
    ) -> Self {
        took.sort_unstable();
        let at = |part: usize| {
            let index = (took.len() * part).div_ceil(100).saturating_sub(1);
            took.get(index).copied().unwrap_or_default().as_secs_f64()
        };
        let (p50_seconds, p90_seconds, seconds) = (at(50), at(90), at(100));
        let objects = took.len();
        let binding_after_work_seconds = behind.map(|longest| longest.as_secs_f64());
        Self {
            scenario,
            objects,
            p50_seconds,
            p90_seconds,
            seconds,
            binding_after_work_seconds,
            changes,
            requests,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_slowest_of_nine_in_ten_and_of_all() {
        let took = (1..=10).map(Duration::from_secs).collect();
        let requests =
            Requests { writes: 7, conflicts: 1, cpu_seconds: Some(0.5), ..Requests::default() };
        let measured =
            Measured::of(Scenario::S2, took, Some(Duration::from_millis(250)), 42, Some(requests));
        let table = table(&[measured]);
        assert_eq!(
            table.lines().last(),
            Some("| S2 | 10 | 5.00 s | 9.00 s | 10.00 s | 0.25 s | 42 | 7 | 1 | 0 | 0.50 CPU s |")
        );
        assert_eq!(Measured::of(Scenario::S1, Vec::new(), None, 0, None).seconds, 0.0);
    }
}
