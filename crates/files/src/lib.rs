//! Private files: only their owner reads them, no link is followed, and a crash leaves the
//! old file or the new one.
//!
//! The last part of a path is never followed as a link: whoever may write in a folder could
//! otherwise have us write somewhere else. Folders on the way to it may be links.
//!
//! Permissions and links are those of Unix; elsewhere files get what the system gives.

mod rotating;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

pub use rotating::Rotating;

/// Makes a folder that only its owner can enter, and those above it that are missing. One
/// that is there stays as it is.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Opens a file for reading and writing; makes an empty one if it is not there.
pub fn open_or_make(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true).write(true).create(true).truncate(false))
}

/// Opens a file that is there for reading and writing.
pub fn open_existing(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true).write(true))
}

/// Opens a file that is there for reading.
pub fn open_to_read(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true))
}

/// Opens a file that must not be there yet.
pub fn make_new(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true).write(true).create_new(true))
}

/// The text of a file; `None` if it is not there.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    let mut text = String::new();
    match open_to_read(path) {
        Ok(mut file) => file.read_to_string(&mut text).map(|_| Some(text)),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(why),
    }
}

/// Writes a whole file or none of it, also if the machine stops in between.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    replace_flushed(path, content, &mut File::sync_all)
}

/// The same with another way to have a file or a folder flushed to the disk.
fn replace_flushed(path: &Path, content: &[u8], flush: &mut Flush<'_>) -> io::Result<()> {
    let beside = beside(path);
    remove_if_there(&beside)?;
    let written = make_new(&beside).and_then(|mut file| {
        file.write_all(content)?;
        flush(&file)
    });
    if let Err(why) = written.and_then(|()| rename_flushed(&beside, path, flush)) {
        // Half a file is of no use, and on a full disk it is in the way.
        drop(fs::remove_file(&beside));
        return Err(why);
    }
    Ok(())
}

/// Gives a file that is complete and on the disk its name, in place of one that has it.
pub fn put_in_place(from: &Path, to: &Path) -> io::Result<()> {
    rename_flushed(from, to, &mut File::sync_all)
}

/// What flushes a file or a folder to the disk.
type Flush<'a> = dyn FnMut(&File) -> io::Result<()> + 'a;

fn rename_flushed(from: &Path, to: &Path, flush: &mut Flush<'_>) -> io::Result<()> {
    fs::rename(from, to)?;
    // A rename is on the disk only when its folder is.
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    match cfg!(unix) {
        true => flush(&File::open(folder.unwrap_or(Path::new(".")))?),
        false => Ok(()),
    }
}

/// Where a file is written before it gets its name: in the same folder.
pub fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}", std::process::id()))
}

/// Removes a file or a link; fine if there is none.
pub fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
        _ => Ok(()),
    }
}

/// Takes a file or folder from everybody but its owner. Whether anybody else had it, as far
/// as it is there at all. What another user put there is refused: a key that somebody else
/// knows is no key.
pub fn make_private(path: &Path) -> io::Result<bool> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let file = match open_to_read(path) {
            Ok(file) => file,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(why) => return Err(why),
        };
        let found = file.metadata()?;
        let (owner, us) = (found.uid(), rustix::process::geteuid().as_raw());
        if is_anothers(owner, us, found.is_file()) {
            let why = format!("it belongs to another user of this machine (uid {owner})");
            return Err(io::Error::other(why));
        }
        let mode = found.permissions().mode();
        let shared = mode & 0o077 != 0;
        if shared {
            file.set_permissions(fs::Permissions::from_mode(mode & 0o700))?;
        }
        Ok(shared)
    }
    #[cfg(not(unix))]
    path.try_exists().map(|_| false)
}

fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600).custom_flags(libc::O_NOFOLLOW);
    }
    options.open(path).map_err(|why| match is_link(path) {
        true => io::Error::new(why.kind(), "it is a link, and links are not followed here"),
        false => why,
    })
}

