//! A host with the answers of the captured servers' host.

use std::sync::Mutex;

use modex::types::{Info, Key, Namespace, Pdata, Value};
use modex::{
    AbortUpcall, Allocate, Capabilities, Connect, Event, FenceReply, FenceUpcall, GroupOperation, GroupRequest, Host,
    JobControl, Lookup, Publish, QueryInfo, Requester, Responder, Spawn, Unpublish,
};

#[derive(Default)]
pub(crate) struct CapturedHost {
    published: Mutex<Vec<Pdata>>,
}

impl Host for CapturedHost {
    fn capabilities(&self) -> Capabilities {
        // The captured host had no function for credentials.
        Capabilities::ABORT
            | Capabilities::FENCE
            | Capabilities::PUBLISH
            | Capabilities::LOOKUP
            | Capabilities::UNPUBLISH
            | Capabilities::SPAWN
            | Capabilities::CONNECT
            | Capabilities::DISCONNECT
            | Capabilities::QUERY
            | Capabilities::ALLOCATE
            | Capabilities::JOB_CONTROL
            | Capabilities::GROUP
            | Capabilities::NOTIFY_EVENT
    }

    fn abort(&self, _: AbortUpcall, reply: Responder<()>) {
        reply.succeed(());
    }

    fn fence(&self, request: FenceUpcall, reply: Responder<FenceReply>) {
        reply.succeed(FenceReply { blocks: request.data.blocks });
    }

    fn publish(&self, requester: Requester, request: Publish, reply: Responder<()>) {
        let own = request.info.into_iter().map(|info| Pdata {
            proc: requester.proc.clone(),
            key: info.key.clone(),
            value: info.value,
        });
        self.published.lock().unwrap().extend(own);
        reply.succeed(());
    }

    fn lookup(&self, _: Requester, request: Lookup, reply: Responder<Vec<Pdata>>) {
        let published = self.published.lock().unwrap();
        reply.succeed(published.iter().filter(|data| request.keys.contains(&data.key)).cloned().collect());
    }

    fn unpublish(&self, _: Requester, request: Unpublish, reply: Responder<()>) {
        self.published.lock().unwrap().retain(|data| !request.keys.contains(&data.key));
        reply.succeed(());
    }

    fn spawn(&self, _: Requester, _: Spawn, reply: Responder<Namespace>) {
        reply.succeed(Namespace::new("childns").unwrap());
    }

    fn connect(&self, _: Connect, reply: Responder<()>) {
        reply.succeed(());
    }

    fn disconnect(&self, _: Connect, reply: Responder<()>) {
        reply.succeed(());
    }

    fn query(&self, _: Requester, request: QueryInfo, reply: Responder<Vec<Info>>) {
        let keys = request.queries.into_iter().flat_map(|query| query.keys);
        reply.succeed(
            keys.map(|key| Info::new(Key::from_bytes(key.as_bytes()).unwrap(), Value::from("answer"))).collect(),
        );
    }

    fn allocate(&self, _: Requester, _: Allocate, reply: Responder<Vec<Info>>) {
        reply.succeed(Vec::new());
    }

    fn job_control(&self, _: Requester, _: JobControl, reply: Responder<Vec<Info>>) {
        reply.succeed(Vec::new());
    }

    fn group(&self, request: GroupRequest, reply: Responder<Vec<Info>>) {
        let context = Info::new(Key::from_static("pmix.grp.ctxid"), Value::Size(77));
        reply.succeed(if request.operation == GroupOperation::Construct { vec![context] } else { Vec::new() });
    }

    fn notify_event(&self, _: Event, reply: Responder<()>) {
        reply.succeed(());
    }
}
