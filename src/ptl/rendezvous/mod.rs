//! Files by which a server is found by processes that it did not start: tools and singletons.
//!
//! ```text
//! server: temporary name, write, flock, link to the name others look for    tool: name or directory -> contents -> address
//! ```
//!
//! Promises:
//! - a file is complete as soon as it can be seen, and gone when its server is dropped; a forked copy removes nothing;
//! - its server holds an `flock` on it, which the kernel gives up with the process: a file that says it is locked and is
//!   not was left by a server that was killed. The next server in its place replaces it, and the user's next server of the
//!   session removes it. Files of other libraries
//!   hold no lock; the pid they name decides;
//! - what is read is untrusted: sizes are bounded, only regular files are believed, and of them, unless the server was
//!   named, those of this user and of root; a search looks at a bounded number of entries.
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
