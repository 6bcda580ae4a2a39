//! The server core: makes the decisions of a PMIx server, without sockets, clocks, threads or bytes.
//!
//! The interface: [`ServerCore::handle`] takes an [`Input`], [`ServerCore::poll_output`] returns the next [`Output`],
//! [`ServerCore::poll_timeout`] says when to come back with [`Input::Timeout`], and getters read. Outputs must be
//! executed in order: `handle` publishes data itself, so a reply never overtakes the data that it announces.
//!
//! | room | owns |
//! |---|---|
//! | `interface` | the types that other modules name: inputs, outputs, calls and upcalls of the host, configuration |
//! | `state` | the [`ServerCore`] and its parts, each with the methods that change it; no policy |
//! | `rules` | the decisions, as further methods of the server, one family in a file |
//! | `dispatch` | the doors: each input goes to its rule, and outputs come out; checks of the whole state |
//!
//! A room names only rooms above it in this table.
//!
//! Invariants after every input (checked by [`ServerCore::assert_consistent`]):
//! - Every accepted request is one `state::Ticket`, held in exactly one place, and gets exactly one reply: at
//!   completion, on an error, or at a deadline. A ticket ends without a reply only when its connection has ended.
//! - No request waits for data that is already here: a held Get has no answer in the store, and a gathering fence lacks
//!   a participant.
//! - Operations of one signature end in the order in which they opened. Older values never replace newer ones of
//!   another node: exchanged values carry their commit number (key `pmix.modex.commit`).
//! - Every deadline belongs to an open request, operation or upcall.
//!
//! ```
//! use modex::gds::model::MapStore;
//! use modex::server::{
//!     HostCall, HostCallId, HostResult, Input, Output, RegisterNamespace, ServerConfig, ServerCore,
//! };
//! use modex::types::{Namespace, Status, Time};
//!
//! let mut server = ServerCore::new(ServerConfig::default(), MapStore::new());
//! let job = Namespace::new("job").unwrap();
//! let call = HostCall::RegisterNamespace(RegisterNamespace {
//!     namespace: job,
//!     local_count: Some(1),
//!     description: Vec::new().into(),
//!     nodata: false,
//! });
//! server.handle(Time::ZERO, Input::Host(HostCallId(1), call));
//! let expected = Output::Complete(HostCallId(1), HostResult::Status(Status::SUCCESS));
//! assert!(std::iter::from_fn(|| server.poll_output()).any(|output| output == expected));
//! ```

mod dispatch;
mod interface;
mod rules;
mod state;

pub(crate) use interface::config::ServiceRules;
pub(crate) use rules::{MONITORED_MAX, MonitoredProcess, UNDERSTOOD_OF_NUMBERS, UNDERSTOOD_OF_OUTPUT, has_false_claim};

pub use interface::answer::{Answer, TopologyQuestion};
pub use interface::cleanup::{Cleanup, DirectoryRules};
pub use interface::config::{Capabilities, Contact, Limits, ServerConfig, ToolAdmission, ToolPolicy};
pub use interface::connection::{
    Credentials, Hello, PeerId, StoreOffer, ToolHello, ToolKind, UNDERSTOOD_OF_ATTACHING, UNDERSTOOD_OF_NEW_TOOLS,
};
pub use interface::hardware_value::HardwareAnswer;
pub use interface::host::{
    AbortUpcall, ClientConnected, ClientFinalized, Contribution, Delivery, DirectModex, DirectModexRequest, FenceData,
    FenceUpcall, HostCall, HostCallId, HostData, HostReply, HostResult, OwnGet, OwnQuery, ProcessFacts, ProcessSet,
    RegisterClient, RegisterEvents, RegisterNamespace, ToolUpcall, Upcall, UpcallId,
};
pub use interface::io::{EventDelivery, FileLook, FileState, Forwarded, Garbage, Input, NodeHardware, Output};
pub use interface::job_data::JobData;
pub use interface::open_operation::{OpenOperation, OperationKind};
pub(crate) use interface::output_settings::OUTPUT_DIRECTIVES;
pub use interface::output_settings::OutputSettings;
pub use interface::own_keys::{ALL_INVENTORIES, CURRENT_INVENTORY, INVENTORY, MISSED_OUTPUT, TOPOLOGY};
#[cfg(test)]
pub(crate) use interface::query_answers::QueryAnswer;
pub use interface::query_answers::QueryAnswers;
pub(crate) use interface::query_answers::{QUERY_QUALIFIERS, supported_keys};
pub use interface::refusal::{Reason, Refusal};
pub(crate) use interface::requests::SIGNATURE;
pub use interface::requests::{Connect, GroupOperation, GroupRequest, IofOutput, Requester};
pub(crate) use interface::services::FACTS_OF_SPAWN;
pub use interface::unread::{AnswerData, CommittedValues, ProcessAnswer};
pub(crate) use interface::{find, flag, requires_more_than, timeout};
pub(crate) use state::for_runtime;
pub use state::server::ServerCore;
pub(crate) use state::shares::UserShares;
pub(crate) use state::{
    CLEANUP_PATHS, CLEANUP_RULES, UNDERSTOOD_OF_CONNECTIONS, UNDERSTOOD_OF_FENCES, UNDERSTOOD_OF_FILES,
    UNDERSTOOD_OF_GROUP_ENDS, UNDERSTOOD_OF_GROUPS, UNDERSTOOD_OF_HEARTBEATS,
};

#[cfg(test)]
mod tests;
