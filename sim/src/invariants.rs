//! The checker: one function for each rule. The world reports facts, and the first rule that they break ends the run.

use std::collections::{BTreeMap, BTreeSet};

use modex::proto::Tag;
use modex::server::{HostCallId, PeerId, UpcallId};
use modex::types::{Key, ProcId, Status, Time, Value};

use super::queue::ServerId;
use super::rule::{Broken, Rule};
use super::setup::HOST_TIMEOUT;
use super::value::Stamp;

/// A process looks for a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) reader: u32,
    pub(super) whose: u32,
    pub(super) same_node: bool,
    pub(super) key: u8,
    /// The version that the reader was promised or has seen; 0: none.
    pub(super) floor: u32,
    /// The newest version that was ever put.
    pub(super) newest: u32,
}

/// Open requests and calls, and the first rule that was broken.
#[derive(Debug, Default)]
pub(super) struct Rules {
    open: BTreeMap<(PeerId, Tag), Open>,
    /// Requests for a value of a process on the same server, with the key.
    held: BTreeMap<(ServerId, u32), BTreeMap<(PeerId, Tag), u8>>,
    deadlines: BTreeSet<(Time, PeerId, Tag)>,
    /// Collecting fences at which a connection waits. Its Gets from other nodes may wait for their end.
    fences: BTreeSet<(PeerId, Tag)>,
    calls: BTreeSet<(ServerId, HostCallId)>,
    fetches: BTreeMap<ServerId, BTreeMap<(ProcId, Option<Key>), UpcallId>>,
    broken: Option<Broken>,
}

/// An accepted request.
#[derive(Clone, Copy, Debug)]
struct Open {
    deadline: Option<Time>,
    /// The server and the process of the value that it waits for.
    held: Option<(ServerId, u32)>,
    /// Whether it is a Get without a time limit about a process of another node.
    is_remote_get: bool,
}

/// The tag of a process's introduction, which is answered once like any request.
pub(super) const HELLO: Tag = Tag(0);

impl Rules {
    pub(super) fn breaks(&mut self, rule: Rule, what: impl FnOnce() -> String) {
        if self.broken.is_none() {
            self.broken = Some(Broken { rule, what: what() });
        }
    }

    pub(super) const fn broken(&self) -> Option<&Broken> {
        self.broken.as_ref()
    }

    /// A server took a request.
    pub(super) fn accepted(&mut self, peer: PeerId, tag: Tag, deadline: Option<Time>) {
        if self.open.insert((peer, tag), Open { deadline, held: None, is_remote_get: false }).is_some() {
            self.breaks(Rule::AnsweredOnce, || format!("{peer:?} used {tag:?} for two requests at a time"));
        }
        self.deadlines.extend(deadline.map(|deadline| (deadline, peer, tag)));
    }

    /// An accepted request gets another deadline, because it depends on other participants' requests.
    pub(super) fn bound(&mut self, peer: PeerId, tag: Tag, deadline: Option<Time>) {
        let Some(open) = self.open.get_mut(&(peer, tag)) else { return };
        if let Some(earlier) = std::mem::replace(&mut open.deadline, deadline) {
            self.deadlines.remove(&(earlier, peer, tag));
        }
        self.deadlines.extend(deadline.map(|deadline| (deadline, peer, tag)));
    }

    /// The accepted request is a Get without a time limit about a process of another node.
    pub(super) fn gets_from_afar(&mut self, peer: PeerId, tag: Tag) {
        if let Some(open) = self.open.get_mut(&(peer, tag)) {
            open.is_remote_get = true;
        }
    }

    /// The accepted request is for a collecting fence.
    pub(super) fn fence_begins(&mut self, peer: PeerId, tag: Tag) {
        self.fences.insert((peer, tag));
        self.bound_gets_from_afar(peer, None);
    }

    /// Whether a connection waits at a collecting fence.
    pub(super) fn is_at_fence(&self, peer: PeerId) -> bool {
        self.fences.range((peer, Tag(0))..=(peer, Tag(u32::MAX))).next().is_some()
    }

    fn bound_gets_from_afar(&mut self, peer: PeerId, deadline: Option<Time>) {
        let open = self.open.range((peer, Tag(0))..=(peer, Tag(u32::MAX)));
        let gets: Vec<Tag> = open.filter(|(_, open)| open.is_remote_get).map(|((_, tag), _)| *tag).collect();
        for tag in gets {
            self.bound(peer, tag, deadline);
        }
    }

