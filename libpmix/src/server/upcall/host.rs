//! The host of a server core: every function goes to the C table.

use std::sync::Arc;

use modex::proto::exchange;
use modex::types::{Info, Kval, Namespace, Pdata, ProcId, Status};
use modex::{
    AbortUpcall, Allocate, Capabilities, ClientConnected, ClientFinalized, Connect, Credential, CredentialRequest,
    DirectModex, Event, FenceReply, FenceUpcall, GroupRequest, Host, IofPull, JobControl, Log, Lookup, Monitor,
    PartialAnswer, Publish, PushStdin, QueryRequest, RegisterEvents, Responder, Spawn, ToolUpcall, Unpublish,
    ValidateRequest,
};

use super::super::knowledge;
use super::calls::{Bridge, PackedFence};
use super::due::Due;

/// A host behind a C table.
pub(in crate::server) struct ModuleHost {
    bridge: Arc<Bridge>,
}

impl ModuleHost {
    pub(in crate::server) const fn new(bridge: Arc<Bridge>) -> Self {
        Self { bridge }
    }
}

impl Host for ModuleHost {
    fn capabilities(&self) -> Capabilities {
        let module = self.bridge.module();
        let mut capabilities = Capabilities::empty();
        let is_asked_first = module.client_connected.is_some() || module.client_connected2.is_some();
        capabilities.set(Capabilities::CLIENT_CONNECTED, is_asked_first);
        capabilities.set(Capabilities::CLIENT_FINALIZED, module.client_finalized.is_some());
        capabilities.set(Capabilities::ABORT, module.abort.is_some());
        capabilities.set(Capabilities::FENCE, module.fence_nb.is_some());
        capabilities.set(Capabilities::DIRECT_MODEX, module.direct_modex.is_some());
        capabilities.set(Capabilities::PUBLISH, module.publish.is_some());
        capabilities.set(Capabilities::LOOKUP, module.lookup.is_some());
        capabilities.set(Capabilities::UNPUBLISH, module.unpublish.is_some());
        capabilities.set(Capabilities::SPAWN, module.spawn.is_some());
        capabilities.set(Capabilities::CONNECT, module.connect.is_some());
        // Hosts that register jobs on connect can't be told from others.
        capabilities.set(Capabilities::REGISTERS_ON_CONNECT, module.connect.is_some());
        capabilities.set(Capabilities::DISCONNECT, module.disconnect.is_some());
        capabilities.set(Capabilities::REGISTER_EVENTS, module.register_events.is_some());
        capabilities.set(Capabilities::DEREGISTER_EVENTS, module.deregister_events.is_some());
        capabilities.set(Capabilities::NOTIFY_EVENT, module.notify_event.is_some());
        // This library answers some queries itself.
        capabilities.insert(Capabilities::QUERY);
        capabilities.set(Capabilities::LOG, module.log.is_some());
        capabilities.set(Capabilities::ALLOCATE, module.allocate.is_some());
        capabilities.set(Capabilities::JOB_CONTROL, module.job_control.is_some());
        capabilities.set(Capabilities::MONITOR, module.monitor.is_some());
        capabilities.set(Capabilities::GET_CREDENTIAL, module.get_credential.is_some());
        capabilities.set(Capabilities::VALIDATE_CREDENTIAL, module.validate_credential.is_some());
        capabilities.set(Capabilities::IOF_PULL, module.iof_pull.is_some());
        capabilities.set(Capabilities::PUSH_STDIN, module.push_stdin.is_some());
        capabilities.set(Capabilities::TOOL_CONNECTED, module.tool_connected.is_some());
        capabilities.set(Capabilities::GROUP, module.group.is_some());
        capabilities
    }

    fn client_connected(&self, client: ClientConnected, reply: Responder<()>) {
        if self.bridge.module().client_connected2.is_some() {
            return self.bridge.client_connected2(client, status(reply));
        }
        match self.bridge.client_connected(&client) {
            Status::SUCCESS => reply.succeed(()),
            refusal => reply.fail(refusal),
        }
    }

    fn client_finalized(&self, client: ClientFinalized, reply: Responder<()>) {
        self.bridge.client_finalized(client, status(reply));
    }

