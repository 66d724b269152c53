//! A fleet of a careful person: what others wrote does not reach the terminal raw, what is kept
//! is encrypted and its owner's alone, it is logged who did what, and a kubeconfig keeps what
//! else is in it.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use super::fleet::Fleet;

const FLAGS: &[&str] = &[
    "--members",
    "0",
    "--kubeconfig",
    "own.yaml",
    "--audit-log-path",
    "logs/audit.log",
    "--encryption-key-file",
    "keys",
];

#[test]
fn a_careful_person_finds_nothing_of_theirs_with_others() {
    let fleet = Fleet::prepared("careful", FLAGS, |folder| {
        std::fs::write(folder.join("keys"), format!("{}=\n", "A".repeat(43))).unwrap();
        let other = r#"{"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [],
            "contexts": [{"name": "prod", "context": {"cluster": "prod", "user": "me"}}]}"#;
        std::fs::write(folder.join("own.yaml"), other).unwrap();
    });
    let path = |name: &str| fleet.folder().join(name);
    let contexts = std::fs::read_to_string(path("own.yaml")).unwrap();
    assert!(contexts.contains("name: prod") && contexts.contains("name: hub"), "{contexts}");

    // Names of objects may not be written like this; reasons and files may.
    let reason = "\u{1b}[2Jgone\u{202e}dne";
    let shown = "\\u001b[2Jgone\\u202edne";
    std::fs::write(path("reason"), reason).unwrap();
    let line = |line: &str| {
        let answer = fleet.line(&format!("export KUBECONFIG=own.yaml; {line}"));
        let said = [answer.stdout, answer.stderr].concat();
        String::from_utf8(said).unwrap()
    };
    let frozen = line("flagship freeze \"$(cat reason)\" --name held");
    assert!(frozen.starts_with("held is in force"), "{frozen}");
    let copy = "flagship backup --kubeconfig own.yaml --encryption-key-file keys \"$(cat reason)\"";
    let (copied, wrong) = (line(copy), line(copy));
    for said in [&copied, &wrong] {
        let obeyed = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
        assert!(!said.contains(obeyed) && !said.contains('\u{202e}'), "{said:?}");
    }
    assert!(copied.starts_with(&format!("{shown}: ")), "{copied}");
    assert!(wrong.starts_with(&format!("error: {shown} is there already")), "{wrong}");

    let log = std::fs::read_to_string(path("logs/audit.log")).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let made = lines.filter(|line| line["objectRef"]["resource"] == "freezes");
    let made: Vec<Value> = made.filter(|line| line["verb"] == "create").collect();
    assert_eq!(made.len(), 1, "{log}");
    assert_eq!(made[0]["user"]["username"], "flagship-admin");
    assert_eq!(made[0]["annotations"]["flagship.dev/cluster"], "hub");

    let stored = std::fs::read(path(".flagship/data.redb")).unwrap();
    assert!(!stored.windows(4).any(|window| window == b"gone"), "it is not encrypted");
    for (name, mode) in [(".flagship", 0o700), (".flagship/data.redb", 0o600), ("own.yaml", 0o600)]
    {
        let found = std::fs::metadata(path(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{name} is {found:o}");
    }

    assert!(line("flagship down").starts_with("stopped the fleet"));
    let closed = line("flagship rotate-keys");
    assert!(closed.contains("Pass the file that holds this key as --encryption-key-file"));
    let rotated = line("flagship rotate-keys --encryption-key-file keys");
    assert!(rotated.starts_with("hub: "), "{rotated}");
    let others = line("flagship reset --data-dir .");
    assert!(others.contains("is not a folder of a fleet"), "{others}");
    assert!(path("own.yaml").exists());
    assert_eq!(line("flagship reset"), "removed .flagship\n");
}
