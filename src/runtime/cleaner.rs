//! Removes what processes of the server's own user leave behind.
//!
//! Each path is gone down from the root, component by component, through descriptors; no link is followed, in no place,
//! and what is removed is removed by its name in a directory that is held open. So a link, or a directory that is exchanged
//! for one meanwhile, leads nowhere else: a path through a link is left. What does not belong to the user is left, too.
//! Nothing is done in the name of others.
//!
//! Directories are emptied while they are read, so their size takes no memory. Orders that wait are bounded by their size,
//! and the end of a server waits for them only so long.

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

use super::threads::spawn;
use crate::server::{Cleanup, DirectoryRules};

/// Where cleanups are done. The thread is started by the first one.
#[derive(Default)]
pub(super) struct Cleaner(Option<Running>);

struct Running {
    orders: Sender<Cleanup>,
    /// Closed by the thread when it ends.
    ended: Receiver<()>,
    thread: JoinHandle<()>,
    shared: Arc<Shared>,
}

/// What the thread shares with who gives it orders.
#[derive(Default)]
struct Shared {
    /// Of orders that are not done.
    queued_bytes: AtomicUsize,
    /// Nothing more is to be removed.
    is_given_up: AtomicBool,
}

/// Why an order was not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum OrderError {
    #[error("no thread can be started: {0}")]
    Thread(#[from] io::Error),
    #[error(
        "{queued_bytes} bytes of paths wait already; what is registered from now on is not removed until they are done"
    )]
    Full { queued_bytes: usize },
}

impl Cleaner {
    /// Has it done after those before.
    ///
    /// # Errors
    /// [`OrderError`]; it is not done.
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

    /// Waits until all is done, but no longer than `time_max`; then what is left stays, and the thread ends by itself as
    /// soon as the operating system answers it.
    pub(super) fn finish(&mut self, time_max: Duration) {
        let Some(Running { orders, ended, thread, shared }) = self.0.take() else { return };
        drop(orders);
        if ended.recv_timeout(time_max) == Err(RecvTimeoutError::Timeout) {
            shared.is_given_up.store(true, Ordering::Relaxed);
            let seconds = time_max.as_secs();
            return tracing::warn!(seconds, "what processes left behind takes long to remove; the rest stays");
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

/// What could not be removed, the first of it by name.
#[derive(Debug, Default)]
struct Failures {
    first: Vec<(String, Errno)>,
    are_more: bool,
}

impl Failures {
    /// What is gone already is nobody's concern.
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
            tracing::warn!(path, %errno, "what a process left behind can't be removed");
        }
        if self.are_more {
            tracing::warn!("more that processes left behind can't be removed");
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
            // What is inside comes behind, and goes first.
            for path in paths.iter().rev() {
                let result = self.check().and_then(|()| self.remove_directory(path, rules));
                self.failures.note(path, result);
            }
        }
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// `EPERM`: this is no process of the user (any more); `ECANCELED`: time is up.
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

    /// Removes from a directory what the cleanup allows; whether nothing is left. What reading misses because entries
    /// vanish meanwhile, the next pass finds.
    fn empty(&mut self, directory: &OwnedFd, path: &str, rules: DirectoryRules, depth: usize) -> Result<bool, Errno> {
        if depth >= DEPTH_MAX {
            return Err(Errno::ELOOP);
        }
        // What was looked at may have been exchanged before it was opened.
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

    /// Removes an entry of a directory if the cleanup allows; whether it is gone.
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

    /// Whether something is to stay.
    ///
    /// # Errors
    /// `EPERM`: it belongs to somebody else.
    fn is_kept(&self, path: &str, found: &FileStat) -> Result<bool, Errno> {
        self.is_own(found)?;
        Ok(self.cleanup.keeps(path))
    }

    fn is_own(&self, found: &FileStat) -> Result<(), Errno> {
        if found.st_uid == self.cleanup.uid { Ok(()) } else { Err(Errno::EPERM) }
    }
}

/// The directory that a path ends in, and the name in it, by way of no link.
///
/// # Errors
/// `ENOTDIR` for a link among others; `EINVAL`: the path is not absolute or goes up.
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

/// To read it.
const DIRECTORY: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
/// To go on from it; reading it may be forbidden.
const PLACE: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
/// Deeper trees are left: each level holds descriptors and a piece of the stack.
const DEPTH_MAX: usize = 128;
/// How often a directory is read in which things keep appearing.
const PASSES_MAX: usize = 8;
/// Failures of an order that are told one by one.
const FAILURES_MAX: usize = 8;
/// More than this is not queued; one order always is.
const QUEUED_BYTES_MAX: usize = 64 << 20;
/// How long the end of a server waits for what is being removed.
pub(super) const FINISH_TIME_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
