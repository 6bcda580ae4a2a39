//! Client functions of the server's own process. Its own store, the server core or the host's functions answer them.

use std::sync::Arc;

use modex::gds::qualified;
use modex::keys;
use modex::topo::{SharedMachine, TopologyError};
use modex::types::AsStatus;
use modex::types::{Info, Key, Kval, Namespace, ProcId, Rank, Scope, Status, Text, Value, ranks_in};
use modex::{AbortUpcall, Connect, EventCall, EventError, Group, GroupOperation, GroupRequest, ServerError, Service};
use parking_lot::Mutex;

use super::state::ServerProcess;
use super::upcall::Due;
use crate::client::KeptValues;
use crate::hwloc;
use crate::operation::{Answer, Operation, Results};
use crate::server_role::{Done, EventHandler, ServerRole};
use crate::types::c_void;

/// The server's process, in the place of a client.
pub(super) struct Own {
    process: Arc<ServerProcess>,
}

impl Own {
    pub(super) const fn new(process: Arc<ServerProcess>) -> Self {
        Self { process }
    }

    /// Values that this process knows without asking its server core.
    fn known(&self, proc: Option<&ProcId>, key: &Key) -> Option<Value> {
        let me = self.proc();
        let stored = self.process.own.lock().get(proc.unwrap_or(me)).and_then(|values| values.get(key)).cloned();
        if stored.is_some() {
            return stored;
        }
        match key.as_str() {
            name if name == keys::PROCID.name() => Some(Value::from(me.clone())),
            name if name == keys::NSPACE.name() && proc.is_none() => Some(Value::from(me.namespace.as_str())),
            name if proc.is_none_or(|proc| proc == me) => self.about_self(name),
            _ => None,
        }
    }

    /// Facts about this process that are not stored.
    fn about_self(&self, key: &str) -> Option<Value> {
        let server = self.process.server();
        match key {
            key if key == keys::HOSTNAME.name() => Some(Value::from(server.hostname())),
            key if key == keys::SERVER_URI.name() || key == keys::MYSERVER_URI.name() => {
                Some(Value::from(server.uri()))
            }
            key if key == keys::TOPOLOGY2.name() => {
                let topology = self.topology_object().ok()?;
                // SAFETY: it is a loaded topology of libhwloc, and lives as long as the process (P1).
                let exported = unsafe { hwloc::export(topology) };
                Some(Value::Topology(Box::new(exported.ok()?)))
            }
            _ => None,
        }
    }

    fn known_qualified(&self, proc: Option<&ProcId>, key: &Key, qualifiers: &[Info]) -> Option<Value> {
        let own = self.process.own.lock();
        let stored = own.get(proc.unwrap_or(self.proc())).into_iter().flatten();
        let qualified = stored.filter(|(name, _)| qualified::is_qualified(name.as_str()));
        qualified::best(key.as_str(), qualifiers, qualified.map(|(_, value)| value)).and_then(qualified::inner)
    }

    /// All values that this process has stored about a process.
    fn stored(&self, proc: &ProcId) -> Vec<Kval> {
        let own = self.process.own.lock();
        let values = own.get(proc).into_iter().flatten();
        values.map(|(key, value)| Kval { key: qualified::public_key(key.clone()), value: value.clone() }).collect()
    }

    /// The callback for an upcall without data; the result goes to `done`.
    fn status_due(&self, done: Done<Answer>) -> Due {
        let process = Arc::clone(&self.process);
        Due::Status(Box::new(move |status| {
            let result = if status.is_success() { Ok(Answer::complete(Results::None)) } else { Err(status) };
            deliver(&process, done, result);
        }))
    }

    fn infos_due_with(&self, done: Done<Answer>, results: impl FnOnce(Vec<Info>) -> Results + Send + 'static) -> Due {
        let process = Arc::clone(&self.process);
        Due::Infos(Box::new(move |status, infos| {
            let has_results = status.is_success() || !infos.is_empty();
            let result = if has_results { Ok(Answer { status, results: results(infos) }) } else { Err(status) };
            deliver(&process, done, result);
        }))
    }

