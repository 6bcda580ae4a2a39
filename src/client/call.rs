//! The core's doors as types.

use std::sync::Arc;
use std::time::Duration;

use super::directives::FenceDirectives;
use super::resolve::GetRequest;
use crate::gds::AsStatus;
use crate::proto::{Abort, Command, Commit, RankData, Reply, Request, Tag};
use crate::types::{Namespace, ProcId, Status};

/// Names a call, chosen by the caller. Not to be used again before the call is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// What the process asks of its server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Call {
    /// Wait for every named process; an empty list means the caller's namespace. Outcome: [`Outcome::Complete`].
    Fence {
        /// The participants as written.
        procs: Vec<ProcId>,
        /// Directives.
        directives: FenceDirectives,
    },
    /// Hand over what [`Staging::take_commit`](super::Staging::take_commit) gave. Outcome: [`Outcome::Complete`].
    Commit(Commit),
    /// Ask for what [`resolve`](super::resolve) did not find. Outcome: [`Outcome::Answered`] or
    /// [`Outcome::LookAgain`]. Before asking again after the latter, take what was spent off its time limit
    /// ([`GetDirectives::spend`](super::GetDirectives::spend)): each call has a time limit of its own.
    Get(GetRequest),
    /// End processes. Outcome: [`Outcome::Complete`].
    Abort(Abort),
    /// Leave in order. Every later call is refused. Outcome: [`Outcome::Complete`], also when the server answers by
    /// closing.
    Finalize,
    /// Any other request; the reply is passed on as it came, a status other than success as an error.
    /// Outcome: [`Outcome::Reply`], or [`Outcome::Complete`] for a request that has no reply.
    Exchange(Request),
    /// As [`Call::Exchange`], given up after this time and what the core adds to it.
    ExchangeWithin(Request, Duration),
    /// Sends nothing: for what others bring about by events. The command is what errors name. Ends with
    /// [`Input::Settle`] ([`Outcome::Complete`]), when this time is over, or with the connection.
    Await(Command, Option<Duration>),
}

impl Call {
    /// The command that errors name.
    #[must_use]
    pub fn command(&self) -> Command {
        match self {
            Self::Fence { .. } => Command::Fence,
            Self::Commit(_) => Command::Commit,
            Self::Get(_) => Command::Get,
            Self::Abort(_) => Command::Abort,
            Self::Finalize => Command::Finalize,
            Self::Exchange(request) | Self::ExchangeWithin(request, _) => request.command(),
            Self::Await(command, _) => *command,
        }
    }
}

/// How a call ended well.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// It is done and there is nothing more to say.
    Complete,
    /// The server answered this very Get. Empty: published where the caller can read it.
    Answered(Arc<[RankData]>),
    /// Something about the process asked for has become available; resolve the Get from the start.
    LookAgain,
    /// The server's reply.
    Reply(Reply),
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The server said so.
    #[error("the server answered command {command:?} with {status}{}", remedy(*command, *status))]
    Refused {
        /// What was asked.
        command: Command,
        /// The server's status.
        status: Status,
    },
    /// The server said so, and which processes were missing.
    #[error("the server answered command {command:?} with {status}: {} left before taking part", names(.missing))]
    Incomplete {
        /// What was asked.
        command: Command,
        /// The server's status.
        status: Status,
        /// Processes that ended before they took part, the first 16 of them.
        missing: Vec<ProcId>,
    },
    /// No answer within the caller's time limit.
    #[error("no answer to command {command:?} within the time limit of the call")]
    TimedOut {
        /// What was asked.
        command: Command,
    },
    /// The connection ended before the answer came.
    #[error("the connection to the server was lost ({reason:?}) before command {command:?} was answered")]
    Lost {
        /// What was asked.
        command: Command,
        /// How the connection ended.
        reason: LossReason,
    },
    /// The process has finalized.
    #[error("command {command:?} came after finalize; no call is possible any more")]
    Finalized {
        /// What was asked.
        command: Command,
    },
    /// The answer has the shape of another command's.
    #[error("the reply to command {command:?} has the wrong shape; the server does not speak our protocol")]
    WrongReply {
        /// What was asked.
        command: Command,
    },
    /// The request can't be put into a message that the server takes.
    #[error("command {command:?} can't be sent to this server: {reason}")]
    NotSendable {
        /// What was asked.
        command: Command,
        /// Why not.
        reason: Unsendable,
    },
    /// More calls in flight than the core accepts.
    #[error("{limit} calls are in flight already; wait for some of them before making command {command:?}")]
    TooManyCalls {
        /// What was asked.
        command: Command,
        /// The limit.
        limit: usize,
    },
}

fn names(procs: &[ProcId]) -> String {
    procs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// What can be done about an answer, where that is known.
fn remedy(command: Command, status: Status) -> &'static str {
    match (command, status) {
        (Command::Query, Status::ERR_NOT_SUPPORTED | Status::ERR_NOT_FOUND) => {
            "; neither the server nor its host knows that: ask for PMIX_QUERY_SUPPORTED_KEYS to learn what they know, and check \
             which namespace is meant"
        }
        (_, Status::ERR_NOT_SUPPORTED) => "; neither the server nor its host can do that",
        _ => "",
    }
}

