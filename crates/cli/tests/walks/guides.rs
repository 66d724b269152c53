//! The guides: every command is run, everything a page says it prints is what it prints.
//!
//! `UPDATE_EXPECT=1` writes down what came instead.

use std::path::PathBuf;

use flagship_sim::normal::normal;

use crate::fleet::{Fleet, HAS_KUBECTL, say};
use crate::page::{Step, block_with, rewritten, steps};

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides"))
}

/// How often a look is taken again before what it shows is held against the page. Each is a
/// process, which takes its time.
const LOOKS: u32 = 300;
/// After how many looks that show the same nothing else is expected.
const SETTLED: u32 = 15;

fn walk(name: &str) {
    let path = folder().join(format!("{name}.md"));
    let page = std::fs::read_to_string(&path).unwrap();
    let start = block_with(&page, "flagship up").remove(0);
    let flags: Vec<&str> = start.split_whitespace().skip(2).chain(["--ephemeral"]).collect();
    let fleet = Fleet::new(name, &flags);
    let steps = steps(&page);
    let update = is_being_written();
    let mut printed: Vec<Option<String>> = Vec::new();
    for step in &steps {
        let needs_kubectl = step.command.contains("kubectl");
        if needs_kubectl && !*HAS_KUBECTL {
            if changes(&step.command) {
                say(&format!("the rest of the guide {name} was skipped, for there is no kubectl"));
                break;
            }
            say(&format!("skipped, for there is no kubectl: {}", step.command));
            printed.push(None);
            continue;
        }
        let got = look(&fleet, step);
        if !step.says(&got) {
            assert!(
                update,
                "{name}\n$ {}\n--- printed now:\n{got}--- the page says:\n{}",
                step.command, step.printed
            );
            printed.push(Some(got));
        } else {
            printed.push(None);
        }
    }
    if update {
        printed.resize(steps.len(), None);
        std::fs::write(&path, rewritten(&page, &steps, &printed)).unwrap();
    }
}

/// Runs a command. One that only looks is run again until it shows what the page says:
/// things take their time, on the page too. When the page is being written, until it has
/// shown the same for a while.
fn look(fleet: &Fleet, step: &Step) -> String {
    let once = || {
        let output = fleet.line(&step.command);
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        // Whether a command had to wait depends on the machine.
        let told = String::from_utf8_lossy(&output.stderr);
        let told = told.split_inclusive('\n').filter(|line| !line.contains("; waiting up to "));
        text.extend(told);
        text
    };
    let mut last = once();
    let mut same = 0;
    for _ in 0..LOOKS {
        let settled = is_being_written() && same >= SETTLED;
        if changes(&step.command) || step.says(&last) || settled {
            break;
        }
        let next = once();
        same = if normal(&next) == normal(&last) { same + 1 } else { 0 };
        last = next;
    }
    last
}

fn is_being_written() -> bool {
    std::env::var_os("UPDATE_EXPECT").is_some()
}

/// Whether a command does something that must not be done twice.
fn changes(command: &str) -> bool {
    let verbs = [
        "run", "approve", "reject", "stop", "resume", "rollback", "freeze", "unfreeze", "apply",
        "create", "delete", "patch", "label", "set", "watch", "wait", "--lift",
    ];
    command.split_whitespace().any(|word| verbs.contains(&word))
}

#[test]
fn stuck() {
    walk("stuck");
}

#[test]
fn progress() {
    walk("progress");
}

#[test]
fn failed() {
    walk("failed");
}

#[test]
fn namespaced() {
    walk("namespaced");
}

#[test]
fn approvals() {
    walk("approvals");
}

#[test]
fn freeze() {
    walk("freeze");
}

#[test]
fn notifications() {
    walk("notifications");
}

#[test]
fn who_approves() {
    walk("who-approves");
}

#[test]
fn checks() {
    walk("checks");
}

#[test]
fn windows() {
    walk("windows");
}

#[test]
fn policies() {
    walk("policies");
}

#[test]
fn records() {
    walk("records");
}

#[test]
fn every_guide_is_walked_and_listed() {
    let mut pages: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        // The console's guide has no output to compare: its stories are told in a browser.
        .filter(|name| !["README.md", "console.md"].contains(&name.as_str()))
        .collect();
    pages.sort();
    let walked = [
        "approvals",
        "checks",
        "failed",
        "freeze",
        "namespaced",
        "notifications",
        "policies",
        "progress",
        "records",
        "stuck",
        "who-approves",
        "windows",
    ];
    let walked = walked.map(|page| format!("{page}.md"));
    assert_eq!(pages, walked);
    let list = std::fs::read_to_string(folder().join("README.md")).unwrap();
    for page in pages {
        assert!(list.contains(&format!("]({page})")), "{page} is not listed");
    }
}
