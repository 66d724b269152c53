//! The folder a fleet lives in: who holds it, and where things are.
//!
//! The lock is the operating system's and ends with the process, however it ends; the
//! process id beside it is only for those who want to say or stop who it is.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, bail};
use flagship_files as files;
use flagship_store::durable::release_reserve;

use super::log;

const LOCK: &str = "lock";
const IGNORED: &str = ".gitignore";
const DATA: &str = "data.redb";
const KUBECONFIG: &str = "kubeconfig";
const CERTIFICATES: &str = "pki";
const MARK: &str = "data.redb.mark";
const CONSOLE_KEY: &str = "console.key";
/// Says that the folder and everything in it is ours to remove.
const MARKER: &str = "flagship.folder";
const MARKER_TEXT: &[u8] =
    b"A fleet of `flagship up` is kept here. `flagship reset` removes this folder.\n";
const RESERVE: &str = "data.redb.reserve";
/// Everything a fleet keeps, by name.
const OURS: [&str; 12] = [
    LOCK,
    IGNORED,
    MARKER,
    DATA,
    MARK,
    RESERVE,
    KUBECONFIG,
    CERTIFICATES,
    CONSOLE_KEY,
    log::NAMES[0],
    log::NAMES[1],
    log::NAMES[2],
];

/// A folder that no other process has.
pub struct Folder {
    path: PathBuf,
    /// What other people of this machine could read until now.
    pub was_shared: Vec<PathBuf>,
    /// Held as long as the folder is.
    _lock: File,
}

impl Folder {
    /// Takes the folder, making it if it is not there, and keeps everybody else out of it.
    pub fn take(path: &Path) -> anyhow::Result<Self> {
        refuse_others_folder(path)?;
        files::make_folder(path)
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
        let was_shared = make_private(path)?;
        with_reserve(path, || {
            lock.set_len(0)?;
            lock.rewind()?;
            write!(lock, "{}", std::process::id())?;
            lock.sync_data()
        })
        .with_context(|| format!("cannot write in {}", path.display()))?;
        // Keys and data of the fleet are nobody's to commit.
        for (name, text) in [(IGNORED, &b"*\n"[..]), (MARKER, MARKER_TEXT)] {
            let file = path.join(name);
            let known = files::read(&file).ok().flatten();
            if known.is_some_and(|known| known.as_bytes() == text) {
                continue;
            }
            with_reserve(path, || files::replace(&file, text))
                .with_context(|| format!("cannot write in {}", path.display()))?;
        }
        Ok(Self { path: path.to_owned(), was_shared, _lock: lock })
    }

    /// Takes a folder that a fleet has used before.
    pub fn take_existing(path: &Path) -> anyhow::Result<Self> {
        if !path.join(LOCK).is_file() {
            bail!("no fleet is kept in {}", path.display());
        }
        Self::take(path)
    }

    /// Refuses to begin an empty fleet where keys say that there was another.
    pub fn refuse_lost_store(&self) -> anyhow::Result<()> {
        let size = fs::symlink_metadata(self.data()).map(|found| found.len());
        if size.as_ref().is_ok_and(|size| *size > 0) {
            return Ok(());
        }
        let keys = fs::read_dir(self.certificates()).is_ok_and(|mut found| found.next().is_some());
        let was_used = match keys {
            true => Some(format!("{} holds the keys of a fleet", self.certificates().display())),
            false => {
                let mark = self.path.join(MARK);
                mark.exists().then(|| format!("{} says what was stored", mark.display()))
            }
        };
        if let Some(sign) = was_used {
            bail!(
                "{} is {}, but {sign}. Put a copy of the store in place with `flagship restore FILE`, or begin anew with `flagship reset`.",
                self.data().display(),
                if size.is_ok() { "empty" } else { "missing" },
            );
        }
        // Left by one that was stopped while it began: nothing was ever in it.
        files::remove_if_there(&self.data())
            .with_context(|| format!("cannot use {}", self.data().display()))
    }

    /// Where copies of the store wait for whoever asked for them: `data.redb.backup.1`, …
    pub fn copies(&self) -> Copies {
        let copies = Copies { folder: self.path.clone(), made: AtomicU32::new(0) };
        copies.remove_all();
        copies
    }

    /// Where the kubeconfig is.
    pub fn kubeconfig(&self) -> PathBuf {
        self.path.join(KUBECONFIG)
    }

