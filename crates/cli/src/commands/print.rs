//! How findings look: one thought a line, columns aligned, colour only where a word
//! already says it.

use std::io::{IsTerminal, Write};

use clap::{Args, ValueEnum};
use flagship_explain::why::{Cause, Finding};
use serde_json::Value;

use super::board_text::Look;
use super::wrap::{after, shown_width};

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
    let set = |name: &str| std::env::var(name).unwrap_or_default();
    may_colour(&set("NO_COLOR"), &set("TERM")) && std::io::stdout().is_terminal()
}

/// A terminal that says it is dumb shows the codes themselves.
fn may_colour(no_color: &str, term: &str) -> bool {
    no_color.is_empty() && term != "dumb"
}

/// The finding as facts.
pub fn as_value(found: &Finding) -> Value {
    serde_json::to_value(found).unwrap_or_default()
}

/// As wide as the widest word in front of a line.
const LEAD: usize = "placement".len();

/// The finding as a person reads it.
pub fn as_text(found: &Finding, look: Look, out: &mut dyn Write) -> anyhow::Result<()> {
    let (bold, plain) = if look.colours { ("\u{1b}[1m", "\u{1b}[0m") } else { ("", "") };
    let headline = after("", &found.headline, look.width);
    writeln!(out, "{bold}{headline}{plain}")?;
    writeln!(out)?;
    let lead = format!("  {:<LEAD$} {}   ", "cause", found.cause);
    writeln!(out, "{}", after(&lead, &found.what, look.width))?;
    for (at, line) in found.because.lines().enumerate() {
        let lead = if at == 0 { "because" } else { "" };
        writeln!(out, "{}", after(&format!("  {lead:<LEAD$} "), line, look.width))?;
    }
    steps(found, look, out)?;
    next(found, look, out)
}

fn steps(found: &Finding, look: Look, out: &mut dyn Write) -> anyhow::Result<()> {
    if found.evidence.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    // One long name must not push every line off the screen.
    let width = found.evidence.iter().map(|step| step.name.chars().count()).max().unwrap_or(0);
    let width = width.min(56);
    for step in &found.evidence {
        let lead = format!("  {:<LEAD$} {:<width$}  ", step.what, step.name);
        let fits =
            look.width.is_none_or(|most| shown_width(&lead) + shown_width(&step.says) <= most);
        if fits {
            writeln!(out, "{}", format!("{lead}{}", step.says).trim_end())?;
        } else {
            let lead = format!("  {:<LEAD$} ", step.what);
            writeln!(out, "{}", after(&lead, &step.name, look.width).trim_end())?;
            writeln!(out, "{}", after(&" ".repeat(LEAD + 5), &step.says, look.width))?;
        }
    }
    Ok(())
}

fn next(found: &Finding, look: Look, out: &mut dyn Write) -> anyhow::Result<()> {
    // Nobody needs a page on how all is well.
    if found.hints.is_empty() && found.cause == Cause::Done {
        return Ok(());
    }
    writeln!(out)?;
    let width = found.hints.iter().map(|hint| hint.what.chars().count() + 1).max().unwrap_or(0);
    for hint in &found.hints {
        let what =
            if hint.command.is_empty() { hint.what.clone() } else { format!("{}:", hint.what) };
        let line = format!("  {:<LEAD$} {what:<width$}  {}", hint.lead, hint.command);
        if look.width.is_none_or(|most| shown_width(line.trim_end()) <= most) {
            writeln!(out, "{}", line.trim_end())?;
            continue;
        }
        writeln!(out, "{}", after(&format!("  {:<LEAD$} ", hint.lead), &what, look.width))?;
        // A command is pasted: it has a line of its own and is never broken.
        if !hint.command.is_empty() {
            writeln!(out, "      {}", hint.command)?;
        }
    }
    writeln!(out, "  {:<LEAD$} flagship explain {}", "more", found.cause)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use flagship_explain::why::State;

    use super::*;

    #[test]
    fn a_dumb_terminal_has_no_colours() {
        assert!(may_colour("", "xterm") && may_colour("", ""));
        assert!(!may_colour("", "dumb") && !may_colour("1", "xterm"));
    }

    #[test]
    fn a_finding_wraps_and_its_commands_do_not_break() {
        let found = Finding::new(State::Stuck, Cause::CrashLoop, "a headline of some words.")
            .what("Deployment app/web starts and ends again and again")
            .because("container web keeps ending, last with exit code 1")
            .saw("binding", "demo-member2-e1a567da", "Available=False  X")
            .hint(
                "look",
                "read what it said",
                "kubectl --context member2 -n app logs web --previous",
            );
        let mut out = Vec::new();
        as_text(&found, Look { colours: false, width: Some(40) }, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let commands = |line: &&str| !line.trim_start().starts_with("kubectl");
        assert!(text.lines().filter(commands).all(|line| shown_width(line) <= 40), "{text}");
        expect![[r#"
            a headline of some words.

              cause     CRASH_LOOP   Deployment
                                     app/web starts
                                     and ends again
                                     and again
              because   container web keeps ending,
                        last with exit code 1

              binding   demo-member2-e1a567da
                          Available=False  X

              look      read what it said:
                  kubectl --context member2 -n app logs web --previous
              more      flagship explain CRASH_LOOP
        "#]]
        .assert_eq(&text);
    }
}
