//! `flagship doctor`: is the installation in order, and does what is stored hold together?
//!
//! `look` reads the hub, `flagship_explain::doctor` judges, and here it is printed. What seems
//! wrong is looked at twice: controllers go on writing while we read.

mod look;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::time::Duration;

use clap::Args;
use flagship_explain::doctor::{Check, Finding, Report, agreed, examine};
use flagship_explain::printable::printable;
use flagship_explain::why::State;
use flagship_runtime::env::Env;
use serde_json::{Value, json};

use super::board_text::Look;
use super::connect::{Connect, Hub};
use super::print::Output;
use super::wrap::after;

/// Check the installation and what is stored; exit code 0 healthy, 5 something to fix
#[derive(Args)]
pub struct Doctor {
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

/// How long controllers are given to finish what they are at.
const SECOND_LOOK: Duration = Duration::from_secs(3);

impl Doctor {
    /// Prints what was found; the exit code says whether there is something to fix.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let report = match self.connect.hub().await {
            Ok(hub) => checked(&hub, &Env::system()).await,
            Err(error) => unconnected(&error),
        };
        match self.output.output {
            Some(shape) => shape.write(&as_value(&report), out)?,
            None => out.write_all(as_text(&report, Look::here()).as_bytes())?,
        }
        Ok(if report.is_healthy() { 0 } else { State::Failed.exit_code() })
    }
}

/// Looks at a hub, and at its members if there is a way to them; and again if something
/// seems wrong.
async fn checked(hub: &Hub, env: &Env) -> Report {
    let now = env.now();
    let first = match look::at(hub, now).await {
        Ok(seen) => seen,
        Err(error) => return unanswered(&format!("{error:#}")),
    };
    let report = examine(&first);
    if report.is_healthy() {
        return report;
    }
    tokio::time::sleep(SECOND_LOOK).await;
    match look::at(hub, now).await {
        // Both looks speak of the same moment, or no age would agree with itself.
        Ok(mut second) => {
            second.hub_time = first.hub_time;
            agreed(&report, examine(&second))
        }
        Err(error) => unanswered(&format!("{error:#}")),
    }
}

fn unconnected(error: &anyhow::Error) -> Report {
    let fix = "flagship up   (or name a hub: flagship doctor --kubeconfig FILE --context HUB)";
    let finding = Finding::new(format!("{error:#}"), fix);
    Report { checks: vec![Check::new("hub", "kubeconfig", "", vec![finding])] }
}

fn unanswered(error: &str) -> Report {
    let fix = "start it with flagship up, or see that the kubeconfig names a server that runs";
    let finding = Finding::new(format!("the hub does not answer: {error}"), fix);
    Report { checks: vec![Check::new("hub", "answers", "", vec![finding])] }
}

fn as_value(report: &Report) -> Value {
    json!({"healthy": report.is_healthy(), "checks": report.checks})
}

fn as_text(report: &Report, look: Look) -> String {
    let paint = |colour: &str, text: &str| match look.colours {
        true => format!("\u{1b}[{colour}m{text}\u{1b}[0m"),
        false => text.to_owned(),
    };
    let (well, ill) = (paint("32", "✔"), paint("31", "✘"));
    let width = report.checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut area = "";
    for check in &report.checks {
        if check.area != area {
            area = check.area;
            text.push_str(if text.is_empty() { "" } else { "\n" });
            text.push_str(&format!("{}\n", paint("1", area)));
        }
        let name = check.name;
        if check.findings.is_empty() {
            let mark = if check.skipped { "·" } else { well.as_str() };
            let lead = format!("  {mark} {name:<width$}   ");
            text.push_str(&after(&lead, &one_line(&check.says), look.width));
            text.push('\n');
        }
        for (at, finding) in check.findings.iter().enumerate() {
            let (mark, name) = if at == 0 { (ill.as_str(), name) } else { (" ", "") };
            let lead = format!("  {mark} {name:<width$}   ");
            text.push_str(&after(&lead, &one_line(&finding.what), look.width));
            text.push('\n');
            let next = check.findings.get(at + 1);
            if next.is_none_or(|next| next.fix != finding.fix) {
                let lead = format!("    {:<width$}   fix: ", "");
                text.push_str(&after(&lead, &one_line(&finding.fix), look.width));
                text.push('\n');
            }
        }
    }
    let skipped = report.checks.iter().filter(|check| check.skipped).count();
    let not_looked = match skipped {
        0 => String::new(),
        some => format!(" ({some} could not be looked at)"),
    };
    let last = match report.findings() {
        0 => format!("Everything is in order: {} checks{not_looked}.", report.checks.len()),
        1 => format!("1 thing to fix{not_looked}."),
        many => format!("{many} things to fix{not_looked}."),
    };
    text.push_str(&format!("\n{last}\n"));
    text
}

/// Words of others may hold anything, and a finding is one line of a list.
fn one_line(text: &str) -> String {
    printable(text, false).replace(['\n', '\t'], " ")
}
