//! The state of a server. Each part has a file. The rules add the server's methods.

use std::sync::Arc;

use super::cleanups::Cleanups;
use super::collectives::Collectives;
use super::deferred::Deferred;
use super::events::Events;
use super::exchanges::Exchanges;
use super::fan_out::FanOut;
use super::forwarding::Forwarding;
use super::group::bootstraps::Bootstraps;
use super::group::end_notices::EndNotices;
use super::group::given::Given;
use super::group::group_table::Groups;
use super::group::invitations::Invitations;
use super::group::vacancies::Vacancies;
use super::held_gets::HeldGets;
use super::missed_fences::MissedFences;
use super::outputs::Outputs;
use super::pace::Pace;
use super::peer::Peers;
use super::pending::PendingUpcalls;
use super::process_sets::ProcessSets;
use super::registry::Registry;
use super::slices::Slices;
use super::ties::{Handover, Ties};
use super::timers::Timers;
use super::tools::Tools;
use super::watches::Watches;
use crate::events::LossWindow;
use crate::gds::Datastore;
use crate::proto::notification::RemovalNotice;
use crate::server::interface::ServerConfig;
use crate::topo::inventory::StoredInventory;
use crate::types::Time;

/// The server core over a datastore. See the module's documentation.
#[derive(Debug)]
pub struct ServerCore<S: Datastore> {
    pub(in crate::server) config: ServerConfig,
    pub(in crate::server) store: S,
    pub(in crate::server) registry: Registry,
    pub(in crate::server) peers: Peers,
    pub(in crate::server) held_gets: HeldGets,
    pub(in crate::server) collectives: Collectives,
    pub(in crate::server) groups: Groups,
    pub(in crate::server) given: Given,
    pub(in crate::server) invitations: Invitations,
    pub(in crate::server) bootstraps: Bootstraps,
    pub(in crate::server) vacancies: Vacancies,
    pub(in crate::server) end_notices: EndNotices,
    pub(in crate::server) exchanges: Exchanges,
    pub(in crate::server) missed_fences: MissedFences,
    pub(in crate::server) process_sets: ProcessSets,
    pub(in crate::server) forwarding: Forwarding,
    pub(in crate::server) events: Events,
    pub(in crate::server) loss_window: LossWindow,
    pub(in crate::server) cleanups: Cleanups,
    pub(in crate::server) watches: Watches,
    pub(in crate::server) upcalls: PendingUpcalls,
    pub(in crate::server) tools: Tools,
    pub(in crate::server) ties: Ties,
    /// Segments of other jobs for the processes that are tied to them.
    pub(in crate::server) handovers: FanOut<Handover>,
    /// Notices of removed values.
    pub(in crate::server) removals: FanOut<Arc<RemovalNotice>>,
    /// The time of the next step of handovers and notices.
    pub(in crate::server) fan_out_due: Option<Time>,
    pub(in crate::server) deferred: Deferred,
    /// This node's inventory, once the topology was read for a request.
    pub(in crate::server) own_inventory: Option<Arc<StoredInventory>>,
    pub(in crate::server) slices: Slices,
    pub(in crate::server) pace: Pace,
    pub(in crate::server) timers: Timers,
    pub(in crate::server) outputs: Outputs,
}

impl<S: Datastore> ServerCore<S> {
    /// A server without any registrations, which publishes into `store`.
    #[must_use]
    pub fn new(config: ServerConfig, store: S) -> Self {
        Self {
            registry: Registry::new(config.commit_base),
            loss_window: LossWindow::new(config.loss_window),
            config,
            store,
            peers: Peers::default(),
            held_gets: HeldGets::default(),
            collectives: Collectives::default(),
            groups: Groups::default(),
            given: Given::default(),
            invitations: Invitations::default(),
            bootstraps: Bootstraps::default(),
            vacancies: Vacancies::default(),
            end_notices: EndNotices::default(),
            exchanges: Exchanges::default(),
            missed_fences: MissedFences::default(),
            process_sets: ProcessSets::default(),
            forwarding: Forwarding::default(),
            events: Events::default(),
            cleanups: Cleanups::default(),
            watches: Watches::default(),
            upcalls: PendingUpcalls::default(),
            tools: Tools::default(),
            ties: Ties::default(),
            handovers: FanOut::default(),
            removals: FanOut::default(),
            fan_out_due: None,
            deferred: Deferred::default(),
            own_inventory: None,
            slices: Slices::default(),
            pace: Pace::default(),
            timers: Timers::default(),
            outputs: Outputs::default(),
        }
    }
}
