//! Shared parts of tests of events: two clients, and handlers that note their events.

use std::sync::{Mutex, mpsc};

use modex::types::{Info, Key, Status, Value};
use modex::{Client, EventCall};

use crate::support::TestServer;

/// The notes of handlers, in order.
#[derive(Clone)]
pub(crate) struct Log {
    seen: mpsc::Sender<String>,
}

impl Log {
    pub(crate) fn new() -> (Self, mpsc::Receiver<String>) {
        let (seen, heard) = mpsc::channel();
        (Self { seen }, heard)
    }

    pub(crate) fn note(&self, what: impl Into<String>) {
        self.seen.send(what.into()).unwrap();
    }

    /// A handler that notes its name and the event's number.
    pub(crate) fn handler(&self, name: &'static str) -> impl Fn(EventCall) + Send + Sync + 'static {
        let log = Mutex::new(self.clone());
        move |call| {
            log.lock().unwrap().note(format!("{name} {}", call.status.to_raw()));
            call.complete(Status::SUCCESS, Vec::new());
        }
    }
}

pub(crate) fn info(key: &str, value: impl Into<Value>) -> Info {
    Info::new(Key::new(key.to_owned()).unwrap(), value)
}

pub(crate) fn two() -> (TestServer, Client, Client) {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (zero, one) = (node.connect("job", 0), node.connect("job", 1));
    (node, zero, one)
}
