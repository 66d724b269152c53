//! The folder a fleet lives in: who holds it, and where things are.
//!
//! The lock is the operating system's and ends with the process, however it ends; the
//! process id beside it is only for those who want to say or stop who it is.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

const LOCK: &str = "lock";

/// A folder that no other process has.
pub struct Folder {
    path: PathBuf,
    /// Held as long as the folder is.
    _lock: File,
}

impl Folder {
    /// Takes the folder, making it if it is not there.
    pub fn take(path: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(path)
            .with_context(|| format!("cannot keep anything in {}", path.display()))?;
        let mut lock = open_lock(path)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!(
                "a fleet already runs in {} (pid {}). Stop it with `flagship down`, or choose another --data-dir and --port.",
                path.display(),
                pid_in(&mut lock).unwrap_or_else(|| "unknown".to_owned())
            ),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        lock.set_len(0)?;
        lock.rewind()?;
        write!(lock, "{}", std::process::id())?;
        lock.sync_data()?;
        // Keys and data of the fleet are nobody's to commit.
        fs::write(path.join(".gitignore"), "*\n")
            .with_context(|| format!("cannot write in {}", path.display()))?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// Where the kubeconfig is.
    pub fn kubeconfig(&self) -> PathBuf {
        self.path.join("kubeconfig")
    }

    /// The file with everything the API servers keep.
    pub fn data(&self) -> PathBuf {
        self.path.join("data.redb")
    }

    /// Where certificates are.
    pub fn certificates(&self) -> PathBuf {
        self.path.join("pki")
    }
}

fn open_lock(path: &Path) -> anyhow::Result<File> {
    let file = path.join(LOCK);
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&file)
        .with_context(|| format!("cannot write {}", file.display()))
}

fn pid_in(lock: &mut File) -> Option<String> {
    let mut text = String::new();
    lock.rewind().ok()?;
    lock.read_to_string(&mut text).ok()?;
    let pid = text.trim();
    pid.parse::<u32>().ok().map(|pid| pid.to_string())
}

/// Asks whoever holds the folder to stop and waits until it has let go. Who it was.
pub fn stop_other(path: &Path) -> anyhow::Result<Option<String>> {
    if !path.join(LOCK).is_file() {
        return Ok(None);
    }
    let mut lock = open_lock(path)?;
    if lock.try_lock().is_ok() {
        return Ok(None);
    }
    let pid = pid_in(&mut lock).context("whoever holds the folder has not said who it is")?;
    let told = Command::new("kill").args(["-TERM", &pid]).status().context("cannot run kill")?;
    if !told.success() {
        bail!("process {pid} could not be told to stop");
    }
    // Free when the process has ended, however long its last passes take.
    lock.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(Some(pid))
}

/// Removes everything a fleet kept. Refused while one runs there.
pub fn clear(path: &Path) -> anyhow::Result<bool> {
    if !path.exists() {
        return Ok(false);
    }
    if !path.join(LOCK).is_file() {
        bail!("{} is not a folder of a fleet; nothing was removed", path.display());
    }
    drop(Folder::take(path)?);
    fs::remove_dir_all(path).with_context(|| format!("cannot remove {}", path.display()))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("flagship-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        path
    }

    #[test]
    fn a_folder_has_one_holder() {
        let path = scratch("holder");
        let first = Folder::take(&path).unwrap();
        let refusal = Folder::take(&path).err().unwrap().to_string();
        let expected =
            format!("a fleet already runs in {} (pid {})", path.display(), std::process::id());
        assert!(refusal.starts_with(&expected), "{refusal}");
        drop(first);
        Folder::take(&path).unwrap();
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn nothing_is_stopped_where_nothing_runs() {
        let path = scratch("nothing");
        assert_eq!(stop_other(&path).unwrap(), None);
        drop(Folder::take(&path).unwrap());
        assert_eq!(stop_other(&path).unwrap(), None);
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn only_a_fleets_folder_is_cleared_and_only_when_nobody_has_it() {
        let path = scratch("clear");
        assert!(!clear(&path).unwrap());
        fs::create_dir_all(&path).unwrap();
        assert!(clear(&path).is_err());
        let holder = Folder::take(&path).unwrap();
        assert!(clear(&path).is_err());
        drop(holder);
        assert!(clear(&path).unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let path = scratch("file");
        fs::write(&path, "").unwrap();
        let refusal = Folder::take(&path).err().unwrap().to_string();
        assert_eq!(refusal, format!("cannot keep anything in {}", path.display()));
        fs::remove_file(&path).unwrap();
    }
}
