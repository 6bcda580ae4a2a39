//! The decisions of a client process, without sockets, clocks or threads.
//!
//! Two paths, which share nothing mutable:
//!
//! - *Reading.* [`resolve`] searches the places of a value in order: the process's own [`Staging`], the segments, the
//!   [`ValueCache`] of values received over the socket. It ends with a value, a status, or a [`GetRequest`] for the
//!   server. A hit touches neither the core nor a lock.
//! - *Requests.* [`ClientCore`] owns the protocol with the server. It numbers requests, matches replies, merges Gets
//!   for one process, enforces time limits and ends every accepted call exactly once.
//!
//! ```text
//!  Get ──► resolve(First) ── Found / Known / Refused ──► caller
//!             ▲    └ Ask ─► ClientCore::handle(Call::Get) ─► Send … Reply ─► Received ─► ValueCache
//!             │                                                            └► Done(call)
//!             ├── Answered(data): resolve(Round::Answered(&data)) ─────────────┤
//!             └── LookAgain:      resolve(Round::First) ───────────────────────┘
//! ```
//!
//! Invariants:
//! - C1: every [`CallId`] given to [`ClientCore::handle`] is in exactly one [`ClientOutput::Done`], in every history.
//! - C2: a tag in use is never given to another request.
//! - C3: data of a reply leave the core ([`ClientOutput::Received`]) before any call that waited for them is done.
//!
//! ```
//! use modex::client::{
//!     Call, CallId, ClientConfig, ClientCore, ClientInput, ClientOutput, Outcome, Staging, StagingLimits,
//! };
//! use modex::proto::Reply;
//! use modex::types::{Namespace, ProcId, Scope, Status, Time, Value};
//!
//! let own = ProcId::new(Namespace::new("job")?, 0);
//! let mut staging = Staging::new(own.clone(), StagingLimits::default());
//! staging.put(Scope::Global, "endpoint", Value::from("10.0.0.1"))?;
//! let staged = staging.take_commit().expect("something is new");
//!
//! let mut client = ClientCore::new(own, ClientConfig::default());
//! client.handle(Time::ZERO, ClientInput::Call(CallId(1), Call::Commit(staged.commit)));
//! let Some(ClientOutput::Send(tag, _request)) = client.poll_output() else { panic!("a commit is sent at once") };
//! client.handle(Time::ZERO, ClientInput::Reply(tag, Reply::Status(Status::SUCCESS)));
//! assert_eq!(client.poll_output(), Some(ClientOutput::Done(CallId(1), Ok(Outcome::Complete))));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Source: PMIx Standard, chapters "Data Access and Sharing" and "Process Management" (finalize, abort), and the
//! behaviour of OpenPMIx peers at the other end of the socket.

mod attribute;
mod cache;
mod call;
mod core;
mod directives;
mod endpoint_exchange;
mod gets;
mod invitation;
mod job_store;
mod resolve;
mod staging;
mod tags;

pub use self::core::ClientCore;
pub use cache::{CacheLimits, ValueCache};
pub use call::{
    Anomaly, Call, CallError, CallId, ClientConfig, ClientInput, ClientOutput, LossReason, Outcome, Unsendable,
};
pub use directives::{
    DirectiveError, FenceDirectives, GetDirectives, RealmDirective, UNDERSTOOD_OF_ACCEPTANCES, UNDERSTOOD_OF_INIT,
    UNDERSTOOD_OF_INVITATIONS, UNDERSTOOD_OF_QUERIES, UNDERSTOOD_OF_REQUESTS, ask_for_groups, refuse_required,
    time_limit,
};
pub use endpoint_exchange::own_endpoints;
pub use invitation::{
    ANSWERS, Acceptance, Conclusion, Construction, ENDINGS, Invitation, addressed, description, processes,
};
pub use job_store::JobStore;
pub use resolve::{Decision, GetRequest, GetRequestError, Miss, Round, StoreSearch, Stores, resolve};
pub use staging::{Staged, StagedValue, Staging, StagingError, StagingLimits, StagingMark};

#[cfg(test)]
mod tests;
