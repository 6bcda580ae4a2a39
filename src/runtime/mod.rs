//! The only threads and clocks: what drives the cores.
//!
//! - A server has one thread of its own (`server_loop`), which waits for sockets, deadlines and other threads' calls and
//!   does a bounded amount of work for each per turn; and one for its host's functions (`host_thread`), so that they may
//!   wait for the server. While the first waits, a call of the host takes a turn on its own thread (`commands`).
//! - A server that gets a large message has a third one, which decodes and encodes those (`decoder`).
//! - A client has none. Threads that wait for the server take turns at its socket (`link`); a thread for callbacks and
//!   event handlers is started when the first one is given.
//! - Event handlers (`events`) run on the thread for callbacks, those of the server's own process on the thread of the
//!   host's functions.
//!
//! No lock is held while anybody waits, and no function of a user is called with a lock held, except `Host::observed`.
//!
//! ```text
//! api threads ── commands ──► server_loop ── Input ──► server core
//!                 (waker)       │  ▲    ◄── Output ──┘
//!      host_thread ◄── upcalls ─┘  └── connections ◄──► sockets
//!
//! session ── peek ──► segment
//!    └────── call ──► link ── Input ──► client core
//!                      ▲  ◄── Output ──┘
//!                      └── link_state ◄──► socket
//! ```

mod alone;
mod attach;
mod burdens;
mod claims;
mod cleaner;
mod clock;
mod commands;
mod connection;
mod connection_limits;
mod connections;
mod decoder;
mod derived;
mod event_error;
mod events;
mod exchange;
mod fetched;
mod forwarding;
mod gifts;
mod greeting;
mod group_error;
mod groups;
pub(crate) mod handler_calls;
mod held;
mod host;
mod host_thread;
mod inflated;
mod invite;
mod job_info;
mod job_queue;
mod kernel_inventory;
mod lines;
mod link;
mod link_state;
mod listeners;
mod local;
mod manners;
mod newcomers;
mod pending;
mod plain;
mod poller;
mod process_ends;
mod progress;
mod prover;
mod readers;
mod received;
mod server_events;
mod server_handle;
mod server_loop;
mod session;
mod session_events;
mod session_topology;
mod stores;
mod threads;
mod tool;
mod tool_search;
mod tool_support;
mod topology;
mod topology_answers;
mod turns;
mod watch;
mod watchers;
mod whereabouts;
mod witness;
mod work;
mod written_event;

#[doc(hidden)]
pub use crate::shmem::ForkMark;
pub use alone::{alone, alone_as};
pub use attach::{CONNECT_TIME_MAX, ConnectError, connect, launched_as};
pub use connection_limits::ConnectionLimits;
pub use event_error::EventError;
pub use events::{Completion, EventCall, Handler};
pub use fetched::{Borrowed, Fetched};
pub use forwarding::OutputHandler;
pub use group_error::GroupError;
pub use host::{
    Answer, ClientConnected, ClientFinalized, DirectModex, FenceReply, Host, LocalHost, Moment, PartialAnswer,
    Responder,
};
pub use invite::{Formed, GroupCallback};
pub use kernel_inventory::kernel_inventory;
pub use local::{
    environment, has_more_rights_than_its_starter, has_variable_with_prefix, hostname, temporary_directory,
    trusted_variable,
};
pub use pending::Pending;
pub use prover::{ProofError, Prover};
pub use server_handle::{ServerHandle, ServerOptions, StartError, Stopped};
pub use session::{FetchError, Session};
pub use threads::watch_for_end;
pub use tool::{SystemServer, ToolDirections, ToolError, connect_singleton, connect_tool, locate, parent_address};
pub use tool_support::ToolSupport;
pub use topology::{NodeTopology, TopologyOptions, TopologySharing, TopologySource};
#[doc(hidden)]
pub use work::TURNS_REPORT;
pub use work::{LongestTurn, Work};
