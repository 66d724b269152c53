//! A run's board as text: a headline, one line a stage, and what comes next.
//!
//! A terminal says how wide it is; what does not fit goes on lines of its own, so that a
//! gate is never off the edge. How frames follow each other is in `frame`.

use flagship_explain::board::{Board, Cell, Gate, GateState, Mark, Phase, Side};
use flagship_explain::why::Finding;
use jiff::SignedDuration;

use super::wrap::{flow, shown_width};

/// Clusters of one stage that are spelled out; the rest is counted.
const SPELLED_OUT: usize = 6;

/// Signs of the bar of a stage that has more.
const BAR: usize = 20;

/// Where the board is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Whether it may have colours.
    pub colours: bool,
    /// Columns of the terminal; any number of them if there is none.
    pub width: Option<usize>,
}

/// The whole board.
pub fn render(board: &Board, finding: &Finding, look: Look) -> String {
    drawn(board, "next", &next(board, finding), look)
}

/// A board as it was, with what was told of the run last.
pub fn as_it_was(board: &Board, told: &str, look: Look) -> String {
    drawn(board, "told", told, look)
}

/// A board over one line of words.
fn drawn(board: &Board, label: &str, words: &str, look: Look) -> String {
    let Look { colours, width } = look;
    let mut text = flow(&headline_parts(board, colours), "   ", "  ", width);
    text.push_str("\n\n");
    let rows: Vec<(&str, String, String)> = board
        .stages
        .iter()
        .map(|stage| (stage.name.as_str(), cells(&stage.cells, colours), gates(&stage.gates)))
        .collect();
    let names = rows.iter().map(|row| row.0.chars().count()).max().unwrap_or(0);
    let clusters = rows.iter().map(|row| shown_width(&row.1)).max().unwrap_or(0);
    let lines: Vec<String> = rows
        .iter()
        .map(|(name, cells, gates)| {
            let pad = clusters.saturating_sub(shown_width(cells));
            let line = format!("  {name:<names$}   {cells}{:pad$}   {gates}", "");
            line.trim_end().to_owned()
        })
        .collect();
    let fits = |line: &String| width.is_none_or(|width| shown_width(line) <= width);
    if lines.iter().all(fits) {
        lines.iter().for_each(|line| text.push_str(&format!("{line}\n")));
    } else {
        for (name, cells, gates) in &rows {
            let cells: Vec<String> = cells.split("  ").map(str::to_owned).collect();
            let cells =
                flow(&cells, "  ", "      ", width.map(|width| width.saturating_sub(names + 5)));
            text.push_str(&format!("  {name:<names$}   {cells}\n"));
            if !gates.is_empty() {
                let gates: Vec<String> = gates.split(", ").map(str::to_owned).collect();
                let width = width.map(|width| width.saturating_sub(6));
                text.push_str(&format!("      {}\n", flow(&gates, ", ", "      ", width)));
            }
        }
    }
    if !rows.is_empty() {
        text.push('\n');
    }
    let mut notes = notes(board);
    notes.push((label, words.to_owned()));
    for (label, words) in notes {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let indent = " ".repeat(label.len() + 4);
        let room = width.map(|width| width.saturating_sub(indent.len()));
        text.push_str(&format!("  {label}: {}\n", flow(&words, " ", &indent, room)));
    }
    match width {
        Some(width) => text.lines().map(|line| format!("{}\n", cut(line, width))).collect(),
        None => text,
    }
}

/// What policies and freezes say of the run, each under its label.
fn notes(board: &Board) -> Vec<(&'static str, String)> {
    let mut notes = Vec::new();
    if !board.budgets.is_empty() {
        let budgets: Vec<&str> = board.budgets.iter().map(|budget| budget.says.as_str()).collect();
        let policies = board.policies.join(", ");
        notes.push(("budget", format!("{} (policy {policies})", budgets.join("; "))));
    }
    if let Some((cell, deadline, more)) = board.first_deadline() {
        let span = SignedDuration::from_secs(board.seconds);
        let now = board.created.and_then(|created| created.checked_add(span).ok());
        let left = now.map(|now| deadline.duration_since(now).as_secs().max(0));
        let left = left.map_or_else(String::new, |left| format!(", {} left", clock(left)));
        let more = if more == 0 { String::new() } else { format!("; {more} more are under way") };
        let words = format!("{} must be available by {deadline:.0}{left}{more}", cell.cluster);
        notes.push(("deadline", words));
    }
    let skipped: Vec<String> = board
        .skipped()
        .map(|(cluster, says)| format!("{cluster}{}", says.strip_prefix("Skipped").unwrap_or(says)))
        .collect();
    if !skipped.is_empty() {
        let mut words = skipped[..skipped.len().min(SPELLED_OUT)].join("; ");
        if skipped.len() > SPELLED_OUT {
            words.push_str(&format!("; and {} more", skipped.len() - SPELLED_OUT));
        }
        notes.push(("skipped", words));
    }
    let frozen = board.frozen.as_deref();
    notes.extend(
        frozen.map(|says| ("frozen", says.strip_prefix("Frozen ").unwrap_or(says).to_owned())),
    );
    notes
}

