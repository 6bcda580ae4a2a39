//! The functions of a client: one file for each chapter of the standard.
//!
//! - Every function may be called from any thread, and returns `PMIX_ERR_INIT` before the first and after the last
//!   initialization, if not said otherwise.
//! - Blocking functions keep no argument; functions with a callback have copied what they need when they return. Their
//!   callback runs exactly once if they return `PMIX_SUCCESS`, else never; on the library's thread, after they
//!   returned, with no lock held, so that it may call any function. A NULL callback means that nobody wants to know,
//!   or, where the standard says so, that the caller waits.
//! - Results that the caller is to release are libc's memory. What a callback gets is the library's: valid until it
//!   returns, or until the release function that it was given is called.

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
pub mod security;
pub mod spawn;
pub mod unsupported;

pub(super) use kept_values::KeptValues;
