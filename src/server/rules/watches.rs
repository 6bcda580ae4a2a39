//! Watches: a process asks to be watched, and the server reports it if it falls silent. It sends heartbeats, or changes
//! a file.
//!
//! A watch belongs to the connection that requested it, and ends with it. An interval without a sign is a miss. More
//! consecutive misses than allowed raise one event, until the next sign. The runtime looks at files, if it is
//! configured to, with the rights of the server's user and for processes of this user alone. Other ways of monitoring
//! are the host's, or shared with it (`shared_monitoring`).
//!
//! Source: PMIx Standard, `PMIx_Process_monitor` and `PMIx_Heartbeat`.

use std::sync::Arc;

use super::events::is_addressed;
use crate::events::Event;
use crate::gds::Datastore;
use crate::keys;
use crate::proto::{self, Reply};
use crate::server::interface::{Capabilities, FileLook, FileState, Output, PeerId, Upcall, requires_more_than};
use crate::server::state::{Interval, ServerCore, Ticket, Timer, Watch, WatchId};
use crate::types::codes::range;
use crate::types::{Info, Key, Status, Time, Value};

/// Watches of one connection.
const WATCHES_PER_PEER_MAX: usize = 16;

/// Looks at files without an answer, of one connection and of all. A file system that hangs does not fill the memory.
const LOOKS_PER_PEER_MAX: usize = WATCHES_PER_PEER_MAX;
const LOOKS_MAX: usize = 4096;

impl<S: Datastore> ServerCore<S> {
    /// Answers a request about watches; `None`: the request is for the host.
    pub(in crate::server) fn monitor(&mut self, now: Time, ticket: &Ticket, request: &proto::Monitor) -> Option<Reply> {
        let peer = ticket.peer();
        let key = request.monitor.key.as_str();
        let status = if key == keys::SEND_HEARTBEAT.name() {
            self.heartbeat(peer).then_some(Status::SUCCESS)?
        } else if key == keys::MONITOR_CANCEL.name() {
            if requires_more_than(&request.directives, &[keys::USERID.name(), keys::GRPID.name()]) {
                return None;
            }
            let name = match &request.monitor.value {
                Value::Undefined => None,
                value if value.as_str().is_none() => return Some(Reply::Status(Status::ERR_BAD_PARAM)),
                value => value.as_str(),
            };
            let has_cancelled = self.cancel_watches(peer, name);
            // Another service may have a request of this name, too.
            let is_whole = !self.config.service_rules().measures(self.config.capabilities);
            (has_cancelled && is_whole).then_some(Status::SUCCESS)?
        } else {
            let watch = Watch::of_heartbeats(request, now).or_else(|| self.file_watch(now, peer, request))?;
            watch.map_or_else(|status| status, |watch| self.watch(now, peer, watch))
        };
        Some(if status == Status::SUCCESS { Reply::Infos(Vec::new()) } else { Reply::Status(status) })
    }

    fn watch(&mut self, now: Time, peer: PeerId, watch: Watch) -> Status {
        if !is_addressed(&self.alert(peer, &watch)) {
            return Status::ERR_BAD_PARAM;
        }
        let (own_looks, all_looks) = self.watches.look_counts(peer);
        let has_looks = watch.is_of_file() && (own_looks >= LOOKS_PER_PEER_MAX || all_looks >= LOOKS_MAX);
        if has_looks || self.watches.of(peer).count() >= WATCHES_PER_PEER_MAX {
            return Status::ERR_OUT_OF_RESOURCE;
        }
        let (id, due) = self.watches.insert(peer, watch);
        self.timers.arm(Some(due), Timer::Watch(id));
        if let Some(path) = self.watches.first_look(now, id) {
            self.outputs.push(Output::LookAtFile(id.look(), path));
        }
        Status::SUCCESS
    }

    /// A watch of a file, if the server's runtime looks at files, and the host does not or leaves this node to it.
    fn file_watch(&self, now: Time, peer: PeerId, request: &proto::Monitor) -> Option<Result<Watch, Status>> {
        let is_of_host = self.config.capabilities.contains(Capabilities::MONITOR) && !self.config.shares_monitoring;
        if !self.config.watches_files || is_of_host {
            return None;
        }
        let watch = Watch::of_file(request, now)?;
        let is_own = self.peers.get(peer).is_some_and(|peer| peer.credentials().uid == self.config.tools.own_uid);
        Some(if is_own { watch } else { Err(Status::ERR_NO_PERMISSIONS) })
    }

    /// Takes the state of a file.
    pub(in crate::server) fn file_seen(&mut self, now: Time, look: FileLook, state: Option<FileState>) {
        let id = WatchId::of(look);
        if !self.watches.file_seen(now, id, state) {
            return;
        }
        if let Some(watch) = self.watches.get(id) {
            let event = self.alert(id.peer, watch);
            self.raise_alert(now, event);
        }
    }

    /// Records a heartbeat. Returns whether the connection has a watch.
    pub(in crate::server) fn heartbeat(&mut self, peer: PeerId) -> bool {
        self.watches.beat(peer)
    }

    /// Ends the watches of a connection with this name, or all. Returns whether there were any.
    pub(super) fn cancel_watches(&mut self, peer: PeerId, name: Option<&str>) -> bool {
        let cancelled = self.watches.remove(peer, name);
        cancelled.iter().for_each(|(id, due)| self.timers.disarm(Some(*due), Timer::Watch(*id)));
        !cancelled.is_empty()
    }

    /// Handles the end of an interval.
    pub(in crate::server) fn expire_watch(&mut self, now: Time, id: WatchId) {
        let Some(Interval { due, is_silent, path }) = self.watches.next_interval(now, id) else { return };
        self.timers.arm(Some(due), Timer::Watch(id));
        if let Some(path) = path {
            self.outputs.push(Output::LookAtFile(id.look(), path));
        }
        if let Some(watch) = self.watches.get(id).filter(|_| is_silent) {
            let event = self.alert(id.peer, watch);
            self.raise_alert(now, event);
        }
    }

    fn raise_alert(&mut self, now: Time, event: Event) {
        let event = Arc::new(event);
        self.distribute(now, &event, self.voice_of(event.source.as_ref()).into());
        let stays_here = matches!(event.range, range::RANGE_LOCAL | range::RANGE_PROC_LOCAL);
        if !stays_here && self.config.capabilities.contains(Capabilities::NOTIFY_EVENT) {
            let upcall = self.upcalls.unawaited();
            self.outputs.push(Output::Upcall(upcall, Upcall::NotifyEvent(Arc::unwrap_or_clone(event))));
        }
    }

    fn alert(&self, peer: PeerId, watch: &Watch) -> Event {
        let source = self.peers.proc_of(peer).cloned();
        let id = watch.name.as_ref().map(|name| Info::new(Key::from_static(keys::MONITOR_ID.name()), name.as_str()));
        Event { status: watch.alert, source, range: watch.range, info: id.into_iter().collect() }
    }
}
