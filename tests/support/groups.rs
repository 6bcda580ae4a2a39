//! Shared parts of tests of groups: a job of clients on one node, and handlers that report their events.

use std::sync::{Arc, Mutex, mpsc};

use modex::types::{Info, Key, ProcId, Status, Value};
use modex::{Client, keys};

use crate::support::{TestServer, proc};

pub(crate) fn info(key: &str, value: impl Into<Value>) -> Info {
    Info::new(Key::new(key.to_owned()).unwrap(), value)
}

pub(crate) fn job(size: u32) -> (TestServer, Vec<Arc<Client>>) {
    let node = TestServer::local();
    node.register_local_job("job", size);
    let clients = (0..size).map(|rank| Arc::new(node.connect("job", rank))).collect();
    (node, clients)
}

/// Reports a client's events with these codes, each with its affected process.
pub(crate) fn hearing(client: &Client, codes: &[Status]) -> mpsc::Receiver<(Status, Option<ProcId>)> {
    let (tell, heard) = mpsc::channel();
    let tell = Mutex::new(tell);
    let handler = move |call: modex::EventCall| {
        let affected = call.info.iter().find(|info| info.key.as_str() == keys::EVENT_AFFECTED_PROC.name());
        let affected = affected.and_then(|info| match &info.value {
            Value::Proc(proc) => Some((**proc).clone()),
            _ => None,
        });
        tell.lock().unwrap().send((call.status, affected)).unwrap();
        call.complete(Status::EVENT_ACTION_COMPLETE, Vec::new());
    };
    client.register_event_handler(codes, &[], handler).wait().unwrap();
    heard
}

pub(crate) fn everybody(size: u32) -> Vec<ProcId> {
    (0..size).map(|rank| proc("job", rank)).collect()
}
