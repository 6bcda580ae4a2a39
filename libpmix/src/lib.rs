//! The C interface: what `libpmix.so.2` exports.
//!
//! Every function takes typed arguments (`argument`), converts them (`from_c`), calls `modex`, converts the result
//! (`to_c`) and turns errors into status codes (`guard`). Logic that Rust users need, too, is in `modex`.
//!
//! Rules that hold for all of it:
//! - **M1** Memory that crosses the border in either direction is libc's.
//! - **M2** A blocking function keeps no pointer beyond the call, a `_nb` function none beyond its callback. Data
//!   needed longer are copied.
//! - **C1** No callback runs inside the function that received it, nor with a lock held.
//! - **C2** No panic leaves a function: `guard` turns it into `PMIX_ERROR`.
//!
//! Source: PMIx Standard, all chapters; the binary interface of its releases 3.2 to 6.1.

#![expect(unsafe_code, reason = "C callers hand over pointers; see the rules above")]

pub mod argument;
mod call;
pub mod callback;
mod child_input;
pub mod client;
mod client_request;
pub mod data;
mod descriptors;
pub mod error;
pub mod form;
mod frameworks;
pub mod from_c;
pub mod guard;
pub mod helpers;
pub mod hwloc;
mod lent;
pub mod memory;
pub mod munge;
mod output;
mod own_log;
mod parent;
pub mod pointer;
mod process;
mod repeated_init;
pub mod server;
mod server_role;
mod slots;
mod spoken;
mod stand_in;
mod stdin;
mod stdin_reading;
pub mod to_c;
pub mod tool;
mod tool_directions;
pub mod tool_servers;
pub mod topology;
mod turns;
#[expect(
    non_camel_case_types,
    missing_docs,
    reason = "C programs know these names; the fields are the standard's, described there"
)]
pub mod types;