/// The part of a line that fits, with a sign that there is more.
fn cut(line: &str, width: usize) -> String {
    if shown_width(line) <= width {
        return line.to_owned();
    }
    let (mut text, mut shown, mut in_colour) = (String::new(), 0, false);
    for letter in line.chars() {
        match (in_colour, letter) {
            (false, '\u{1b}') => in_colour = true,
            (true, 'm') => in_colour = false,
            (true, _) => {}
            (false, _) if shown + 1 >= width => continue,
            (false, _) => shown += 1,
        }
        text.push(letter);
    }
    text.push('…');
    text
}

/// `demo-run   demo (snapshot 0)   RUNNING   stage 1 of 3   1/3 clusters   00:04`.
pub fn headline(board: &Board, colours: bool) -> String {
    headline_parts(board, colours).join("   ")
}

fn headline_parts(board: &Board, colours: bool) -> Vec<String> {
    let (done, all) = board.clusters();
    let snapshot = match board.snapshot.as_str() {
        "" => String::new(),
        index => format!(" (snapshot {index})"),
    };
    let word = word(board.phase);
    let word = match (colours, board.phase) {
        (true, Phase::Succeeded) => format!("\u{1b}[32m{word}\u{1b}[0m"),
        (true, Phase::Failed | Phase::Stuck | Phase::PoliciesChanged) => {
            format!("\u{1b}[31m{word}\u{1b}[0m")
        }
        (
            true,
            Phase::Waiting | Phase::Stopped | Phase::Frozen | Phase::Closed | Phase::Checking,
        ) => {
            format!("\u{1b}[33m{word}\u{1b}[0m")
        }
        _ => word.to_owned(),
    };
    // A stuck run that was told to stop is both; only one of them is its phase.
    let word = match board.stopping && board.phase != Phase::Stopping {
        true => format!("{word}, STOPPING"),
        false => word,
    };
    let mut parts = vec![board.run.clone(), format!("{}{snapshot}", board.placement), word];
    if !board.stages.is_empty() {
        parts.push(format!("stage {} of {}", board.stage_number(), board.stages.len()));
        parts.push(format!("{done}/{all} clusters"));
    }
    parts.push(clock(board.seconds));
    parts
}

/// The phase as boards spell it.
pub fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "PENDING",
        Phase::Initialized => "INITIALIZED",
        Phase::Running => "RUNNING",
        Phase::Waiting => "WAITING",
        Phase::Stuck => "STUCK",
        Phase::Stopping => "STOPPING",
        Phase::Stopped => "STOPPED",
        Phase::Frozen => "FROZEN",
        Phase::Closed => "CLOSED",
        Phase::Checking => "CHECKING",
        Phase::PoliciesChanged => "POLICIES CHANGED",
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
    if cells.len() <= SPELLED_OUT {
        return cells.iter().map(|cell| one(cell, colours)).collect::<Vec<_>>().join("  ");
    }
    // What moves or failed is what one looks for; the others are counted.
    let rank = |cell: &Cell| match cell.mark {
        Mark::Failed => 0,
        Mark::Stuck => 1,
        Mark::Left => 2,
        _ => 3,
    };
    let is_busy = |mark| {
        matches!(mark, Mark::Failed | Mark::Skipped | Mark::Stuck | Mark::Left | Mark::Updating)
    };
    let mut busy: Vec<&Cell> = cells.iter().filter(|cell| is_busy(cell.mark)).collect();
    busy.sort_by_key(|cell| rank(cell));
    let mut parts = vec![bar(cells, colours)];
    parts.extend(busy.iter().take(SPELLED_OUT).map(|cell| one(cell, colours)));
    if busy.len() > SPELLED_OUT {
        parts.push(format!("and {} more", busy.len() - SPELLED_OUT));
    }
    parts.extend(stuck(cells));
    let taken = cells.iter().filter(|cell| cell.mark == Mark::Taken).count();
    if taken > 0 {
        parts.push(format!("⇢ {taken} taken by other runs"));
    }
    parts.join("  ")
}

