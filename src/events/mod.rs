//! Events inside one process: its handlers, and their order.
//!
//! [`Dispatcher`] keeps the handlers in order, takes events, and returns the next handler to call. It makes no calls
//! itself, and has no lock and no clock: clients and servers drive it from `runtime`. [`EventCache`] keeps recent
//! events for later registrations: a server's for its clients, a process's for its handlers. [`LossWindow`] joins
//! events about lost connections.
//!
//! ```text
//!  insert ─► pending ─ activate ─► called by ─ remove ─► gone
//!                                     │
//!  raise ─► chain: first · single-code · multi-code · default · last
//!              │ poll_call ─► HandlerCall ─► (handler) ─► complete(status, results)
//!              └────────────────◄ next ◄──────────────────────┘ unless EVENT_ACTION_COMPLETE
//! ```
//!
//! Promises:
//! - E1: a chain's handlers are those registered when its event came; a handler deregistered meanwhile is skipped.
//! - E2: at most one call of a chain is active, and only the first completion of each call counts.
//! - E3: a handler gets each event at most once, and every recent event: live, or when its registration is complete.
//! - E4: numbers of handlers, chains and calls are never used again.
//!
//! Source: PMIx Standard, chapter "Event Notification"; the default place of a handler (in front of its category) and
//! the bounds of the cache are OpenPMIx's.

mod cache;
mod dispatcher;
mod event;
mod loss_window;
mod registration;
mod table;

pub use cache::{EventCache, EventCacheLimits, Kept};
pub use dispatcher::{CallToken, ChainId, Dispatcher, HandlerCall, HandlerDecision};
pub use event::{DEFAULT_HANDLER, DEVICE_FOUND, DEVICE_LOST, Event, FOR_DEFAULT_ALONE, is_of_programs};
pub use loss_window::LossWindow;
pub use registration::{Registration, RegistrationError, is_of_environment, is_system};

#[cfg(test)]
mod tests;
