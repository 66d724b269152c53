//! A report as one HTML page: no script, nothing loaded, readable in light and dark.

use std::fmt::{self, Write};

use jiff::Timestamp;

use super::checks;
use super::markdown::{lasted, of_span};
use super::report::{Report, Span};

/// The report as a page. Names and messages are other people's words, so nothing of them is
/// taken for markup.
pub fn html(report: &Report) -> String {
    let mut text = String::new();
    page(&mut text, report).expect("writing to a String does not fail");
    text
}

const STYLE: &str = "
:root { color-scheme: light dark; --text: #1c2128; --faint: #59636e; --line: #d1d9e0; --back: #ffffff; --row: #f6f8fa; --done: #1a7f37; --failed: #cf222e; --open: #0969da; --held: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --faint: #9198a1; --line: #3d444d; --back: #0d1117; --row: #151b23; --done: #3fb950; --failed: #f85149; --open: #4493f8; --held: #d29922; } }
body { margin: 2rem auto; max-width: 66rem; padding: 0 1rem; font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .3rem 0; } .faint { color: var(--faint); } .done { color: var(--done); } .failed { color: var(--failed); } .open { color: var(--open); } .held { color: var(--held); }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; } th { font-weight: 600; color: var(--faint); }
td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
code { font: 13px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
.chart { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; background: var(--row); }
svg { display: block; min-width: 44rem; width: 100%; height: auto; font: 12px system-ui, sans-serif; } svg text { fill: var(--text); } svg .faint { fill: var(--faint); } svg line { stroke: var(--line); }
svg .bar-done { fill: var(--done); } svg .bar-failed { fill: var(--failed); } svg .bar-skipped, svg .bar-held { fill: var(--held); } svg .bar-updating { fill: var(--open); } svg .bar-stage { fill: var(--faint); } svg .bar-gate { fill: none; stroke: var(--held); stroke-width: 1.5; stroke-dasharray: 3 2; } svg .shade { fill: var(--held); opacity: .13; }
.checks { display: grid; grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)); gap: 1rem; } .checks svg { min-width: 0; } svg .value { fill: none; stroke: var(--open); stroke-width: 2; } svg .dot { fill: var(--open); } svg .rest { fill: none; stroke: var(--held); stroke-width: 2; stroke-dasharray: 4 3; } svg .limit { stroke: var(--failed); stroke-dasharray: 2 3; }
@media print { body { margin: 0; max-width: none; } .chart { border: 0; } }
";

fn page(out: &mut String, report: &Report) -> fmt::Result {
    let run = Text(&report.run);
    let class = match report.outcome.as_str() {
        "succeeded" => "done",
        "failed" => "failed",
        _ => "open",
    };
    writeln!(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
    writeln!(out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")?;
    writeln!(
        out,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    )?;
    writeln!(out, "<title>Rollout {run}</title>\n<style>{STYLE}</style>\n</head>\n<body>")?;
    writeln!(out, "<h1>Rollout {run}</h1>")?;
    writeln!(
        out,
        "<p>{}, snapshot {}, by strategy {}: <strong class=\"{class}\">{}</strong> after {}.</p>",
        Text(&report.placement),
        Text(&report.snapshot),
        Text(&report.strategy),
        Text(&report.outcome),
        lasted(report.seconds)
    )?;
    if !report.says.is_empty() {
        writeln!(out, "<p>{}</p>", Text(&report.says))?;
    }
    writeln!(out, "<p class=\"faint\">{:.0} to {:.0}</p>", report.began, report.until)?;
    writeln!(out, "<h2>Timeline</h2>\n<div class=\"chart\">")?;
    gantt(out, report)?;
    writeln!(out, "</div>")?;
    checks::draw(out, &report.checks)?;
    failures(out, report)?;
    stages(out, report)?;
    people(out, report)?;
    record(out, report)?;
    writeln!(out, "</body>\n</html>")
}

/// Pixels: the whole picture, the names at its left, one row.
const WIDTH: f64 = 1000.0;
const NAMES: f64 = 190.0;
const ROW: f64 = 20.0;

/// One row of the picture.
struct Row<'a> {
    name: &'a str,
    bars: Vec<(&'a Span, &'static str)>,
    is_stage: bool,
}

fn rows(report: &Report) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for stage in &report.stages {
        let bars = stage.span.iter().map(|span| (span, "stage")).collect();
        rows.push(Row { name: &stage.name, bars, is_stage: true });
        for cluster in &stage.clusters {
            let bars = cluster.span.iter().map(|span| (span, cluster.result)).collect();
            rows.push(Row { name: &cluster.name, bars, is_stage: false });
        }
        for gate in &stage.gates {
            let bars = vec![(&gate.span, "gate")];
            rows.push(Row { name: &gate.gate, bars, is_stage: false });
        }
    }
    rows
}

