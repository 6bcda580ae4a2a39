//! The captured sessions of OpenPMIx 3.2 to 6.1 (`tests/vectors`) as conversations. They play the client against our
//! real server (`server_side`), and the server against our real client (`client_side`). Every message of the captured
//! side is sent unchanged, and our side's messages are compared with the captured ones. Our server gets from its host
//! the data that captured servers gave to theirs (`nodes`).
//!
//! Only two things change: the ids in the credential, and the rank of the process beside the captured one. The ids must
//! be those of the test's user.

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
