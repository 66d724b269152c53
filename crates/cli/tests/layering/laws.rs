//! Every law that code or documents cite by number is defined in `docs/laws.md`, and every
//! test that page names exists.

use std::collections::BTreeSet;

use super::files;

/// The numbers that have a section, as in `### S7 Deletions come last`.
fn defined(page: &str) -> BTreeSet<&str> {
    let titles = page.lines().filter_map(|line| line.strip_prefix("### "));
    titles.filter_map(|title| title.split(' ').next()).filter(|word| is_number(word)).collect()
}

/// Whether a word is the number of a law: one letter, then one or two digits.
fn is_number(word: &str) -> bool {
    let digits = word.strip_prefix(['S', 'L', 'P']).unwrap_or_default();
    matches!(digits.len(), 1 | 2) && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The numbers of laws in a text, where they stand as words of their own.
fn numbers(text: &str) -> Vec<&str> {
    let is_word = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    let bytes = text.as_bytes();
    let begins = |at: &usize| {
        matches!(bytes[*at], b'S' | b'L' | b'P') && !is_word(at.checked_sub(1).map(|at| &bytes[at]))
    };
    let word = |at: usize| {
        let length = bytes[at..].iter().position(|byte| !is_word(Some(byte)));
        &text[at..length.map_or(text.len(), |length| at + length)]
    };
    (0..bytes.len()).filter(begins).map(word).filter(|word| is_number(word)).collect()
}

/// Numbers in a text that the page does not define.
fn undefined<'a>(page: &str, text: &'a str) -> BTreeSet<&'a str> {
    let known = defined(page);
    numbers(text).into_iter().filter(|number| !known.contains(number)).collect()
}

/// The tests that a page names: `sentences_like_this` in backticks.
fn named_tests(page: &str) -> BTreeSet<&str> {
    let quoted = page.split('`').skip(1).step_by(2);
    let is_sentence = |name: &&str| {
        name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            && name.matches('_').count() > 1
    };
    quoted.filter(is_sentence).collect()
}

fn page() -> String {
    let mut docs = files("docs", "md");
    docs.remove(std::path::Path::new("docs/laws.md")).expect("docs/laws.md defines the laws")
}

#[test]
fn every_law_that_is_cited_is_defined() {
    let page = page();
    assert!(defined(&page).len() >= 23, "sections were lost: {:?}", defined(&page));
    let code = ["crates", "xtask"].into_iter().flat_map(|folder| files(folder, "rs"));
    let mut cited = 0;
    for (path, text) in code.chain(files("docs", "md")) {
        // The examples below are about laws that do not exist.
        if path.ends_with("layering/laws.rs") {
            continue;
        }
        cited += numbers(&text).len();
        let unknown = undefined(&page, &text);
        assert!(unknown.is_empty(), "{} cites {unknown:?}; see docs/laws.md", path.display());
    }
    assert!(cited > 100, "laws are cited all over the code, and only {cited} were found");
}

#[test]
fn a_law_that_nobody_wrote_down_is_found() {
    let page = "## Safety\n\n### S1 Concurrency\n\n### L4 Deletion\n";
    let text = "// laws S1 and S4, the law L4; not (S3), `S12`, S123, P256 or XS4";
    assert_eq!(undefined(page, text), BTreeSet::from(["S12", "S3", "S4"]));
}

#[test]
fn every_test_that_the_laws_name_exists() {
    let page = page();
    let named = named_tests(&page);
    assert!(named.len() > 20, "the page names its tests in backticks: {named:?}");
    let sources = files("crates", "rs");
    let lines = sources.values().flat_map(|text| text.lines());
    let functions = lines.filter_map(|line| line.split_once("fn ")?.1.split_once('('));
    let functions: BTreeSet<&str> = functions.map(|(name, _)| name).collect();
    let lost: Vec<&&str> = named.difference(&functions).collect();
    assert!(lost.is_empty(), "docs/laws.md names {lost:?}, which are no tests");
}
