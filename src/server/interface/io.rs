//! Inputs and outputs of the core.

use std::any::Any;
use std::sync::Arc;

use super::answer::Answer;
use super::cleanup::Cleanup;
use super::connection::{Hello, PeerId, ToolHello};
use super::directives::flag;
use super::host::{HostCall, HostCallId, HostData, HostReply, HostResult, Upcall, UpcallId};
use super::refusal::{Reason, Refusal};
use super::requests::{IofOutput, Requester};
use crate::events::Event;
use crate::keys;
use crate::proto::notification::{EventNotice, OutputHead, RemovalNotice};
use crate::proto::{Monitor, Request, Tag};
use crate::topo::SharedMachine;
use crate::types::{Info, Key, Namespace, ProcId, Query, Text};

/// An event for the server.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A connection introduced itself. Ends in [`Output::Admit`] or [`Output::Refuse`].
    Connected(PeerId, Hello),
    /// A connection introduced itself as a tool. Ends in [`Output::AdmitTool`], [`Output::Admit`] if the host announced
    /// its process, or [`Output::Refuse`].
    ToolConnected(PeerId, ToolHello),
    /// This process has connected to the tool that started it, which the hello names, and serves it there. Ends in
    /// [`Output::AdmitTool`] or [`Output::Refuse`].
    ParentConnected(PeerId, ToolHello),
    /// A request of an admitted connection. Ends in [`Output::Answer`] with the same tag, or with the connection.
    Request(PeerId, Tag, Request),
    /// A heartbeat of a connection's process. There is no reply.
    Heartbeat(PeerId),
    /// The next step of a request, after [`Output::Unfinished`].
    Proceed(PeerId),
    /// A connection ended. Not needed after [`Output::Refuse`] or [`Output::Close`], and harmless.
    Lost(PeerId),
    /// A call of the host. Ends in [`Output::Complete`].
    Host(HostCallId, HostCall),
    /// The host's answer to an upcall. It is ignored if no request waits for it.
    Completed(UpcallId, HostReply),
    /// The node's topology, after [`Output::WantTopology`].
    Topology(NodeHardware),
    /// The state of a file, after [`Output::LookAtFile`]. None: there is no such file.
    FileSeen(FileLook, Option<FileState>),
    /// The moment of [`crate::server::ServerCore::poll_timeout`] has come.
    Timeout,
    /// The server ends. Output that pulls wait with is delivered.
    Closing,
}

/// The topology of the node; none: there is none, or it is not available.
#[derive(Clone, Debug)]
pub struct NodeHardware(pub Option<Arc<SharedMachine>>);

impl PartialEq for NodeHardware {
    /// Whether both are the same reading.
    fn eq(&self, other: &Self) -> bool {
        self.0.as_ref().map(Arc::as_ptr) == other.0.as_ref().map(Arc::as_ptr)
    }
}

/// A task for the runtime. Tasks must be done in order.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum Output {
    /// Tell the connection that it is admitted, with its slot number.
    Admit(PeerId, u32),
    /// Tell the tool that it is admitted, with its slot number and its name.
    AdmitTool(PeerId, u32, ProcId),
    /// Tell the connection that it is refused, in the form of its version, and close it.
    Refuse(PeerId, Refusal),
    /// Answer a request.
    Answer(PeerId, Tag, Answer),
    /// The connection's request needs another step: send [`Input::Proceed`] at its next turn, before its next request.
    Unfinished(PeerId),
    /// Some requests need the node's topology: read it, and return it by [`Input::Topology`].
    WantTopology,
    /// The description of this namespace is new, or gone: bytes made of an older one must not be sent any more.
    Described(Namespace),
    /// Send output of another process.
    Forward(PeerId, Forwarded),
    /// Give output of another process to the server's own process, after the completion of earlier calls.
    HandOver(Forwarded),
    /// Send the descriptor of a namespace's segment.
    SendSegment(PeerId, Namespace),
    /// Tell a process to forget the segment of another job, to which it has no tie any more.
    WithdrawSegment(PeerId, Namespace),
    /// Close the connection after everything before this has been written.
    Close(PeerId, Reason),
    /// Ask the host.
    Upcall(UpcallId, Upcall),
    /// Notify a connection of an event.
    Notify(PeerId, EventDelivery),
    /// Tell a client that keeps copies of values that a process has removed one.
    TellRemoval(PeerId, Arc<RemovalNotice>),
    /// Notify the handlers in the server's own process of an event.
    Raise(Event),
    /// Complete a call of the host.
    Complete(HostCallId, HostResult<HostData>),
    /// Inventories of nodes were delivered.
    Inventories,
    /// Remove what a process, or its job, left behind.
    Cleanup(Cleanup),
    /// Data of this namespace was published: wake the sleepers on its segment.
    Wake(Namespace),
    /// Free this memory where no request waits for it.
    Discard(Garbage),
    /// Look at the file at this path for a process of the server's user, and return its state by [`Input::FileSeen`].
    LookAtFile(FileLook, Text),
    /// Answer queries about storage and the use of resources for a process, and return the found values by
    /// [`Input::Completed`].
    Look(UpcallId, Requester, Vec<Query>),
    /// Measure what a process asks for on this node, or end such a request, and return the result by
    /// [`Input::Completed`].
    Measure(UpcallId, Requester, Box<Monitor>),
}

