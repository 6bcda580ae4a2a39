//! The server's own service of fabrics, for a server in the role of the scheduler.
//!
//! A registration is answered from the newest revision. An update reads the description again, on a thread of its own,
//! and one reading answers all updates that wait for it. A change is a new revision between two events. After an error
//! the earlier revision stays. The answer has the error and the facts of that revision, for a requester with an older
//! one.
//!
//! A delivery of inventories does not wait for the fabric that comes from them. The thread reads it afterwards, once
//! for all deliveries that came meanwhile. A caller of this process that needs it earlier reads it itself.

use std::collections::BTreeSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crossbeam::channel::{Receiver, Sender, unbounded};
use parking_lot::Mutex;

use super::fabric_source::{FabricSource, FabricSourceError};
use super::loop_messages::{LoopMessage, LoopSender, ResultReceiver};
use super::service_desk::{ReplyTo, answer};
use crate::events::Event;
use crate::fabric::providers::{INVENTORIES, left_out};
use crate::fabric::{CurrentFabric, FIRST_REVISION, Fabric, FabricHandle};
use crate::keys;
use crate::proto::{FabricRegister, FabricUpdate};
use crate::runtime::shared::threads::spawn;
use crate::server::{HostCall, HostReply, requires_more_than};
use crate::topo::inventory::{Inventories, SharedInventories};
use crate::types::codes::range::RANGE_LOCAL;
use crate::types::{AsStatus, Info, Key, ProcId, Status};

/// A fabric and its source.
#[derive(Clone)]
pub(super) struct KnownFabric {
    source: FabricSource,
    inventories: SharedInventories,
    current: Arc<CurrentFabric>,
    /// Locked during a reading.
    read: Arc<Mutex<LastReading>>,
}

/// The inventories that were read last.
#[derive(Default)]
struct LastReading {
    revision: u64,
    /// Their devices that can't be in a fabric: node and name.
    left_out: BTreeSet<(String, String)>,
}

impl KnownFabric {
    /// Reads the fabric for the first time.
    pub(super) fn read(source: FabricSource, inventories: &SharedInventories) -> Result<Self, FabricSourceError> {
        let known = inventories.snapshot();
        let current = Arc::new(CurrentFabric::new(source.read(&known)?));
        let mut read = LastReading { revision: known.network_revision(), ..LastReading::default() };
        if source.is_of_inventories() {
            read.warn(&known);
        }
        Ok(Self { source, inventories: inventories.clone(), current, read: Arc::new(Mutex::new(read)) })
    }

    /// The fabric of the inventories. It is read when it is needed first.
    pub(super) fn of_inventories(inventories: &SharedInventories) -> Self {
        let unknown = Fabric::unknown(INVENTORIES.to_owned());
        Self {
            source: FabricSource::inventories(),
            inventories: inventories.clone(),
            current: Arc::new(CurrentFabric::new(unknown)),
            // No inventories have been delivered in revision 0.
            read: Arc::default(),
        }
    }

    /// The newest revision. It may be older than the inventories.
    pub(super) fn handle(&self) -> FabricHandle {
        self.current.handle()
    }

    /// The newest revision, behind all inventories. The caller may read them.
    pub(super) fn newest(&self) -> FabricHandle {
        if self.source.is_of_inventories() {
            let mut read = self.read.lock();
            if read.revision != self.inventories.snapshot().network_revision() {
                // The error is in the log.
                let _ = self.read_again(&mut read);
            }
        }
        self.handle()
    }

    /// Whether [`Self::newest`] would take long.
    fn is_behind(&self) -> bool {
        let has_newer = |read: u64| read != self.inventories.snapshot().network_revision();
        self.source.is_of_inventories() && self.read.try_lock().is_none_or(|read| has_newer(read.revision))
    }

