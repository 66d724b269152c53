//! `flagship status` and `flagship watch`: a run at a glance, once or as it moves.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::{Args, ValueEnum};
use flagship_api::names::ObjectKey;
use flagship_explain::board::Board;
use flagship_explain::printable::printable;
use flagship_explain::why::{Cause, Facts, Finding, State, Subject, explain};
use flagship_runtime::client::Selection;
use flagship_runtime::client::watch::WatchFrom;
use flagship_runtime::env::Env;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::board_text::Look;
use super::connect::{Connect, Hub};
use super::frame::Frame;
use super::name::{self, Named};
use super::print::{self, Output};
use super::scoped_kind::ScopedKind;
use super::steer::{command, runs_of};
use super::{board_text, frame, gather, overview, why};

/// Show a run at a glance, or without a name the whole fleet: runs, what they wait for, and
/// which version of each placement is where
#[derive(Args)]
pub struct Status {
    /// The run; everything if left out
    run: Option<String>,
    /// Its namespace, if it is namespaced
    #[arg(short, long)]
    namespace: Option<String>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

/// Follow a run until it ends: a board on a terminal, a line for each change elsewhere
#[derive(Args)]
pub struct Watch {
    /// The run
    run: String,
    /// Its namespace, if it is namespaced
    #[arg(short, long)]
    namespace: Option<String>,
    /// When to stop following: at the run's end, or also when it is stuck
    #[arg(long, value_enum, default_value_t = Until::End)]
    until: Until,
    #[command(flatten)]
    connect: Connect,
}

/// When `watch` has seen enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Until {
    /// The run has succeeded or failed
    End,
    /// It has, or it is stuck: for scripts
    Stuck,
}

impl Status {
    /// Prints the board once.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let connect = self.connect.clone();
        connect.read(async |hub| self.answer(hub, Env::system().now(), out).await).await
    }

    pub(super) async fn answer(
        self,
        hub: &Hub,
        now: Timestamp,
        out: &mut dyn Write,
    ) -> anyhow::Result<u8> {
        let Some(run) = &self.run else {
            return overview::answer(hub, now, self.output, out).await;
        };
        let key = name::must_be(Named::Run, run, self.namespace.as_deref())?;
        let mut glance = Glance::take(hub, &key, now).await?;
        if glance.board.is_none() {
            glance.finding = not_a_run(hub, &key, glance.finding).await?;
        }
        match self.output.output {
            Some(shape) => shape.write(&glance.as_value(), out)?,
            None => out.write_all(glance.as_text(Look::here()).as_bytes())?,
        }
        Ok(glance.finding.state.exit_code())
    }
}

/// What is said of a name that no run has: something else may have it.
async fn not_a_run(hub: &Hub, key: &ObjectKey, missing: Finding) -> anyhow::Result<Finding> {
    let found = match why::guess(hub, key).await? {
        Subject::Placement(key) => {
            let runs = runs_of(&hub.client, &key).await?;
            let found = Finding::new(
                State::Failed,
                Cause::NotFound,
                format!("{key} is a placement, not a run."),
            );
            match runs.last() {
                Some(last) => {
                    let last = ObjectKey::new(key.namespace.as_deref(), last.name());
                    found.hint("look", "see its last run", command("status", &last))
                }
                None => found,
            }
            .hint("look", "see how the placement is", command("why placement", &key))
        }
        Subject::Cluster(name) => {
            let headline = format!("{name} is a cluster, not a run.");
            Finding::new(State::Failed, Cause::NotFound, headline).hint(
                "look",
                "see how the cluster is",
                format!("flagship why cluster {name}"),
            )
        }
        _ => missing,
    };
    Ok(found)
}

/// How long one watch request lasts; a new one follows.
const WATCH_SPAN: Duration = Duration::from_secs(300);
/// Elapsed times move on although nothing happens.
const TICK: Duration = Duration::from_secs(1);

