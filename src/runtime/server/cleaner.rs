//! Removes files and directories of ended processes, in the name of the server's own user.
//!
//! Each path is walked from the root, component by component, through open directories. No link is followed. A file is
//! removed by its name in an open directory, so a link or an exchanged directory leads nowhere else. A path through a
//! link is left alone, and so are files of other users.
//!
//! A directory is emptied while it is read, so its size takes no memory. Waiting orders have a size limit, and the end
//! of a server waits for them only for a limited time.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use crate::runtime::shared::threads::spawn;
use crate::server::{Cleanup, DirectoryRules};

/// Runs cleanups. The first one starts the thread.
#[derive(Default)]
pub(super) struct Cleaner(Option<Running>);

struct Running {
    orders: Sender<Cleanup>,
    /// Closed by the thread when it ends.
    ended: Receiver<()>,
    thread: JoinHandle<()>,
    shared: Arc<Shared>,
}

/// State that the thread shares with the server.
#[derive(Default)]
struct Shared {
    /// Size of the orders that are not done.
    queued_bytes: AtomicUsize,
    /// Set when nothing more may be removed.
    is_given_up: AtomicBool,
}

/// Why an order was not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum OrderError {
    #[error("no thread can be started: {0}")]
    Thread(#[from] io::Error),
    #[error("{queued_bytes} bytes of paths already wait for removal, which is the limit; these paths are not removed")]
    Full { queued_bytes: usize },
}

impl Cleaner {
    /// Queues a cleanup behind the earlier ones.
    ///
    /// # Errors
    /// [`OrderError`]; nothing is queued.
    pub(super) fn order(&mut self, cleanup: Cleanup) -> Result<(), OrderError> {
        let running = match self.0.take() {
            Some(running) => running,
            None => start(perform)?,
        };
        let Running { orders, shared, .. } = self.0.insert(running);
        let queued_bytes = shared.queued_bytes.load(Ordering::Relaxed);
        if queued_bytes >= QUEUED_BYTES_MAX {
            return Err(OrderError::Full { queued_bytes });
        }
        shared.queued_bytes.fetch_add(cleanup.size_bytes(), Ordering::Relaxed);
        // The thread outlives its sender.
        let _ = orders.send(cleanup);
        Ok(())
    }

    /// Waits for all orders, but no longer than `time_max`. After that the remaining files stay, and the thread ends by
    /// itself as soon as the operating system answers it.
    pub(super) fn finish(&mut self, time_max: Duration) {
        let Some(Running { orders, ended, thread, shared }) = self.0.take() else { return };
        drop(orders);
        if ended.recv_timeout(time_max) == Err(RecvTimeoutError::Timeout) {
            shared.is_given_up.store(true, Ordering::Relaxed);
            let seconds = time_max.as_secs();
            return tracing::warn!(seconds, "the removal of ended processes' files takes too long; the rest stays");
        }
        // A panic has been reported by the panic hook.
        let _ = thread.join();
    }
}

fn start(perform: impl Fn(&Cleanup, &AtomicBool) -> Failures + Send + 'static) -> io::Result<Running> {
    let (orders, receiver) = unbounded::<Cleanup>();
    let (end, ended) = bounded(0);
    let shared = Arc::new(Shared::default());
    let theirs = Arc::clone(&shared);
    let body = move || {
        let _end: Sender<()> = end;
        for cleanup in receiver {
            if !theirs.is_given_up.load(Ordering::Relaxed) {
                perform(&cleanup, &theirs.is_given_up).report();
            }
            theirs.queued_bytes.fetch_sub(cleanup.size_bytes(), Ordering::Relaxed);
        }
    };
    let thread = spawn("modex-cleaner", body)?;
    Ok(Running { orders, ended, thread, shared })
}

fn perform(cleanup: &Cleanup, is_given_up: &AtomicBool) -> Failures {
    let mut work = Work { cleanup, is_given_up, failures: Failures::default() };
    work.perform();
    work.failures
}

/// Files that could not be removed; the first few by name.
#[derive(Debug, Default)]
struct Failures {
    first: Vec<(String, Errno)>,
    are_more: bool,
}

impl Failures {
    /// Ignores files that are gone already.
    fn note(&mut self, path: &str, result: Result<(), Errno>) {
        let Err(errno) = result else { return };
        if errno == Errno::ENOENT || self.first.iter().any(|(known, _)| known == path) {
            return;
        }
        if self.first.len() >= FAILURES_MAX {
            self.are_more = true;
        } else {
            self.first.push((path.to_owned(), errno));
        }
    }

    fn report(self) {
        for (path, errno) in self.first {
            tracing::warn!(path, %errno, "a file of an ended process can't be removed");
        }
        if self.are_more {
            tracing::warn!("more files of ended processes can't be removed");
        }
    }
}

struct Work<'a> {
    cleanup: &'a Cleanup,
    is_given_up: &'a AtomicBool,
    failures: Failures,
}

