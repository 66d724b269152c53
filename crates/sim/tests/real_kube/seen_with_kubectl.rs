//! Transcripts that were written down on embedded clusters, replayed with stock kubectl on real
//! API servers.
//!
//! There a pause passes at once. Here it is a few seconds, and what comes after it is asked for
//! again until it is what was printed then; what never is fails with the last answer. Commands
//! that change something run once. Events of one second are shown in any order.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flagship_sim::normal::aligned;
use jiff::SignedDuration;

use crate::shell::Shell;
use crate::transcript::{Script, Step, kubectl};

/// How often an answer is asked for, and how long is waited in between: a minute and a half
/// at least, for a cluster may take that long to take a namespace apart.
const LOOKS: u32 = 180;
const PAUSE: Duration = Duration::from_millis(500);

/// How long the fleet is left to itself after a command that changes something, and in a pause.
const SETTLES: Duration = Duration::from_secs(3);

/// How long pods take to get ready where the transcripts were written down.
const READY_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// Whether enough time passes in a story for pods to get ready. Clones share it.
///
/// A pause lets it pass only where what is printed next is not yet what was printed then: a run may
/// be under way after a pause, too.
#[derive(Clone, Default)]
pub struct StoryTime(Arc<(AtomicBool, AtomicBool)>);

impl StoryTime {
    /// Whether a pod that waits for its containers waits no longer.
    pub fn passes(&self) -> bool {
        self.0.0.load(Ordering::SeqCst)
    }

    fn may_pass(&self, may: bool) {
        self.0.1.store(may, Ordering::SeqCst);
        if !may {
            self.0.0.store(false, Ordering::SeqCst);
        }
    }

    fn is_waited_for(&self) {
        self.0.0.store(self.0.1.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

/// Replays a transcript of the guides with this kubeconfig.
pub async fn replay(name: &str, kubeconfig: &Path, time: &StoryTime) {
    let Some(kubectl) = kubectl(name) else { return };
    let mut script = Script::open(&format!("guides/{name}.txt"));
    let mut shell = Shell::open(&format!("real-{name}"), kubectl);
    std::fs::copy(kubeconfig, shell.folder().join("kubeconfig")).unwrap();
    for step in script.steps() {
        let printed;
        (shell, printed) = answer(shell, step.clone(), time).await;
        script.compare(&step, &printed);
    }
    script.close();
}

async fn answer(mut shell: Shell, step: Step, time: &StoryTime) -> (Shell, String) {
    if let Some(span) = step.line.strip_prefix("sleep ") {
        let span: SignedDuration = span.parse().unwrap();
        if span >= READY_AFTER {
            time.may_pass(true);
        }
        tokio::time::sleep(SETTLES).await;
        return (shell, String::new());
    }
    let changes = [" apply ", " create ", " patch ", " delete ", " set ", " label "];
    let changes = changes.iter().any(|verb| step.line.contains(verb));
    if changes {
        time.may_pass(false);
    }
    let mut printed = String::new();
    for look in 0..if changes { 1 } else { LOOKS } {
        if look > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        let (line, input) = (step.line.clone(), step.input.clone());
        // Commands block; the controllers need their thread.
        let run = move || {
            let printed = aligned(&shell.run(&line, &input));
            (shell, printed)
        };
        (shell, printed) = tokio::task::spawn_blocking(run).await.unwrap();
        if in_any_order(&printed) == in_any_order(&step.printed) {
            printed = step.printed;
            break;
        }
        time.is_waited_for();
    }
    if changes {
        tokio::time::sleep(SETTLES).await;
    }
    (shell, printed)
}

/// The lines of a text with its events sorted, and as much space behind ages as there may be. So it is
/// with the head of a table of pods, whose names are longer or shorter by a letter.
fn in_any_order(text: &str) -> Vec<String> {
    let of_pods = text.contains("<hash>");
    let read = |line: &str| match of_pods && line.starts_with("NAME ") {
        true => line.split_whitespace().collect::<Vec<_>>().join(" "),
        false => behind_ages(line),
    };
    let mut lines: Vec<String> = text.lines().map(read).collect();
    let events = lines.iter().position(|line| line.starts_with("Events:"));
    if let Some(events) = events {
        lines[events..].sort_unstable();
    }
    lines
}

/// How wide the column of ages is depends on how old things are.
fn behind_ages(line: &str) -> String {
    match line.split_once("<age>").or_else(|| line.split_once("AGE ")) {
        Some((before, behind)) => format!("{before}<age> {}", behind.trim_start()),
        None => line.to_owned(),
    }
}

#[test]
fn a_hash_of_a_pod_may_be_shorter_than_it_was_then() {
    let (then, now) = (
        "NAME            READY   AGE\nweb-<hash>-<id>   0/1     <age>\n",
        "NAME           READY   AGE\nweb-<hash>-<id>   0/1     <age>\n",
    );
    assert_eq!(in_any_order(then), in_any_order(now));
    let other = now.replace("0/1", "1/1");
    assert_ne!(in_any_order(then), in_any_order(&other));
    // Of other things the columns are compared as they are.
    let plain = |text: &str| in_any_order(&text.replace("<hash>-<id>", "a"));
    assert_ne!(plain(then), plain(now));
}
