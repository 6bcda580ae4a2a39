//! The server's own service of published data: [`Names`], its requests, and the ends of processes.

use std::collections::{BTreeMap, BTreeSet};

use super::server_loop::ServerLoop;
use crate::names::{Asker, NameInput, NameRequest, Names, RequestId};
use crate::proto::Service;
use crate::server::{HostCall, HostReply, Input, PeerId, Requester, UpcallId};
use crate::types::{ProcId, Status, Time};

/// The service, with the receivers of its answers.
pub(super) struct NameDesk {
    names: Names,
    receivers: BTreeMap<RequestId, Receiver>,
    /// The open requests of each process.
    requests: BTreeMap<ProcId, BTreeSet<RequestId>>,
    last: u64,
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
    pub(super) fn new(names: Names) -> Self {
        Self {
            names,
            receivers: BTreeMap::new(),
            requests: BTreeMap::new(),
            last: 0,
            processes: BTreeMap::new(),
            connection_counts: BTreeMap::new(),
        }
    }

    /// When [`ServerLoop::expire_names`] is due.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.names.poll_timeout()
    }

    fn register(&mut self, receiver: Receiver) -> RequestId {
        self.last = self.last.saturating_add(1);
        let id = RequestId(self.last);
        if let Receiver::Core { proc, .. } = &receiver {
            self.requests.entry(proc.clone()).or_default().insert(id);
        }
        self.receivers.insert(id, receiver);
        id
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

    /// Removes a connection. Returns its process, and whether that was the last connection of the process.
    fn leave(&mut self, peer: PeerId) -> Option<(ProcId, bool)> {
        let proc = self.processes.remove(&peer)?;
        let count = self.connection_counts.get_mut(&proc)?;
        *count = count.saturating_sub(1);
        let is_last = *count == 0;
        if is_last {
            self.connection_counts.remove(&proc);
        }
        Some((proc, is_last))
    }
}

impl ServerLoop {
    /// Takes a request that the service answers. Other services are given back.
    ///
    /// # Errors
    /// The service, for the host.
    pub(super) fn take_name_request(
        &mut self,
        upcall: UpcallId,
        requester: &Requester,
        service: Service,
    ) -> Result<(), Box<Service>> {
        if self.names.is_none() || !self.core.is_own_service(&service) {
            return Err(Box::new(service));
        }
        let request = NameRequest::of(service)?;
        let is_tool = self.core.user_of(&requester.proc).is_none();
        let receiver = Receiver::Core { upcall, proc: requester.proc.clone() };
        self.ask_names(Asker { requester: requester.clone(), is_tool }, request, receiver);
        Ok(())
    }

    /// Takes a request of the server's own process.
    pub(super) fn ask_names_for_caller(&mut self, requester: Requester, request: NameRequest, callback: NameCallback) {
        self.ask_names(Asker { requester, is_tool: false }, request, Receiver::Caller(callback));
    }

    fn ask_names(&mut self, asker: Asker, request: NameRequest, receiver: Receiver) {
        let now = self.clock.now();
        let Some(desk) = &mut self.names else { return };
        let id = desk.register(receiver);
        self.tell_names(now, NameInput::Request(id, asker, request));
    }

    fn tell_names(&mut self, now: Time, input: NameInput) {
        let Some(desk) = &mut self.names else { return };
        let core = &self.core;
        desk.names.handle(now, input, &|asker, publisher, uid| core.may_read(&asker.requester, publisher, uid));
    }

    /// Gives the service's answers to their receivers. Returns whether the core got one.
    pub(super) fn pass_name_answers(&mut self, now: Time) -> bool {
        let mut has_passed = false;
        while let Some((receiver, reply)) = self.names.as_mut().and_then(|desk| {
            let (id, reply) = desk.names.poll_answer()?;
            Some((desk.remove(id), reply))
        }) {
            match receiver {
                Some(Receiver::Core { upcall, .. }) => {
                    has_passed = true;
                    self.core.handle(now, Input::Completed(upcall, reply));
                }
                Some(Receiver::Caller(callback)) => callback(reply),
                None => {}
            }
        }
        has_passed
    }

    /// Notes an admitted connection.
    pub(super) fn note_arrival(&mut self, peer: PeerId) {
        let Some(desk) = &mut self.names else { return };
        let Some(proc) = self.core.process_of(peer) else { return };
        if desk.processes.insert(peer, proc.clone()).is_none() {
            *desk.connection_counts.entry(proc.clone()).or_default() += 1;
        }
    }

    /// Notes the end of a connection: its lookups wait no longer. With the last connection of a process its data may
    /// end.
    pub(super) fn note_departure(&mut self, peer: PeerId) {
        let Some((proc, is_last)) = self.names.as_mut().and_then(|desk| desk.leave(peer)) else { return };
        let now = self.clock.now();
        self.cancel_lookups_of(now, &proc);
        if is_last {
            self.tell_names(now, NameInput::ProcessEnded(proc));
        }
    }

    fn cancel_lookups_of(&mut self, now: Time, proc: &ProcId) {
        let open = self.names.as_ref().and_then(|desk| desk.requests.get(proc)).cloned().unwrap_or_default();
        for id in open {
            let Some(desk) = &mut self.names else { return };
            match desk.receivers.get(&id) {
                Some(Receiver::Core { upcall, .. }) if !self.core.awaits(*upcall) => drop(desk.remove(id)),
                _ => continue,
            }
            self.tell_names(now, NameInput::Cancelled(id));
        }
    }

    /// Notes a call of the host that ends a process or a job.
    pub(super) fn note_end(&mut self, call: &HostCall) -> Option<NameInput> {
        self.names.as_ref()?;
        match call {
            HostCall::DeregisterClient(proc) => Some(NameInput::ProcessEnded(proc.clone())),
            HostCall::DeregisterNamespace(namespace) => Some(NameInput::JobEnded(namespace.clone())),
            _ => None,
        }
    }

    /// Gives the service an end, after the core has got it.
    pub(super) fn end_names_of(&mut self, ended: Option<NameInput>) {
        if let Some(input) = ended {
            self.tell_names(self.clock.now(), input);
        }
    }

    /// Ends the lookups whose time is over.
    pub(super) fn expire_names(&mut self, now: Time) {
        if self.names.as_ref().and_then(NameDesk::next_deadline).is_some_and(|deadline| deadline <= now) {
            self.tell_names(now, NameInput::Timeout);
            self.settle(now, None);
        }
    }

    /// Answers all lookups of the server's own process at the server's end.
    pub(super) fn end_names(&mut self) {
        let Some(desk) = self.names.take() else { return };
        for receiver in desk.receivers.into_values() {
            if let Receiver::Caller(callback) = receiver {
                callback(HostReply::Status(Status::ERR_SERVER_NOT_AVAIL));
            }
        }
    }
}
