//! Stories as files: read, replayed, held against what was printed then.

use std::path::PathBuf;

use flagship_sim::normal::normal;

use crate::binary::KUBECTL;
use crate::session::Session;

/// A command of a story.
struct Step {
    /// Lines before it that explain it.
    prose: String,
    line: String,
    input: String,
    printed: String,
}

/// Runs a story and compares.
pub async fn replay(name: &str) {
    let kubectl = match &*KUBECTL {
        Ok(kubectl) => kubectl,
        Err(why) => {
            // Straight to stderr: the runner hides what a passing test prints.
            use std::io::Write;
            drop(writeln!(std::io::stderr(), "the story {name:?} was skipped: {why}"));
            return;
        }
    };
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/kubectl/stories/{name}.txt"));
    let text = std::fs::read_to_string(&path).unwrap();
    let steps = read(&text);
    let session = Session::start(name, kubectl).await;
    // Commands block; the server's tasks need their threads.
    let (session, got) = tokio::task::spawn_blocking(move || {
        let mut session = session;
        let mut got = String::new();
        for step in &steps {
            let folder = session.folder().to_string_lossy().into_owned();
            let printed = session.run(&step.line, &step.input).replace(&folder, "<folder>");
            let printed = normal(&printed);
            got.push_str(&step.shown(&printed));
            if printed != step.printed && std::env::var_os("UPDATE_EXPECT").is_none() {
                panic!(
                    "$ {}\n{}\n--- printed now:\n{printed}--- printed then:\n{}",
                    step.line, step.input, step.printed
                );
            }
        }
        (session, got)
    })
    .await
    .unwrap();
    session.end().await;
    if std::env::var_os("UPDATE_EXPECT").is_some() && got != text {
        std::fs::write(&path, got).unwrap();
    }
}

impl Step {
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