fn gantt(out: &mut String, report: &Report) -> fmt::Result {
    let rows = rows(report);
    let count = u16::try_from(rows.len()).unwrap_or(u16::MAX);
    let height = ROW * (f64::from(count) + 2.5);
    let whole = report.until.duration_since(report.began).as_secs_f64().max(1.0);
    let across = |at: Timestamp| {
        let part = at.duration_since(report.began).as_secs_f64() / whole;
        NAMES + part.clamp(0.0, 1.0) * (WIDTH - NAMES - 20.0)
    };
    writeln!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Timeline of the stages and clusters\">"
    )?;
    for part in 0..=4_i32 {
        let seconds = report.seconds * i64::from(part) / 4;
        let at = NAMES + f64::from(part) / 4.0 * (WIDTH - NAMES - 20.0);
        writeln!(
            out,
            "<line x1=\"{at:.1}\" y1=\"{ROW}\" x2=\"{at:.1}\" y2=\"{:.1}\"/>",
            height - ROW
        )?;
        let anchor = if part == 4 { "end" } else { "middle" };
        writeln!(
            out,
            "<text class=\"faint\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            ROW * 0.75,
            lasted(seconds)
        )?;
    }
    for span in &report.held {
        let (from, to) = (across(span.from), across(span.to));
        writeln!(
            out,
            "<rect class=\"shade\" x=\"{from:.1}\" y=\"{ROW}\" width=\"{:.1}\" height=\"{:.1}\"><title>{} for {}</title></rect>",
            (to - from).max(2.0),
            height - 2.0 * ROW,
            Text(&span.what),
            of_span(span)
        )?;
    }
    for (at, row) in (0_u16..).zip(&rows) {
        let top = ROW * (f64::from(at) + 1.4);
        let weight = if row.is_stage { " font-weight=\"600\"" } else { "" };
        let indent = if row.is_stage { 10.0 } else { 24.0 };
        let name: String = row.name.chars().take(24).collect();
        writeln!(
            out,
            "<text x=\"{indent}\" y=\"{:.1}\"{weight}>{}</text>",
            top + 11.0,
            Text(&name)
        )?;
        for (span, class) in &row.bars {
            let (from, to) = (across(span.from), across(span.to));
            let (thick, inset) = if row.is_stage { (4.0, 5.0) } else { (12.0, 1.0) };
            writeln!(
                out,
                "<rect class=\"bar-{class}\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{thick}\" rx=\"2\"><title>{}: {}, {}</title></rect>",
                top + inset,
                (to - from).max(3.0),
                Text(row.name),
                Text(class),
                of_span(span)
            )?;
        }
    }
    writeln!(out, "</svg>")
}

