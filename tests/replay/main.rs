//! The captured sessions of OpenPMIx 3.2 to 6.1 (`tests/vectors`) as conversations: they play the client against our real
//! server (`server_side`), and the server against our real client (`client_side`). Every message of the captured side is
//! sent as it was, and what our side says is compared with what the captured one said. What captured servers handed to their
//! hosts reaches our server from its own (`nodes`).
//!
//! Changed are only the ids in the credential, which have to be those of whoever runs the test, and the rank where the
//! process beside the captured one is played.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod client_side;
mod host;
mod meaning;
mod nodes;
mod player;
mod server_side;
#[path = "../support/mod.rs"]
mod support;
mod tools;
mod vectors;
