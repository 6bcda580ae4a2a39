//! Heartbeats: a process asks to be watched, and the server reports it if it falls silent.
//!
//! A watch belongs to the connection that requested it, and ends with it. An interval without a heartbeat is a miss.
//! More consecutive misses than allowed raise one event, until the next heartbeat. Other ways of monitoring are the
//! host's.
//!
//! Source: PMIx Standard, `PMIx_Process_monitor` and `PMIx_Heartbeat`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::events::is_addressed;
use crate::events::Event;
use crate::gds::Datastore;
use crate::keys;
use crate::proto::{self, Reply};
use crate::server::dispatch::core::Server;
use crate::server::interface::config::Capabilities;
use crate::server::interface::directives::{find, requires_more_than};
use crate::server::interface::host::Upcall;
use crate::server::interface::io::{Output, PeerId};
use crate::server::state::outputs::Ticket;
use crate::server::state::timers::Timer;
use crate::types::codes::range;
use crate::types::{Info, Key, Status, Time, Value};

/// Watches of one connection.
const WATCHES_PER_PEER_MAX: usize = 16;

/// Identifies a watch: its connection, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::server) struct WatchId {
    peer: PeerId,
    number: u64,
}

/// All watches.
#[derive(Debug, Default)]
pub(in crate::server) struct Heartbeats {
    watches: BTreeMap<WatchId, Watch>,
    last_number: u64,
}

#[derive(Debug)]
struct Watch {
    /// The process's name for the watch.
    name: Option<String>,
    interval: Duration,
    misses_allowed: u32,
    /// The event to raise.
    alert: Status,
    range: u8,
    /// The end of the current interval.
    due: Time,
    has_beat: bool,
    misses: u32,
}

impl Heartbeats {
    /// Watches of all connections.
    pub(in crate::server) fn len(&self) -> usize {
        self.watches.len()
    }

    /// The end of a watch's current interval.
    pub(in crate::server) fn due(&self, id: WatchId) -> Option<Time> {
        self.watches.get(&id).map(|watch| watch.due)
    }

    fn of(&self, peer: PeerId) -> impl Iterator<Item = (WatchId, &Watch)> {
        let all = WatchId { peer, number: 0 }..=WatchId { peer, number: u64::MAX };
        self.watches.range(all).map(|(id, watch)| (*id, watch))
    }
}

impl Watch {
    /// Reads a request. `None`: it has a requirement that only the host may know.
    fn of(request: &proto::Monitor, now: Time) -> Option<Result<Self, Status>> {
        const UNDERSTOOD: [&str; 5] = [
            keys::MONITOR_ID.name(),
            keys::MONITOR_HEARTBEAT_TIME.name(),
            keys::MONITOR_HEARTBEAT_DROPS.name(),
            keys::MONITOR_APP_CONTROL.name(),
            keys::RANGE.name(),
        ];
        let proto::Monitor { monitor, error, directives } = request;
        if monitor.key.as_str() != keys::MONITOR_HEARTBEAT.name() || requires_more_than(directives, &UNDERSTOOD) {
            return None;
        }
        let number = |key| find(directives, key).and_then(|info| info.value.as_u32());
        let range = find(directives, keys::RANGE).and_then(|info| match info.value {
            Value::DataRange(range) => Some(range),
            _ => None,
        });
        let seconds = number(keys::MONITOR_HEARTBEAT_TIME).filter(|seconds| *seconds > 0);
        let Some(seconds) = seconds else { return Some(Err(Status::ERR_BAD_PARAM)) };
        let interval = Duration::from_secs(seconds.into());
        Some(Ok(Self {
            name: find(directives, keys::MONITOR_ID).and_then(|info| info.value.as_str()).map(str::to_owned),
            interval,
            misses_allowed: number(keys::MONITOR_HEARTBEAT_DROPS).unwrap_or(0),
            alert: if *error == Status::SUCCESS { Status::MONITOR_HEARTBEAT_ALERT } else { *error },
            range: range.unwrap_or(range::RANGE_NAMESPACE),
            due: now + interval,
            has_beat: false,
            misses: 0,
        }))
    }
}

