use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::runtime::shared::clock::wait_ms;

/// Names a descriptor; chosen at its registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token(pub u64);

/// Waits for descriptors to become ready (level-triggered `epoll`). One thread may wait while others change the
/// descriptors.
#[derive(Debug)]
pub struct Poller {
    epoll: Epoll,
}

/// The pollers of a server.
#[derive(Clone, Debug)]
pub struct Pollers {
    /// Watches everything, the other poller included.
    pub main: Arc<Poller>,
    /// Watches the listeners and the connections without an introduction. A turn takes only some of its descriptors, so
    /// newcomers can't delay the requests of others.
    pub newcomers: Arc<Poller>,
}

impl Pollers {
    /// Makes the pollers; `token` reports that newcomers are ready.
    pub fn new(token: Token) -> Result<Self, Errno> {
        let (main, newcomers) = (Poller::new()?, Poller::new()?);
        main.watch(&newcomers, token)?;
        Ok(Self { main: Arc::new(main), newcomers: Arc::new(newcomers) })
    }
}

/// The state of a ready descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    pub token: Token,
    /// Bytes, a connection, or the end can be read.
    pub is_readable: bool,
    /// There is room for bytes.
    pub is_writable: bool,
}

/// The events of a descriptor that the poller reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    pub readable: bool,
    pub writable: bool,
}

impl Default for Interest {
    fn default() -> Self {
        Self { readable: true, writable: false }
    }
}

impl Poller {
    pub fn new() -> Result<Self, Errno> {
        Ok(Self { epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)? })
    }

    pub fn watch(&self, descriptor: impl AsFd, token: Token) -> Result<(), Errno> {
        self.watch_for(descriptor, token, Interest::default())
    }

    pub fn watch_for(&self, descriptor: impl AsFd, token: Token, interest: Interest) -> Result<(), Errno> {
        self.epoll.add(descriptor, event(token, interest))
    }

    /// Changes the reported events of `descriptor`. Its end is always reported.
    pub fn rewatch(&self, descriptor: impl AsFd, token: Token, interest: Interest) -> Result<(), Errno> {
        self.epoll.modify(descriptor, &mut event(token, interest))
    }

    pub fn forget(&self, descriptor: impl AsFd) -> Result<(), Errno> {
        self.epoll.delete(descriptor)
    }

    /// Waits until something is ready or the time is over. A signal ends the wait early with nothing ready.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<Vec<Readiness>, Errno> {
        let mut events = [EpollEvent::empty(); EVENTS_PER_TURN];
        let count = self.wait_for(&mut events, timeout)?;
        Ok(events.iter().take(count).map(readiness).collect())
    }

    /// Takes one ready descriptor without waiting. The kernel reports it again after the other ready ones.
    pub fn next(&self) -> Result<Option<Readiness>, Errno> {
        let mut events = [EpollEvent::empty()];
        let count = self.wait_for(&mut events, Some(Duration::ZERO))?;
        Ok(events.first().filter(|_| count > 0).map(readiness))
    }

    fn wait_for(&self, events: &mut [EpollEvent], timeout: Option<Duration>) -> Result<usize, Errno> {
        let timeout = EpollTimeout::try_from(wait_ms(timeout)).unwrap_or(EpollTimeout::MAX);
        match self.epoll.wait(events, timeout) {
            Err(Errno::EINTR) => Ok(0),
            result => result,
        }
    }
}

/// A poller is ready when one of its descriptors is.
impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}

fn event(token: Token, interest: Interest) -> EpollEvent {
    let flag = |flag, is_wanted| if is_wanted { flag } else { EpollFlags::empty() };
    let flags = flag(EpollFlags::EPOLLIN, interest.readable) | flag(EpollFlags::EPOLLOUT, interest.writable);
    EpollEvent::new(flags, token.0)
}

fn readiness(event: &EpollEvent) -> Readiness {
    let ended = EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR;
    Readiness {
        token: Token(event.data()),
        is_readable: event.events().intersects(EpollFlags::EPOLLIN | ended),
        is_writable: event.events().intersects(EpollFlags::EPOLLOUT),
    }
}

