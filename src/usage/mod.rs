//! The use of processor, memory, disks and networks by processes and by this machine, as `/proc` shows it (proc(5)).
//!
//! A [`UsageRequest`] is a process's request to monitor resources, read and checked. A [`Sampler`] measures what it
//! asks for. Neither has a clock or a thread: time is an argument. Reads are bounded, and a file that is missing gives
//! no figures.
//!
//! | file | owns |
//! |---|---|
//! | `machine` | the figures of the node, its disks and its networks |
//! | `process` | the figures of a process |
//! | `query` | queries that samples answer: [`UsageQuestion`] |
//! | `request` | the request: [`UsageRequest`] |
//! | `sampler` | the samples as the standard's arrays: [`Sampler`] |
//!
//! Source: PMIx Standard, `PMIx_Process_monitor`.

mod machine;
mod process;
mod query;
mod request;
mod sampler;

pub use process::{ProcessStat, process_bytes, process_stat, seconds_since_boot, ticks_per_second};
pub use query::{QUERY_KEYS, QUERY_QUALIFIERS, Subject, UsageQuestion, answers, is_query_key, is_query_qualifier};
pub use request::{MONITORS, OwnNode, UNDERSTOOD, UsageKind, UsageRequest};
pub(crate) use request::{elements, is_of_this_node};
pub use sampler::{Sampler, Target};
