//! The server's own service of published data: [`Names`], the receivers of its answers, and the ends of processes.

use std::collections::{BTreeMap, BTreeSet};

use crate::gds::Store;
use crate::names::{Asker, NameInput, NameLimits, NameRequest, Names, RequestId};
use crate::server::{HostCall, HostReply, PeerId, Requester, ServerCore, UpcallId};
use crate::types::{ProcId, Status, Time};

/// The service, with its open requests. The core says which processes reach each other.
pub(super) struct NameDesk {
    names: Names,
    receivers: BTreeMap<RequestId, Receiver>,
    /// The open requests of each process.
    requests: BTreeMap<ProcId, BTreeSet<RequestId>>,
    last: u64,
    /// The number of ties at the last look at lookups that wait.
    tie_revision: u64,
    /// The processes of admitted connections.
    processes: BTreeMap<PeerId, ProcId>,
    /// The number of these connections.
    connection_counts: BTreeMap<ProcId, usize>,
}

/// The receiver of an answer.
enum Receiver {
    /// The core, for a process.
    Core { upcall: UpcallId, proc: ProcId },
    /// The server's own process.
    Caller(NameCallback),
}

/// Takes the answer for the server's own process.
pub(super) type NameCallback = Box<dyn FnOnce(HostReply) + Send>;

impl NameDesk {
    /// The service of a server with this name and user.
    pub(super) fn new(server: ProcId, server_uid: u32) -> Self {
        Self {
            names: Names::new(NameLimits::default(), server, server_uid),
            receivers: BTreeMap::new(),
            requests: BTreeMap::new(),
            last: 0,
            tie_revision: 0,
            processes: BTreeMap::new(),
            connection_counts: BTreeMap::new(),
        }
    }

    /// Takes a request of a process.
    pub(super) fn ask(
        &mut self,
        now: Time,
        core: &ServerCore<Store>,
        upcall: UpcallId,
        asker: Asker,
        request: NameRequest,
    ) {
        let proc = asker.requester.proc.clone();
        let id = self.register(Receiver::Core { upcall, proc: proc.clone() });
        self.requests.entry(proc).or_default().insert(id);
        self.tell(now, core, NameInput::Request(id, asker, request));
    }

    /// Takes a request of the server's own process.
    pub(super) fn ask_for_server(
        &mut self,
        now: Time,
        core: &ServerCore<Store>,
        requester: Requester,
        request: NameRequest,
        callback: NameCallback,
    ) {
        let id = self.register(Receiver::Caller(callback));
        self.tell(now, core, NameInput::Request(id, Asker { requester, is_tool: false }, request));
    }

    fn register(&mut self, receiver: Receiver) -> RequestId {
        self.last = self.last.saturating_add(1);
        let id = RequestId(self.last);
        self.receivers.insert(id, receiver);
        id
    }

    fn tell(&mut self, now: Time, core: &ServerCore<Store>, input: NameInput) {
        self.names.handle(now, input, &|asker, publisher, uid| core.may_read(&asker.requester, publisher, uid));
    }

    /// The next answer for the core. Answers for the server's own process go to their receivers.
    pub(super) fn poll_answer(&mut self) -> Option<(UpcallId, HostReply)> {
        loop {
            let (id, reply) = self.names.poll_answer()?;
            match self.remove(id) {
                Some(Receiver::Core { upcall, .. }) => return Some((upcall, reply)),
                Some(Receiver::Caller(callback)) => callback(reply),
                None => {}
            }
        }
    }

    fn remove(&mut self, id: RequestId) -> Option<Receiver> {
        let receiver = self.receivers.remove(&id)?;
        if let Receiver::Core { proc, .. } = &receiver
            && let Some(requests) = self.requests.get_mut(proc)
        {
            requests.remove(&id);
            if requests.is_empty() {
                self.requests.remove(proc);
            }
        }
        Some(receiver)
    }

    /// Notes an admitted connection.
    pub(super) fn note_arrival(&mut self, peer: PeerId, proc: &ProcId) {
        if self.processes.insert(peer, proc.clone()).is_none() {
            let count = self.connection_counts.entry(proc.clone()).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// Notes the end of a connection: its lookups wait no longer. With the last connection of a process its data may
    /// end.
    pub(super) fn note_departure(&mut self, now: Time, core: &ServerCore<Store>, peer: PeerId) {
        let Some(proc) = self.processes.remove(&peer) else { return };
        for id in self.requests.get(&proc).cloned().unwrap_or_default() {
            let is_lost = |receiver: &Receiver| match receiver {
                Receiver::Core { upcall, .. } => !core.awaits(*upcall),
                Receiver::Caller(_) => false,
            };
            if self.receivers.get(&id).is_some_and(is_lost) {
                self.remove(id);
                self.tell(now, core, NameInput::Cancelled(id));
            }
        }
        let Some(count) = self.connection_counts.get_mut(&proc) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.connection_counts.remove(&proc);
            self.tell(now, core, NameInput::ProcessEnded(proc));
        }
    }

    /// Notes a call of the host that has ended a process or a job.
    pub(super) fn note_end(&mut self, now: Time, core: &ServerCore<Store>, ended: NameInput) {
        self.tell(now, core, ended);
    }

    /// Looks again at lookups that wait, if processes reach more than before.
    pub(super) fn note_ties(&mut self, now: Time, core: &ServerCore<Store>) {
        if core.tie_revision() != std::mem::replace(&mut self.tie_revision, core.tie_revision())
            && self.names.has_waiting()
        {
            self.tell(now, core, NameInput::TiesChanged);
        }
    }

    /// When [`NameDesk::expire`] is due.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.names.poll_timeout()
    }

    /// Ends the lookups whose time is over.
    pub(super) fn expire(&mut self, now: Time, core: &ServerCore<Store>) {
        if self.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.tell(now, core, NameInput::Timeout);
        }
    }

    /// Answers the lookups of the server's own process at the server's end.
    pub(super) fn close(self) {
        for receiver in self.receivers.into_values() {
            if let Receiver::Caller(callback) = receiver {
                callback(HostReply::Status(Status::ERR_SERVER_NOT_AVAIL));
            }
        }
    }
}

/// The process or the job that a call of the host ends.
pub(super) fn end_by(call: &HostCall) -> Option<NameInput> {
    match call {
        HostCall::DeregisterClient(proc) => Some(NameInput::ProcessEnded(proc.clone())),
        HostCall::DeregisterNamespace(namespace) => Some(NameInput::JobEnded(namespace.clone())),
        _ => None,
    }
}
