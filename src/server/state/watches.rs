//! Watches of processes that send heartbeats, and of files that must change.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::keys::{self, TypedKey};
use crate::proto;
use crate::server::interface::{FileLook, FileState, PeerId, find, requires_more_than};
use crate::types::codes::range;
use crate::types::{Status, Text, Time, Value};

/// Identifies a watch: its connection, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WatchId {
    pub(crate) peer: PeerId,
    number: u64,
}

/// All watches.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    watches: BTreeMap<WatchId, Watch>,
    last_number: u64,
    /// Looks at files without an answer, in their order. Those of cancelled watches count, too.
    looks: VecDeque<WatchId>,
    /// Since when the first of them is under way.
    looking_since: Time,
}

/// A sign of life that must come in each interval.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The process's name for the watch.
    pub(crate) name: Option<String>,
    interval: Duration,
    misses_allowed: u32,
    /// The event to raise.
    pub(crate) alert: Status,
    pub(crate) range: u8,
    /// The end of the current interval.
    due: Time,
    misses: u32,
    sign: Sign,
}

#[derive(Debug)]
enum Sign {
    /// A heartbeat.
    Heartbeat { has_come: bool },
    /// A change of a file.
    File(FileWatch),
}

/// A file that must change.
#[derive(Debug)]
pub(crate) struct FileWatch {
    path: Text,
    must_grow: bool,
    must_be_accessed: bool,
    must_be_modified: bool,
    /// The state at the last look. None before the first one.
    seen: Option<Option<FileState>>,
    /// Whether a look has no answer yet.
    is_looking: bool,
}

/// The end of an interval.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    /// The end of the next one.
    pub(crate) due: Time,
    /// Whether the watch has just fallen silent.
    pub(crate) is_silent: bool,
    /// The file to look at.
    pub(crate) path: Option<Text>,
}

impl Watches {
    /// Watches of all connections.
    pub(crate) fn len(&self) -> usize {
        self.watches.len()
    }

    /// The end of a watch's current interval.
    pub(crate) fn due(&self, id: WatchId) -> Option<Time> {
        self.watches.get(&id).map(|watch| watch.due)
    }

    pub(crate) fn get(&self, id: WatchId) -> Option<&Watch> {
        self.watches.get(&id)
    }

    /// Adds a watch of a connection. Returns its id and the end of its first interval.
    pub(crate) fn insert(&mut self, peer: PeerId, watch: Watch) -> (WatchId, Time) {
        self.last_number = self.last_number.saturating_add(1);
        let (id, due) = (WatchId { peer, number: self.last_number }, watch.due);
        self.watches.insert(id, watch);
        (id, due)
    }

    /// Records a heartbeat of a connection. Returns whether it has a watch.
    pub(crate) fn beat(&mut self, peer: PeerId) -> bool {
        let mut has_watch = false;
        for (_, watch) in self.watches.range_mut(Self::ids_of(peer)) {
            if let Sign::Heartbeat { has_come } = &mut watch.sign {
                *has_come = true;
                has_watch = true;
            }
        }
        has_watch
    }

    /// Removes the watches of a connection with this name, or all. Returns the ids and deadlines.
    pub(crate) fn remove(&mut self, peer: PeerId, name: Option<&str>) -> Vec<(WatchId, Time)> {
        let is_meant = |watch: &Watch| name.is_none() || watch.name.as_deref() == name;
        let meant = self.of(peer).filter(|(_, watch)| is_meant(watch));
        let meant: Vec<(WatchId, Time)> = meant.map(|(id, watch)| (id, watch.due)).collect();
        meant.iter().for_each(|(id, _)| drop(self.watches.remove(id)));
        meant
    }

    /// Ends an interval. A file whose look takes a whole interval gives no sign. A look that waits for another says
    /// nothing about its file.
    pub(crate) fn next_interval(&mut self, now: Time, id: WatchId) -> Option<Interval> {
        let is_under_way = self.looks.front() == Some(&id);
        let watch = self.watches.get_mut(&id)?;
        let has_hung = is_under_way && now.since(self.looking_since) >= watch.interval;
        watch.due = now + watch.interval;
        let (is_silent, path) = match &mut watch.sign {
            Sign::Heartbeat { has_come } => {
                let has_come = std::mem::take(has_come);
                (watch.note(has_come), None)
            }
            Sign::File(file) if file.is_looking => (has_hung && watch.note(false), None),
            Sign::File(file) => (false, Some(file.look())),
        };
        let interval = Interval { due: watch.due, is_silent, path };
        if interval.path.is_some() {
            self.begin_look(now, id);
        }
        Some(interval)
    }

