//! Which `kubectl` to run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// Versions whose words the stories know.
const KNOWN: std::ops::RangeInclusive<u32> = 31..=34;

/// The binary, or why there is none.
pub static KUBECTL: LazyLock<Result<PathBuf, String>> = LazyLock::new(find);

fn find() -> Result<PathBuf, String> {
    let named = std::env::var_os("KUBECTL").map(PathBuf::from);
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/kubectl/kubectl");
    let path = match named {
        Some(named) => named,
        None if built.is_file() => built,
        None => {
            let folders = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&folders)
                .map(|folder| folder.join("kubectl"))
                .find(|path| path.is_file())
                .ok_or("no kubectl on the PATH; scripts/kubectl builds one")?
        }
    };
    let output = Command::new(&path)
        .args(["version", "--client", "--output=json"])
        .output()
        .map_err(|why| format!("{} does not run: {why}", path.display()))?;
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let minor = answer["clientVersion"]["minor"].as_str().unwrap_or_default();
    let minor: u32 = minor.trim_end_matches('+').parse().unwrap_or_default();
    if !KNOWN.contains(&minor) {
        return Err(format!(
            "{} is version 1.{minor}, and the stories know 1.{} to 1.{}",
            path.display(),
            KNOWN.start(),
            KNOWN.end()
        ));
    }
    Ok(path)
}
