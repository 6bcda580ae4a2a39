//! A scheduler's host: it answers requests for allocations, sessions and blocks of resources of a described cluster.
//!
//! ```console
//! $ cargo run --example scheduler_host
//! ```
//!
//! A new allocation takes the first free node and those that are nearest to it in the fabric.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use modex::fabrics::{Fabric, Provider, SlurmTopology};
use modex::types::codes::alloc_directive::{ALLOC_EXTEND, ALLOC_NEW, ALLOC_REAQUIRE, ALLOC_RELEASE};
use modex::types::codes::resource_block_directive::{RESOURCE_BLOCK_DEFINE, RESOURCE_BLOCK_DELETE};
use modex::types::{AsStatus, Info, Key, Status};
use modex::{Allocate, Capabilities, Host, Requester, ResourceBlock, Responder, Server, SessionControl, keys};

const CLUSTER: &str = "SwitchName=s0 Nodes=n[0-3]\nSwitchName=s1 Nodes=n[4-7]\nSwitchName=top Switches=s[0-1]\n";

/// A cluster and what users have of it.
struct Scheduler {
    fabric: Fabric,
    /// By the number of the session, which is a part of `PMIX_ALLOC_ID`.
    allocations: BTreeMap<u32, Allocation>,
    /// Names of blocks, each with its user and group.
    blocks: BTreeMap<String, (u32, u32)>,
    last: u32,
}

struct Allocation {
    uid: u32,
    gid: u32,
    nodes: BTreeSet<String>,
    /// Nodes that the user has lent and may ask for again.
    lent: BTreeSet<String>,
}

impl Scheduler {
    fn new(fabric: Fabric) -> Self {
        Self { fabric, allocations: BTreeMap::new(), blocks: BTreeMap::new(), last: 0 }
    }

    fn is_free(&self, node: &str) -> bool {
        self.allocations.values().all(|allocation| !allocation.nodes.contains(node))
    }

    /// Free nodes that are near to each other.
    fn near_nodes(&self, count: usize) -> Result<BTreeSet<String>, Status> {
        let plane = self.fabric.planes().first().ok_or(Status::ERR_NOT_FOUND)?;
        let node = |index: u32| plane.device(index).map(|device| device.node.to_owned());
        let first = (0..).map_while(node).position(|node| self.is_free(&node)).ok_or(Status::ERR_OUT_OF_RESOURCE)?;
        let first = u32::try_from(first).map_err(|_| Status::ERR_OUT_OF_RESOURCE)?;
        let others = plane.nearest(first, plane.device_count()).unwrap_or_default();
        let all = std::iter::once(first).chain(others.into_iter().map(|(index, _)| index));
        let mut found = BTreeSet::new();
        // A node may have several devices.
        for node in all.filter_map(node).filter(|node| self.is_free(node)) {
            if found.len() == count {
                break;
            }
            found.insert(node);
        }
        if count == 0 || found.len() < count { Err(Status::ERR_OUT_OF_RESOURCE) } else { Ok(found) }
    }

    /// The allocation of a user. Another user and group get the answer for an unknown one.
    fn own(&mut self, (uid, gid): (u32, u32), session: u32) -> Result<&mut Allocation, Status> {
        let found = self.allocations.get_mut(&session).filter(|found| (found.uid, found.gid) == (uid, gid));
        found.ok_or(Status::ERR_NOT_FOUND)
    }

