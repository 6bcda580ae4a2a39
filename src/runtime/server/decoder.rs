//! A thread that decodes large requests, encodes large replies and writes the descriptions of large jobs. On the
//! server's own thread this work would stop the loop.
//!
//! One reply is encoded at a time, see [`ReplyLine`]. One request is decoded at a time. [`Turns`] chooses the next one,
//! as in the loop: by user, then by process, and each share pays for the time of its requests.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crossbeam::channel::{Sender, unbounded};

use super::job_info::{Described, Description};
use super::loop_messages::{Decoded, LoopMessage, LoopSender};
use super::reply_line::ReplyLine;
use super::turns::{Share, Turns};
use crate::proto::frame::OwnedFrame;
use crate::proto::{self, Reply, Tag};
use crate::ptl::SpentMessages;
use crate::runtime::shared::clock::Clock;
use crate::runtime::shared::message_codec::{MessageCodec, MessageEncodeError};
use crate::runtime::shared::threads::spawn;
use crate::server::{HardwareAnswer, PeerId, ProcessAnswer, QueryAnswers};
use crate::types::{Kval, ProcId, Time, Value, exceeds, footprint};

/// The connections with requests to decode, and the thread. The first request starts it.
pub(super) struct Decoder {
    loop_sender: LoopSender,
    clock: Clock,
    jobs: Option<Sender<Job>>,
    turns: Turns,
    /// The share of the request that the thread works on.
    working_for: Option<Share>,
    /// Large replies to encode.
    replies: ReplyLine<UnencodedReply>,
}

/// Work for the thread.
enum Job {
    Decode(PeerId, OwnedFrame, MessageCodec),
    Encode(PeerId, UnencodedReply),
    Describe(Description),
    /// Frees memory.
    Discard(Box<dyn Send>),
}

/// A reply to be encoded.
pub(super) struct UnencodedReply {
    pub(super) tag: Tag,
    pub(super) command: proto::Command,
    pub(super) content: Content,
    pub(super) codec: MessageCodec,
}

/// The content of a reply.
pub(super) enum Content {
    Reply(Reply),
    /// Answers that become a reply when they are written. Before, their tables are compact.
    Queries(QueryAnswers),
    Hardware(Box<HardwareAnswer>),
    /// All data of a process, behind the written description of its job if the peer needs that. It is read when it is
    /// written.
    Process {
        description: Option<Arc<[u8]>>,
        answer: ProcessAnswer,
    },
}

impl Content {
    /// Whether it is large enough for the thread.
    pub(super) fn is_large(&self) -> bool {
        match self {
            Self::Reply(reply) => is_large(reply),
            Self::Queries(answers) => {
                let mut left = LARGE_BYTES_MIN.saturating_sub(answers.unwritten_bytes());
                left == 0 || answers.infos().any(|info| exceeds(&info.value, &mut left))
            }
            Self::Hardware(answer) => answer.value_bytes() >= LARGE_BYTES_MIN,
            Self::Process { .. } => true,
        }
    }

    /// Approximate memory in bytes.
    fn size_bytes(&self) -> usize {
        match self {
            Self::Reply(reply) => size_of_reply(reply),
            Self::Queries(answers) => answers
                .unwritten_bytes()
                .saturating_add(size_of_values(answers.infos().map(|info| &info.value), answers.infos().count())),
            Self::Hardware(answer) => answer.value_bytes(),
            // The posted values are not in memory yet.
            Self::Process { answer, .. } => {
                let registered = &answer.registered;
                size_of_values(registered.iter().map(|entry| &entry.value), registered.len())
            }
        }
    }

    pub(super) fn into_reply(self) -> Reply {
        match self {
            Self::Reply(reply) => reply,
            Self::Queries(answers) => answers.into_reply(),
            Self::Hardware(answer) => answer.into_reply(),
            Self::Process { answer, .. } => answer.into_reply(),
        }
    }
}

impl UnencodedReply {
    fn encoded(self) -> Result<Vec<u8>, MessageEncodeError> {
        let Self { tag, command, content, codec } = self;
        match content {
            Content::Process { description: Some(description), answer } => match answer.into_reply() {
                data @ Reply::Data(_) => codec.write_reply_behind(tag, &description, &data, command),
                refusal => codec.write_reply(tag, &refusal, command),
            },
            content => codec.write_reply(tag, &content.into_reply(), command),
        }
    }
}

/// Approximate memory of a large reply, in bytes.
fn size_of_reply(reply: &Reply) -> usize {
    match reply {
        Reply::Infos(infos) => size_of_values(infos.iter().map(|info| &info.value), infos.len()),
        Reply::Data(data) => {
            let entries = data.iter().flat_map(|of| &of.entries);
            let count = data.iter().fold(0, |sum: usize, of| sum.saturating_add(of.entries.len()));
            size_of_values(entries.map(|entry| &entry.value), count)
        }
        Reply::Lookup(found) => size_of_values(found.iter().map(|data| &data.value), found.len()),
        Reply::Procs(procs) | Reply::Group { members: procs, .. } => procs.len().saturating_mul(size_of::<ProcId>()),
        Reply::Nodes(names) => names.as_bytes().len(),
        Reply::Partial { results, .. } => size_of_reply(results),
        _ => 0,
    }
}

