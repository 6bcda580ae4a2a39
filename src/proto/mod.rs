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
//! [`request`] and [`reply`] find the layout of a message by its command. `services` is the table of the requests that
//! a host answers. The layouts of the others stand in one file for each family of commands, and serve both directions.
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
mod event;
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
mod output;
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
mod topology;
mod unpacked;
mod version;

pub use command::Command;
pub use contributions::contributions;
pub use group::info_signed_by;
pub use job_info::{JobInfoWriter, is_for_peers};
pub use message::*;
pub use service::*;
pub(crate) use services::with_services;
pub use tag::Tag;
pub use unpacked::unpacked_bytes;
pub use version::{Dialect, Version};
