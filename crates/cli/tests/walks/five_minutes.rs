//! The README's first five minutes, as a newcomer would paste them.
//!
//! The fleet is killed in the middle of the second run and started again: nothing may be
//! lost.

use crate::fleet::{Fleet, HAS_KUBECTL, say};
use crate::page::block_with;

/// Walks a block. `why` and `status` answer by exit code, so only what they say is checked.
fn walk(fleet: &Fleet, commands: &[String]) -> String {
    let mut said = String::new();
    for command in commands {
        if command.starts_with("kubectl") && !*HAS_KUBECTL {
            say(&format!("skipped, for there is no kubectl: {command}"));
            continue;
        }
        let output = fleet.line(command);
        let text = String::from_utf8_lossy(&output.stdout);
        let answers = command.starts_with("flagship why") || command.starts_with("flagship status");
        assert!(
            output.status.success() || answers,
            "{command}\n{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        said.push_str(&format!("$ {command}\n{text}"));
    }
    said
}

#[test]
fn the_first_five_minutes_work_line_by_line() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();

    let mut fleet = Fleet::new("five-minutes", &["--demo"]);
    let first = walk(&fleet, &block_with(&readme, "flagship approve demo-run staging"));
    assert!(first.contains("SUCCEEDED"), "{first}");

    let second = block_with(&readme, "flagship run demo --name broken");
    let cut = second.iter().position(|line| line.starts_with("flagship why")).unwrap();
    let before = walk(&fleet, &second[..cut]);
    assert!(before.contains("broken created"), "{before}");
    fleet.cut_off_and_restart();
    // The pod's own words take a moment to come back from member2.
    let found = (0..100).any(|_| {
        let output = fleet.line("flagship why broken");
        String::from_utf8_lossy(&output.stdout).contains("IMAGE_NAME_INVALID")
    });
    assert!(found || !has_image_trouble(&before), "why does not name the image");
    let after = walk(&fleet, &second[cut..]);
    assert!(after.contains("demo-1 created"), "{after}");

    let down = fleet.line("flagship down");
    assert!(down.status.success());
}

/// Whether the broken image could be set at all: that takes kubectl.
fn has_image_trouble(said: &str) -> bool {
    said.contains("set image")
}
