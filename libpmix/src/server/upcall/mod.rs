//! Calls of the host's functions, and the callbacks that bring their answers.
//!
//! ```text
//! server core ── Host ──┐
//!                       ├─ calls: Rust request -> C arguments ── host's function ──> status
//! own process ── own ───┘                              slot ──────── callback ─────> answer
//! ```
//!
//! - **U1** What an upcall's pointers point to belongs to its slot, until the host has answered *and* its function has
//!   returned, whichever is later.
//! - **U2** The first of answer and refusal counts. Whatever comes for a slot afterwards changes nothing and is said
//!   once; what the host wants released is released all the same.
//! - **U3** An answer that brings data is read inside the callback: the data is the host's again when that returns.

mod answers;
mod calls;
mod due;
mod host;
mod host_bytes;

pub(super) use calls::Bridge;
pub(super) use due::{Due, abandon_all};
pub(super) use host::ModuleHost;
