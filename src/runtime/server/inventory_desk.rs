//! The server's own service of inventories: a scheduler asks for the hardware of this node as it is now.
//!
//! To read a machine takes a processor for a part of a second, and may hang in a driver. So the server's own user and
//! root alone may ask. Others find the inventory that the server knows.

use std::sync::Arc;

use super::loop_messages::{LoopMessage, LoopSender, ResultReceiver};
use super::node_inventory::NodeInventory;
use super::service_desk::{ReplyTo, may_take_all};
use super::storage_desk::{Receiver, Threads};
use crate::keys;
use crate::server::{CURRENT_INVENTORY, HostCall, HostReply, Requester, find};
use crate::types::{AsStatus, Info, Key, Query, Status};

/// Readings at a time.
const THREADS_MAX: usize = 1;

/// Requests that wait for a reading.
const WAITING_MAX: usize = 64;

/// The service.
pub(super) struct InventoryDesk {
    loop_sender: LoopSender,
    node: NodeInventory,
    bytes_max: usize,
    threads: Arc<Threads>,
}

impl InventoryDesk {
    /// A service whose answers have up to `bytes_max` bytes.
    pub(super) fn new(loop_sender: LoopSender, node: NodeInventory, bytes_max: usize) -> Self {
        Self { loop_sender, node, bytes_max, threads: Threads::new("modex-inventory", THREADS_MAX, WAITING_MAX) }
    }

    /// Answers queries for [`CURRENT_INVENTORY`] after one reading. Those about another node have no answer.
    pub(super) fn ask(&self, requester: &Requester, queries: &[Query], reply_to: ReplyTo) {
        let mut receiver = Receiver::new(self.loop_sender.clone(), reply_to);
        if !may_take_all(requester.uid) {
            return receiver.answer(HostReply::Status(Status::ERR_NO_PERMISSIONS));
        }
        let is_of_here = |query: &&Query| {
            let node = find(&query.qualifiers, keys::HOSTNAME).map(|info| info.value.as_str());
            node.is_none_or(|node| node == Some(self.node.hostname()))
                && find(&query.qualifiers, keys::NODEID).is_none()
        };
        let count = queries.iter().filter(is_of_here).map(|query| query.keys.len()).sum();
        if count == 0 {
            return receiver.answer(HostReply::Infos { status: Status::SUCCESS, info: Vec::new() });
        }
        let (node, loop_sender, bytes_max) = (self.node.clone(), self.loop_sender.clone(), self.bytes_max);
        let work = move || receiver.answer(read(&node, (count, bytes_max), &loop_sender));
        self.threads.run(requester.uid, 0, Box::new(work));
    }
}

