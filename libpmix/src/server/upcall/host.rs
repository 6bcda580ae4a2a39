//! The host of a server core: every function goes to the C table.

use std::sync::Arc;

use modex::keys;
use modex::proto::exchange;
use modex::types::codes::iof_channel;
use modex::types::{Info, Kval, Namespace, Pdata, ProcId, Status};
use modex::{
    AbortUpcall, Allocate, Capabilities, ClientConnected, ClientFinalized, Connect, Credential, DirectModex, Event,
    FabricRegister, FabricUpdate, FenceReply, FenceUpcall, GetCredential, GroupRequest, Host, IofOutput, IofPull,
    IofPush, JobControl, Log, Lookup, Monitor, Publish, QueryInfo, RegisterEvents, Requester, ResourceBlock, Responder,
    SessionControl, Spawn, ToolUpcall, Unpublish, UpcallAnswer, ValidateCredential,
};

use parking_lot::Mutex;

use super::calls::{Bridge, OutgoingFence, with_entries};
use super::due::Due;
use crate::output::Stream;
use crate::own_log::{self, LogRequest};
use crate::server::state::{self, ServerProcess};

/// A push in the pieces that hosts of OpenPMIx's servers get. The last one has the end of the input, if there is one.
fn pieces_of(push: IofPush) -> Vec<IofPush> {
    let count = push.bytes.len().div_ceil(HOST_PIECE_BYTES);
    if count <= 1 {
        return vec![push];
    }
    let ends = |info: &Info| info.key.as_str() == keys::IOF_COMPLETE.name();
    let piece = |(number, bytes): (usize, &[u8])| {
        let mut directives = push.directives.clone();
        directives.retain(|info| number + 1 == count || !ends(info));
        IofPush::new(push.targets.clone(), directives, bytes.to_vec())
    };
    push.bytes.chunks(HOST_PIECE_BYTES).enumerate().map(piece).collect()
}

/// The host's answers to the pieces of a push.
struct PieceAnswers {
    /// Pieces without an answer.
    open: usize,
    first_error: Option<Status>,
    /// Takes the status of the push, after the last answer.
    last: Option<Box<dyn FnOnce(Status) + Send>>,
}

/// Size of the pieces of input for a host, in bytes. PRRTE 3 and 4.1 copy a push into 8 KiB without a look at its size.
pub(crate) const HOST_PIECE_BYTES: usize = 4096;

/// A host behind a C table.
pub(in crate::server) struct ModuleHost {
    bridge: Arc<Bridge>,
}

impl ModuleHost {
    pub(in crate::server) const fn new(bridge: Arc<Bridge>) -> Self {
        Self { bridge }
    }
}

/// Makes a method of [`Host`] for each entry that needs no more than its call.
macro_rules! passed {
    (
        passed { $(
            $capability:ident: fn $method:ident($($argument:ident: $type:ty),+) -> $answer:ty { $($call:tt)* }
        )* }
        own { $($own:tt)* }
    ) => {
        $(fn $method(&self, $($argument: $type,)+ reply: Responder<$answer>) {
            self.bridge.$method($($argument,)+ reply.into());
        })*
    };
}

impl Host for ModuleHost {
    fn capabilities(&self) -> Capabilities {
        let module = self.bridge.module();
        let mut capabilities = self.bridge.capabilities();
        let is_asked_first = module.client_connected.is_some() || module.client_connected2.is_some();
        capabilities.set(Capabilities::CLIENT_CONNECTED, is_asked_first);
        // Hosts that register jobs on connect can't be told from others.
        capabilities.set(Capabilities::REGISTERS_ON_CONNECT, module.connect.is_some());
        // OpenPMIx calls no host for processes of one node. PRRTE 3.0 frees memory twice if it is called.
        capabilities.insert(Capabilities::CONNECTS_OTHER_NODES_ONLY);
        // This library answers some queries itself.
        capabilities.insert(Capabilities::QUERY);
        if self.bridge.is_gateway {
            capabilities.insert(Capabilities::LOG);
        }
        capabilities
    }

    fn client_connected(&self, client: ClientConnected, reply: Responder<()>) {
        if self.bridge.module().client_connected2.is_some() {
            return self.bridge.client_connected2(client, reply.into());
        }
        match self.bridge.client_connected(&client) {
            Status::SUCCESS => reply.succeed(()),
            refusal => reply.fail(refusal),
        }
    }

    fn tool_connected(&self, tool: ToolUpcall, reply: Responder<Option<ProcId>>) {
        if self.bridge.module().tool_connected2.is_some() {
            return self.bridge.tool_connected2(tool, reply.into());
        }
        self.bridge.tool_connected(tool, reply.into());
    }

    fn log(&self, requester: Requester, request: Log, reply: Responder<()>) {
        let (has_log, has_log2) = {
            let module = self.bridge.module();
            (module.log.is_some(), module.log2.is_some())
        };
        if has_log2 {
            return self.bridge.log2(requester, request, reply.into());
        }
        if !has_log && self.bridge.is_gateway {
            return answer_log(&requester, &request, reply);
        }
        self.bridge.log(requester, request, reply.into());
    }