impl AsStatus for CallError {
    fn status(&self) -> Status {
        match self {
            Self::Refused { status, .. } | Self::Incomplete { status, .. } => *status,
            Self::TimedOut { .. } => Status::ERR_TIMEOUT,
            Self::Lost { reason: LossReason::Alone, .. } => Status::ERR_UNREACH,
            Self::Lost { .. } => Status::ERR_LOST_CONNECTION,
            Self::Finalized { .. } => Status::ERR_INIT,
            Self::WrongReply { .. } => Status::ERR_COMM_FAILURE,
            Self::NotSendable { reason: Unsendable::TooLarge { .. }, .. } => Status::ERR_INVALID_VAL_LENGTH,
            Self::NotSendable { reason: Unsendable::NoForm, .. } => Status::ERR_NOT_SUPPORTED,
            Self::NotSendable { reason: Unsendable::Nobody, .. } => Status::ERR_BAD_PARAM,
            Self::TooManyCalls { .. } => Status::ERR_OUT_OF_RESOURCE,
        }
    }
}

/// Why a request was not sent. The connection is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsendable {
    /// Longer than this release receives: it would close the connection.
    #[error("its message has {size_bytes} bytes and servers of this release take {limit}; send less at once")]
    TooLarge {
        /// Length of the message.
        size_bytes: usize,
        /// What the server takes.
        limit: usize,
    },
    /// The encoding of the connection has no form for a value in it.
    #[error("it holds a value of a type that this release does not know; use an older type")]
    NoForm,
    /// A process in it has an empty namespace, as one that nobody has filled in.
    #[error("it names a process with an empty namespace, which is nobody; name the process, or none")]
    Nobody,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// The server closed it.
    EndOfFile,
    /// Reading or writing failed.
    Broken,
    /// The server sent bytes that are no message.
    Malformed,
    /// This process closed it, because it finalized.
    Closed,
    /// This process is a forked copy of the one that the connection belongs to.
    Forked,
    /// There never was one: no launcher started this process.
    Alone,
}

/// What happens to the core.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Input {
    /// The process makes a call.
    Call(CallId, Call),
    /// The server answers; decoded according to [`Client::command_of`](super::Client::command_of).
    Reply(Tag, Reply),
    /// What [`Output::Send`] asked for is not possible.
    NotSent(Tag, Unsendable),
    /// What a [`Call::Await`] waits for has come about. One that has ended is left alone.
    Settle(CallId),
    /// The connection has ended.
    Lost(LossReason),
    /// The time of [`Client::poll_timeout`](super::Client::poll_timeout) has come.
    Timeout,
    /// A segment of this namespace can be read now.
    SegmentAvailable(Namespace),
}

/// What the core wants done, to be executed in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Send a request.
    Send(Tag, Request),
    /// Data of a reply that belong into the [`Cache`](super::Cache). Always before the calls they complete. An undefined
    /// value says that there is none any more.
    Received(Arc<[RankData]>),
    /// What is kept of another job may be of the past: its server was asked what holds now. Always before the data of the
    /// answer.
    Forget(Namespace),
    /// A fence is over: processes may have posted newer values than those in the cache. Always before the fence is done.
    Outdated,
    /// A call has ended.
    Done(CallId, Result<Outcome, CallError>),
    /// The server did something that no correct server does; for the log.
    Report(Anomaly),
    /// Close the connection; nothing follows.
    Close,
}

/// Something odd that costs nobody anything.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Anomaly {
    /// A reply to nothing that was asked.
    UnknownTag(Tag),
    /// A call with the id of one that is still in flight; the newer one was dropped.
    DuplicateCall(CallId),
}

/// Times and bounds of the core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// How long after a call's own time limit the core waits for the server to report the expiry. The server starts
    /// its clock later than the caller, and its answer says more.
    pub timeout_grace: Duration,
    /// How long a Get waits behind another one for the same process before it is sent on its own. Bounds the harm of
    /// a first Get that asks for a key that never comes.
    pub queue_patience: Duration,
    /// How long finalize waits for the server; `None`: for ever.
    pub finalize_wait: Option<Duration>,
    /// Most Gets in flight, and most other calls, counting abandoned ones whose answer is still due.
    pub calls_max: usize,
    /// Most Gets that the server has at a time; more wait for room, the oldest first. Our servers hold 4096 requests of
    /// a connection: the rest is for other calls.
    pub gets_sent_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            timeout_grace: Duration::from_secs(1),
            queue_patience: Duration::from_millis(50),
            finalize_wait: Some(Duration::from_secs(10)),
            calls_max: 1 << 16,
            gets_sent_max: 3584,
        }
    }
}
