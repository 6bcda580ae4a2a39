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
//! A seed and a [`Setup`] decide everything: there is no clock, thread, socket or environment here. Time is virtual, what
//! happens is one `queue`, chance has one stream for each concern (`random`), every map is ordered. So a seed replays
//! step for step.
//!
//! After every step the rules of `invariants` hold, or the run ends with a [`Broken`]. The checker knows nothing of the
//! cores' insides: it keeps its own account of who asked what, who arrived where (`gatherings`), and what was put, and
//! values say themselves whose they are (`value`). That it sees what it should is shown by defects that are planted in
//! this module's wiring ([`Canary`]).
//!
//! What is not here, and which tests have it: system calls, threads, and what a client does when its server is gone (`tests/errno`,
//! `tests/liveness.rs`, `runtime/link.rs`); ten thousand lives of one process and what they leave (`tests/reinit.rs`); bytes (`proto`,
//! `fuzz`); tools and clients of other libraries.

mod accepting;
mod acting;
mod assembling;
mod bootstraps;
mod dice;
mod faulting;
mod faults;
mod forming;
mod gatherings;
mod hearing;
mod host;
mod invariants;
mod inviting;
mod looking;
mod memberships;
mod parties;
mod process;
mod program;
mod queue;
mod quitting;
mod random;
mod registering;
mod run;
mod serving;
mod setup;
mod shrink;
mod store;
mod trace;
mod value;
mod world;

pub use faults::{Canary, Faults, UnknownFault};
pub use invariants::{Broken, Rule};
pub use run::{Report, run, run_in_words, run_twice};
pub use setup::Setup;
pub use shrink::{Shortest, shrink};

#[cfg(test)]
mod tests;
