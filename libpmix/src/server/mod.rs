//! The server's half of the C interface: functions that hosts call, and calls of the functions that hosts provide.
//!
//! - Every function may be called from any thread, also from the host's own functions and callbacks. Before the first
//!   and after the last `PMIx_server_init` it returns `PMIX_ERR_INIT`.
//! - In a forked child `PMIx_server_setup_fork` and functions that need no server work. They never wait for a lock that
//!   a thread of the parent held. All others return `PMIX_ERR_INIT` there.
//! - Functions with a callback have copied their arguments when they return `PMIX_SUCCESS`. The callback runs exactly
//!   once, on the thread of the host's functions, after the function returned, with no lock held. With a NULL callback
//!   the caller waits, and a success is `PMIX_OPERATION_SUCCEEDED`.
//! - The host's functions are called one at a time on that thread, in the order of the requests. Requests of the host's
//!   own process run on the thread that makes them.

pub mod attributes;
mod child_watch;
mod children;
mod completion;
mod description;
pub mod dmodex;
mod environment;
pub mod fork;
mod forkable;
mod forking;
mod hold;
pub mod inventory;
pub mod iof;
pub mod lifecycle;
mod local_output;
mod long_work;
pub mod maps;
mod misread;
mod module;
mod open_work;
mod options;
mod own;
pub mod psets;
pub mod registration;
pub mod setup;
mod state;
mod tcp;
mod text;
mod topology_options;
pub mod unsupported;
mod upcall;

pub(crate) use forking::{is_forking, spawn as spawn_children};
pub(crate) use lifecycle::{end_of_tool, serve_launcher, serve_tool};
pub use module::ModulePointer;
pub(crate) use options::is_server_option;
pub(crate) use state::own_fabric;
pub(crate) use upcall::HOST_PIECE_BYTES;
