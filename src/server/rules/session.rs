//! The stages of a connection: introduction, admission, finalization, loss.

use super::commit::about;
use crate::gds::Datastore;
use crate::proto::Reply;
use crate::server::interface::{
    Answer, Capabilities, ClientConnected, ClientFinalized, Credentials, Hello, Output, PeerId, Reason, Refusal, Upcall,
};
use crate::server::state::{Asker, Expected, Peer, PeerStage, Presence, Purpose, ServerCore, Ticket, Timer};
use crate::types::{ProcId, Status, Text, Time};

impl<S: Datastore> ServerCore<S> {
    pub(in crate::server) fn connect(&mut self, now: Time, id: PeerId, mut hello: Hello) {
        let (object, credentials) = match self.examine(id, &hello) {
            Ok(announced) => announced,
            Err(refusal) => {
                self.outputs.push(Output::Refuse(id, refusal));
                // A second introduction ends the connection with all its requests. Other refused connections were never
                // registered.
                return self.lose(now, id);
            }
        };
        let proc = hello.proc.clone();
        hello.credentials = credentials;
        self.peers.insert_client(id, hello);
        if !self.config.capabilities.contains(Capabilities::CLIENT_CONNECTED) {
            return self.admit_or_refuse(id, Status::SUCCESS);
        }
        let upcall = Upcall::ClientConnected(ClientConnected { proc, object, directives: credentials.infos() });
        self.ask_host(now, Purpose::ClientConnected(id), upcall);
    }

    /// Whether the host announced this process with these credentials. Returns its object and credentials.
    fn examine(&self, id: PeerId, hello: &Hello) -> Result<(u64, Credentials), Refusal> {
        let proc = &hello.proc;
        if self.peers.get(id).is_some() {
            return Err(Refusal::Repeated);
        }
        let peers_max = self.config.limits.peers_max;
        if self.peers.len() >= peers_max {
            return Err(Refusal::TooManyPeers { peers_max });
        }
        if self.registry.registered(&proc.namespace).is_none() {
            return Err(Refusal::UnknownNamespace { namespace: proc.namespace.clone() });
        }
        let client = self.registry.client(proc).filter(|client| client.presence() != Presence::Deregistered);
        let Some(client) = client else { return Err(Refusal::UnknownProcess { proc: proc.clone() }) };
        let (expected, found): (Credentials, Credentials) = (client.credentials(), hello.credentials);
        if !expected.are_met_by(found) {
            return Err(Refusal::Credentials { proc: proc.clone(), expected, found });
        }
        if self.is_taken(hello) {
            return Err(Refusal::Taken { proc: proc.clone() });
        }
        // Checked last: only a legitimate process uses its share, or learns about it.
        let peers_max = self.config.limits.peers_per_process_max;
        let of_process = self.peers.iter().filter(|(_, peer)| peer.proc() == proc).count();
        if of_process >= peers_max {
            return Err(Refusal::TooManyOfProcess { proc: proc.clone(), peers_max });
        }
        // Each announced process may have one connection, beyond its user's share, too.
        let uid = found.uid;
        if of_process > 0 && !self.peers.permit(uid, 1, self.config.limits.peers_max) {
            return Err(Refusal::TooManyOfUser { uid });
        }
        Ok((client.object(), expected))
    }

    /// Whether an unrelated process is connected under this name. Forked children use it, too, and connect in any
    /// order.
    fn is_taken(&self, hello: &Hello) -> bool {
        !hello.strangers.is_empty() && {
            let mut others = self.peers.of_process(&hello.proc).peekable();
            others.peek().is_some() && others.all(|other| hello.strangers.contains(&other))
        }
    }

