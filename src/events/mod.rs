//! Events inside one process: who handles them, and in which order.
//!
//! [`Dispatcher`] keeps the handlers in order, takes what has happened, and says which handler is to be called next. It
//! calls nobody, has no lock and no clock: clients and servers drive it from `runtime`. [`Cache`] keeps recent events for
//! those who register later; a server has one for its clients, a process one for its handlers.
//!
//! ```text
//!  insert ─► pending ─ activate ─► called by ─ remove ─► gone
//!                                     │
//!  raise ─► chain: first · single-code · multi-code · default · last
//!              │ poll_call ─► HandlerCall ─► (handler) ─► complete(status, results)
//!              └────────────────◄ next ◄──────────────────────┘ unless EVENT_ACTION_COMPLETE
//! ```
//!
//! What holds:
//! - E1: a chain's handlers are those that were registered when its event came; one that is deregistered meanwhile is
//!   passed over.
//! - E2: at most one call of a chain is under way, and each call counts its first completion only.
//! - E3: a handler gets each event at most once, and every recent one: live, or when its registration is complete.
//! - E4: numbers of handlers, chains and calls are never used again.
//!
//! Source: PMIx Standard, chapter "Event Notification"; the default place of a handler (in front of its category) and
//! the bounds of the cache are OpenPMIx's.

mod cache;
mod dispatcher;
mod event;
mod registration;
mod table;

pub use cache::{Cache, EventCacheLimits, Kept};
pub use dispatcher::{CallToken, ChainId, Decision, Dispatcher, HandlerCall};
pub use event::{DEFAULT_HANDLER, Event};
pub use registration::{Registration, RegistrationError, is_of_environment, is_system};

#[cfg(test)]
mod tests;
