//! Processes that end before their connection does: a copy of the process (a `fork` without `exec`) holds the socket
//! open, but never sends anything.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, RawPid, getpid, pidfd_open};

use super::poller::{Poller, Token};
use crate::server::PeerId;

/// Lets the poller report the ends of processes (`pidfd_open`, Linux 5.3). For a process that can't be watched, the end
/// of its connection counts.
///
/// Uses only descriptors in the lower half of this process's limit. The kernel gives the lowest free number, so at
/// least as many are left for connections and for the host.
///
/// The connections of one process share a descriptor. Otherwise its end would be hundreds of events.
#[derive(Debug, Default)]
pub(super) struct ProcessEnds {
    /// The watched processes, by the first connection of each.
    watched: BTreeMap<PeerId, WatchedProcess>,
    /// The first connection of each connection's process.
    first_of: BTreeMap<PeerId, PeerId>,
    /// The same by process number. A number may be in use again; then it means the newer process.
    by_pid: BTreeMap<RawPid, PeerId>,
}

#[derive(Debug)]
struct WatchedProcess {
    pid: RawPid,
    process: OwnedFd,
    connections: BTreeSet<PeerId>,
}

/// The state of a process that has connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Liveness {
    /// It has ended already.
    Ended,
    /// It lives, or its state is unknown.
    Assumed,
}

impl ProcessEnds {
    /// Watches the process of a connection. The process may have ended before, and its pid may be in use again. Then
    /// the end of another process is reported, but the connection's process has ended, too.
    pub(super) fn watch(&mut self, peer: PeerId, pid: Option<u32>, poller: &Poller) -> Liveness {
        let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)).filter(|pid| *pid != getpid());
        let Some(pid) = pid else { return Liveness::Assumed };
        let number = pid.as_raw_pid();
        if let Some(first) = self.by_pid.get(&number)
            && let Some(watched) = self.watched.get_mut(first).filter(|watched| lives(&watched.process))
        {
            watched.connections.insert(peer);
            self.first_of.insert(peer, *first);
            return Liveness::Assumed;
        }
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => {
                let (limit, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or_default();
                if is_low(process.as_raw_fd(), limit) && poller.watch(&process, Token(peer.0 | OF_PROCESS)).is_ok() {
                    let connections = BTreeSet::from([peer]);
                    self.watched.insert(peer, WatchedProcess { pid: number, process, connections });
                    self.first_of.insert(peer, peer);
                    self.by_pid.insert(number, peer);
                }
                Liveness::Assumed
            }
            Err(Errno::SRCH) => Liveness::Ended,
            Err(_) => Liveness::Assumed,
        }
    }

    /// The first peer of the process that has ended, if the token stands for a process.
    pub(super) const fn whose(token: Token) -> Option<PeerId> {
        if token.0 & OF_PROCESS == 0 { None } else { Some(PeerId(token.0 & !OF_PROCESS)) }
    }

    /// Takes all connections of an ended process, by the first one.
    pub(super) fn take(&mut self, first: PeerId, poller: &Poller) -> BTreeSet<PeerId> {
        let connections = self.watched.get(&first).map(|watched| watched.connections.clone()).unwrap_or_default();
        connections.iter().for_each(|peer| self.forget(*peer, poller));
        connections
    }

    pub(super) fn forget(&mut self, peer: PeerId, poller: &Poller) {
        let Some(first) = self.first_of.remove(&peer) else { return };
        let Some(watched) = self.watched.get_mut(&first) else { return };
        watched.connections.remove(&peer);
        if watched.connections.is_empty()
            && let Some(WatchedProcess { pid, process, .. }) = self.watched.remove(&first)
        {
            if self.by_pid.get(&pid) == Some(&first) {
                self.by_pid.remove(&pid);
            }
            // Explicitly: a copy of this process may hold the descriptor too, so closing it would not end the watch.
            let _ = poller.forget(process);
        }
    }
}

/// Whether a watched process has not ended.
fn lives(process: &OwnedFd) -> bool {
    let mut ends = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    poll(&mut ends, PollTimeout::ZERO) == Ok(0)
}

/// Whether at least as many descriptors are free as in use, given the lowest free number.
fn is_low(number: RawFd, limit: u64) -> bool {
    u64::try_from(number).is_ok_and(|number| number < limit / 2)
}

/// Distinguishes the tokens of processes from those of their connections.
const OF_PROCESS: u64 = 1 << 63;

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
        let poller = Poller::new().unwrap();
        let mut ends = ProcessEnds::default();
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

    /// Each connection had a descriptor and an event of its own.
    #[test]
    fn connections_of_one_process_share_a_descriptor_while_it_lives() {
        let poller = Poller::new().unwrap();
        let mut ends = ProcessEnds::default();
        let mut child = sleeper();
        for peer in [3, 4, 5] {
            assert_eq!(ends.watch(PeerId(peer), Some(child.id()), &poller), Liveness::Assumed);
        }
        assert_eq!(ends.watched.len(), 1);
        ends.forget(PeerId(3), &poller);
        child.kill().unwrap();
        let told = poller.wait(None).unwrap();
        assert_eq!(told.iter().map(|told| ProcessEnds::whose(told.token)).collect::<Vec<_>>(), [Some(PeerId(3))]);
        // The process is not reaped yet, so its number is not free.
        ends.watch(PeerId(6), Some(child.id()), &poller);
        assert_eq!(ends.watched.len(), 2, "an ended process gets no more connections");
        assert_eq!(ends.take(PeerId(3), &poller), BTreeSet::from([PeerId(4), PeerId(5)]));
        assert_eq!(ends.take(PeerId(6), &poller), BTreeSet::from([PeerId(6)]));
        assert!(ends.watched.is_empty() && ends.first_of.is_empty() && ends.by_pid.is_empty());
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap(), []);
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn no_descriptor_is_spent_on_this_process_and_on_one_nobody_knows() {
        let poller = Poller::new().unwrap();
        let mut ends = ProcessEnds::default();
        for pid in [None, Some(std::process::id()), Some(0), Some(u32::MAX)] {
            assert_eq!(ends.watch(PeerId(3), pid, &poller), Liveness::Assumed);
            assert!(ends.watched.is_empty());
        }
    }

    #[test]
    fn the_upper_half_of_the_descriptors_is_for_others() {
        assert!(is_low(511, 1024) && !is_low(512, 1024));
        assert!(!is_low(0, 0) && is_low(RawFd::MAX, nix::libc::RLIM_INFINITY));
    }
}