    fn abort(&self, request: AbortUpcall, reply: Responder<()>) {
        self.bridge.abort(request, status(reply));
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

    fn publish(&self, request: Publish, reply: Responder<()>) {
        self.bridge.publish(request, status(reply));
    }

    fn lookup(&self, request: Lookup, reply: Responder<Vec<Pdata>>) {
        self.bridge.lookup(request, Due::Found(Box::new(move |status, found| settle(reply, status, found))));
    }

    fn unpublish(&self, request: Unpublish, reply: Responder<()>) {
        self.bridge.unpublish(request, status(reply));
    }

    fn spawn(&self, request: Spawn, reply: Responder<Namespace>) {
        let due = Due::Namespace(Box::new(move |result| match result {
            Ok(namespace) => reply.succeed(namespace),
            Err(failure) => reply.fail(failure),
        }));
        self.bridge.spawn(request, due);
    }

    fn connect(&self, request: Connect, reply: Responder<()>) {
        self.bridge.connect(request, status(reply));
    }

    fn disconnect(&self, request: Connect, reply: Responder<()>) {
        self.bridge.disconnect(request, status(reply));
    }

    fn register_events(&self, request: RegisterEvents, reply: Responder<()>) {
        self.bridge.register_events(request, status(reply));
    }

    fn deregister_events(&self, codes: Vec<Status>, reply: Responder<()>) {
        self.bridge.deregister_events(codes, status(reply));
    }

    fn notify_event(&self, event: Event, reply: Responder<()>) {
        self.bridge.notify_event(event, status(reply));
    }

    fn query(&self, request: QueryRequest, reply: Responder<Vec<Info>>) {
        knowledge::query(&self.bridge, request, infos(reply));
    }

    fn log(&self, request: Log, reply: Responder<()>) {
        self.bridge.log(request, status(reply));
    }

    fn allocate(&self, request: Allocate, reply: Responder<Vec<Info>>) {
        self.bridge.allocate(request, infos(reply));
    }

    fn job_control(&self, request: JobControl, reply: Responder<Vec<Info>>) {
        self.bridge.job_control(request, infos(reply));
    }

    fn monitor(&self, request: Monitor, reply: Responder<Vec<Info>>) {
        self.bridge.monitor(request, infos(reply));
    }

    fn get_credential(&self, request: CredentialRequest, reply: Responder<Credential>) {
        let due = Due::Credential(Box::new(move |result| match result {
            Ok(credential) => reply.succeed(credential),
            Err(failure) => reply.fail(failure),
        }));
        self.bridge.get_credential(request, due);
    }

    fn validate_credential(&self, request: ValidateRequest, reply: Responder<Vec<Info>>) {
        self.bridge.validate_credential(request, infos(reply));
    }

    fn iof_pull(&self, request: IofPull, reply: Responder<()>) {
        self.bridge.iof_pull(request, status(reply));
    }

    fn push_stdin(&self, request: PushStdin, reply: Responder<()>) {
        self.bridge.push_stdin(request, status(reply));
    }

    fn tool_connected(&self, tool: ToolUpcall, reply: Responder<Option<ProcId>>) {
        let due = Due::Tool(Box::new(move |result| match result {
            Ok(name) => reply.succeed(name),
            Err(failure) => reply.fail(failure),
        }));
        self.bridge.tool_connected(tool, due);
    }

    fn group(&self, request: GroupRequest, reply: Responder<Vec<Info>>) {
        self.bridge.group(request, infos(reply));
    }
}

fn status(reply: Responder<()>) -> Due {
    Due::Status(Box::new(move |status| match status {
        Status::SUCCESS => reply.succeed(()),
        failure => reply.fail(failure),
    }))
}

fn infos(reply: Responder<Vec<Info>>) -> Due {
    Due::Infos(Box::new(move |status, infos| settle(reply, status, infos)))
}

fn settle<T: PartialAnswer>(reply: Responder<T>, status: Status, results: T) {
    reply.partial(status, results);
}

fn unpack_direct_modex(bytes: &[u8]) -> Result<Vec<Kval>, Status> {
    exchange::unpack_direct_modex(bytes).map_err(|error| {
        tracing::warn!(%error, "the data that the host has fetched can't be read");
        Status::ERR_UNPACK_FAILURE
    })
}
