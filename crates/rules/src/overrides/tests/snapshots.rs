//! Overrides and their numbered copies.

use crate::overrides::snapshots::{Action, Observed, Snapshot, plan};

/// An override `web` with these snapshots, told as `index hash [latest]`.
fn seen(hash: &str, snapshots: &[&str]) -> Observed {
    let read = |told: &&str| {
        let words: Vec<&str> = told.split(' ').collect();
        Snapshot {
            name: format!("web-{}", words[0]),
            index: Some(words[0].to_owned()),
            latest: words.contains(&"latest"),
            hash: words[1].to_owned(),
        }
    };
    Observed {
        name: "web".into(),
        deleting: false,
        has_finalizer: true,
        hash: hash.into(),
        snapshots: snapshots.iter().map(read).collect(),
        in_use: Default::default(),
    }
}

fn told(seen: &Observed) -> Vec<String> {
    let actions = plan(seen).unwrap();
    let say = |action: Action| match action {
        Action::AddFinalizer => "add finalizer".to_owned(),
        Action::Create { name, index, hash } => format!("create {name} as {index} of {hash}"),
        Action::Mark { name, latest } => format!("{name} latest={latest}"),
        Action::Delete { name } => format!("delete {name}"),
        Action::DeleteAll => "delete all".to_owned(),
        Action::RemoveFinalizer => "remove finalizer".to_owned(),
    };
    actions.into_iter().map(say).collect()
}

// checklist 12 overrides: create → snapshot -0 latest; update → -1 latest and -0 false; no
// change → no new snapshot; latest label repaired. Ours (11.2 #8): create first, then flip.
#[test]
fn a_changed_override_is_a_new_snapshot_before_the_old_one_steps_down() {
    let mut fresh = seen("a", &[]);
    fresh.has_finalizer = false;
    assert_eq!(told(&fresh), ["add finalizer", "create web-0 as 0 of a"]);
    assert_eq!(told(&seen("a", &["0 a latest"])), [""; 0]);
    assert_eq!(told(&seen("b", &["0 a latest"])), ["create web-1 as 1 of b", "web-0 latest=false"]);
    assert_eq!(told(&seen("a", &["0 a"])), ["web-0 latest=true"]);
    // The pass that created it ended there.
    assert_eq!(told(&seen("b", &["1 b latest", "0 a latest"])), ["web-0 latest=false"]);
    // The way back is a new snapshot, too.
    assert_eq!(
        told(&seen("a", &["1 b latest", "0 a"])),
        ["create web-2 as 2 of a", "web-1 latest=false"]
    );
    // By number, not by name.
    assert_eq!(
        told(&seen("c", &["10 b latest", "9 a"])),
        ["create web-11 as 11 of c", "web-10 latest=false"]
    );
}

fn history(count: usize) -> Vec<String> {
    let newest = count - 1;
    (0..count)
        .map(|n| if n == newest { format!("{n} h latest") } else { format!("{n} x") })
        .collect()
}

// checklist 12 overrides: trim at and above 10.
#[test]
fn nine_are_kept_before_a_new_one_comes() {
    let after = |hash: &str, count: usize| {
        let history = history(count);
        told(&seen(hash, &history.iter().map(String::as_str).collect::<Vec<_>>()))
    };
    assert_eq!(after("h", 9), [""; 0]);
    assert_eq!(after("h", 10), ["delete web-0"]);
    assert_eq!(after("h", 12), ["delete web-0", "delete web-1", "delete web-2"]);
    assert_eq!(
        after("new", 10),
        ["create web-10 as 10 of new", "web-9 latest=false", "delete web-0"]
    );
}

// ours (11.2 #10): never trim a snapshot referenced by a live binding.
#[test]
fn what_a_cluster_still_has_is_kept() {
    let history = history(12);
    let mut seen = seen("h", &history.iter().map(String::as_str).collect::<Vec<_>>());
    seen.in_use = ["web-1".to_owned(), "web-11".to_owned()].into();
    assert_eq!(told(&seen), ["delete web-0", "delete web-2"]);
}

// checklist 12 overrides: invalid index label errors.
#[test]
fn an_index_nobody_can_read_is_an_error() {
    for (index, why) in [
        (None, "it is missing"),
        (Some("x"), "strconv.Atoi: parsing \"x\": invalid syntax"),
        (Some("-1"), "must not be negative"),
    ] {
        let mut seen = seen("h", &["0 h latest"]);
        seen.snapshots[0].index = index.map(str::to_owned);
        let trouble = plan(&seen).unwrap_err().to_string();
        assert!(trouble.starts_with("unexpected behavior"), "{trouble}");
        assert!(
            trouble.contains("override snapshot web-0 has a bad override-index: "),
            "{trouble}"
        );
        if index != Some("-1") {
            assert!(trouble.ends_with(why), "{trouble}");
        }
    }
}

// checklist 12 overrides: deletion removes all snapshots and the finalizer; no finalizer →
// no action.
#[test]
fn a_deleted_override_takes_its_snapshots_along() {
    let mut going = seen("h", &["0 h latest"]);
    going.snapshots[0].index = None;
    going.deleting = true;
    assert_eq!(told(&going), ["delete all", "remove finalizer"]);
    going.has_finalizer = false;
    assert_eq!(told(&going), [""; 0]);
}
