use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use crate::events::Event;
use crate::proto::exchange::PackedFence;
use crate::proto::{Credential, IofPull, Service, with_services};
use crate::server::{
    AbortUpcall, Capabilities, ClientConnected, ClientFinalized, Connect, DirectModex, FenceUpcall, GroupRequest,
    HostReply, RegisterEvents, Requester, ToolUpcall, UpcallId,
};
use crate::types::{Info, Kval, Namespace, Pdata, ProcId, Status};

use super::loop_messages::{LoopMessage, LoopSender};

/// One method of [`Host`] for each service.
macro_rules! methods {
    ($(
        $(#[$doc:meta])*
        $service:ident = $code:literal, $capability:ident = $bit:literal,
        fn $method:ident($directives:ident) -> $answer:ty { $($fields:tt)* }
    )*) => {
        $(
            $(#[$doc])*
            fn $method(&self, requester: Requester, request: crate::proto::$service, reply: Responder<$answer>) {
                unsupported((requester, request), reply);
            }
        )*
    };
}

/// The program that embeds a server. It does what no library can: it carries data between nodes and controls processes.
///
/// The server calls these functions one at a time, on a thread that it starts at the first call. A function should
/// start its work and return. It may call any function of `Server`, even one that waits, but the server makes no other
/// call meanwhile. The [`Responder`] takes the answer inside the function, later, or on another thread.
///
/// The server calls only the functions that [`Host::capabilities`] names.
///
/// The exception are services for the server's own process, such as `Server::publish`. They call the host's function on
/// their caller's thread, also while another function runs. Hold no lock during such a call that the function takes.
///
/// The directives of a service end with the ids of its requester (`PMIX_USERID`, `PMIX_GRPID`), according to the
/// kernel. A spawn also has `PMIX_SPAWNED`, `PMIX_PARENT_ID`, and `PMIX_REQUESTOR_IS_CLIENT` or
/// `PMIX_REQUESTOR_IS_TOOL`. A log also has `PMIX_LOG_SOURCE` and, if the requester sent it, `PMIX_LOG_TIMESTAMP`.
/// Queries have the ids among their qualifiers. An update of a fabric has no directives.
///
/// Answers that are lists may be partial: see [`Responder::partial`].
///
/// Source: PMIx Standard, "Server-Specific Interfaces" (server module).
pub trait Host: Send + Sync + 'static {
    /// The functions below that this host implements. Read once, when the server starts.
    fn capabilities(&self) -> Capabilities;

    /// A process wants to connect. It waits for the answer; any status but success turns it away.
    fn client_connected(&self, client: ClientConnected, reply: Responder<()>) {
        drop(client);
        reply.succeed(());
    }

    /// A process has finalized. It waits for the answer.
    fn client_finalized(&self, client: ClientFinalized, reply: Responder<()>) {
        drop(client);
        reply.succeed(());
    }

    /// A process wants to end other processes, or its whole job. If it is among them, it gets no answer after a success
    /// for 2 seconds: end it in this time.
    fn abort(&self, request: AbortUpcall, reply: Responder<()>) {
        unsupported(request, reply);
    }

    /// Every local participant of a fence has arrived. Exchange the data of all servers that have participants, and
    /// answer with all of it.
    ///
    /// As in all collective operations, the host matches the servers' parts in order, and limits the time of the whole.
    /// The participants' limit is among the directives (`PMIX_TIMEOUT`). If local participants are missing when it
    /// ends, their server fails the fence itself and makes no call.
    ///
    /// If the directives hold `PMIX_LOCAL_COLLECTIVE_STATUS`, local participants have ended and will not come. Its
    /// value must be the status for all participants.
    fn fence(&self, request: FenceUpcall, reply: Responder<FenceReply>) {
        unsupported(request, reply);
    }

    /// A process wants data of a process on another node. Answer with the result of `Server::direct_modex` at that
    /// process's server.
    fn direct_modex(&self, request: DirectModex, reply: Responder<Vec<Kval>>) {
        unsupported(request, reply);
    }

    with_services!(methods);

    /// All local participants want to be connected with the others.
    fn connect(&self, request: Connect, reply: Responder<()>) {
        unsupported(request, reply);
    }

    /// All local participants want to be disconnected from the others.
    fn disconnect(&self, request: Connect, reply: Responder<()>) {
        unsupported(request, reply);
    }

    /// A process wants output that no other process here has requested yet. After success, pass the output to
    /// `Server::iof_deliver`, or to `Server::iof_offer` if you write it elsewhere, too.
    ///
    /// `PMIX_IOF_STOP` among the directives means that no process wants it any more. Requests with `PMIX_IOF_COPY`,
    /// `PMIX_IOF_REDIRECT` or a required directive always come here.
    fn iof_pull(&self, requester: Requester, request: IofPull, reply: Responder<()>) {
        unsupported((requester, request), reply);
    }

    /// All local members want to form or dissolve a group with members elsewhere, or one with a context number. Results
    /// may be `PMIX_GROUP_CONTEXT_ID` and `PMIX_GROUP_MEMBERSHIP`.
    ///
    /// `PMIX_LOCAL_COLLECTIVE_STATUS` in a part means that an invited process has ended. Only the host can send the
    /// remaining members to all servers. Without a membership, every node's group consists of all named processes.
    ///
    /// A construct with `PMIX_GROUP_BOOTSTRAP`, or without processes, is of one process that does not know the other
    /// members. Bring these together by the group's name. One answer counts for all members on this node: a later one
    /// is ignored.
    ///
    /// Each `PMIX_PROC_INFO_ARRAY` of a construct has the values of one local process for members on other nodes. Put
    /// its content under `PMIX_GROUP_ENDPT_DATA` into the answers of all servers. The members then find these values
    /// without a fence.
    ///
    /// Parts of a destruct are matched by the group's name and common members, because a server that knows of a leave
    /// names fewer.
    fn group(&self, request: GroupRequest, reply: Responder<Vec<Info>>) {
        unsupported(request, reply);
    }

    /// A tool wants to connect. It waits for the answer; any status but success turns it away. Answer with a unique
    /// name. With `None` the tool keeps its own name, or gets one from the server.
    fn tool_connected(&self, tool: ToolUpcall, reply: Responder<Option<ProcId>>) {
        drop(tool);
        reply.succeed(None);
    }

    /// A process on this node wants events of the environment that no process here wanted before. From the answer on,
    /// pass them to `Server::notify_event`.
    fn register_events(&self, request: RegisterEvents, reply: Responder<()>) {
        drop(request);
        reply.fail(Status::ERR_NOT_SUPPORTED);
    }

    /// No process on this node wants these events of the environment any more. The answer has no effect.
    fn deregister_events(&self, codes: Vec<Status>, reply: Responder<()>) {
        drop(codes);
        reply.succeed(());
    }

    /// Pass an event of a local process to the processes in its range on other nodes. Local processes have it already,
    /// so do not give it back. Success means that the event was accepted.
    fn notify_event(&self, event: Event, reply: Responder<()>) {
        drop(event);
        reply.fail(Status::ERR_NOT_SUPPORTED);
    }

    /// A local process reached a moment that a host may want to time. The server calls this on its own thread, or on
    /// one that calls the server. Note the time and return, and wait for no lock that is held during a call.
    fn observed(&self, proc: &ProcId, moment: Moment) {
        let _ = (proc, moment);
    }
}

/// Fails a request that the host does not support.
fn unsupported<R, T: UpcallAnswer>(request: R, reply: Responder<T>) {
    drop(request);
    reply.fail(Status::ERR_NOT_SUPPORTED);
}

macro_rules! call_service {
    ($(
        $(#[$doc:meta])*
        $service:ident = $code:literal, $capability:ident = $bit:literal,
        fn $method:ident($directives:ident) -> $answer:ty { $($fields:tt)* }
    )*) => {
        /// Calls the host's function for a service.
        pub(super) fn call_service(
            host: &dyn Host,
            requester: Requester,
            service: Service,
            taker: Taker,
        ) {
            match service {
                $(Service::$service(request) => host.$method(requester, request, Responder::new(taker)),)*
            }
        }
    };
}

with_services!(call_service);

/// A moment in the life of a local process, as seen by its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Moment {
    /// It entered Init `age` ago, by its own clock. Comes right before [`Moment::Connected`], and only for peers that
    /// send it. A library can't see the start of its process, so this is the closest known time to the start of `main`.
    InitBegun {
        /// How long ago.
        age: Duration,
    },
    /// It has introduced itself: it runs its own code, inside Init.
    Connected,
    /// It has been admitted: Init returns.
    Admitted,
    /// Its request for a fence has arrived.
    FenceBegun,
    /// A fence with this process has succeeded.
    Fenced,
    /// It has finalized. The reply follows.
    Finalized,
    /// Its connection has ended without finalize.
    Left,
    /// A tool that is no registered process has been admitted under this name. Its other moments are not told.
    ToolAdmitted,
    /// The last connection of such a tool has ended.
    ToolGone,
}

/// A host without any upcall: local jobs only.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalHost;

impl Host for LocalHost {
    fn capabilities(&self) -> Capabilities {
        Capabilities::empty()
    }
}

/// The contributions of all servers to a fence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FenceReply {
    /// Values by process, in any order. This server's own contribution may be among them.
    pub blocks: Vec<(ProcId, Vec<Kval>)>,
}

