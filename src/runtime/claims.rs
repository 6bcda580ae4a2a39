//! Names that are claimed a second time: who of those under the same name is no family of the new one.
//!
//! Over TCP that takes a search of all processes of the user, which is done on a thread of its own. The introduction waits.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use crossbeam::channel::{Sender, bounded};

use super::commands::{Command, CommandSender};
use super::connections::Connections;
use super::threads::spawn;
use super::witness::Witness;
use crate::ptl::{self, PeerEnd};
use crate::server::{Input, PeerId};
use crate::types::{ProcId, Time};

/// Looks at processes for those who come by a name that is taken, and not too often.
pub(super) struct Claims {
    commands: CommandSender,
    /// To the thread that searches. It is started by the first search.
    searches: Option<Sender<Search>>,
    /// Introductions that wait for a search.
    waiting: BTreeMap<PeerId, Input>,
    search_count: u32,
    /// When the count begins anew.
    period_end: Option<Time>,
}

/// Who is to be compared with the process behind a new connection.
struct Search {
    peer: PeerId,
    claimant: PeerEnd,
    others: Vec<(PeerId, PeerEnd)>,
}

impl Search {
    fn strangers(&self) -> BTreeSet<PeerId> {
        let ends: Vec<PeerEnd> = self.others.iter().map(|(_, end)| *end).collect();
        let told = ptl::strangers(self.claimant, &ends);
        self.others.iter().zip(told).filter_map(|((other, _), is_stranger)| is_stranger.then_some(*other)).collect()
    }

    /// Whether all processes of a user have to be looked at.
    fn is_long(&self) -> bool {
        let mut ends = self.others.iter().map(|(_, end)| end).chain([&self.claimant]);
        ends.any(|end| matches!(end, PeerEnd::Socket { .. }))
    }
}

impl Claims {
    pub(super) const fn new(commands: CommandSender) -> Self {
        Self { commands, searches: None, waiting: BTreeMap::new(), search_count: 0, period_end: None }
    }

    /// Notes in an introduction which others under its name are strangers to it. Without others nothing is looked at.
    /// `None`: the introduction comes later, from [`Claims::settle`], or its connection was lost before.
    pub(super) fn examine(
        &mut self,
        mut input: Input,
        connections: &Connections,
        witness: &Witness,
        now: Time,
    ) -> Option<Input> {
        if let Input::Lost(peer) = &input
            && self.waiting.remove(peer).is_some()
        {
            return None;
        }
        let Some((peer, proc, strangers)) = claim(&mut input) else { return Some(input) };
        let others = witness.namesakes(peer, proc).into_iter().take(NAMESAKES_MAX);
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
            tracing::debug!(peer = peer.0, "too many claims to look at; whose child this is stays unknown");
            return Some(input);
        }
        self.waiting.insert(peer, input);
        None
    }

    /// The result of a search. The introduction that waited for it, unless its connection is gone.
    pub(super) fn settle(&mut self, peer: PeerId, found: BTreeSet<PeerId>) -> Option<Input> {
        let mut input = self.waiting.remove(&peer)?;
        if let Some((_, _, strangers)) = claim(&mut input) {
            *strangers = found;
        }
        Some(input)
    }

    /// Gives the thread something to do, if it can.
    fn search(&mut self, search: Search) -> bool {
        let searches = match self.searches.take() {
            Some(searches) => Ok(searches),
            None => self.start(),
        };
        match searches {
            Ok(searches) => self.searches.insert(searches).try_send(search).is_ok(),
            Err(error) => {
                tracing::warn!(%error, "no thread to search for the process behind a connection");
                false
            }
        }
    }

    fn start(&self) -> io::Result<Sender<Search>> {
        let (searches, receiver) = bounded::<Search>(SEARCHES_WAITING_MAX);
        let commands = self.commands.clone();
        spawn("modex-claims", move || {
            for search in receiver {
                // A server that has ended wants none.
                let _ = commands.send(Command::Searched(search.peer, search.strangers()));
            }
        })?;
        Ok(searches)
    }

    /// Whether all of a user's processes may be looked at once more.
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

/// Those under one name that are looked at: any of them that is family lets the new one in, so more would let in more.
const NAMESAKES_MAX: usize = 64;
/// Each search may take 0.2 s of a processor; beyond these nothing is known of whoever claims a name.
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
    use crate::runtime::commands::CommandReceiver;
    use crate::runtime::poller::{Poller, Token, Waker};
    use crate::server::{Credentials, Hello, StoreOffer, Version};
    use crate::types::Namespace;

    fn claims() -> (Claims, CommandReceiver) {
        let poller = Poller::new().unwrap();
        let (commands, receiver) = CommandSender::new(Waker::new(&poller, Token(0)).unwrap());
        (Claims::new(commands), receiver)
    }

    #[test]
    fn processes_are_searched_so_many_times_in_a_period() {
        let (mut claims, _receiver) = claims();
        let start = Time::from_nanos(7);
        assert!((0..SEARCHES_PER_PERIOD_MAX).all(|_| claims.may_search(start)));
        assert!(!claims.may_search(start));
        assert!(claims.may_search(start + PERIOD));
    }

    /// A second connection of a rank over TCP had the server's own thread look at up to 16,384 processes and descriptors. All
    /// clients waited for 169 ms. Now the result comes as a command, and the introduction waits alone.
    #[test]
    fn a_search_is_done_beside_the_loop() {
        let (mut claims, receiver) = claims();
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
            version: Version { major: 5, minor: 0 },
            strangers: BTreeSet::new(),
        };
        assert!(claims.search(search));
        claims.waiting.insert(PeerId(3), Input::Connected(PeerId(3), hello));
        let command = std::iter::from_fn(|| Some(receiver.take())).flatten().next();
        let Some(Command::Searched(peer, strangers)) = command else { panic!("no result") };
        assert_eq!((peer, strangers.contains(&PeerId(4))), (PeerId(3), false), "a process is family of itself");
        assert!(matches!(claims.settle(peer, strangers), Some(Input::Connected(PeerId(3), _))));
        assert!(claims.settle(peer, BTreeSet::new()).is_none());
    }
}
