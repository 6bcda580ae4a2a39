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
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};

    use super::*;

    static NEVER: AtomicBool = AtomicBool::new(false);
    const PLAIN: DirectoryRules = DirectoryRules { is_recursive: false, only_empty: false, leaves_top: false };
    const RECURSIVE: DirectoryRules = DirectoryRules { is_recursive: true, ..PLAIN };

    fn set(path: &Path) -> BTreeSet<String> {
        [path.to_str().unwrap().to_owned()].into()
    }

    fn file(path: &Path) -> Cleanup {
        Cleanup { uid: geteuid().as_raw(), files: set(path), ..Cleanup::default() }
    }

    fn directory(path: &Path, rules: DirectoryRules) -> Cleanup {
        let directories = [(rules, set(path))].into();
        Cleanup { uid: geteuid().as_raw(), directories, ..Cleanup::default() }
    }

    /// `top/{file, keep, link -> ../outside, inner/{file, deeper/}}` beside `outside/precious`.
    fn tree() -> (tempfile::TempDir, PathBuf) {
        // The directory for temporary files may be a link.
        let directory = tempfile::tempdir_in(std::env::temp_dir().canonicalize().unwrap()).unwrap();
        let top = directory.path().join("top");
        fs::create_dir_all(top.join("inner/deeper")).unwrap();
        fs::create_dir(directory.path().join("outside")).unwrap();
        for file in ["top/file", "top/keep", "top/inner/file", "outside/precious"] {
            fs::write(directory.path().join(file), "").unwrap();
        }
        symlink(directory.path().join("outside"), top.join("link")).unwrap();
        (directory, top)
    }

    /// Does it; what failed.
    fn clean(cleanup: &Cleanup) -> Vec<Errno> {
        let failures = perform(cleanup, &NEVER);
        failures.first.into_iter().map(|(_, errno)| errno).collect()
    }

    #[test]
    fn a_tree_vanishes_and_what_its_links_point_to_stays() {
        let (place, top) = tree();
        let mut cleaner = Cleaner::default();
        cleaner.order(directory(&top, RECURSIVE)).unwrap();
        cleaner.finish(FINISH_TIME_MAX);
        assert!(!top.exists());
        assert!(place.path().join("outside/precious").exists());
    }

    #[test]
    fn without_recursion_only_files_go_and_what_is_ignored_stays() {
        let (_place, top) = tree();
        clean(&Cleanup { ignored: set(&top.join("keep")), ..directory(&top, PLAIN) });
        assert!(top.join("keep").exists() && top.join("inner/file").exists());
        assert!(!top.join("file").exists() && !top.join("link").is_symlink());
        clean(&Cleanup { ignored_by_job: set(&top.join("inner")).into(), ..directory(&top, RECURSIVE) });
        assert!(!top.join("keep").exists() && top.join("inner/file").exists());
    }

    #[test]
    fn the_top_stays_if_asked_for_and_only_empty_directories_go_if_asked_for() {
        let (_place, top) = tree();
        clean(&directory(&top, DirectoryRules { only_empty: true, ..RECURSIVE }));
        assert!(!top.join("inner/deeper").exists() && top.join("inner/file").exists() && top.join("file").exists());
        clean(&directory(&top, DirectoryRules { leaves_top: true, ..RECURSIVE }));
        assert!(fs::read_dir(&top).unwrap().next().is_none());
    }

    #[test]
    fn directories_that_hold_each_other_go_from_within() {
        let (_place, top) = tree();
        fs::remove_dir(top.join("inner/deeper")).unwrap();
        let paths = set(&top).into_iter().chain(set(&top.join("inner"))).collect();
        assert_eq!(clean(&Cleanup { directories: [(PLAIN, paths)].into(), ..directory(&top, PLAIN) }), []);
        assert!(!top.exists());
    }

    /// Entries vanish while they are read.
    #[test]
    fn a_directory_that_takes_more_than_one_reading_is_emptied() {
        let (_place, top) = tree();
        for number in 0..5000 {
            fs::write(top.join(format!("a file with a name that takes some room {number}")), "").unwrap();
        }
        assert_eq!(clean(&directory(&top, RECURSIVE)), []);
        assert!(!top.exists());
    }

    #[test]
    fn a_link_in_the_place_of_a_directory_or_file_is_not_followed() {
        let (place, top) = tree();
        let link = top.join("link");
        assert_eq!(clean(&directory(&link, RECURSIVE)), [Errno::ENOTDIR]);
        assert!(place.path().join("outside/precious").exists());
        assert_eq!(clean(&file(&link)), []);
        assert!(!link.is_symlink() && place.path().join("outside/precious").exists());
    }

    /// Only the last component was looked at: whoever could exchange a directory further up for a link chose what was
    /// removed.
    #[test]
    fn a_link_among_the_parents_is_not_followed() {
        let (place, top) = tree();
        let precious = top.join("link/precious");
        assert!(precious.exists());
        assert_eq!(clean(&file(&precious)), [Errno::ENOTDIR]);
        fs::create_dir(place.path().join("outside/inner")).unwrap();
        assert_eq!(clean(&directory(&top.join("link/inner"), RECURSIVE)), [Errno::ENOTDIR]);
        assert_eq!(clean(&file(&top.join("inner/../file"))), [Errno::EINVAL]);
        assert!(precious.exists() && place.path().join("outside/inner").exists() && top.join("file").exists());
    }

    /// Root took on the ids of others for it.
    #[test]
    fn nothing_is_done_in_the_name_of_others() {
        let (_place, top) = tree();
        let uid = geteuid().as_raw() + 1;
        assert_eq!(clean(&Cleanup { uid, ..file(&top.join("file")) }), [Errno::EPERM]);
        assert!(top.join("file").exists());
    }

    /// Nobody but root can make such files; others look at what is always root's.
    #[test]
    fn what_belongs_to_others_stays() {
        if !geteuid().is_root() {
            assert_eq!(clean(&directory(Path::new("/proc/sys"), RECURSIVE)), [Errno::EPERM]);
            assert_eq!(clean(&file(Path::new("/proc/version"))), [Errno::EPERM]);
            return;
        }
        let (_place, top) = tree();
        for path in [top.join("file"), top.join("inner")] {
            std::os::unix::fs::chown(path, Some(12_345), None).unwrap();
        }
        assert_eq!(clean(&file(&top.join("file"))), [Errno::EPERM]);
        assert_eq!(clean(&directory(&top.join("inner"), RECURSIVE)), [Errno::EPERM]);
        assert_eq!(clean(&directory(&top, RECURSIVE)), [Errno::EPERM; 2]);
        assert!(top.join("inner/file").exists() && top.join("file").exists());
    }

    /// Each entry had a warning of its own.
    #[test]
    fn failures_are_told_one_by_one_up_to_a_bound() {
        let files = (0..=FAILURES_MAX).map(|number| format!("/proc/{number}/..")).collect();
        let failures = perform(&Cleanup { files, ..file(Path::new("/")) }, &NEVER);
        assert_eq!((failures.first.len(), failures.are_more), (FAILURES_MAX, true));
    }

    #[test]
    fn nothing_more_is_removed_when_time_is_up() {
        let (_place, top) = tree();
        let failures = perform(&directory(&top, RECURSIVE), &AtomicBool::new(true));
        assert_eq!(failures.first[0].1, Errno::ECANCELED);
        assert!(top.join("file").exists());
    }

    /// The end of a server waited for as long as a removal took, and the queue had no bound.
    #[test]
    fn a_removal_that_does_not_end_holds_neither_the_end_nor_memory() {
        let (release, held) = bounded::<()>(0);
        let stuck = move |_: &Cleanup, _: &AtomicBool| {
            let _ = held.recv();
            Failures::default()
        };
        let mut cleaner = Cleaner(Some(start(stuck).unwrap()));
        let path = "/".repeat(QUEUED_BYTES_MAX / 2);
        let mut taken = 0;
        while cleaner.order(Cleanup { files: [path.clone()].into(), ..Cleanup::default() }).is_ok() {
            taken += 1;
        }
        assert_eq!(taken, 2);
        let shared = Arc::clone(&cleaner.0.as_ref().unwrap().shared);
        cleaner.finish(Duration::ZERO);
        assert!(shared.is_given_up.load(Ordering::Relaxed) && cleaner.0.is_none());
        drop(release);
    }
}