/// A pending answer. Exactly one is given. Dropping the responder fails the request.
#[must_use = "dropping a responder fails the request"]
pub struct Responder<T: UpcallAnswer> {
    taker: Option<Taker>,
    answer: PhantomData<fn(T)>,
}

/// The taker of an answer.
pub(super) enum Taker {
    /// The server's core.
    Core(UpcallId, LoopSender),
    /// A call of the server's own process.
    Caller(Box<dyn FnOnce(HostReply) + Send>),
}

impl<T: UpcallAnswer> Responder<T> {
    pub(super) const fn new(taker: Taker) -> Self {
        Self { taker: Some(taker), answer: PhantomData }
    }

    /// The request succeeded with this result.
    pub fn succeed(mut self, result: T) {
        self.answer(result.into_reply());
    }

    /// The request failed. `status` must not be success.
    pub fn fail(mut self, status: Status) {
        self.answer(failure(status));
    }

    fn answer(&mut self, reply: HostReply) {
        match self.taker.take() {
            Some(Taker::Core(upcall, loop_sender)) => {
                // A server that has ended needs no answers.
                let _ = loop_sender.send(LoopMessage::Completed(upcall, reply));
            }
            Some(Taker::Caller(take)) => take(reply),
            None => {}
        }
    }
}

impl Responder<FenceReply> {
    /// The fence succeeded. `bytes` holds the contributions of all servers in any order, packed by
    /// [`ExchangeForm::pack_fence`](crate::ExchangeForm::pack_fence). Damaged bytes fail the fence. The server reads
    /// them in place; they are dropped on the thread that calls the host.
    pub fn packed(mut self, bytes: impl AsRef<[u8]> + Send + Sync + 'static) {
        let Some(Taker::Core(_, loop_sender)) = &self.taker else { return };
        let loop_sender = loop_sender.clone();
        match PackedFence::new(GivenBack { bytes: Some(bytes), loop_sender }) {
            Ok(packed) => self.answer(HostReply::PackedFence { status: Status::SUCCESS, packed }),
            Err(error) => {
                tracing::warn!(%error, "the data of a fence can't be read");
                self.answer(failure(Status::ERR_UNPACK_FAILURE));
            }
        }
    }
}

