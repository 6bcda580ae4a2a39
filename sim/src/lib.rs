//! A cluster in one process: the real server and client cores, and everything around them played.
//!
//! ```text
//!            host: joins operations, carries fetches, answers late, twice, never ...
//!               ^ upcalls, completions            | answers, calls
//!               |                                 v
//!   node 0: server core + store     node 1: server core + store     ...
//!               ^ requests (in order, delayed)    | replies
//!               |                                 v
//!   process: client core, staging, mapping of its server's segment;  program: put, commit, meet, get
//! ```
//!
//! A seed and a [`Setup`] decide everything: there is no clock, thread, socket or environment here. Time is virtual,
//! and events wait in one `queue`. Each concern draws from its own stream of random numbers (`random`), and every map
//! is ordered. So a seed replays step for step.
//!
//! State lies in files that do not know `World`. `world` holds all of it. The steps are methods of `World` in
//! `actions`, and `run` calls them as events happen.
//!
//! After every step the rules of `invariants` hold, or the run ends with a [`Broken`]. The checker knows nothing of the
//! cores' insides. It keeps its own account of requests, of arrivals at operations (`local_collectives`) and of puts; a
//! value carries the process that put it (`value`). Defects planted in this crate's wiring show that the checker works
//! ([`Canary`]).
//!
//! Other tests cover the rest:
//!
//! - system calls, threads, and a client whose server is gone (`tests/errno`, `tests/liveness.rs`, `runtime/link.rs`);
//! - ten thousand lives of one process (`tests/reinit.rs`);
//! - bytes (`proto`, `fuzz`);
//! - tools and clients of other libraries.

mod actions;
mod allocations;
mod bootstraps;
mod departures;
mod fault_schedule;
mod faults;
mod host;
mod hosted_groups;
mod invariants;
mod invitations;
mod invited_groups;
mod local_collectives;
mod output_pulls;
mod process;
mod program;
mod queue;
mod random;
mod registration;
mod rule;
mod run;
#[path = "../../examples/support/scheduler.rs"]
mod scheduler;
mod setup;
mod shrink;
mod store;
mod trace;
mod value;
mod world;

pub use faults::{Canary, Faults, UnknownFault};
pub use rule::{Broken, Rule};
pub use run::{Report, run, run_in_words, run_twice};
pub use setup::Setup;
pub use shrink::{Shortest, shrink};

#[cfg(test)]
mod tests;
