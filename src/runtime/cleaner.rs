//! Removes what processes leave behind, in the name of their user.
//!
//! The thread takes on the user's ids for the file system (`setfsuid`), so that the kernel lets it do what the user may do
//! and no more; besides it touches only what belongs to that user. It goes down directory by directory through
//! descriptors, so a link, or a directory that is exchanged for one meanwhile, leads nowhere else.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::thread::JoinHandle;

use crossbeam::channel::{Receiver, Sender, unbounded};
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, open, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, geteuid, setfsgid, setfsuid, unlinkat};

use super::threads::spawn;
use crate::server::Cleanup;

/// Where cleanups are done. The thread is started by the first one.
#[derive(Default)]
pub(super) struct Cleaner(Option<Running>);

struct Running {
    orders: Sender<Cleanup>,
    thread: JoinHandle<()>,
}

impl Cleaner {
    /// Has it done after those before.
    ///
    /// # Errors
    /// No thread could be started.
    pub(super) fn order(&mut self, cleanup: Cleanup) -> io::Result<()> {
        let running = match self.0.take() {
            Some(running) => running,
            None => start()?,
        };
        let running = self.0.insert(running);
        // The thread outlives its sender.
        let _ = running.orders.send(cleanup);
        Ok(())
    }

    /// Waits until all is done.
    pub(super) fn finish(&mut self) {
        if let Some(Running { orders, thread }) = self.0.take() {
            drop(orders);
            // A panic has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

fn start() -> io::Result<Running> {
    let (orders, receiver): (Sender<Cleanup>, Receiver<Cleanup>) = unbounded();
    let thread = spawn("modex-cleaner", move || receiver.iter().for_each(|cleanup| perform(&cleanup)))?;
    Ok(Running { orders, thread })
}

fn perform(cleanup: &Cleanup) {
    let owner = Uid::from_raw(cleanup.owner.uid);
    if !geteuid().is_root() && geteuid() != owner {
        return tracing::warn!(%owner, "what a process of another user left behind can't be removed by this server");
    }
    let own_gid = setfsgid(Gid::from_raw(cleanup.owner.gid));
    let own_uid = setfsuid(owner);
    for path in &cleanup.files {
        report(path, remove_file(path, cleanup));
    }
    for path in &cleanup.directories {
        report(path, remove_directory(path, cleanup));
    }
    setfsuid(own_uid);
    setfsgid(own_gid);
}

/// What is gone already, or was to stay, is nobody's concern.
fn report(path: &str, result: Result<(), Errno>) {
    match result {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(errno) => tracing::warn!(path, %errno, "what a process left behind can't be removed"),
    }
}

fn remove_file(path: &str, cleanup: &Cleanup) -> Result<(), Errno> {
    let found = fstatat(AT_FDCWD, path, AtFlags::AT_SYMLINK_NOFOLLOW)?;
    if is_directory(&found) {
        return Err(Errno::EISDIR);
    }
    if is_kept(path, &found, cleanup)? {
        return Ok(());
    }
    unlinkat(AT_FDCWD, path, UnlinkatFlags::NoRemoveDir)
}

fn remove_directory(path: &str, cleanup: &Cleanup) -> Result<(), Errno> {
    let found = fstatat(AT_FDCWD, path, AtFlags::AT_SYMLINK_NOFOLLOW)?;
    if !is_directory(&found) {
        return Err(Errno::ENOTDIR);
    }
    if is_kept(path, &found, cleanup)? {
        return Ok(());
    }
    let directory = open(path, DIRECTORY, Mode::empty())?;
    let is_empty = empty(directory, path, cleanup, 0)?;
    if !is_empty || cleanup.leaves_top {
        return Ok(());
    }
    unlinkat(AT_FDCWD, path, UnlinkatFlags::RemoveDir)
}

/// Removes from a directory what the cleanup allows; whether nothing is left.
fn empty(directory: OwnedFd, path: &str, cleanup: &Cleanup, depth: usize) -> Result<bool, Errno> {
    if depth >= DEPTH_MAX {
        return Err(Errno::ELOOP);
    }
    let names = names_in(&directory)?;
    let mut is_empty = true;
    for name in names {
        let inner = Path::new(path).join(name.to_string_lossy().as_ref());
        let inner = inner.to_string_lossy();
        let is_gone = match remove_entry(&directory, &name, &inner, cleanup, depth) {
            Ok(is_gone) => is_gone,
            Err(Errno::ENOENT) => true,
            Err(errno) => {
                report(&inner, Err(errno));
                false
            }
        };
        is_empty &= is_gone;
    }
    Ok(is_empty)
}

/// Removes an entry of a directory if the cleanup allows; whether it is gone.
fn remove_entry(directory: &OwnedFd, name: &CStr, path: &str, cleanup: &Cleanup, depth: usize) -> Result<bool, Errno> {
    let found = fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
    if is_kept(path, &found, cleanup)? {
        return Ok(false);
    }
    if !is_directory(&found) {
        if cleanup.only_empty {
            return Ok(false);
        }
        return unlinkat(directory, name, UnlinkatFlags::NoRemoveDir).map(|()| true);
    }
    if !cleanup.is_recursive {
        return Ok(false);
    }
    let inner = openat(directory, name, DIRECTORY, Mode::empty())?;
    if !empty(inner, path, cleanup, depth.saturating_add(1))? {
        return Ok(false);
    }
    unlinkat(directory, name, UnlinkatFlags::RemoveDir).map(|()| true)
}

fn names_in(directory: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let mut entries = Dir::openat(directory.as_fd(), c".", DIRECTORY, Mode::empty())?;
    let mut names = Vec::new();
    for entry in entries.iter() {
        let name = entry?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}

/// Whether something is to stay.
///
/// # Errors
/// `EPERM`: it belongs to somebody else.
fn is_kept(path: &str, found: &FileStat, cleanup: &Cleanup) -> Result<bool, Errno> {
    if found.st_uid != cleanup.owner.uid {
        return Err(Errno::EPERM);
    }
    Ok(cleanup.ignored.iter().any(|ignored| ignored == path))
}

fn is_directory(found: &FileStat) -> bool {
    SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR
}

const DIRECTORY: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
/// Deeper trees are left: each level holds a descriptor and a piece of the stack.
const DEPTH_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;
    use crate::server::Credentials;

    fn text(path: PathBuf) -> String {
        path.to_str().unwrap().to_owned()
    }

    fn cleanup() -> Cleanup {
        let owner = Credentials { uid: geteuid().as_raw(), gid: nix::unistd::getegid().as_raw() };
        let nothing = Vec::new;
        let [is_recursive, only_empty, leaves_top] = [false; 3];
        Cleanup {
            owner,
            files: nothing(),
            directories: nothing(),
            ignored: nothing(),
            is_recursive,
            only_empty,
            leaves_top,
        }
    }

    /// `top/{file, keep, link -> ../outside, inner/{file, deeper/}}` beside `outside/precious`.
    fn tree() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().join("top");
        fs::create_dir_all(top.join("inner/deeper")).unwrap();
        fs::create_dir(directory.path().join("outside")).unwrap();
        for file in ["top/file", "top/keep", "top/inner/file", "outside/precious"] {
            fs::write(directory.path().join(file), "").unwrap();
        }
        symlink(directory.path().join("outside"), top.join("link")).unwrap();
        (directory, top)
    }

    fn clean(cleanup: Cleanup) {
        let mut cleaner = Cleaner::default();
        cleaner.order(cleanup).unwrap();
        cleaner.finish();
    }

    #[test]
    fn a_tree_vanishes_and_what_its_links_point_to_stays() {
        let (directory, top) = tree();
        clean(Cleanup { directories: vec![text(top.clone())], is_recursive: true, ..cleanup() });
        assert!(!top.exists());
        assert!(directory.path().join("outside/precious").exists());
    }

    #[test]
    fn without_recursion_only_files_go_and_what_is_ignored_stays() {
        let (_directory, top) = tree();
        clean(Cleanup { directories: vec![text(top.clone())], ignored: vec![text(top.join("keep"))], ..cleanup() });
        assert!(top.join("keep").exists() && top.join("inner/file").exists());
        assert!(!top.join("file").exists() && !top.join("link").is_symlink());
    }

    #[test]
    fn the_top_stays_if_asked_for_and_only_empty_directories_go_if_asked_for() {
        let (_directory, top) = tree();
        let directories = vec![text(top.clone())];
        let recursive = Cleanup { directories, is_recursive: true, ..cleanup() };
        clean(Cleanup { only_empty: true, ..recursive.clone() });
        assert!(!top.join("inner/deeper").exists() && top.join("inner/file").exists() && top.join("file").exists());
        clean(Cleanup { leaves_top: true, ..recursive });
        assert!(fs::read_dir(&top).unwrap().next().is_none());
    }

    #[test]
    fn a_link_in_the_place_of_a_directory_or_file_is_not_followed() {
        let (directory, top) = tree();
        let link = text(top.join("link"));
        clean(Cleanup { directories: vec![link.clone()], is_recursive: true, ..cleanup() });
        assert!(directory.path().join("outside/precious").exists());
        clean(Cleanup { files: vec![link], ..cleanup() });
        assert!(!top.join("link").is_symlink() && directory.path().join("outside/precious").exists());
    }

    /// Needs root, who alone can act for others; anybody else can't even make such files.
    #[test]
    fn what_belongs_to_others_stays() {
        if !geteuid().is_root() {
            return;
        }
        let (_directory, top) = tree();
        let owner = Credentials { uid: 12_345, gid: 12_345 };
        clean(Cleanup { owner, directories: vec![text(top.clone())], is_recursive: true, ..cleanup() });
        clean(Cleanup { owner, files: vec![text(top.join("file"))], ..cleanup() });
        assert!(top.join("inner/file").exists() && top.join("file").exists());
    }
}