/// Wakes a [`Poller`] from another thread. Clones wake the same one.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Bell>);

#[derive(Debug)]
struct Bell {
    event: EventFd,
    /// Whether it has been rung since the last reset: ringing again would only cost a system call.
    is_rung: AtomicBool,
}

impl Waker {
    pub fn new(poller: &Poller, token: Token) -> Result<Self, Errno> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        poller.watch(&event, token)?;
        Ok(Self(Arc::new(Bell { event, is_rung: AtomicBool::new(false) })))
    }

    /// Makes the poller's current or next wait return.
    pub fn wake(&self) {
        // AcqRel, here and in `reset`: a thread that finds it rung has queued its work before the poller's next
        // `reset`. The `reset` reads the value written here, so the poller sees the work.
        if !self.0.is_rung.swap(true, Ordering::AcqRel) {
            // Fails only when the counter is full, and then the poller wakes anyway.
            while self.0.event.write(1) == Err(Errno::EINTR) {}
        }
    }

    /// Forgets past wakes. The caller must look afterwards at all work queued before.
    pub fn reset(&self) {
        let _ = self.0.event.read();
        self.0.is_rung.swap(false, Ordering::AcqRel);
    }
}

/// Descriptors per turn; the others are reported in the next turn. More would let a waiting request wait for all of
/// them.
pub const EVENTS_PER_TURN: usize = 16;

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_wake_is_seen_once_and_then_forgotten() {
        let poller = Poller::new().unwrap();
        let waker = Waker::new(&poller, Token(9)).unwrap();
        waker.clone().wake();
        waker.wake();
        let ready = poller.wait(None).unwrap();
        assert_eq!(ready, [Readiness { token: Token(9), is_readable: true, is_writable: false }]);
        waker.reset();
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap(), []);
        waker.wake();
        assert_eq!(poller.wait(None).unwrap(), ready, "it can be woken again");
    }

    #[test]
    fn newcomers_are_reported_together_and_taken_in_turn() {
        let pollers = Pollers::new(Token(9)).unwrap();
        let waiting: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
        for (number, (ours, theirs)) in waiting.iter().enumerate() {
            pollers.newcomers.watch(ours, Token(u64::try_from(number).unwrap())).unwrap();
            (&*theirs).write_all(b"x").unwrap();
        }
        let ready = pollers.main.wait(None).unwrap();
        assert_eq!(ready, [Readiness { token: Token(9), is_readable: true, is_writable: false }]);
        let taken: Vec<_> =
            (0..6).filter_map(|_| pollers.newcomers.next().unwrap()).map(|ready| ready.token.0).collect();
        assert_eq!(taken, [0, 1, 2, 0, 1, 2]);
        waiting.iter().for_each(|(ours, _)| pollers.newcomers.forget(ours).unwrap());
        assert_eq!(pollers.newcomers.next().unwrap(), None);
        assert_eq!(pollers.main.wait(Some(Duration::ZERO)).unwrap(), []);
    }

    #[test]
    fn readiness_is_reported_only_while_it_is_wanted() {
        let poller = Poller::new().unwrap();
        let (a, mut b) = UnixStream::pair().unwrap();
        poller.watch(&a, Token(1)).unwrap();
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap(), []);
        poller.rewatch(&a, Token(1), Interest { readable: true, writable: true }).unwrap();
        assert!(poller.wait(None).unwrap()[0].is_writable);
        poller.rewatch(&a, Token(1), Interest { readable: false, writable: false }).unwrap();
        b.write_all(b"x").unwrap();
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap(), []);
        poller.rewatch(&a, Token(1), Interest::default()).unwrap();
        assert_eq!(poller.wait(None).unwrap(), [Readiness { token: Token(1), is_readable: true, is_writable: false }]);
        poller.forget(&a).unwrap();
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap(), []);
    }

    #[test]
    fn the_end_of_a_peer_is_readable() {
        let poller = Poller::new().unwrap();
        let (a, b) = UnixStream::pair().unwrap();
        poller.watch(&a, Token(1)).unwrap();
        drop(b);
        assert!(poller.wait(None).unwrap()[0].is_readable);
    }
}
