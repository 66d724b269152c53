//! The transcript of delivery, replayed with stock kubectl on real API servers.
//!
//! It was written down on embedded clusters, where a pause passes at once. Here a pause is
//! left out, and what comes after it is asked for again until it is what was printed then;
//! what never is fails with the last answer. Commands that change something run once.

use std::time::Duration;

use flagship_sim::normal::aligned;

use crate::servers::Servers;
use crate::shell::Shell;
use crate::transcript::{Script, Step, kubectl};

/// How often an answer is asked for, and how long is waited in between: a minute and a half
/// at least, for a cluster may take that long to take a namespace apart.
const LOOKS: u32 = 180;
const PAUSE: Duration = Duration::from_millis(500);

/// Replays a transcript of the guides.
pub async fn replay(name: &str, servers: &Servers) {
    let Some(kubectl) = kubectl(name) else { return };
    let mut script = Script::open(&format!("guides/{name}.txt"));
    let mut shell = Shell::open(&format!("real-{name}"), kubectl);
    std::fs::copy(servers.folder.join("kubeconfig"), shell.folder().join("kubeconfig")).unwrap();
    for step in script.steps() {
        let printed;
        (shell, printed) = answer(shell, step.clone()).await;
        script.compare(&step, &printed);
    }
    script.close();
}

async fn answer(mut shell: Shell, step: Step) -> (Shell, String) {
    if step.line.starts_with("sleep ") {
        return (shell, String::new());
    }
    let changes = [" apply ", " create ", " patch ", " delete ", " set "];
    let looks = if changes.iter().any(|verb| step.line.contains(verb)) { 1 } else { LOOKS };
    let mut printed = String::new();
    for look in 0..looks {
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
        if step.is_as_told(&printed) {
            break;
        }
    }
    (shell, printed)
}
