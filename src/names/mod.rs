//! Published data of a server's processes: publish, lookup and unpublish.
//!
//! [`Names`] decides and has no socket, clock or thread. A server's runtime gives it requests and time, and takes the
//! answers. Data does not travel to other nodes.
//!
//! ```text
//! publish ──► entries by key ──► lookup: range, then permission, then the choice
//!                │                  └── some keys are missing and PMIX_WAIT is set: it waits
//!                └── wakes the lookups that wait for the key
//! unpublish, first read, end of a process, end of a job ──► remove entries
//! ```
//!
//! Promises:
//! - N1: each request gets exactly one answer, unless it is cancelled. All but a lookup that waits get it at once.
//! - N2: a request to publish is carried out as a whole or not at all.
//! - N3: a lookup returns only data that its requester may read, from publishers in its range. The requester must be in
//!   the range of the data.
//! - N4: data with the persistence "first read" goes to one lookup only.
//! - N5: entries, their bytes and the keys of waiting lookups have a bound in all, and a share for each user and
//!   process.
//! - N6: one input looks at no more than 64 waiting lookups again. The others have their turns later.
//!
//! | file | owns |
//! |---|---|
//! | `directives` | the directives of the three requests, read and checked |
//! | `entries` | the published data, its indexes, and their shares |
//! | `request` | the inputs: requests, and the ends of processes and jobs |
//! | `service` | the rules: [`Names`] |
//! | `shares` | bounds: [`NameLimits`], and the parts of users and processes |
//!
//! Source: PMIx Standard, chapter "Publish/Lookup Operations".

mod directives;
mod entries;
mod request;
mod service;
mod shares;
#[cfg(test)]
mod tests;

pub use directives::{OF_LOOKUP, OF_PUBLISH, OF_UNPUBLISH};
pub use request::{Asker, NameInput, NameRequest, RequestId};
pub use service::{Names, Reaches};
pub use shares::NameLimits;
