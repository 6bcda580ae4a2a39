//! Watches of processes that send heartbeats.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::keys;
use crate::proto;
use crate::server::interface::{PeerId, find, requires_more_than};
use crate::types::codes::range;
use crate::types::{Status, Time, Value};

/// Identifies a watch: its connection, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WatchId {
    pub(crate) peer: PeerId,
    number: u64,
}

/// All watches.
#[derive(Debug, Default)]
pub(crate) struct Heartbeats {
    watches: BTreeMap<WatchId, HeartbeatWatch>,
    last_number: u64,
}

#[derive(Debug)]
pub(crate) struct HeartbeatWatch {
    /// The process's name for the watch.
    pub(crate) name: Option<String>,
    interval: Duration,
    misses_allowed: u32,
    /// The event to raise.
    pub(crate) alert: Status,
    pub(crate) range: u8,
    /// The end of the current interval.
    due: Time,
    has_beat: bool,
    misses: u32,
}

impl Heartbeats {
    /// Watches of all connections.
    pub(crate) fn len(&self) -> usize {
        self.watches.len()
    }

    /// The end of a watch's current interval.
    pub(crate) fn due(&self, id: WatchId) -> Option<Time> {
        self.watches.get(&id).map(|watch| watch.due)
    }

    pub(crate) fn get(&self, id: WatchId) -> Option<&HeartbeatWatch> {
        self.watches.get(&id)
    }

    /// Adds a watch of a connection. Returns its id and the end of its first interval.
    pub(crate) fn insert(&mut self, peer: PeerId, watch: HeartbeatWatch) -> (WatchId, Time) {
        self.last_number = self.last_number.saturating_add(1);
        let (id, due) = (WatchId { peer, number: self.last_number }, watch.due);
        self.watches.insert(id, watch);
        (id, due)
    }

    /// Records a heartbeat of a connection. Returns whether it has a watch.
    pub(crate) fn beat(&mut self, peer: PeerId) -> bool {
        let mut has_watch = false;
        for (_, watch) in self.watches.range_mut(Self::ids_of(peer)) {
            watch.has_beat = true;
            has_watch = true;
        }
        has_watch
    }

    /// Removes the watches of a connection with this name, or all. Returns the ids and deadlines.
    pub(crate) fn remove(&mut self, peer: PeerId, name: Option<&str>) -> Vec<(WatchId, Time)> {
        let is_meant = |watch: &HeartbeatWatch| name.is_none() || watch.name.as_deref() == name;
        let meant = self.of(peer).filter(|(_, watch)| is_meant(watch));
        let meant: Vec<(WatchId, Time)> = meant.map(|(id, watch)| (id, watch.due)).collect();
        meant.iter().for_each(|(id, _)| drop(self.watches.remove(id)));
        meant
    }

    /// Ends an interval. Returns the end of the next one, and whether the process has just fallen silent.
    pub(crate) fn next_interval(&mut self, now: Time, id: WatchId) -> Option<(Time, bool)> {
        let watch = self.watches.get_mut(&id)?;
        watch.misses = if watch.has_beat { 0 } else { watch.misses.saturating_add(1) };
        watch.has_beat = false;
        watch.due = now + watch.interval;
        Some((watch.due, watch.misses == watch.misses_allowed.saturating_add(1)))
    }

    /// The watches of a connection.
    pub(crate) fn of(&self, peer: PeerId) -> impl Iterator<Item = (WatchId, &HeartbeatWatch)> {
        self.watches.range(Self::ids_of(peer)).map(|(id, watch)| (*id, watch))
    }

    const fn ids_of(peer: PeerId) -> RangeInclusive<WatchId> {
        WatchId { peer, number: 0 }..=WatchId { peer, number: u64::MAX }
    }
}

impl HeartbeatWatch {
    /// Reads a request. `None`: it has a requirement that only the host may know.
    pub(crate) fn read(request: &proto::Monitor, now: Time) -> Option<Result<Self, Status>> {
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