impl Work<'_> {
    fn perform(&mut self) {
        let cleanup = self.cleanup;
        for path in &cleanup.files {
            let result = self.check().and_then(|()| self.remove_file(path));
            self.failures.note(path, result);
        }
        for (&rules, paths) in &cleanup.directories {
            // Inner directories sort behind their parents, and are removed first.
            for path in paths.iter().rev() {
                let result = self.check().and_then(|()| self.remove_directory(path, rules));
                self.failures.note(path, result);
            }
        }
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// `EPERM`: this process no longer runs as the user. `ECANCELED`: time is up.
    fn check(&self) -> Result<(), Errno> {
        match () {
            () if geteuid().as_raw() != self.cleanup.uid => Err(Errno::EPERM),
            () if self.is_given_up.load(Ordering::Relaxed) => Err(Errno::ECANCELED),
            () => Ok(()),
        }
    }

    fn remove_file(&self, path: &str) -> Result<(), Errno> {
        let (parent, name) = parent_of(path)?;
        let found = fstatat(&parent, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        if is_directory(&found) {
            return Err(Errno::EISDIR);
        }
        if self.is_kept(path, &found)? {
            return Ok(());
        }
        unlinkat(&parent, name, UnlinkatFlags::NoRemoveDir)
    }

    fn remove_directory(&mut self, path: &str, rules: DirectoryRules) -> Result<(), Errno> {
        let (parent, name) = parent_of(path)?;
        let found = fstatat(&parent, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        if !is_directory(&found) {
            return Err(Errno::ENOTDIR);
        }
        if self.is_kept(path, &found)? {
            return Ok(());
        }
        let directory = openat(&parent, name, DIRECTORY, Mode::empty())?;
        let is_empty = self.empty(&directory, path, rules, 0)?;
        if !is_empty || rules.leaves_top {
            return Ok(());
        }
        unlinkat(&parent, name, UnlinkatFlags::RemoveDir)
    }

    /// Removes the entries of a directory that the cleanup allows. Returns whether the directory is empty now. Entries
    /// that one pass misses, because others vanish meanwhile, are found by the next pass.
    fn empty(&mut self, directory: &OwnedFd, path: &str, rules: DirectoryRules, depth: usize) -> Result<bool, Errno> {
        if depth >= DEPTH_MAX {
            return Err(Errno::ELOOP);
        }
        // The directory may have been exchanged between the check and the open.
        self.is_own(&fstat(directory)?)?;
        let mut entries = Dir::openat(directory.as_fd(), c".", DIRECTORY, Mode::empty())?;
        let mut is_empty = true;
        for _ in 0..PASSES_MAX {
            is_empty = true;
            let mut is_changed = false;
            for entry in entries.iter() {
                self.check()?;
                let entry = entry?;
                let name = entry.file_name();
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                let is_gone = self.remove_entry(directory, name, path, rules, depth);
                is_empty &= is_gone;
                is_changed |= is_gone;
            }
            if !is_changed {
                break;
            }
        }
        Ok(is_empty)
    }

    /// Removes an entry of a directory if the cleanup allows it. Returns whether the entry is gone.
    fn remove_entry(
        &mut self,
        directory: &OwnedFd,
        name: &CStr,
        path: &str,
        rules: DirectoryRules,
        depth: usize,
    ) -> bool {
        let path = format!("{path}/{}", name.to_string_lossy());
        match self.try_remove_entry(directory, name, &path, rules, depth) {
            Ok(is_gone) => is_gone,
            Err(Errno::ENOENT) => true,
            Err(errno) => {
                self.failures.note(&path, Err(errno));
                false
            }
        }
    }

    fn try_remove_entry(
        &mut self,
        directory: &OwnedFd,
        name: &CStr,
        path: &str,
        rules: DirectoryRules,
        depth: usize,
    ) -> Result<bool, Errno> {
        let found = fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        if self.is_kept(path, &found)? {
            return Ok(false);
        }
        if !is_directory(&found) {
            if rules.only_empty {
                return Ok(false);
            }
            return unlinkat(directory, name, UnlinkatFlags::NoRemoveDir).map(|()| true);
        }
        if !rules.is_recursive {
            return Ok(false);
        }
        let inner = openat(directory, name, DIRECTORY, Mode::empty())?;
        if !self.empty(&inner, path, rules, depth.saturating_add(1))? {
            return Ok(false);
        }
        unlinkat(directory, name, UnlinkatFlags::RemoveDir).map(|()| true)
    }

    /// Whether an entry must stay.
    ///
    /// # Errors
    /// `EPERM`: the entry belongs to another user.
    fn is_kept(&self, path: &str, found: &FileStat) -> Result<bool, Errno> {
        self.is_own(found)?;
        Ok(self.cleanup.keeps(path))
    }

    fn is_own(&self, found: &FileStat) -> Result<(), Errno> {
        if found.st_uid == self.cleanup.uid { Ok(()) } else { Err(Errno::EPERM) }
    }
}

/// Opens the parent directory of a path without following links; returns it and the last name.
///
/// # Errors
/// `ENOTDIR`, for example for a link. `EINVAL`: the path is relative or contains `..`.
fn parent_of(path: &str) -> Result<(OwnedFd, &str), Errno> {
    let (parents, name) = path.rsplit_once('/').ok_or(Errno::EINVAL)?;
    if !path.starts_with('/') || path.split('/').any(|part| part == "..") || matches!(name, "" | ".") {
        return Err(Errno::EINVAL);
    }
    let mut directory = open("/", PLACE, Mode::empty())?;
    for part in parents.split('/').filter(|part| !part.is_empty()) {
        directory = openat(&directory, part, PLACE, Mode::empty())?;
    }
    Ok((directory, name))
}

fn is_directory(found: &FileStat) -> bool {
    SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR
}

/// Opens a directory for reading.
const DIRECTORY: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
/// Opens a directory only to go on from it, because reading it may be forbidden.
const PLACE: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
/// Deeper trees are left alone: each level takes descriptors and stack.
const DEPTH_MAX: usize = 128;
/// Passes over a directory in which entries keep appearing.
const PASSES_MAX: usize = 8;
/// Failures of an order that are reported one by one.
const FAILURES_MAX: usize = 8;
/// Limit of waiting orders. The last order may exceed it.
const QUEUED_BYTES_MAX: usize = 64 << 20;
/// How long the end of a server waits for the cleanups.
pub(super) const FINISH_TIME_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
