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
    let beside = beside(path);
    remove_if_there(&beside)?;
    let written = make_new(&beside).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    if let Err(why) = written.and_then(|()| put_in_place(&beside, path)) {
        // Half a file is of no use, and on a full disk it is in the way.
        drop(fs::remove_file(&beside));
        return Err(why);
    }
    Ok(())
}

/// Gives a file that is complete and on the disk its name, in place of one that has it.
pub fn put_in_place(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    sync_folder_of(to)
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
/// as it is there at all.
pub fn make_private(path: &Path) -> io::Result<bool> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let file = match open_to_read(path) {
            Ok(file) => file,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(why) => return Err(why),
        };
        let mode = file.metadata()?.permissions().mode();
        let shared = mode & 0o077 != 0;
        if shared {
            file.set_permissions(fs::Permissions::from_mode(mode & 0o700))?;
        }
        Ok(shared)
    }
    #[cfg(not(unix))]
    path.try_exists().map(|_| false)
}

/// A rename is on the disk only when its folder is.
fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match cfg!(unix) {
        true => File::open(folder.unwrap_or(Path::new(".")))?.sync_all(),
        false => Ok(()),
    }
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
}