/// Identifies the watch that wants to know a file's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLook {
    /// The connection of the watch.
    pub peer: PeerId,
    /// The number of the watch.
    pub number: u64,
}

/// The state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    /// Its size.
    pub size_bytes: u64,
    /// The time of the last access: seconds and nanoseconds.
    pub accessed: (i64, i64),
    /// The time of the last change of its content.
    pub modified: (i64, i64),
}

/// Unused memory that takes long to free.
#[derive(Clone, Debug)]
pub struct Garbage(Arc<dyn Any + Send + Sync>);

impl Garbage {
    pub(in crate::server) fn new(memory: impl Any + Send + Sync) -> Self {
        Self(Arc::new(memory))
    }
}

impl PartialEq for Garbage {
    /// Whether both are the same memory.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl IofOutput {
    /// The end of a channel.
    pub(crate) fn end(source: ProcId, channel: u16) -> Self {
        let info = vec![Info::new(Key::from_static(keys::IOF_COMPLETE.name()), true)];
        Self { source, channel, bytes: Vec::new(), info }
    }

    /// Output without bytes ends its channel. The receivers find that among the infos, too.
    pub(crate) fn with_end(mut self: Arc<Self>) -> Arc<Self> {
        let key = keys::IOF_COMPLETE.name();
        if self.bytes.is_empty() && self.info.iter().all(|info| info.key.as_str() != key) {
            Arc::make_mut(&mut self).info.push(Info::new(Key::from_static(key), true));
        }
        self
    }

    /// Whether this ends its channel.
    pub(crate) fn is_end(&self) -> bool {
        self.bytes.is_empty() || flag(&self.info, keys::IOF_COMPLETE)
    }
}

/// The bytes.
impl AsRef<[u8]> for IofOutput {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// An event for one of its receivers, which share it.
#[derive(Clone, Debug, PartialEq)]
pub struct EventDelivery {
    /// The event.
    pub event: Arc<Event>,
    /// Whether the receiver had missed it.
    pub was_missed: bool,
}

impl EventDelivery {
    /// The message. Missed events carry no range, as peers expect.
    #[must_use]
    pub fn notice(&self) -> EventNotice {
        let Event { status, source, range, info } = self.event.as_ref();
        let range = (!self.was_missed).then_some(*range);
        EventNotice { status: *status, source: source.clone(), info: info.clone(), range }
    }
}

/// A piece of output for one of its receivers. They share it: each message is written at its turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Forwarded {
    /// The receiver's own number for its request.
    pub reference: u64,
    /// The piece.
    pub output: Arc<IofOutput>,
}

impl Forwarded {
    /// The message without its bytes.
    #[must_use]
    pub fn head(&self) -> OutputHead {
        let IofOutput { source, channel, info, .. } = self.output.as_ref();
        OutputHead { source: source.clone(), channels: *channel, reference: self.reference, info: info.clone() }
    }
}