/// Bytes of a host. Dropping them runs the host's code, which may call the server or take long. So the server's thread
/// never drops them.
struct GivenBack<B: Send + 'static> {
    bytes: Option<B>,
    loop_sender: LoopSender,
}

impl<B: AsRef<[u8]> + Send + 'static> AsRef<[u8]> for GivenBack<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref().map_or(&[], AsRef::as_ref)
    }
}

impl<B: Send + 'static> Drop for GivenBack<B> {
    fn drop(&mut self) {
        let bytes = self.bytes.take();
        // After the server's end they are dropped here.
        let _ = self.loop_sender.give(LoopMessage::Run(Box::new(move || drop(bytes))));
    }
}

impl<T: PartialAnswer> Responder<T> {
    /// The request has a result and a status. `PARTIAL_SUCCESS` means that some of the requested values are missing; an
    /// error means that the operation failed. With success, the same as [`Responder::succeed`].
    pub fn partial(mut self, status: Status, result: T) {
        self.answer(result.into_partial_reply(status));
    }
}

impl<T: UpcallAnswer> Drop for Responder<T> {
    fn drop(&mut self) {
        self.answer(failure(Status::ERROR));
    }
}

impl<T: UpcallAnswer> fmt::Debug for Responder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder").field("is_given", &self.taker.is_none()).finish()
    }
}

/// The status of a failed request: an error, even if the host gave success.
fn failure(status: Status) -> HostReply {
    HostReply::Status(if status == Status::SUCCESS { Status::ERROR } else { status })
}

/// The result types of a [`Responder`].
pub trait UpcallAnswer: sealed::Sealed {
    #[doc(hidden)]
    fn into_reply(self) -> HostReply;
}

impl UpcallAnswer for () {
    fn into_reply(self) -> HostReply {
        HostReply::Status(Status::SUCCESS)
    }
}

/// An [`UpcallAnswer`] that may come with a status other than success.
pub trait PartialAnswer: UpcallAnswer {
    #[doc(hidden)]
    fn into_partial_reply(self, status: Status) -> HostReply;
}

impl PartialAnswer for FenceReply {
    fn into_partial_reply(self, status: Status) -> HostReply {
        HostReply::Fence { status, blocks: self.blocks }
    }
}

impl PartialAnswer for Vec<Pdata> {
    fn into_partial_reply(self, status: Status) -> HostReply {
        HostReply::Lookup { status, found: self }
    }
}

impl PartialAnswer for Vec<Info> {
    fn into_partial_reply(self, status: Status) -> HostReply {
        HostReply::Infos { status, info: self }
    }
}

macro_rules! answers {
    ($($answer:ty: |$result:ident| $reply:expr;)*) => {
        $(
            impl UpcallAnswer for $answer {
                fn into_reply(self) -> HostReply {
                    let $result = self;
                    $reply
                }
            }

            impl sealed::Sealed for $answer {}
        )*
    };
}

answers! {
    FenceReply: |result| result.into_partial_reply(Status::SUCCESS);
    Vec<Pdata>: |result| result.into_partial_reply(Status::SUCCESS);
    Vec<Info>: |result| result.into_partial_reply(Status::SUCCESS);
    Vec<Kval>: |result| HostReply::DirectModex(result);
    Namespace: |result| HostReply::Spawned(result);
    Credential: |result| HostReply::Credential(result);
    Option<ProcId>: |result| HostReply::Tool(result);
}

impl sealed::Sealed for () {}

mod sealed {
    pub trait Sealed {}
}
