//! The host of a server core: every function goes to the C table.

use std::sync::Arc;

use modex::proto::exchange;
use modex::types::{Info, Kval, Namespace, Pdata, ProcId, Status};
use modex::{
    AbortUpcall, Allocate, Answer, Capabilities, ClientConnected, ClientFinalized, Connect, Credential, DirectModex,
    Event, FenceReply, FenceUpcall, GetCredential, GroupRequest, Host, IofPull, IofPush, JobControl, Log, Lookup,
    Monitor, Publish, QueryInfo, RegisterEvents, Requester, Responder, Spawn, ToolUpcall, Unpublish,
    ValidateCredential,
};

use super::calls::{Bridge, PackedFence};
use super::due::Due;
use crate::types::pmix_server_module_t;

/// A host behind a C table.
pub(in crate::server) struct ModuleHost {
    bridge: Arc<Bridge>,
}

impl ModuleHost {
    pub(in crate::server) const fn new(bridge: Arc<Bridge>) -> Self {
        Self { bridge }
    }
}

/// Gives the services that pass through to a macro: capability, method, request and answer of each, and its entry of the
/// module.
macro_rules! with_passed {
    ($macro:ident) => {
        $macro! {
            PUBLISH: publish(Publish) -> (), publish;
            LOOKUP: lookup(Lookup) -> Vec<Pdata>, lookup;
            UNPUBLISH: unpublish(Unpublish) -> (), unpublish;
            SPAWN: spawn(Spawn) -> Namespace, spawn;
            LOG: log(Log) -> (), log;
            ALLOCATE: allocate(Allocate) -> Vec<Info>, allocate;
            JOB_CONTROL: job_control(JobControl) -> Vec<Info>, job_control;
            MONITOR: monitor(Monitor) -> Vec<Info>, monitor;
            GET_CREDENTIAL: get_credential(GetCredential) -> Credential, get_credential;
            VALIDATE_CREDENTIAL: validate_credential(ValidateCredential) -> Vec<Info>, validate_credential;
            IOF_PUSH: iof_push(IofPush) -> (), push_stdin;
        }
    };
}

macro_rules! capabilities {
    ($($capability:ident: $method:ident($request:ident) -> $answer:ty, $entry:ident;)*) => {
        fn passed_by(module: &pmix_server_module_t) -> Capabilities {
            let mut capabilities = Capabilities::empty();
            $(capabilities.set(Capabilities::$capability, module.$entry.is_some());)*
            capabilities
        }
    };
}

macro_rules! methods {
    ($($capability:ident: $method:ident($request:ident) -> $answer:ty, $entry:ident;)*) => {
        $(fn $method(&self, requester: Requester, request: $request, reply: Responder<$answer>) {
            self.bridge.$method(requester, request, reply.into());
        })*
    };
}

with_passed!(capabilities);

impl Host for ModuleHost {
    fn capabilities(&self) -> Capabilities {
        let module = self.bridge.module();
        let mut capabilities = passed_by(&module);
        let is_asked_first = module.client_connected.is_some() || module.client_connected2.is_some();
        capabilities.set(Capabilities::CLIENT_CONNECTED, is_asked_first);
        capabilities.set(Capabilities::CLIENT_FINALIZED, module.client_finalized.is_some());
        capabilities.set(Capabilities::ABORT, module.abort.is_some());
        capabilities.set(Capabilities::FENCE, module.fence_nb.is_some());
        capabilities.set(Capabilities::DIRECT_MODEX, module.direct_modex.is_some());
        capabilities.set(Capabilities::CONNECT, module.connect.is_some());
        // Hosts that register jobs on connect can't be told from others.
        capabilities.set(Capabilities::REGISTERS_ON_CONNECT, module.connect.is_some());
        capabilities.set(Capabilities::DISCONNECT, module.disconnect.is_some());
        capabilities.set(Capabilities::REGISTER_EVENTS, module.register_events.is_some());
        capabilities.set(Capabilities::DEREGISTER_EVENTS, module.deregister_events.is_some());
        capabilities.set(Capabilities::NOTIFY_EVENT, module.notify_event.is_some());
        // This library answers some queries itself.
        capabilities.insert(Capabilities::QUERY);
        capabilities.set(Capabilities::IOF_PULL, module.iof_pull.is_some());
        capabilities.set(Capabilities::TOOL_CONNECTED, module.tool_connected.is_some());
        capabilities.set(Capabilities::GROUP, module.group.is_some());
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

    fn client_finalized(&self, client: ClientFinalized, reply: Responder<()>) {
        self.bridge.client_finalized(client, reply.into());
    }

    fn abort(&self, request: AbortUpcall, reply: Responder<()>) {
        self.bridge.abort(request, reply.into());
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
        self.bridge.fence(PackedFence { procs, directives, contribution }, due);
    }

    fn direct_modex(&self, request: DirectModex, reply: Responder<Vec<Kval>>) {
        let due = Due::Blob(Box::new(move |result| match result.map(unpack_direct_modex) {
            Ok(Ok(entries)) => reply.succeed(entries),
            Ok(Err(failure)) | Err(failure) => reply.fail(failure),
        }));
        self.bridge.direct_modex(request, due);
    }

    with_passed!(methods);

    fn connect(&self, request: Connect, reply: Responder<()>) {
        self.bridge.connect(request, reply.into());
    }

    fn disconnect(&self, request: Connect, reply: Responder<()>) {
        self.bridge.disconnect(request, reply.into());
    }

    fn register_events(&self, request: RegisterEvents, reply: Responder<()>) {
        self.bridge.register_events(request, reply.into());
    }

    fn deregister_events(&self, codes: Vec<Status>, reply: Responder<()>) {
        self.bridge.deregister_events(codes, reply.into());
    }

    fn notify_event(&self, event: Event, reply: Responder<()>) {
        self.bridge.notify_event(event, reply.into());
    }

    fn query(&self, requester: Requester, request: QueryInfo, reply: Responder<Vec<Info>>) {
        if let Some((request, reply)) = self.bridge.facts.answer(request, reply) {
            self.bridge.query(requester, request, reply.into());
        }
    }

    fn iof_pull(&self, _: Requester, request: IofPull, reply: Responder<()>) {
        self.bridge.iof_pull(request, reply.into());
    }

    fn tool_connected(&self, tool: ToolUpcall, reply: Responder<Option<ProcId>>) {
        self.bridge.tool_connected(tool, reply.into());
    }

    fn group(&self, request: GroupRequest, reply: Responder<Vec<Info>>) {
        self.bridge.group(request, reply.into());
    }
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

fn settle<T: Answer>(reply: Responder<T>, result: Result<T, Status>) {
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