    /// Every accepted request is answered exactly once. After a fence, the server may ask the host once more.
    pub(super) fn answered(&mut self, now: Time, peer: PeerId, tag: Tag) {
        if self.fences.remove(&(peer, tag)) && !self.is_at_fence(peer) {
            self.bound_gets_from_afar(peer, Some(now + HOST_TIMEOUT));
        }
        match self.open.remove(&(peer, tag)) {
            Some(open) => self.forget(open, peer, tag),
            None => self.breaks(Rule::AnsweredOnce, || {
                format!("a reply to {tag:?} of {peer:?}, which was answered before, never asked, or has ended")
            }),
        }
    }

    /// A connection has ended, and its requests with it.
    pub(super) fn connection_ended(&mut self, peer: PeerId) {
        let ended: Vec<_> =
            self.open.range((peer, Tag(0))..=(peer, Tag(u32::MAX))).map(|(id, at)| (*id, *at)).collect();
        for ((peer, tag), open) in ended {
            self.open.remove(&(peer, tag));
            self.fences.remove(&(peer, tag));
            self.forget(open, peer, tag);
        }
    }

    fn forget(&mut self, open: Open, peer: PeerId, tag: Tag) {
        if let Some(deadline) = open.deadline {
            self.deadlines.remove(&(deadline, peer, tag));
        }
        if let Some(place) = open.held
            && let Some(held) = self.held.get_mut(&place)
        {
            held.remove(&(peer, tag));
            if held.is_empty() {
                self.held.remove(&place);
            }
        }
    }

    /// The accepted request is for a value of a process on the same server.
    pub(super) fn wants_value(&mut self, peer: PeerId, tag: Tag, server: ServerId, whose: u32, key: u8) {
        if let Some(open) = self.open.get_mut(&(peer, tag)) {
            open.held = Some((server, whose));
            self.held.entry((server, whose)).or_default().insert((peer, tag), key);
        }
    }

    /// Nobody waits for a value that is there, or for a value of a process that has gone.
    pub(super) fn values_wanted(&mut self, server: ServerId, is_settled: impl Fn(u32, u8) -> bool) {
        let on_server = self.held.range((server, 0)..=(server, u32::MAX));
        let mut wanted = on_server.flat_map(|((_, whose), held)| held.iter().map(move |(id, key)| (*whose, *key, *id)));
        if let Some((whose, key, (peer, tag))) = wanted.find(|(whose, key, _)| is_settled(*whose, *key)) {
            self.breaks(Rule::NoWaitInVain, || {
                format!("{tag:?} of {peer:?} waits for k{key} of {whose}, which has committed it or has ended")
            });
        }
    }

    /// No process waits at an operation after all possible participants have arrived.
    pub(super) fn operations_lack_somebody(&mut self, server: ServerId, complete: Option<String>) {
        if let Some(what) = complete {
            self.breaks(Rule::NoWaitInVain, || {
                format!("on {server:?} all possible participants have joined and still wait: {what}")
            });
        }
    }

    /// Every accepted request is answered before its deadline.
    pub(super) fn time_passes(&mut self, now: Time) {
        if let Some(&(deadline, peer, tag)) = self.deadlines.first().filter(|(deadline, ..)| *deadline < now) {
            self.breaks(Rule::BeforeDeadline, || {
                format!("{tag:?} of {peer:?} was due {:?} ago and is not answered", now.since(deadline))
            });
        }
    }

    /// The host called a server.
    pub(super) fn host_called(&mut self, server: ServerId, call: HostCallId) {
        self.calls.insert((server, call));
    }

    /// Every call of the host is completed exactly once.
    pub(super) fn host_call_completed(&mut self, server: ServerId, call: HostCallId) {
        if !self.calls.remove(&(server, call)) {
            self.breaks(Rule::AnsweredOnce, || format!("{call:?} of the host of {server:?} was completed twice"));
        }
    }

    /// A server was killed: its open answers no longer count.
    pub(super) fn server_ended(&mut self, server: ServerId) {
        self.calls.retain(|(of, _)| *of != server);
        self.held.retain(|(of, _), _| *of != server);
        self.fetches.remove(&server);
    }

