//! Output of ranks for processes that pull it (`PMIx_IOF_pull`), and input from processes that push it
//! (`PMIx_IOF_push`).
//!
//! The launcher offers each piece of a pulled output to its server, which knows who wants it. The answer ends the
//! offers of a stream that nobody wants any more. The server bounds what waits for a process that does not read, so
//! neither rank nor launcher waits for it.
//!
//! A push is answered when its bytes are queued for all of its ranks. It waits while the queue of a rank is full. The
//! server bounds the requests of a process that wait.

use std::collections::BTreeSet;
use std::io;
use std::process::ChildStdin;
use std::sync::Arc;

use modex::types::{Info, Key, ProcId, Rank};
use modex::{Delivery, IofOutput, IofPull, IofPush, Responder, Server, keys};

use super::{JobError, LaunchedJob};
use crate::freed_memory::keep_freed_memory;
use crate::run::children::Channel;
use crate::run::fair_queue::FairQueue;
use crate::run::forward::{ForwardProgress, ForwardedStream};
use crate::run::host::ProcessNews;
use crate::run::io_request::{self, IoRefusal, PullRequest, PushRequest};
use crate::run::jobs::Jobs;
use crate::run::plan::Plan;
use crate::run::rank_id::{FIRST_JOB, RankId};
use crate::run::rank_input::{InputPipe, InputState, RankInputs};
use crate::run::ready_lines::ReadyLines;

/// Pushes served in one turn of the loop. A pull may report the ends of thousands of outputs, so a turn serves one.
const SERVED_IN_TURN: usize = 64;

/// The state of forwarded output and input.
#[derive(Debug, Default)]
pub(super) struct Forwarding {
    /// Requests for the output of ranks.
    pub(super) pulls: FairQueue<PullCall>,
    /// Requests to give ranks input.
    pub(super) pushes: FairQueue<PushCall>,
    /// Whether some pushes can be served at once.
    pub(super) can_push: bool,
    pub(super) inputs: RankInputs,
    /// The tools that are connected.
    tools: BTreeSet<ProcId>,
    /// Whether a process has asked for output of ranks. Each stream knows for itself whether it is still wanted.
    pub(super) is_pulled: bool,
}

impl Forwarding {
    /// Whether a request can be served without a further event.
    pub(super) fn can_be_served(&self) -> bool {
        self.can_push || !self.pulls.is_empty()
    }

    /// Notes that a tool has come or gone. Without it, nobody has input for the jobs that it spawned.
    pub(super) fn note_tool(&mut self, proc: &ProcId, moment: ProcessNews, jobs: &Jobs) {
        match moment {
            ProcessNews::ToolAdmitted => drop(self.tools.insert(proc.clone())),
            ProcessNews::ToolGone => drop(self.tools.remove(proc)),
            // A rank in the role of a tool.
            ProcessNews::Finalized | ProcessNews::Left => {}
            ProcessNews::Connected | ProcessNews::Reached { .. } => return,
        }
        if moment != ProcessNews::ToolAdmitted {
            jobs.with_input_of(proc).for_each(|job| self.inputs.finish(job));
        }
    }
}

/// A request for output that waits for its turn.
#[derive(Debug)]
pub(super) struct PullCall {
    pub(super) request: Box<IofPull>,
    pub(super) reply: Responder<()>,
}

/// A push that waits for its turn.
#[derive(Debug)]
pub(super) struct PushCall {
    request: Result<QueuedPush, IoRefusal>,
    reply: Responder<()>,
}

/// A request whose bytes the queues of ranks share.
#[derive(Debug)]
struct QueuedPush {
    targets: BTreeSet<ProcId>,
    bytes: Arc<[u8]>,
    is_end: bool,
}

impl PushCall {
    /// A request of a process, read once.
    pub(super) fn new(request: IofPush, reply: Responder<()>) -> Self {
        let request = PushRequest::read(request).map(|PushRequest { targets, bytes, is_end }| QueuedPush {
            targets,
            bytes: bytes.into(),
            is_end,
        });
        Self { request, reply }
    }
}

/// The ranks of a push.
enum Receivers {
    /// The ranks that take bytes.
    Ready(BTreeSet<RankId>),
    /// A queue is full, or some ranks have not started.
    Blocked,
}

