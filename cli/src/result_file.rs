//! A file for a result that comes later.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// An open file. Its old content stays until the result is there. Without a result, a new file is removed.
#[derive(Debug)]
pub(crate) struct ResultFile {
    path: PathBuf,
    file: File,
    /// Whether there was no file before.
    is_new: bool,
    is_filled: AtomicBool,
}

impl ResultFile {
    /// Opens it, so that nobody works for it in vain.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let (file, is_new) = match File::options().write(true).create_new(true).open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                (File::options().write(true).create(true).truncate(false).open(path)?, false)
            }
            opened => (opened?, true),
        };
        Ok(Self { path: path.to_owned(), file, is_new, is_filled: AtomicBool::new(false) })
    }

    /// Replaces the content.
    pub(crate) fn fill(&self, text: &str) -> io::Result<()> {
        self.is_filled.store(true, Ordering::Relaxed);
        // A pipe or a device has no length.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        (&self.file).write_all(text.as_bytes())
    }
}

impl Drop for ResultFile {
    fn drop(&mut self) {
        if self.is_new && !self.is_filled.load(Ordering::Relaxed) {
            // An empty file does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_file_stays_and_a_new_one_goes_without_a_result() {
        let place = tempfile::tempdir().unwrap();
        let [old, new] = ["old", "new"].map(|name| place.path().join(name));
        fs::write(&old, "a long old text").unwrap();
        let open = || [&old, &new].map(|path| ResultFile::open(path).unwrap());
        drop(open());
        assert_eq!((fs::read_to_string(&old).unwrap().as_str(), new.exists()), ("a long old text", false));
        open().iter().for_each(|file| file.fill("text").unwrap());
        assert_eq!([&old, &new].map(|path| fs::read_to_string(path).unwrap()), ["text", "text"]);
        assert!(ResultFile::open(place.path()).is_err() && ResultFile::open(&place.path().join("a/b")).is_err());
        ResultFile::open(Path::new("/dev/null")).unwrap().fill("text").unwrap();
    }
}
