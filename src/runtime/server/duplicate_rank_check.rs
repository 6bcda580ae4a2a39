//! Names that are claimed a second time: finds the connections of that name whose processes are strangers to the new
//! one.
//!
//! Over TCP this takes a search through all processes of the user, on a separate thread. The introduction waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use crossbeam::channel::{Sender, bounded};

use super::connections::Connections;
use super::lifecycle_observer::LifecycleObserver;
use super::loop_messages::{LoopMessage, LoopSender};
use crate::ptl::{self, PeerEnd};
use crate::runtime::shared::threads::spawn;
use crate::server::{Input, PeerId};
use crate::types::{ProcId, Time};

/// Searches for strangers when a name is claimed again, with a limit on the number of searches.
pub(super) struct DuplicateRankCheck {
    loop_sender: LoopSender,
    /// Queue of the searching thread. The first search starts it.
    searches: Option<Sender<Search>>,
    /// Introductions that wait for a search.
    waiting: BTreeMap<PeerId, Input>,
    search_count: u32,
    /// The end of the counting period.
    period_end: Option<Time>,
}

/// The connections to compare with the process of a new one.
struct Search {
    peer: PeerId,
    claimant: PeerEnd,
    others: Vec<(PeerId, PeerEnd)>,
}

impl Search {
    fn strangers(&self) -> BTreeSet<PeerId> {
        let ends: Vec<PeerEnd> = self.others.iter().map(|(_, end)| *end).collect();
        let are_strangers = ptl::strangers(self.claimant, &ends);
        self.others
            .iter()
            .zip(are_strangers)
            .filter_map(|((other, _), is_stranger)| is_stranger.then_some(*other))
            .collect()
    }

    /// Whether the search goes through all processes of a user.
    fn is_long(&self) -> bool {
        let mut ends = self.others.iter().map(|(_, end)| end).chain([&self.claimant]);
        ends.any(|end| matches!(end, PeerEnd::Socket { .. }))
    }
}

impl DuplicateRankCheck {
    pub(super) const fn new(loop_sender: LoopSender) -> Self {
        Self { loop_sender, searches: None, waiting: BTreeMap::new(), search_count: 0, period_end: None }
    }

    /// Adds the strangers of the same name to an introduction. `None`: the introduction comes later from
    /// [`DuplicateRankCheck::settle`], or its connection was lost before.
    pub(super) fn examine(
        &mut self,
        mut input: Input,
        connections: &Connections,
        lifecycle_observer: &LifecycleObserver,
        now: Time,
    ) -> Option<Input> {
        if let Input::Lost(peer) = &input
            && self.waiting.remove(peer).is_some()
        {
            return None;
        }
        let Some((peer, proc, strangers)) = claim(&mut input) else { return Some(input) };
        let others = lifecycle_observer.namesakes(peer, proc).into_iter().take(NAMESAKES_MAX);
        let others: Vec<_> = others.map(|other| (other, connections.peer_end(other))).collect();
        let search = Search { peer, claimant: connections.peer_end(peer), others };
        if search.others.is_empty() {
            return Some(input);
        }
        if !search.is_long() {
            *strangers = search.strangers();
            return Some(input);
        }
        if !self.may_search(now) || !self.search(search) {
            tracing::debug!(peer = peer.0, "too many claims of taken names; the ancestry stays unchecked");
            return Some(input);
        }
        self.waiting.insert(peer, input);
        None
    }

    /// Takes the result of a search. Returns the introduction that waited for it, unless its connection is gone.
    pub(super) fn settle(&mut self, peer: PeerId, found: BTreeSet<PeerId>) -> Option<Input> {
        let mut input = self.waiting.remove(&peer)?;
        if let Some((_, _, strangers)) = claim(&mut input) {
            *strangers = found;
        }
        Some(input)
    }

    /// Gives a search to the thread, if possible.
    fn search(&mut self, search: Search) -> bool {
        let searches = match self.searches.take() {
            Some(searches) => Ok(searches),
            None => self.start(),
        };
        match searches {
            Ok(searches) => self.searches.insert(searches).try_send(search).is_ok(),
            Err(error) => {
                tracing::warn!(%error, "no thread can be started to find the process of a connection");
                false
            }
        }
    }