/// `150 stuck: 148 IMAGE_NOT_FOUND, 2 HEARTBEAT_STALE`, where there are too many to name.
fn stuck(cells: &[Cell]) -> Option<String> {
    let causes = cells.iter().filter_map(|cell| cell.cause.as_deref());
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for cause in causes {
        match counted.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, count)) => *count += 1,
            None => counted.push((cause, 1)),
        }
    }
    let all: usize = counted.iter().map(|(_, count)| count).sum();
    counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let told: Vec<String> =
        counted.iter().map(|(cause, count)| format!("{count} {cause}")).collect();
    (all > SPELLED_OUT).then(|| format!("{all} stuck: {}", told.join(", ")))
}

/// `▰▰▰▰▱▱▱▱ 90/180`: full only when everything is done, empty only when nothing is.
fn bar(cells: &[Cell], colours: bool) -> String {
    let (all, done) = (cells.len(), cells.iter().filter(|c| c.mark == Mark::Done).count());
    let full = match done {
        0 => 0,
        done if done == all => BAR,
        done => (done * BAR / all).clamp(1, BAR - 1),
    };
    let (on, off) = if colours { ("\u{1b}[32m", "\u{1b}[0m") } else { ("", "") };
    format!("{on}{}{off}{} {done}/{all}", "▰".repeat(full), "▱".repeat(BAR - full))
}

