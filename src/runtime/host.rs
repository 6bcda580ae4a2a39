use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use crate::events::Event;
use crate::proto::exchange::PackedFence;
use crate::server::{
    AbortUpcall, Allocate, Capabilities, Connect, Credential, CredentialRequest, FenceUpcall, GroupRequest, HostReply,
    IofPull, JobControl, Log, Lookup, Monitor, Publish, PushStdin, QueryRequest, RegisterEvents, Spawn, ToolUpcall,
    Unpublish, UpcallId, ValidateRequest,
};
use crate::types::{Info, Kval, Namespace, Pdata, ProcId, Status};

use super::commands::{Command, CommandSender};

/// What embeds a server and does for it what no library can: carry data between nodes and control processes.
///
/// The server calls these functions one at a time on a thread of its own, which it starts at the first call. A function
/// should start its work and return; it may call any function of `Server`, the waiting ones included, but as long as
/// it does no other call is made. The answer goes to the [`Responder`], from inside the function, later, or from
/// another thread.
///
/// Only what [`Host::capabilities`] names is ever called.
///
/// Source: PMIx Standard, "Server-Specific Interfaces" (server module).
pub trait Host: Send + Sync + 'static {
    /// Which of the functions below do something. Asked once, when the server starts.
    fn capabilities(&self) -> Capabilities;

    /// A process wants to connect; it is held until the answer, and anything but success turns it away.
    fn client_connected(&self, client: ClientConnected, reply: Responder<()>) {
        drop(client);
        reply.succeed(());
    }

    /// A process has finalized; it is held until the answer.
    fn client_finalized(&self, client: ClientFinalized, reply: Responder<()>) {
        drop(client);
        reply.succeed(());
    }

    /// A process asks for the end of others, or of its whole job.
    fn abort(&self, request: AbortUpcall, reply: Responder<()>) {
        unsupported(request, reply);
    }

    /// Every local participant of a fence has arrived. Exchange the data of all servers that have participants, and
    /// answer with all of it.
    ///
    /// As with all operations of many processes: the host matches the parts of the servers, in order, and bounds the whole. The
    /// limit of the participants is among the directives (`PMIX_TIMEOUT`), and a server whose own ones did not all come within it
    /// has told these, and sends nothing up. `PMIX_LOCAL_COLLECTIVE_STATUS` among the directives says that local participants
    /// have ended, and is to be the status for all: they will not come any more.
    fn fence(&self, request: FenceUpcall, reply: Responder<FenceReply>) {
        unsupported(request, reply);
    }

    /// A process wants data of one that lives elsewhere. Answer with what that one's server gives for
    /// `Server::direct_modex`.
    fn direct_modex(&self, request: DirectModex, reply: Responder<Vec<Kval>>) {
        unsupported(request, reply);
    }

    /// A process publishes data. Answer when it can be looked up.
    fn publish(&self, request: Publish, reply: Responder<()>) {
        unsupported(request, reply);
    }

    /// A process looks for published data. Answer with what is found, [`Responder::partial`] if keys are missing.
    fn lookup(&self, request: Lookup, reply: Responder<Vec<Pdata>>) {
        unsupported(request, reply);
    }

    /// A process withdraws what it has published.
    fn unpublish(&self, request: Unpublish, reply: Responder<()>) {
        unsupported(request, reply);
    }

    /// A process starts a job. Answer with its namespace when all of it has started.
    fn spawn(&self, request: Spawn, reply: Responder<Namespace>) {
        unsupported(request, reply);
    }

    /// Every local participant wants to be connected with the others.
    fn connect(&self, request: Connect, reply: Responder<()>) {
        unsupported(request, reply);
    }

    /// Every local participant wants to be disconnected from the others.
    fn disconnect(&self, request: Connect, reply: Responder<()>) {
        unsupported(request, reply);
    }

    /// A process asks for facts. Answer with what is known, [`Responder::partial`] if that is not all.
    fn query(&self, request: QueryRequest, reply: Responder<Vec<Info>>) {
        unsupported(request, reply);
    }

    /// A process logs data. Answer when it is handed over.
    fn log(&self, request: Log, reply: Responder<()>) {
        unsupported(request, reply);
    }

    /// A process wants to change its allocation.
    fn allocate(&self, request: Allocate, reply: Responder<Vec<Info>>) {
        unsupported(request, reply);
    }

    /// A process wants others paused, resumed, signalled, ended ...
    fn job_control(&self, request: JobControl, reply: Responder<Vec<Info>>) {
        unsupported(request, reply);
    }

    /// A process wants something watched.
    fn monitor(&self, request: Monitor, reply: Responder<Vec<Info>>) {
        unsupported(request, reply);
    }

    /// A process wants a credential.
    fn get_credential(&self, request: CredentialRequest, reply: Responder<Credential>) {
        unsupported(request, reply);
    }

    /// A process wants a credential checked. Answer with what it proves.
    fn validate_credential(&self, request: ValidateRequest, reply: Responder<Vec<Info>>) {
        unsupported(request, reply);
    }

    /// A process wants output forwarded that nobody here has asked for yet. After success, hand it over with
    /// `Server::iof_deliver`.
    fn iof_pull(&self, request: IofPull, reply: Responder<()>) {
        unsupported(request, reply);
    }

    /// A process sends bytes to the standard input of others. Answer when the bytes are taken, not when they are read.
    fn push_stdin(&self, request: PushStdin, reply: Responder<()>) {
        unsupported(request, reply);
    }

    /// Every local member wants to form or dissolve a group that reaches beyond this node, or needs a context number.
    /// Results may be `PMIX_GROUP_CONTEXT_ID` and `PMIX_GROUP_MEMBERSHIP`. Where a part comes with `PMIX_LOCAL_COLLECTIVE_STATUS`,
    /// somebody of the group to be has ended, and only the host can tell all servers who is left: without a membership the group
    /// is of all who were named, on every node. Parts of a destruct are matched by the group's name and common members: who has
    /// heard of a leave names fewer.
    fn group(&self, request: GroupRequest, reply: Responder<Vec<Info>>) {
        unsupported(request, reply);
    }

    /// A tool wants to connect; it is held until the answer, and anything but success turns it away. Answer with a name for
    /// it that no other process has; with `None` it keeps the one it brings, or gets one from the server.
    fn tool_connected(&self, tool: ToolUpcall, reply: Responder<Option<ProcId>>) {
        drop(tool);
        reply.succeed(None);
    }

    /// Somebody on this node wants events of the environment that nobody here wanted before. From the answer on pass
    /// them to `Server::notify_event`.
    fn register_events(&self, request: RegisterEvents, reply: Responder<()>) {
        drop(request);
        reply.fail(Status::ERR_NOT_SUPPORTED);
    }

    /// Nobody on this node wants these events of the environment any more. Nobody waits for the answer.
    fn deregister_events(&self, codes: Vec<Status>, reply: Responder<()>) {
        drop(codes);
        reply.succeed(());
    }

    /// Take an event of a process here on to those in its range who are on other nodes; those here have it already, so
    /// do not give it back. Success means that it was accepted.
    fn notify_event(&self, event: Event, reply: Responder<()>) {
        drop(event);
        reply.fail(Status::ERR_NOT_SUPPORTED);
    }

    /// A local process reached a moment that a host may want to time. Unlike the functions above it is called on the
    /// server's own thread, or on one that calls the server just then: note the time and return, and wait for no lock that is
    /// held during a call.
    fn observed(&self, proc: &ProcId, moment: Moment) {
        let _ = (proc, moment);
    }
}

