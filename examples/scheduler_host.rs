//! A scheduler's host: it answers requests for allocations, sessions and blocks of resources of a described cluster.
//!
//! ```console
//! $ cargo run --example scheduler_host
//! ```
//!
//! A new allocation takes the first free node and those that are nearest to it in the fabric.

#[path = "support/scheduler.rs"]
mod scheduler;

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use modex::fabrics::{Provider, SlurmTopology};
use modex::types::codes::alloc_directive::{ALLOC_EXTEND, ALLOC_NEW, ALLOC_REAQUIRE, ALLOC_RELEASE};
use modex::types::codes::resource_block_directive::{RESOURCE_BLOCK_DEFINE, RESOURCE_BLOCK_DELETE};
use modex::types::{AsStatus, Info, Key, Status};
use modex::{Allocate, Capabilities, Host, Requester, ResourceBlock, Responder, Server, SessionControl, keys};
use scheduler::Scheduler;

const CLUSTER: &str = "SwitchName=s0 Nodes=n[0-3]\nSwitchName=s1 Nodes=n[4-7]\nSwitchName=top Switches=s[0-1]\n";

/// Ends a session, or tells of it. Nothing is left of one that has ended.
fn control(
    scheduler: &mut Scheduler,
    user: (u32, u32),
    session: u32,
    directives: &[Info],
) -> Result<Vec<Info>, Status> {
    let described = scheduler.described(user, session)?;
    // The server adds the requester's ids.
    let ids = [keys::USERID.name(), keys::GRPID.name()];
    let asked: Vec<&str> = directives.iter().map(|info| info.key.as_str()).filter(|key| !ids.contains(key)).collect();
    match asked[..] {
        [] => Ok(described),
        [key] if key == keys::SESSION_TERMINATE.name() => scheduler.end(user, session).map(|()| Vec::new()),
        _ => Err(Status::ERR_NOT_SUPPORTED),
    }
}

/// Names of blocks, each with its user and group.
#[derive(Default)]
struct Blocks(BTreeMap<String, (u32, u32)>);

impl Blocks {
    fn change(&mut self, user: (u32, u32), directive: u8, name: &str) -> Result<(), Status> {
        match (directive, self.0.get(name)) {
            (RESOURCE_BLOCK_DEFINE, None) => drop(self.0.insert(name.to_owned(), user)),
            (RESOURCE_BLOCK_DEFINE, Some(_)) => return Err(Status::ERR_EXISTS),
            (RESOURCE_BLOCK_DELETE, Some(owner)) if *owner == user => drop(self.0.remove(name)),
            (RESOURCE_BLOCK_DELETE, _) => return Err(Status::ERR_NOT_FOUND),
            _ => return Err(Status::ERR_NOT_SUPPORTED),
        }
        Ok(())
    }
}

/// The host. The server has the requester's ids from the kernel.
#[derive(Clone)]
struct SchedulerHost(Arc<Mutex<(Scheduler, Blocks)>>);

impl SchedulerHost {
    fn with<T>(&self, use_it: impl FnOnce(&mut Scheduler) -> T) -> T {
        use_it(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).0)
    }
}

impl Host for SchedulerHost {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALLOCATE | Capabilities::SESSION_CONTROL | Capabilities::RESOURCE_BLOCK
    }

    fn allocate(&self, requester: Requester, request: Allocate, reply: Responder<Vec<Info>>) {
        match self.with(|scheduler| scheduler.allocate(&requester, request.directive, &request.info)) {
            Ok(infos) => reply.succeed(infos),
            Err(status) => reply.fail(status),
        }
    }

    fn session_control(&self, requester: Requester, request: SessionControl, reply: Responder<Vec<Info>>) {
        let user = (requester.uid, requester.gid);
        match self.with(|scheduler| control(scheduler, user, request.session, &request.directives)) {
            Ok(infos) => reply.succeed(infos),
            Err(status) => reply.fail(status),
        }
    }

    fn resource_block(&self, requester: Requester, request: ResourceBlock, reply: Responder<()>) {
        let name = request.name.map(|name| name.to_string_lossy()).unwrap_or_default();
        let user = (requester.uid, requester.gid);
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match state.1.change(user, request.directive, &name) {
            Ok(()) => reply.succeed(()),
            Err(status) => reply.fail(status),
        }
    }
}

fn info(key: &'static str, value: impl Into<modex::types::Value>) -> Info {
    Info::new(Key::from_static(key), value)
}

/// The nodes of an answer, or its error.
fn said(what: &str, answer: Result<Vec<Info>, String>) {
    let nodes = answer.map(|infos| {
        let list = infos.iter().find(|info| info.key.as_str() == keys::ALLOC_NODE_LIST.name());
        let nodes = list.and_then(|info| info.value.as_str()).filter(|nodes| !nodes.is_empty());
        nodes.unwrap_or("no nodes").to_owned()
    });
    println!("{what}: {}", nodes.unwrap_or_else(|error| error));
}

fn main() -> Result<(), Box<dyn Error>> {
    let host = SchedulerHost(Arc::new(Mutex::new((
        Scheduler::new(SlurmTopology::default().read(CLUSTER)?, true),
        Blocks::default(),
    ))));
    let name = format!("scheduler-{}", std::process::id());
    let server = Server::builder().namespace(name).start(host.clone())?;
    let ask = |what: &str, directive, infos| {
        let answer = server.allocate(directive, infos).wait();
        said(what, answer.map(|answer| answer.results).map_err(|error| error.status().to_string()));
    };
    let id = |id: &str| info(keys::ALLOC_ID.name(), id);
    let nodes = |count: u64| info(keys::ALLOC_NUM_NODES.name(), count);
    ask("new with 2 nodes", ALLOC_NEW, vec![nodes(2)]);
    ask("new with 3 nodes", ALLOC_NEW, vec![nodes(3)]);
    ask("new with 4 nodes", ALLOC_NEW, vec![nodes(4)]);
    ask("extend the first by 1", ALLOC_EXTEND, vec![id("alloc-1"), nodes(1)]);
    ask("lend the second", ALLOC_RELEASE, vec![id("alloc-2"), info(keys::ALLOC_LEND.name(), "1:00")]);
    ask("reacquire the second", ALLOC_REAQUIRE, vec![id("alloc-2")]);
    // Users come with their ids. Here another one stands for a process elsewhere.
    let stranger = Requester { proc: server.proc().clone(), object: 0, uid: u32::MAX, gid: u32::MAX };
    let refused = host.with(|scheduler| scheduler.allocate(&stranger, ALLOC_RELEASE, &[id("alloc-1")]));
    said("release by another user", refused.map_err(|status| status.to_string()));
    let ended = server.session_control(2, vec![info(keys::SESSION_TERMINATE.name(), true)]).wait()?;
    said("end the second session", Ok(ended.results));
    ask("new with 5 nodes", ALLOC_NEW, vec![nodes(5)]);
    // A host calls this when it learns that a process has ended. Here the server stands for one.
    host.with(|scheduler| scheduler.note_end(server.proc()));
    ask("new with 8 nodes, after the requester's end", ALLOC_NEW, vec![nodes(8)]);
    for (what, directive) in [("define a block", RESOURCE_BLOCK_DEFINE), ("define it again", RESOURCE_BLOCK_DEFINE)] {
        let done = server.resource_block(directive, Some("blue".into()), Vec::new(), Vec::new()).wait();
        println!("{what}: {}", done.map_or_else(|error| error.status().to_string(), |_| "done".to_owned()));
    }
    Ok(())
}
