//! The decisions of a server: methods of [`ServerCore`](crate::server::ServerCore) above its state. A file has one
//! family of inputs.
//!
//! | file | owns |
//! |---|---|
//! | `access` | permissions between processes and jobs: one table |
//! | `session`, `tools` | the stages of a connection; tools |
//! | `namespaces` | registrations of the host |
//! | `commit` | commits of local processes |
//! | `get`, `answers`, `direct_modex` | requests for data; their answers; data of processes on other nodes |
//! | `resolve` | placement of processes |
//! | `topology`, `derived`, `inventory` | questions about hardware; values derived from it; inventories of nodes |
//! | `query` | queries that the server answers itself |
//! | `events`, `watches` | events; watches of processes and files |
//! | `monitored`, `shared_monitoring` | the processes that a process may have monitored; requests shared with the host |
//! | `forwarding`, `inherited_output` | output from the host to clients; that of spawned jobs |
//! | `cleanup` | files that processes want removed at their end |
//! | `psets` | process sets |
//! | `rendezvous` | the common part of all operations of many processes |
//! | `fence`, `intake`, `missed_fences` | contents of fences; the data that they bring; recovery after a missed one |
//! | `connect`, `early_connect` | connecting processes; operations over jobs that are not registered here |
//! | `generated_values` | values of the own processes that a fence spreads |
//! | `ending` | results of an operation for its participants |
//! | `ties` | read access to other jobs |
//! | `group` | groups |
//! | `host_request`, `upcalls` | requests that the host answers; upcalls to it |
//! | `slices` | requests that take several turns |

pub(super) mod access;
mod answers;
mod cleanup;
mod commit;
mod connect;
mod derived;
mod direct_modex;
mod early_connect;
mod ending;
mod events;
mod fence;
mod forwarding;
mod generated_values;
pub(super) mod get;
mod group;
mod host_request;
mod inherited_output;
mod intake;
mod inventory;
mod missed_fences;
mod monitored;
mod namespaces;
mod psets;
mod query;
mod rendezvous;
mod resolve;
mod session;
mod shared_monitoring;
mod slices;
mod ties;
mod tools;
mod topology;
mod upcalls;
mod watches;

pub(crate) use forwarding::UNDERSTOOD_OF_OUTPUT;
pub(crate) use group::UNDERSTOOD_OF_NUMBERS;
pub(crate) use host_request::has_false_claim;
pub(crate) use monitored::{MONITORED_MAX, MonitoredProcess};
