//! The server core: decides what a PMIx server does, without sockets, clocks, threads or bytes.
//!
//! Four doors: [`Server::handle`] takes an [`Input`], [`Server::poll_output`] gives the next [`Output`],
//! [`Server::poll_timeout`] says when to come back with [`Input::Timeout`], and read-only getters. Outputs are to be
//! executed in order: data is published inside `handle`, so a reply never overtakes what it announces.
//!
//! The files: `core` dispatches; `session`, `namespaces`, `commit`, `get`, `direct_modex`, `resolve`, `events` and `upcalls`
//! decide one family of inputs each. `rendezvous` is what all operations of many processes share, `fence`, `connect` and
//! `group` are what they do not; `catch_up` is for fences that went by this server. `passage` takes up to the host what only the host can answer, `requests` is how it looks
//! there, `forwarding` brings output down. `access` holds the table of who may do what to whom, and every request asks it. `registry`, `changes`, `waiting`, `collective`, `interest`, `pending`, `timers` and
//! `outputs` hold state and know no policy.
//!
//! What holds after every input (checked by [`Server::assert_consistent`]):
//! - Every accepted request is one `outputs::Ticket`, held in exactly one place, and is answered exactly once: by
//!   completion, by an error, or by a deadline. A ticket ends unanswered only when its connection has ended.
//! - Nothing waits for what is already there: a held Get has no answer in the store, a gathering fence lacks somebody.
//! - Operations of one signature end in the order in which they opened, and values of another node are never replaced by
//!   older ones: what servers exchange carries the number of the commit it includes (key `pmix.modex.commit`).
//! - Every deadline belongs to something that is still open.
//!
//! ```
//! use modex::gds::model::MapStore;
//! use modex::server::{CallId, Config, HostCall, HostResult, Input, Output, RegisterNamespace, Server};
//! use modex::types::{Namespace, Status, Time};
//!
//! let mut server = Server::new(Config::default(), MapStore::new());
//! let job = Namespace::new("job").unwrap();
//! let call = HostCall::RegisterNamespace(RegisterNamespace {
//!     namespace: job,
//!     local_count: Some(1),
//!     description: Vec::new().into(),
//!     nodata: false,
//! });
//! server.handle(Time::ZERO, Input::Host(CallId(1), call));
//! let expected = Output::Complete(CallId(1), HostResult::Status(Status::SUCCESS));
//! assert!(std::iter::from_fn(|| server.poll_output()).any(|output| output == expected));
//! ```

mod access;
mod ahead;
mod board;
mod catch_up;
mod changes;
mod cleanup;
mod collective;
mod commit;
mod config;
mod connect;
mod consistency;
mod core;
mod derived;
mod direct_modex;
mod directives;
mod events;
mod fence;
mod forwarding;
mod get;
mod group;
mod heartbeats;
mod holdings;
mod host;
mod intake;
mod interest;
mod inventory;
mod io;
mod job_data;
mod namespaces;
mod outputs;
mod passage;
mod peer;
mod pending;
mod psets;
mod query;
mod registry;
mod rendezvous;
mod requests;
mod resolve;
mod session;
mod shares;
mod signature;
mod slices;
mod ties;
mod timers;
mod tools;
mod topology;
mod transitions;
mod upcalls;
mod waiting;

pub use cleanup::{Cleanup, DirectoryRules};
pub use config::{Capabilities, Config, Contact, Limits, ToolAdmission, ToolPolicy};
pub use core::Server;
pub use host::{
    AbortUpcall, CallId, DirectModexRequest, FenceData, FenceUpcall, HostCall, HostReply, HostResult, OwnGet,
    ProcessFacts, ProcessSet, RegisterClient, RegisterEvents, RegisterNamespace, ToolUpcall, Upcall, UpcallId,
};
pub use inventory::INVENTORY;
pub use io::{
    Credentials, Forwarded, Garbage, Hello, Input, NodeHardware, Output, PeerId, Reason, Refusal, StoreOffer,
    ToolHello, ToolKind, TopologyQuestion, Version,
};
pub use job_data::JobData;
pub use requests::{
    Allocate, Connect, Credential, CredentialRequest, GroupOperation, GroupRequest, IofOutput, IofPull, JobControl,
    Log, Lookup, Monitor, Publish, PushStdin, QueryRequest, Requester, Spawn, Unpublish, ValidateRequest,
};
pub(crate) use shares::UserShares;
pub use topology::TOPOLOGY;

#[cfg(test)]
mod tests;