fn one(cell: &Cell, colours: bool) -> String {
    let (mark, colour) = match cell.mark {
        Mark::Queued => ("·", ""),
        Mark::Updating => ("◐", "\u{1b}[34m"),
        Mark::Done => ("✔", "\u{1b}[32m"),
        Mark::Failed => ("✘", "\u{1b}[31m"),
        Mark::Skipped => ("⊘", "\u{1b}[33m"),
        Mark::Taken => ("⇢", "\u{1b}[33m"),
        Mark::Stuck => ("!", "\u{1b}[31m"),
        Mark::Left => ("◌", "\u{1b}[31m"),
    };
    let mark = match (colours, colour) {
        (true, colour) if !colour.is_empty() => format!("{colour}{mark}\u{1b}[0m"),
        _ => mark.to_owned(),
    };
    match (cell.seconds, &cell.taken_by) {
        (Some(seconds), _) if cell.mark == Mark::Left => {
            format!("{mark} {} left after {}", cell.cluster, clock(seconds))
        }
        (Some(seconds), _) if cell.cause.is_some() => {
            let cause = cell.cause.as_deref().unwrap_or_default();
            format!("{mark} {} {} {cause}", cell.cluster, clock(seconds))
        }
        (Some(seconds), _) => format!("{mark} {} {}", cell.cluster, clock(seconds)),
        (None, None) if cell.mark == Mark::Skipped => format!("{mark} {} skipped", cell.cluster),
        (None, Some(by)) => format!("{mark} {} taken by {by}", cell.cluster),
        (None, None) => format!("{mark} {}", cell.cluster),
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
    let taken = board.stages.iter().flat_map(|stage| &stage.cells).any(|c| c.mark == Mark::Taken);
    if board.phase == Phase::Succeeded && !taken {
        return "nothing, it is done".to_owned();
    }
    let command = finding.hints.iter().find(|hint| hint.lead == "fix" && !hint.command.is_empty());
    match command {
        Some(hint) => format!("{} {}", finding.headline, hint.command),
        None => finding.headline.clone(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use flagship_explain::board::Stage;
    use flagship_explain::why::{Cause, State};

    use super::*;

    fn cell(cluster: &str, mark: Mark, seconds: Option<i64>) -> Cell {
        let (taken_by, cause, started, ended) = (None, None, None, None);
        let (cluster, deadline, says) = (cluster.to_owned(), None, None);
        Cell { cluster, mark, seconds, taken_by, cause, started, ended, deadline, says }
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
            stopping: false,
            strategy: "s".into(),
            created: None,
            ended: None,
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
            policies: Vec::new(),
            budgets: Vec::new(),
            frozen: None,
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
        .assert_eq(&render(&board(), &finding, Look::default()));
    }

    #[test]
    fn colours_do_not_move_columns() {
        let finding = Finding::new(State::Waiting, Cause::InProgress, "x");
        let coloured = render(&board(), &finding, Look { colours: true, width: None });
        let stripped: Vec<usize> = coloured.lines().map(shown_width).collect();
        let plain = render(&board(), &finding, Look::default());
        let plain: Vec<usize> = plain.lines().map(|line| line.chars().count()).collect();
        assert_eq!(stripped, plain);
    }

    #[test]
    fn a_hundred_clusters_are_counted_and_the_failed_one_is_named() {
        let mut many: Vec<Cell> =
            (0..100).map(|n| cell(&format!("m{n}"), Mark::Done, None)).collect();
        many[77].mark = Mark::Failed;
        (1..9).for_each(|n| many[n].mark = Mark::Updating);
        assert_eq!(
            cells(&many, false),
            "▰▰▰▰▰▰▰▰▰▰▰▰▰▰▰▰▰▰▱▱ 91/100  ✘ m77  ◐ m1  ◐ m2  ◐ m3  ◐ m4  ◐ m5  and 3 more"
        );
    }

    #[test]
    fn many_stuck_clusters_are_counted_by_cause() {
        let stuck = |n: usize| {
            let cause = if n < 2 { "HEARTBEAT_STALE" } else { "IMAGE_NOT_FOUND" };
            let mut cell = cell(&format!("m{n}"), Mark::Stuck, Some(60));
            cell.cause = Some(cause.to_owned());
            cell
        };
        let mut many: Vec<Cell> = (0..150).map(stuck).collect();
        many.extend((150..300).map(|n| cell(&format!("m{n}"), Mark::Done, None)));
        assert_eq!(
            cells(&many, false),
            "▰▰▰▰▰▰▰▰▰▰▱▱▱▱▱▱▱▱▱▱ 150/300  ! m0 01:00 HEARTBEAT_STALE  ! m1 01:00 HEARTBEAT_STALE  \
             ! m2 01:00 IMAGE_NOT_FOUND  ! m3 01:00 IMAGE_NOT_FOUND  ! m4 01:00 IMAGE_NOT_FOUND  \
             ! m5 01:00 IMAGE_NOT_FOUND  and 144 more  150 stuck: 148 IMAGE_NOT_FOUND, 2 HEARTBEAT_STALE"
        );
    }

    #[test]
    fn a_bar_is_full_only_when_all_is_done_and_empty_only_when_nothing_is() {
        let of = |done: usize| -> Vec<Cell> {
            let mark = |n| if n < done { Mark::Done } else { Mark::Queued };
            (0..1000).map(|n| cell("m", mark(n), None)).collect()
        };
        let full = |done| bar(&of(done), false).matches('▰').count();
        assert_eq!([0, 1, 500, 999, 1000].map(full), [0, 1, 10, 19, 20]);
    }

    #[test]
    fn on_a_narrow_terminal_nothing_is_off_the_edge() {
        let says = "demo-run is updating member1 in stage canary, for 4s now.";
        let finding = Finding::new(State::Waiting, Cause::InProgress, says);
        let narrow =
            |width| render(&board(), &finding, Look { colours: false, width: Some(width) });
        expect![[r#"
            demo-run   demo (snapshot 0)   RUNNING
              stage 2 of 3   1/3 clusters   01:04

              staging      ✔ member2
                  ✔ approved after
              canary       ◐ member1 00:04
                  ◐ after: wait 00:12 more
              production   · member3
                  before: approval

              next: demo-run is updating member1 in
                    stage canary, for 4s now.
        "#]]
        .assert_eq(&narrow(44));
        for width in [80, 60, 40, 20, 8, 1] {
            let plain = narrow(width);
            let look = Look { colours: true, width: Some(width) };
            let coloured = render(&board(), &finding, look);
            assert!(plain.lines().all(|line| line.chars().count() <= width), "{width}\n{plain}");
            assert!(coloured.lines().all(|line| shown_width(line) <= width), "{width}\n{coloured}");
            assert_eq!(plain.lines().count(), coloured.lines().count());
        }
        assert_eq!(narrow(200), render(&board(), &finding, Look::default()));
    }
}
