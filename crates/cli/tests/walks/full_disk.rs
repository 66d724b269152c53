//! A disk without room: `doctor` and `up` say so, objects can be deleted, and `up` starts again
//! on it. What the store itself does then is tested beside it.
//!
//! The disk is a small file system in memory. Mounting one takes rights; where the test does
//! not have them it says that it was skipped.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::fleet::{HAS_KUBECTL, say};

const BINARY: &str = env!("CARGO_BIN_EXE_flagship");

/// A file system of some mebibytes, gone when dropped.
struct Disk(PathBuf);

impl Disk {
    fn mount() -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("flagship-up-full-{}", std::process::id()));
        std::fs::create_dir_all(&folder).ok()?;
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=32m", "tmpfs"])
            .arg(&folder)
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(Self(folder))
    }

    /// Leaves no byte.
    fn fill(&self) {
        let mut rest = File::create(self.0.join("rest")).unwrap();
        for size in [1 << 16, 1 << 12, 1] {
            while rest.write_all(&vec![0; size]).is_ok() {}
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("--lazy").arg(&self.0).status());
        drop(std::fs::remove_dir(&self.0));
    }
}

/// Starts a fleet on a disk and waits for its greeting; what it warns of goes to a file.
fn start(disk: &Path, warnings: &Path) -> Child {
    let mut process = Command::new(BINARY)
        .args(["up", "--port", "0", "--members", "1", "--data-dir"])
        .arg(disk.join("fleet"))
        .stdout(Stdio::piped())
        .stderr(File::create(warnings).unwrap())
        .spawn()
        .unwrap();
    let greeting = BufReader::new(process.stdout.take().unwrap());
    let greeted = greeting.lines().map(Result::unwrap).any(|line| line == "Try:");
    let told = std::fs::read_to_string(warnings).unwrap();
    assert!(greeted, "the fleet ended before it greeted: {told}");
    process
}

/// Writes until the server says that nothing new is stored: room that was free inside the file
/// is used up first.
fn until_full(write: impl Fn(usize) -> (bool, String)) {
    let mut told = String::new();
    for at in 0..200 {
        let (written, says) = write(at);
        if !written && says.contains("is full") {
            return;
        }
        told = says;
    }
    panic!("something new is stored for ever: {told}");
}

#[test]
fn a_fleet_on_a_full_disk_says_so_and_starts_again() {
    let Some(disk) = Disk::mount() else {
        say("skipped: mounting a small file system needs more rights than we have");
        return;
    };
    let warnings =
        std::env::temp_dir().join(format!("flagship-up-full-{}.txt", std::process::id()));
    let mut fleet = start(&disk.0, &warnings);
    let doctor = || {
        let kubeconfig = disk.0.join("fleet/kubeconfig");
        let output = Command::new(BINARY).arg("doctor").env("KUBECONFIG", kubeconfig).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let kubectl = |arguments: &str| {
        let output = Command::new("kubectl")
            .args(["--context", "hub"])
            .args(arguments.split_whitespace())
            .env("KUBECONFIG", disk.0.join("fleet/kubeconfig"))
            .output()
            .unwrap();
        let told = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(told).unwrap())
    };
    assert!(!doctor().contains("is full"));
    if *HAS_KUBECTL {
        for name in ["before", "between"] {
            let (made, told) = kubectl(&format!("create configmap {name} --from-literal=k=v"));
            assert!(made, "{told}");
        }
    }
    let log = std::fs::read_to_string(disk.0.join("fleet/flagship.log")).unwrap();
    assert!(!log.is_empty());
    disk.fill();
    // Ended as by a power cut, and started again on what is left: what was held in reserve.
    for name in ["before", "between"] {
        if *HAS_KUBECTL {
            let large = "v".repeat(100_000);
            until_full(|at| {
                kubectl(&format!("create configmap after-{name}-{at} --from-literal=k={large}"))
            });
            let (deleted, told) = kubectl(&format!("delete configmap {name}"));
            assert!(deleted, "{told}");
        }
        let told = doctor();
        assert!(told.contains("the API server is not ready: etcd-readiness failed"), "{told}");
        assert!(told.contains("data.redb is full"), "{told}");
        assert!(told.contains("fix: make room on that disk"), "{told}");
        fleet.kill().unwrap();
        fleet.wait().unwrap();
        fleet = start(&disk.0, &warnings);
    }
    let told = std::fs::read_to_string(&warnings).unwrap();
    assert!(told.contains("warning: the disk of "), "{told}");
    fleet.kill().unwrap();
    fleet.wait().unwrap();
    std::fs::remove_file(&warnings).unwrap();
}
