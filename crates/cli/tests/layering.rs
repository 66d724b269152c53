//! The architecture as a test: which crate may depend on which, and how long files are.
//!
//! The arrows are those of `docs/ARCHITECTURE.md`. Reading the manifests, not the
//! code, is enough: without the dependency there is nothing to import.
//!
//! What manifests cannot say is in `invariants`, numbers of laws are in `laws`, tests that
//! checklists name are in `checklists`.

#[path = "layering/checklists.rs"]
mod checklists;
#[path = "layering/invariants.rs"]
mod invariants;
#[path = "layering/laws.rs"]
mod laws;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Each crate, and the crates of ours it may name in its manifest.
const ARROWS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("api", &["base"]),
    ("patch", &[]),
    ("metrics", &[]),
    ("files", &[]),
    ("rules", &["base", "api", "patch"]),
    ("explain", &["api", "rules"]),
    ("store", &["base", "files"]),
    ("schema", &["base", "patch"]),
    ("kinds", &["base", "patch"]),
    ("apiserver", &["base", "store", "patch", "metrics", "schema", "kinds"]),
    ("edge", &["base", "metrics", "files", "store", "apiserver"]),
    ("workloads", &["base", "store", "kinds", "apiserver"]),
    ("runtime", &["base", "api", "metrics"]),
    ("hub", &["base", "api", "rules", "runtime"]),
    ("member", &["base", "api", "rules", "runtime"]),
    ("console", &["api", "explain", "rules", "runtime"]),
    (
        "fleet",
        &[
            "api",
            "rules",
            "base",
            "store",
            "edge",
            "apiserver",
            "workloads",
            "runtime",
            "hub",
            "member",
        ],
    ),
    (
        "sim",
        &[
            "api",
            "rules",
            "base",
            "store",
            "edge",
            "apiserver",
            "workloads",
            "runtime",
            "hub",
            "member",
            "fleet",
        ],
    ),
    (
        "cli",
        &[
            "base",
            "api",
            "explain",
            "rules",
            "files",
            "store",
            "edge",
            "apiserver",
            "workloads",
            "runtime",
            "hub",
            "member",
            "console",
            "fleet",
            "sim",
        ],
    ),
];

/// Crates for tests and benchmarks, which nothing that ships may link.
const DEV_ONLY: &[&str] = &["sim"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every arrow that the table does not allow, as `from -> to`.
fn forbidden(manifests: &BTreeMap<String, String>) -> Vec<String> {
    let allowed: BTreeMap<&str, BTreeSet<&str>> =
        ARROWS.iter().map(|(from, to)| (*from, to.iter().copied().collect())).collect();
    let mut wrong = Vec::new();
    for (from, text) in manifests {
        let Some(allowed) = allowed.get(from.as_str()) else {
            wrong.push(format!("{from} is not in the table"));
            continue;
        };
        let manifest: toml::Table = text.parse().expect("cargo has read this manifest already");
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let Some(named) = manifest.get(section).and_then(toml::Value::as_table) else {
                continue;
            };
            for to in named.keys().filter_map(|name| name.strip_prefix("flagship-")) {
                // A crate may ask itself for a feature that its tests need.
                let ships = section != "dev-dependencies" && DEV_ONLY.contains(&to);
                if to != from && (ships || !allowed.contains(to)) {
                    wrong.push(format!("{from} -> {to} ({section})"));
                }
            }
        }
    }
    wrong
}

fn manifests() -> BTreeMap<String, String> {
    let crates = fs::read_dir(root().join("crates")).expect("the workspace has crates/");
    crates
        .map(|entry| entry.expect("a readable folder").path())
        .map(|path| {
            let name = path.file_name().expect("a named folder").to_string_lossy().into_owned();
            (name, fs::read_to_string(path.join("Cargo.toml")).expect("each crate has a manifest"))
        })
        .collect()
}

#[test]
fn crates_depend_only_along_the_arrows() {
    let manifests = manifests();
    assert_eq!(manifests.len(), ARROWS.len(), "a crate was added or lost: update the table");
    assert_eq!(forbidden(&manifests), Vec::<String>::new());
}

/// The code map names the same arrows as the table here.
#[test]
fn the_code_map_shows_these_arrows() {
    let page = fs::read_to_string(root().join("docs/ARCHITECTURE.md")).expect("the page is there");
    let quoted = |cell: &str| -> BTreeSet<String> {
        cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let rows = page.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let name = quoted(cells.next()?).pop_first()?;
        Some((name, quoted(cells.nth(1)?)))
    });
    let shown: BTreeMap<String, BTreeSet<String>> = rows.collect();
    for (from, to) in ARROWS {
        let to: BTreeSet<String> = to.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(shown.get(*from), Some(&to), "the row of {from} in docs/ARCHITECTURE.md");
    }
}

#[test]
fn a_wrong_arrow_is_found() {
    let text = "[dependencies]\nflagship-hub.workspace = true\n".to_owned();
    let manifests = BTreeMap::from([("member".to_owned(), text)]);
    assert_eq!(forbidden(&manifests), ["member -> hub (dependencies)"]);
}

/// `docs/where.md` is only worth something as long as its paths lead somewhere.
#[test]
fn every_path_of_the_newcomers_page_exists() {
    let page = fs::read_to_string(root().join("docs/where.md")).expect("the page is there");
    let quoted = page.split('`').skip(1).step_by(2);
    let paths: Vec<&str> =
        quoted.filter(|text| text.starts_with("crates/") || text.starts_with("docs/")).collect();
    assert!(paths.len() > 20, "the page names {} paths", paths.len());
    let lost: Vec<&&str> = paths.iter().filter(|path| !root().join(path).exists()).collect();
    assert_eq!(lost, Vec::<&&str>::new());
}

#[test]
fn a_shipped_crate_does_not_link_the_simulator() {
    let with = |section: &str| {
        let text = format!("[{section}]\nflagship-sim.workspace = true\n");
        forbidden(&BTreeMap::from([("cli".to_owned(), text)]))
    };
    assert_eq!(with("dependencies"), ["cli -> sim (dependencies)"]);
    assert_eq!(with("dev-dependencies"), Vec::<String>::new());
}

#[test]
fn file_lengths_are_printed() {
    let mut lengths: Vec<(usize, PathBuf)> = ["crates", "xtask"]
        .into_iter()
        .flat_map(|folder| files(folder, "rs"))
        .map(|(path, text)| (text.lines().count(), path))
        .collect();
    lengths.sort();
    assert!(!lengths.is_empty(), "no source file was found");
    let at = |share: usize| lengths[(lengths.len() - 1) * share / 100].0;
    let longest: Vec<String> = lengths
        .iter()
        .rev()
        .take(5)
        .map(|(lines, path)| format!("{lines} {}", path.display()))
        .collect();
    // Straight to stderr: the runner hides what `println!` writes in a passing test.
    let told = writeln!(
        std::io::stderr(),
        "{} source files: median {} lines, nine in ten under {}; longest: {}",
        lengths.len(),
        at(50),
        at(90),
        longest.join(", ")
    );
    told.expect("stderr is open");
}

/// Every file below a folder of the repository with this extension, by its path from the root.
fn files(folder: &str, extension: &str) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                let text = fs::read_to_string(&path).expect("source is UTF-8");
                let shown = path.strip_prefix(root()).unwrap_or(&path).to_path_buf();
                found.insert(shown, text);
            }
        }
    }
    found
}
