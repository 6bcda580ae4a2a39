//! The types of the core's inputs and outputs.

use std::sync::Arc;
use std::time::Duration;

use super::directives::FenceDirectives;
use super::resolve::GetRequest;
use crate::proto::{Abort, Command, Commit, RankData, Reply, Request, Tag};
use crate::types::{AsStatus, Namespace, ProcId, Status};

/// A call's id, chosen by the caller. It must not be used again before the call is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// A request of the process to its server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Call {
    /// Wait for every named process; an empty list means the caller's namespace. Outcome: [`Outcome::Complete`].
    Fence {
        /// The participants as the caller named them.
        procs: Vec<ProcId>,
        /// Directives.
        directives: FenceDirectives,
    },
    /// Hand over the result of [`Staging::take_commit`](super::Staging::take_commit). Outcome: [`Outcome::Complete`].
    Commit(Commit),
    /// Fetch a value that [`resolve`](super::resolve) did not find. Outcome: [`Outcome::Answered`] or
    /// [`Outcome::LookAgain`]. Before a retry after the latter, subtract the spent time from the time limit
    /// ([`GetDirectives::spend`](super::GetDirectives::spend)): each call has a time limit of its own.
    Get(GetRequest),
    /// End processes. Outcome: [`Outcome::Complete`].
    Abort(Abort),
    /// Leave in order. Every later call is refused. Outcome: [`Outcome::Complete`], also when the server closes the
    /// connection instead of answering.
    Finalize,
    /// Any other request. The reply is passed on unchanged; a status other than success becomes an error. Outcome:
    /// [`Outcome::Reply`], or [`Outcome::Complete`] for a request without a reply.
    Exchange(Request),
    /// As [`Call::Exchange`], with a time limit, to which the core adds its grace time.
    ExchangeWithin(Request, Duration),
    /// Sends nothing: a wait for events of other processes. Errors name the command. Ends with [`ClientInput::Settle`]
    /// ([`Outcome::Complete`]), after this time, or with the connection.
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

/// Result of a successful call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// The call is complete, without a result.
    Complete,
    /// The server answered this very Get. Empty: the value is published where the caller can read it.
    Answered(Arc<[RankData]>),
    /// New data of the process is available; resolve the Get from the start.
    LookAgain,
    /// The server's reply.
    Reply(Reply),
}

/// Reason of a failed call.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The server refused.
    #[error("the server answered command {command:?} with {status}{}", remedy(*command, *status))]
    Refused {
        /// The command of the call.
        command: Command,
        /// The server's status.
        status: Status,
    },
    /// The server refused because processes were missing.
    #[error("the server answered command {command:?} with {status}: {} left before taking part", names(.missing))]
    Incomplete {
        /// The command of the call.
        command: Command,
        /// The server's status.
        status: Status,
        /// Processes that ended before they took part, the first 16 of them.
        missing: Vec<ProcId>,
    },
    /// No answer within the caller's time limit.
    #[error("no answer to command {command:?} within the time limit of the call")]
    TimedOut {
        /// The command of the call.
        command: Command,
    },
    /// The connection ended before the answer came.
    #[error("the connection to the server was lost ({reason:?}) before command {command:?} was answered")]
    Lost {
        /// The command of the call.
        command: Command,
        /// The way in which the connection ended.
        reason: LossReason,
    },
    /// The process has finalized.
    #[error("command {command:?} came after finalize; no call is possible any more")]
    Finalized {
        /// The command of the call.
        command: Command,
    },
    /// The reply has the form of another command's reply.
    #[error("the reply to command {command:?} has the wrong shape; the server does not speak our protocol")]
    WrongReply {
        /// The command of the call.
        command: Command,
    },
    /// The request does not fit a message that the server accepts.
    #[error("command {command:?} can't be sent to this server: {reason}")]
    NotSendable {
        /// The command of the call.
        command: Command,
        /// The reason.
        reason: Unsendable,
    },
    /// More calls are in flight than the core accepts.
    #[error("{limit} calls are in flight already; wait for some of them before making command {command:?}")]
    TooManyCalls {
        /// The command of the call.
        command: Command,
        /// The limit.
        limit: usize,
    },
}

