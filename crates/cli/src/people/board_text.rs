//! A run's board as text: a headline, one line a stage, and what comes next.

use std::fmt::Write;

use flagship_rules::board::{Board, Cell, Gate, GateState, Mark, Phase, Side};
use flagship_rules::why::Finding;

/// Clusters of one stage that are spelled out; the rest is counted.
const SPELLED_OUT: usize = 6;

/// The whole board.
pub fn render(board: &Board, finding: &Finding, colours: bool) -> String {
    let mut text = headline(board, colours);
    text.push_str("\n\n");
    let rows: Vec<(&str, String, String)> = board
        .stages
        .iter()
        .map(|stage| (stage.name.as_str(), cells(&stage.cells, colours), gates(&stage.gates)))
        .collect();
    let names = rows.iter().map(|row| row.0.chars().count()).max().unwrap_or(0);
    let clusters = rows.iter().map(|row| shown_width(&row.1)).max().unwrap_or(0);
    for (name, cells, gates) in &rows {
        let pad = clusters.saturating_sub(shown_width(cells));
        let line = format!("  {name:<names$}   {cells}{:pad$}   {gates}", "");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    if !rows.is_empty() {
        text.push('\n');
    }
    text.push_str("  next: ");
    text.push_str(&next(board, finding));
    text.push('\n');
    text
}

/// `demo-run   demo (snapshot 0)   RUNNING   stage 1 of 3   1/3 clusters   00:04`.
pub fn headline(board: &Board, colours: bool) -> String {
    let (done, all) = board.clusters();
    let snapshot = match board.snapshot.as_str() {
        "" => String::new(),
        index => format!(" (snapshot {index})"),
    };
    let word = word(board.phase);
    let word = match (colours, board.phase) {
        (true, Phase::Succeeded) => format!("\u{1b}[32m{word}\u{1b}[0m"),
        (true, Phase::Failed | Phase::Stuck) => format!("\u{1b}[31m{word}\u{1b}[0m"),
        (true, Phase::Waiting | Phase::Stopped) => format!("\u{1b}[33m{word}\u{1b}[0m"),
        _ => word.to_owned(),
    };
    let mut line = format!("{}   {}{snapshot}   {word}", board.run, board.placement);
    if !board.stages.is_empty() {
        let stages = board.stages.len();
        write!(line, "   stage {} of {stages}   {done}/{all} clusters", board.stage_number())
            .expect("a string takes everything");
    }
    format!("{line}   {}", clock(board.seconds))
}

fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "PENDING",
        Phase::Initialized => "INITIALIZED",
        Phase::Running => "RUNNING",
        Phase::Waiting => "WAITING",
        Phase::Stuck => "STUCK",
        Phase::Stopping => "STOPPING",
        Phase::Stopped => "STOPPED",
        Phase::Succeeded => "SUCCEEDED",
        Phase::Failed => "FAILED",
    }
}

/// `00:04`, `1:02:03`.
pub fn clock(seconds: i64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, minutes, seconds) => format!("{minutes:02}:{seconds:02}"),
        (hours, minutes, seconds) => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

fn cells(cells: &[Cell], colours: bool) -> String {
    if cells.is_empty() {
        return "no clusters".to_owned();
    }
    // What moves or failed is what one looks for: it is never among the merely counted.
    let mut order: Vec<&Cell> = cells.iter().collect();
    if cells.len() > SPELLED_OUT {
        order.sort_by_key(|cell| match cell.mark {
            Mark::Failed => 0,
            Mark::Updating => 1,
            Mark::Queued => 2,
            Mark::Done => 3,
        });
    }
    let mut parts: Vec<String> =
        order.iter().take(SPELLED_OUT).map(|cell| one(cell, colours)).collect();
    let rest = &order[parts.len()..];
    if !rest.is_empty() {
        let done = rest.iter().filter(|cell| cell.mark == Mark::Done).count();
        parts.push(format!("and {} more ({done} done)", rest.len()));
    }
    parts.join("  ")
}

fn one(cell: &Cell, colours: bool) -> String {
    let (mark, colour) = match cell.mark {
        Mark::Queued => ("·", ""),
        Mark::Updating => ("◐", "\u{1b}[34m"),
        Mark::Done => ("✔", "\u{1b}[32m"),
        Mark::Failed => ("✘", "\u{1b}[31m"),
    };
    let mark = match (colours, colour) {
        (true, colour) if !colour.is_empty() => format!("{colour}{mark}\u{1b}[0m"),
        _ => mark.to_owned(),
    };
    match cell.seconds {
        Some(seconds) => format!("{mark} {} {}", cell.cluster, clock(seconds)),
        None => format!("{mark} {}", cell.cluster),
    }
}

