//! Requests of processes to log (`PMIx_Log`).
//!
//! A text for the launcher's outputs follows what its rank has written before, and takes the same way. A request is
//! answered when its texts are queued for the writer. While the queue is full, or another rank writes a long line,
//! requests wait. The server bounds the requests of a process that wait. Logs and the ranks' own output fill the queue
//! in turns.

use std::io;
use std::path::Path;

use modex::types::{ProcId, Status};
use modex::{Log, Responder, syslog};

use super::{JobError, LaunchedJob};
use crate::run::children::Channel;
use crate::run::destination::Destination;
use crate::run::line_form::since_epoch;
use crate::run::log_request::{LogEntry, LogRefusal, LogRequest};
use crate::run::rank_id::RankId;

/// Requests served in one turn of the loop.
const SERVED_IN_TURN: usize = 64;

/// The number of a stream that does not exist. Logs wait under it for the end of a rank's long line.
const NO_STREAM: usize = usize::MAX;

/// A request that waits for its turn.
#[derive(Debug)]
pub(in crate::run) struct LogCall {
    request: Result<LogRequest, LogRefusal>,
    reply: Responder<()>,
}

impl LogCall {
    /// A request of a process, read once.
    pub(super) fn new(request: &Log, has_record: bool, reply: Responder<()>) -> Self {
        Self { request: LogRequest::read(request, has_record), reply }
    }
}

/// The outcome of a request.
enum Outcome {
    Done,
    Failed(Status),
    /// An output is not free.
    Blocked,
}

/// The outcome of a text for one channel.
enum EntryOutcome {
    Done,
    Failed,
    Unsupported,
}

impl LaunchedJob {
    /// Serves some of the requests that wait. Returns whether others could be served at once.
    pub(super) fn serve_logs(&mut self) -> Result<bool, JobError> {
        if !self.is_paused && std::mem::take(&mut self.has_logged_much) {
            return Ok(true);
        }
        let (mut blocked_count, mut served_count) = (0, 0);
        while served_count < SERVED_IN_TURN {
            // When all processes are blocked, another look finds nothing new.
            if self.is_paused || blocked_count >= self.logs.process_count() {
                return Ok(false);
            }
            let Some((source, call)) = self.logs.pop() else { return Ok(false) };
            match self.log(&source, &call.request)? {
                Outcome::Done => call.reply.succeed(()),
                Outcome::Failed(status) => call.reply.fail(status),
                Outcome::Blocked => {
                    blocked_count += 1;
                    self.logs.put_back(source, call);
                    continue;
                }
            }
            (blocked_count, served_count) = (0, served_count + 1);
            if !self.output_writer.has_room() {
                self.has_logged_much = true;
                self.pause();
            }
        }
        Ok(!self.logs.is_empty())
    }

    fn log(&mut self, source: &ProcId, request: &Result<LogRequest, LogRefusal>) -> Result<Outcome, JobError> {
        let request = match request {
            Ok(request) => request,
            Err(refusal) => {
                tracing::info!(%source, "the launcher refuses to log: {refusal}");
                return Ok(Outcome::Failed(refusal.status()));
            }
        };
        let rank = self.jobs.rank(source);
        // Nothing of a request may be written twice, so all of its outputs must be free before.
        for entry in &request.entries {
            if let LogEntry::Lines(channel, _) = entry
                && !self.is_free(rank, self.channel(rank, *channel))?
            {
                return Ok(Outcome::Blocked);
            }
        }
        let (mut done, mut failed, mut unsupported) = (0_usize, 0_usize, 0_usize);
        for entry in &request.entries {
            match self.log_entry(source, request, entry)? {
                EntryOutcome::Done if request.is_once => return Ok(Outcome::Done),
                EntryOutcome::Done => done += 1,
                EntryOutcome::Failed => failed += 1,
                EntryOutcome::Unsupported => unsupported += 1,
            }
        }
        Ok(match (done, failed, unsupported) {
            (_, 0, 0) => Outcome::Done,
            (0, 0, _) => Outcome::Failed(Status::ERR_NOT_SUPPORTED),
            (0, ..) => Outcome::Failed(Status::ERR_NOT_AVAILABLE),
            _ => Outcome::Failed(Status::ERR_PARTIAL_SUCCESS),
        })
    }

