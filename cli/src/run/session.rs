//! The launcher's directory for every named object of the job.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::printing;
use modex::ptl::abandoned::{ATTEMPTS, is_still_at, open, sweep};

/// A directory that only this user can enter. It is removed with its content when dropped.
///
/// The launcher holds a lock on it, which the kernel releases at the launcher's end. If launcher and guardian were both
/// killed, the directory stays. This user's next launcher in the same place removes it.
#[derive(Debug)]
pub(crate) struct SessionDirectory {
    path: PathBuf,
    /// `None` if the file system has no locks. Then no launcher takes the directory for abandoned.
    _lock: Option<File>,
}

impl SessionDirectory {
    /// An unused name for it. The guardian must know the name before the directory exists.
    #[expect(clippy::disallowed_methods, reason = "the time only makes the name unique")]
    pub(crate) fn choose(parent: &Path) -> PathBuf {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        parent.join(format!("{PREFIX}{}-{:x}", std::process::id(), since_epoch.as_micros()))
    }

    /// Makes the directory, and removes abandoned ones beside it.
    ///
    /// Between `mkdir` and lock a directory looks abandoned. If another launcher has removed it meanwhile, it is made
    /// again.
    pub(crate) fn create(path: PathBuf) -> io::Result<Self> {
        if let Some(parent) = path.parent() {
            sweep(parent, is_name, |_, path| drop(remove(path)));
        }
        for _ in 0..ATTEMPTS {
            DirBuilder::new().mode(0o700).create(&path)?;
            let Ok(directory) = open(&path) else { continue };
            // Waits for a launcher that is about to remove it, if there is one.
            let lock = directory.lock().map(|()| directory);
            if lock.as_ref().map_or(true, |directory| is_still_at(directory, &path)) {
                return Ok(Self { path, _lock: lock.ok() });
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SessionDirectory {
    fn drop(&mut self) {
        // A directory that can't be removed must not make an ended job fail.
        if let Err(Left { path, reason }) = remove(&self.path) {
            let path = path.display();
            printing::complain(&format!(
                "the job's directory {path} can't be removed ({reason}); remove it with rm -r"
            ));
        }
    }
}

/// A directory that could not be removed.
struct Left {
    path: PathBuf,
    reason: io::Error,
}

/// Removes a launcher's directory. If that fails, the directory gets another name, so that no later launcher tries
/// again.
fn remove(path: &Path) -> Result<(), Left> {
    // Listing the directory takes a descriptor, but removing an empty directory does not.
    let removed = fs::remove_dir_all(path).or_else(|reason| fs::remove_dir(path).map_err(|_| reason));
    let Err(reason) = removed else { return Ok(()) };
    if !path.exists() {
        return Ok(());
    }
    let mut name = OsString::from("left-");
    name.push(path.file_name().unwrap_or_default());
    let new = path.with_file_name(name);
    let path = if fs::rename(path, &new).is_ok() { new } else { path.to_owned() };
    Err(Left { path, reason })
}

/// Whether a directory can be a launcher's, by its name.
pub(super) fn is_name(name: &OsStr) -> bool {
    name.as_bytes().starts_with(PREFIX.as_bytes())
}

const PREFIX: &str = "modex-run-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_launcher_removes_only_directories_of_killed_launchers() {
        let parent = tempfile::tempdir().unwrap();
        let living = SessionDirectory::create(parent.path().join("modex-run-1-a")).unwrap();
        let left = parent.path().join("modex-run-2-b");
        fs::create_dir_all(left.join("deep")).unwrap();
        fs::write(left.join("deep/file"), "x").unwrap();
        let kept = [parent.path().join("modex-run"), parent.path().join("modex-run-3-c")];
        fs::create_dir(&kept[0]).unwrap();
        std::os::unix::fs::symlink(&kept[0], &kept[1]).unwrap();
        let next = SessionDirectory::create(parent.path().join("modex-run-4-d")).unwrap();
        assert!(!left.exists());
        assert!(kept.iter().all(|path| path.exists()) && living.path().is_dir() && next.path().is_dir());
        drop((living, next));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), kept.len());
    }

    #[test]
    fn launchers_that_start_side_by_side_keep_their_directories() {
        let parent = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let parent = parent.path();
                scope.spawn(move || {
                    for number in 0..100 {
                        let path = parent.join(format!("modex-run-{thread}-{number}"));
                        let directory = SessionDirectory::create(path).unwrap();
                        fs::write(directory.path().join("file"), "x").unwrap();
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