    /// Reads the fabric. After an error the earlier one stays, until the next change.
    fn read_again(&self, read: &mut LastReading) -> Result<(), FabricSourceError> {
        let inventories = self.inventories.snapshot();
        read.revision = inventories.network_revision();
        if self.source.is_of_inventories() {
            read.warn(&inventories);
        }
        let fabric = self.source.read(&inventories).inspect_err(|error| {
            tracing::error!("{error}; the fabric stays as it was");
        })?;
        self.current.replace(fabric);
        Ok(())
    }
}

impl LastReading {
    /// Warns of each device that the fabric leaves out, once.
    fn warn(&mut self, inventories: &Inventories) {
        let left_out = left_out(inventories);
        let newly = || left_out.difference(&self.left_out);
        for (node, device) in newly().take(NAMED_MAX) {
            tracing::warn!(
                ?node,
                ?device,
                "a device of an inventory is left out of the fabric: a name is empty, too long, or has a space, ',', ';', '/' or control \
                 character, or its address is too long; rename it"
            );
        }
        if let Some(more) = newly().count().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
            tracing::warn!(more, "further devices of inventories are left out of the fabric");
        }
        self.left_out = left_out;
    }
}

/// Devices that one reading names in the log.
const NAMED_MAX: usize = 16;

/// The service. The first order starts its thread.
pub(super) struct FabricDesk {
    loop_sender: LoopSender,
    server: ProcId,
    known: KnownFabric,
    orders: Option<Sender<Order>>,
}

/// An order for the thread that reads.
enum Order {
    /// A reading, then the facts about the plane with this number.
    Update(u64, ReplyTo),
    /// The facts about a plane in the newest fabric.
    Register(FabricRegister, ReplyTo),
    /// The newest fabric for the server's core.
    Follow,
}

/// Directives of a registration.
pub(super) const UNDERSTOOD: [&str; 7] = [
    keys::FABRIC_PLANE.name(),
    keys::FABRIC_IDENTIFIER.name(),
    keys::FABRIC_VENDOR.name(),
    keys::FABRIC_INDEX.name(),
    keys::USERID.name(),
    keys::GRPID.name(),
    // The client honours it.
    keys::TIMEOUT.name(),
];

impl FabricDesk {
    pub(super) const fn new(loop_sender: LoopSender, server: ProcId, known: KnownFabric) -> Self {
        Self { loop_sender, server, known, orders: None }
    }

    /// Answers with the facts about the plane that the directives mean.
    pub(super) fn register(&mut self, request: FabricRegister, reply_to: ReplyTo) {
        if self.known.is_behind() {
            return self.order_for(Order::Register(request, reply_to));
        }
        answer(&self.loop_sender, reply_to, registration(&self.known.handle(), &request));
    }

    /// Answers with the facts about a plane, after another reading.
    pub(super) fn update(&mut self, request: &FabricUpdate, reply_to: ReplyTo) {
        self.order_for(Order::Update(request.index, reply_to));
    }

    /// Lets the fabric follow the inventories, some time after this call. A caller of this process may have read it,
    /// but announced nothing.
    pub(super) fn follow(&mut self) {
        if self.known.source.is_of_inventories() {
            self.order_for(Order::Follow);
        }
    }

    /// Gives an order to the thread. Without one the requester gets an error.
    fn order_for(&mut self, order: Order) {
        if let Err(Order::Update(_, reply_to) | Order::Register(_, reply_to)) = self.order(order) {
            answer(&self.loop_sender, reply_to, HostReply::Status(Status::ERR_OUT_OF_RESOURCE));
        }
    }

    /// Gives an order to the thread; returns it if there is none.
    fn order(&mut self, order: Order) -> Result<(), Order> {
        match self.orders.take().map_or_else(|| self.start(), Ok) {
            // The thread outlives its sender.
            Ok(orders) => self.orders.insert(orders).send(order).map_err(|unsent| unsent.0),
            Err(error) => {
                tracing::warn!(%error, "the server cannot start a thread that reads the fabric");
                Err(order)
            }
        }
    }

