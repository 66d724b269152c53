//! The image that `scripts/image` writes, and the binary out of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::root;

const BINARY: &str = env!("CARGO_BIN_EXE_flagship");

/// A folder that goes with the test.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let name = format!("flagship-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// The binary of the tests is as large as its symbols, which nobody needs here.
pub fn stripped(into: &Path) -> PathBuf {
    let small = into.join("flagship");
    let strip = Command::new("strip").arg("-o").arg(&small).arg(BINARY).status();
    if !strip.is_ok_and(|strip| strip.success()) {
        std::fs::copy(BINARY, &small).unwrap();
    }
    small
}

fn image(arguments: &[&Path], dynamic: bool) -> Output {
    let mut script = Command::new(root().join("scripts/image"));
    script.args(arguments).env("FLAGSHIP_IMAGE_GZIP", "-1");
    if dynamic {
        script.env("FLAGSHIP_IMAGE_DYNAMIC", "yes");
    }
    script.output().unwrap()
}

fn blob(layout: &Path, of: &Value) -> PathBuf {
    layout.join("blobs").join(of["digest"].as_str().unwrap().replace(':', "/"))
}

fn read(file: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

#[test]
fn the_binary_runs_out_of_the_image() {
    let scratch = Scratch::new("oci");
    let (layout, unpacked) = (scratch.0.join("layout"), scratch.0.join("root"));
    let binary = stripped(&scratch.0);
    // This one wants a loader, as tests are not built to be shipped: said, unless one insists.
    let (flag, take) = (Path::new("--binary"), Path::new("--unpack"));
    let refused = image(&[&layout, flag, &binary], false);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    if !refused.status.success() {
        assert!(said.contains("is not static and would not start in the image"), "{said}");
        assert!(!layout.exists());
    }
    let written = image(&[&layout, flag, &binary], true);
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));

    let index = read(&layout.join("index.json"));
    let manifest = read(&blob(&layout, &index["manifests"][0]));
    let config = read(&blob(&layout, &manifest["config"]));
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["Entrypoint"], serde_json::json!(["/flagship"]));
    assert_eq!(config["os"], "linux");

    let opened = image(&[&layout, take, &unpacked], false);
    assert!(opened.status.success(), "{}", String::from_utf8_lossy(&opened.stderr));
    let answer = Command::new(unpacked.join("flagship")).arg("--version").env_clear().output();
    let answer = String::from_utf8(answer.unwrap().stdout).unwrap();
    assert!(answer.starts_with(concat!("flagship ", env!("CARGO_PKG_VERSION"))), "{answer}");

    // What was changed on the way is noticed.
    std::fs::write(blob(&layout, &manifest["config"]), "{}").unwrap();
    let opened = image(&[&layout, take, &unpacked], false);
    assert!(!opened.status.success());
    assert!(String::from_utf8_lossy(&opened.stderr).contains("is not what its name says"));
}