impl<S: Datastore> Server<S> {
    /// Answers a request about heartbeats; `None`: the request is for the host.
    pub(in crate::server) fn monitor(&mut self, now: Time, ticket: &Ticket, request: &proto::Monitor) -> Option<Reply> {
        let peer = ticket.peer();
        let key = request.monitor.key.as_str();
        let status = if key == keys::SEND_HEARTBEAT.name() {
            self.heartbeat(peer).then_some(Status::SUCCESS)?
        } else if key == keys::MONITOR_CANCEL.name() {
            self.cancel_watches(peer, request.monitor.value.as_str()).then_some(Status::SUCCESS)?
        } else {
            Watch::of(request, now)?.map_or_else(|status| status, |watch| self.watch(peer, watch))
        };
        Some(if status == Status::SUCCESS { Reply::Infos(Vec::new()) } else { Reply::Status(status) })
    }

    fn watch(&mut self, peer: PeerId, watch: Watch) -> Status {
        if !is_addressed(&self.alert(peer, &watch)) {
            return Status::ERR_BAD_PARAM;
        }
        if self.heartbeats.of(peer).count() >= WATCHES_PER_PEER_MAX {
            return Status::ERR_OUT_OF_RESOURCE;
        }
        self.heartbeats.last_number = self.heartbeats.last_number.saturating_add(1);
        let id = WatchId { peer, number: self.heartbeats.last_number };
        self.timers.arm(Some(watch.due), Timer::Watch(id));
        self.heartbeats.watches.insert(id, watch);
        Status::SUCCESS
    }

    /// Records a heartbeat. Returns whether the connection has a watch.
    pub(in crate::server) fn heartbeat(&mut self, peer: PeerId) -> bool {
        let ids: Vec<WatchId> = self.heartbeats.of(peer).map(|(id, _)| id).collect();
        for id in &ids {
            if let Some(watch) = self.heartbeats.watches.get_mut(id) {
                watch.has_beat = true;
            }
        }
        !ids.is_empty()
    }

    /// Ends the watches of a connection with this name, or all. Returns whether there were any.
    pub(super) fn cancel_watches(&mut self, peer: PeerId, name: Option<&str>) -> bool {
        let is_meant = |watch: &Watch| name.is_none() || watch.name.as_deref() == name;
        let meant = self.heartbeats.of(peer).filter(|(_, watch)| is_meant(watch));
        let meant: Vec<(WatchId, Time)> = meant.map(|(id, watch)| (id, watch.due)).collect();
        for (id, due) in &meant {
            self.timers.disarm(Some(*due), Timer::Watch(*id));
            self.heartbeats.watches.remove(id);
        }
        !meant.is_empty()
    }

    /// Handles the end of an interval.
    pub(in crate::server) fn expire_watch(&mut self, now: Time, id: WatchId) {
        let Some(watch) = self.heartbeats.watches.get_mut(&id) else { return };
        watch.misses = if watch.has_beat { 0 } else { watch.misses.saturating_add(1) };
        watch.has_beat = false;
        watch.due = now + watch.interval;
        let is_silent = watch.misses == watch.misses_allowed.saturating_add(1);
        self.timers.arm(Some(watch.due), Timer::Watch(id));
        if !is_silent {
            return;
        }
        let Some(watch) = self.heartbeats.watches.get(&id) else { return };
        let event = Arc::new(self.alert(id.peer, watch));
        self.distribute(now, &event, self.voice_of(event.source.as_ref()).into());
        let stays_here = matches!(event.range, range::RANGE_LOCAL | range::RANGE_PROC_LOCAL);
        if !stays_here && self.config.capabilities.contains(Capabilities::NOTIFY_EVENT) {
            let upcall = self.upcalls.unawaited();
            self.outputs.push(Output::Upcall(upcall, Upcall::NotifyEvent(Arc::unwrap_or_clone(event))));
        }
    }

    fn alert(&self, peer: PeerId, watch: &Watch) -> Event {
        let source = self.peers.get(peer).map(|peer| peer.proc.clone());
        let id = watch.name.as_ref().map(|name| Info::new(Key::from_static(keys::MONITOR_ID.name()), name.as_str()));
        Event { status: watch.alert, source, range: watch.range, info: id.into_iter().collect() }
    }
}
