//! Heartbeats: a process asks to be watched, and the server reports it if it falls silent.
//!
//! A watch belongs to the connection that requested it, and ends with it. An interval without a heartbeat is a miss.
//! More consecutive misses than allowed raise one event, until the next heartbeat. Other ways of monitoring are the
//! host's.
//!
//! Source: PMIx Standard, `PMIx_Process_monitor` and `PMIx_Heartbeat`.

use std::sync::Arc;

use super::events::is_addressed;
use crate::events::Event;
use crate::gds::Datastore;
use crate::keys;
use crate::proto::{self, Reply};
use crate::server::interface::{Capabilities, Output, PeerId, Upcall};
use crate::server::state::{HeartbeatWatch, ServerCore, Ticket, Timer, WatchId};
use crate::types::codes::range;
use crate::types::{Info, Key, Status, Time};

/// Watches of one connection.
const WATCHES_PER_PEER_MAX: usize = 16;

impl<S: Datastore> ServerCore<S> {
    /// Answers a request about heartbeats; `None`: the request is for the host.
    pub(in crate::server) fn monitor(&mut self, now: Time, ticket: &Ticket, request: &proto::Monitor) -> Option<Reply> {
        let peer = ticket.peer();
        let key = request.monitor.key.as_str();
        let status = if key == keys::SEND_HEARTBEAT.name() {
            self.heartbeat(peer).then_some(Status::SUCCESS)?
        } else if key == keys::MONITOR_CANCEL.name() {
            self.cancel_watches(peer, request.monitor.value.as_str()).then_some(Status::SUCCESS)?
        } else {
            HeartbeatWatch::read(request, now)?.map_or_else(|status| status, |watch| self.watch(peer, watch))
        };
        Some(if status == Status::SUCCESS { Reply::Infos(Vec::new()) } else { Reply::Status(status) })
    }

    fn watch(&mut self, peer: PeerId, watch: HeartbeatWatch) -> Status {
        if !is_addressed(&self.alert(peer, &watch)) {
            return Status::ERR_BAD_PARAM;
        }
        if self.heartbeats.of(peer).count() >= WATCHES_PER_PEER_MAX {
            return Status::ERR_OUT_OF_RESOURCE;
        }
        let (id, due) = self.heartbeats.insert(peer, watch);
        self.timers.arm(Some(due), Timer::Watch(id));
        Status::SUCCESS
    }

    /// Records a heartbeat. Returns whether the connection has a watch.
    pub(in crate::server) fn heartbeat(&mut self, peer: PeerId) -> bool {
        self.heartbeats.beat(peer)
    }

    /// Ends the watches of a connection with this name, or all. Returns whether there were any.
    pub(super) fn cancel_watches(&mut self, peer: PeerId, name: Option<&str>) -> bool {
        let cancelled = self.heartbeats.remove(peer, name);
        cancelled.iter().for_each(|(id, due)| self.timers.disarm(Some(*due), Timer::Watch(*id)));
        !cancelled.is_empty()
    }

    /// Handles the end of an interval.
    pub(in crate::server) fn expire_watch(&mut self, now: Time, id: WatchId) {
        let Some((due, is_silent)) = self.heartbeats.next_interval(now, id) else { return };
        self.timers.arm(Some(due), Timer::Watch(id));
        let Some(watch) = self.heartbeats.get(id).filter(|_| is_silent) else { return };
        let event = Arc::new(self.alert(id.peer, watch));
        self.distribute(now, &event, self.voice_of(event.source.as_ref()).into());
        let stays_here = matches!(event.range, range::RANGE_LOCAL | range::RANGE_PROC_LOCAL);
        if !stays_here && self.config.capabilities.contains(Capabilities::NOTIFY_EVENT) {
            let upcall = self.upcalls.unawaited();
            self.outputs.push(Output::Upcall(upcall, Upcall::NotifyEvent(Arc::unwrap_or_clone(event))));
        }
    }

    fn alert(&self, peer: PeerId, watch: &HeartbeatWatch) -> Event {
        let source = self.peers.proc_of(peer).cloned();
        let id = watch.name.as_ref().map(|name| Info::new(Key::from_static(keys::MONITOR_ID.name()), name.as_str()));
        Event { status: watch.alert, source, range: watch.range, info: id.into_iter().collect() }
    }
}
