//! Typed messages of the client/server protocol and their bytes.
//!
//! ```text
//! connect message, answer          handshake
//! frame = header + payload         frame
//!   tag 101 ...  request, reply    request, reply
//!   tag 0, 2, 64 notices           notification
//!   parts of job information       job_blob
//! server <-> server                blob, exchange
//! ```
//!
//! `services` is the table of all requests. [`request`] and [`reply`] find the layout of a message there, by its
//! command. A layout stands beside the type of the message, and serves both directions. A layout that is more than a
//! list of fields has a file for its family of commands.
//!
//! A [`Dialect`] is the agreement of a connection's two ends: the client's encoding, and the peer's release, because
//! some messages changed their layout between releases.
//!
//! Source: OpenPMIx wire protocol 3.2 to 6.1.

pub mod blob;
mod collective;
mod command;
mod contributions;
mod data;
pub mod exchange;
mod fitting;
pub mod frame;
mod get;
mod group;
pub mod handshake;
mod host_order;
pub mod job_blob;
mod job_info;
mod layout;
mod message;
mod named;
pub mod notification;
mod process;
pub mod reply;
pub mod request;
pub(crate) mod service;
mod services;
#[cfg(test)]
mod strategies;
mod tag;
#[cfg(test)]
mod tests;
mod unpacked;
mod version;

pub use command::Command;
pub use contributions::{ENDPOINT_BYTES_MAX, contributions, endpoints, owner_of_endpoints};
pub use group::info_signed_by;
pub use job_info::{JobInfoWriter, is_for_peers};
pub use message::*;
pub use request::Request;
pub use service::*;
pub(crate) use services::with_services;
pub use tag::Tag;
pub use unpacked::unpacked_bytes;
pub use version::{Dialect, Version};