impl LaunchedJob {
    /// Keeps the input of a rank for pushes. Returns it if the launcher's own input goes there, too. It has ended if it
    /// is that of a tool which has gone.
    pub(super) fn keep_input(
        &mut self,
        plan: &Plan,
        rank: RankId,
        input: Option<ChildStdin>,
    ) -> Result<Option<InputPipe>, JobError> {
        let Some(input) = input else { return Ok(None) };
        let pipe = InputPipe::new(input.into())
            .map_err(|reason| JobError::System { doing: "prepare a rank's input", reason })?;
        self.forwarding.inputs.insert(rank, pipe.clone());
        let is_connected = |tool: &ProcId| self.forwarding.tools.contains(tool) || self.jobs.rank(tool).is_some();
        if plan.feeder().is_some_and(|tool| !is_connected(tool)) {
            pipe.finish();
        }
        Ok((rank.job == FIRST_JOB && self.settings.input.is_own()).then_some(pipe))
    }

    /// Answers one of the requests for output that wait. From now on the output is offered.
    pub(super) fn serve_pull(&mut self) {
        let Some((requester, PullCall { request, reply })) = self.forwarding.pulls.pop() else { return };
        let request = match PullRequest::read(*request) {
            // The streams notice by themselves that nobody wants their output.
            Ok(None) => return reply.succeed(()),
            Ok(Some(request)) => self.check_sources(&request).map(|()| request),
            Err(refusal) => Err(refusal),
        };
        match request {
            Ok(request) => {
                reply.succeed(());
                self.begin_offers(&requester, &request);
            }
            Err(refusal) => {
                tracing::info!(%requester, "the launcher refuses to forward output: {refusal}");
                reply.fail(refusal.status());
            }
        }
    }

    fn check_sources(&self, request: &PullRequest) -> Result<(), IoRefusal> {
        let numbers = self.jobs.numbers();
        let is_known = |proc: &ProcId| match (numbers.get(&proc.namespace), proc.rank.process()) {
            (Some(&job), Some(rank)) => self.jobs.has(RankId { job, rank }),
            (Some(_), None) => proc.rank == Rank::Wildcard,
            (None, _) => false,
        };
        if request.procs.iter().all(is_known) { Ok(()) } else { Err(IoRefusal::NotFound) }
    }

    /// Offers output from now on, and reports outputs that have ended before. The server has heard the answer to the
    /// pull before it hears this.
    fn begin_offers(&mut self, requester: &ProcId, request: &PullRequest) {
        if !std::mem::replace(&mut self.forwarding.is_pulled, true) {
            keep_freed_memory();
        }
        for stream in self.streams.values_mut() {
            let is_of_channel = request.channels.contains(&stream.origin().1);
            if is_of_channel && io_request::names(&request.procs, stream.proc()) {
                stream.is_pulled = true;
                stream.is_redirected |= !request.is_copy && stream.redirected_to.as_ref() == Some(requester);
            }
        }
        let numbers = self.jobs.numbers();
        let named: BTreeSet<u32> =
            request.procs.iter().filter_map(|proc| numbers.get(&proc.namespace)).copied().collect();
        for rank in self.children.ranks().filter(|rank| named.contains(&rank.job)) {
            let Some(proc) = self.jobs.proc(rank).filter(|proc| io_request::names(&request.procs, proc)) else {
                continue;
            };
            for channel in &request.channels {
                if !self.stream_of.contains_key(&(rank, *channel)) {
                    offer_end(&proc, *channel, &self.server);
                }
            }
        }
    }

    /// Reports the end of outputs that other processes still hold. Nobody passes their rest on to processes.
    pub(super) fn complete_all(&self) {
        self.streams.values().for_each(|stream| complete(stream, &self.server));
    }

    /// Serves pushes that wait, and notes whether others can be served in the next turn.
    pub(super) fn serve_pushes(&mut self) {
        self.forwarding.can_push = self.serve_some_pushes();
    }

    /// Serves pushes up to a limit. Returns whether others could be served at once.
    fn serve_some_pushes(&mut self) -> bool {
        let (mut blocked_count, mut served_count) = (0, 0);
        while served_count < SERVED_IN_TURN {
            // When all processes are blocked, another look finds nothing new.
            if blocked_count >= self.forwarding.pushes.process_count() {
                return false;
            }
            let Some((source, call)) = self.forwarding.pushes.pop() else { return false };
            let PushCall { request, reply } = call;
            let receivers = request.and_then(|push| Ok((self.receivers(&push)?, push)));
            match receivers {
                Ok((Receivers::Ready(ranks), push)) => {
                    for rank in ranks {
                        self.forwarding.inputs.push(rank, &push.bytes, push.is_end, &self.poller);
                    }
                    reply.succeed(());
                }
                Ok((Receivers::Blocked, push)) => {
                    blocked_count += 1;
                    self.forwarding.pushes.put_back(source, PushCall { request: Ok(push), reply });
                    continue;
                }
                Err(refusal) => {
                    tracing::info!(%source, "the launcher refuses input for ranks: {refusal}");
                    reply.fail(refusal.status());
                }
            }
            (blocked_count, served_count) = (0, served_count + 1);
        }
        !self.forwarding.pushes.is_empty()
    }