/// Reads the machine, and tells the server of it. The answer has the inventory so many times.
fn read(node: &NodeInventory, (count, bytes_max): (usize, usize), loop_sender: &LoopSender) -> HostReply {
    let deliver = |blob| {
        let call = HostCall::DeliverInventories(vec![blob]);
        // A loop that has ended needs no inventory.
        drop(loop_sender.give(LoopMessage::Call(call, ResultReceiver::Callback(Box::new(drop)))));
        Ok(())
    };
    match node.current_for_peers(deliver) {
        Ok(current) if current.blob().len().saturating_mul(count) > bytes_max => {
            HostReply::Status(Status::ERR_OUT_OF_RESOURCE)
        }
        Ok(current) => {
            let info = || Info::new(Key::from_static(CURRENT_INVENTORY), current.blob().to_vec());
            HostReply::Infos { status: Status::SUCCESS, info: (0..count).map(|_| info()).collect() }
        }
        Err(error) => {
            // The requester gets a status alone. It is the server's own user or root, so lines can't flood the log.
            tracing::warn!(%error, "the machine can't be read again for its inventory");
            HostReply::Status(error.status())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use nix::unistd::geteuid;

    use super::*;
    use crate::runtime::server::poller::{Poller, Token, Waker};
    use crate::runtime::server::topology::{NodeTopology, TopologyOptions, TopologySharing, TopologySource};
    use crate::runtime::shared::clock::Clock;
    use crate::shmem::SegmentOptions;
    use crate::topo::TopologyError;
    use crate::topo::inventory::{Inventory, SharedInventories};
    use crate::types::{Namespace, ProcId, Text, Topology, Value};

    /// A machine that nobody may read.
    #[derive(Debug)]
    struct Secret;

    impl TopologySource for Secret {
        fn read(&self) -> Result<Topology, TopologyError> {
            panic!("the host keeps the topology to itself")
        }
    }

    /// The answer to queries of a user.
    fn answer(options: TopologyOptions, bytes_max: usize, uid: u32, qualifiers: &[Vec<Info>]) -> HostReply {
        let (loop_sender, _receiver) = LoopSender::new(Waker::new(&Poller::new().unwrap(), Token(0)).unwrap());
        let segment = SegmentOptions::new("topology", "n0");
        let topology = NodeTopology::new(options, segment, Clock::start(), loop_sender.clone());
        let node = NodeInventory::new("n0", &Arc::new(topology), &SharedInventories::default());
        let desk = InventoryDesk::new(loop_sender, node, bytes_max);
        let (sender, replies) = mpsc::channel();
        let reply_to = ReplyTo::Caller(Box::new(move |reply| drop(sender.send(reply))));
        let requester = ProcId::new(Namespace::new("tool").unwrap(), 0);
        let requester = Requester { proc: requester, object: 0, uid, gid: 0 };
        let query = |qualifiers: &Vec<Info>| Query {
            keys: vec![Text::from(CURRENT_INVENTORY)],
            qualifiers: qualifiers.clone(),
        };
        desk.ask(&requester, &qualifiers.iter().map(query).collect::<Vec<_>>(), reply_to);
        replies.recv().unwrap()
    }

    fn nodes(reply: HostReply) -> Vec<String> {
        let HostReply::Infos { info, .. } = reply else { panic!("{reply:?}") };
        let node = |info: Info| match info.value {
            Value::ByteObject(blob) => Inventory::decode(&blob).unwrap().node,
            value => panic!("{value:?}"),
        };
        info.into_iter().map(node).collect()
    }

    /// A reading takes a processor's time, and a driver may hold it up.
    #[test]
    fn other_users_can_not_let_the_server_read_the_machine() {
        let own = geteuid().as_raw();
        let ask = |uid, qualifiers: &[Vec<Info>]| answer(TopologyOptions::default(), usize::MAX, uid, qualifiers);
        assert_eq!(ask(own + 1, &[Vec::new()]), HostReply::Status(Status::ERR_NO_PERMISSIONS));
        for uid in [own, 0] {
            assert_eq!(nodes(ask(uid, &[Vec::new(), Vec::new()])), ["n0", "n0"], "an answer for each query");
        }
        let node = |name: &str| vec![Info::new(Key::from_static(keys::HOSTNAME.name()), name)];
        assert_eq!(nodes(ask(own, &[node("n1"), node("n0")])), ["n0"]);
        assert_eq!(nodes(ask(own, &[node("n1")])), [""; 0]);
    }

    #[test]
    fn many_queries_for_one_inventory_have_the_limit_of_an_answer() {
        let own = geteuid().as_raw();
        let refused = answer(TopologyOptions::default(), 1000, own, &vec![Vec::new(); 100]);
        assert_eq!(refused, HostReply::Status(Status::ERR_OUT_OF_RESOURCE));
    }

    /// Other processes get the kernel's facts, as without a topology.
    #[test]
    fn a_topology_that_the_host_keeps_to_itself_is_not_read_for_others() {
        let source: Option<Arc<dyn TopologySource>> = Some(Arc::new(Secret));
        let options = TopologyOptions { source, sharing: TopologySharing::Refused, ..TopologyOptions::default() };
        assert_eq!(nodes(answer(options, usize::MAX, geteuid().as_raw(), &[Vec::new()])), ["n0"]);
    }
}