fn gates(gates: &[Gate]) -> String {
    let texts: Vec<String> = gates.iter().map(gate).collect();
    texts.join(", ")
}

fn gate(gate: &Gate) -> String {
    let side = match gate.side {
        Side::Before => "before",
        Side::After => "after",
    };
    match (gate.state, gate.approval.is_empty(), gate.seconds_left) {
        (GateState::Passed, false, _) => format!("✔ approved {side}"),
        (GateState::Passed, true, _) => format!("✔ waited {}", gate.wait),
        (GateState::Closed, false, _) => format!("◐ {side}: approval"),
        (GateState::Closed, true, Some(left)) => format!("◐ {side}: wait {} more", clock(left)),
        (_, true, _) => format!("{side}: wait {}", gate.wait),
        (_, false, _) => format!("{side}: approval"),
    }
}

fn next(board: &Board, finding: &Finding) -> String {
    if board.phase == Phase::Succeeded {
        return "nothing, it is done".to_owned();
    }
    let command = finding.hints.iter().find(|hint| hint.lead == "fix" && !hint.command.is_empty());
    match command {
        Some(hint) => format!("{} {}", finding.headline, hint.command),
        None => finding.headline.clone(),
    }
}

/// Columns a text takes: colours take none.
fn shown_width(text: &str) -> usize {
    let mut width = 0;
    let mut in_colour = false;
    for letter in text.chars() {
        match (in_colour, letter) {
            (false, '\u{1b}') => in_colour = true,
            (true, 'm') => in_colour = false,
            (true, _) => {}
            (false, _) => width += 1,
        }
    }
    width
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use flagship_rules::board::Stage;
    use flagship_rules::why::{Cause, State};

    use super::*;

    fn cell(cluster: &str, mark: Mark, seconds: Option<i64>) -> Cell {
        Cell { cluster: cluster.to_owned(), mark, seconds }
    }

    fn approval(side: Side, state: GateState) -> Gate {
        Gate { side, state, approval: "a".into(), wait: String::new(), seconds_left: None }
    }

    fn stage(name: &str, cells: Vec<Cell>, gates: Vec<Gate>, done: bool) -> Stage {
        Stage { name: name.to_owned(), cells, gates, done, begun: true }
    }

    fn board() -> Board {
        let wait = Gate {
            side: Side::After,
            state: GateState::Closed,
            approval: String::new(),
            wait: "30s".into(),
            seconds_left: Some(12),
        };
        Board {
            run: "demo-run".into(),
            placement: "demo".into(),
            snapshot: "0".into(),
            phase: Phase::Running,
            seconds: 64,
            stages: vec![
                stage(
                    "staging",
                    vec![cell("member2", Mark::Done, None)],
                    vec![approval(Side::After, GateState::Passed)],
                    true,
                ),
                stage("canary", vec![cell("member1", Mark::Updating, Some(4))], vec![wait], false),
                stage(
                    "production",
                    vec![cell("member3", Mark::Queued, None)],
                    vec![approval(Side::Before, GateState::Ahead)],
                    false,
                ),
            ],
        }
    }

    #[test]
    fn a_board_reads_from_the_top_left() {
        let finding = Finding::new(
            State::Waiting,
            Cause::InProgress,
            "demo-run is updating member1 in stage canary, for 4s now.",
        );
        expect![[r#"
            demo-run   demo (snapshot 0)   RUNNING   stage 2 of 3   1/3 clusters   01:04

              staging      ✔ member2         ✔ approved after
              canary       ◐ member1 00:04   ◐ after: wait 00:12 more
              production   · member3         before: approval

              next: demo-run is updating member1 in stage canary, for 4s now.
        "#]]
        .assert_eq(&render(&board(), &finding, false));
    }

    #[test]
    fn colours_do_not_move_columns() {
        let finding = Finding::new(State::Waiting, Cause::InProgress, "x");
        let coloured = render(&board(), &finding, true);
        let stripped: Vec<usize> = coloured.lines().map(shown_width).collect();
        let plain = render(&board(), &finding, false);
        let plain: Vec<usize> = plain.lines().map(|line| line.chars().count()).collect();
        assert_eq!(stripped, plain);
    }

    #[test]
    fn a_hundred_clusters_are_counted_and_the_failed_one_is_named() {
        let mut many: Vec<Cell> =
            (0..100).map(|n| cell(&format!("m{n}"), Mark::Done, None)).collect();
        many[77].mark = Mark::Failed;
        assert_eq!(
            cells(&many, false),
            "✘ m77  ✔ m0  ✔ m1  ✔ m2  ✔ m3  ✔ m4  and 94 more (94 done)"
        );
    }
}
