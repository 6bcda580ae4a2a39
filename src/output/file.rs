//! Files for output.
//!
//! Names are predictable, and other users may have put something in their place. So only a regular file of this user is
//! written. Links are not followed.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::libc;
use nix::unistd::geteuid;

/// Opens a file to append output, and makes the directories that are missing. Everything that it makes is added to
/// `made`. `is_known`: this process has opened the file before.
///
/// # Errors
/// The kernel's, and for what is no regular file of this user.
pub fn open(path: &Path, is_known: bool, made: &mut Vec<PathBuf>) -> io::Result<File> {
    path.parent().map_or(Ok(()), |directory| make_directories(directory, made))?;
    let mut options = OpenOptions::new();
    // A pipe without a reader gives an error instead of a wait.
    options.append(true).mode(FILE_MODE).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    // A new file is this user's, whatever owner its file system shows.
    match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => return created.inspect(|_| made.push(path.to_owned())),
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    // The owner may have changed since.
    if !(is_known && metadata.is_file()) {
        check_file(path, &metadata)?;
    }
    Ok(file)
}

/// Checks that a file that this process has not made is a regular one of its user.
///
/// # Errors
/// For any other file.
pub fn check_file(path: &Path, metadata: &Metadata) -> io::Result<()> {
    if !metadata.is_file() {
        return Err(io::Error::other(format!("{} is no regular file", path.display())));
    }
    if metadata.uid() != geteuid().as_raw() {
        return Err(io::Error::other(format!("{} belongs to user {}", path.display(), metadata.uid())));
    }
    Ok(())
}

/// Removes files and directories that [`open`] has made, the last one first. Directories that others use stay.
pub fn remove_made(made: &[PathBuf]) {
    for path in made.iter().rev() {
        let removed = if path.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) };
        if let Err(error) = removed {
            tracing::debug!(%error, path = %path.display(), "an unused file for output can't be removed");
        }
    }
}

fn make_directories(path: &Path, made: &mut Vec<PathBuf>) -> io::Result<()> {
    let is_missing = |directory: &&Path| !directory.as_os_str().is_empty() && !directory.exists();
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    for directory in missing.into_iter().rev() {
        match DirBuilder::new().mode(DIRECTORY_MODE).create(directory) {
            Ok(()) => made.push(directory.to_owned()),
            // Another process was faster.
            Err(_) if directory.is_dir() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o750;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let [other, link] = ["other", "link"].map(|name| directory.path().join(name));
        std::os::unix::fs::symlink(&other, &link).unwrap();
        assert!(open(&link, false, &mut Vec::new()).is_err());
        assert!(!other.exists());
    }

    /// Regression: the thread that writes output hung at a pipe in the place of a file.
    #[test]
    fn output_is_written_to_regular_files_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let is_open = |is_known| open(&path, is_known, &mut Vec::new()).is_ok();
        assert!(!is_open(false), "without a reader");
        let _reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap();
        assert!(!is_open(false) && !is_open(true), "with a reader");
    }

    #[test]
    fn what_was_made_can_be_removed_and_the_rest_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("old"), "text").unwrap();
        let mut made = Vec::new();
        for name in ["a/b/f", "a/g", "old", "a/b/f"] {
            open(&path(name), false, &mut made).unwrap();
        }
        assert_eq!(made, ["a", "a/b", "a/b/f", "a/g"].map(path));
        fs::write(path("a/of-others"), "").unwrap();
        remove_made(&made);
        let left = fs::read_dir(path("a")).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["of-others"]);
        assert_eq!(fs::read_to_string(path("old")).unwrap(), "text");
    }
}
