//! Registration: the host's description of a job becomes a [`JobRecord`](crate::gds::job_record::JobRecord).
//!
//! ```text
//! &[Info] --collect--> facts by realm --place--> nodes by index --derive--> what was left out --settle--> JobRecord
//!          (convert types, bounds)       (node map, names, ids)   (node map + process map)      (columns)
//! ```
//!
//! Promises:
//! - The description may be incomplete, even empty. Only a contradiction makes it fail.
//! - Values of the host win over derived values, at any position in the description.
//! - Without a process map the nodes of the processes can replace it: `PMIX_HOSTNAME`, or the `PMIX_NODEID` of a named
//!   node. This needs the size of the job and a node for every process. While one process lacks a node, or its name and
//!   number disagree, nothing is derived. Nodes without a number are numbered in the order of their first mention: node
//!   arrays, then processes by rank. If a later description moves a process, the derived values follow.
//! - Each process has at most one array in a description. A second array is refused. It is the only sign of a host that
//!   numbers its processes wrongly, and values would silently reach the wrong process.
//! - Node arrays of one node add up; the last of several values counts. A number alone means the node that was given
//!   this number, else the node at this position of the map. A number with a name means another node if the mapped node
//!   has a different name.
//! - These are refused: a name twice in the node map, one number for two nodes, one rank on two nodes of the process
//!   map. Values of a later description replace earlier ones.
//! - A server adds resources to every description. A resource that contradicts the description is left out. A resource
//!   that names a job reaches only that job ([`resources_for`]).
//! - Work and memory are linear in the description and the process map; [`DescriptionLimits`] bound both before
//!   allocation. The exception: if resources contradict a description, up to sixteen bisections over the resources read
//!   it again. A resource cannot be tried alone, because a contradiction depends on the resources before it. Resources
//!   that name jobs are checked with each of these jobs and with no others.
//! - No description panics. A contradiction is a [`RegisterError`] that names both sides.
//! - A value of another type than its key's is converted if nothing is lost. An integer becomes the integer type of the
//!   key, and 0 and 1 become a bool. Otherwise it is kept as given, with a warning, because OpenPMIx does so and hosts
//!   rely on it. It is refused only for keys that registration itself reads, such as maps, sizes and names.
//! - A process map may have ranks beyond `PMIX_JOB_SIZE`, with a warning: the job then has these processes, too, and
//!   `PMIX_JOB_SIZE` keeps its value.
//!
//! Realm of a value: its container decides. A value outside containers, or loose in a job array, goes to the key's
//! default realm. Loose node values describe the server's own node; loose application values describe the only
//! application. Node arrays of an application or a session stay in that application or session. Node arrays of the
//! job's own session also count for the job if the job has no such value.
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
mod endpoints;
mod entry_path;
mod error;
mod front;
mod homes;
mod locate;
mod maps;
mod named_ranks;
mod node_identity;
mod nodes;
mod parse;
mod previous;
mod processes;
mod received;
mod resource_change;
mod resources;
mod runs;
mod sessions;
mod table;

#[cfg(test)]
mod tests;

pub(in crate::gds) use coerce::is_of_numbers;
pub(crate) use container::CONTAINERS;
pub use context::{Context, DescriptionLimits};
pub use describe::JobDescription;
pub use description::Description;
pub(in crate::gds) use doubts::warn_of_doubts;
#[cfg(test)]
pub(crate) use endpoints::read_lists;
pub use endpoints::{ENDPOINTS, endpoints_info, info_of_lists, lists_of};
pub use entry_path::EntryPath;
pub use error::RegisterError;
pub(in crate::gds) use locate::{located_in, located_in_infos};
pub use maps::maps_among;
pub use parse::{parse, parse_description};
pub use processes::{ColumnId, HostValue, ProcessTable, TableCell};
pub use received::ReceivedJob;
pub use resource_change::ResourceChange;
pub(in crate::gds) use resource_change::with_resources;
pub use resources::{check_resources, resources_for};
