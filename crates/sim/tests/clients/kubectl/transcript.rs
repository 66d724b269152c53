//! Stories as files: read, replayed, held against what was printed then.

use std::path::{Path, PathBuf};

use super::binary::KUBECTL;

/// A command of a story.
#[derive(Clone)]
pub struct Step {
    /// Lines before it that explain it.
    prose: String,
    pub line: String,
    pub input: String,
    /// What was printed then.
    pub printed: String,
}

/// A story as it was written down.
pub struct Script {
    path: PathBuf,
    text: String,
    steps: Vec<Step>,
    /// What was printed now.
    got: String,
}

impl Script {
    /// A file below the tests of kubectl.
    pub fn open(file: &str) -> Self {
        // Other crates tell these stories, too.
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/tests/clients/kubectl");
        let path = Path::new(folder).join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        let steps = read(&text);
        Self { path, text, steps, got: String::new() }
    }

    pub fn steps(&self) -> Vec<Step> {
        self.steps.clone()
    }

    /// Takes down what a command printed and holds it against what it printed then.
    pub fn compare(&mut self, step: &Step, printed: &str) {
        self.got.push_str(&step.shown(printed));
        assert!(
            step.is_as_told(printed) || updating(),
            "$ {}\n{}\n--- printed now:\n{printed}--- printed then:\n{}",
            step.line,
            step.input,
            step.printed
        );
    }

    /// Keeps what was printed now, if that is asked for.
    pub fn close(self) {
        if updating() && self.got != self.text {
            std::fs::write(&self.path, self.got).unwrap();
        }
    }
}

fn updating() -> bool {
    std::env::var_os("UPDATE_EXPECT").is_some()
}

/// The binary to tell a story with; says so if there is none.
pub fn kubectl(story: &str) -> Option<&'static Path> {
    match &*KUBECTL {
        Ok(kubectl) => Some(kubectl),
        Err(why) => {
            // Straight to stderr: the runner hides what a passing test prints.
            use std::io::Write;
            drop(writeln!(std::io::stderr(), "the story {story:?} was skipped: {why}"));
            None
        }
    }
}

impl Step {
    /// Whether this is what it printed then.
    pub fn is_as_told(&self, printed: &str) -> bool {
        printed == self.printed
    }

    fn shown(&self, printed: &str) -> String {
        let mut shown = format!("{}$ {}\n", self.prose, self.line);
        for line in self.input.lines() {
            shown.push_str(format!("> {line}").trim_end());
            shown.push('\n');
        }
        shown.push_str(printed);
        shown
    }
}

fn read(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut prose = String::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            let prose = std::mem::take(&mut prose);
            let (input, printed) = (String::new(), String::new());
            steps.push(Step { prose, line: command.to_owned(), input, printed });
        } else if line.starts_with("# ") {
            // A line of prose belongs to the next command.
            prose.push_str(line);
            prose.push('\n');
        } else if let Some(step) = steps.last_mut() {
            match line.strip_prefix('>') {
                Some(input) if step.printed.is_empty() => {
                    step.input.push_str(input.strip_prefix(' ').unwrap_or(input));
                    step.input.push('\n');
                }
                _ => {
                    step.printed.push_str(line);
                    step.printed.push('\n');
                }
            }
        }
    }
    steps
}
