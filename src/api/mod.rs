//! The Rust interface: [`Server`] with its [`Host`] for launchers of processes, [`Client`] for the processes.

mod border;
mod client;
mod debugger;
mod error;
pub mod errors;
mod events;
pub mod fabrics;
pub mod hardware;
mod inventory_questions;
mod invitations;
mod iof;
mod job_setup;
mod options;
mod own_process;
mod pending;
mod pmi;
mod query_groups;
pub mod registration;
mod requests;
mod round_trip;
mod scheduler;
mod server;
mod server_builder;
mod server_call;
pub mod storage_systems;
mod tool;
mod topology;
mod typed;

pub use crate::client::{CallError, DirectiveError, GetRequestError, StagingError};
pub use crate::events::{DEVICE_FOUND, DEVICE_LOST, Event, RegistrationError};
pub use crate::gds::StoreLimits;
pub use crate::proto::exchange::{
    ExchangeError, ExchangeForm, ExchangeFormError, FenceSource, PackedFence, ProcessData, unpack_direct_modex,
    unpack_fence,
};
pub use crate::proto::service::*;
pub use crate::proto::{Credential, IofPull, Version};
pub use crate::ptl::rendezvous::AddressReport;
pub use crate::ptl::{ForeignClients, Interfaces, InterfacesError, Ports, PortsError, SocketAccess};
#[doc(hidden)]
pub use crate::runtime::TURNS_REPORT;
pub use crate::runtime::{
    AllocationError, Borrowed, Completion, ConnectError, ConnectionLimits, EnvironmentChange, EnvironmentPatterns,
    EventCall, EventError, FabricShortage, FabricSource, FabricSourceError, FactError, FenceReply, Fetched, GroupError,
    Host, HostFacts, LocalHost, LongestTurn, Moment, NoRandomBytes, NotAvailable, PartialAnswer, PatternError,
    PmiChannel, PortShortage, ProofError, Prover, Responder, ServerService, SetupError, StartError, StartedFence,
    StaticPorts, StaticPortsError, Stopped, SystemServer, ToolDirections, ToolError, ToolRole, ToolSupport,
    TopologySharing, TopologySource, Unanswered, UpcallAnswer, Variable, Work,
};
pub use crate::server::{
    AbortUpcall, Capabilities, ClientConnected, ClientFinalized, Connect, Credentials, Delivery, DirectModex,
    FenceData, FenceUpcall, GroupOperation, GroupRequest, IofOutput, OpenOperation, OperationKind, OutputSettings,
    RegisterEvents, Requester, ToolAdmission, ToolKind, ToolUpcall,
};
pub use crate::shmem::BackingKind;
pub use crate::types::AsStatus;
pub use client::{Client, ClientBuilder, Fence, FenceError, Get, GetError};
pub use error::Error;
pub use events::{HandlerEnd, HandlerRegistration, Notification, NotifyError};
pub use inventory_questions::{AskedInventories, InventoryFailure, NoInventory};
pub use invitations::GroupStep;
pub use iof::{Pull, PullEnd};
pub use options::{FenceOptions, GetOptions};
pub use own_process::Find;
pub use pending::{Operation, Pending, PendingFuture};
pub use round_trip::{Answered, Group, RequestError, RoundTrip};
pub use server::Server;
pub use server_builder::{BuildError, ServerBuilder};
pub use server_call::{ServerCall, ServerError};
#[doc(hidden)]
pub use tool::Roster;
pub use tool::{AttachError, Tool, ToolBuilder};
pub use topology::{Hwloc, KnownTopology};
pub use typed::KeyType;