    /// The file with everything the API servers keep.
    pub fn data(&self) -> PathBuf {
        self.path.join(DATA)
    }

    /// The file with the key of the console's link.
    pub fn console_key(&self) -> PathBuf {
        self.path.join(CONSOLE_KEY)
    }

    /// Where certificates are.
    pub fn certificates(&self) -> PathBuf {
        self.path.join(CERTIFICATES)
    }
}

/// Names for copies of the store, each used once.
pub struct Copies {
    folder: PathBuf,
    made: AtomicU32,
}

/// What their names begin with.
const COPY: &str = "data.redb.backup.";

impl Copies {
    /// A name that nobody has.
    pub fn next(&self) -> PathBuf {
        self.folder.join(format!("{COPY}{}", self.made.fetch_add(1, Ordering::Relaxed) + 1))
    }

    /// Removes those that nobody fetched.
    fn remove_all(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(COPY) {
                drop(files::remove_if_there(&entry.path()));
            }
        }
    }
}

/// The place of a copy in a folder, by the name that the fleet there said.
pub fn copy_in(folder: &Path, name: &str) -> Option<PathBuf> {
    let is_number = |end: &str| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit());
    name.strip_prefix(COPY).is_some_and(is_number).then(|| folder.join(name))
}

/// The kubeconfig that a fleet writes to its folder unless told otherwise.
pub fn kubeconfig_in(folder: &Path) -> PathBuf {
    folder.join(KUBECONFIG)
}