    fn start(&self) -> io::Result<Sender<Order>> {
        let (orders, receiver) = unbounded();
        let (loop_sender, server) = (self.loop_sender.clone(), self.server.clone());
        // The server began with the first revision.
        let reader =
            Reader { loop_sender, server, known: self.known.clone(), announced: FIRST_REVISION, warned_of_revision: 0 };
        spawn("modex-fabric", move || reader.run(&receiver))?;
        Ok(orders)
    }
}

struct Reader {
    loop_sender: LoopSender,
    server: ProcId,
    known: KnownFabric,
    /// The revision that the server's core has.
    announced: u64,
    /// The newest revision in which an updated plane was missing.
    warned_of_revision: u64,
}

impl Reader {
    fn run(mut self, orders: &Receiver<Order>) {
        while let Ok(first) = orders.recv() {
            // Orders that come during the reading wait for the next one: the description may have changed behind it.
            let waiting: Vec<Order> = std::iter::once(first).chain(orders.try_iter()).collect();
            let is_update = waiting.iter().any(|order| matches!(order, Order::Update(..)));
            // The panic hook reports a panic of a provider, and the earlier fabric stays.
            let read = || self.known.read_again(&mut self.known.read.lock());
            let read = || catch_unwind(AssertUnwindSafe(read)).map_or(Status::ERROR, |read| status_of(read.as_ref()));
            let status = if is_update { read() } else { Status::SUCCESS };
            let fabric = self.known.newest();
            self.announce(&fabric);
            for order in waiting {
                let (reply_to, reply) = match order {
                    Order::Update(plane, reply_to) => (reply_to, self.updated(&fabric, plane, status)),
                    Order::Register(request, reply_to) => (reply_to, registration(&fabric, &request)),
                    Order::Follow => continue,
                };
                answer(&self.loop_sender, reply_to, reply);
            }
        }
    }

    /// The facts after a reading with this status. The requester may hold an earlier revision, and needs them also if
    /// the reading failed.
    fn updated(&mut self, fabric: &FabricHandle, plane: u64, status: Status) -> HostReply {
        let facts = facts(fabric, plane);
        if matches!(facts, HostReply::Status(_)) && self.warned_of_revision != fabric.revision() {
            // Any client may ask for any plane, so a revision has one line.
            self.warned_of_revision = fabric.revision();
            tracing::warn!(
                "the fabric has no plane {plane} (PMIX_FABRIC_INDEX), so its update is PMIX_ERR_NOT_FOUND; register one of its {} planes",
                fabric.planes().len()
            );
        }
        match (facts, status) {
            (facts, Status::SUCCESS) => facts,
            (HostReply::Infos { info, .. }, status) => HostReply::Infos { status, info },
            (_, status) => HostReply::Status(status),
        }
    }

    /// Gives a new revision to the core, between the two events.
    fn announce(&mut self, fabric: &FabricHandle) {
        if fabric.revision() != self.announced {
            self.announced = fabric.revision();
            self.notify(Status::FABRIC_UPDATE_PENDING, fabric);
            self.call(HostCall::Fabric(fabric.clone()));
            self.notify(Status::FABRIC_UPDATED, fabric);
        }
    }

    fn notify(&self, status: Status, fabric: &Fabric) {
        let info = vec![Info::new(Key::from_static(keys::FABRIC_IDENTIFIER.name()), fabric.identifier().to_owned())];
        self.call(HostCall::NotifyEvent(Event { status, source: Some(self.server.clone()), range: RANGE_LOCAL, info }));
    }

    fn call(&self, call: HostCall) {
        // A loop that has ended has no fabric.
        drop(self.loop_sender.give(LoopMessage::Call(call, ResultReceiver::Callback(Box::new(drop)))));
    }
}

/// The facts about the plane that a registration means.
fn registration(fabric: &Fabric, request: &FabricRegister) -> HostReply {
    if requires_more_than(&request.directives, &UNDERSTOOD) {
        return HostReply::Status(Status::ERR_NOT_SUPPORTED);
    }
    fabric.select(&request.directives).map_or_else(HostReply::Status, |plane| facts(fabric, plane as u64))
}

fn status_of(read: Result<&(), &FabricSourceError>) -> Status {
    read.map_or_else(AsStatus::status, |()| Status::SUCCESS)
}

