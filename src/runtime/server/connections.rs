use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use super::connection::{Connection, Dropped};
use super::connection_limits::ConnectionLimits;
use super::decoder::{Content, Decoder, UnencodedReply};
use super::job_info::{Described, DescriptionRequest, JobAnswer, JobInfoAnswers, PutOff};
use super::launcher_channel::LauncherChannel;
use super::listeners::Listeners;
use super::loop_messages::{Decoded, LoopSender};
use super::memory_quota::{MemoryQuota, MemoryUse};
use super::newcomers::PendingHandshakes;
use super::pmi::{PmiEntry, PmiJobs, PmiRefusal};
use super::poller::{Pollers, Readiness, Token};
use super::process_ends::{Liveness, ProcessEnds};
use super::proofs::Proofs;
use super::turns::{Share, Turns};
use super::user_reports::{UserReports, shortened};
use super::writes::{WriteBudget, Writes};
use super::written_events::WrittenEvents;
use crate::gds::{CompletionNotice, NamespaceReader, Store};
use crate::proto::handshake::Ids;
use crate::proto::notification::RemovalNotice;
use crate::proto::{Command, Reply, SegmentNotice, Tag};
use crate::ptl::{PeerCredentials, PeerEnd, Stream, StreamLimits};
use crate::runtime::shared::clock::Clock;
use crate::runtime::shared::data_form::DataForm;
use crate::runtime::shared::launcher_end::{LauncherEnd, ParentConnection};
use crate::runtime::shared::message_codec::{MessageCodec, MessageEncodeError};
use crate::runtime::shared::prover::ProofError;
use crate::server::{
    self, EventDelivery, Forwarded, Garbage, Input, JobData, PeerId, Reason, Refusal, ToolHello, ToolKind,
};
use crate::shmem::ReaderHandle;
use crate::topo::{self, SharedMachine};
use crate::types::{Namespace, ProcId, Status, Time};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// All connections of a server, by their numbers in the core.
pub(super) struct Connections {
    /// The server's own name.
    server: ProcId,
    limits: ConnectionLimits,
    /// Checks credentials of munge; without it they are refused.
    proofs: Option<Proofs>,
    last: u64,
    connections: BTreeMap<PeerId, Connection>,
    pollers: Pollers,
    deadlines: BTreeSet<(Time, PeerId)>,
    /// Connections whose requests wait to be handled.
    turns: Turns,
    /// Decodes their large requests.
    decoder: Decoder,
    /// Connections that have not introduced themselves.
    pending_handshakes: PendingHandshakes,
    /// Connections with output to write.
    writes: Writes,
    /// Connections that end in this turn.
    ended: Vec<(PeerId, Connection)>,
    process_ends: ProcessEnds,
    /// Verdicts for sleeping processes, to be written in this turn.
    completions: BTreeMap<Namespace, Vec<CompletionNotice>>,
    /// Slots that are free again.
    left: Vec<(Namespace, u32)>,
    inputs: VecDeque<Input>,
    job_info: JobInfoAnswers,
    written_events: WrittenEvents,
    buffer: Box<[u8]>,
    drop_reports: UserReports,
    /// The time of this turn.
    turned_at: Time,
    memory_quota: MemoryQuota,
    pmi_jobs: PmiJobs,
    /// The end of a pause after a lack of descriptors: no connection is accepted before.
    accept_pause_end: Option<Time>,
}

impl Connections {
    /// At most `peers_max` connections in all.
    pub(super) fn new(
        server: ProcId,
        limits: ConnectionLimits,
        peers_max: usize,
        pollers: Pollers,
        proofs: Option<Proofs>,
        decoder: Decoder,
    ) -> Self {
        Self {
            server,
            limits,
            proofs,
            last: FIRST_PEER - 1,
            connections: BTreeMap::new(),
            pollers,
            deadlines: BTreeSet::new(),
            turns: Turns::default(),
            decoder,
            pending_handshakes: PendingHandshakes::new(limits.handshakes_max, peers_max),
            writes: Writes::default(),
            ended: Vec::new(),
            process_ends: ProcessEnds::default(),
            completions: BTreeMap::new(),
            left: Vec::new(),
            inputs: VecDeque::new(),
            job_info: JobInfoAnswers::new(limits.held_bytes_max / JOB_INFO_SHARE),
            written_events: WrittenEvents::default(),
            buffer: vec![0; BUFFER_SIZE_BYTES].into(),
            drop_reports: UserReports::default(),
            turned_at: Time::from_nanos(0),
            memory_quota: MemoryQuota::new(limits.held_bytes_max),
            pmi_jobs: PmiJobs::default(),
            accept_pause_end: None,
        }
    }

    /// The next input for the core.
    pub(super) fn poll_input(&mut self) -> Option<Input> {
        self.inputs.pop_front()
    }