    /// Equal fetches share one upcall.
    pub(super) fn fetching(&mut self, server: ServerId, proc: &ProcId, key: Option<&Key>, upcall: UpcallId) {
        let fetches = self.fetches.entry(server).or_default();
        if fetches.insert((proc.clone(), key.cloned()), upcall).is_some() {
            self.breaks(Rule::FetchedOnce, || {
                format!("{server:?} asks its host for {proc} {key:?} while it is asking")
            });
        }
    }

    /// The host has answered, or the server no longer waits.
    pub(super) fn fetches_still_awaited(&mut self, server: ServerId, is_awaited: impl Fn(UpcallId) -> bool) {
        if let Some(fetches) = self.fetches.get_mut(&server) {
            fetches.retain(|_, upcall| is_awaited(*upcall));
        }
    }

    /// Nobody reads a value that its scope forbids. A published value stays readable and unchanged.
    pub(super) fn value_read(&mut self, reading: &Reading, value: &Value) {
        let Reading { reader, whose, key, floor, newest, .. } = *reading;
        let Some(stamp) = Stamp::of(value).filter(|stamp| (stamp.process, stamp.key) == (whose, key)) else {
            return self.breaks(Rule::StaysReadable, || {
                format!("process {reader} reads k{key} of {whose} and gets {value:?}, which no process put there")
            });
        };
        let may_see = match reading.same_node {
            _ if reader == whose => true,
            true => stamp.scope.is_visible_locally(),
            false => stamp.scope.is_visible_remotely(),
        };
        if !may_see {
            self.breaks(Rule::Scope, || {
                let place = if reading.same_node { "the same node" } else { "another node" };
                format!("process {reader} on {place} reads k{key} of {whose}, which has scope {:?}", stamp.scope)
            });
        }
        if !(floor..=newest).contains(&stamp.version) {
            self.breaks(Rule::StaysReadable, || {
                format!(
                    "process {reader} reads version {} of k{key} of {whose}; it had at least {floor}, put were {newest}",
                    stamp.version
                )
            });
        }
    }

    /// A published value stays readable.
    pub(super) fn value_not_found(&mut self, reading: &Reading, status: Status) {
        let Reading { reader, whose, key, floor, .. } = *reading;
        if floor > 0 {
            self.breaks(Rule::StaysReadable, || {
                format!("process {reader} had k{key} of {whose} in version {floor}, and now gets {status}")
            });
        }
    }

    /// No fence succeeds with a contribution missing.
    pub(super) fn contribution_read(&mut self, reading: &Reading, value: Option<&Value>) {
        let found = value.and_then(Stamp::of).map_or(0, |stamp| stamp.version);
        if found < reading.floor {
            let Reading { reader, whose, key, floor, .. } = *reading;
            self.breaks(Rule::NothingMissing, || {
                format!("the fence brought {reader} version {found} of k{key} of {whose}, which had committed {floor}")
            });
        }
        if let Some(value) = value {
            self.value_read(reading, value);
        }
    }

    /// The lost server's clients learn of it at once.
    pub(super) fn note_loss(&mut self, process: u32, calls_open: usize) {
        if calls_open > 0 {
            self.breaks(Rule::LossReported, || {
                format!("process {process} has lost its server and {calls_open} of its calls are still open")
            });
        }
    }

    /// An event reaches each of its targets once.
    pub(super) fn event_went(&mut self, wrong: Option<String>) {
        if let Some(what) = wrong {
            self.breaks(Rule::EventOnce, || what);
        }
    }

    /// After the last deregistration nothing remains.
    pub(super) fn remains(&mut self, what: &str, count: usize) {
        if count > 0 {
            self.breaks(Rule::NothingRemains, || format!("{count} x {what}"));
        }
    }

    /// Everything was answered at last.
    pub(super) fn all_answered(&mut self) {
        let open: Vec<_> = self.open.keys().take(3).collect();
        if !open.is_empty() {
            let text = format!("never answered: {open:?}");
            self.breaks(Rule::AnsweredOnce, || text);
        }
        let calls: Vec<_> = self.calls.iter().take(3).collect();
        if !calls.is_empty() {
            let text = format!("calls of the host never completed: {calls:?}");
            self.breaks(Rule::AnsweredOnce, || text);
        }
    }
}