    fn start(&self) -> io::Result<Sender<Search>> {
        let (searches, receiver) = bounded::<Search>(SEARCHES_WAITING_MAX);
        let loop_sender = self.loop_sender.clone();
        spawn("modex-claims", move || {
            for search in receiver {
                // A server that has ended needs no result.
                let _ = loop_sender.send(LoopMessage::Searched(search.peer, search.strangers()));
            }
        })?;
        Ok(searches)
    }

    /// Whether another long search is allowed now.
    fn may_search(&mut self, now: Time) -> bool {
        if self.period_end.is_none_or(|end| end <= now) {
            (self.search_count, self.period_end) = (0, Some(now + PERIOD));
        }
        self.search_count = self.search_count.saturating_add(1);
        self.search_count <= SEARCHES_PER_PERIOD_MAX
    }
}

fn claim(input: &mut Input) -> Option<(PeerId, &ProcId, &mut BTreeSet<PeerId>)> {
    match input {
        Input::Connected(peer, hello) => Some((*peer, &hello.proc, &mut hello.strangers)),
        Input::ToolConnected(peer, hello) => Some((*peer, hello.claimed.as_ref()?, &mut hello.strangers)),
        _ => None,
    }
}

/// Compared connections of one name: a relative among them lets the new one in, so more would admit more.
const NAMESAKES_MAX: usize = 64;
/// Each search may take 0.2 s of a processor. Above the limit, claims are not searched.
const SEARCHES_PER_PERIOD_MAX: u32 = 4;
const PERIOD: Duration = Duration::from_secs(1);
/// Searches that may wait for the thread.
const SEARCHES_WAITING_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use nix::sys::stat::fstat;
    use nix::unistd::geteuid;

    use super::*;
    use crate::proto::Version;
    use crate::runtime::server::loop_messages::LoopReceiver;
    use crate::runtime::server::poller::{Poller, Token, Waker};
    use crate::server::{Credentials, Hello, StoreOffer};
    use crate::types::Namespace;

    fn duplicate_rank_check() -> (DuplicateRankCheck, LoopReceiver) {
        let poller = Poller::new().unwrap();
        let (loop_sender, receiver) = LoopSender::new(Waker::new(&poller, Token(0)).unwrap());
        (DuplicateRankCheck::new(loop_sender), receiver)
    }

    #[test]
    fn processes_are_searched_so_many_times_in_a_period() {
        let (mut duplicate_rank_check, _receiver) = duplicate_rank_check();
        let start = Time::from_nanos(7);
        assert!((0..SEARCHES_PER_PERIOD_MAX).all(|_| duplicate_rank_check.may_search(start)));
        assert!(!duplicate_rank_check.may_search(start));
        assert!(duplicate_rank_check.may_search(start + PERIOD));
    }

    /// A second connection of a rank over TCP made the server's own thread look at up to 16,384 processes and
    /// descriptors. All clients waited for 169 ms. Now the result comes as a message, and only the introduction waits.
    #[test]
    fn a_search_is_done_beside_the_loop() {
        let (mut duplicate_rank_check, receiver) = duplicate_rank_check();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = PeerEnd::Socket { inode: fstat(&client).unwrap().st_ino, uid: geteuid().as_raw() };
        let init = PeerEnd::Process(1);
        let others = vec![(PeerId(4), PeerEnd::Process(std::process::id())), (PeerId(5), init)];
        let search = Search { peer: PeerId(3), claimant: socket, others };
        assert!(search.is_long());
        let hello = Hello {
            proc: ProcId::new(Namespace::new("job").unwrap(), 0),
            credentials: Credentials { uid: 0, gid: 0 },
            store: StoreOffer::Socket,
            version: Version::new(5, 0, 0),
            strangers: BTreeSet::new(),
        };
        assert!(duplicate_rank_check.search(search));
        duplicate_rank_check.waiting.insert(PeerId(3), Input::Connected(PeerId(3), hello));
        let message = std::iter::from_fn(|| Some(receiver.take())).flatten().next();
        let Some(LoopMessage::Searched(peer, strangers)) = message else { panic!("no result") };
        assert_eq!((peer, strangers.contains(&PeerId(4))), (PeerId(3), false), "a process is family of itself");
        assert!(matches!(duplicate_rank_check.settle(peer, strangers), Some(Input::Connected(PeerId(3), _))));
        assert!(duplicate_rank_check.settle(peer, BTreeSet::new()).is_none());
    }
}
