//! The only threads and clocks of the library; they drive the cores.
//!
//! - A server has one thread of its own (`server_loop`), which waits for sockets, deadlines and calls of other threads.
//!   It does a bounded amount of work for each per turn.
//! - A second thread calls the host's functions (`host_thread`), so they may wait for the server.
//! - While the first thread waits, a call of the host takes a turn on the caller's thread (`commands`).
//! - A server that gets a large message has a third thread, which decodes and encodes large messages (`decoder`).
//! - A client has none. Threads that wait for the server take turns at its socket (`link`). The first callback or event
//!   handler starts a thread for callbacks and handlers.
//! - Event handlers (`events`) run on that thread. Handlers in the server's own process run on the thread that calls
//!   the host.
//!
//! No lock is held during a wait, and no function of a user is called with a lock held, except `Host::observed`.
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
mod cleaner;
mod clock;
mod commands;
mod connection;
mod connection_limits;
mod connections;
mod decoder;
mod derived;
mod duplicate_rank_check;
mod event_error;
mod events;
mod exchange;
mod fetched;
mod forwarding;
mod greeting;
mod group_error;
mod group_info;
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
mod lifecycle_observer;
mod link;
mod link_state;
mod listeners;
mod local;
mod message_codec;
mod newcomers;
mod peer_profile;
mod pending;
mod plain;
mod poller;
mod process_ends;
mod progress;
mod prover;
mod readers;
mod received;
mod request_quota;
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
mod work;
mod writes;
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
