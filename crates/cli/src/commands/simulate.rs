//! `flagship simulate`: a run of this placement rehearsed many times on a virtual clock. It
//! reads the hub and writes nothing.

use std::io::Write;

use anyhow::{Context, bail};
use clap::Args;
use flagship_api::names::ObjectKey;
use flagship_base::duration::GoDuration;
use flagship_explain::plan::{Foreseen, foresee};
use flagship_explain::rehearsal::{Behaviour, Ready, Rehearsal, learned, rehearse, spread};
use flagship_runtime::env::{Entropy, Env};
use jiff::Timestamp;
use serde_json::json;

use super::board_text::{Look, clock};
use super::connect::{Connect, Hub};
use super::gather;
use super::name::{self, Named};
use super::print::{self, Output};
use super::start::usual_strategy;
use super::{plan, table};

/// Rehearse a run of a placement many times on a virtual clock; nothing is written
///
/// Takes clusters, stages and gates from the hub and plays them: when would it end, which stage
/// takes longest, how likely does it stop and where, who has to approve when. Approvals count as
/// given at once: what people take comes on top.
#[derive(Args)]
pub struct Simulate {
    /// The placement
    placement: String,
    /// Namespace of a namespaced placement
    #[arg(short, long)]
    namespace: Option<String>,
    /// The strategy; the last run's, or the only one there is, if left out
    #[arg(long)]
    strategy: Option<String>,
    /// How long clusters take to become ready, as p50=40s,p99=3m; learned from past runs of the
    /// placement if left out
    #[arg(long)]
    ready: Option<String>,
    /// Which part of the clusters fails, as 3%
    #[arg(long, default_value = "0%")]
    fail: String,
    /// Which part of the clusters is never heard of, as 1%
    #[arg(long, default_value = "0%")]
    silent: String,
    /// How often to play it
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
    /// Decides every chance: the same seed gives the same answer
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

/// What clusters are assumed to take where nothing is known.
const ASSUMED: Ready = Ready::Percentiles { p50: 40.0, p99: 180.0 };

impl Simulate {
    /// Prints how long it would take, or why a run would be refused.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.connect.hub().await?;
        self.answer(&hub, Env::system().now(), out).await
    }

    pub(super) async fn answer(
        self,
        hub: &Hub,
        now: Timestamp,
        out: &mut dyn Write,
    ) -> anyhow::Result<u8> {
        let (fail, silent) = (part("--fail", &self.fail)?, part("--silent", &self.silent)?);
        let given = self.ready.as_deref().map(percentiles).transpose()?;
        let key = name::must_be(Named::Placement, &self.placement, self.namespace.as_deref())?;
        let strategy = match &self.strategy {
            Some(strategy) => strategy.clone(),
            None => usual_strategy(hub, &key).await?,
        };
        let asked = plan::read(hub, &key, &strategy, None, now).await?;
        let past = learned(&asked.runs, now);
        let stages = match foresee(asked) {
            Foreseen::Stages(stages) => stages,
            Foreseen::Refused(refused) => {
                let found = refused.explain(gather::clusters(&hub.client).await?);
                match self.output.output {
                    Some(shape) => shape.write(&print::as_value(&found), out)?,
                    None => print::as_text(&found, Look::here(), out)?,
                }
                return Ok(found.state.exit_code());
            }
            Foreseen::NotNow(why) => bail!(why),
        };
        let (ready, from) = match (given, past.is_empty()) {
            (Some(ready), _) => (ready, "as given".to_owned()),
            (None, false) => {
                let from = format!("learned from {} updates of clusters in past runs", past.len());
                (Ready::Learned(past), from)
            }
            (None, true) => {
                let from = "assumed, since no run of this placement has updated a cluster yet; \
                            say --ready p50=40s,p99=3m if you know better";
                (ASSUMED, from.to_owned())
            }
        };
        let times = told_times(&ready);
        let how = Behaviour { ready, fail, silent };
        let mut chance = chance(self.seed);
        let runs = usize::try_from(self.runs)?;
        let found = rehearse(&stages, &how, runs, &mut chance);
        if let Some(shape) = self.output.output {
            let value = json!({"at": now, "placement": key.name, "namespace": key.namespace,
                "strategy": strategy, "seed": self.seed, "readyTimes": from,
                "rehearsal": found});
            shape.write(&value, out)?;
            return Ok(0);
        }
        let Self { fail, silent, seed, .. } = &self;
        writeln!(
            out,
            "Rehearsed {key} with strategy {strategy}: {} cluster(s) in {} stage(s), {runs} runs, \
             seed {seed}",
            stages.clusters,
            stages.stages.len(),
        )?;
        writeln!(out, "ready times {times}, {from}; {fail} fail, {silent} stay silent")?;
        writeln!(out)?;
        show(&key, &found, Look::here(), out)?;
        Ok(0)
    }
}

/// Numbers from 0 up to and without 1, the same for the same seed.
pub(super) fn chance(seed: u64) -> impl FnMut() -> f64 {
    let entropy = Entropy::seeded(seed);
    move || (entropy.u64() >> 11) as f64 / (1_u64 << 53) as f64
}