/// What a host answers to a request that it does not name among its capabilities.
fn unsupported<R, T: Answer>(request: R, reply: Responder<T>) {
    drop(request);
    reply.fail(Status::ERR_NOT_SUPPORTED);
}

/// A moment in the life of a local process, as its server sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Moment {
    /// It entered Init `age` ago, by its own word; told right before [`Moment::Connected`], and only of peers that say it.
    /// A library can't see when its process started, so this is the nearest to the start of `main` that it knows.
    InitBegun {
        /// How long ago.
        age: Duration,
    },
    /// It has introduced itself: it runs its own code and is inside Init.
    Connected,
    /// It has been admitted: Init returns.
    Admitted,
    /// A fence it takes part in has been released successfully.
    Fenced,
    /// Its connection has ended without finalize: it died, or gave up.
    Left,
}

/// A host without any upcall: local jobs only.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalHost;

impl Host for LocalHost {
    fn capabilities(&self) -> Capabilities {
        Capabilities::empty()
    }
}

/// A process that wants to connect.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientConnected {
    /// The process.
    pub proc: ProcId,
    /// As given at its registration.
    pub object: u64,
    /// Facts about the connection.
    pub directives: Vec<Info>,
}

/// A process that leaves in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFinalized {
    /// The process.
    pub proc: ProcId,
    /// As given at its registration.
    pub object: u64,
}