impl Watch {
    /// Draws the board anew whenever something changes; lines when nobody looks.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let connect = self.connect.clone();
        let terminal = std::io::stdout().is_terminal();
        connect.read(async |hub| self.on(hub, &Env::system(), terminal, out).await).await
    }

    pub(super) async fn on(
        self,
        hub: &Hub,
        env: &Env,
        terminal: bool,
        out: &mut dyn Write,
    ) -> anyhow::Result<u8> {
        let mut view = View::new(terminal);
        let key = name::must_be(Named::Run, &self.run, self.namespace.as_deref())?;
        loop {
            let glance = Glance::take(hub, &key, env.now()).await?;
            view.show(&glance, out)?;
            if glance.is_over(self.until) {
                return Ok(glance.finding.state.exit_code());
            }
            changed(hub, &key).await;
        }
    }
}

/// Ready when the run or one of the placement's bindings may have changed, or a second has passed.
async fn changed(hub: &Hub, key: &ObjectKey) {
    let change = async {
        let runs = ScopedKind::Run.of::<Value, Value>(&hub.client, key.namespace.as_deref());
        let selection = match &key.namespace {
            Some(namespace) => Selection::namespace(namespace),
            None => Selection::all(),
        };
        let selection = selection.with_fields(format!("metadata.name={}", key.name));
        let Ok(now) = runs.list(&selection).await else {
            return std::future::pending().await;
        };
        let from = WatchFrom::Version(now.resource_version);
        match runs.watch(&selection, &from, WATCH_SPAN).await {
            Ok(mut watch) => drop(watch.next().await),
            // The tick will look again; a hub that is away comes back or is reported there.
            Err(_) => std::future::pending().await,
        }
    };
    drop(tokio::time::timeout(TICK, change).await);
}

/// What is drawn: the same place again on a terminal, new lines elsewhere.
struct View {
    terminal: bool,
    frame: Frame,
    last: String,
}

impl View {
    fn new(terminal: bool) -> Self {
        Self { terminal, frame: Frame::default(), last: String::new() }
    }

    fn show(&mut self, glance: &Glance, out: &mut dyn Write) -> anyhow::Result<()> {
        if self.terminal {
            let look = Look::here();
            let text = glance.as_text(look);
            let text = printable(&text, look.colours);
            out.write_all(self.frame.next(&text, frame::size()).as_bytes())?;
        } else {
            let line = printable(&glance.as_line(), false).into_owned();
            if line != self.last {
                writeln!(out, "{line}")?;
                self.last = line;
            }
        }
        out.flush()?;
        Ok(())
    }
}

/// A run as it is now, and what is to be said about it.
struct Glance {
    board: Option<Board>,
    finding: Finding,
}

impl Glance {
    async fn take(hub: &Hub, key: &ObjectKey, now: Timestamp) -> anyhow::Result<Self> {
        let facts = gather::facts(hub, Subject::Run(key.clone()), now).await?;
        Ok(Self::of(&facts, key))
    }

    fn of(facts: &Facts, key: &ObjectKey) -> Self {
        Self { board: Board::of_facts(facts, key), finding: explain(facts) }
    }

    fn as_text(&self, look: Look) -> String {
        match &self.board {
            Some(board) => board_text::render(board, &self.finding, look),
            None => self
                .finding
                .hints
                .iter()
                .fold(format!("{}\n", self.finding.headline), |text, hint| {
                    format!("{text}{}:  {}\n", hint.what, hint.command)
                }),
        }
    }

    /// One line that changes only when the run does.
    fn as_line(&self) -> String {
        let Some(board) = &self.board else {
            return self.finding.headline.clone();
        };
        let line = board_text::headline(board, false);
        let without_clock = line.rsplit_once("   ").map_or(line.as_str(), |(front, _)| front);
        let line = format!("{without_clock}   {}", self.finding.cause);
        // Whoever reads a log should not have to ask what it waits for.
        let asked = matches!(self.finding.cause, Cause::ApprovalMissing | Cause::ApprovalStale);
        match self.finding.hints.first().filter(|_| asked) {
            Some(hint) => format!("{line}   {}", hint.command),
            None => line,
        }
    }

    fn as_value(&self) -> Value {
        json!({"board": self.board, "finding": print::as_value(&self.finding)})
    }

    /// Nothing more will happen. A stuck run goes on once somebody has mended what holds it.
    fn is_over(&self, until: Until) -> bool {
        let state = self.finding.state;
        state.is_over() || (state == State::Stuck && until == Until::Stuck)
    }
}