    /// Begins the first look at the file of a new watch.
    pub(crate) fn first_look(&mut self, now: Time, id: WatchId) -> Option<Text> {
        let path = match &mut self.watches.get_mut(&id)?.sign {
            Sign::Heartbeat { .. } => return None,
            Sign::File(file) => file.look(),
        };
        self.begin_look(now, id);
        Some(path)
    }

    fn begin_look(&mut self, now: Time, id: WatchId) {
        if self.looks.is_empty() {
            self.looking_since = now;
        }
        self.looks.push_back(id);
    }

    fn end_look(&mut self, now: Time, id: WatchId) {
        if let Some(at) = self.looks.iter().position(|look| *look == id) {
            self.looks.remove(at);
            self.looking_since = now;
        }
    }

    /// Number of looks without an answer: those of a connection, and of all.
    pub(crate) fn look_counts(&self, peer: PeerId) -> (usize, usize) {
        (self.looks.iter().filter(|look| look.peer == peer).count(), self.looks.len())
    }

    /// Takes the state of a file. Returns whether the watch has just fallen silent.
    pub(crate) fn file_seen(&mut self, now: Time, id: WatchId, state: Option<FileState>) -> bool {
        self.end_look(now, id);
        let Some(watch) = self.watches.get_mut(&id) else { return false };
        let Sign::File(file) = &mut watch.sign else { return false };
        file.is_looking = false;
        let Some(before) = file.seen.replace(state) else { return false };
        let has_changed = file.has_changed(before, state);
        watch.note(has_changed)
    }

    /// The watches of a connection.
    pub(crate) fn of(&self, peer: PeerId) -> impl Iterator<Item = (WatchId, &Watch)> {
        self.watches.range(Self::ids_of(peer)).map(|(id, watch)| (*id, watch))
    }

    const fn ids_of(peer: PeerId) -> RangeInclusive<WatchId> {
        WatchId { peer, number: 0 }..=WatchId { peer, number: u64::MAX }
    }
}

impl WatchId {
    /// The watch behind a look at a file.
    pub(crate) const fn of(look: FileLook) -> Self {
        Self { peer: look.peer, number: look.number }
    }

    /// The name of its look at a file.
    pub(crate) const fn look(self) -> FileLook {
        FileLook { peer: self.peer, number: self.number }
    }
}

impl FileWatch {
    fn look(&mut self) -> Text {
        self.is_looking = true;
        self.path.clone()
    }

    /// Whether all that must change has changed. A file that is gone has not, and one that has come has.
    fn has_changed(&self, before: Option<FileState>, now: Option<FileState>) -> bool {
        let Some(now) = now else { return false };
        let Some(before) = before else { return true };
        (!self.must_grow || now.size_bytes > before.size_bytes)
            && (!self.must_be_accessed || now.accessed != before.accessed)
            && (!self.must_be_modified || now.modified != before.modified)
    }
}

impl Watch {
    /// Whether it looks at a file.
    pub(crate) const fn is_of_file(&self) -> bool {
        matches!(self.sign, Sign::File(_))
    }

    /// Counts the interval. Returns whether too many had no sign, for the first time since the last sign.
    const fn note(&mut self, has_sign: bool) -> bool {
        self.misses = if has_sign { 0 } else { self.misses.saturating_add(1) };
        self.misses == self.misses_allowed.saturating_add(1)
    }

    /// Reads a request for heartbeats. `None`: it has a requirement that only the host may know.
    pub(crate) fn of_heartbeats(request: &proto::Monitor, now: Time) -> Option<Result<Self, Status>> {
        let time = (keys::MONITOR_HEARTBEAT_TIME, keys::MONITOR_HEARTBEAT_DROPS);
        let is_known = request.monitor.key.as_str() == keys::MONITOR_HEARTBEAT.name();
        if !is_known || requires_more_than(&request.directives, &UNDERSTOOD_OF_HEARTBEATS) {
            return None;
        }
        Some(Self::read(request, now, time, Status::MONITOR_HEARTBEAT_ALERT, Sign::Heartbeat { has_come: false }))
    }