fn names(procs: &[ProcId]) -> String {
    procs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Advice about a refusal, where some is known.
fn remedy(command: Command, status: Status) -> &'static str {
    match (command, status) {
        (Command::QueryInfo, Status::ERR_NOT_SUPPORTED | Status::ERR_NOT_FOUND) => {
            "; neither the server nor its host has this: query PMIX_QUERY_SUPPORTED_KEYS for their keys, and check the namespace"
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

/// Reason of an unsent request. The connection is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsendable {
    /// The message is longer than this release receives: it would close the connection.
    #[error("its message has {size_bytes} bytes and servers of this release take {limit}; send less at once")]
    TooLarge {
        /// Length of the message.
        size_bytes: usize,
        /// The server's limit.
        limit: usize,
    },
    /// The connection's encoding has no form for a value of the request.
    #[error("it holds a value of a type that this release does not know; use an older type")]
    NoForm,
    /// The request names a process with an empty namespace, as in an unfilled structure.
    #[error("it names a process with an empty namespace; name its namespace, or leave the process out")]
    Nobody,
}

/// The way in which a connection ended.
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
    /// This process is a forked copy of the connection's owner.
    Forked,
    /// There was no connection: no launcher started this process.
    Alone,
}

/// An input of the core.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ClientInput {
    /// The process makes a call.
    Call(CallId, Call),
    /// The server answers; decoded according to [`ClientCore::command_of`](super::ClientCore::command_of).
    Reply(Tag, Reply),
    /// The request of [`ClientOutput::Send`] can't be sent.
    NotSent(Tag, Unsendable),
    /// The event that a [`Call::Await`] waits for has come. A call that has ended is ignored.
    Settle(CallId),
    /// The connection has ended.
    Lost(LossReason),
    /// The time of [`ClientCore::poll_timeout`](super::ClientCore::poll_timeout) has come.
    Timeout,
    /// A segment of this namespace can be read now.
    SegmentAvailable(Namespace),
}

/// An output of the core, to be executed in order.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientOutput {
    /// Send a request.
    Send(Tag, Request),
    /// Data of a reply for the [`ValueCache`](super::ValueCache). It comes before the calls that it completes. An
    /// undefined value means that there is no value any more.
    Received(Arc<[RankData]>),
    /// The cached data of another job may be out of date: its server was asked for current data. It comes before the
    /// data of the answer.
    Forget(Namespace),
    /// A fence is over: processes may have posted newer values than the cached ones. It comes before the end of the
    /// fence.
    Outdated,
    /// A call has ended.
    Done(CallId, Result<Outcome, CallError>),
    /// A protocol violation by the server, for the log.
    Report(Anomaly),
    /// Close the connection; nothing follows.
    Close,
}

/// A harmless anomaly.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Anomaly {
    /// A reply without a request.
    UnknownTag(Tag),
    /// A call with the id of a call in flight; the newer one was dropped.
    DuplicateCall(CallId),
}

/// Times and limits of the core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// Time after a call's own time limit in which the core waits for the server's report of the expiry. The server's
    /// clock starts later than the caller's, and its answer has more details.
    pub timeout_grace: Duration,
    /// Time that a Get waits behind another Get for the same process before it is sent on its own. It limits the harm
    /// of a first Get for a key that never comes.
    pub queue_patience: Duration,
    /// Time that finalize waits for the server; `None` means no limit.
    pub finalize_wait: Option<Duration>,
    /// Limit of Gets in flight, and of other calls. Abandoned calls count until their answer arrives.
    pub calls_max: usize,
    /// Limit of Gets sent at a time; more Gets wait for room, the oldest first. Our servers accept 4096 requests of a
    /// connection: the rest is for other calls.
    pub gets_sent_max: usize,
    /// Whether a Get for current values asks again without that directive after a bare success. Servers of OpenPMIx
    /// since 6.1 say so that the values of their node are current. Ours say that the segment has them.
    pub asks_again_after_success: bool,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            timeout_grace: Duration::from_secs(1),
            queue_patience: Duration::from_millis(50),
            finalize_wait: Some(Duration::from_secs(10)),
            calls_max: 1 << 16,
            gets_sent_max: 3584,
            asks_again_after_success: false,
        }
    }
}