    fn iof_push(&self, requester: Requester, request: IofPush, reply: Responder<()>) {
        let (flow, source) = (Arc::clone(&self.bridge.flow), requester.proc.clone());
        let pieces = pieces_of(request);
        let last: Box<dyn FnOnce(Status) + Send> = Box::new(move |status| flow.settle(source, status, reply));
        let answers = Arc::new(Mutex::new(PieceAnswers { open: pieces.len(), first_error: None, last: Some(last) }));
        for piece in pieces {
            let answers = Arc::clone(&answers);
            let due = Due::Status(Box::new(move |status| {
                let mut answers = answers.lock();
                answers.open -= 1;
                if status != Status::SUCCESS {
                    answers.first_error.get_or_insert(status);
                }
                let last = if answers.open == 0 { answers.last.take() } else { None };
                let status = answers.first_error.unwrap_or(Status::SUCCESS);
                drop(answers);
                last.into_iter().for_each(|last| last(status));
            }));
            self.bridge.iof_push(requester.clone(), piece, due);
        }
    }

    fn fence(&self, request: FenceUpcall, reply: Responder<FenceReply>) {
        let FenceUpcall { procs, directives, data, namespaces } = request;
        let packed = if data.collect { self.bridge.form.pack_fence(data.blocks, &namespaces) } else { Ok(Vec::new()) };
        let contribution = match packed {
            Ok(contribution) => contribution,
            Err(error) => {
                tracing::warn!(?procs, %error, "the data of a fence can't be packed; it fails");
                return reply.fail(error.status());
            }
        };
        let due = Due::Fence(Box::new(move |result| match result {
            Ok(bytes) => reply.packed(bytes),
            Err(failure) => reply.fail(failure),
        }));
        self.bridge.fence(OutgoingFence { procs, directives, contribution }, due);
    }

    fn direct_modex(&self, request: DirectModex, reply: Responder<Vec<Kval>>) {
        let due = Due::Blob(Box::new(move |result| match result.map(unpack_direct_modex) {
            Ok(Ok(entries)) => reply.succeed(entries),
            Ok(Err(failure)) | Err(failure) => reply.fail(failure),
        }));
        self.bridge.direct_modex(request, due);
    }

    with_entries!(passed);

    fn query(&self, requester: Requester, request: QueryInfo, reply: Responder<Vec<Info>>) {
        if let Some((request, reply)) = self.bridge.facts.answer(&requester, request, reply) {
            self.bridge.query(requester, request, reply.into());
        }
    }
}

/// Writes the log of a process at a gateway whose host has none. As in OpenPMIx, texts for standard output and error
/// are output of the process: for this server's own outputs, and for tools that pull it.
fn answer_log(requester: &Requester, request: &Log, reply: Responder<()>) {
    let source = &requester.proc;
    let process = state::current().ok();
    let write_output = |stream: Stream, text: &[u8]| {
        process.as_ref().is_some_and(|process| deliver_log(process, source, stream, text))
    };
    let request = LogRequest { has_global_syslog: true, source, data: &request.data, directives: &request.directives };
    match own_log::write(request, write_output) {
        Ok(()) => reply.succeed(()),
        Err(status) => reply.fail(status),
    }
}

/// Passes a text on as output of a process. Returns false if there is no room.
fn deliver_log(process: &ServerProcess, source: &ProcId, stream: Stream, text: &[u8]) -> bool {
    // No bytes would be the end of the stream.
    if text.is_empty() {
        return true;
    }
    let channel = match stream {
        Stream::Stdout => iof_channel::FWD_STDOUT_CHANNEL,
        _ => iof_channel::FWD_STDERR_CHANNEL,
    };
    let output = IofOutput { source: source.clone(), channel, bytes: text.to_vec(), info: Vec::new() };
    process.output.offer_log(process.server().proc(), stream, text)
        && process.server().iof_deliver(output).then(drop).is_ok()
}

impl From<Responder<()>> for Due {
    fn from(reply: Responder<()>) -> Self {
        Self::Status(Box::new(move |status| match status {
            Status::SUCCESS => reply.succeed(()),
            failure => reply.fail(failure),
        }))
    }
}

impl From<Responder<Vec<Info>>> for Due {
    fn from(reply: Responder<Vec<Info>>) -> Self {
        Self::Infos(Box::new(move |status, infos| reply.partial(status, infos)))
    }
}

impl From<Responder<Vec<Pdata>>> for Due {
    fn from(reply: Responder<Vec<Pdata>>) -> Self {
        Self::Found(Box::new(move |status, found| reply.partial(status, found)))
    }
}

impl From<Responder<Namespace>> for Due {
    fn from(reply: Responder<Namespace>) -> Self {
        Self::Namespace(Box::new(move |result| settle(reply, result)))
    }
}

impl From<Responder<Credential>> for Due {
    fn from(reply: Responder<Credential>) -> Self {
        Self::Credential(Box::new(move |result| settle(reply, result)))
    }
}

impl From<Responder<Option<ProcId>>> for Due {
    fn from(reply: Responder<Option<ProcId>>) -> Self {
        Self::Tool(Box::new(move |result| settle(reply, result)))
    }
}

fn settle<T: UpcallAnswer>(reply: Responder<T>, result: Result<T, Status>) {
    match result {
        Ok(answer) => reply.succeed(answer),
        Err(failure) => reply.fail(failure),
    }
}

fn unpack_direct_modex(bytes: &[u8]) -> Result<Vec<Kval>, Status> {
    exchange::unpack_direct_modex(bytes).map_err(|error| {
        tracing::warn!(%error, "the data that the host has fetched can't be read");
        Status::ERR_UNPACK_FAILURE
    })
}
