//! The server's own service of fabrics, for a server in the role of the scheduler.
//!
//! A registration is answered from the newest revision. An update reads the description again, on a thread of its own, and
//! one reading answers all updates that wait for it. A change is a new revision between two events. After an error the
//! earlier revision stays.

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
use crate::server::{HostCall, HostReply, requires_more_than};
use crate::types::codes::range::RANGE_LOCAL;
use crate::types::{Info, Key, ProcId, Status};

/// A fabric and its source.
#[derive(Clone)]
pub(super) struct KnownFabric {
    source: FabricSource,
    current: Arc<CurrentFabric>,
}

impl KnownFabric {
    /// Reads the fabric for the first time.
    pub(super) fn read(source: FabricSource) -> Result<Self, FabricSourceError> {
        let current = Arc::new(CurrentFabric::new(source.read()?));
        Ok(Self { source, current })
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

/// An update: the number of the plane, and the receiver of its facts.
type Order = (u64, ReplyTo);

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
        let started = self.orders.take().map_or_else(|| self.start(), Ok);
        match started {
            Ok(orders) => {
                // The thread outlives its sender.
                let _ = self.orders.insert(orders).send((request.index, reply_to));
            }
            Err(error) => {
                tracing::warn!(%error, "the server cannot start a thread that reads the fabric");
                answer(&self.loop_sender, reply_to, HostReply::Status(Status::ERR_OUT_OF_RESOURCE));
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
        while let Ok(first) = orders.recv() {
            // Orders that come during the reading wait for the next one: the description may have changed behind it.
            let waiting: Vec<Order> = std::iter::once(first).chain(orders.try_iter()).collect();
            let read = self.known.source.read().map(|fabric| self.take(fabric));
            if let Err(error) = &read {
                tracing::error!("{error}; the fabric stays as it was");
            }
            for (plane, reply_to) in waiting {
                let fabric = self.known.handle();
                let reply = if read.is_ok() { facts(&fabric, plane) } else { HostReply::Status(Status::ERR_BAD_PARAM) };
                answer(&self.loop_sender, reply_to, reply);
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
        self.call(HostCall::Fabric(self.known.handle()));
        self.notify(Status::FABRIC_UPDATED);
    }

    fn notify(&self, status: Status) {
        let identifier = self.known.handle().identifier().to_owned();
        let info = vec![Info::new(Key::from_static(keys::FABRIC_IDENTIFIER.name()), identifier)];
        self.call(HostCall::NotifyEvent(Event { status, source: Some(self.server.clone()), range: RANGE_LOCAL, info }));
    }

    fn call(&self, call: HostCall) {
        let ignored = ResultReceiver::Callback(Box::new(|_| {}));
        // A loop that has ended has no fabric.
        let _ = self.loop_sender.send(LoopMessage::Call(call, ignored));
    }
}

fn facts(fabric: &Fabric, plane: u64) -> HostReply {
    let found = usize::try_from(plane).ok().and_then(|plane| fabric.registration(plane));
    found.map_or(HostReply::Status(Status::ERR_NOT_FOUND), |info| HostReply::Infos { status: Status::SUCCESS, info })
}