/// Approximate memory of values with their keys. The first ones are measured, without the content of their arrays'
/// elements. The others count with their fixed part, so that the server's thread does not walk through a large reply.
fn size_of_values<'a>(values: impl Iterator<Item = &'a Value>, count: usize) -> usize {
    let rough = |value: &Value| match value {
        Value::DataArray(array) => array.elements.len().saturating_mul(size_of::<Value>()),
        value => footprint(value).unwrap_or_default(),
    };
    values.take(MEASURED_VALUES_MAX).map(rough).fold(count.saturating_mul(size_of::<Kval>()), usize::saturating_add)
}

/// Whether a reply is large enough for the thread.
fn is_large(reply: &Reply) -> bool {
    let mut left = LARGE_BYTES_MIN;
    match reply {
        Reply::Infos(infos) => infos.iter().any(|info| exceeds(&info.value, &mut left)),
        Reply::Data(data) => data.iter().flat_map(|of| &of.entries).any(|entry| exceeds(&entry.value, &mut left)),
        Reply::Lookup(found) => found.iter().any(|data| exceeds(&data.value, &mut left)),
        Reply::Procs(procs) | Reply::Group { members: procs, .. } => procs.len() >= left / size_of::<ProcId>(),
        Reply::Nodes(names) => names.as_bytes().len() >= left,
        Reply::Partial { results, .. } => is_large(results),
        _ => false,
    }
}

impl Decoder {
    pub(super) fn new(loop_sender: LoopSender, clock: Clock) -> Self {
        Self {
            loop_sender,
            clock,
            jobs: None,
            turns: Turns::default(),
            working_for: None,
            replies: ReplyLine::default(),
        }
    }

    /// Adds a connection with a request to decode.
    pub(super) fn join(&mut self, id: PeerId, share: Share) {
        self.turns.join(id, share);
    }

    /// Removes a connection.
    pub(super) fn leave(&mut self, id: PeerId) {
        self.turns.leave(&id);
        let replies = self.replies.leave(id);
        if !replies.is_empty() {
            self.discard(Box::new(replies));
        }
    }

    /// Adds a large reply for a connection of this user.
    pub(super) fn line_up(&mut self, uid: u32, id: PeerId, reply: UnencodedReply) {
        let size_bytes = reply.content.size_bytes();
        self.replies.push(uid, id, size_bytes, self.clock.now(), reply);
    }

    /// The large replies.
    pub(super) const fn replies(&mut self) -> &mut ReplyLine<UnencodedReply> {
        &mut self.replies
    }

    /// Memory of the large replies for a connection, in bytes.
    pub(super) fn reply_bytes_of(&self, id: PeerId) -> usize {
        self.replies.size_bytes_of(id)
    }

    /// The time from which on a large reply for a user without room is late.
    pub(super) fn late_from(&self, wait_max: Duration, has_room: impl Fn(u32) -> bool) -> Option<Time> {
        self.replies.late_from(wait_max, has_room)
    }

    /// The next connection, if the thread is free.
    pub(super) fn next(&mut self) -> Option<PeerId> {
        if self.working_for.is_some() {
            return None;
        }
        let (id, share) = self.turns.next()?;
        self.working_for = Some(share);
        Some(id)
    }

    /// Decodes a request on the thread. Without a thread, decodes it here and returns it.
    pub(super) fn decode(&mut self, id: PeerId, frame: OwnedFrame, codec: MessageCodec) -> Option<Decoded> {
        match self.give(Job::Decode(id, frame, codec)) {
            Some(Job::Decode(_, frame, codec)) => Some(decoded(frame, &codec, self.clock)),
            _ => None,
        }
    }

    /// Encodes a reply on the thread. Without a thread, encodes it here and returns it.
    pub(super) fn encode(&mut self, id: PeerId, answer: UnencodedReply) -> Option<Result<Vec<u8>, MessageEncodeError>> {
        match self.give(Job::Encode(id, answer)) {
            Some(Job::Encode(_, answer)) => Some(answer.encoded()),
            _ => None,
        }
    }

    /// Writes a job's description on the thread. Without a thread, writes it here and returns it.
    pub(super) fn describe(&mut self, description: Description) -> Option<Described> {
        match self.give(Job::Describe(description)) {
            Some(Job::Describe(description)) => Some(description.write()),
            _ => None,
        }
    }

    /// Gives the thread a job. Returns the job if that fails.
    fn give(&mut self, job: Job) -> Option<Job> {
        match self.thread() {
            Ok(jobs) => jobs.send(job).err().map(|unsent| unsent.0),
            Err(error) => {
                tracing::warn!(%error, "no thread can be started for a large message; all clients wait until it is \
                 handled");
                Some(job)
            }
        }
    }

    /// Frees the thread again, because the chosen connection has no request to decode any more.
    pub(super) fn pass(&mut self) {
        self.working_for = None;
    }

