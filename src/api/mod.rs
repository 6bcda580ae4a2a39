//! What Rust users see: [`Server`] with its [`Host`] for those who start processes, [`Client`] for the processes.

mod client;
mod events;
mod options;
mod server;
mod typed;

pub use crate::client::{CallError, DirectiveError, Refusal, StagingError};
pub use crate::events::{Event, RegistrationError};
pub use crate::ptl::SocketAccess;
pub use crate::runtime::{
    Answer, ClientConnected, ClientFinalized, Completion, ConnectError, ConnectionLimits, DirectModex, EventCall,
    FenceReply, Fetched, Host, LocalHost, Moment, Pending, Responder, StartError, Stopped,
};
pub use crate::server::{AbortUpcall, Capabilities, FenceData, FenceUpcall, RegisterEvents};
pub use crate::shmem::BackingKind;
pub use client::{Client, ClientBuilder, FenceError, GetError};
pub use options::{FenceOptions, GetOptions};
pub use server::{BuildError, Server, ServerBuilder, ServerError};
pub use typed::KeyType;