    fn service(&self, service: Service, done: Done<Answer>) -> Result<(), Status> {
        let pending = self.process.server().service(service);
        if done.is_awaited {
            done.give(pending.wait().map(Answer::from).map_err(|error| error.status()));
            return Ok(());
        }
        let begun = pending.then(|result| done.give(result.map(Answer::from).map_err(|error| error.status())));
        begun.map_err(|error| error.status())
    }

    fn group(
        &self,
        operation: GroupOperation,
        id: &str,
        procs: Vec<ProcId>,
        directives: Vec<Info>,
        done: Done<Answer>,
    ) {
        let id = Text::from(id);
        let (name, members) = (id.clone(), procs.clone());
        let due = self.infos_due_with(done, move |info| {
            let context_id = info.iter().find(|info| info.key.as_str() == keys::GROUP_CONTEXT_ID.name());
            let context_id = context_id.and_then(|info| info.value.as_u64());
            Results::Group(Box::new(Group { id: name, members, context_id, info }))
        });
        self.process.bridge.group(GroupRequest { operation, id, procs, directives }, due);
    }

    /// A fence of this process alone ends at once. Other processes are in other jobs, so a fence with them is refused.
    fn fence(&self, procs: &[ProcId], done: Done<Answer>) -> Result<(), Status> {
        let is_alone = procs.iter().all(|proc| proc == self.proc());
        let result = if is_alone { Ok(Answer::complete(Results::None)) } else { Err(Status::ERR_NOT_SUPPORTED) };
        self.later(done, result)
    }

    /// The nodes of a job, from its description.
    fn resolve_nodes(&self, namespace: Option<Namespace>, done: Done<Answer>) -> Result<(), Status> {
        let namespace = namespace.ok_or(Status::ERR_NOT_SUPPORTED)?;
        let job = ProcId { namespace, rank: Rank::Wildcard };
        self.find(job, keys::NODE_LIST.name(), Vec::new(), done, |value| match value {
            Value::String(text) => Ok(Results::Text(text)),
            _ => Err(Status::ERR_TYPE_MISMATCH),
        })
    }

    /// The processes of a job on one node.
    fn resolve_peers(
        &self,
        node: Option<String>,
        namespace: Option<Namespace>,
        done: Done<Answer>,
    ) -> Result<(), Status> {
        let namespace = namespace.ok_or(Status::ERR_NOT_SUPPORTED)?;
        let node = node.unwrap_or_else(|| self.process.server().hostname().to_owned());
        let directives = vec![
            Info::new(Key::from_static(keys::NODE_INFO.name()), true),
            Info::new(Key::from_static(keys::HOSTNAME.name()), node),
        ];
        let job = ProcId { namespace: namespace.clone(), rank: Rank::Wildcard };
        self.find(job, keys::LOCAL_PEERS.name(), directives, done, move |value| {
            let ranks = ranks_in(value.as_str().ok_or(Status::ERR_TYPE_MISMATCH)?);
            Ok(Results::Procs(ranks.map(|rank| ProcId::new(namespace.clone(), rank)).collect()))
        })
    }

    fn find(
        &self,
        proc: ProcId,
        key: &'static str,
        directives: Vec<Info>,
        done: Done<Answer>,
        results: impl FnOnce(Value) -> Result<Results, Status> + Send + 'static,
    ) -> Result<(), Status> {
        let done = done.after(|value: Result<Value, Status>| value.and_then(results).map(Answer::complete));
        self.get(Some(proc), Some(Key::from_static(key)), directives, done)
    }

    fn notify(
        &self,
        status: Status,
        source: Option<&ProcId>,
        range: u8,
        info: &[Info],
        done: Done<Answer>,
    ) -> Result<(), Status> {
        let server = self.process.server();
        let is_awaited = done.is_awaited;
        let answer = move |result: Result<(), ServerError>| {
            done.give(result.map(|()| Answer::complete(Results::None)).map_err(|error| error.status()));
        };
        if is_awaited {
            answer(server.notify_event(status, source, range, info));
            return Ok(());
        }
        server.notify_event_with(status, source, range, info, answer).map_err(|error| error.status())
    }

