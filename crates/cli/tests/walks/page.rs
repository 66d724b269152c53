//! A page as a walk: its shell blocks, what they print, and the same page with other output.
//!
//! A `console` block is commands and output: `$` begins a command, `>` goes on with it, the
//! rest is what it prints. A line of three dots stands for any lines. `sh` blocks are
//! commands alone.

use flagship_sim::normal::normal;

/// A command of a `console` block and what the page says it prints.
pub struct Step {
    pub command: String,
    pub printed: String,
    /// The lines of the page that `printed` takes.
    at: std::ops::Range<usize>,
}

/// The commands of the first `sh` block that contains this one, without remarks.
pub fn block_with(page: &str, command: &str) -> Vec<String> {
    let block = page.split("```sh\n").find(|block| block.contains(command)).unwrap();
    let block = block.split("```").next().unwrap();
    let commands = block.lines().map(|line| line.split("  #").next().unwrap().trim().to_owned());
    commands.filter(|line| line.starts_with("kubectl") || line.starts_with("flagship")).collect()
}

/// The steps of all `console` blocks.
pub fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for (at, line) in page.lines().enumerate() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if !inside {
            continue;
        } else if let Some(command) = line.strip_prefix("$ ") {
            let (command, printed) = (command.to_owned(), String::new());
            steps.push(Step { command, printed, at: at + 1..at + 1 });
        } else {
            let step = steps.last_mut().expect("a console block begins with a command");
            match line.strip_prefix('>').filter(|_| step.printed.is_empty()) {
                Some(more) => {
                    step.command.push('\n');
                    step.command.push_str(more.strip_prefix(' ').unwrap_or(more));
                    step.at = at + 1..at + 1;
                }
                None => {
                    step.printed.push_str(line);
                    step.printed.push('\n');
                    step.at.end = at + 1;
                }
            }
        }
    }
    steps
}

impl Step {
    /// Whether this is what the page says, but for what differs from run to run.
    pub fn says(&self, printed: &str) -> bool {
        let (want, got) = (normal(&self.printed), normal(printed));
        let (want, got): (Vec<&str>, Vec<&str>) = (want.lines().collect(), got.lines().collect());
        is_like(&want, &got)
    }
}

/// Whether lines are the wanted ones, three dots being any.
fn is_like(want: &[&str], got: &[&str]) -> bool {
    match want {
        [] => got.is_empty(),
        ["...", rest @ ..] => (0..=got.len()).any(|skipped| is_like(rest, &got[skipped..])),
        [first, rest @ ..] => got.first() == Some(first) && is_like(rest, &got[1..]),
    }
}

/// The page with this output in place of its own.
pub fn rewritten(page: &str, steps: &[Step], printed: &[Option<String>]) -> String {
    let lines: Vec<&str> = page.lines().collect();
    let mut out: Vec<&str> = Vec::new();
    let mut from = 0;
    for (step, printed) in steps.iter().zip(printed) {
        if let Some(printed) = printed {
            out.extend(&lines[from..step.at.start]);
            out.extend(printed.lines());
            from = step.at.end;
        }
    }
    out.extend(&lines[from..]);
    out.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[test]
fn a_page_is_read_and_written_back() {
    let page = "# A\n\n```sh\nflagship up  # now\n```\n\n```console\n$ one <<END\n> two\n> END\nx\n...\n$ three\n```\n";
    assert_eq!(block_with(page, "up"), ["flagship up"]);
    let steps = steps(page);
    assert_eq!(steps[0].command, "one <<END\ntwo\nEND");
    assert!(steps[0].says("x\n") && steps[0].says("x\ny\nz\n") && !steps[0].says("y\n"));
    assert!(steps[1].says("") && !steps[1].says("something\n"));
    assert_eq!(rewritten(page, &steps, &[None, None]), page);
    let other = rewritten(page, &steps, &[Some("y\n".into()), Some("z\n".into())]);
    assert_eq!(other, page.replace("x\n...\n", "y\n").replace("$ three\n", "$ three\nz\n"));
}
