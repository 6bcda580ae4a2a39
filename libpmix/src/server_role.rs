//! Client functions in a process that is a server and no client.

use std::sync::{Arc, mpsc};

use modex::EventCall;
use modex::topo::{SharedMachine, TopologyError};
use modex::types::{Info, Key, ProcId, Scope, Status, Value};

use super::client::KeptValues;
use super::operation::{Answer, Operation};
use super::types::c_void;

/// Receives a result, once.
pub(super) struct Done<T> {
    take: Box<dyn FnOnce(Result<T, Status>) + Send>,
    /// Whether a thread waits for the result. It may be the library's own thread, so the result comes on the thread
    /// that has it.
    pub(super) is_awaited: bool,
}

impl<T: Send + 'static> Done<T> {
    /// For a function of the program: it runs on a thread of the library, never inside the function that received it.
    pub(super) fn callback(take: impl FnOnce(Result<T, Status>) + Send + 'static) -> Self {
        Self { take: Box::new(take), is_awaited: false }
    }

    /// For a thread that waits.
    pub(super) fn waiter() -> (Self, Awaited<T>) {
        let (sender, receiver) = mpsc::sync_channel(1);
        let take = move |result| {
            // If no thread waits any more, the result is dropped.
            let _ = sender.send(result);
        };
        (Self { take: Box::new(take), is_awaited: true }, Awaited(receiver))
    }

    /// A receiver whose result `convert` turns into a `T`.
    pub(super) fn after<U>(
        self,
        convert: impl FnOnce(Result<U, Status>) -> Result<T, Status> + Send + 'static,
    ) -> Done<U> {
        let Self { take, is_awaited } = self;
        Done { take: Box::new(move |result| take(convert(result))), is_awaited }
    }

    /// Gives the result.
    pub(super) fn give(self, result: Result<T, Status>) {
        (self.take)(result);
    }
}

/// A result that a thread waits for.
pub(super) struct Awaited<T>(mpsc::Receiver<Result<T, Status>>);

impl<T> Awaited<T> {
    /// The result; `ERR_LOST_CONNECTION` if none can come any more.
    pub(super) fn wait(self) -> Result<T, Status> {
        self.0.recv().unwrap_or(Err(Status::ERR_LOST_CONNECTION))
    }
}

/// Client functions of a server process: they act on its own store and its host's functions.
///
/// After an error, a function's `done` gets nothing.
pub(super) trait ServerRole: Send + Sync {
    /// Values that callers look at without owning them.
    fn kept(&self) -> &KeptValues;

    /// This process's name.
    fn proc(&self) -> &ProcId;

    /// Stores a value that this process posts.
    fn put(&self, scope: Scope, key: Key, value: Value) -> Result<(), Status>;

    /// Stores a value about any process, for this process.
    fn store_internal(&self, proc: &ProcId, key: Key, value: Value) -> Result<(), Status>;

    /// Commits the values that were put.
    fn commit(&self) -> Result<(), Status>;

    /// Finds a value. Without a process it means this process's namespace; without a key, all values of the process.
    fn get(
        &self,
        proc: Option<ProcId>,
        key: Option<Key>,
        directives: Vec<Info>,
        done: Done<Value>,
    ) -> Result<(), Status>;

    /// Runs a job on the thread of callbacks.
    fn defer(&self, job: Box<dyn FnOnce() + Send>) -> Result<(), Status>;

    /// Performs an operation of the host's functions.
    fn perform(&self, operation: Operation, done: Done<Answer>) -> Result<(), Status>;

    /// Registers a handler; a callback gets its number before any event comes.
    fn register_event_handler(
        &self,
        codes: &[Status],
        directives: &[Info],
        handler: EventHandler,
        done: Done<usize>,
    ) -> Result<(), Status>;

    /// The topology of the node as an object for callers.
    fn topology_object(&self) -> Result<*mut c_void, TopologyError>;

    /// The topology of the node as clients get it.
    fn shared_topology(&self) -> Result<Arc<SharedMachine>, TopologyError>;

    /// Ends a registration; `done` is called when its handler runs nowhere.
    fn deregister_event_handler(&self, id: usize, done: Done<()>) -> Result<(), Status>;
}

/// The handler of an event.
pub(super) type EventHandler = Box<dyn Fn(EventCall) + Send + Sync>;
