//! Every test that a checklist names exists where it is said to be.
//!
//! A row names a file in backticks, then its tests: `rules/src/a.rs`: `one_test`, `another`.
//! Paths are below `crates/`; a name alone belongs to the file named last in its row.

use std::path::Path;

use super::files;

/// Pages that keep to this form, and how many tests they name at least.
const PAGES: &[(&str, usize)] =
    &[("docs/checklists/truth.md", 80), ("docs/checklists/hardening.md", 100)];

/// Whether a text in backticks is a path to a source file.
fn is_path(text: &str) -> bool {
    text.ends_with(".rs") && text.contains('/')
}

/// Whether it is a test: a `sentence_of_words`.
fn is_test(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && text.matches('_').count() > 1
}

/// File and test of every name in the column of tests, the third.
fn named(page: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for row in page.lines().filter(|line| line.starts_with("| ")) {
        let Some(tests) = row.split(" | ").nth(2) else { continue };
        let mut file = "";
        for quoted in tests.split('`').skip(1).step_by(2) {
            if is_path(quoted) {
                file = quoted;
            } else if is_test(quoted) {
                found.push((file, quoted));
            }
        }
    }
    found
}

/// Names that are in no function of the file they are said to be in.
fn lost(page: &str, text_of: impl Fn(&str) -> Option<String>) -> Vec<(&str, &str)> {
    let is_there = |(file, test): &(&str, &str)| {
        let text = text_of(file).unwrap_or_default();
        ["(", "<"].iter().any(|end| text.contains(&format!("fn {test}{end}")))
    };
    named(page).into_iter().filter(|one| !is_there(one)).collect()
}

#[test]
fn every_test_that_a_checklist_names_exists() {
    let (pages, sources) = (files("docs/checklists", "md"), files("crates", "rs"));
    let text_of = |file: &str| sources.get(Path::new(&format!("crates/{file}"))).cloned();
    for (path, at_least) in PAGES {
        let page = pages.get(Path::new(path)).expect("the page is there");
        let count = named(page).len();
        assert!(count >= *at_least, "{path} names {count} tests");
        assert_eq!(lost(page, text_of), Vec::<(&str, &str)>::new(), "{path}");
    }
}

#[test]
fn a_test_that_is_named_and_gone_is_found() {
    let page = "| 1 | holds | `a/b.rs`: `one_two_three`, `four_five_six`<br>`c/d.rs`: `one_two_three` | `x_y_z` |";
    let text_of = |file: &str| (file == "a/b.rs").then(|| "fn one_two_three() {".to_owned());
    assert_eq!(lost(page, text_of), [("a/b.rs", "four_five_six"), ("c/d.rs", "one_two_three")]);
}
