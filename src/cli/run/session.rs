//! The launcher's directory for everything of the job that has a name.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A directory that only this user can enter, removed with all it holds when dropped.
#[derive(Debug)]
pub(in crate::cli) struct SessionDirectory(PathBuf);

impl SessionDirectory {
    /// A name for it that nobody has used: the guardian must know it before it exists.
    #[expect(clippy::disallowed_methods, reason = "the time only makes the name unique")]
    pub(in crate::cli) fn choose(parent: &Path) -> PathBuf {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        parent.join(format!("modex-run-{}-{:x}", std::process::id(), since_epoch.as_micros()))
    }

    /// Makes the directory.
    pub(in crate::cli) fn create(path: PathBuf) -> io::Result<Self> {
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    pub(in crate::cli) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SessionDirectory {
    fn drop(&mut self) {
        // What could not be removed is not worth failing a job that has ended.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
