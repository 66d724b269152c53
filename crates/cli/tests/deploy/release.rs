//! What `scripts/release` makes: everything a release has, and checksums that hold.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::image::{Scratch, stripped};
use super::{root, say};

#[test]
fn a_release_has_everything_and_says_what_went_in() {
    let scratch = Scratch::new("release");
    let mut release = Command::new(root().join("scripts/release"));
    release.arg(scratch.0.join("made")).arg("--binary").arg(stripped(&scratch.0));
    release.env("FLAGSHIP_IMAGE_GZIP", "-1").env("FLAGSHIP_IMAGE_DYNAMIC", "yes");
    check(&scratch, release);
}

/// The binary that is shipped wants no loader, and runs as a pod would run it: as nobody, with a root
/// that it cannot write to. FLAGSHIP_STATIC names one that is built already.
#[test]
#[ignore = "builds a static binary, and needs what scripts/image needs; scripts/nightly runs it"]
fn a_release_has_a_static_binary_that_runs_as_a_pod_would() {
    let scratch = Scratch::new("static");
    let mut release = Command::new(root().join("scripts/release"));
    release.arg(scratch.0.join("made"));
    if let Some(built) = std::env::var_os("FLAGSHIP_STATIC") {
        release.arg("--binary").arg(built);
    }
    let image = check(&scratch, release);
    let (layout, opened) = (scratch.0.join("layout"), scratch.0.join("root"));
    std::fs::create_dir(&layout).unwrap();
    let tar = Command::new("tar").arg("-xzf").arg(image).arg("-C").arg(&layout).status();
    assert!(tar.unwrap().success());
    let script = || Command::new(root().join("scripts/image"));
    assert!(script().arg(&layout).arg("--unpack").arg(&opened).status().unwrap().success());
    let run = |words: &[&str]| {
        let run = script().arg(&opened).arg("--run").args(words).stdin(Stdio::null()).output();
        let run = run.unwrap();
        String::from_utf8([run.stdout, run.stderr].concat()).unwrap()
    };
    let version = run(&["--version"]);
    assert!(version.starts_with(concat!("flagship ", env!("CARGO_PKG_VERSION"))), "{version}");
    let said = run(&["support-bundle", "/bundle", "--kubeconfig", "/nowhere"]);
    assert!(said.contains("/nowhere"), "{said}");
    let said = run(&["up", "--data-dir", "/data"]);
    assert!(said.contains("Read-only file system"), "{said}");
}

/// Makes a release, and holds every part of it against the others; where its image is.
fn check(scratch: &Scratch, mut release: Command) -> PathBuf {
    let (folder, unpacked) = (scratch.0.join("made"), scratch.0.join("unpacked"));
    let made = release.env("FLAGSHIP_RELEASE_URL", "https://example.com/v1").output().unwrap();
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
    let image = folder.join(one("-image-"));
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
    for part in parts {
        let url = part["purl"].as_str().unwrap();
        assert!(url.starts_with("pkg:cargo/") && url.contains('@'), "{part}");
        let ours = part["name"].as_str().unwrap().starts_with("flagship-");
        assert_eq!(part["hashes"].is_null(), ours, "{part}");
        assert!(!part["licenses"].is_null(), "{part}");
    }
    image
}
