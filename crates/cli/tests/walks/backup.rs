//! A fleet is copied while it runs, and goes on from the copy elsewhere.

use std::process::Output;

use super::fleet::Fleet;

fn said(answer: &Output) -> String {
    let all = [answer.stdout.as_slice(), answer.stderr.as_slice()].concat();
    String::from_utf8(all).unwrap()
}

#[test]
fn a_fleet_that_runs_is_copied_and_goes_on_elsewhere() {
    let fleet = Fleet::new("backup", &["--members", "1", "--labels", "member1=colour=blue"]);
    let done = |line: &str| {
        let answer = fleet.line(line);
        assert!(answer.status.success(), "{line}: {}", said(&answer));
        said(&answer)
    };
    let made = done("flagship backup saved.redb");
    assert!(made.starts_with("saved.redb: ") && made.contains(" of 2 cluster(s)\n"), "{made}");
    let left = done("ls .flagship");
    assert!(!left.contains("backup"), "{left}");
    let again = fleet.line("flagship backup saved.redb");
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(said(&again), "error: saved.redb is there already; choose another file\n");

    let restored = done("flagship restore saved.redb --data-dir elsewhere");
    assert_eq!(restored, "elsewhere/data.redb is a copy of saved.redb now\n");
    {
        let _elsewhere = fleet.beside(&["--data-dir", "elsewhere", "--members", "1"]);
        let clusters = done("flagship clusters --kubeconfig elsewhere/kubeconfig -o json");
        assert!(clusters.contains("\"colour\": \"blue\""), "{clusters}");
    }
    // Nothing runs there any more, so the file is copied as it lies.
    let made = done("flagship backup later.redb --data-dir elsewhere");
    assert!(made.contains(" of 2 cluster(s)\n"), "{made}");
    let nothing = fleet.line("flagship backup x.redb --data-dir nowhere");
    assert_eq!(said(&nothing), "error: no fleet is kept in nowhere\n");
}
