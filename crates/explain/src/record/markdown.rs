//! A report as Markdown.

use std::fmt::Write;

use super::report::{Report, Span};

/// `1m05s`, `2h03m`.
pub(super) fn lasted(seconds: i64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
        (hours, minutes, _) => format!("{hours}h{minutes:02}m"),
    }
}

/// `4m10s, not over`.
pub(super) fn of_span(span: &Span) -> String {
    let open = if span.open { ", not over" } else { "" };
    format!("{}{open}", lasted(span.seconds()))
}

/// The report as Markdown. Names and messages are other people's words, so nothing of them is
/// taken for markup.
pub fn markdown(report: &Report) -> String {
    let mut text = String::new();
    write(&mut text, report).expect("writing to a String does not fail");
    text
}

fn write(out: &mut String, report: &Report) -> std::fmt::Result {
    let Report { run, placement, snapshot, strategy, outcome, .. } = report;
    writeln!(out, "# Rollout {}\n", plain(run))?;
    let (placement, snapshot) = (plain(placement), plain(snapshot));
    writeln!(
        out,
        "{placement}, snapshot {snapshot}, by strategy {}: **{outcome}** after {}.",
        plain(strategy),
        lasted(report.seconds)
    )?;
    if !report.says.is_empty() {
        writeln!(out, "\n{}", plain(&report.says))?;
    }
    writeln!(out, "\n| | |\n|---|---|")?;
    writeln!(out, "| from | {:.0} |\n| until | {:.0} |", report.began, report.until)?;
    if !report.plan_hash.is_empty() {
        writeln!(out, "| plan | {} |", plain(&report.plan_hash))?;
    }
    if !report.policies.is_empty() {
        writeln!(out, "| policies | {} |", plain(&report.policies.join(", ")))?;
    }
    writeln!(out, "| record | {} |", plain(&report.verdict.told()))?;
    writeln!(out, "| last hash | {} |", report.verdict.last_hash)?;
    for stage in &report.stages {
        let took = stage.span.as_ref().map_or_else(|| "not begun".to_owned(), of_span);
        writeln!(out, "\n## Stage {}: {took}\n", plain(&stage.name))?;
        writeln!(out, "| cluster | result | time |\n|---|---|---|")?;
        for cluster in &stage.clusters {
            let took = cluster.span.as_ref().map_or_else(String::new, of_span);
            writeln!(out, "| {} | {} | {took} |", plain(&cluster.name), cluster.result)?;
        }
        for gate in &stage.gates {
            write!(out, "\nGate {} was closed for {}", plain(&gate.gate), of_span(&gate.span))?;
            if let Some(by) = &gate.by {
                write!(out, ", opened by {}", plain(by))?;
            }
            match &gate.says {
                Some(says) => writeln!(out, ": {}", plain(says))?,
                None => writeln!(out, ".")?,
            }
        }
    }
    if !report.checks.is_empty() {
        writeln!(out, "\n## Checks\n\n| check | result | |\n|---|---|---|")?;
        for check in &report.checks {
            let (title, says) = (plain(&check.title()), plain(&check.says));
            writeln!(out, "| {title} | {} | {says} |", check.result)?;
        }
    }
    if !report.failures.is_empty() {
        writeln!(out, "\n## Not updated\n\n| cluster | stage | cause | |\n|---|---|---|---|")?;
        for failed in &report.failures {
            let [cluster, stage, cause, says] =
                [&failed.cluster, &failed.stage, &failed.cause, &failed.says].map(|it| plain(it));
            writeln!(out, "| {cluster} | {stage} | {cause} | {says} |")?;
        }
    }
    if !report.held.is_empty() {
        writeln!(out, "\n## Held\n")?;
        for span in &report.held {
            writeln!(out, "- {} from {:.0} for {}", span.what, span.from, of_span(span))?;
        }
    }
    if !report.people.is_empty() {
        writeln!(out, "\n## People\n\n| who | known by | did |\n|---|---|---|")?;
        for person in &report.people {
            let name = if person.name.is_empty() { "somebody" } else { &person.name };
            let did = plain(&person.did.join(", "));
            writeln!(out, "| {} | {:?} | {did} |", plain(name), person.known)?;
        }
    }
    writeln!(out, "\n## Entries\n")?;
    for line in &report.entries {
        writeln!(out, "{}. {:.0} {}", line.n, line.time, plain(&line.says))?;
    }
    Ok(())
}

/// Text that is nothing but text in Markdown, on one line.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '\n' | '\r' => out.push(' '),
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '!' => {
                out.push('\\');
                out.push(letter);
            }
            letter if letter.is_control() => {}
            letter => out.push(letter),
        }
    }
    out
}