fn failures(out: &mut String, report: &Report) -> fmt::Result {
    if report.failures.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<h2>Not updated</h2>\n<table><tr><th>cluster</th><th>stage</th><th>cause</th><th></th></tr>"
    )?;
    for failed in &report.failures {
        let class = if failed.skipped { "held" } else { "failed" };
        writeln!(
            out,
            "<tr><td class=\"{class}\">{}</td><td>{}</td><td><code>{}</code></td><td>{}</td></tr>",
            Text(&failed.cluster),
            Text(&failed.stage),
            Text(&failed.cause),
            Text(&failed.says)
        )?;
    }
    writeln!(out, "</table>")
}

fn stages(out: &mut String, report: &Report) -> fmt::Result {
    writeln!(
        out,
        "<h2>Stages</h2>\n<table><tr><th>stage</th><th>clusters</th><th>gates</th><th>time</th></tr>"
    )?;
    for stage in &report.stages {
        let done = stage.clusters.iter().filter(|cluster| cluster.result == "done").count();
        let took = stage.span.as_ref().map_or_else(|| "not begun".to_owned(), of_span);
        write!(
            out,
            "<tr><td>{}</td><td>{done} of {}</td><td>",
            Text(&stage.name),
            stage.clusters.len()
        )?;
        for gate in &stage.gates {
            write!(out, "<p>{} closed for {}", Text(&gate.gate), of_span(&gate.span))?;
            if let Some(by) = &gate.by {
                write!(out, ", opened by {}", Text(by))?;
            }
            if let Some(says) = &gate.says {
                write!(out, ": {}", Text(says))?;
            }
            write!(out, "</p>")?;
        }
        writeln!(out, "</td><td class=\"number\">{took}</td></tr>")?;
    }
    writeln!(out, "</table>")
}

fn people(out: &mut String, report: &Report) -> fmt::Result {
    if report.people.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h2>People</h2>\n<table><tr><th>who</th><th>known by</th><th>did</th></tr>")?;
    for person in &report.people {
        let name = if person.name.is_empty() { "somebody" } else { &person.name };
        let did = person.did.join(", ");
        writeln!(
            out,
            "<tr><td>{}</td><td>{:?}</td><td>{}</td></tr>",
            Text(name),
            person.known,
            Text(&did)
        )?;
    }
    writeln!(out, "</table>")
}

fn record(out: &mut String, report: &Report) -> fmt::Result {
    writeln!(out, "<h2>Record</h2>")?;
    let class = if report.verdict.holds() { "done" } else { "failed" };
    writeln!(out, "<p class=\"{class}\">{}</p>", Text(&report.verdict.told()))?;
    for fault in &report.verdict.faults {
        writeln!(out, "<p class=\"failed\">{}</p>", Text(&fault.what))?;
    }
    for note in &report.verdict.notes {
        writeln!(out, "<p class=\"faint\">{}</p>", Text(note))?;
    }
    writeln!(
        out,
        "<p class=\"faint\">plan <code>{}</code>, last hash <code>{}</code></p>",
        Text(&report.plan_hash),
        Text(&report.verdict.last_hash)
    )?;
    if !report.policies.is_empty() {
        writeln!(out, "<p class=\"faint\">policies {}</p>", Text(&report.policies.join(", ")))?;
    }
    writeln!(out, "<table><tr><th>entry</th><th>time</th><th></th></tr>")?;
    for line in &report.entries {
        writeln!(
            out,
            "<tr><td class=\"number\">{}</td><td><code>{:.0}</code></td><td>{}</td></tr>",
            line.n,
            line.time,
            Text(&line.says)
        )?;
    }
    writeln!(out, "</table>")
}

/// Text that is nothing but text in HTML, in an element or an attribute.
pub(super) struct Text<'a>(pub(super) &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '&' => out.write_str("&amp;")?,
                '<' => out.write_str("&lt;")?,
                '>' => out.write_str("&gt;")?,
                '"' => out.write_str("&quot;")?,
                '\'' => out.write_str("&#39;")?,
                letter if letter.is_control() => out.write_char(' ')?,
                letter => out.write_char(letter)?,
            }
        }
        Ok(())
    }
}
