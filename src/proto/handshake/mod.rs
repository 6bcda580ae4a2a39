//! The first bytes on a connection, before there are frames.
//!
//! ```text
//! client                               server
//! connect header (host order), Connect ->
//!                                      <- Answer: status, then the client's index      (clients)
//!                                      <- ToolAnswer: status, identities, status       (tools)
//! frames                               frames
//! ```
//!
//! Our own peers name [`STORE_MODEX`] as their store module; in all else they act like foreign peers.
//!
//! Source: OpenPMIx wire protocol 3.2 to 6.1, "Connection handshake".

mod answer;
mod connect;
#[cfg(test)]
mod tests;

pub use answer::{HandshakeAnswer, ToolAnswer};
pub use connect::{
    CONNECT_BYTES_MAX, CONNECT_HEADER_BYTES, Connect, HandshakeError, INIT_BEGUN, Ids, Role, SECURITY_MUNGE,
    SECURITY_NATIVE, SECURITY_NONE, STORE_HASH, STORE_MODEX, connect_body_size, native_credential,
};
