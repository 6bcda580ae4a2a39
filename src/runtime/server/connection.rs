use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use self::replies::Replies;
use super::decoder::LARGE_BYTES_MIN;
use super::handshake::{
    self, CompletedHandshake, Expects, Handshake, Introduced, Introduction, IntroductionError, PeerOrigin, Rejected,
    Unproven,
};
use super::job_info::JobInfoError;
use super::launcher_channel::{LauncherChannel, Passed};
use super::loop_messages::Decoded;
use super::memory_quota::MemoryUse;
use super::missed_output::MissedOutput;
use super::pmi::{PmiRank, Step};
use super::poller::{Interest, Poller, Token};
use super::request_quota::Account;
use super::turns::Share;
use crate::gds::Store;
use crate::pmi::CommandError;
use crate::proto::frame::{Frame, FrameBuffer, FrameError, FrameHeader, OwnedFrame};
use crate::proto::handshake::Ids;
use crate::proto::notification::RemovalNotice;
use crate::proto::request::RequestDecodeError;
use crate::proto::{Command, Dialect, Reply, Request, SegmentNotice, Tag};
use crate::ptl::{
    Flushed, PeerCredentials, PeerEnd, QueueFull, Received, SharedBytes, SpentMessages, Stream, StreamError,
};
use crate::runtime::shared::message_codec::{MessageCodec, MessageEncodeError, OpenRequests, TagInUse, message_buffer};
use crate::runtime::shared::prover::ProofError;
use crate::server::{Forwarded, Input, PeerId, Refusal};
use crate::types::{AsStatus, ProcId, Status, Time};
use nix::errno::Errno;

/// A client's connection at the server.
pub(super) struct Connection {
    stream: Stream,
    /// Watches the stream.
    poller: Arc<Poller>,
    /// Large messages that were sent or dropped.
    spent: SpentMessages,
    credentials: PeerCredentials,
    /// Whether credentials of munge can be checked.
    checks_munge: bool,
    stage: Stage,
    /// The age of the peer's Init at its introduction, if the peer sent it.
    init_age: Option<Duration>,
    /// When the connection is dropped unless something happens before.
    pub(super) deadline: Option<Time>,
    /// The end of the peer, to be handled behind its earlier requests.
    ending: Option<Dropped>,
    /// The events that the poller reports.
    interest: Interest,
    /// Messages of other processes that the peer missed because it did not read earlier ones.
    missed_count: u64,
    missed_output: MissedOutput,
    /// Whether the peer misses output until half of its room is free.
    misses_output: bool,
    /// Whether the peer has missed output since it last had read everything.
    is_slow_reader: bool,
    /// Whether the peer has got output of other processes.
    gets_output: bool,
    replies: Replies,
    /// A large request on its way through the decoder.
    large: Large,
    /// The way of a launcher's messages to a session of this process.
    channel: Option<LauncherChannel>,
    /// Whether the last request takes another turn.
    is_unfinished: bool,
    /// Number of handled requests.
    request_count: u64,
    /// Ranks with PMI-2 whose wait the last command ended.
    woken: Vec<PeerId>,
    /// Number of replies that the decoder works on. Further requests wait for them.
    replies_away: usize,
    /// The peer's introduction, until its turn comes.
    introduction: Option<Introduction>,
}

/// The state of a large request. Later requests wait until it is handled.
#[derive(Default)]
enum Large {
    #[default]
    None,
    Waiting(OwnedFrame),
    /// In the decoder; its size in bytes.
    Away(usize),
    Decoded(Box<Decoded>),
}

/// Passes a message to the session of this process for which it is meant.
fn is_passed_on(channel: &mut Option<LauncherChannel>, frame: &Frame<'_>) -> bool {
    let passed = channel.as_ref().map_or(Passed::NotMeant, |channel| channel.take(frame));
    if passed == Passed::Ended
        && let Some(ended) = channel.take()
    {
        ended.cut_off();
    }
    passed != Passed::NotMeant
}