    /// Gives a result that exists already; a callback gets it only after the caller has returned.
    fn later<T: Send + 'static>(&self, done: Done<T>, result: Result<T, Status>) -> Result<(), Status> {
        if done.is_awaited {
            done.give(result);
            return Ok(());
        }
        self.process.server().defer(move || done.give(result)).map_err(|error| error.status())
    }
}

impl ServerRole for Own {
    fn kept(&self) -> &KeptValues {
        &self.process.kept
    }

    fn proc(&self) -> &ProcId {
        self.process.server().proc()
    }

    /// Stores the value for this process only: no other process can ask for values of a server.
    fn put(&self, _: Scope, key: Key, value: Value) -> Result<(), Status> {
        self.store_internal(&self.proc().clone(), key, value)
    }

    fn store_internal(&self, proc: &ProcId, key: Key, value: Value) -> Result<(), Status> {
        let (key, value) = qualified::stored(key, value);
        if key.as_str() == qualified::QUALIFIED_VALUE {
            return Err(Status::ERR_BAD_PARAM);
        }
        self.process.own.lock().entry(proc.clone()).or_default().insert(key, value);
        Ok(())
    }

    fn commit(&self) -> Result<(), Status> {
        Ok(())
    }

    fn get(
        &self,
        proc: Option<ProcId>,
        key: Option<Key>,
        directives: Vec<Info>,
        done: Done<Value>,
    ) -> Result<(), Status> {
        let qualifiers = qualified::qualifiers(&directives);
        let known = |key: &Key| match qualifiers.as_slice() {
            [] => self.known(proc.as_ref(), key),
            qualifiers => self.known_qualified(proc.as_ref(), key, qualifiers),
        };
        if let Some(value) = key.as_ref().and_then(known) {
            return self.later(done, Ok(value));
        }
        let proc = proc.unwrap_or_else(|| ProcId::new(self.proc().namespace.clone(), Rank::Undefined));
        let stored = if key.is_none() { self.stored(&proc) } else { Vec::new() };
        let wanted = key.clone();
        let directives = at_once(directives);
        let is_awaited = done.is_awaited;
        let answer = move |result: Result<Vec<Kval>, ServerError>| {
            // Own values answer a Get without a key, even if the server finds no others.
            let entries = match result {
                Err(_) if !stored.is_empty() => Ok(Vec::new()),
                result => result.map_err(|error| error.status()),
            };
            done.give(entries.and_then(|entries| pick(merge(stored, entries), wanted.as_ref(), &qualifiers)));
        };
        let server = self.process.server();
        if is_awaited {
            answer(server.get(&proc, key.as_ref(), directives));
            return Ok(());
        }
        server.get_with(&proc, key.as_ref(), directives, answer).map_err(|error| error.status())
    }

    fn defer(&self, job: Box<dyn FnOnce() + Send>) -> Result<(), Status> {
        self.process.server().defer(job).map_err(|error| error.status())
    }

    fn topology_object(&self) -> Result<*mut c_void, TopologyError> {
        // If the machine can't be read, this fails after the same time as for other callers.
        match self.process.server().topology() {
            Err(error @ (TopologyError::TooSlow | TopologyError::Unreachable { .. })) => Err(error),
            _ => self.process.topology.object(),
        }
    }

    fn shared_topology(&self) -> Result<Arc<SharedMachine>, TopologyError> {
        self.process.server().topology()
    }

    fn perform(&self, operation: Operation, done: Done<Answer>) -> Result<(), Status> {
        let bridge = &self.process.bridge;
        match operation {
            Operation::Fence { procs, .. } => return self.fence(&procs, done),
            Operation::Abort { status, message, procs } => {
                let message = Some(Text::from(message.as_str()));
                let request = AbortUpcall { requester: self.proc().clone(), object: 0, status, message, procs };
                bridge.abort(request, self.status_due(done));
            }
            Operation::Service(service) => return self.service(service, done),
            Operation::Connect { procs, directives } => {
                bridge.connect(Connect { procs, directives }, self.status_due(done));
            }
            Operation::Disconnect { procs, directives } => {
                bridge.disconnect(Connect { procs, directives }, self.status_due(done));
            }
            Operation::GroupConstruct { id, procs, directives } => {
                self.group(GroupOperation::Construct, &id, procs, directives, done);
            }
            Operation::GroupDestruct { id, directives } => {
                self.group(GroupOperation::Destruct, &id, Vec::new(), directives, done);
            }
            Operation::ResolvePeers { node, namespace } => return self.resolve_peers(node, namespace, done),
            Operation::ResolveNodes { namespace } => return self.resolve_nodes(namespace, done),
            Operation::Notify { status, source, range, info } => {
                return self.notify(status, source.as_ref(), range, &info, done);
            }
            // Hosts get output by their own means.
            _ => return Err(Status::ERR_NOT_SUPPORTED),
        }
        Ok(())
    }

