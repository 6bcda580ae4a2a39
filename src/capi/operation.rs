//! The requests of a client that go up to the host, as one type: each is written once for blocking and other callers,
//! and for processes that are clients and those that are servers.

use std::sync::mpsc;

use super::process::{self, Member};
use crate::api::{Client, Credential, Group, IofOutput, RequestError};
use crate::client::CallError;
use crate::gds::AsStatus;
use crate::types::{App, Info, Key, Namespace, Pdata, ProcId, Query, Status, Text};

/// What is wanted.
pub(super) enum Operation {
    Fence { procs: Vec<ProcId>, directives: Vec<Info> },
    Abort { status: Status, message: String, procs: Vec<ProcId> },
    Publish { info: Vec<Info> },
    Lookup { keys: Vec<Key>, directives: Vec<Info> },
    Unpublish { keys: Vec<Key>, directives: Vec<Info> },
    Spawn { job: Vec<Info>, apps: Vec<App> },
    Connect { procs: Vec<ProcId>, directives: Vec<Info> },
    Disconnect { procs: Vec<ProcId>, directives: Vec<Info> },
    Query { queries: Vec<Query> },
    Log { data: Vec<Info>, directives: Vec<Info> },
    Allocate { directive: u8, info: Vec<Info> },
    JobControl { targets: Vec<ProcId>, directives: Vec<Info> },
    Monitor { monitor: Info, error: Status, directives: Vec<Info> },
    GetCredential { directives: Vec<Info> },
    ValidateCredential { credential: Vec<u8>, directives: Vec<Info> },
    GroupConstruct { id: String, procs: Vec<ProcId>, directives: Vec<Info> },
    GroupDestruct { id: String, directives: Vec<Info> },
    ResolvePeers { node: Option<String>, namespace: Option<Namespace> },
    ResolveNodes { namespace: Option<Namespace> },
    Notify { status: Status, source: Option<ProcId>, range: u8, info: Vec<Info> },
    IofPull { procs: Vec<ProcId>, directives: Vec<Info>, channels: u16, handler: Box<dyn Fn(IofOutput) + Send + Sync> },
    IofDeregister { id: u64, directives: Vec<Info> },
    IofPush { targets: Vec<ProcId>, directives: Vec<Info>, bytes: Vec<u8> },
}

/// How it ended: success or what the host says of results that are not all, and the results.
pub(super) struct Answer {
    pub(super) status: Status,
    pub(super) results: Results,
}

/// What came of it.
pub(super) enum Results {
    None,
    Infos(Vec<Info>),
    Found(Vec<Pdata>),
    Namespace(Namespace),
    Credential(Credential),
    Group(Group),
    Procs(Vec<ProcId>),
    Text(Text),
    Number(u64),
}
