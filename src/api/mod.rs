//! The Rust interface: [`Server`] with its [`Host`] for launchers of processes, [`Client`] for the processes.

mod asks;
mod border;
mod client;
mod error;
mod events;
mod invitations;
mod iof;
mod options;
mod requests;
mod server;
mod server_builder;
mod tool;
mod topology;
mod typed;

pub use crate::client::{CallError, DirectiveError, Refusal, StagingError};
pub use crate::events::{Event, RegistrationError};
pub use crate::proto::exchange::{
    ExchangeError, ExchangeForm, ExchangeFormError, ProcessData, unpack_direct_modex, unpack_fence,
};
pub use crate::ptl::rendezvous::AddressReport;
pub use crate::ptl::{ForeignClients, SocketAccess};
#[doc(hidden)]
pub use crate::runtime::TURNS_REPORT;
pub use crate::runtime::{
    Answer, ClientConnected, ClientFinalized, Completion, ConnectError, ConnectionLimits, DirectModex, EventCall,
    EventError, FenceReply, Fetched, GroupError, Host, LocalHost, LongestTurn, Moment, PartialAnswer, Pending,
    ProofError, Prover, Responder, StartError, Stopped, SystemServer, ToolDirections, ToolError, ToolSupport,
    TopologySharing, TopologySource, Work,
};
pub use crate::server::{
    AbortUpcall, Allocate, Capabilities, Connect, Credential, CredentialRequest, FenceData, FenceUpcall,
    GroupOperation, GroupRequest, IofOutput, IofPull, JobControl, Log, Lookup, Monitor, Publish, PushStdin,
    QueryRequest, RegisterEvents, Requester, Spawn, ToolAdmission, ToolKind, ToolUpcall, Unpublish, ValidateRequest,
};
pub use crate::shmem::BackingKind;
pub use crate::types::AsStatus;
pub use asks::{Answered, Group, RequestError};
pub use client::{Client, ClientBuilder, FenceError, GetError};
pub use error::Error;
pub use options::{FenceOptions, GetOptions};
pub use server::{Server, ServerError};
pub use server_builder::{BuildError, ServerBuilder};
#[doc(hidden)]
pub use tool::Roster;
pub use tool::{AttachError, Tool, ToolBuilder};
pub use topology::{Hwloc, KnownTopology};
pub use typed::KeyType;
