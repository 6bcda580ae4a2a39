//! Calls of the host's functions, and the callbacks that bring their answers.
//!
//! ```text
//! server core ──┐
//!               ├─ Host ── calls: Rust request -> C arguments ── host's function ──> status
//! own process ──┘                                       slot ──────── callback ─────> answer
//! ```
//!
//! - **U1** The memory behind an upcall's pointers belongs to its slot until the host has answered *and* its function
//!   has returned.
//! - **U2** The first of answer and refusal counts. Later answers for a slot change nothing and are logged; memory that
//!   the host wants released is released all the same.
//! - **U3** An answer with data is read inside the callback: the data belongs to the host again when that returns.

mod answers;
mod calls;
mod due;
mod flow;
mod host;
mod host_bytes;

pub(super) use calls::Bridge;
pub(super) use due::abandon_all;
pub(crate) use host::HOST_PIECE_BYTES;
pub(super) use host::ModuleHost;
