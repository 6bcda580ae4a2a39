use std::process;
use std::ptr::NonNull;

use memmap2::{MmapMut, MmapOptions};
use nix::sys::mman::{MmapAdvise, madvise};

/// Distinguishes the process that made it from its forks, without a system call.
///
/// It is a page that the kernel empties in a fork (`MADV_WIPEONFORK`, Linux 4.14). Without such a page it compares
/// process ids.
#[derive(Debug)]
pub struct ForkMark {
    page: Option<MmapMut>,
    maker_pid: u32,
}

impl ForkMark {
    /// A mark of this process.
    #[expect(clippy::new_without_default, reason = "each is another one")]
    #[must_use]
    pub fn new() -> Self {
        Self { page: marked_page(), maker_pid: process::id() }
    }

    /// A mark in the state that a fork sees.
    #[cfg(test)]
    pub(crate) const fn of_a_parent() -> Self {
        Self { page: None, maker_pid: 0 }
    }

    /// Whether this process made the mark; `false` in a fork of the maker.
    #[must_use]
    pub fn is_of_this_process(&self) -> bool {
        let Some(page) = &self.page else { return process::id() == self.maker_pid };
        // SAFETY: the page is mapped while it is borrowed and has at least one byte. The compiler can't see that the
        // kernel empties it, so the read is a volatile one.
        unsafe { page.as_ptr().read_volatile() != 0 }
    }
}

fn marked_page() -> Option<MmapMut> {
    let mut page = MmapOptions::new().len(1).map_anon().ok()?;
    let start = NonNull::new(page.as_mut_ptr())?.cast();
    // SAFETY: there is no such advice; nothing is done.
    if unsafe { nix::libc::madvise(start.as_ptr(), page.len(), -1) } == 0 {
        // An emulator (qemu) accepts any advice, so its answer proves nothing.
        return None;
    }
    // SAFETY: the page is this function's own, and the advice changes nothing in this process.
    unsafe { madvise(start, page.len(), MmapAdvise::MADV_WIPEONFORK) }.ok()?;
    *page.first_mut()? = 1;
    Some(page)
}

#[cfg(test)]
mod tests {
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};

    use super::*;

    /// The answer of a fork: its exit code.
    fn said_by_a_fork(mark: &ForkMark) -> i32 {
        // SAFETY: the child looks at one byte, or asks for its number, and ends.
        match unsafe { fork() }.unwrap() {
            // SAFETY: `_exit` ends the child without touching the copied state of the parent.
            ForkResult::Child => unsafe { nix::libc::_exit(i32::from(mark.is_of_this_process())) },
            ForkResult::Parent { child } => match waitpid(child, None).unwrap() {
                WaitStatus::Exited(_, code) => code,
                status => panic!("the fork ended with {status:?}"),
            },
        }
    }

    #[test]
    fn a_fork_knows_that_it_is_one_with_a_page_and_without() {
        let with_page = ForkMark::new();
        assert!(with_page.page.is_some(), "Linux 4.14 and later have such pages");
        let without = ForkMark { page: None, maker_pid: process::id() };
        for mark in [with_page, without] {
            assert!(mark.is_of_this_process());
            assert_eq!(said_by_a_fork(&mark), 0);
            assert!(mark.is_of_this_process(), "a fork changed its parent's mark");
        }
    }
}