    pub(super) fn has_input(&self) -> bool {
        !self.inputs.is_empty()
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        let first = self.deadlines.first().map(|&(deadline, _)| deadline);
        let quota = &self.memory_quota;
        let late = self.decoder.late_from(self.limits.message_pause_max, |uid| quota.has_room_for_reply(uid));
        first.into_iter().chain(self.accept_pause_end).chain(late).min()
    }

    /// A listener or a connection without an introduction that is ready.
    pub(super) fn next_newcomer(&self) -> Option<Readiness> {
        self.pollers.newcomers.next().unwrap_or_default()
    }

    /// Accepts a waiting connection of a listener.
    pub(super) fn accept(&mut self, listeners: &Listeners, token: Token, now: Time) {
        let limits = StreamLimits { queued_bytes_max: self.limits.queued_bytes_max, descriptors_max: 0 };
        match listeners.accept(token, limits) {
            Ok(Some((stream, Ok(credentials)))) => self.begin(stream, credentials, now),
            Ok(Some((_, Err(error)))) => {
                if self.drop_reports.is_due(None, now) {
                    tracing::warn!(%error, "connection dropped");
                }
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "can't accept a connection; trying again in a moment");
                // Perhaps they hold the missing descriptors.
                for crowded in self.pending_handshakes.crowd() {
                    self.settle(crowded, Err(Dropped::NoDescriptors));
                }
                // Otherwise the listeners would be ready, and fail, in every turn.
                listeners.forget(&self.pollers.newcomers);
                self.accept_pause_end = Some(now + ACCEPT_PAUSE);
            }
        }
    }

    fn begin(&mut self, stream: Stream, credentials: PeerCredentials, now: Time) {
        self.last += 1;
        let id = PeerId(self.last);
        let poller = Arc::clone(&self.pollers.newcomers);
        if let Err(errno) = poller.watch(&stream, Token(id.0)) {
            return tracing::warn!(%errno, "can't watch a connection; it is dropped");
        }
        self.connections.insert(id, Connection::new(stream, poller, credentials, self.proofs.is_some()));
        self.expect_by(id, Some(now + self.limits.handshake_time_max));
        self.pending_handshakes.insert(id, credentials.uid);
        self.make_room();
    }

    /// Serves a rank that speaks PMI-1 or PMI-2, with the user that the host registered. The rank needs no
    /// introduction.
    pub(super) fn serve_pmi(
        &mut self,
        PmiEntry { proc, socket, pid }: PmiEntry,
        uid: Option<u32>,
        store: &Store,
    ) -> Result<(), PmiRefusal> {
        let uid = uid.ok_or(PmiRefusal::NotRegistered)?;
        let rank = self.pmi_jobs.rank(proc, uid, store).ok_or(PmiRefusal::NotDescribed)?;
        let limits = StreamLimits { queued_bytes_max: self.limits.queued_bytes_max, descriptors_max: 0 };
        let (stream, poller) = (Stream::new(socket, limits), Arc::clone(&self.pollers.main));
        self.last += 1;
        let id = PeerId(self.last);
        poller.watch(&stream, Token(id.0)).map_err(PmiRefusal::Unwatched)?;
        let credentials = PeerCredentials { pid: Some(pid), uid, gid: None };
        self.connections.insert(id, Connection::new(stream, poller, credentials, false).of_pmi(rank));
        Ok(())
    }

    /// Serves the tool that started this process, on a connection that this process has made. Returns the connection's
    /// number, and the introduction of the tool.
    pub(super) fn serve_parent(&mut self, connection: ParentConnection) -> Result<(PeerId, ToolHello), Errno> {
        let ParentConnection { stream, dialect, message_bytes_max, parent, rest } = connection;
        let poller = Arc::clone(&self.pollers.main);
        self.last += 1;
        let id = PeerId(self.last);
        poller.watch(&stream, Token(id.0))?;
        // A tool of this user or of root. Root's tool needs no rights that this user lacks.
        let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        let credentials = PeerCredentials { pid: None, uid, gid: Some(gid) };
        let codec = MessageCodec::to_client(dialect, message_bytes_max, false);
        let connection = Connection::new(stream, poller, credentials, false).of_parent(codec, &rest);
        self.connections.insert(id, connection);
        let hello = ToolHello {
            kind: ToolKind::Tool,
            claimed: Some(parent),
            is_started: false,
            credentials: server::Credentials { uid, gid },
            claimed_gid: gid,
            reads_entries: true,
            version: dialect.peer,
            version_text: dialect.peer.to_string(),
            info: Vec::new(),
            strangers: BTreeSet::new(),
        };
        Ok((id, hello))
    }

    /// The process number of a connection, if the system tells it.
    pub(super) fn pid_of(&self, id: PeerId) -> Option<u32> {
        self.connections.get(&id)?.credentials().pid
    }

    /// Watches the process of a connection: a forked copy may keep the connection open after its end.
    pub(super) fn watch_process(&mut self, id: PeerId) {
        let Some(connection) = self.connections.get(&id) else { return };
        if self.process_ends.watch(id, connection.credentials().pid, &self.pollers.main) == Liveness::Ended {
            connection.expect_no_more();
        }
    }

    /// The process of a connection, and perhaps of later ones, has ended. The bytes that it sent are still read, and
    /// then the end.
    pub(super) fn outlive(&mut self, first: PeerId) {
        let connections = self.process_ends.take(first, &self.pollers.main);
        let connections = connections.iter().filter_map(|id| self.connections.get(id));
        connections.for_each(Connection::expect_no_more);
    }

    /// Reads from or writes to a connection that is ready.
    pub(super) fn serve(&mut self, id: PeerId, readiness: Readiness, now: Time) {
        if readiness.is_writable {
            self.writes.insert(id);
        }
        let Some(connection) = self.connections.get_mut(&id).filter(|_| readiness.is_readable) else { return };
        if connection.is_full() {
            return;
        }
        let mut result = connection.receive(&mut self.buffer);
        if let (Some(credential), Some(proofs)) = (connection.take_credential(), &self.proofs) {
            let asked = proofs.check(id, credential, self.limits.handshake_time_max);
            result = result.and(asked.or_else(|error| connection.prove(id, Err(error))));
        }
        self.follow(id, result, now);
    }

    /// Takes the result of a credential check; its peer may be gone.
    pub(super) fn settle_proof(&mut self, id: PeerId, proven: Result<Ids, ProofError>, now: Time) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let result = connection.prove(id, proven);
        self.follow(id, result, now);
    }

    /// Continues after a connection was read, or after one of its requests was handled.
    fn follow(&mut self, id: PeerId, result: Result<(), Dropped>, now: Time) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let is_in_handshake = connection.is_in_handshake();
        let was_in_handshake = !is_in_handshake && self.pending_handshakes.remove(id);
        let owed_until = connection.owes_bytes().then(|| now + self.limits.message_pause_max);
        if was_in_handshake || (!is_in_handshake && !connection.is_closing()) {
            self.expect_by(id, owed_until);
        }
        if was_in_handshake {
            self.leave_newcomers(id);
        }
        // The refusal of an unreadable request may be queued.
        self.writes.insert(id);
        self.settle(id, result);
        self.await_turn(id);
        self.weigh(id);
    }

    /// Serves a connection with all others from now on.
    fn leave_newcomers(&mut self, id: PeerId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if let Err(errno) = connection.watch_by(&self.pollers.main, Token(id.0)) {
            tracing::warn!(peer = id.0, %errno, "a connection is still served behind newcomers");
        }
    }

    /// Sets when a connection is dropped unless something happens before.
    fn expect_by(&mut self, id: PeerId, deadline: Option<Time>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let before = std::mem::replace(&mut connection.deadline, deadline);
        if before != deadline {
            before.map(|before| self.deadlines.remove(&(before, id)));
            self.deadlines.extend(deadline.map(|deadline| (deadline, id)));
        }
    }

    /// Puts a connection in the line if one of its requests waits.
    fn await_turn(&mut self, id: PeerId) {
        if let Some(connection) = self.connections.get(&id).filter(|connection| connection.has_work()) {
            self.turns.join(id, connection.share());
        }
    }

    /// Whether requests wait to be handled.
    pub(super) fn has_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Number of processes with waiting requests.
    pub(super) fn turn_count(&self) -> usize {
        self.turns.process_count()
    }

    /// The next connection in the line. It returns to the line with [`Connections::end_turn`].
    pub(super) fn next_turn(&mut self) -> Option<(PeerId, Share)> {
        self.turns.next()
    }

    /// Takes the next request of a connection into the inputs; `false`: there is none.
    pub(super) fn take_request(&mut self, id: PeerId, store: &Store) -> bool {
        let Some(connection) = self.connections.get_mut(&id).filter(|connection| connection.has_work()) else {
            return false;
        };
        let next = connection.next_request(id, store);
        let woken = connection.take_woken();
        match next {
            Ok(input) => self.inputs.extend(input),
            Err(dropped) => self.part(id, &dropped),
        }
        woken.into_iter().for_each(|other| self.await_turn(other));
        self.await_decoder(id);
        true
    }

    /// Sends a large request of a connection to the decoder.
    fn await_decoder(&mut self, id: PeerId) {
        if let Some(connection) = self.connections.get(&id).filter(|connection| connection.has_undecoded()) {
            self.decoder.join(id, connection.share());
            self.decode_next();
        }
    }

    fn decode_next(&mut self) {
        while let Some(id) = self.decoder.next() {
            let connection = self.connections.get_mut(&id);
            let Some((frame, codec)) = connection.and_then(Connection::take_undecoded) else {
                self.decoder.pass();
                continue;
            };
            if let Some(decoded) = self.decoder.decode(id, frame, codec) {
                self.accept_decoded(id, Box::new(decoded));
            }
        }
    }

    fn accept_decoded(&mut self, id: PeerId, decoded: Box<Decoded>) {
        self.decoder.settle(&decoded);
        match self.connections.get_mut(&id) {
            Some(connection) => connection.accept(decoded),
            None => self.decoder.discard(decoded),
        }
        self.await_turn(id);
        self.weigh(id);
    }

    /// Takes a decoded large request; its connection may be gone.
    pub(super) fn settle_decoded(&mut self, id: PeerId, decoded: Box<Decoded>) {
        self.accept_decoded(id, decoded);
        self.decode_next();
    }

    /// Puts the last request of a connection in the line again, because it takes another turn.
    pub(super) fn note_unfinished(&mut self, id: PeerId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.note_unfinished();
            self.await_turn(id);
        }
    }

    /// Ends a connection's turn, with the number of handled requests and their time.
    pub(super) fn end_turn(&mut self, id: PeerId, share: &Share, requests: u64, time: Duration, now: Time) {
        self.turns.charge(share, requests, time);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.count_requests(requests);
        }
        self.follow(id, Ok(()), now);
    }

    /// The number of requests of each connected rank.
    pub(super) fn request_counts(&self) -> BTreeMap<ProcId, u64> {
        let mut counts: BTreeMap<ProcId, u64> = BTreeMap::new();
        for (proc, requests) in self.connections.values().filter_map(Connection::request_count) {
            let count = counts.entry(proc.clone()).or_default();
            *count = count.saturating_add(requests);
        }
        counts
    }

    /// The most bytes that wait for one of the clients that get output and keep up.
    pub(super) fn unread_output_bytes(&self) -> usize {
        self.connections.values().map(Connection::unread_output_bytes).max().unwrap_or_default()
    }

    /// The form of packed data for the process of a connection.
    pub(super) fn data_form(&self, id: PeerId) -> Option<DataForm> {
        self.connections.get(&id)?.codec().map(MessageCodec::data_form)
    }

    /// The most requests of other processes that were handled while a process within its share waited.
    pub(super) const fn requests_waited_max(&self) -> u64 {
        self.turns.requests_waited_max()
    }

    /// Drops connections that took too long, and accepts connections again after a pause.
    pub(super) fn expire(&mut self, now: Time, listeners: &Listeners) {
        self.turned_at = now;
        for _ in 0..DEADLINES_PER_TURN {
            let Some(&(deadline, id)) = self.deadlines.first().filter(|(deadline, _)| *deadline <= now) else { break };
            self.deadlines.remove(&(deadline, id));
            self.settle(id, Err(Dropped::Deadline));
        }
        self.refuse_late_replies(now);
        if self.accept_pause_end.is_some_and(|end| end <= now) {
            self.accept_pause_end = None;
            if let Err(errno) = listeners.watch(&self.pollers.newcomers) {
                tracing::error!(%errno, "can't watch for connections; trying again in a moment");
                self.accept_pause_end = Some(now + ACCEPT_PAUSE);
            }
        }
    }

    /// Sends a peer its admission, and its name if the server assigned one.
    pub(super) fn admit(&mut self, id: PeerId, index: u32, proc: Option<&ProcId>) {
        let server = self.server.clone();
        self.write(id, |connection| connection.admit(index, proc, &server));
        // A rank of PMI has sent its first command already.
        self.await_turn(id);
    }

    pub(super) fn refuse(&mut self, id: PeerId, refusal: &Refusal, now: Time) {
        let owner = self.connections.get(&id).map(Connection::credentials);
        let (pid, uid) = (owner.and_then(|owner| owner.pid), owner.map(|owner| owner.uid));
        if self.drop_reports.is_due(uid, now) {
            let text = shortened(refusal);
            if refusal.is_of_rank() {
                tracing::error!(pid, uid, refusal = %text, "connection refused");
            } else {
                tracing::warn!(pid, uid, refusal = %text, "connection refused");
            }
        }
        self.write(id, |connection| connection.refuse(refusal));
        self.expect_by(id, Some(now + self.limits.handshake_time_max));
        // It may still send something, so it counts as a connection without introduction.
        if let Some(connection) = self.connections.get(&id).filter(|connection| connection.is_in_handshake()) {
            self.pending_handshakes.insert(id, connection.credentials().uid);
            self.make_room();
        }
    }

    /// The age of a peer's Init at its introduction, if the peer sent it.
    pub(super) fn init_age(&self, id: PeerId) -> Option<Duration> {
        self.connections.get(&id)?.init_age()
    }

    /// The owner of a connection, for messages.
    pub(super) fn name(&self, id: PeerId) -> Option<String> {
        self.connections.get(&id).map(|connection| format!("a connection of user {}", connection.credentials().uid))
    }

    /// The process or socket at the other end.
    pub(super) fn peer_end(&self, id: PeerId) -> PeerEnd {
        self.connections.get(&id).map_or(PeerEnd::Unknown, Connection::peer_end)
    }

    /// The command of an unanswered request.
    pub(super) fn asked(&self, id: PeerId, tag: Tag) -> Option<Command> {
        self.connections.get(&id)?.asked(tag)
    }

    /// The user and the size of an unanswered request.
    pub(super) fn size_of(&self, id: PeerId, tag: Tag) -> (u32, usize) {
        let connection = self.connections.get(&id);
        connection.map_or((u32::MAX, 0), |connection| (connection.credentials().uid, connection.size_bytes_of(tag)))
    }

    /// Drops a connection whose process has too many requests with the host.
    pub(super) fn turn_away(&mut self, id: PeerId) {
        self.settle(id, Err(Dropped::Burdensome));
    }

    pub(super) fn reply(&mut self, id: PeerId, tag: Tag, reply: &Reply) {
        let mut verdict = None;
        self.write(id, |connection| connection.reply(tag, reply).map(|status| verdict = status));
        if self.connections.get(&id).is_some_and(Connection::is_of_pmi) {
            // Its next command waited for this answer.
            return self.await_turn(id);
        }
        let slot = self.connections.get(&id).and_then(Connection::slot);
        if let (Some(verdict), Some((namespace, number))) = (verdict, slot) {
            let notice = CompletionNotice { connection: *number, request: tag.0, verdict };
            match self.completions.get_mut(namespace) {
                Some(notices) => notices.push(notice),
                None => drop(self.completions.insert(namespace.clone(), vec![notice])),
            }
        }
    }

    /// Answers a request after a long encoding on another thread.
    pub(super) fn reply_large(&mut self, id: PeerId, tag: Tag, content: Content) {
        if self.connections.get(&id).is_some_and(Connection::is_of_pmi) {
            // No line can carry it.
            return self.reply(id, tag, &Reply::Status(Status::ERR_OUT_OF_RESOURCE));
        }
        let asked = self.connections.get_mut(&id).and_then(|connection| connection.close_request(tag));
        let Some((command, codec)) = asked else { return };
        let Some(uid) = self.connections.get(&id).map(|connection| connection.credentials().uid) else { return };
        self.decoder.line_up(uid, id, UnencodedReply { tag, command, content, codec });
        self.pause(id);
        self.weigh(id);
        self.encode_next();
    }

    /// Gives the decoder the next large reply of a user whose peers have read enough.
    fn encode_next(&mut self) {
        loop {
            let quota = &self.memory_quota;
            let next = self.decoder.replies().next(|uid| quota.has_room_for_reply(uid));
            let Some((id, reply)) = next else { return };
            // Without a thread it is encoded now.
            let Some(encoded) = self.decoder.encode(id, reply) else { return };
            self.end_encoding(id, encoded);
        }
    }

    /// Sends a reply that the decoder has encoded.
    pub(super) fn settle_encoded(&mut self, id: PeerId, encoded: Result<Vec<u8>, MessageEncodeError>) {
        self.end_encoding(id, encoded);
        self.encode_next();
    }

    fn end_encoding(&mut self, id: PeerId, encoded: Result<Vec<u8>, MessageEncodeError>) {
        self.decoder.replies().settle();
        self.send_encoded(id, encoded);
        self.resume(id);
    }

    /// Refuses large replies that waited too long because the peers of their user do not read.
    fn refuse_late_replies(&mut self, now: Time) {
        let wait_max = self.limits.message_pause_max;
        loop {
            let quota = &self.memory_quota;
            let late = self.decoder.replies().take_late(now, wait_max, |uid| quota.has_room_for_reply(uid));
            let Some((id, UnencodedReply { tag, command, content, codec })) = late else { return };
            self.decoder.discard(Box::new(content));
            let pid = self.connections.get(&id).and_then(|connection| connection.credentials().pid);
            tracing::warn!(pid, ?command, "a large reply is refused, because processes of its user do not read theirs");
            let refusal = Reply::Status(Status::ERR_OUT_OF_RESOURCE);
            self.send_encoded(id, codec.write_reply(tag, &refusal, command));
            self.resume(id);
        }
    }

    fn send_encoded(&mut self, id: PeerId, encoded: Result<Vec<u8>, MessageEncodeError>) {
        self.write(id, |connection| connection.send_encoded(encoded));
    }

    /// Handles no further requests of a connection while the decoder works on a reply. So a connection has at most a
    /// few large replies in memory.
    fn pause(&mut self, id: PeerId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.pause();
            self.turns.leave(&id);
        }
    }

    /// Handles the requests of a connection again.
    fn resume(&mut self, id: PeerId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.resume();
            self.await_turn(id);
        }
    }

    /// Frees memory on the decoder's thread.
    pub(super) fn discard(&mut self, garbage: Garbage) {
        self.decoder.discard(Box::new(garbage));
    }

    /// Takes the verdicts for sleeping processes.
    pub(super) fn take_completions(&mut self) -> BTreeMap<Namespace, Vec<CompletionNotice>> {
        std::mem::take(&mut self.completions)
    }

    /// The number under which a peer may have a slot at this completion table.
    pub(super) fn candidate(&self, id: PeerId, namespace: &Namespace) -> Option<u32> {
        let (own, number) = self.connections.get(&id)?.candidacy()?;
        (own == namespace).then_some(number)
    }

    /// Gives a peer its slot.
    pub(super) fn assign_slot(&mut self, id: PeerId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.assign_slot();
        }
    }

    /// Takes the slots that are free again.
    pub(super) fn take_left(&mut self) -> Vec<(Namespace, u32)> {
        std::mem::take(&mut self.left)
    }

    /// Answers a request for job information.
    pub(super) fn reply_job_info(
        &mut self,
        id: PeerId,
        tag: Tag,
        namespace: Namespace,
        store: &Store,
        topology: Option<&str>,
    ) {
        let Some(reading) = self.connections.get(&id).and_then(Connection::reading) else { return };
        if self.is_put_off(DescriptionRequest::Info(id, tag, namespace.clone()), store) {
            return;
        }
        let payload = self.job_info.payload(&namespace, reading, store, topology);
        self.write(id, |connection| connection.reply_shared(tag, &payload?));
    }

    /// Answers a Get with data that begins with the description of a job.
    pub(super) fn reply_job_data(&mut self, id: PeerId, tag: Tag, data: JobData, store: &Store) {
        if self.is_put_off(DescriptionRequest::Data(id, tag, data.clone()), store) {
            return;
        }
        let Some(codec) = self.connections.get(&id).and_then(Connection::codec) else { return };
        match self.job_info.data_payload(&data, codec, store) {
            Ok(JobAnswer::Written(payload)) => self.write(id, |connection| connection.reply_shared(tag, &payload)),
            Ok(JobAnswer::Unread(description, answer)) => {
                self.reply_large(id, tag, Content::Process { description: Some(description), answer: *answer });
            }
            Err(status) => self.reply(id, tag, &Reply::Status(status)),
        }
    }

    /// Lets the decoder write a large description. The request's connection waits meanwhile.
    fn is_put_off(&mut self, request: DescriptionRequest, store: &Store) -> bool {
        let id = request.peer();
        let Some(codec) = self.connections.get(&id).and_then(Connection::codec) else { return false };
        match self.job_info.put_off(request, codec, store) {
            PutOff::No => return false,
            PutOff::Behind => {}
            PutOff::Begin(description) => {
                if let Some(described) = self.decoder.describe(description) {
                    // Without a thread the description is at hand now, and this request is the only one.
                    drop(self.job_info.settle(described));
                    return false;
                }
            }
        }
        self.pause(id);
        true
    }

    /// Takes a description from the decoder. Returns the requests that it answers.
    pub(super) fn settle_described(&mut self, described: Described) -> Vec<DescriptionRequest> {
        let (requests, error) = self.job_info.settle(described);
        requests.iter().for_each(|request| self.resume(request.peer()));
        let Some(error) = error else { return requests };
        for request in requests {
            match request {
                DescriptionRequest::Info(id, ..) => self.settle(id, Err(Dropped::JobInfo(error.clone()))),
                DescriptionRequest::Data(id, tag, _) => self.reply(id, tag, &Reply::Status(error.status())),
            }
        }
        Vec::new()
    }

    /// Forgets the replies of a namespace, because its description changed or ended.
    pub(super) fn forget_job_info(&mut self, namespace: &Namespace, store: &Store) {
        self.job_info.forget(namespace);
        if store.reader(namespace).is_none() {
            self.pmi_jobs.forget(namespace);
        }
    }

    /// Sends an event to a peer. Without a form in the peer's encoding, or above its size limit, the peer misses the
    /// event.
    pub(super) fn notify(&mut self, id: PeerId, delivery: &EventDelivery) {
        let unasked_bytes_max = self.unasked_bytes_max();
        let Some(codec) = self.connections.get(&id).and_then(Connection::codec) else { return };
        if let Some(bytes) = self.written_events.write(delivery, codec) {
            self.write(id, |connection| connection.notify(bytes, unasked_bytes_max));
        }
    }

    /// Begins to pass requests of this process to a launcher. `None`: it is one of this library, or already has a
    /// channel.
    pub(super) fn open_launcher(&mut self, id: PeerId, loop_sender: &LoopSender) -> Option<LauncherEnd> {
        self.open_channel(id, loop_sender, LauncherChannel::to_launcher)
    }

    /// Begins to pass requests of this process to the tool that started it.
    pub(super) fn open_parent(&mut self, id: PeerId, loop_sender: &LoopSender) -> Option<LauncherEnd> {
        self.open_channel(id, loop_sender, LauncherChannel::to_parent)
    }

    fn open_channel(
        &mut self,
        id: PeerId,
        loop_sender: &LoopSender,
        begin: fn(LoopSender, PeerId) -> io::Result<(LauncherChannel, UnixStream)>,
    ) -> Option<LauncherEnd> {
        let connection = self.connections.get_mut(&id).filter(|connection| !connection.has_channel())?;
        let dialect = connection.codec().filter(|codec| !codec.is_ours())?.reading().0;
        match begin(loop_sender.clone(), id) {
            Ok((channel, socket)) => {
                connection.set_channel(channel);
                Some(LauncherEnd { socket, dialect })
            }
            Err(error) => {
                tracing::warn!(%error, "this process can't begin to talk to its launcher, or to the tool that started it");
                None
            }
        }
    }

    /// Sends a request of this process to a launcher.
    pub(super) fn ask_launcher(&mut self, id: PeerId, bytes: Vec<u8>) {
        self.write(id, |connection| connection.queue_request(bytes));
    }

    /// Tells a client about a removed value.
    pub(super) fn tell_removal(&mut self, id: PeerId, removal: &RemovalNotice) {
        let unasked_bytes_max = self.unasked_bytes_max();
        self.write(id, |connection| connection.tell_removal(removal, unasked_bytes_max));
    }

    /// Sends a namespace's segment. A client without a segment learns that and requests each value.
    pub(super) fn send_segment(&mut self, id: PeerId, namespace: &Namespace, store: &Store) {
        let segment = store.reader(namespace).map(NamespaceReader::segment);
        // All clients get the descriptor that the server itself reads: to open another one costs more than to send it.
        let descriptor = segment.and_then(|segment| segment.handle().share_descriptor());
        if segment.is_none() {
            tracing::warn!(%namespace, "no segment can be sent to a client; it requests each value instead");
        }
        let layout_id = segment.map_or(0, |segment| segment.info().layout_id.get());
        let notice = SegmentNotice { namespace: namespace.clone(), layout_id };
        self.write(id, |connection| connection.send_segment(Tag::SEGMENT, &notice, descriptor));
    }

    /// Makes a client forget the segment of another job, because there is none any more.
    pub(super) fn withdraw_segment(&mut self, id: PeerId, namespace: Namespace) {
        let notice = SegmentNotice { namespace, layout_id: 0 };
        self.write(id, |connection| connection.send_segment(Tag::SEGMENT, &notice, None));
    }

    /// Sends the segment of the node's topology.
    pub(super) fn send_topology(&mut self, id: PeerId, namespace: &Namespace, shared: &SharedMachine) {
        let descriptor = shared.handle().map(ReaderHandle::into_descriptor).unwrap_or_else(|error| {
            tracing::warn!(%error, "the segment of the topology can't be sent to a client; it requests the XML \
             instead");
            None
        });
        let notice = SegmentNotice { namespace: namespace.clone(), layout_id: topo::layout_id().get() };
        self.write(id, |connection| connection.send_segment(Tag::TOPOLOGY, &notice, descriptor.map(Arc::new)));
    }

    /// Forwards output to a client.
    pub(super) fn send_output(&mut self, id: PeerId, forwarded: &Forwarded) {
        let unasked_bytes_max = self.unasked_bytes_max();
        self.write(id, |connection| connection.send_output(forwarded, unasked_bytes_max));
    }

    pub(super) fn close(&mut self, id: PeerId, reason: Reason, now: Time) {
        tracing::debug!(peer = id.0, %reason, "closing a connection");
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.close();
            self.writes.insert(id);
            // A peer that is gone keeps its turn: only that turn removes the connection before its deadline.
            if !connection.is_ending() {
                self.turns.leave(&id);
            }
            self.expect_by(id, Some(now + self.limits.handshake_time_max));
        }
    }

    /// Writes to the connections with output, up to the limit of a turn. The poller reports the others, because their
    /// sockets have room.
    pub(super) fn flush(&mut self) {
        self.decoder.free_events(self.written_events.take_sent());
        let mut budget = WriteBudget::new();
        for id in self.writes.take(|id| self.connections.get(&id).map_or(0, Connection::queued_bytes)) {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            // Without any budget left, the poller reports the room for what is queued. A closing connection with
            // nothing queued has no other turn.
            let before_bytes = connection.queued_bytes();
            let flushed = connection.flush(budget.left_bytes());
            budget.spend(before_bytes.saturating_sub(connection.queued_bytes()));
            self.decoder.free(connection.take_spent());
            match flushed {
                Ok(true) => self.remove(id),
                Ok(false) => {
                    if let Err(errno) = connection.watch(Token(id.0)) {
                        tracing::warn!(peer = id.0, %errno, "can't wait until a connection is writable; it may stall");
                    }
                }
                Err(dropped) => self.settle(id, Err(dropped)),
            }
            self.weigh(id);
        }
        // The peers have perhaps read enough for another large reply.
        self.encode_next();
    }

    /// Writes all that earlier turns left over, because no turn follows, and gives peers that read this time. A
    /// connection that breaks has no use for the rest.
    pub(super) fn flush_all(&mut self, clock: Clock, time_max: Duration) {
        let end = clock.now() + time_max;
        let mut queued_before = usize::MAX;
        loop {
            let mut queued_bytes = 0_usize;
            let mut waiting = Vec::new();
            for connection in self.connections.values_mut() {
                // A connection that can't be written to has nothing to wait for.
                if connection.flush(usize::MAX).is_ok() && connection.queued_bytes() > 0 {
                    queued_bytes = queued_bytes.saturating_add(connection.queued_bytes());
                    waiting.push(PollFd::new(connection.socket(), PollFlags::POLLOUT));
                }
            }
            let left = end.since(clock.now());
            if queued_bytes == 0 || queued_bytes >= queued_before || left.is_zero() {
                return;
            }
            queued_before = queued_bytes;
            let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
            match poll(&mut waiting, left) {
                Ok(_) => {}
                // A signal is no sign of a peer that does not read.
                Err(Errno::EINTR) => queued_before = usize::MAX,
                Err(_) => return,
            }
        }
    }

    /// Ends finished connections. Messages sent to their peers before must arrive earlier than the end.
    pub(super) fn end(&mut self) {
        for (id, connection) in self.ended.drain(..) {
            self.process_ends.forget(id, &self.pollers.main);
            connection.end();
        }
    }

    fn write(&mut self, id: PeerId, write: impl FnOnce(&mut Connection) -> Result<(), Dropped>) {
        if let Some(connection) = self.connections.get_mut(&id) {
            let result = write(connection);
            self.writes.insert(id);
            self.settle(id, result);
            self.weigh(id);
        }
    }

    /// Notes the memory of a connection. Drops the greediest connections as long as all together hold too much.
    fn weigh(&mut self, id: PeerId) {
        let mut used = self.connections.get(&id).map_or_else(MemoryUse::default, Connection::memory_use);
        used.own = used.own.saturating_add(self.decoder.reply_bytes_of(id));
        self.memory_quota.set(id, used);
        self.memory_quota.set_shared(self.job_info.held_bytes());
        if self.memory_quota.is_exceeded() {
            self.job_info.give_way();
            self.memory_quota.set_shared(self.job_info.held_bytes());
        }
        while let Some(greediest) = self.memory_quota.greediest(|id| self.connections.get(&id).map(Connection::holder))
        {
            let (bytes, bytes_max) = (self.memory_quota.bytes(), self.limits.held_bytes_max);
            self.settle(greediest, Err(Dropped::Greedy { bytes, bytes_max }));
            self.memory_quota.set(greediest, MemoryUse::default());
            self.memory_quota.set_shared(self.job_info.held_bytes());
        }
    }

    /// Limit of a client's queue for messages without a request.
    fn unasked_bytes_max(&self) -> usize {
        self.memory_quota.unasked_bytes_max(self.limits.queued_bytes_max)
    }

    /// Drops a failed connection and gives the core the loss.
    fn settle(&mut self, id: PeerId, result: Result<(), Dropped>) {
        let Err(dropped) = result else { return };
        if !dropped.is_end_of_peer() {
            return self.part(id, &dropped);
        }
        // Requests that came before the end of a process still count. The end itself takes time of the process's share.
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.end_behind_messages(dropped);
            self.decoder.free(connection.take_spent());
            self.await_turn(id);
        }
    }

    /// Removes a connection and gives the core the loss.
    fn part(&mut self, id: PeerId, dropped: &Dropped) {
        if let Some(connection) = self.connections.get_mut(&id) {
            let PeerCredentials { pid, uid, .. } = connection.credentials();
            if dropped.is_end_of_peer() {
                tracing::debug!(peer = id.0, pid, "connection ended");
            } else if self.drop_reports.is_due(Some(uid), self.turned_at) {
                tracing::warn!(peer = id.0, pid, reason = %shortened(dropped), "connection dropped");
            }
            self.remove(id);
            self.inputs.push_back(Input::Lost(id));
        }
    }

    fn remove(&mut self, id: PeerId) {
        if let Some(mut connection) = self.connections.remove(&id) {
            connection.deadline.map(|deadline| self.deadlines.remove(&(deadline, id)));
            connection.discard();
            self.decoder.free(connection.take_spent());
            connection.take_decoded().into_iter().for_each(|decoded| self.decoder.discard(decoded));
            self.left.extend(connection.free_slot());
            self.ended.push((id, connection));
        }
        self.memory_quota.set(id, MemoryUse::default());
        self.pending_handshakes.remove(id);
        self.turns.leave(&id);
        self.decoder.leave(id);
    }

    fn make_room(&mut self) {
        while let Some((oldest, handshakes_max)) = self.pending_handshakes.surplus(self.connections.len()) {
            self.settle(oldest, Err(Dropped::Crowded { handshakes_max }));
        }
    }
}

/// Numbers below are the poller's own tokens.
const FIRST_PEER: u64 = 4;
/// The part of all memory that may be kept job information: a quarter.
const JOB_INFO_SHARE: usize = 4;
/// Bytes read from one connection per turn.
const BUFFER_SIZE_BYTES: usize = 64 << 10;
/// Connections dropped in one turn for lateness.
const DEADLINES_PER_TURN: usize = 64;
/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