    /// Reads a request for a file. `None`: as above.
    pub(crate) fn of_file(request: &proto::Monitor, now: Time) -> Option<Result<Self, Status>> {
        let time = (keys::MONITOR_FILE_CHECK_TIME, keys::MONITOR_FILE_DROPS);
        let is_known = request.monitor.key.as_str() == keys::MONITOR_FILE.name();
        if !is_known || requires_more_than(&request.directives, &UNDERSTOOD_OF_FILES) {
            return None;
        }
        // The standard gives some of them the type of a text, and programs a flag.
        let has = |key: &str| {
            let found = request.directives.iter().find(|info| info.key.as_str() == key);
            found.is_some_and(|info| info.value.as_bool() != Some(false))
        };
        let [must_grow, must_be_accessed, must_be_modified] = FILE_CHANGES.map(has);
        let path = match &request.monitor.value {
            Value::String(path) if is_absolute(path) && FILE_CHANGES.into_iter().any(has) => path.clone(),
            _ => return Some(Err(Status::ERR_BAD_PARAM)),
        };
        let file = FileWatch { path, must_grow, must_be_accessed, must_be_modified, seen: None, is_looking: false };
        Some(Self::read(request, now, time, Status::MONITOR_FILE_ALERT, Sign::File(file)))
    }

    fn read(
        request: &proto::Monitor,
        now: Time,
        (time, drops): (TypedKey<u32>, TypedKey<u32>),
        alert: Status,
        sign: Sign,
    ) -> Result<Self, Status> {
        let proto::Monitor { error, directives, .. } = request;
        let number = |key| find(directives, key).and_then(|info| info.value.as_u32());
        let range = find(directives, keys::RANGE).and_then(|info| match info.value {
            Value::DataRange(range) => Some(range),
            ref number => number.as_u64().and_then(|code| u8::try_from(code).ok()),
        });
        let seconds = number(time).filter(|seconds| *seconds > 0).ok_or(Status::ERR_BAD_PARAM)?;
        let interval = Duration::from_secs(seconds.into());
        Ok(Self {
            name: find(directives, keys::MONITOR_ID).and_then(|info| info.value.as_str()).map(str::to_owned),
            interval,
            misses_allowed: number(drops).unwrap_or(0),
            alert: if *error == Status::SUCCESS { alert } else { *error },
            range: range.unwrap_or(range::RANGE_NAMESPACE),
            due: now + interval,
            misses: 0,
            sign,
        })
    }
}

/// Directives that a watch of heartbeats honours.
pub(crate) const UNDERSTOOD_OF_HEARTBEATS: [&str; 5] = [
    keys::MONITOR_ID.name(),
    keys::MONITOR_APP_CONTROL.name(),
    keys::RANGE.name(),
    keys::MONITOR_HEARTBEAT_TIME.name(),
    keys::MONITOR_HEARTBEAT_DROPS.name(),
];

/// The changes of a file that a watch may demand.
const FILE_CHANGES: [&str; 3] =
    [keys::MONITOR_FILE_SIZE.name(), keys::MONITOR_FILE_ACCESS.name(), keys::MONITOR_FILE_MODIFY.name()];

/// Directives that a watch of a file honours.
pub(crate) const UNDERSTOOD_OF_FILES: [&str; 8] = [
    keys::MONITOR_ID.name(),
    keys::MONITOR_APP_CONTROL.name(),
    keys::RANGE.name(),
    keys::MONITOR_FILE_CHECK_TIME.name(),
    keys::MONITOR_FILE_DROPS.name(),
    FILE_CHANGES[0],
    FILE_CHANGES[1],
    FILE_CHANGES[2],
];

/// A server does not know the directory of a process.
fn is_absolute(path: &Text) -> bool {
    path.as_bytes().starts_with(b"/") && path.as_bytes().len() <= PATH_BYTES_MAX
}

/// The longest path that Linux takes.
const PATH_BYTES_MAX: usize = 4096;