    /// The ranks that a push means. Ranks without input count only if they are named.
    fn receivers(&self, push: &QueuedPush) -> Result<Receivers, IoRefusal> {
        let numbers = self.jobs.numbers();
        let mut ranks = BTreeSet::new();
        let mut refusal = IoRefusal::InputEnded;
        let mut is_blocked = false;
        for target in &push.targets {
            let missing =
                || if self.jobs.has_ended(&target.namespace) { IoRefusal::InputEnded } else { IoRefusal::NotFound };
            let job = *numbers.get(&target.namespace).ok_or_else(missing)?;
            is_blocked |= Some(job) == self.spawning.starting_job() || (job == FIRST_JOB && self.is_held());
            let of_target: Vec<RankId> = match target.rank.process() {
                Some(rank) => vec![RankId { job, rank }],
                None if io_request::is_all(target.rank) => {
                    self.verdict.running_ranks().filter(|rank| rank.job == job).collect()
                }
                None => return Err(IoRefusal::NotFound),
            };
            for rank in of_target {
                let is_named = target.rank.process().is_some();
                if !self.jobs.has(rank) {
                    return Err(IoRefusal::NotFound);
                }
                match self.forwarding.inputs.state(rank) {
                    InputState::Open => drop(ranks.insert(rank)),
                    InputState::Full => is_blocked = true,
                    InputState::Ended if is_named => return Err(IoRefusal::InputEnded),
                    InputState::Ended => {}
                    InputState::Missing if self.children.running(rank).is_none() => {
                        if is_named && !is_blocked {
                            return Err(IoRefusal::InputEnded);
                        }
                    }
                    InputState::Missing if is_named => return Err(IoRefusal::NoInput),
                    InputState::Missing => refusal = IoRefusal::NoInput,
                }
            }
        }
        if is_blocked {
            return Ok(Receivers::Blocked);
        }
        if ranks.is_empty() { Err(refusal) } else { Ok(Receivers::Ready(ranks)) }
    }
}

/// Reads a stream whose output processes may want. Appends the lines for the launcher's user to `lines`.
pub(super) fn read_and_offer(
    stream: &mut ForwardedStream,
    server: &Server,
    lines: &mut ReadyLines,
) -> io::Result<ForwardProgress> {
    let (output, progress) = stream.read_piece()?;
    if !output.bytes.is_empty() {
        if offer(stream, &output, server) == Delivery::Redirected {
            // A line that began before is not continued here.
            stream.break_off(lines);
        } else {
            stream.feed(&output, lines);
        }
    }
    if progress == ForwardProgress::Ended {
        stream.finish(lines);
    }
    Ok(progress)
}

/// Offers a piece of output. If nobody wants it, it is kept for the process that spawned the rank, or the offers end.
/// The launcher's user misses only what a process gets, or what is kept for one.
fn offer(stream: &mut ForwardedStream, output: &Arc<IofOutput>, server: &Server) -> Delivery {
    let output = Arc::clone(output);
    let offered = if stream.is_kept { server.iof_offer_or_keep(output) } else { server.iof_offer(output) };
    // A server that has ended has no processes.
    let delivery = offered.wait().unwrap_or(Delivery::Unwanted);
    match delivery {
        Delivery::Kept if stream.redirected_to.is_some() => return Delivery::Redirected,
        Delivery::Kept => return delivery,
        Delivery::Unwanted => (stream.is_pulled, stream.is_redirected) = (false, false),
        _ => {}
    }
    stream.is_kept = false;
    if stream.is_redirected { Delivery::Redirected } else { delivery }
}

/// Reports the end of a stream.
pub(super) fn complete(stream: &ForwardedStream, server: &Server) {
    if !stream.is_pulled {
        return;
    }
    let (_, channel) = stream.origin();
    if stream.is_kept {
        let _ = server.iof_deliver(end_of(stream.proc(), channel)).wait();
    } else {
        offer_end(stream.proc(), channel, server);
    }
}

fn offer_end(proc: &ProcId, channel: Channel, server: &Server) {
    let _ = server.iof_offer(end_of(proc, channel)).wait();
}

/// The message that an output has ended.
fn end_of(proc: &ProcId, channel: Channel) -> IofOutput {
    let info = vec![Info::new(Key::from_static(keys::IOF_COMPLETE.name()), true)];
    IofOutput { source: proc.clone(), channel: io_request::number(channel), bytes: Vec::new(), info }
}