/// Whether what belongs to this user was put there by somebody whom we need not trust. Root may
/// be given the folder of a user, as containers are; a file in it is nobody's to give.
#[cfg(unix)]
fn is_anothers(owner: u32, us: u32, is_file: bool) -> bool {
    const ROOT: u32 = 0;
    ![us, ROOT].contains(&owner) && (is_file || us != ROOT)
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("flagship-files-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            drop(fs::remove_dir_all(&path));
            make_folder(&path).unwrap();
            Self(path)
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_made_is_its_owners_alone() {
        let scratch = Scratch::new("made");
        assert_eq!(mode(&scratch.0), 0o700);
        open_or_make(&scratch.at("opened")).unwrap();
        make_new(&scratch.at("new")).unwrap();
        replace(&scratch.at("replaced"), b"text").unwrap();
        for name in ["opened", "new", "replaced"] {
            assert_eq!(mode(&scratch.at(name)), 0o600, "{name}");
        }
        assert_eq!(read(&scratch.at("replaced")).unwrap().as_deref(), Some("text"));
        assert_eq!(read(&scratch.at("none")).unwrap(), None);
        let names = fs::read_dir(&scratch.0).unwrap().count();
        assert_eq!(names, 3, "nothing is left beside them");
    }

    #[test]
    fn no_link_is_followed() {
        let scratch = Scratch::new("links");
        let (target, link) = (scratch.at("target"), scratch.at("link"));
        fs::write(&target, "mine").unwrap();
        symlink(&target, &link).unwrap();
        for refused in [
            open_or_make(&link).map(drop),
            open_existing(&link).map(drop),
            make_new(&link).map(drop),
            read(&link).map(drop),
            make_private(&link).map(drop),
        ] {
            let why = refused.unwrap_err().to_string();
            assert_eq!(why, "it is a link, and links are not followed here");
        }
        // A link in the place of a file goes; what it led to stays.
        replace(&link, b"ours").unwrap();
        assert!(!is_link(&link));
        assert_eq!(fs::read(&target).unwrap(), b"mine");
    }

    #[test]
    fn a_file_is_flushed_before_it_has_its_name_and_its_folder_after() {
        let scratch = Scratch::new("flushed");
        let path = scratch.at("key");
        replace(&path, b"old").unwrap();
        let mut flushed = Vec::new();
        let mut note = |file: &File| {
            let found = file.metadata()?;
            let length = found.is_file().then_some(found.len());
            flushed.push((length, fs::read_to_string(&path)?));
            Ok(())
        };
        replace_flushed(&path, b"the new one", &mut note).unwrap();
        assert_eq!(flushed, [(Some(11), "old".to_owned()), (None, "the new one".to_owned())]);
        // What the disk did not take does not get the name, and leaves nothing behind.
        let mut refuse = |_: &File| Err(io::ErrorKind::StorageFull.into());
        assert!(replace_flushed(&path, b"lost", &mut refuse).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"the new one");
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1);
    }

    #[test]
    fn what_others_could_read_is_taken_from_them_once() {
        let scratch = Scratch::new("private");
        let file = scratch.at("file");
        fs::write(&file, "text").unwrap();
        for (path, wide, narrow) in [(&file, 0o644, 0o600), (&scratch.0, 0o755, 0o700)] {
            fs::set_permissions(path, fs::Permissions::from_mode(wide)).unwrap();
            assert!(make_private(path).unwrap());
            assert_eq!(mode(path), narrow);
            assert!(!make_private(path).unwrap());
        }
        assert!(!make_private(&scratch.at("none")).unwrap());
    }

    #[test]
    fn what_another_user_put_there_is_refused() {
        for (owner, us, file, folder) in [
            (1000, 1000, false, false),
            (0, 1000, false, false),
            (1001, 1000, true, true),
            (1001, 0, true, false),
            (0, 0, false, false),
        ] {
            let found = (is_anothers(owner, us, true), is_anothers(owner, us, false));
            assert_eq!(found, (file, folder), "{owner} {us}");
        }
        let scratch = Scratch::new("anothers");
        let planted = scratch.at("ca.key");
        replace(&planted, b"known to somebody else").unwrap();
        // Only root may give a file away.
        if std::os::unix::fs::chown(&planted, Some(54321), None).is_ok() {
            let why = make_private(&planted).unwrap_err().to_string();
            assert_eq!(why, "it belongs to another user of this machine (uid 54321)");
        }
    }
}
