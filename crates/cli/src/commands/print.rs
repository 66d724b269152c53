//! How findings look: one thought a line, columns aligned, colour only where a word
//! already says it.

use std::io::{IsTerminal, Write};

use clap::{Args, ValueEnum};
use flagship_explain::why::{Cause, Finding};
use serde_json::Value;

/// The shape of the answer
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Output {
    /// Print json or yaml instead of text
    #[arg(short, long, value_enum, global = true)]
    pub output: Option<Shape>,
}

/// A machine-readable shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shape {
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
}

impl Shape {
    /// Writes a value in this shape.
    pub fn write(self, value: &Value, out: &mut dyn Write) -> anyhow::Result<()> {
        match self {
            Self::Json => writeln!(out, "{}", serde_json::to_string_pretty(value)?)?,
            Self::Yaml => out.write_all(serde_saphyr::to_string(value)?.as_bytes())?,
        }
        Ok(())
    }
}

/// Whether standard output may have colours.
pub fn colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty()) && std::io::stdout().is_terminal()
}

/// The finding as facts.
pub fn as_value(found: &Finding) -> Value {
    serde_json::to_value(found).unwrap_or_default()
}

/// As wide as the widest word in front of a line.
const LEAD: usize = "placement".len();

/// The finding as a person reads it.
pub fn as_text(found: &Finding, colours: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    let (bold, plain) = if colours { ("\u{1b}[1m", "\u{1b}[0m") } else { ("", "") };
    writeln!(out, "{bold}{}{plain}", found.headline)?;
    writeln!(out)?;
    writeln!(out, "  {:<LEAD$} {}   {}", "cause", found.cause, found.what)?;
    for (at, line) in found.because.lines().enumerate() {
        let lead = if at == 0 { "because" } else { "" };
        writeln!(out, "  {lead:<LEAD$} {line}")?;
    }
    steps(found, out)?;
    next(found, out)
}

fn steps(found: &Finding, out: &mut dyn Write) -> anyhow::Result<()> {
    if found.evidence.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    // One long name must not push every line off the screen.
    let width = found.evidence.iter().map(|step| step.name.chars().count()).max().unwrap_or(0);
    let width = width.min(56);
    for step in &found.evidence {
        writeln!(out, "  {:<LEAD$} {:<width$}  {}", step.what, step.name, step.says)?;
    }
    Ok(())
}

fn next(found: &Finding, out: &mut dyn Write) -> anyhow::Result<()> {
    // Nobody needs a page on how all is well.
    if found.hints.is_empty() && found.cause == Cause::Done {
        return Ok(());
    }
    writeln!(out)?;
    let width = found.hints.iter().map(|hint| hint.what.chars().count() + 1).max().unwrap_or(0);
    for hint in &found.hints {
        let what =
            if hint.command.is_empty() { hint.what.clone() } else { format!("{}:", hint.what) };
        writeln!(out, "  {:<LEAD$} {what:<width$}  {}", hint.lead, hint.command)?;
    }
    writeln!(out, "  {:<LEAD$} flagship explain {}", "more", found.cause)?;
    Ok(())
}