fn facts(fabric: &Fabric, plane: u64) -> HostReply {
    let found = usize::try_from(plane).ok().and_then(|plane| fabric.registration(plane));
    found.map_or(HostReply::Status(Status::ERR_NOT_FOUND), |info| HostReply::Infos { status: Status::SUCCESS, info })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::fabric::FabricDescription;
    use crate::fabric::providers::{Provider, ProviderError, TestFabric};
    use crate::log_lines::LogLines;
    use crate::runtime::server::poller::{Poller, Token, Waker};
    use crate::topo::inventory::{Device, Inventory};
    use crate::types::Namespace;
    use crate::types::codes::device_type::DEVTYPE_NETWORK;

    /// A provider with a defect, which a text shows.
    #[derive(Debug)]
    struct Broken;

    impl Provider for Broken {
        fn describe(&self, text: &str) -> Result<FabricDescription, ProviderError> {
            assert!(!text.contains("defect"), "a defect of a provider");
            TestFabric.describe(text)
        }
    }

    /// The thread ended, and no later update had an answer from it.
    #[test]
    fn a_panic_of_a_provider_ends_one_update_with_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = |text: &str| std::fs::write(file.path(), text).unwrap();
        write("wide:2;plane:d:3");
        let known = KnownFabric::read(FabricSource::file(Broken, file.path()), &SharedInventories::default()).unwrap();
        let mut update = updater(known);
        let mut status = || match update() {
            HostReply::Infos { status, .. } => status,
            reply => panic!("{reply:?}"),
        };
        assert_eq!(status(), Status::SUCCESS);
        write("defect");
        assert_eq!([status(), status()], [Status::ERROR; 2]);
        write("wide:2;plane:d:3");
        assert_eq!(status(), Status::SUCCESS);
    }

    /// Updates the first plane, and waits for the answer.
    fn updater(known: KnownFabric) -> impl FnMut() -> HostReply {
        let (loop_sender, receiver) = LoopSender::new(Waker::new(&Poller::new().unwrap(), Token(0)).unwrap());
        let mut desk = FabricDesk::new(loop_sender, ProcId::new(Namespace::new("server").unwrap(), 0), known);
        move || {
            let _loop_is_there = &receiver;
            let (sender, replies) = mpsc::channel();
            let reply_to = ReplyTo::Caller(Box::new(move |reply| drop(sender.send(reply))));
            desk.update(&FabricUpdate { index: 0 }, reply_to);
            replies.recv().unwrap()
        }
    }

    /// An update failed with `BAD_PARAM`, and gave no way to the newest revision.
    #[test]
    fn a_failed_update_has_the_reason_and_the_newest_facts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fabric");
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        write("wide:2;plane:d:3");
        let known = KnownFabric::read(FabricSource::file(TestFabric, &path), &SharedInventories::default()).unwrap();
        let mut update = updater(known.clone());
        write("wide:3;plane:d:3");
        let HostReply::Infos { status: Status::SUCCESS, info: newest } = update() else { panic!("no facts") };
        write("nodes");
        assert_eq!(update(), HostReply::Infos { status: Status::ERR_UNPACK_FAILURE, info: newest.clone() });
        std::fs::remove_file(&path).unwrap();
        assert_eq!(update(), HostReply::Infos { status: Status::ERR_NOT_FOUND, info: newest });
    }

    /// The update of a handle failed with `NOT_FOUND` alone. Any client may ask, so a revision has one line.
    #[test]
    fn an_update_of_a_plane_that_has_gone_has_a_line_in_the_log() {
        let source = FabricSource::parse("test:wide:2;plane:d:3").unwrap();
        let known = KnownFabric::read(source, &SharedInventories::default()).unwrap();
        let (fabric, server) = (known.handle(), ProcId::new(Namespace::new("server").unwrap(), 0));
        let (loop_sender, _receiver) = LoopSender::new(Waker::new(&Poller::new().unwrap(), Token(0)).unwrap());
        let mut reader = Reader { loop_sender, server, known, announced: FIRST_REVISION, warned_of_revision: 0 };
        let lines = LogLines::default();
        tracing::subscriber::with_default(lines.subscriber(), || {
            let mut update = |plane| reader.updated(&fabric, plane, Status::SUCCESS);
            assert!(matches!(update(0), HostReply::Infos { .. }));
            let gone = HostReply::Status(Status::ERR_NOT_FOUND);
            assert_eq!([1, 2].map(&mut update), [gone.clone(), gone]);
        });
        let lines = lines.taken();
        assert!(lines.len() == 1 && lines[0].contains("has no plane 1 (PMIX_FABRIC_INDEX)"), "{lines:?}");
    }

    fn deliver(inventories: &SharedInventories, node: usize) {
        let device = Device { device_types: DEVTYPE_NETWORK, name: "eth0".to_owned(), ..Device::default() };
        let inventory = Inventory { node: format!("n{node}"), devices: vec![device], ..Inventory::default() };
        inventories.deliver(vec![inventory.encode().unwrap()]).unwrap();
    }

    /// The core and the processes learn of a revision also if a caller of this process was the first that read it.
    #[test]
    fn a_revision_is_announced_whoever_has_read_it() {
        let inventories = SharedInventories::default();
        let known = KnownFabric::read(FabricSource::inventories(), &inventories).unwrap();
        let (loop_sender, receiver) = LoopSender::new(Waker::new(&Poller::new().unwrap(), Token(0)).unwrap());
        let mut desk = FabricDesk::new(loop_sender, ProcId::new(Namespace::new("server").unwrap(), 0), known.clone());
        deliver(&inventories, 0);
        assert_eq!(known.newest().device_count(), 1);
        desk.follow();
        let calls = std::iter::repeat_with(|| {
            std::thread::yield_now();
            receiver.take()
        });
        let told = |message| match message {
            LoopMessage::Call(HostCall::NotifyEvent(event), _) => (event.status, 0),
            LoopMessage::Call(HostCall::Fabric(fabric), _) => (Status::SUCCESS, fabric.device_count()),
            _ => panic!("another message"),
        };
        let expected = [(Status::FABRIC_UPDATE_PENDING, 0), (Status::SUCCESS, 1), (Status::FABRIC_UPDATED, 0)];
        assert_eq!(calls.flatten().take(3).map(told).collect::<Vec<_>>(), expected);
    }

    /// One such device kept the whole fabric at its last state.
    #[test]
    fn a_device_that_cannot_be_in_a_fabric_is_left_out_and_named_once() {
        let inventories = SharedInventories::default();
        let known = KnownFabric::of_inventories(&inventories);
        let lines = LogLines::default();
        tracing::subscriber::with_default(lines.subscriber(), || {
            let device =
                |name: &str| Device { device_types: DEVTYPE_NETWORK, name: name.to_owned(), ..Device::default() };
            let devices = vec![device("eth0"), device("a\tb")];
            let odd = Inventory { node: "odd".to_owned(), devices, ..Inventory::default() };
            inventories.deliver(vec![odd.encode().unwrap()]).unwrap();
            for node in 0..3 {
                deliver(&inventories, node);
                assert_eq!(known.newest().device_count(), node + 2);
            }
        });
        let lines = lines.taken();
        assert!(lines.len() == 1 && lines[0].contains("\"odd\"") && lines[0].contains("\"a\\tb\""), "{lines:?}");
    }

    /// Each of many deliveries, one after the other, read all inventories.
    #[test]
    fn deliveries_without_a_reader_in_between_are_read_once() {
        let inventories = SharedInventories::default();
        let known = KnownFabric::read(FabricSource::inventories(), &inventories).unwrap();
        for node in 0..100 {
            deliver(&inventories, node);
            assert!(known.is_behind());
        }
        let fabric = known.newest();
        assert_eq!((fabric.revision(), fabric.device_count()), (2, 100));
        assert!(!known.is_behind());
        assert_eq!(known.newest().revision(), 2);
    }
}
