//! A disk without room: what is new is refused in plain words, reads and deletions go on, a
//! restart works, and when there is room again so do writes.
//!
//! The disk is a small file system in memory. Mounting one takes rights; where the test
//! does not have them it says that it was skipped.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use flagship_apiserver::rest::ClusterHandle;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tower::Service;

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
async fn a_full_disk_refuses_what_is_new_and_lets_objects_be_read_and_deleted() {
    let Some(disk) = Disk::mount() else {
        println!("skipped: mounting a small file system needs more rights than we have");
        return;
    };
    let filler = disk.path().join("filler");
    std::fs::write(&filler, vec![0; 4 << 20]).unwrap();
    let mut acknowledged = Vec::new();
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
    assert!(acknowledged.len() > 5, "{acknowledged:?}");
    let (code, said) = refused;
    assert_eq!(said["kind"], "Status", "{said}");
    assert_eq!((code, said["status"].as_str()), (500, Some("Failure")), "{said}");
    let says = said["message"].as_str().unwrap();
    assert!(says.contains("could not be stored") && says.contains("is full"), "{says}");
    assert!(says.contains("Deleting objects still works"), "{says}");
    fill(disk.path());
    for name in &acknowledged {
        let (code, _) = ask(&cluster, "GET", &format!("{MAPS}/{name}"), &Value::Null).await;
        assert_eq!(code, 200);
    }
    let told = ready(&cluster).await;
    assert!(told.contains("[-]etcd-readiness failed: the disk of "), "{told}");

    let path = format!("{MAPS}/{}", acknowledged.remove(0));
    assert_eq!(ask(&cluster, "DELETE", &path, &Value::Null).await.0, 200);
    assert_eq!(ask(&cluster, "GET", &path, &Value::Null).await.0, 404);
    durable.close().unwrap();
    drop(cluster);

    // Another process finds the disk as full as it is.
    let (durable, cluster) = open(disk.path());
    for name in &acknowledged {
        let (code, _) = ask(&cluster, "GET", &format!("{MAPS}/{name}"), &Value::Null).await;
        assert_eq!(code, 200, "{name} was acknowledged");
    }
    let before = durable.size();
    for name in acknowledged.drain(2..) {
        let path = format!("{MAPS}/{name}");
        let (code, said) = ask(&cluster, "DELETE", &path, &Value::Null).await;
        assert_eq!(code, 200, "{said}");
    }
    durable.flush().unwrap();
    assert!(durable.size() < before, "{} bytes, and {before} before", durable.size());

    std::fs::remove_file(disk.path().join("rest")).unwrap();
    std::fs::remove_file(&filler).unwrap();
    // The disk is looked at again with the next change, at the latest.
    let gone = format!("{MAPS}/{}", acknowledged.remove(0));
    assert_eq!(ask(&cluster, "DELETE", &gone, &Value::Null).await.0, 200);
    durable.flush().unwrap();
    let (code, said) = ask(&cluster, "POST", MAPS, &counted("after", 1, 100_000)).await;
    assert_eq!(code, 201, "{said}");
    assert!(ready(&cluster).await.contains("[+]etcd-readiness ok"));
}

/// Leaves no byte on a disk.
fn fill(disk: &Path) {
    let mut rest = std::fs::File::create(disk.join("rest")).unwrap();
    for size in [1 << 16, 1 << 12, 1] {
        while rest.write_all(&vec![0; size]).is_ok() {}
    }
}

async fn ready(cluster: &ClusterHandle) -> String {
    let request = Request::get("/readyz?verbose").body(Full::<Bytes>::default()).unwrap();
    let body = cluster.clone().call(request).await.unwrap().into_body();
    String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
}