    /// Takes a result: the thread is free again.
    pub(super) fn settle(&mut self, decoded: &Decoded) {
        if let Some(share) = self.working_for.take() {
            self.turns.charge(&share, 1, decoded.time);
        }
    }

    /// Frees memory that is not needed any more. Freeing may take as long as the decoding.
    pub(super) fn discard(&mut self, memory: Box<dyn Send>) {
        // Without a thread it is dropped here.
        drop(self.give(Job::Discard(memory)));
    }

    /// Frees large messages.
    pub(super) fn free(&mut self, spent: SpentMessages) {
        if !spent.is_empty() {
            self.discard(Box::new(spent));
        }
    }

    /// Frees large events.
    pub(super) fn free_events(&mut self, sent: Vec<Arc<Vec<u8>>>) {
        if !sent.is_empty() {
            self.discard(Box::new(sent));
        }
    }

    fn thread(&mut self) -> io::Result<&Sender<Job>> {
        let jobs = match self.jobs.take() {
            Some(jobs) => jobs,
            None => self.start()?,
        };
        Ok(self.jobs.insert(jobs))
    }

    fn start(&self) -> io::Result<Sender<Job>> {
        let (jobs, receiver) = unbounded();
        let (loop_sender, clock) = (self.loop_sender.clone(), self.clock);
        spawn("modex-decoder", move || {
            for job in receiver {
                match job {
                    // A server that has ended needs no result.
                    Job::Decode(peer, frame, codec) => {
                        let decoded = Box::new(decoded(frame, &codec, clock));
                        let _ = loop_sender.send(LoopMessage::Decoded(peer, decoded));
                    }
                    Job::Encode(peer, answer) => {
                        let _ = loop_sender.send(LoopMessage::Encoded(peer, answer.encoded()));
                    }
                    Job::Describe(description) => {
                        let _ = loop_sender.send(LoopMessage::Described(Box::new(description.write())));
                    }
                    Job::Discard(memory) => drop(memory),
                }
            }
        })?;
        Ok(jobs)
    }
}

fn decoded(frame: OwnedFrame, codec: &MessageCodec, clock: Clock) -> Decoded {
    let start = clock.now();
    let request = codec.read_request(&frame.frame());
    let header = frame.header;
    drop(frame);
    Decoded { header, request, time: clock.now().since(start) }
}

/// Smallest message for the thread, in bytes. A smaller one is faster without it.
pub(super) const LARGE_BYTES_MIN: usize = 512 << 10;
/// Values of a large reply that are measured on the server's thread.
const MEASURED_VALUES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::RankData;
    use crate::server::QueryAnswer;
    use crate::types::{DataArray, DataType, Info, Key, Kval, Namespace, Status, Text};

    /// The list of a large job's members, and the data of a large process, were encoded on the server's thread. The
    /// same thread also walked through a whole reply to find its size.
    #[test]
    fn large_answers_of_any_kind_are_encoded_elsewhere() {
        let proc = ProcId::new(Namespace::new("job").unwrap(), 0);
        let procs = |count| vec![proc.clone(); count];
        let elements = |count| (0..count).map(|_| Value::from(proc.clone())).collect();
        let table =
            |count| Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements: elements(count) }));
        let key = Key::from_static("k");
        let infos = |count| Reply::Infos(vec![Info::new(key.clone(), table(count))]);
        let kval = |count| Kval { key: key.clone(), value: table(count) };
        let data = |count| Reply::Data(vec![RankData { proc: proc.clone(), entries: vec![kval(count)] }]);
        let group =
            |count| Reply::Group { members: procs(count), context_id: None, info: Vec::new(), jobs: Vec::new() };
        let partial = |count| Reply::Partial { status: Status::ERROR, results: Box::new(infos(count)) };
        let nodes = |count| Reply::Nodes(Text::from("node".repeat(count).as_str()));
        for count in [10, 200_000] {
            let replies =
                [Reply::Procs(procs(count)), infos(count), data(count), group(count), partial(count), nodes(count)];
            for reply in replies {
                assert_eq!(is_large(&reply), count > 10, "{count} in {:?}", std::mem::discriminant(&reply));
            }
        }
        let value = |count| Kval { key: key.clone(), value: Value::ByteObject(vec![0; count]) };
        let large = Reply::Data(vec![RankData { proc: proc.clone(), entries: vec![value(9 << 20), value(1 << 20)] }]);
        assert!((10 << 20..11 << 20).contains(&size_of_reply(&large)), "{} bytes", size_of_reply(&large));
        assert!(size_of_reply(&infos(200_000)) >= 200_000 * size_of::<Value>());
        for count in [10, 200_000] {
            let Reply::Infos(infos) = infos(count) else { panic!("no infos") };
            let answers = infos.into_iter().map(QueryAnswer::Info).collect();
            let content = Content::Queries(QueryAnswers::new(Status::SUCCESS, answers));
            assert_eq!(content.is_large(), count > 10, "{count} in answers to queries");
        }
        let Reply::Infos(infos) = infos(200_000) else { panic!("no infos") };
        let mut left = 1000;
        assert!(exceeds(&infos[0].value, &mut left) && left == 0);
    }
}
