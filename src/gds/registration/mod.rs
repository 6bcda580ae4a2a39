//! Registration: what a host tells about a job becomes a [`JobRecord`](crate::gds::job_record::JobRecord).
//!
//! ```text
//! &[Info] --collect--> facts by realm --place--> nodes by index --derive--> what was left out --settle--> JobRecord
//!          (convert types, bounds)       (node map, names, ids)   (node map + process map)      (columns)
//! ```
//!
//! Promises:
//! - A host may give little: every description without a contradiction is accepted, the empty one too.
//! - What the host says wins over what the library derives, wherever in the description it stands.
//! - Where no map was told, now or before, and the size of the job was, what each process says of its node (`PMIX_HOSTNAME`, or the
//!   `PMIX_NODEID` of a node with a name) stands for both maps once all processes have said so. Nodes that nobody numbers are numbered
//!   as node arrays and then processes, by rank, mention them; they are listed by number. A process that is said to be elsewhere later
//!   takes what follows with it. While a process is missing, or one's name and number are of two nodes, nothing follows.
//! - A description has one array for each process, wherever it stands: a second one is refused, because hosts that number their
//!   processes wrongly are found by nothing else, and the values of one process would silently be another's. Node arrays of
//!   one node add up, and of two values the last one counts. A number alone means the node that was given it, else the one at that
//!   place of the map; with a name that is not that mapped node's it is another's. A node map with a name twice, a number of two nodes, and a
//!   process map with a rank on two nodes are refused. What a later description says replaces what an earlier one said.
//! - Resources, which a server adds to every description, give way to it: what does not go with it is left out. Of those that name
//!   a job only that job is told ([`resources_for`]).
//! - Work and memory are linear in the description and in the process map; [`Limits`] bound both before allocation. Only where
//!   resources contradict a description it is read again to find them: up to sixteen, each in the logarithm of their number. A resource
//!   cannot be tried alone, for less: what contradicts depends on those before it, and each trial reads the description, too.
//!   Resources that name jobs are checked with each of these jobs and with none of the others.
//! - No description panics. One that contradicts itself is a [`RegisterError`] that names both sides.
//! - A value of another type than its key's is converted where nothing is lost: an integer to the integer type of the key, 0 and 1 to
//!   a bool. Else it is kept and found as the host gave it, with a warning, because OpenPMIx does so and hosts count on it. It is
//!   refused only under the keys that registration itself reads, such as maps, sizes and names.
//! - A process map may have ranks beyond `PMIX_JOB_SIZE`, with a warning: the job then has these processes, too, and
//!   `PMIX_JOB_SIZE` stays as told.
//!
//! Where a value goes: containers say it; a value outside a container, or loose in a job array, goes to the key's
//! default realm. Loose node values are of the server's own node, loose application values of the only application.
//! Node arrays of an application stay in the application, those of a session in the session; those of the job's own
//! session count for the job, too, where it says nothing else.
//!
//! Source: PMIx Standard, chapter on server-specific interfaces, `PMIx_server_register_nspace`; chapter "Data Access
//! and Sharing", data realms.
//!
//! ```
//! use modex::gds::registration::{Context, JobDescription, parse};
//! use modex::types::Namespace;
//!
//! let namespace = Namespace::new("job-1")?;
//! let description = JobDescription::new(&namespace)
//!     .nodes(["n0", "n1"])
//!     .ranks_by_node([vec![0, 1], vec![2]])
//!     .session_id(7)
//!     .build()?;
//! let record = parse(&namespace, &Context::new("n1"), &description, None)?;
//! assert_eq!((record.rank_count, record.node_count, record.own_node), (3, 2, Some(1)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod coerce;
mod collect;
mod columns;
mod container;
mod context;
mod derive;
mod describe;
mod description;
mod doubts;
mod error;
mod front;
mod homes;
mod identity;
mod named_ranks;
mod nodes;
mod parse;
mod place;
mod previous;
mod processes;
mod received;
mod resources;
mod runs;
mod sessions;
mod table;
mod unstorable;

#[cfg(test)]
mod tests;

pub(in crate::gds) use coerce::is_of_numbers;
pub use context::{Context, Limits};
pub use describe::JobDescription;
pub use description::Description;
pub(in crate::gds) use doubts::warn_of_doubts;
pub use error::RegisterError;
pub use parse::{parse, parse_description};
pub use place::Place;
pub use processes::{ColumnId, Given, ProcessTable, TableCell};
pub use received::ReceivedJob;
pub use resources::{check_resources, resources_for};
pub(in crate::gds) use unstorable::{located_in, located_in_infos};