/// Whether a fleet runs in a folder, as far as one was ever there.
pub fn is_running(path: &Path) -> anyhow::Result<bool> {
    if !path.join(LOCK).is_file() {
        bail!("no fleet is kept in {}", path.display());
    }
    Ok(matches!(open_lock(path)?.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Writes something small; on a full disk with what the store holds in reserve.
fn with_reserve(path: &Path, mut write: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    match write() {
        Err(why) if why.kind() == ErrorKind::StorageFull && release_reserve(&path.join(DATA)) => {
            tracing::warn!("the disk of {} is full", path.display());
            write()
        }
        written => written,
    }
}

fn open_lock(path: &Path) -> anyhow::Result<File> {
    let file = path.join(LOCK);
    files::open_or_make(&file).with_context(|| format!("cannot write {}", file.display()))
}

/// A folder with other things in it is somebody's: it must not be closed to everybody else.
fn refuse_others_folder(path: &Path) -> anyhow::Result<()> {
    let Ok(entries) = fs::read_dir(path) else { return Ok(()) };
    let names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    // The root of a mounted disk has a folder of its own.
    let is_ours = |name: &str| OURS.contains(&name) || name == "lost+found";
    match names.iter().find(|name| !is_ours(name)) {
        Some(other) if !is_marked(path) => bail!(
            "{} holds other things ({other}), and a fleet wants a folder of its own. Choose a new or empty --data-dir.",
            path.display()
        ),
        _ => Ok(()),
    }
}

/// Whether the folder says itself that it is a fleet's.
fn is_marked(path: &Path) -> bool {
    let marker = path.join(MARKER);
    // Not through a link: that would be somebody else's word.
    let is_file = fs::symlink_metadata(&marker).is_ok_and(|found| found.is_file());
    is_file && fs::read(&marker).is_ok_and(|text| text == MARKER_TEXT)
}

/// Takes what is kept from everybody but its owner. What others could read until now.
fn make_private(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    // The folder was named by a person and may be a link; what is in it may not.
    let folder = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let kept = OURS.map(|name| path.join(name));
    let certificates = fs::read_dir(path.join(CERTIFICATES)).into_iter().flatten().flatten();
    let all = [folder].into_iter().chain(kept).chain(certificates.map(|entry| entry.path()));
    let mut was_shared = Vec::new();
    for one in all {
        match files::make_private(&one) {
            Ok(true) => was_shared.push(one),
            Ok(false) => {}
            // A mounted folder may be somebody else's. What is written in it is still private.
            Err(why) if why.kind() == ErrorKind::PermissionDenied => {
                tracing::warn!(path = %one.display(), %why, "others may read this");
            }
            Err(why) => return Err(why).with_context(|| format!("cannot use {}", one.display())),
        }
    }
    Ok(was_shared)
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
    if pid == std::process::id().to_string() {
        bail!("this very process holds {}", path.display());
    }
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
    if !is_marked(path) {
        bail!(
            "{} is not a folder of a fleet, for it has no file {MARKER} of ours; nothing was removed",
            path.display()
        );
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
        assert!(once_nobody_starts(|| Folder::take(&path)).is_some());
        fs::remove_dir_all(&path).unwrap();
    }

    // The disk is a small file system in memory, which takes rights to mount.
    #[test]
    fn the_small_files_of_a_start_are_written_with_what_is_held_in_reserve() {
        let disk = scratch("reserve");
        fs::create_dir(&disk).unwrap();
        let run = |program: &str, arguments: &[&str]| {
            let ended = Command::new(program).args(arguments).arg(&disk).output();
            ended.is_ok_and(|output| output.status.success())
        };
        if !run("mount", &["-t", "tmpfs", "-o", "size=256k", "tmpfs"]) {
            return fs::remove_dir(&disk).unwrap();
        }
        let path = disk.join("fleet");
        drop(Folder::take(&path).unwrap());
        fs::write(path.join(RESERVE), [0; 1 << 16]).unwrap();
        fs::remove_file(path.join(MARKER)).unwrap();
        let mut rest = File::create(disk.join("rest")).unwrap();
        for size in [1 << 12, 1] {
            while rest.write_all(&vec![0; size]).is_ok() {}
        }
        let taken = Folder::take(&path).map(drop);
        let marked = is_marked(&path);
        let reserved = path.join(RESERVE).exists();
        run("umount", &["--lazy"]);
        fs::remove_dir(&disk).unwrap();
        taken.unwrap();
        assert!(marked && !reserved);
    }

    #[test]
    fn nothing_is_stopped_where_nothing_runs() {
        let path = scratch("nothing");
        assert_eq!(stop_other(&path).unwrap(), None);
        let holder = Folder::take(&path).unwrap();
        let refusal = stop_other(&path).unwrap_err().to_string();
        assert_eq!(refusal, format!("this very process holds {}", path.display()));
        drop(holder);
        assert_eq!(once_nobody_starts(|| stop_other(&path)), Some(None));
        fs::remove_dir_all(&path).unwrap();
    }

    /// The lock is also with a process that another test starts, from its fork to its exec.
    fn once_nobody_starts<T>(attempt: impl FnMut() -> anyhow::Result<T>) -> Option<T> {
        std::iter::repeat_with(attempt).take(100_000).find_map(Result::ok)
    }

    #[test]
    fn only_a_fleets_folder_is_cleared_and_only_when_nobody_has_it() {
        let path = scratch("clear");
        assert!(!clear(&path).unwrap());
        fs::create_dir_all(&path).unwrap();
        assert!(clear(&path).is_err());
        // Other programs have locks, too, and a marker may be anybody's word.
        fs::write(path.join(LOCK), "").unwrap();
        fs::write(path.join("thesis.txt"), "mine").unwrap();
        for marker in [None, Some("another program's")] {
            if let Some(text) = marker {
                fs::write(path.join(MARKER), text).unwrap();
            }
            let refusal = clear(&path).unwrap_err().to_string();
            assert!(refusal.ends_with("nothing was removed"), "{refusal}");
            assert!(Folder::take(&path).is_err());
            assert_eq!(fs::read(path.join("thesis.txt")).unwrap(), b"mine");
        }
        fs::remove_dir_all(&path).unwrap();
        let holder = Folder::take(&path).unwrap();
        assert!(clear(&path).is_err());
        drop(holder);
        assert_eq!(once_nobody_starts(|| clear(&path)), Some(true));
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

    #[cfg(unix)]
    fn mode(path: &Path) -> u32 {
        use std::os::unix::fs::PermissionsExt;
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_others_could_read_is_closed_to_them_and_said() {
        use std::os::unix::fs::PermissionsExt;
        let path = scratch("shared");
        let fresh = Folder::take(&path).unwrap();
        assert_eq!(fresh.was_shared, Vec::<PathBuf>::new());
        let pki = fresh.certificates();
        fs::create_dir(&pki).unwrap();
        for file in [
            fresh.data(),
            path.join(MARK),
            path.join(RESERVE),
            path.join(log::NAMES[0]),
            path.join(log::NAMES[1]),
            path.join(log::NAMES[2]),
            fresh.kubeconfig(),
            path.join(CONSOLE_KEY),
            pki.join("ca.key"),
            pki.join("ca.crt"),
        ] {
            fs::write(file, "secret").unwrap();
        }
        drop(fresh);
        let (mut files, mut folders) = (vec![pki.join("ca.key"), pki.join("ca.crt")], vec![]);
        for name in OURS {
            if name == CERTIFICATES { &mut folders } else { &mut files }.push(path.join(name));
        }
        folders.push(path.clone());
        let widen = |paths: &[PathBuf], mode| {
            paths.iter().for_each(|path| {
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            });
        };
        widen(&files, 0o644);
        widen(&folders, 0o755);
        let repaired = Folder::take(&path).unwrap();
        assert_eq!(repaired.was_shared.len(), files.len() + folders.len());
        files.iter().for_each(|file| assert_eq!(mode(file), 0o600, "{}", file.display()));
        folders.iter().for_each(|one| assert_eq!(mode(one), 0o700, "{}", one.display()));
        drop(repaired);
        assert_eq!(Folder::take(&path).unwrap().was_shared, Vec::<PathBuf>::new());
        fs::remove_dir_all(&path).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn no_link_in_the_folder_is_followed() {
        let (path, target) = (scratch("links"), scratch("target"));
        fs::write(&target, "mine").unwrap();
        for name in OURS {
            drop(fs::remove_dir_all(&path));
            fs::create_dir(&path).unwrap();
            std::os::unix::fs::symlink(&target, path.join(name)).unwrap();
            let refusal = format!("{:#}", Folder::take(&path).err().unwrap());
            assert!(
                refusal
                    .ends_with(&format!("{name}: it is a link, and links are not followed here")),
                "{refusal}"
            );
            assert_eq!(fs::read(&target).unwrap(), b"mine");
        }
        fs::remove_dir_all(&path).unwrap();
        fs::remove_file(&target).unwrap();
    }

    #[test]
    fn keys_without_their_store_do_not_begin_an_empty_fleet() {
        let path = scratch("lost");
        let folder = Folder::take(&path).unwrap();
        folder.refuse_lost_store().unwrap();
        fs::write(folder.data(), "").unwrap();
        folder.refuse_lost_store().unwrap();
        assert!(!folder.data().exists(), "nothing was in it");
        fs::create_dir(folder.certificates()).unwrap();
        fs::write(folder.certificates().join("ca.crt"), "").unwrap();
        for (state, content) in [("missing", None), ("empty", Some("")), ("", Some("data"))] {
            if let Some(content) = content {
                fs::write(folder.data(), content).unwrap();
            }
            let told = folder.refuse_lost_store().map_err(|refusal| refusal.to_string());
            match state {
                "" => told.unwrap(),
                state => {
                    let told = told.unwrap_err();
                    assert!(told.contains(&format!("data.redb is {state}, but ")), "{told}");
                    assert!(told.contains("`flagship restore FILE`"), "{told}");
                }
            }
        }
        // Any one of what a fleet leaves is sign enough.
        fs::remove_file(folder.data()).unwrap();
        fs::rename(folder.certificates().join("ca.crt"), folder.certificates().join("ca.key"))
            .unwrap();
        let told = folder.refuse_lost_store().unwrap_err().to_string();
        assert!(told.contains("holds the keys of a fleet"), "{told}");
        fs::remove_dir_all(folder.certificates()).unwrap();
        fs::write(path.join(MARK), "").unwrap();
        let told = folder.refuse_lost_store().unwrap_err().to_string();
        assert!(told.contains("data.redb.mark says what was stored"), "{told}");
        drop(folder);
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn a_folder_with_other_things_in_it_is_not_taken() {
        let path = scratch("others");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("thesis.txt"), "").unwrap();
        let refusal = Folder::take(&path).err().unwrap().to_string();
        assert!(refusal.contains("holds other things (thesis.txt)"), "{refusal}");
        // What a person puts beside a fleet stays there.
        fs::remove_file(path.join("thesis.txt")).unwrap();
        drop(Folder::take(&path).unwrap());
        fs::write(path.join("notes.txt"), "").unwrap();
        Folder::take(&path).unwrap();
        fs::remove_dir_all(&path).unwrap();
    }
}
