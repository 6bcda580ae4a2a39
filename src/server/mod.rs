//! The server core: makes the decisions of a PMIx server, without sockets, clocks, threads or bytes.
//!
//! The interface: [`Server::handle`] takes an [`Input`], [`Server::poll_output`] returns the next [`Output`],
//! [`Server::poll_timeout`] says when to come back with [`Input::Timeout`], and getters read. Outputs must be executed
//! in order: `handle` publishes data itself, so a reply never overtakes the data that it announces.
//!
//! The files: `core` dispatches. `session`, `namespaces`, `commit`, `get`, `direct_modex`, `resolve`, `events` and
//! `upcalls` each decide one family of inputs. `rendezvous` holds the common part of all operations of many processes,
//! `fence`, `connect` and `group` the rest; `catch_up` handles fences that this server missed. `passage` takes requests
//! up to a host that alone can answer them, `requests` has their form there, `forwarding` brings output down. `access`
//! holds the permission table, and every request asks it. `registry`, `changes`, `waiting`, `collective`, `interest`,
//! `pending`, `timers` and `outputs` hold state and no policy.
//!
//! Invariants after every input (checked by [`Server::assert_consistent`]):
//! - Every accepted request is one `outputs::Ticket`, held in exactly one place, and gets exactly one reply: at
//!   completion, on an error, or at a deadline. A ticket ends without a reply only when its connection has ended.
//! - No request waits for data that is already here: a held Get has no answer in the store, and a gathering fence lacks
//!   a participant.
//! - Operations of one signature end in the order in which they opened. Older values never replace newer ones of
//!   another node: exchanged values carry their commit number (key `pmix.modex.commit`).
//! - Every deadline belongs to an open request, operation or upcall.
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

mod dispatch;
mod interface;
mod rules;
mod state;

pub use dispatch::core::Server;
pub use interface::config::{Capabilities, Config, Contact, Limits, ToolAdmission, ToolPolicy};
pub use interface::host::{
    AbortUpcall, CallId, DirectModexRequest, FenceData, FenceUpcall, HostCall, HostReply, HostResult, OwnGet,
    ProcessFacts, ProcessSet, RegisterClient, RegisterEvents, RegisterNamespace, ToolUpcall, Upcall, UpcallId,
};
pub use interface::io::{
    Credentials, Forwarded, Garbage, Hello, Input, NodeHardware, Output, PeerId, Reason, Refusal, StoreOffer,
    ToolHello, ToolKind, TopologyQuestion, Version,
};
pub use interface::job_data::JobData;
pub use interface::requests::{Connect, GroupOperation, GroupRequest, IofOutput, Requester};
pub use rules::cleanup::{Cleanup, DirectoryRules};
pub use rules::host_request::AnswerForm;
pub use rules::inventory::INVENTORY;
pub use rules::topology::TOPOLOGY;
pub(crate) use state::shares::UserShares;

#[cfg(test)]
mod tests;
