//! Processes that end while their connection does not: a copy of one (a `fork` without `exec`) holds the socket open, and
//! never says anything on it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use nix::sys::resource::{Resource, getrlimit};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

use super::poller::{Poller, Token};
use crate::server::PeerId;

/// Has the poller tell when processes end (`pidfd_open`, Linux 5.3). What can't be watched is not: then the end of a process
/// is that of its connection.
#[derive(Debug)]
pub(super) struct ProcessEnds {
    watched: BTreeMap<PeerId, OwnedFd>,
    watched_max: usize,
}

/// What is known of a process that has connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Liveness {
    /// It has ended already.
    Ended,
    /// It lives, or nobody can tell.
    Assumed,
}

impl ProcessEnds {
    /// Nobody is watched. The server's own process needs the most of its descriptors for other things.
    pub(super) fn new() -> Self {
        let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or_default();
        Self { watched: BTreeMap::new(), watched_max: usize::try_from(soft).unwrap_or(usize::MAX) / DESCRIPTORS_SHARE }
    }

    /// Watches the process behind a connection.
    pub(super) fn watch(&mut self, peer: PeerId, pid: Option<u32>, poller: &Poller) -> Liveness {
        let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)).filter(|pid| *pid != getpid());
        let Some(pid) = pid.filter(|_| self.watched.len() < self.watched_max) else { return Liveness::Assumed };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => {
                if poller.watch(&process, Token(peer.0 | OF_PROCESS)).is_ok() {
                    self.watched.insert(peer, process);
                }
                Liveness::Assumed
            }
            Err(Errno::SRCH) => Liveness::Ended,
            Err(_) => Liveness::Assumed,
        }
    }

    /// If this is for want of a descriptor, there are more important things to have one for: from now on nobody is watched.
    /// Whether that set any free.
    pub(super) fn give_way(&mut self, error: &io::Error, poller: &Poller) -> bool {
        if !matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE)) {
            return false;
        }
        self.watched_max = 0;
        let watched = std::mem::take(&mut self.watched);
        for process in watched.values() {
            let _ = poller.forget(process);
        }
        !watched.is_empty()
    }

    /// Whose process has ended, if that is what the poller told.
    pub(super) fn whose(token: Token) -> Option<PeerId> {
        (token.0 & OF_PROCESS != 0).then_some(PeerId(token.0 & !OF_PROCESS))
    }

    pub(super) fn forget(&mut self, peer: PeerId, poller: &Poller) {
        if let Some(process) = self.watched.remove(&peer) {
            // By hand: a copy of this process may have the descriptor, too, so that closing it would not end the watch.
            let _ = poller.forget(process);
        }
    }
}

/// Tells the tokens of processes from those of their connections.
const OF_PROCESS: u64 = 1 << 63;
/// What part of the descriptors that this process may have is spent here.
const DESCRIPTORS_SHARE: usize = 4;

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::Duration;

    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("600").spawn().unwrap()
    }

    #[test]
    fn the_poller_tells_whose_process_has_ended_and_nothing_once_it_is_forgotten() {
        let mut poller = Poller::new().unwrap();
        let mut ends = ProcessEnds::new();
        let mut children = [sleeper(), sleeper()];
        for (child, peer) in children.iter().zip([PeerId(3), PeerId(4)]) {
            assert_eq!(ends.watch(peer, Some(child.id()), &poller), Liveness::Assumed);
        }
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap(), []);
        children[1].kill().unwrap();
        let told = poller.wait(None).unwrap();
        assert_eq!(told.iter().map(|told| ProcessEnds::whose(told.token)).collect::<Vec<_>>(), [Some(PeerId(4))]);
        ends.forget(PeerId(4), &poller);
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap(), []);
        children[0].kill().unwrap();
        children.iter_mut().for_each(|child| assert!(!child.wait().unwrap().success()));
        assert_eq!(ends.watch(PeerId(5), Some(children[0].id()), &poller), Liveness::Ended);
    }

    #[test]
    fn no_descriptor_is_spent_on_this_process_on_one_nobody_knows_and_on_too_many() {
        let poller = Poller::new().unwrap();
        let mut ends = ProcessEnds { watched_max: 1, ..ProcessEnds::new() };
        let mut child = sleeper();
        for pid in [None, Some(std::process::id()), Some(0), Some(u32::MAX)] {
            assert_eq!(ends.watch(PeerId(3), pid, &poller), Liveness::Assumed);
            assert!(ends.watched.is_empty());
        }
        for peer in [PeerId(3), PeerId(4)] {
            assert_eq!(ends.watch(peer, Some(child.id()), &poller), Liveness::Assumed);
            assert_eq!(ends.watched.len(), 1);
        }
        let gone = io::Error::from(Errno::CONNABORTED);
        assert!(!ends.give_way(&gone, &poller) && ends.watched.len() == 1);
        let full = io::Error::from(Errno::MFILE);
        assert!(ends.give_way(&full, &poller) && !ends.give_way(&full, &poller));
        assert_eq!(ends.watch(PeerId(5), Some(child.id()), &poller), Liveness::Assumed);
        assert!(ends.watched.is_empty());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
