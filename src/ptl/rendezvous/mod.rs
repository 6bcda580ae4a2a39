//! Files by which tools and singletons find a server that did not start them.
//!
//! ```text
//! server: temporary name, write, flock, link to the name others look for    tool: name or directory -> contents -> address
//! ```
//!
//! Promises:
//! - a file is complete as soon as it is visible, and gone when its server is dropped; a forked copy removes nothing;
//! - its server holds an `flock` on it, which the kernel releases with the process. A file that claims a lock without
//!   one belongs to a killed server. The next server in its place replaces it. The user's next server of the session
//!   removes it. Files of other libraries hold no lock; the pid in them decides;
//! - contents are untrusted: sizes are bounded, and only regular files are believed. Unless the server was named, they
//!   must belong to this user or to root. A search reads a bounded number of entries.
//!
//! Source: OpenPMIx wire protocol 2.2, "Rendezvous files"; PMIx Standard, "Tools and Debuggers".

mod contents;
mod error;
mod files;
mod names;
mod report;
mod search;
#[cfg(test)]
mod tests;

pub use contents::Contents;
pub use error::RendezvousError;
pub use files::{Announcement, Files, Publicity};
pub use names::Names;
pub use report::AddressReport;
pub use search::{Belief, Found, read, read_named, search};
