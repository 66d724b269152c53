//! `docs/kubectl.md` says which story shows which command; here that is held to.

use std::collections::BTreeSet;
use std::path::PathBuf;

fn page() -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/kubectl.md");
    std::fs::read_to_string(path).unwrap()
}

/// The commands of a story, without their input and what they printed.
fn commands(story: &str) -> Vec<String> {
    let path = format!("tests/clients/kubectl/{story}.txt");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{story}: {why}"));
    text.lines().filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned).collect()
}

/// What stands in backquotes.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Whether a line runs a command: all its words, in order, each perhaps with a value.
fn runs(line: &str, command: &str) -> bool {
    let line = line.replace(['\'', '"'], " ");
    let mut words = line.split_whitespace().skip_while(|word| !word.ends_with("kubectl")).skip(1);
    command.split_whitespace().all(|wanted| {
        words.any(|word| {
            word == wanted || word.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('='))
        })
    })
}

#[test]
fn every_command_of_the_page_is_in_the_stories_it_names() {
    let page = page();
    let mut told = BTreeSet::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [commands_of_row, builtin, fleet] = cells.as_slice() else {
            panic!("three cells: {row}")
        };
        for command in quoted(commands_of_row) {
            for cell in [builtin, fleet] {
                let stories = quoted(cell);
                assert!(!stories.is_empty() || cell.trim().len() > 3, "a story or why not: {row}");
                let shown = stories.iter().any(|story| {
                    told.insert((*story).to_owned());
                    commands(story).iter().any(|line| runs(line, command))
                });
                assert!(shown || stories.is_empty(), "no story of {cell:?} runs {command:?}");
            }
        }
    }
    assert!(told.len() > 10, "the table was not read: {told:?}");
}

#[test]
fn a_command_is_known_by_its_words() {
    assert!(runs("kubectl get crp web -o yaml", "get -o yaml"));
    assert!(runs("KUBE_EDITOR=true kubectl edit configmap a", "edit"));
    assert!(runs("kubectl wait a --for=delete --timeout=1s", "wait --for"));
    assert!(!runs("kubectl apply -f -", "apply --server-side"));
    assert!(!runs("kubectl getx", "get"));
}
