//! A disk without room: writes are refused in plain words, reads go on, and when there is
//! room again so do writes.
//!
//! The disk is a small file system in memory. Mounting one takes rights; where the test
//! does not have them it says that it was skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::server::{MAPS, ask, counted, open};

/// A file system of a few mebibytes, gone when dropped.
struct Disk(PathBuf);

impl Disk {
    fn mount() -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("flagship-full-{}", std::process::id()));
        std::fs::create_dir_all(&folder).ok()?;
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"])
            .arg(&folder)
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(Self(folder))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("--lazy").arg(&self.0).status());
        drop(std::fs::remove_dir(&self.0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_writes_and_serves_reads() {
    let Some(disk) = Disk::mount() else {
        println!("skipped: mounting a small file system needs more rights than we have");
        return;
    };
    let filler = disk.path().join("filler");
    std::fs::write(&filler, vec![0; 4 << 20]).unwrap();
    let mut acknowledged = Vec::new();
    // As another process would find it: a copy, for this one keeps the file open.
    let copy = std::env::temp_dir().join(format!("flagship-full-copy-{}", std::process::id()));
    std::fs::create_dir_all(&copy).unwrap();
    {
        let (durable, cluster) = open(disk.path());
        let refused = loop {
            let name = format!("map-{}", acknowledged.len());
            let (code, said) = ask(&cluster, "POST", MAPS, &counted(&name, 1, 100_000)).await;
            if code != 201 {
                break (code, said);
            }
            acknowledged.push(name);
            assert!(acknowledged.len() < 200, "the disk never got full");
        };
        assert!(!acknowledged.is_empty());
        let (code, said) = refused;
        assert_eq!(said["kind"], "Status", "{said}");
        assert_eq!((code, said["status"].as_str()), (500, Some("Failure")), "{said}");
        let says = said["message"].as_str().unwrap();
        assert!(says.contains("could not be stored") && says.contains("No space left"), "{says}");
        for name in &acknowledged {
            let (code, _) = ask(&cluster, "GET", &format!("{MAPS}/{name}"), &Value::Null).await;
            assert_eq!(code, 200);
        }
        std::fs::remove_file(&filler).unwrap();
        // What waited for the disk is written first; then there is room for more.
        loop {
            let (code, _) = ask(&cluster, "POST", MAPS, &counted("after", 1, 10)).await;
            if code == 201 {
                break;
            }
            tokio::task::yield_now().await;
        }
        acknowledged.push("after".to_owned());
        durable.flush().unwrap();
        std::fs::copy(disk.path().join("state"), copy.join("state")).unwrap();
    }
    let (_durable, cluster) = open(&copy);
    for name in &acknowledged {
        let (code, _) = ask(&cluster, "GET", &format!("{MAPS}/{name}"), &Value::Null).await;
        assert_eq!(code, 200, "{name} was acknowledged");
    }
    std::fs::remove_dir_all(&copy).unwrap();
}