    fn register_event_handler(
        &self,
        codes: &[Status],
        directives: &[Info],
        handler: EventHandler,
        done: Done<usize>,
    ) -> Result<(), Status> {
        let handler = move |call: EventCall| handler(call);
        let server = self.process.server();
        let is_awaited = done.is_awaited;
        let answer = move |result: Result<usize, EventError>| done.give(result.map_err(|error| error.status()));
        if is_awaited {
            answer(server.register_event_handler(codes, directives, handler));
            return Ok(());
        }
        server.register_event_handler_with(codes, directives, handler, answer).map_err(|error| error.status())
    }

    fn deregister_event_handler(&self, id: usize, done: Done<()>) -> Result<(), Status> {
        let server = self.process.server();
        let is_awaited = done.is_awaited;
        if is_awaited {
            server.deregister_event_handler(id);
            done.give(Ok(()));
            return Ok(());
        }
        server.deregister_event_handler_with(id, || done.give(Ok(()))).map_err(|error| error.status())
    }
}

/// Makes a Get fail at once if the value is unknown. A server has no other server to ask, and hosts look for values
/// that may not exist yet (orted: the address of another daemon).
fn at_once(mut directives: Vec<Info>) -> Vec<Info> {
    directives.push(Info::new(Key::from_static(keys::IMMEDIATE.name()), true));
    directives
}

/// The values that this process has stored, and those of the others that have another key.
fn merge(mut stored: Vec<Kval>, others: Vec<Kval>) -> Vec<Kval> {
    let others: Vec<Kval> =
        others.into_iter().filter(|other| !stored.iter().any(|known| qualified::is_same_place(known, other))).collect();
    stored.extend(others);
    stored
}

/// The wanted value, or all values as an array.
fn pick(entries: Vec<Kval>, wanted: Option<&Key>, qualifiers: &[Info]) -> Result<Value, Status> {
    match wanted {
        Some(key) if !qualifiers.is_empty() => {
            let qualified = entries.iter().filter(|entry| entry.key.as_str() == qualified::QUALIFIED_VALUE);
            let best = qualified::best(key.as_str(), qualifiers, qualified.map(|entry| &entry.value));
            best.and_then(qualified::inner).ok_or(Status::ERR_NOT_FOUND)
        }
        Some(key) => {
            let found = entries.into_iter().find(|entry| entry.key == *key);
            found.map(|entry| entry.value).ok_or(Status::ERR_NOT_FOUND)
        }
        None if entries.is_empty() => Err(Status::ERR_NOT_FOUND),
        None => Ok(Value::info_array(entries.into_iter().map(|entry| Info::new(entry.key, entry.value)).collect())),
    }
}

/// Gives a result to a callback on the thread of the host's functions. If the server has ended, that thread is gone and
/// this thread calls. A waiting caller gets it on this thread too: it may be the thread of the host's functions.
fn deliver<T: Send + 'static>(process: &ServerProcess, done: Done<T>, result: Result<T, Status>) {
    if done.is_awaited {
        return done.give(result);
    }
    let waiting = Arc::new(Mutex::new(Some((done, result))));
    let job = {
        let waiting = Arc::clone(&waiting);
        move || run(&waiting)
    };
    if process.server().defer(job).is_err() {
        run(&waiting);
    }
}

/// A result that two threads may give; the first one does.
type Waiting<T> = Mutex<Option<(Done<T>, Result<T, Status>)>>;

fn run<T: Send + 'static>(waiting: &Waiting<T>) {
    let waiting = waiting.lock().take();
    if let Some((done, result)) = waiting {
        done.give(result);
    }
}

#[cfg(test)]
mod tests;
