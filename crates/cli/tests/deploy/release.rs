//! What `scripts/release` makes: everything a release has, and checksums that hold.

use std::process::Command;

use serde_json::Value;

use super::image::{Scratch, stripped};
use super::{root, say};

#[test]
fn a_release_has_everything_and_says_what_went_in() {
    let scratch = Scratch::new("release");
    let (folder, unpacked) = (scratch.0.join("made"), scratch.0.join("unpacked"));
    let made = Command::new(root().join("scripts/release"))
        .arg(&folder)
        .arg("--binary")
        .arg(stripped(&scratch.0))
        .env("FLAGSHIP_IMAGE_GZIP", "-1")
        .env("FLAGSHIP_IMAGE_DYNAMIC", "yes")
        .env("FLAGSHIP_RELEASE_URL", "https://example.com/v1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(made.status.success(), "{said}");
    let sums = Command::new("sha256sum").args(["-c", "SHA256SUMS"]).current_dir(&folder).output();
    assert!(sums.unwrap().status.success());

    let names = std::fs::read_dir(&folder).unwrap();
    let names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let one = |part: &str| -> &String {
        let mut found = names.iter().filter(|name| name.contains(part));
        let first = found.next();
        first.filter(|_| found.next().is_none()).unwrap_or_else(|| panic!("{part}: {names:?}"))
    };
    one("-image-");
    match said.contains("no charts") {
        true => say("release: without charts, for there is no helm"),
        false => drop((one("hub-agent-"), one("member-agent-"))),
    }

    let archive = one("-linux-");
    std::fs::create_dir(&unpacked).unwrap();
    let tar =
        Command::new("tar").arg("-xzf").arg(folder.join(archive)).arg("-C").arg(&unpacked).status();
    assert!(tar.unwrap().success());
    let answer = Command::new(unpacked.join("flagship")).arg("--version").output().unwrap();
    let answer = String::from_utf8(answer.stdout).unwrap();
    assert!(answer.starts_with(concat!("flagship ", env!("CARGO_PKG_VERSION"))), "{answer}");
    assert!(unpacked.join("LICENSE").is_file());

    let plugin = std::fs::read_to_string(folder.join("fleet.yaml")).unwrap();
    let plugin: Value = serde_saphyr::from_str(&plugin).unwrap();
    let platform = &plugin["spec"]["platforms"][0];
    assert_eq!(platform["uri"], format!("https://example.com/v1/{archive}"));
    let sums = std::fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    let sum = sums.lines().find(|line| line.ends_with(archive)).unwrap();
    assert_eq!(platform["sha256"], sum.split(' ').next().unwrap());

    let list = std::fs::read_to_string(folder.join(one(".cdx.json"))).unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let parts = list["components"].as_array().unwrap();
    let part = |name: &str| parts.iter().find(|part| part["name"] == name).unwrap();
    let tokio = part("tokio");
    assert_eq!(tokio["licenses"][0]["expression"], "MIT");
    assert_eq!(tokio["hashes"][0]["content"].as_str().unwrap().len(), 64);
    assert!(part("flagship-rules")["hashes"].is_null(), "it is our own");
    assert!(parts.len() > 100, "{} parts", parts.len());
}
