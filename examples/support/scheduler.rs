//! A small scheduler over a described cluster. It does no I/O: `examples/scheduler_host.rs` and the simulator ask it.
//!
//! A new allocation takes the first free node and those that are nearest to it in the fabric.

use std::collections::{BTreeMap, BTreeSet};

use modex::fabrics::Fabric;
use modex::types::codes::alloc_directive::{ALLOC_EXTEND, ALLOC_NEW, ALLOC_REAQUIRE, ALLOC_RELEASE};
use modex::types::{Info, Key, ProcId, Status};
use modex::{Requester, keys};

/// A cluster and what users have of it.
#[derive(Debug)]
pub(crate) struct Scheduler {
    fabric: Fabric,
    /// Whether the end of a process returns the allocations that it has asked for.
    returns_at_end: bool,
    /// By the number of the session, which is a part of `PMIX_ALLOC_ID`.
    allocations: BTreeMap<u32, Allocation>,
    last: u32,
}

#[derive(Debug)]
struct Allocation {
    requester: ProcId,
    user: (u32, u32),
    nodes: BTreeSet<String>,
    /// Nodes that the user has lent and may ask for again.
    lent: BTreeSet<String>,
}

impl Scheduler {
    pub(crate) fn new(fabric: Fabric, returns_at_end: bool) -> Self {
        Self { fabric, returns_at_end, allocations: BTreeMap::new(), last: 0 }
    }

    /// Answers a request for an allocation.
    pub(crate) fn allocate(
        &mut self,
        requester: &Requester,
        directive: u8,
        infos: &[Info],
    ) -> Result<Vec<Info>, Status> {
        let known = [keys::ALLOC_ID.name(), keys::ALLOC_NUM_NODES.name(), keys::ALLOC_LEND.name()];
        if keys::first_unmet(infos, &known).is_some() {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        let find = |key: &str| infos.iter().find(|info| info.key.as_str() == key).map(|info| &info.value);
        let count = find(keys::ALLOC_NUM_NODES.name()).and_then(|value| value.as_u64()).unwrap_or(0);
        let count = usize::try_from(count).map_err(|_| Status::ERR_BAD_PARAM)?;
        let user = (requester.uid, requester.gid);
        if directive == ALLOC_NEW {
            let nodes = self.near_nodes(count)?;
            self.last += 1;
            let allocation = Allocation { requester: requester.proc.clone(), user, nodes, lent: BTreeSet::new() };
            self.allocations.insert(self.last, allocation);
            return self.described(user, self.last);
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
                self.end(user, session)?;
                return Ok(Vec::new());
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
        self.described(user, session)
    }

    /// Takes all nodes of an allocation back.
    pub(crate) fn end(&mut self, user: (u32, u32), session: u32) -> Result<(), Status> {
        self.own(user, session)?;
        self.allocations.remove(&session);
        Ok(())
    }

    /// Notes the end of a process.
    pub(crate) fn note_end(&mut self, proc: &ProcId) {
        if self.returns_at_end {
            self.allocations.retain(|_, allocation| allocation.requester != *proc);
        }
    }

    /// An allocation as the standard describes it.
    pub(crate) fn described(&mut self, user: (u32, u32), session: u32) -> Result<Vec<Info>, Status> {
        let nodes: Vec<&str> = self.own(user, session)?.nodes.iter().map(String::as_str).collect();
        Ok(vec![
            Info::new(Key::from_static(keys::ALLOC_ID.name()), format!("alloc-{session}")),
            Info::new(Key::from_static(keys::SESSION_ID.name()), session),
            Info::new(Key::from_static(keys::ALLOC_NODE_LIST.name()), nodes.join(",")),
        ])
    }

    /// The allocation of a user. Another user and group get the answer for an unknown one.
    fn own(&mut self, user: (u32, u32), session: u32) -> Result<&mut Allocation, Status> {
        self.allocations.get_mut(&session).filter(|found| found.user == user).ok_or(Status::ERR_NOT_FOUND)
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
}
