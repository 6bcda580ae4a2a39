//! The functions of a client: one file for each chapter of the standard.
//!
//! - Every function may be called from any thread. Unless said otherwise, it returns `PMIX_ERR_INIT` before the first
//!   and after the last initialization.
//! - Blocking functions keep no argument; functions with a callback have copied their arguments when they return. If
//!   they return `PMIX_SUCCESS`, their callback runs exactly once, else never. It runs on the library's thread or inside
//!   `PMIx_Progress` (`turns`), after they returned, with no lock held, so it may call any function. With a NULL callback the result is dropped or,
//!   where the standard says so, the caller waits.
//! - Results that the caller releases are libc's memory. A callback's arguments belong to the library: they are valid
//!   until it returns, or until it calls the release function.

mod asynchronous;
pub mod control;
pub mod data;
pub(super) mod debugger;
pub mod events;
pub mod fence;
pub mod group;
pub mod invite;
pub mod iof;
mod kept_values;
pub mod lifecycle;
pub mod publish;
pub mod query;
pub mod resolve;
pub mod scheduler;
pub mod security;
pub mod spawn;
pub mod unsupported;
pub mod vertices;

pub(super) use kept_values::KeptValues;
