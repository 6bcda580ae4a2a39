//! The server's own service of fabrics, for a server in the role of the scheduler.
//!
//! A registration is answered from the newest revision. An update reads the description again, on a thread of its own, and
//! one reading answers all updates that wait for it. A change is a new revision between two events. After an error the
//! earlier revision stays. A fabric from inventories is read after each delivery with other network devices, too, and then the delivery
//! ends.

use std::io;
use std::sync::Arc;

use crossbeam::channel::{Receiver, Sender, unbounded};

use super::fabric_source::{FabricSource, FabricSourceError};
use super::loop_messages::{LoopMessage, LoopSender, ResultReceiver};
use super::service_desk::{ReplyTo, answer};
use crate::events::Event;
use crate::fabric::{CurrentFabric, Fabric, FabricHandle};
use crate::keys;
use crate::proto::{FabricRegister, FabricUpdate};
use crate::runtime::shared::threads::spawn;
use crate::server::{HostCall, HostReply, HostResult, requires_more_than};
use crate::topo::inventory::SharedInventories;
use crate::types::codes::range::RANGE_LOCAL;
use crate::types::{Info, Key, ProcId, Status};

/// A fabric and its source.
#[derive(Clone)]
pub(super) struct KnownFabric {
    source: FabricSource,
    inventories: SharedInventories,
    current: Arc<CurrentFabric>,
}

impl KnownFabric {
    /// Reads the fabric for the first time.
    pub(super) fn read(source: FabricSource, inventories: &SharedInventories) -> Result<Self, FabricSourceError> {
        let current = Arc::new(CurrentFabric::new(source.read(inventories)?));
        Ok(Self { source, inventories: inventories.clone(), current })
    }

    /// The newest revision.
    pub(super) fn handle(&self) -> FabricHandle {
        self.current.handle()
    }
}

/// The service. The first update starts its thread.
pub(super) struct FabricDesk {
    loop_sender: LoopSender,
    server: ProcId,
    known: KnownFabric,
    orders: Option<Sender<Order>>,
}

/// A request for another reading.
enum Order {
    /// The number of the plane, and the receiver of its facts.
    Update(u64, ReplyTo),
    /// The end of a delivery of inventories.
    Delivery(ResultReceiver),
}

/// Directives of a registration.
const KNOWN: [&str; 7] = [
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
    pub(super) fn register(&self, request: &FabricRegister, reply_to: ReplyTo) {
        let fabric = self.known.handle();
        let reply = if requires_more_than(&request.directives, &KNOWN) {
            HostReply::Status(Status::ERR_NOT_SUPPORTED)
        } else {
            fabric.select(&request.directives).map_or_else(HostReply::Status, |plane| facts(&fabric, plane as u64))
        };
        answer(&self.loop_sender, reply_to, reply);
    }

    /// Answers with the facts about a plane, after another reading.
    pub(super) fn update(&mut self, request: &FabricUpdate, reply_to: ReplyTo) {
        if let Err(Order::Update(_, reply_to)) = self.order(Order::Update(request.index, reply_to)) {
            answer(&self.loop_sender, reply_to, HostReply::Status(Status::ERR_OUT_OF_RESOURCE));
        }
    }

    /// Ends a delivery of inventories after another reading. Returns the receiver if that is not needed, or not possible.
    pub(super) fn read_behind(&mut self, receiver: ResultReceiver) -> Option<ResultReceiver> {
        if !self.known.source.is_of_inventories() {
            return Some(receiver);
        }
        match self.order(Order::Delivery(receiver)) {
            Err(Order::Delivery(receiver)) => Some(receiver),
            _ => None,
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
        let reader = Reader { loop_sender, server, known: self.known.clone() };
        spawn("modex-fabric", move || reader.run(&receiver))?;
        Ok(orders)
    }
}

struct Reader {
    loop_sender: LoopSender,
    server: ProcId,
    known: KnownFabric,
}

impl Reader {
    fn run(&self, orders: &Receiver<Order>) {
        let mut last = None;
        while let Ok(first) = orders.recv() {
            // Orders that come during the reading wait for the next one: the description may have changed behind it.
            let waiting: Vec<Order> = std::iter::once(first).chain(orders.try_iter()).collect();
            let KnownFabric { source, inventories, .. } = &self.known;
            let revision = Some(inventories.snapshot().network_revision());
            let is_read = waiting.iter().any(|order| matches!(order, Order::Update(..))) || last != revision;
            let read = if is_read { source.read(inventories).map(|fabric| self.take(fabric)) } else { Ok(()) };
            if let Err(error) = &read {
                tracing::error!("{error}; the fabric stays as it was");
            }
            last = revision;
            for order in waiting {
                let fabric = self.known.handle();
                match order {
                    Order::Update(plane, reply_to) if read.is_ok() => {
                        answer(&self.loop_sender, reply_to, facts(&fabric, plane));
                    }
                    Order::Update(_, reply_to) => {
                        answer(&self.loop_sender, reply_to, HostReply::Status(Status::ERR_BAD_PARAM));
                    }
                    Order::Delivery(receiver) => self.call(HostCall::Fabric(fabric), receiver),
                }
            }
        }
    }

    /// Replaces the fabric, if it has changed, between the two events.
    fn take(&self, fabric: Fabric) {
        if self.known.handle() == fabric {
            return;
        }
        self.notify(Status::FABRIC_UPDATE_PENDING);
        self.known.current.replace(fabric);
        self.call(HostCall::Fabric(self.known.handle()), ignored());
        self.notify(Status::FABRIC_UPDATED);
    }

    fn notify(&self, status: Status) {
        let identifier = self.known.handle().identifier().to_owned();
        let info = vec![Info::new(Key::from_static(keys::FABRIC_IDENTIFIER.name()), identifier)];
        let event = Event { status, source: Some(self.server.clone()), range: RANGE_LOCAL, info };
        self.call(HostCall::NotifyEvent(event), ignored());
    }

    fn call(&self, call: HostCall, receiver: ResultReceiver) {
        let unsent = self.loop_sender.give(LoopMessage::Call(call, receiver)).err();
        // A loop that has ended has no fabric. It closes the channels of waiting threads.
        if let Some(LoopMessage::Call(_, ResultReceiver::Callback(callback))) = unsent.map(|unsent| *unsent) {
            callback(HostResult::Status(Status::ERR_SERVER_NOT_AVAIL));
        }
    }
}

fn ignored() -> ResultReceiver {
    ResultReceiver::Callback(Box::new(drop))
}

fn facts(fabric: &Fabric, plane: u64) -> HostReply {
    let found = usize::try_from(plane).ok().and_then(|plane| fabric.registration(plane));
    found.map_or(HostReply::Status(Status::ERR_NOT_FOUND), |info| HostReply::Infos { status: Status::SUCCESS, info })
}