enum Stage {
    /// The introduction is incomplete.
    Handshake(Handshake),
    /// The credential is being checked. It is still here until the check starts.
    Proving(Box<Unproven>, Option<Vec<u8>>),
    /// The core knows it.
    Known(Known),
    /// A rank that speaks PMI-1 or PMI-2.
    Pmi(Box<PmiRank>),
    /// The peer has been refused. It closes the connection, or is dropped at its next message or its deadline. Tools of
    /// release 4.2 whose connection ends before their first request would wait for its reply for ever.
    Refused,
    /// Queued messages are still sent, but nothing is read any more.
    Closing,
}

struct Known {
    /// The form of messages to the peer.
    codec: MessageCodec,
    /// The form of its admission.
    expects: Expects,
    /// Whether the peer reads a refusal.
    wants_refusal: bool,
    inbox: FrameBuffer,
    open: OpenRequests,
    /// The account of its memory.
    account: Account,
    /// The number of its admission.
    index: Option<u32>,
}

/// Why a connection was dropped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum Dropped {
    /// The peer closed the connection.
    #[error("the peer closed the connection")]
    End,
    /// The socket failed.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The peer does not read its messages.
    #[error(transparent)]
    Queue(#[from] QueueFull),
    /// The introduction is invalid.
    #[error("the connect message can't be read: {0}")]
    Introduction(#[from] IntroductionError),
    /// The peer sent more during the check of its credential.
    #[error("the peer sent more before it was admitted")]
    Early,
    /// A message is invalid.
    #[error("the stream of messages can't be read: {0}")]
    Frame(#[from] FrameError),
    /// A line of a rank is invalid.
    #[error("the PMI commands of a rank can't be read: {0}")]
    Pmi(#[from] CommandError),
    /// Two requests have the same tag.
    #[error(transparent)]
    Tag(#[from] TagInUse),
    /// The peer's encoding has no form for a reply.
    #[error("an answer can't be written for this peer: {0}")]
    Write(#[from] MessageEncodeError),
    /// A reply is too large for this peer and has no place for a status.
    #[error("the peer's release does not accept its job information: {0}")]
    ReplyTooLarge(FrameError),
    /// A reply can't be made and has no place for a status.
    #[error(transparent)]
    JobInfo(#[from] JobInfoError),
    /// The peer took too long.
    #[error("the peer did not introduce itself, did not finish a message, or did not read its last bytes, in time")]
    Deadline,
    /// Its process has too many requests with the host.
    #[error("too many or too large requests of this process wait for the host; connect again later")]
    Burdensome,
    /// All connections together hold too much memory.
    #[error(
        "all connections together hold {bytes} bytes, above the limit of {bytes_max}, and this process holds the \
         most; it must read its replies and finish its messages"
    )]
    Greedy {
        /// The bytes that they hold.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The server has no descriptor left for another connection.
    #[error("the server can't accept further connections, and this one had not introduced itself")]
    NoDescriptors,
    /// There are too many connections without an introduction.
    #[error("more than {handshakes_max} connections had not introduced themselves; this was the oldest")]
    Crowded {
        /// The limit.
        handshakes_max: usize,
    },
}

impl Dropped {
    /// Whether the peer has gone, whether or not it had read everything: that is no fault.
    pub(super) fn is_end_of_peer(&self) -> bool {
        match self {
            Self::End => true,
            Self::Stream(error) => error.is_end_of_peer(),
            _ => false,
        }
    }
}

impl Connection {
    /// A connection that `poller` watches.
    pub(super) fn new(stream: Stream, poller: Arc<Poller>, credentials: PeerCredentials, checks_munge: bool) -> Self {
        let stage = Stage::Handshake(Handshake::default());
        Self {
            stream,
            poller,
            spent: SpentMessages::default(),
            credentials,
            checks_munge,
            stage,
            init_age: None,
            deadline: None,
            ending: None,
            interest: Interest::default(),
            missed_count: 0,
            missed_output: MissedOutput::default(),
            misses_output: false,
            is_slow_reader: false,
            gets_output: false,
            replies: Replies::default(),
            large: Large::None,
            channel: None,
            is_unfinished: false,
            request_count: 0,
            woken: Vec::new(),
            replies_away: 0,
            introduction: None,
        }
    }

    /// The same for a rank that speaks PMI-1 or PMI-2.
    pub(super) fn of_pmi(self, rank: PmiRank) -> Self {
        Self { stage: Stage::Pmi(Box::new(rank)), ..self }
    }

    /// The same for the tool that started this process, which has introduced itself to the tool. `bytes` have come from
    /// the tool already.
    pub(super) fn of_parent(self, codec: MessageCodec, bytes: &[u8]) -> Self {
        let mut inbox = message_buffer();
        inbox.feed(bytes);
        let (open, account) = (OpenRequests::default(), Account::Tools(self.credentials.uid));
        let (expects, wants_refusal, index) = (Expects::Nothing, false, None);
        Self { stage: Stage::Known(Known { codec, expects, wants_refusal, inbox, open, account, index }), ..self }
    }

    pub(super) const fn is_of_pmi(&self) -> bool {
        matches!(self.stage, Stage::Pmi(_))
    }

    pub(super) fn credentials(&self) -> PeerCredentials {
        self.credentials
    }

    pub(super) fn peer_end(&self) -> PeerEnd {
        self.stream.peer_end(self.credentials)
    }

    pub(super) fn init_age(&self) -> Option<Duration> {
        self.init_age
    }

    /// Counts handled requests.
    pub(super) const fn count_requests(&mut self, requests: u64) {
        self.request_count = self.request_count.saturating_add(requests);
    }

    /// The process of a rank, and the number of its requests on this connection.
    pub(super) fn request_count(&self) -> Option<(&ProcId, u64)> {
        let proc = match &self.stage {
            Stage::Known(Known { account: Account::Process(proc), .. }) => proc,
            Stage::Pmi(rank) => rank.proc(),
            _ => return None,
        };
        Some((proc, self.request_count))
    }

    /// Whether the peer still owes the rest of a message.
    pub(super) fn owes_bytes(&self) -> bool {
        match &self.stage {
            Stage::Known(known) => known.inbox.is_inside_message() && !known.inbox.has_frame(),
            Stage::Pmi(rank) => rank.owes_bytes(),
            _ => false,
        }
    }

    /// Whether a message waits for its turn, or the end behind the last one.
    pub(super) fn has_work(&self) -> bool {
        match self.large {
            _ if self.replies_away > 0 => false,
            Large::Waiting(_) | Large::Away(_) => false,
            Large::None | Large::Decoded(_) => self.has_messages() || (self.ending.is_some() && !self.awaits_abort()),
        }
    }

    /// Whether the host has to learn of an abort before it learns that the rank has gone.
    fn awaits_abort(&self) -> bool {
        matches!(&self.stage, Stage::Pmi(rank) if rank.awaits_abort())
    }

    /// Whether messages wait to be handled, or handled further.
    pub(super) fn has_messages(&self) -> bool {
        let has_frame = match &self.stage {
            Stage::Known(known) => known.inbox.has_frame(),
            Stage::Pmi(rank) => rank.is_ready(),
            _ => false,
        };
        has_frame || self.introduction.is_some() || self.is_unfinished || !matches!(self.large, Large::None)
    }

    /// Leaves a reply to the decoder. Nothing has a turn until [`Connection::resume`].
    pub(super) const fn pause(&mut self) {
        self.replies_away = self.replies_away.saturating_add(1);
    }

    /// Takes note of a reply that the decoder has finished.
    pub(super) const fn resume(&mut self) {
        self.replies_away = self.replies_away.saturating_sub(1);
    }

    /// Notes that the last request takes another turn.
    pub(super) const fn note_unfinished(&mut self) {
        self.is_unfinished = true;
    }

    /// Whether a request waits for the decoder.
    pub(super) const fn has_undecoded(&self) -> bool {
        matches!(self.large, Large::Waiting(_))
    }

    /// Takes a request for the decoder; it comes back by [`Connection::accept`].
    pub(super) fn take_undecoded(&mut self) -> Option<(OwnedFrame, MessageCodec)> {
        match (&self.stage, std::mem::take(&mut self.large)) {
            (Stage::Known(known), Large::Waiting(frame)) => {
                self.large = Large::Away(frame.frame().payload.len());
                Some((frame, known.codec))
            }
            (_, large) => {
                self.large = large;
                None
            }
        }
    }

    /// Takes a decoded request that was not handled.
    pub(super) fn take_decoded(&mut self) -> Option<Box<Decoded>> {
        match std::mem::take(&mut self.large) {
            Large::Decoded(decoded) => Some(decoded),
            Large::None | Large::Waiting(_) | Large::Away(_) => None,
        }
    }

    /// Takes a request back from the decoder.
    pub(super) fn accept(&mut self, decoded: Box<Decoded>) {
        self.large = Large::Decoded(decoded);
    }

    /// The share of the server's time for its requests. An introduction is on the tools' share, so that nobody pays for
    /// a false name.
    pub(super) fn share(&self) -> Share {
        let uid = self.credentials.uid;
        let account = if self.introduction.is_some() { Account::Tools(uid) } else { self.account() };
        Share { uid, account }
    }

    /// Ends a connection to a peer that has gone. Its earlier requests are still handled.
    pub(super) fn end_behind_messages(&mut self, dropped: Dropped) {
        self.stream.discard(&mut self.spent);
        self.ending.get_or_insert(dropped);
        // The poller would report the end in every turn.
        self.forget();
    }

    /// Whether the peer has gone.
    pub(super) const fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// The account of its memory: the process that it claims to be, or before that its user.
    pub(super) fn account(&self) -> Account {
        match &self.stage {
            Stage::Known(known) => known.account.clone(),
            Stage::Pmi(rank) => Account::Process(rank.proc().clone()),
            _ => Account::Tools(self.credentials.uid),
        }
    }

    /// The user and the account of its memory.
    pub(super) fn holder(&self) -> (u32, Account) {
        (self.credentials.uid, self.account())
    }

    /// Memory of partial messages, of queued output, and of the counts of missed output.
    pub(super) fn memory_use(&self) -> MemoryUse {
        let received = match &self.stage {
            Stage::Handshake(handshake) => handshake.size_bytes(),
            Stage::Known(known) => known.inbox.pending().saturating_add(self.large.size_bytes()),
            Stage::Pmi(rank) => rank.pending_bytes(),
            Stage::Proving(..) | Stage::Refused | Stage::Closing => 0,
        };
        let unread = self.stream.held_bytes();
        MemoryUse {
            own: received.saturating_add(unread).saturating_add(self.missed_output.size_bytes()),
            shared: self.stream.shared_bytes(),
            unread: Some((self.credentials.uid, unread)),
        }
    }

    /// Whether the peer has not been introduced, or has been refused.
    pub(super) fn is_in_handshake(&self) -> bool {
        self.introduction.is_some() || matches!(self.stage, Stage::Handshake(_) | Stage::Proving(..) | Stage::Refused)
    }

    /// Whether nothing more is read, but queued messages are still sent.
    pub(super) const fn is_closing(&self) -> bool {
        matches!(self.stage, Stage::Closing)
    }

    /// Reads once; introductions and messages wait for their turn. Reads at most one buffer per turn, so that other
    /// connections come next.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> Result<(), Dropped> {
        let count = match self.stream.receive(buffer)? {
            Received::Bytes(count) => count,
            Received::Nothing => return Ok(()),
            Received::End => return Err(Dropped::End),
        };
        let bytes = buffer.get(..count).unwrap_or_default();
        match &mut self.stage {
            Stage::Handshake(handshake) => {
                let carries_descriptors = self.stream.carries_descriptors();
                let origin =
                    PeerOrigin { credentials: self.credentials, carries_descriptors, checks_munge: self.checks_munge };
                match handshake.push(bytes, origin) {
                    Ok(Some(Introduced::Whole(completed))) => self.know(*completed),
                    Ok(Some(Introduced::Unproven(mut unproven))) => {
                        let credential = unproven.take_credential();
                        self.stage = Stage::Proving(unproven, Some(credential));
                        return Ok(());
                    }
                    Ok(None) => return Ok(()),
                    Err(rejected) => return Err(self.reject(rejected)),
                }
            }
            Stage::Proving(..) => return Err(Dropped::Early),
            Stage::Known(known) => known.inbox.feed(bytes),
            Stage::Pmi(rank) => rank.feed(bytes),
            // The peer has read its refusal, and gets no other reply.
            Stage::Refused => return Err(Dropped::End),
            Stage::Closing => {}
        }
        Ok(())
    }

    /// Stops receiving, because no process is left to send: the end is read behind the bytes that have come.
    pub(super) fn expect_no_more(&self) {
        self.stream.shutdown_receiving();
    }

    /// Takes the credential to be checked, once.
    pub(super) fn take_credential(&mut self) -> Option<Vec<u8>> {
        match &mut self.stage {
            Stage::Proving(_, credential) => credential.take(),
            _ => None,
        }
    }

    /// Takes the result of a credential check.
    pub(super) fn prove(&mut self, id: PeerId, proven: Result<Ids, ProofError>) -> Result<(), Dropped> {
        match std::mem::replace(&mut self.stage, Stage::Closing) {
            Stage::Proving(unproven, _) => {
                if let Ok(ids) = &proven {
                    tracing::debug!(peer = id.0, uid = ids.uid, gid = ids.gid, "munge checks the credential of a peer");
                    self.credentials = self.credentials.or_proven(ids.uid, ids.gid);
                }
                let completed = unproven.proven(proven).map_err(|rejected| self.reject(rejected))?;
                self.know(completed);
                Ok(())
            }
            other => {
                self.stage = other;
                Ok(())
            }
        }
    }

    fn know(&mut self, completed: CompletedHandshake) {
        let CompletedHandshake { introduction, codec, init_age, wants_refusal, inbox } = completed;
        self.init_age = init_age;
        let (expects, account) = (introduction.expects(), introduction.account());
        self.introduction = Some(introduction);
        self.stage = Stage::Known(Known {
            codec,
            expects,
            wants_refusal,
            inbox,
            open: OpenRequests::default(),
            account,
            index: None,
        });
    }

    /// Sends a rejection to a peer that reads it. A new connection has room for a status.
    fn reject(&mut self, rejected: Rejected) -> Dropped {
        let Rejected { error, wants_refusal } = rejected;
        if wants_refusal && self.stream.queue(handshake::refusal(error.status()), None).is_ok() {
            // A peer that has gone reads nothing.
            let _ = self.stream.flush();
        }
        Dropped::Introduction(error)
    }

    /// Takes the next message. Returns a request for the core, unless the connection handles the message itself. Behind
    /// the last message comes the end of a peer that has gone.
    pub(super) fn next_request(&mut self, id: PeerId, store: &Store) -> Result<Option<Input>, Dropped> {
        if !self.has_messages()
            && let Some(ending) = self.ending.take()
        {
            return Err(ending);
        }
        if let Some(introduction) = self.introduction.take() {
            return Ok(Some(introduction.into_input(id)));
        }
        if std::mem::take(&mut self.is_unfinished) {
            return Ok(Some(Input::Proceed(id)));
        }
        if let Large::Decoded(decoded) = std::mem::take(&mut self.large) {
            let Decoded { header, request, .. } = *decoded;
            return self.begin_request(id, header, request);
        }
        let Stage::Known(Known { codec, inbox, .. }) = &mut self.stage else { return self.next_command(id, store) };
        if let Some(frame) = inbox.next_large_frame(LARGE_BYTES_MIN) {
            if !is_passed_on(&mut self.channel, &frame.frame()) {
                self.large = Large::Waiting(frame);
            }
            return Ok(None);
        }
        let Some(frame) = inbox.next_frame()? else { return Ok(None) };
        if is_passed_on(&mut self.channel, &frame) {
            return Ok(None);
        }
        let tag = frame.header.tag;
        if tag == Tag::HEARTBEAT {
            return Ok(Some(Input::Heartbeat(id)));
        }
        if tag == Tag::AWAKE && self.replies.has_slot() {
            if let Some(woken) = Tag::from_bytes(frame.payload) {
                for (tag, command) in self.replies.wake(woken) {
                    self.stream.queue(codec.write_reply(tag, &Reply::Status(Status::SUCCESS), command)?, None)?;
                }
            }
            return Ok(None);
        }
        let (header, request) = (frame.header, codec.read_request(&frame));
        self.begin_request(id, header, request)
    }

    /// The connections that can go on since the last request.
    pub(super) fn take_woken(&mut self) -> Vec<PeerId> {
        std::mem::take(&mut self.woken)
    }

    /// Handles the next command of a rank that speaks PMI-1 or PMI-2. Most commands are answered at once.
    fn next_command(&mut self, id: PeerId, store: &Store) -> Result<Option<Input>, Dropped> {
        let Stage::Pmi(rank) = &mut self.stage else { return Ok(None) };
        match rank.step(id, store)? {
            Step::Ask(input) => return Ok(Some(input)),
            Step::Say(answer) => self.stream.queue(answer.into_bytes(), None)?,
            Step::SayAndWake(answer, woken) => {
                self.woken = woken;
                self.stream.queue(answer.into_bytes(), None)?;
            }
            Step::Wait => {}
        }
        Ok(None)
    }

    fn begin_request(
        &mut self,
        id: PeerId,
        header: FrameHeader,
        request: Result<(Request, usize), RequestDecodeError>,
    ) -> Result<Option<Input>, Dropped> {
        let Stage::Known(Known { codec, open, .. }) = &mut self.stage else { return Ok(None) };
        let tag = header.tag;
        match request {
            Ok((request, size_bytes)) => {
                open.open(tag, request.command(), size_bytes)?;
                self.replies.note(tag, request.command(), header.padding);
                Ok(Some(Input::Request(id, tag, request)))
            }
            Err(error) => {
                tracing::warn!(peer = id.0, %error, "a request can't be read");
                if error.expects_reply() {
                    // A lone status has the same form for every command.
                    let answer = Reply::Status(error.status());
                    self.stream.queue(codec.write_reply(tag, &answer, Command::Commit)?, None)?;
                }
                Ok(None)
            }
        }
    }

    /// Queues the peer's admission, with its name if the server assigned one.
    pub(super) fn admit(&mut self, index: u32, proc: Option<&ProcId>, server: &ProcId) -> Result<(), Dropped> {
        if let Stage::Pmi(rank) = &mut self.stage {
            rank.admit();
        }
        let Stage::Known(known) = &mut self.stage else { return Ok(()) };
        known.index = Some(index);
        match handshake::admission(known.expects, index, proc, server) {
            Some(answer) => Ok(self.stream.queue(answer, None)?),
            None => Ok(()),
        }
    }

    /// Queues a refusal if the peer's release reads it; otherwise closes the connection.
    pub(super) fn refuse(&mut self, refusal: &Refusal) -> Result<(), Dropped> {
        if matches!(&self.stage, Stage::Known(known) if known.wants_refusal) {
            self.stream.queue(handshake::refusal(refusal.status()), None)?;
            self.stage = Stage::Refused;
            return Ok(());
        }
        self.close();
        Ok(())
    }

    /// The command of an unanswered request.
    pub(super) fn asked(&self, tag: Tag) -> Option<Command> {
        match &self.stage {
            Stage::Known(known) => known.open.command(tag),
            Stage::Pmi(rank) => rank.asked(),
            _ => None,
        }
    }

    /// The memory of an unanswered request.
    pub(super) fn size_bytes_of(&self, tag: Tag) -> usize {
        match &self.stage {
            Stage::Known(known) => known.open.size_bytes(tag),
            Stage::Pmi(rank) => rank.asked_bytes(),
            _ => 0,
        }
    }

    /// The dialect of an introduced peer, and the largest payload that it takes.
    pub(super) fn reading(&self) -> Option<(Dialect, usize)> {
        match &self.stage {
            Stage::Known(known) => Some(known.codec.reading()),
            _ => None,
        }
    }

    /// The form of messages to an introduced peer.
    pub(super) const fn codec(&self) -> Option<&MessageCodec> {
        match &self.stage {
            Stage::Known(known) => Some(&known.codec),
            _ => None,
        }
    }

    /// Queues an event that was written once for all peers with the same dialect.
    pub(super) fn notify(&mut self, event: Arc<Vec<u8>>, unasked_bytes_max: usize) -> Result<(), Dropped> {
        if self.may_queue_unasked(event.len(), unasked_bytes_max) {
            self.stream.queue_copied(vec![(Vec::new(), SharedBytes::whole(&event))])?;
        }
        Ok(())
    }

    /// Whether a session of this process talks to the launcher.
    pub(super) fn has_channel(&self) -> bool {
        self.channel.as_ref().is_some_and(|channel| !channel.is_over())
    }

    /// Passes the launcher's answers to a session of this process from now on.
    pub(super) fn set_channel(&mut self, channel: LauncherChannel) {
        self.channel = Some(channel);
    }

    /// Queues a request of this process.
    pub(super) fn queue_request(&mut self, bytes: Vec<u8>) -> Result<(), Dropped> {
        Ok(self.stream.queue(bytes, None)?)
    }

    /// Queues a notice of a removed value.
    pub(super) fn tell_removal(&mut self, removal: &RemovalNotice, unasked_bytes_max: usize) -> Result<(), Dropped> {
        let Stage::Known(known) = &self.stage else { return Ok(()) };
        let bytes = known.codec.write_removal(removal)?;
        self.queue_unasked(bytes, unasked_bytes_max)
    }

    /// Announces a segment, under the tag of its kind. Without a descriptor the layout is 0, so that the peer does not
    /// take the next descriptor for this segment.
    pub(super) fn send_segment(
        &mut self,
        tag: Tag,
        notice: &SegmentNotice,
        descriptor: Option<Arc<OwnedFd>>,
    ) -> Result<(), Dropped> {
        let Stage::Known(known) = &self.stage else { return Ok(()) };
        let layout_id = if descriptor.is_some() { notice.layout_id } else { 0 };
        let notice = SegmentNotice { layout_id, ..notice.clone() };
        Ok(self.stream.queue(known.codec.write_segment(tag, &notice)?, descriptor)?)
    }

    /// The bytes that wait for the peer, if it gets output and keeps up.
    pub(super) fn unread_output_bytes(&self) -> usize {
        if self.gets_output && !self.is_slow_reader { self.stream.queued_bytes() } else { 0 }
    }

    /// Forwards output. The peer misses output that exceeds its limit, and then more of it until half of the room is
    /// free. So there are few gaps. It never misses the end of an output: it may wait for that, and it comes once.
    pub(super) fn send_output(&mut self, forwarded: &Forwarded, unasked_bytes_max: usize) -> Result<(), Dropped> {
        let Stage::Known(known) = &self.stage else { return Ok(()) };
        self.gets_output = true;
        self.is_slow_reader &= self.stream.queued_bytes() > 0;
        let (head, output) = (forwarded.head(), &forwarded.output);
        let bytes = &output.bytes;
        let marked = self.missed_output.mark(&head);
        let starts = match known.codec.write_output(&marked, bytes.len()) {
            Ok(starts) => starts,
            Err(error) => {
                tracing::warn!(source = %head.source, %error, "output can't be written for a peer");
                return Ok(());
            }
        };
        // The parts of a large piece have one mark, so the peer gets all of them or none.
        let size_bytes = starts.iter().fold(bytes.len(), |size, (start, _)| size.saturating_add(start.len()));
        let room_bytes = if self.misses_output { unasked_bytes_max / 2 } else { unasked_bytes_max };
        if !bytes.is_empty() {
            self.misses_output = !self.may_queue_unasked(size_bytes, room_bytes);
        }
        if self.misses_output && !bytes.is_empty() {
            self.is_slow_reader = true;
            self.missed_output.add(&head, bytes.len());
            return Ok(());
        }
        let parts = starts.into_iter().scan(0_usize, |begin, (start, count)| {
            let end = begin.saturating_add(count);
            Some((start, SharedBytes::part(output, std::mem::replace(begin, end)..end)))
        });
        self.stream.queue_copied(parts.collect())?;
        self.missed_output.settle(&head);
        Ok(())
    }

    /// Queues a message of other processes if that leaves room for replies. A process that is stopped in a debugger
    /// must not lose its connection because its peers are busy; it misses their messages.
    fn queue_unasked(&mut self, bytes: Vec<u8>, unasked_bytes_max: usize) -> Result<(), Dropped> {
        if self.may_queue_unasked(bytes.len(), unasked_bytes_max) {
            self.stream.queue(bytes, None)?;
        }
        Ok(())
    }

    /// Whether an unrequested message may be queued. If not, the peer misses it.
    fn may_queue_unasked(&mut self, size_bytes: usize, room_bytes: usize) -> bool {
        let queued_bytes = self.stream.queued_bytes();
        if queued_bytes > 0 && queued_bytes.saturating_add(size_bytes) > room_bytes {
            if self.missed_count == 0 {
                let pid = self.credentials.pid;
                tracing::warn!(pid, queued_bytes, "a client does not read; it misses events and output of others");
            }
            self.missed_count = self.missed_count.saturating_add(1);
            return false;
        }
        if self.missed_count > 0 {
            let pid = self.credentials.pid;
            tracing::warn!(
                pid,
                missed_count = self.missed_count,
                "a client reads again; it has missed messages of others"
            );
            self.missed_count = 0;
        }
        true
    }

    /// Reads no more; queued messages are still sent.
    pub(super) fn close(&mut self) {
        self.stage = Stage::Closing;
    }

    /// Writes queued messages, about `bytes_max` bytes. Returns whether the connection is finished.
    pub(super) fn flush(&mut self, bytes_max: usize) -> Result<bool, Dropped> {
        if self.is_ending() {
            self.stream.discard(&mut self.spent);
            return Ok(false);
        }
        if self.is_deferring() {
            return Ok(false);
        }
        self.end_deferral();
        let flushed = self.stream.flush_some(bytes_max, &mut self.spent)?;
        Ok(flushed == Flushed::All && matches!(self.stage, Stage::Closing))
    }

    /// The descriptor to wait on.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Bytes that wait to be written.
    pub(super) const fn queued_bytes(&self) -> usize {
        self.stream.queued_bytes()
    }

    /// Large messages to be freed elsewhere.
    pub(super) fn take_spent(&mut self) -> SpentMessages {
        std::mem::take(&mut self.spent)
    }

    /// Drops queued messages.
    pub(super) fn discard(&mut self) {
        self.stream.discard(&mut self.spent);
    }

    /// Ends the connection. A forked child may hold a copy of the socket; without the shutdown the peer would wait, and
    /// the poller would report it.
    pub(super) fn end(&self) {
        if !self.is_ending() {
            self.forget();
        }
        self.stream.shutdown();
    }

    fn forget(&self) {
        // Fails only for a socket that the poller does not know.
        let _ = self.poller.forget(&self.stream);
    }

    /// Watches for room while output is queued, and for input while the connection is not full.
    pub(super) fn watch(&mut self, token: Token) -> Result<(), Errno> {
        if self.is_ending() {
            return Ok(());
        }
        let interest =
            Interest { readable: !self.is_full(), writable: self.stream.has_queued() && !self.is_deferring() };
        if interest != self.interest {
            self.poller.rewatch(&self.stream, token, interest)?;
            self.interest = interest;
        }
        Ok(())
    }

    /// Lets another poller watch the stream. If that fails, the earlier one still does.
    pub(super) fn watch_by(&mut self, poller: &Arc<Poller>, token: Token) -> Result<(), Errno> {
        if self.is_ending() {
            return Ok(());
        }
        poller.watch_for(&self.stream, token, self.interest)?;
        let earlier = std::mem::replace(&mut self.poller, Arc::clone(poller));
        earlier.forget(&self.stream)
    }

    /// Whether reading stops until earlier messages are handled. The kernel then stops the peer.
    pub(super) fn is_full(&self) -> bool {
        let (pending_bytes, has_message) = match &self.stage {
            Stage::Known(known) => (known.inbox.pending(), known.inbox.has_frame()),
            // A spawn of several lines, or a long message, waits for its end and not for the core.
            Stage::Pmi(rank) => (rank.pending_bytes(), rank.has_message()),
            _ => return self.is_ending(),
        };
        // A full connection must become half empty first, because each change is a system call.
        let bytes_max = if self.interest.readable { UNHANDLED_BYTES_MAX } else { UNHANDLED_BYTES_MAX / 2 };
        self.is_ending() || (pending_bytes >= bytes_max && has_message)
    }
}

impl Large {
    /// Memory of the request: as it was sent, or decoded.
    fn size_bytes(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Waiting(frame) => frame.frame().payload.len(),
            Self::Away(size_bytes) => *size_bytes,
            Self::Decoded(decoded) => decoded.size_bytes(),
        }
    }
}

/// Limit of waiting messages in bytes. Above it, the connection is not read.
const UNHANDLED_BYTES_MAX: usize = 64 << 10;

mod replies;
#[cfg(test)]
mod tests;
