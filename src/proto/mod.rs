//! Typed messages of the client/server protocol and their bytes.

mod message;

pub use message::*;
