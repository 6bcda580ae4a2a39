//! Two threads that wait for one socket, with only one of them woken.
//!
//! The leader waits for a reply; the progress thread beside it waits for unrequested messages. With plain `poll` every
//! reply would wake both, at the cost of two more switches and a contended lock. So both watch the socket exclusively.
//! The kernel goes through the watchers in the order of their registration, wakes the first sleeping one, and leaves
//! the others asleep. So it wakes the progress thread only without a leader.
//!
//! So a woken thread must read all input, or report the rest: no other thread was woken.

use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};

/// The two watchers of one socket.
#[derive(Debug)]
pub(super) struct Watchers {
    leader: Epoll,
    beside: Epoll,
    /// Ends the wait beside the leader.
    wake: EventFd,
}

impl Watchers {
    pub(super) fn new(socket: BorrowedFd<'_>) -> nix::Result<Self> {
        let leader = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let beside = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let wake = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let exclusively = EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLEXCLUSIVE, 0);
        // The first registered watcher is woken first.
        leader.add(socket, exclusively)?;
        beside.add(socket, exclusively)?;
        beside.add(&wake, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        Ok(Self { leader, beside, wake })
    }

    /// Waits until there is input, for so many milliseconds; -1 is for ever.
    pub(super) fn wait_as_leader(&self, limit_ms: i32) {
        wait(&self.leader, limit_ms);
    }

    /// Waits until there is input and no leader, or until [`Watchers::wake`].
    pub(super) fn wait_beside(&self, limit_ms: i32) {
        wait(&self.beside, limit_ms);
    }

    /// Ends the current or next wait beside the leader.
    pub(super) fn wake(&self) {
        // Fails only when the counter is full, and then the thread wakes anyway.
        while self.wake.write(1) == Err(Errno::EINTR) {}
    }

    /// Forgets past wakes.
    pub(super) fn calm(&self) {
        // Fails if there was no wake.
        let _ = self.wake.read();
    }

    /// A descriptor that becomes readable with [`Watchers::wake`].
    pub(super) const fn wake_descriptor(&self) -> &EventFd {
        &self.wake
    }
}

/// An interrupted or failed wait is a short one: the caller reads the socket anyway.
fn wait(epoll: &Epoll, limit_ms: i32) {
    let limit = EpollTimeout::try_from(limit_ms).unwrap_or(EpollTimeout::MAX);
    let _ = epoll.wait(&mut [EpollEvent::empty()], limit);
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::{Builder, JoinHandle};

    use nix::unistd::{Pid, gettid};

    use super::*;

    fn watched() -> (Arc<Watchers>, UnixStream, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (Arc::new(Watchers::new(ours.as_fd()).unwrap()), ours, theirs)
    }

    /// A thread asleep beside the leader, and whether it has been woken.
    fn sleeper(watchers: &Arc<Watchers>) -> (JoinHandle<()>, Arc<AtomicBool>) {
        let (beside, is_awake) = (Arc::clone(watchers), Arc::<AtomicBool>::default());
        let woken = Arc::clone(&is_awake);
        let (name, ready) = std::sync::mpsc::channel();
        let waiting = Builder::new().spawn(move || {
            name.send(gettid()).unwrap();
            beside.wait_beside(-1);
            woken.store(true, Ordering::SeqCst);
        });
        until_asleep(ready.recv().unwrap());
        (waiting.unwrap(), is_awake)
    }

    /// Waits until a thread sleeps that only waits for the socket.
    fn until_asleep(thread: Pid) {
        let stat = format!("/proc/self/task/{thread}/stat");
        while !std::fs::read_to_string(&stat).unwrap().contains(") S ") {
            std::thread::yield_now();
        }
    }

    /// After a lost wake-up, one of these waits would not end.
    #[test]
    fn bytes_wake_the_leader_if_there_is_one_and_else_the_thread_beside() {
        let (watchers, mut ours, mut theirs) = watched();
        let mut byte = [0];
        for _ in 0..1000 {
            theirs.write_all(&[1]).unwrap();
            watchers.wait_beside(-1);
            ours.read_exact(&mut byte).unwrap();
        }
        let (waiting, is_awake) = sleeper(&watchers);
        let waiters = &watchers;
        for _ in 0..100 {
            let leader = std::thread::scope(|scope| {
                let (name, ready) = std::sync::mpsc::channel();
                let leader = scope.spawn(move || {
                    name.send(gettid()).unwrap();
                    waiters.wait_as_leader(-1);
                });
                until_asleep(ready.recv().unwrap());
                theirs.write_all(&[1]).unwrap();
                leader.join()
            });
            leader.unwrap();
            ours.read_exact(&mut byte).unwrap();
        }
        assert!(!is_awake.load(Ordering::SeqCst), "the thread beside was woken for what a leader waited for");
        watchers.wake();
        waiting.join().unwrap();
        watchers.calm();
        watchers.wait_beside(0);
        drop(theirs);
        watchers.wait_beside(-1);
        watchers.wait_as_leader(-1);
    }
}