    fn log_entry(&mut self, source: &ProcId, request: &LogRequest, entry: &LogEntry) -> Result<EntryOutcome, JobError> {
        match entry {
            LogEntry::Lines(channel, text) => {
                let rank = self.jobs.rank(source);
                let channel = self.channel(rank, *channel);
                let tag = rank.map_or_else(|| source.to_string(), RankId::tag);
                let lines = request.lines(text, self.settings.marks, (source, &tag), channel);
                let pushed = self.push_log(rank, channel, lines);
                pushed.map_err(|reason| JobError::System { doing: "start a thread that writes the output", reason })?;
                Ok(EntryOutcome::Done)
            }
            LogEntry::Syslog(text) => {
                let messages = syslog::messages(text, &source.to_string(), request.priority);
                match syslog::send(&messages, Path::new(syslog::SOCKET)) {
                    Ok(()) => Ok(EntryOutcome::Done),
                    Err(error) => {
                        tracing::info!(%source, %error, "the launcher cannot write to the log of the system");
                        Ok(EntryOutcome::Failed)
                    }
                }
            }
            LogEntry::Record(own) => Ok(self.record(source, request, own.as_ref())),
            LogEntry::Unsupported => Ok(EntryOutcome::Unsupported),
        }
    }

    /// Queues whole lines for an output, and for the file that directives name.
    fn push_log(&mut self, rank: Option<RankId>, channel: Channel, lines: Vec<u8>) -> io::Result<()> {
        let destination = self.log_destination(rank, channel);
        if let Some(index) = self.stream_of_log(rank, channel)
            && let Some(stream) = self.streams.get_mut(&index)
        {
            stream.add_to_file(&lines);
            self.output_writer.push_to_file(index, stream)?;
        }
        self.output_writer.push_log(destination, lines)
    }

    /// Adds texts to the job's record.
    fn record(&self, source: &ProcId, request: &LogRequest, own: Option<&String>) -> EntryOutcome {
        let Some(record) = &self.settings.record else { return EntryOutcome::Unsupported };
        let (texts, time) = request.recorded(own);
        let time = time.unwrap_or_else(since_epoch);
        match record.add(time, &source.to_string(), &texts) {
            Ok(()) => EntryOutcome::Done,
            Err(error) => {
                tracing::warn!(%source, %error, "the launcher cannot write to the record");
                EntryOutcome::Failed
            }
        }
    }

    /// Passes on what the rank has written so far. Returns whether its output is free for a line now.
    fn is_free(&mut self, rank: Option<RankId>, channel: Channel) -> Result<bool, JobError> {
        let destination = self.log_destination(rank, channel);
        let index = self.stream_of_log(rank, channel);
        let is_holder = index.is_some() && self.output_locks.holder(destination) == index;
        if !is_holder && !self.output_locks.admits(NO_STREAM, destination) {
            return Ok(false);
        }
        let Some(index) = index else { return Ok(true) };
        self.pass_written_on(index)?;
        if self.is_paused {
            return Ok(false);
        }
        // The rank's own long line ends here, so that its log is a line.
        self.cut(index)?;
        Ok(true)
    }

    /// With `--merge`, or if a spawn asks for it, a rank has one output.
    fn channel(&self, rank: Option<RankId>, channel: Channel) -> Channel {
        let is_merged = self.settings.is_merged || rank.is_some_and(|rank| self.jobs.is_merged(rank.job));
        if is_merged { Channel::Out } else { channel }
    }

    /// The stream of a rank that logs.
    fn stream_of_log(&self, rank: Option<RankId>, channel: Channel) -> Option<usize> {
        self.stream_of.get(&(rank?, channel)).copied()
    }

    fn log_destination(&self, rank: Option<RankId>, channel: Channel) -> Destination {
        if let Some(stream) = self.stream_of_log(rank, channel).and_then(|index| self.streams.get(&index)) {
            return stream.destination();
        }
        match (rank, channel) {
            (Some(rank), _) => self.output_writer.destination(rank, channel),
            (None, Channel::Out) => Destination::Out,
            (None, Channel::Error) => Destination::Error,
        }
    }
}