    fn allocate(&mut self, user: (u32, u32), directive: u8, infos: &[Info]) -> Result<Vec<Info>, Status> {
        let known = [keys::ALLOC_ID.name(), keys::ALLOC_NUM_NODES.name(), keys::ALLOC_LEND.name()];
        if keys::first_unmet(infos, &known).is_some() {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        let find = |key: &str| infos.iter().find(|info| info.key.as_str() == key).map(|info| &info.value);
        let count = find(keys::ALLOC_NUM_NODES.name()).and_then(|value| value.as_u64()).unwrap_or(0);
        let count = usize::try_from(count).map_err(|_| Status::ERR_BAD_PARAM)?;
        if directive == ALLOC_NEW {
            let nodes = self.near_nodes(count)?;
            self.last += 1;
            let (uid, gid) = user;
            self.allocations.insert(self.last, Allocation { uid, gid, nodes, lent: BTreeSet::new() });
            return Ok(self.described(self.last));
        }
        let id = find(keys::ALLOC_ID.name()).and_then(|value| value.as_str()).ok_or(Status::ERR_BAD_PARAM)?;
        let session = id.strip_prefix("alloc-").and_then(|number| number.parse().ok()).ok_or(Status::ERR_NOT_FOUND)?;
        self.own(user, session)?;
        match directive {
            ALLOC_EXTEND => {
                let more = self.near_nodes(count)?;
                self.own(user, session)?.nodes.extend(more);
            }
            ALLOC_RELEASE if find(keys::ALLOC_LEND.name()).is_some() => {
                let allocation = self.own(user, session)?;
                allocation.lent.append(&mut allocation.nodes);
            }
            ALLOC_RELEASE => {
                self.allocations.remove(&session);
            }
            ALLOC_REAQUIRE => {
                let lent = self.own(user, session)?.lent.clone();
                if lent.is_empty() || !lent.iter().all(|node| self.is_free(node)) {
                    return Err(Status::ERR_RESOURCE_BUSY);
                }
                let allocation = self.own(user, session)?;
                allocation.nodes.append(&mut allocation.lent);
            }
            _ => return Err(Status::ERR_NOT_SUPPORTED),
        }
        Ok(self.described(session))
    }

    /// An allocation as the standard describes it. Nothing is left of one that is released.
    fn described(&self, session: u32) -> Vec<Info> {
        let Some(allocation) = self.allocations.get(&session) else { return Vec::new() };
        let nodes: Vec<&str> = allocation.nodes.iter().map(String::as_str).collect();
        vec![
            Info::new(Key::from_static(keys::ALLOC_ID.name()), format!("alloc-{session}")),
            Info::new(Key::from_static(keys::SESSION_ID.name()), session),
            Info::new(Key::from_static(keys::ALLOC_NODE_LIST.name()), nodes.join(",")),
        ]
    }

    /// Ends a session, or tells of it.
    fn control(&mut self, user: (u32, u32), session: u32, directives: &[Info]) -> Result<Vec<Info>, Status> {
        self.own(user, session)?;
        // The server adds the requester's ids.
        let ids = [keys::USERID.name(), keys::GRPID.name()];
        let asked: Vec<&str> =
            directives.iter().map(|info| info.key.as_str()).filter(|key| !ids.contains(key)).collect();
        match asked[..] {
            [] => {}
            [key] if key == keys::SESSION_TERMINATE.name() => drop(self.allocations.remove(&session)),
            _ => return Err(Status::ERR_NOT_SUPPORTED),
        }
        Ok(self.described(session))
    }

    fn block(&mut self, user: (u32, u32), directive: u8, name: &str) -> Result<(), Status> {
        match (directive, self.blocks.get(name)) {
            (RESOURCE_BLOCK_DEFINE, None) => drop(self.blocks.insert(name.to_owned(), user)),
            (RESOURCE_BLOCK_DEFINE, Some(_)) => return Err(Status::ERR_EXISTS),
            (RESOURCE_BLOCK_DELETE, Some(owner)) if *owner == user => drop(self.blocks.remove(name)),
            (RESOURCE_BLOCK_DELETE, _) => return Err(Status::ERR_NOT_FOUND),
            _ => return Err(Status::ERR_NOT_SUPPORTED),
        }
        Ok(())
    }
}

/// The host. The server has the requester's ids from the kernel.
#[derive(Clone)]
struct SchedulerHost(Arc<Mutex<Scheduler>>);

impl SchedulerHost {
    fn with<T>(&self, use_it: impl FnOnce(&mut Scheduler) -> T) -> T {
        use_it(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Host for SchedulerHost {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALLOCATE | Capabilities::SESSION_CONTROL | Capabilities::RESOURCE_BLOCK
    }

    fn allocate(&self, requester: Requester, request: Allocate, reply: Responder<Vec<Info>>) {
        let user = (requester.uid, requester.gid);
        match self.with(|scheduler| scheduler.allocate(user, request.directive, &request.info)) {
            Ok(infos) => reply.succeed(infos),
            Err(status) => reply.fail(status),
        }
    }

    fn session_control(&self, requester: Requester, request: SessionControl, reply: Responder<Vec<Info>>) {
        let user = (requester.uid, requester.gid);
        match self.with(|scheduler| scheduler.control(user, request.session, &request.directives)) {
            Ok(infos) => reply.succeed(infos),
            Err(status) => reply.fail(status),
        }
    }

    fn resource_block(&self, requester: Requester, request: ResourceBlock, reply: Responder<()>) {
        let name = request.name.map(|name| name.to_string_lossy()).unwrap_or_default();
        let user = (requester.uid, requester.gid);
        match self.with(|scheduler| scheduler.block(user, request.directive, &name)) {
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
    let host = SchedulerHost(Arc::new(Mutex::new(Scheduler::new(SlurmTopology::default().read(CLUSTER)?))));
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
    let stranger = (u32::MAX, u32::MAX);
    let refused = host.with(|scheduler| scheduler.allocate(stranger, ALLOC_RELEASE, &[id("alloc-1")]));
    said("release by another user", refused.map_err(|status| status.to_string()));
    let ended = server.session_control(2, vec![info(keys::SESSION_TERMINATE.name(), true)]).wait()?;
    said("end the second session", Ok(ended.results));
    ask("new with 5 nodes", ALLOC_NEW, vec![nodes(5)]);
    for (what, directive) in [("define a block", RESOURCE_BLOCK_DEFINE), ("define it again", RESOURCE_BLOCK_DEFINE)] {
        let done = server.resource_block(directive, Some("blue".into()), Vec::new(), Vec::new()).wait();
        println!("{what}: {}", done.map_or_else(|error| error.status().to_string(), |_| "done".to_owned()));
    }
    Ok(())
}