fn show(key: &ObjectKey, found: &Rehearsal, look: Look, out: &mut dyn Write) -> anyhow::Result<()> {
    let times = &found.seconds;
    if found.ended == 0 {
        writeln!(out, "No run ends.")?;
    } else {
        let [p10, p50, p90, p99] = [times.p10, times.p50, times.p90, times.p99].map(told);
        writeln!(
            out,
            "Ends after {p50}; one in ten before {p10}, one in ten after {p90}, one in a hundred after {p99}"
        )?;
        writeln!(out)?;
        let most = found.chart.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
        for (from, count) in &found.chart {
            let bar = "#".repeat((count * BAR).div_ceil(most));
            writeln!(out, "{:>9}  {bar:<BAR$} {count}", told(*from))?;
        }
    }
    writeln!(out)?;
    let longest = found.stages.iter().map(|stage| stage.share).fold(0.0, f64::max);
    let rows: Vec<[String; 6]> = found
        .stages
        .iter()
        .map(|stage| {
            let share = format!("{:.0}%", stage.share * 100.0);
            let mark = if stage.share == longest && longest > 0.0 { ", the longest" } else { "" };
            [
                stage.name.clone(),
                stage.clusters.to_string(),
                stage.at_once.to_string(),
                told(stage.seconds.p50),
                format!("{share}{mark}"),
                percent(stage.stops, found.runs),
            ]
        })
        .collect();
    let heading = ["STAGE", "CLUSTERS", "AT ONCE", "TAKES", "OF THE WHOLE", "STOPS HERE"];
    table::write(heading, &rows, look, out)?;
    writeln!(out)?;
    let stops = found.runs - found.ended;
    match stops {
        0 => writeln!(out, "No run stops.")?,
        stops => writeln!(
            out,
            "{} of the runs stop at a cluster that does not become ready, and wait for somebody.",
            percent(stops, found.runs)
        )?,
    }
    for approval in &found.approvals {
        let side = if approval.before { "before" } else { "after" };
        let [p50, p90] = [approval.asked.p50, approval.asked.p90].map(told);
        writeln!(
            out,
            "somebody approves {side} {}:  {p50} after the start, one in ten after {p90}",
            approval.stage
        )?;
    }
    writeln!(out, "nothing was written; start it:  flagship run{} {}", in_space(key), key.name)?;
    Ok(())
}

/// How wide the longest bar is.
const BAR: usize = 40;

fn in_space(key: &ObjectKey) -> String {
    key.namespace.as_ref().map_or_else(String::new, |namespace| format!(" -n {namespace}"))
}

fn told(seconds: f64) -> String {
    clock(seconds.round() as i64)
}

fn percent(part: usize, of: usize) -> String {
    format!("{:.1}%", part as f64 * 100.0 / of.max(1) as f64)
}

fn told_times(ready: &Ready) -> String {
    let (p50, p99) = match ready {
        Ready::Percentiles { p50, p99 } => (*p50, *p99),
        Ready::Learned(times) => {
            let spread = spread(times);
            (spread.p50, spread.p99)
        }
    };
    format!("p50={} p99={}", told(p50), told(p99))
}

/// `3%` as 0.03.
fn part(flag: &str, text: &str) -> anyhow::Result<f64> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let number = number.filter(|number| (0.0..=100.0).contains(number));
    let number = number.with_context(|| {
        format!("{flag} is a percentage between 0% and 100%, such as 3%, not {text:?}")
    })?;
    Ok(number / 100.0)
}

/// `p50=40s,p99=3m`.
fn percentiles(text: &str) -> anyhow::Result<Ready> {
    let wrong = || format!("--ready is given as p50=40s,p99=3m, not {text:?}");
    let (mut p50, mut p99) = (None, None);
    for word in text.split(',') {
        let (name, value) = word.trim().split_once('=').with_context(wrong)?;
        let span: GoDuration = value.trim().parse().ok().with_context(wrong)?;
        let seconds = span.as_signed_duration().as_secs_f64();
        if seconds <= 0.0 {
            bail!("--ready: {name} must be longer than nothing, not {value}");
        }
        match name.trim() {
            "p50" => p50 = Some(seconds),
            "p99" => p99 = Some(seconds),
            _ => bail!(wrong()),
        }
    }
    let p50 = p50.with_context(wrong)?;
    let p99 = p99.unwrap_or(p50);
    if p99 < p50 {
        bail!("--ready: p99 cannot be shorter than p50");
    }
    Ok(Ready::Percentiles { p50, p99 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_parts_are_read_as_people_write_them() {
        let both = Ready::Percentiles { p50: 40.0, p99: 180.0 };
        assert_eq!(percentiles("p50=40s,p99=3m").unwrap(), both);
        assert_eq!(percentiles(" p99 = 3m , p50 = 40s ").unwrap(), both);
        let always = Ready::Percentiles { p50: 10.0, p99: 10.0 };
        assert_eq!(percentiles("p50=10s").unwrap(), always);
        assert_eq!(part("--fail", "3%").unwrap(), 0.03);
        for wrong in ["", "40s", "p50=", "p50=forty", "p99=3m", "p50=3m,p99=1m", "p50=0s", "p75=1s"]
        {
            let error = percentiles(wrong).unwrap_err().to_string();
            assert!(error.starts_with("--ready"), "{wrong}: {error}");
        }
        for wrong in ["3", "-1%", "101%", "x%", ""] {
            let error = part("--fail", wrong).unwrap_err().to_string();
            assert!(error.starts_with("--fail is a percentage"), "{wrong}: {error}");
        }
    }
}
