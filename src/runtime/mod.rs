//! The only threads and clocks of the library; they drive the cores.
//!
//! Rooms: `client` and `server` have the two sides, `shared` has what both need. `client` and `server` do not know each
//! other.
//!
//! - A server has one thread (`server_loop`), which waits for sockets, deadlines and calls of other threads. It does a
//!   bounded amount of work for each per turn.
//! - The server's own process asks without messages (`own_process`, `own_values`). `job_setup` and `host_facts` keep
//!   data for the host: what jobs get beside their description, and answers to queries about it.
//! - The server's thread also answers requests for published data, if this is switched on (`name_desk`).
//! - A second thread calls the host's functions (`host_thread`), so they may wait for the server.
//! - While the first thread waits, a call of the host takes a turn on the caller's thread (`loop_messages`).
//! - A server that gets a large message has a third thread, which decodes and encodes large messages (`decoder`).
//! - A client has no thread. Callers that wait for the server take turns at its socket (`link`). The first callback or
//!   event handler starts a thread for callbacks and handlers.
//! - Event handlers (`events`) run on that thread. Handlers in the server's own process run on the thread that calls
//!   the host.
//!
//! No lock is held during a wait, and no function of a user is called with a lock held, except `Host::observed`.
//!
//! ```text
//! api threads ── messages ──► server_loop ── Input ──► server core
//!                 (waker)       │  ▲    ◄── Output ──┘
//!      host_thread ◄── upcalls ─┘  └── connections ◄──► sockets
//!
//! session ── peek ──► segment
//!    └────── call ──► link ── Input ──► client core
//!                      ▲  ◄── Output ──┘
//!                      └── link_state ◄──► socket
//! ```

mod client;
mod server;
mod shared;

#[doc(hidden)] // For the command.
pub use server::poller;

#[doc(hidden)] // For the C library.
pub use server::understood::{self, attributes_of_library};

#[doc(hidden)]
pub use crate::shmem::ForkMark;
pub use client::alone::{alone, alone_as};
pub use client::attach::{CONNECT_TIME_MAX, ConnectError, UnreachableReason, connect, launched_as};
pub use client::channel_session::{to_launcher, to_parent};
pub use client::fetched::{Borrowed, FetchError, Fetched};
pub use client::forwarding::OutputHandler;
pub use client::group_error::GroupError;
pub use client::invite::{Formed, GroupCallback};
pub use client::session::Session;
pub use client::started_fence::StartedFence;
pub use client::tool::{
    Look, SystemServer, TOOL_TIME_MAX, ToolDirections, ToolError, connect_singleton, connect_to_parent, connect_tool,
    locate, parent_address, wait_for_server,
};
pub use server::connection_limits::ConnectionLimits;
pub use server::fabric_source::{FabricSource, FabricSourceError};
pub use server::host::{FenceReply, Host, LocalHost, Moment, PartialAnswer, Responder, UpcallAnswer};
pub use server::host_facts::{FactError, HostFacts, available_servers};
pub(crate) use server::job_setup::seconds_of;
pub use server::job_setup::{
    AllocationError, Described, EnvironmentChange, EnvironmentPatterns, FabricShortage, JobSetup,
    NamespaceRegistration, NoRandomBytes, NotAvailable, PatternError, PortShortage, QueuedSetup, SetupError,
    StaticPorts, StaticPortsError, Unanswered, Variable, variables_of_open_mpi,
};
pub use server::own_process::{FindRequest, OwnProcess};
pub use server::own_values::OwnValues;
pub use server::pmi::{PmiChannel, PmiRefusal};
pub use server::server_handle::tool_support::{ToolRole, ToolSupport};
pub use server::server_handle::{ServerHandle, ServerOptions, StartError};
pub use server::topology::{NodeTopology, TopologyOptions, TopologySharing, TopologySource};
pub use server::transport_keys::TRANSPORT_KEY_VARIABLE;
pub use server::understood::ServerService;
#[doc(hidden)]
pub use server::work::TURNS_REPORT;
pub use server::work::{LongestTurn, Work};
pub use shared::clock::SharedTime;
pub use shared::data_form::DataForm;
pub use shared::event_error::{EventError, Stopped};
pub use shared::events::{Completion, EventCall, Handler};
pub(crate) use shared::handler_calls;
pub use shared::local::{
    environment, has_more_rights_than_its_starter, has_variable_with_prefix, hostname, system_directory,
    temporary_directory, trusted_variable,
};
pub use shared::parameters::{
    DISABLE_IPV4, DISABLE_IPV6, IF_EXCLUDE, IF_INCLUDE, IPV4_PORTS, IPV6_PORTS, NAMED_SERVERS, NamedServer, PARAMETERS,
    Parameter, ParameterEffect, ParameterForm, ParameterPortsError, REPORT_URI, SECURITY_MODULES, TAG_OUTPUT,
    TIMESTAMP_OUTPUT, XML_OUTPUT, named_servers, names_module, parameter_flag, parameter_origin, parameter_ports,
    parameter_value, tell_of_parameters, verbose_areas,
};
pub use shared::prover::{ProofError, Prover};
pub use shared::regular_file::open as open_regular_file;
pub use shared::threads::{
    ActingThread, act_as, acting_thread, handle_all, is_thread_of_library, open_inherited_pipe, spawn as spawn_thread,
    watch_for_end,
};
