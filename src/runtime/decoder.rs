//! Large requests are decoded, and large answers encoded, on a thread of their own: the server's loop would be held up for as
//! long as it takes.
//!
//! One request is decoded at a time. Which one is next is decided by [`Turns`], as for the loop: by users, then by processes,
//! and each pays for the time that its requests took.

use std::io;
use std::time::Duration;

use crossbeam::channel::{Sender, unbounded};

use super::clock::Clock;
use super::commands::{Command, CommandSender};
use super::lines::{Lines, WriteError};
use super::threads::spawn;
use super::turns::{Share, Turns};
use crate::proto::frame::OwnedFrame;
use crate::proto::request::RequestError;
use crate::proto::{self, Reply, Request, Tag};
use crate::server::PeerId;
use crate::types::footprint;

/// The connections whose requests wait to be decoded, and the thread. It is started by the first of them.
pub(super) struct Decoder {
    commands: CommandSender,
    clock: Clock,
    jobs: Option<Sender<Job>>,
    turns: Turns,
    /// On whose share the thread works.
    working_for: Option<Share>,
}

/// Work for the thread.
enum Job {
    Decode(PeerId, OwnedFrame, Lines),
    Encode(PeerId, Answer),
    /// Free its memory.
    Discard(Box<Decoded>),
}

/// An answer that is to be encoded.
pub(super) struct Answer {
    pub(super) tag: Tag,
    pub(super) command: proto::Command,
    pub(super) reply: Reply,
    pub(super) lines: Lines,
}

impl Answer {
    /// Whether it is worth the way to the thread and back.
    pub(super) fn is_large(reply: &Reply) -> bool {
        let Reply::Infos(infos) = reply else { return false };
        let sizes = infos.iter().map(|info| footprint(&info.value).unwrap_or(usize::MAX));
        sizes.fold(0, usize::saturating_add) >= LARGE_BYTES_MIN
    }

    fn encoded(&self) -> Result<Vec<u8>, WriteError> {
        self.lines.write_reply(self.tag, &self.reply, self.command)
    }
}

/// A request that was decoded, or could not be.
pub(super) struct Decoded {
    pub(super) frame: OwnedFrame,
    pub(super) request: Result<Request, RequestError>,
    time: Duration,
}

impl Decoder {
    pub(super) fn new(commands: CommandSender, clock: Clock) -> Self {
        Self { commands, clock, jobs: None, turns: Turns::default(), working_for: None }
    }

    /// A connection has a request to be decoded.
    pub(super) fn join(&mut self, id: PeerId, share: Share) {
        self.turns.join(id, share);
    }

    /// A connection is gone.
    pub(super) fn leave(&mut self, id: PeerId) {
        self.turns.leave(id);
    }

    /// The connection whose turn it is, if the thread is free.
    pub(super) fn next(&mut self) -> Option<PeerId> {
        if self.working_for.is_some() {
            return None;
        }
        let (id, share) = self.turns.next()?;
        self.working_for = Some(share);
        Some(id)
    }

    /// Has its request decoded. Without a thread this is done here and now, and given back.
    pub(super) fn decode(&mut self, id: PeerId, frame: OwnedFrame, lines: Lines) -> Option<Decoded> {
        match self.give(Job::Decode(id, frame, lines)) {
            Some(Job::Decode(_, frame, lines)) => Some(decoded(frame, &lines, self.clock)),
            _ => None,
        }
    }

    /// Has an answer encoded. Without a thread this is done here and now, and given back.
    pub(super) fn encode(&mut self, id: PeerId, answer: Answer) -> Option<Result<Vec<u8>, WriteError>> {
        match self.give(Job::Encode(id, answer)) {
            Some(Job::Encode(_, answer)) => Some(answer.encoded()),
            _ => None,
        }
    }

    /// Gives the thread something to do, or back what it can't be given.
    fn give(&mut self, job: Job) -> Option<Job> {
        match self.thread() {
            Ok(jobs) => jobs.send(job).err().map(|unsent| unsent.0),
            Err(error) => {
                tracing::warn!(%error, "no thread for a large message; all clients wait for it");
                Some(job)
            }
        }
    }

    /// The connection whose turn it was has nothing to be decoded any more.
    pub(super) fn pass(&mut self) {
        self.working_for = None;
    }

    /// The thread is free again.
    pub(super) fn settle(&mut self, decoded: &Decoded) {
        if let Some(share) = self.working_for.take() {
            self.turns.charge(&share, 1, decoded.time);
        }
    }

    /// Frees what nobody waits for any more. That may take as long as decoding it.
    pub(super) fn discard(&self, decoded: Box<Decoded>) {
        if let Some(jobs) = &self.jobs {
            // Without a thread it is freed here.
            let _ = jobs.send(Job::Discard(decoded));
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
        let (commands, clock) = (self.commands.clone(), self.clock);
        spawn("modex-decoder", move || {
            for job in receiver {
                match job {
                    // A server that has ended wants none.
                    Job::Decode(peer, frame, lines) => {
                        let decoded = Box::new(decoded(frame, &lines, clock));
                        let _ = commands.send(Command::Decoded(peer, decoded));
                    }
                    Job::Encode(peer, answer) => {
                        let _ = commands.send(Command::Encoded(peer, answer.encoded()));
                    }
                    Job::Discard(decoded) => drop(decoded),
                }
            }
        })?;
        Ok(jobs)
    }
}

fn decoded(frame: OwnedFrame, lines: &Lines, clock: Clock) -> Decoded {
    let start = clock.now();
    let request = lines.read_request(&frame.frame());
    Decoded { frame, request, time: clock.now().since(start) }
}

/// Messages of this size are decoded and encoded elsewhere, in bytes: smaller ones take less than the way there and back is worth.
pub(super) const LARGE_BYTES_MIN: usize = 512 << 10;