/// Data wanted from another node.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectModex {
    /// Whose data; wildcard rank: the job's.
    pub proc: ProcId,
    /// `PMIX_REQUIRED_KEY` and `PMIX_TIMEOUT`, if the request had them.
    pub directives: Vec<Info>,
}

/// What all servers contributed to a fence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FenceReply {
    /// Values by process, in any order. This server's own contribution may be among them.
    pub blocks: Vec<(ProcId, Vec<Kval>)>,
}

/// An answer that is due. Exactly one is given: by a method, or by dropping it, which means failure.
#[must_use = "dropping a responder fails the request"]
pub struct Responder<T: Answer> {
    upcall: UpcallId,
    commands: Option<CommandSender>,
    answer: PhantomData<fn(T)>,
}

impl<T: Answer> Responder<T> {
    pub(super) fn new(upcall: UpcallId, commands: CommandSender) -> Self {
        Self { upcall, commands: Some(commands), answer: PhantomData }
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
        // A server that has ended meanwhile wants no answers.
        if let Some(commands) = self.commands.take() {
            let _ = commands.send(Command::Completed(self.upcall, reply));
        }
    }
}

impl Responder<FenceReply> {
    /// The fence succeeded; these are the contributions of all servers, one after the other in any order, as
    /// [`ExchangeForm::pack_fence`](crate::ExchangeForm::pack_fence) has packed them. Damaged, they fail the fence. The
    /// server reads them where they lie, and they are dropped afterwards where the functions of the host are called.
    pub fn packed(mut self, bytes: impl AsRef<[u8]> + Send + Sync + 'static) {
        let Some(commands) = self.commands.clone() else { return };
        match PackedFence::new(GivenBack { bytes: Some(bytes), commands }) {
            Ok(packed) => self.answer(HostReply::PackedFence { status: Status::SUCCESS, packed }),
            Err(error) => {
                tracing::warn!(%error, "the data of a fence can't be read");
                self.answer(failure(Status::ERR_UNPACK_FAILURE));
            }
        }
    }
}

/// Bytes of a host. What it does when it gets them back is its own: it may call the server, or take its time, and so it
/// is not the server's thread that drops them.
struct GivenBack<B: Send + 'static> {
    bytes: Option<B>,
    commands: CommandSender,
}

impl<B: AsRef<[u8]> + Send + 'static> AsRef<[u8]> for GivenBack<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref().map_or(&[], AsRef::as_ref)
    }
}

impl<B: Send + 'static> Drop for GivenBack<B> {
    fn drop(&mut self) {
        let bytes = self.bytes.take();
        // A server that has ended gives them back here.
        let _ = self.commands.give(Command::Run(Box::new(move || drop(bytes))));
    }
}

impl<T: PartialAnswer> Responder<T> {
    /// The request has this result, and the status says what is to be known of it: some of what was wanted is missing
    /// (`PARTIAL_SUCCESS`), or the operation failed and this is how. With success the same as [`Responder::succeed`].
    pub fn partial(mut self, status: Status, result: T) {
        self.answer(result.into_partial_reply(status));
    }
}

impl<T: Answer> Drop for Responder<T> {
    fn drop(&mut self) {
        self.answer(failure(Status::ERROR));
    }
}

impl<T: Answer> fmt::Debug for Responder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Responder").field(&self.upcall).finish()
    }
}

/// Success is what `succeed` says; a failure without a reason is an error all the same.
fn failure(status: Status) -> HostReply {
    HostReply::Status(if status == Status::SUCCESS { Status::ERROR } else { status })
}

/// What a [`Responder`] can answer with.
pub trait Answer: sealed::Sealed {
    #[doc(hidden)]
    fn into_reply(self) -> HostReply;
}

impl Answer for () {
    fn into_reply(self) -> HostReply {
        HostReply::Status(Status::SUCCESS)
    }
}

/// An [`Answer`] that may come with a status other than success.
pub trait PartialAnswer: Answer {
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
            impl Answer for $answer {
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