    /// Applies the host's decision about a connection.
    pub(in crate::server) fn admit_or_refuse(&mut self, id: PeerId, status: Status) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        let proc = peer.proc().clone();
        if status != Status::SUCCESS {
            self.peers.remove(id);
            return self.outputs.push(Output::Refuse(id, Refusal::Host { proc, status }));
        }
        peer.admit();
        let maps_segments = peer.maps_segments();
        let number = self.registry.job_mut(&proc.namespace).map_or(0, |job| job.next_connection());
        if let Some(client) = self.registry.client_mut(&proc) {
            client.connect(id);
        }
        self.collectives.note_clone(&proc);
        self.outputs.push(Output::Admit(id, number));
        if maps_segments {
            // A process that has its own segment must have the others already.
            self.hand_over_reach(id, &proc);
        }
        self.tie_to_parent(&proc);
        if maps_segments {
            self.outputs.push(Output::SendSegment(id, proc.namespace));
        }
    }

    pub(in crate::server) fn job_info(&mut self, now: Time, ticket: Ticket, proc: &ProcId) {
        let namespace = &proc.namespace;
        if self.peers.get(ticket.peer()).is_some_and(|peer| !peer.reads_entries()) {
            let reply = Reply::JobInfo { namespace: Text::from(namespace.as_str()), entries: Vec::new() };
            return self.outputs.reply(ticket, reply);
        }
        if self.store.is_registered(namespace) {
            return self.outputs.answer(ticket, Answer::JobInfo(namespace.clone()));
        }
        let id = ticket.peer();
        self.outputs.forget(ticket);
        self.dismiss(now, id, Status::ERR_NOT_AVAILABLE, Reason::NoJobInformation);
    }

    /// The peer could not map a segment: from now on it gets all data over the socket.
    pub(in crate::server) fn store_fallback(&mut self, now: Time, ticket: Ticket, proc: &ProcId) {
        if let Some(peer) = self.peers.get_mut(ticket.peer()) {
            peer.fall_back_to_socket();
        }
        self.job_info(now, ticket, proc);
    }

    /// A connection finalizes. The host gets a notice when the last connection of the process has finalized.
    pub(in crate::server) fn finalize(&mut self, now: Time, ticket: Ticket, proc: &ProcId) {
        let id = ticket.peer();
        let is_tool = self.peers.get(id).is_some_and(Peer::is_tool);
        if let Some(peer) = self.peers.get_mut(id) {
            peer.finalize();
        }
        self.deliver_all_to(id);
        self.forget_puller(id);
        self.forget_listener(id);
        self.cancel_watches(id, None);
        let mut object = None;
        if let Some(client) = self.registry.client_mut(proc)
            && client.finalize(id)
        {
            // Tools are not announced clients; no release of OpenPMIx reports them here.
            object = (!is_tool).then_some(client.object());
        }
        match object {
            Some(object) if self.config.capabilities.contains(Capabilities::CLIENT_FINALIZED) => {
                let upcall = Upcall::ClientFinalized(ClientFinalized { proc: proc.clone(), object });
                self.ask_host(now, Purpose::ClientFinalized(ticket), upcall);
            }
            _ => self.outputs.reply_status(ticket, Status::SUCCESS),
        }
        if self.registry.client(proc).is_some_and(|client| client.presence() == Presence::Finalized) {
            self.end_invitations_of(now, proc);
            self.untie(now, proc);
        }
        self.go_on_without_clone(now, proc);
        self.review(now, about(proc));
    }

    /// A connection has ended. If it was the process's last and had not finalized, the process is lost: it departs from
    /// the collectives at which it has not arrived. Its committed values stay.
    pub(in crate::server) fn lose(&mut self, now: Time, id: PeerId) {
        let Some(peer) = self.peers.remove(id) else {
            self.forget_arriving(id);
            return;
        };
        self.forget_puller(id);
        for (ticket, _) in self.withdraw(now, id) {
            self.outputs.forget(ticket);
        }
        self.forget_listener(id);
        self.cancel_watches(id, None);
        if peer.is_admitted() {
            self.part(now, id, peer.proc());
        } else if peer.is_tool() && peer.stage() == PeerStage::Finalized {
            // The only notice of a tool's end. OpenPMIx 4.2 to 6.1 give it after a finalization, too, and PRRTE's
            // `mpirun` waits for it before it ends.
            self.raise_lost_connection(now, peer.proc());
        }
        self.go_on_without_verdicts_of(now, id, peer.proc());
        if peer.is_tool() {
            self.vacate(now, peer.proc());
        }
    }

    /// An admitted connection has ended without a finalization.
    fn part(&mut self, now: Time, id: PeerId, proc: &ProcId) {
        let Some(client) = self.registry.client_mut(proc) else { return };
        if client.lose(id) {
            // The host gets a notice, and informs the user of the job.
            tracing::info!(%proc, "connection lost without finalize");
            self.clean_up_after(proc);
            self.raise_lost_connection(now, proc);
            self.announce_end(now, proc);
            self.untie(now, proc);
            self.registry.touch();
            self.review_namespace(now, &proc.namespace);
        } else {
            self.go_on_without_clone(now, proc);
        }
    }

    /// Closes a connection, after an answer to each of its requests. A pending finalization has succeeded; other
    /// requests end with `status`.
    pub(in crate::server) fn dismiss(&mut self, now: Time, id: PeerId, status: Status, reason: Reason) {
        let Some(peer) = self.peers.get(id) else { return };
        let is_arriving = peer.stage() == PeerStage::Arriving;
        let proc = peer.proc().clone();
        self.deliver_all_to(id);
        for (ticket, is_finalization) in self.withdraw(now, id) {
            self.outputs.reply_status(ticket, if is_finalization { Status::SUCCESS } else { status });
        }
        let output = match reason {
            Reason::Deregistered if is_arriving => Output::Refuse(id, Refusal::Deregistered { proc }),
            _ => Output::Close(id, reason),
        };
        self.outputs.push(output);
        self.lose(now, id);
    }

    /// Takes back all tickets of a connection, each with a flag for a finalization.
    fn withdraw(&mut self, now: Time, id: PeerId) -> Vec<(Ticket, bool)> {
        let mut tickets = Vec::new();
        for wait in self.held_gets.of_peer(id) {
            let Some(held) = self.held_gets.remove(wait) else { continue };
            self.timers.disarm(held.deadline, Timer::HeldGet(wait));
            if let Asker::Peer(ticket) = held.asker {
                tickets.push((ticket, false));
            }
        }
        tickets.extend(self.collectives.withdraw(id).into_iter().map(|ticket| (ticket, false)));
        tickets.extend(self.withdraw_from_bootstraps(id).into_iter().map(|ticket| (ticket, false)));
        tickets.extend(self.events.withdraw(id).into_iter().map(|ticket| (ticket, false)));
        for (ticket, garbage) in self.slices.withdraw(id) {
            tickets.push((ticket, false));
            self.outputs.push(Output::Discard(garbage));
        }
        tickets.extend(self.deferred.withdraw(id).into_iter().map(|ticket| (ticket, false)));
        self.forwarding.forget_followers(|following| following.pull.peer == Some(id));
        for upcall in self.upcalls.of_peer(id) {
            if let Some(ticket) = self.upcalls.orphan_event(upcall) {
                tickets.push((ticket, false));
                continue;
            }
            match self.cancel_upcall(upcall) {
                Some(Purpose::ClientFinalized(ticket)) => tickets.push((ticket, true)),
                Some(Purpose::Passed(ticket, Expected::Pull)) => {
                    self.abandon_pull(now, upcall);
                    tickets.push((ticket, false));
                }
                Some(Purpose::Abort(ticket, _) | Purpose::Passed(ticket, _) | Purpose::Notify(ticket, _)) => {
                    tickets.push((ticket, false));
                }
                Some(
                    Purpose::ClientConnected(_)
                    | Purpose::ToolConnected(_)
                    | Purpose::Operation(_)
                    | Purpose::MissedFence(..)
                    | Purpose::DirectModex(_)
                    | Purpose::OrphanedEvent(_)
                    | Purpose::RegisterEvents,
                )
                | None => {}
            }
        }
        tickets
    }
}
