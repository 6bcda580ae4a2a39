//! Events inside one process: who handles them, and in which order.

mod event;
mod registration;

pub use event::{DEFAULT_HANDLER, Event};
pub use registration::RegistrationError;
