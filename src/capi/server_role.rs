//! What client functions mean in a process that is a server and no client.

use super::operation::{Answer, Operation};
use crate::api::EventCall;
use crate::types::{Info, Key, ProcId, Scope, Status, Value};

/// Takes a result, once, on a thread of the library; never from inside the function it was given to.
pub(super) type Done<T> = Box<dyn FnOnce(Result<T, Status>) + Send>;

/// Client functions of a server process: they act on its own store and its host's functions.
///
/// An error of a function with a `done` means that it will not run.
pub(super) trait ServerRole: Send + Sync {
    /// This process's name.
    fn proc(&self) -> &ProcId;

    /// Stores a value that this process posts.
    fn put(&self, scope: Scope, key: Key, value: Value) -> Result<(), Status>;

    /// Stores a value about any process, for this process.
    fn store_internal(&self, proc: &ProcId, key: Key, value: Value) -> Result<(), Status>;

    /// Makes visible what was put.
    fn commit(&self) -> Result<(), Status>;

    /// Finds a value; without a process this one's namespace is meant, without a key all that the process posted.
    fn get(
        &self,
        proc: Option<ProcId>,
        key: Option<Key>,
        directives: Vec<Info>,
        done: Done<Value>,
    ) -> Result<(), Status>;

    /// Runs something where callbacks run.
    fn defer(&self, job: Box<dyn FnOnce() + Send>) -> Result<(), Status>;

    /// Does what the host's functions are for.
    fn perform(&self, operation: Operation, done: Done<Answer>) -> Result<(), Status>;

    /// Registers a handler; `done` gets its number before any event comes.
    fn register_event_handler(
        &self,
        codes: &[Status],
        directives: &[Info],
        handler: EventHandler,
        done: Done<usize>,
    ) -> Result<(), Status>;

    /// Ends a registration; `done` runs when its handler runs nowhere.
    fn deregister_event_handler(&self, id: usize, done: Done<()>) -> Result<(), Status>;
}

/// What is done about an event.
pub(super) type EventHandler = Box<dyn Fn(EventCall) + Send + Sync>;
