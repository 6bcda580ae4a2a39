//! A thread that decodes large requests, encodes large replies and writes the descriptions of large jobs. On the
//! server's own thread this work would stop the loop.
//!
//! One request is decoded at a time. [`Turns`] chooses the next one, as in the loop: by user, then by process, and each
//! share pays for the time of its requests.

use std::io;
use std::sync::Arc;

use crossbeam::channel::{Sender, unbounded};

use super::commands::{Command, CommandSender, Decoded};
use super::job_info::{Described, Description};
use super::turns::{Share, Turns};
use crate::proto::frame::OwnedFrame;
use crate::proto::{self, Reply, Tag};
use crate::runtime::shared::clock::Clock;
use crate::runtime::shared::message_codec::{MessageCodec, WriteError};
use crate::runtime::shared::threads::spawn;
use crate::server::{PeerId, ProcessAnswer, QueryAnswers};
use crate::types::{ProcId, Value, footprint};

/// The connections with requests to decode, and the thread. The first request starts it.
pub(super) struct Decoder {
    commands: CommandSender,
    clock: Clock,
    jobs: Option<Sender<Job>>,
    turns: Turns,
    /// The share of the request that the thread works on.
    working_for: Option<Share>,
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
                let mut left = LARGE_BYTES_MIN.saturating_sub(answers.table_bytes());
                left == 0 || answers.infos().any(|info| exceeds(&info.value, &mut left))
            }
            Self::Process { .. } => true,
        }
    }

    pub(super) fn into_reply(self) -> Reply {
        match self {
            Self::Reply(reply) => reply,
            Self::Queries(answers) => answers.into_reply(),
            Self::Process { answer, .. } => answer.into_reply(),
        }
    }
}

impl UnencodedReply {
    fn encoded(self) -> Result<Vec<u8>, WriteError> {
        let Self { tag, command, content, codec } = self;
        let description = match &content {
            Content::Process { description, .. } => description.clone(),
            _ => None,
        };
        let reply = content.into_reply();
        match (description, &reply) {
            (Some(description), Reply::Data(_)) => codec.write_reply_behind(tag, &description, &reply, command),
            _ => codec.write_reply(tag, &reply, command),
        }
    }
}

/// Whether a reply is large enough for the thread.
fn is_large(reply: &Reply) -> bool {
    let mut left = LARGE_BYTES_MIN;
    match reply {
        Reply::Infos(infos) => infos.iter().any(|info| exceeds(&info.value, &mut left)),
        Reply::Data(data) => data.iter().flat_map(|of| &of.entries).any(|entry| exceeds(&entry.value, &mut left)),
        Reply::Procs(procs) | Reply::Group { members: procs, .. } => procs.len() >= left / size_of::<ProcId>(),
        Reply::Nodes(names) => names.as_bytes().len() >= left,
        Reply::Partial { results, .. } => is_large(results),
        _ => false,
    }
}

/// Subtracts the size of a value from `left`. Returns whether nothing is left. The elements of an array are visited one
/// by one only until then, so a table of a large job is not walked through.
fn exceeds(value: &Value, left: &mut usize) -> bool {
    if let Value::DataArray(array) = value {
        return array.elements.iter().any(|element| exceeds(element, left));
    }
    *left = left.saturating_sub(footprint(value).unwrap_or(usize::MAX));
    *left == 0
}

impl Decoder {
    pub(super) fn new(commands: CommandSender, clock: Clock) -> Self {
        Self { commands, clock, jobs: None, turns: Turns::default(), working_for: None }
    }

    /// Adds a connection with a request to decode.
    pub(super) fn join(&mut self, id: PeerId, share: Share) {
        self.turns.join(id, share);
    }

    /// Removes a connection.
    pub(super) fn leave(&mut self, id: PeerId) {
        self.turns.leave(id);
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
    pub(super) fn encode(&mut self, id: PeerId, answer: UnencodedReply) -> Option<Result<Vec<u8>, WriteError>> {
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

    fn thread(&mut self) -> io::Result<&Sender<Job>> {
        let jobs = match self.jobs.take() {
            Some(jobs) => jobs,
            None => self.start()?,
        };
        Ok(self.jobs.insert(jobs))
    }

    fn start(&self) -> io::Result<Sender<Job>> {
        let (jobs, receiver) = unbounded();
        let (commands, clock) = (self.commands.clone(), self.clock);
        spawn("modex-decoder", move || {
            for job in receiver {
                match job {
                    // A server that has ended needs no result.
                    Job::Decode(peer, frame, codec) => {
                        let decoded = Box::new(decoded(frame, &codec, clock));
                        let _ = commands.send(Command::Decoded(peer, decoded));
                    }
                    Job::Encode(peer, answer) => {
                        let _ = commands.send(Command::Encoded(peer, answer.encoded()));
                    }
                    Job::Describe(description) => {
                        let _ = commands.send(Command::Described(Box::new(description.write())));
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
