//! Why a description was refused.

use crate::gds::layout::cell::ValueError;
use crate::regex::MapError;
use crate::types::{AsStatus, Namespace, Rank, Status};

use super::entry_path::{Anchor, EntryPath};

/// Why a host's description of a job was refused. No part of it was stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The cause, with its path in the description.
    #[error("{path}{}{error}", Self::gap(path, error))]
    At {
        /// Path in the description.
        path: EntryPath,
        /// The cause.
        error: Box<Self>,
    },
    /// A key of the standard came with a value of another type.
    #[error(
        "{key:?}: expected {}, got {}; load the value with the type of the attribute",
        plain(expected),
        plain(found)
    )]
    Type {
        /// The key.
        key: String,
        /// Type of the attribute.
        expected: &'static str,
        /// Type of the value.
        found: &'static str,
    },
    /// A number does not fit the type of its attribute.
    #[error("{key:?}: {number} does not fit {}; pass a number in range", plain(expected))]
    Range {
        /// The key.
        key: String,
        /// The number.
        number: i128,
        /// Type of the attribute.
        expected: &'static str,
    },
    /// A container does not identify its subject.
    #[error("{container} {position} does not say what it describes: add {missing}")]
    Unidentified {
        /// The container's key.
        container: &'static str,
        /// Its position among all containers of this kind in the description, from 0.
        position: u64,
        /// The missing key.
        missing: &'static str,
    },
    /// A process array names no process.
    #[error("a process array names rank {rank}, which is not a process; pass one array for each process")]
    NotAProcess {
        /// The rank.
        rank: Rank,
    },
    /// Two process arrays of one description are about the same process.
    #[error("rank {rank} has a process array already; pass one array for each process, with all of its values")]
    ProcessTwice {
        /// The rank.
        rank: u32,
    },
    /// A process array holds the identifier of another process.
    #[error("the array of rank {rank} holds a PMIX_PROCID with rank {found}; pass one array for each process")]
    OtherProcess {
        /// The rank of the array.
        rank: u32,
        /// The rank in the identifier.
        found: Rank,
    },
    /// An identifier or map occurs twice where only one is legal.
    #[error("{key} is given twice in {place}; remove one")]
    Twice {
        /// The key.
        key: &'static str,
        /// The place of the second one.
        place: &'static str,
    },
    /// Part of the description is about another job.
    #[error("the description of {expected} contains data of job {found}; register each job by itself")]
    OtherJob {
        /// The namespace being registered.
        expected: Namespace,
        /// The namespace found.
        found: String,
    },
    /// A value for every job names one job.
    #[error("names one job, but stands outside an array; put it into the array of that job's data")]
    NamesEveryJob,
    /// An application value outside an application array, while there are several applications.
    #[error(
        "{key} is given outside an application array, but the job has {app_count} applications; \
             put it into a PMIX_APP_INFO_ARRAY"
    )]
    WhichApp {
        /// The key.
        key: String,
        /// Number of known applications.
        app_count: u32,
    },
    /// The node map is unusable.
    #[error("PMIX_NODE_MAP: {0}")]
    NodeMap(MapError),
    /// The process map is unusable.
    #[error("PMIX_PROC_MAP: {0}")]
    ProcMap(MapError),
    /// The two maps do not belong together.
    #[error("the node map has {nodes} nodes but the process map has {fields} fields; each node needs one field")]
    MapLengths {
        /// Nodes in the node map.
        nodes: u32,
        /// Fields of the process map.
        fields: u32,
    },
    /// The node map names a node twice.
    #[error("the node map names {name:?} at {first} and at {second}; list each node once, with all its ranks")]
    NodeTwice {
        /// The name.
        name: String,
        /// Index of its first occurrence.
        first: u32,
        /// Index of its second occurrence.
        second: u32,
    },
    /// Two nodes claim the same number.
    #[error("PMIX_NODEID {id} is given for the nodes at {first} and {second} of the node map; ids must be unique")]
    NodeIdTwice {
        /// The number.
        id: u32,
        /// Index of the node that has it.
        first: u32,
        /// Index of the other node.
        second: u32,
    },
    /// A rank is not in the job.
    #[error("rank {rank} is in the {place}, but the job has {job_size} processes; ranks must be below that")]
    RankOutsideJob {
        /// The rank.
        rank: u32,
        /// The map or key that has the rank.
        place: &'static str,
        /// Number of processes.
        job_size: u32,
    },
    /// A text that is not a list of ranks.
    #[error("holds {part:?} where a rank should be; give ranks and runs of them with commas, as \"0,2,4-7\"")]
    NoRankList {
        /// The unexpected part of the text.
        part: String,
    },
    /// More applications are described than the job has.
    #[error("the job has {declared} applications, but {described} are described; the numbers must agree")]
    AppCount {
        /// Number of applications according to the host.
        declared: u32,
        /// Number of applications with values.
        described: u32,
    },
    /// The job's size is not the number of ranks in its map.
    #[error("the job has {job_size} processes, but the process map places {in_map}; they must agree")]
    JobSize {
        /// Number of processes according to the host.
        job_size: u32,
        /// Ranks in the process map.
        in_map: u32,
    },
    /// A name is empty.
    #[error("is empty; give a name or leave it out")]
    EmptyName,
    /// A comma in a node's name makes it look like two names.
    #[error("{name:?} holds a comma; give one name, and others as PMIX_HOSTNAME_ALIASES")]
    CommaInName {
        /// The name.
        name: String,
    },
    /// A qualified value without a value.
    #[error("is an empty array; its first entry must be the key with its value, the others its qualifiers")]
    NoValue,
    /// Endpoints of another version of the library, or damaged ones.
    #[error("holds no endpoints in the form of this library; use the same library on all nodes")]
    Endpoints,
    /// A qualified value inside a qualified value.
    #[error("holds another qualified value; its first entry must be the key with its value, the others its qualifiers")]
    NestedQualified,
    /// A value that cannot be stored.
    #[error("cannot be stored: {0}")]
    Value(ValueError),
    /// The key of this entry exceeds the limit.
    #[error("exceeds the namespace's limit of {keys_max} keys; reuse keys, or raise StoreLimits::keys_max")]
    TooManyKeys {
        /// The limit.
        keys_max: u32,
    },
    /// The numbers of processes of applications and nodes differ.
    #[error(
        "the applications have {in_apps} processes, but the nodes have {job_size}; give each process an application"
    )]
    AppSizes {
        /// Processes of all applications.
        in_apps: u64,
        /// Processes on all nodes.
        job_size: u32,
    },
    /// More than the limit of this server.
    #[error("the description has {found} {limit}, this server accepts {max}; raise the limit or split the job")]
    Limit {
        /// The limited quantity.
        limit: &'static str,
        /// The number found or declared.
        found: u64,
        /// The bound, inclusive.
        max: u64,
    },
}

impl AsStatus for RegisterError {
    fn status(&self) -> Status {
        match self {
            Self::At { error, .. } => error.status(),
            Self::Type { .. } => Status::ERR_TYPE_MISMATCH,
            Self::Limit { .. }
            | Self::NodeMap(MapError::Limit { .. })
            | Self::ProcMap(MapError::Limit { .. })
            | Self::Value(_)
            | Self::TooManyKeys { .. } => Status::ERR_OUT_OF_RESOURCE,
            Self::Range { .. }
            | Self::Unidentified { .. }
            | Self::NotAProcess { .. }
            | Self::ProcessTwice { .. }
            | Self::OtherProcess { .. }
            | Self::Twice { .. }
            | Self::OtherJob { .. }
            | Self::NamesEveryJob
            | Self::WhichApp { .. }
            | Self::NodeMap(_)
            | Self::ProcMap(_)
            | Self::MapLengths { .. }
            | Self::NodeTwice { .. }
            | Self::NodeIdTwice { .. }
            | Self::RankOutsideJob { .. }
            | Self::NoRankList { .. }
            | Self::AppCount { .. }
            | Self::JobSize { .. }
            | Self::EmptyName
            | Self::CommaInName { .. }
            | Self::NoValue
            | Self::Endpoints
            | Self::NestedQualified
            | Self::AppSizes { .. } => Status::ERR_BAD_PARAM,
        }
    }
}

impl RegisterError {
    /// The error without its path.
    #[must_use]
    pub fn cause(&self) -> &Self {
        match self {
            Self::At { error, .. } => error.cause(),
            error => error,
        }
    }

    /// The path in the description, if known.
    #[must_use]
    pub fn path(&self) -> Option<&EntryPath> {
        match self {
            Self::At { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Adds the key of the entry.
    pub(super) fn about(self, key: &str) -> Self {
        match self {
            Self::At { .. } => self,
            error if error.names_key() => Self::At { path: EntryPath::default(), error: Box::new(error) },
            error => Self::At { path: EntryPath::of_key(key), error: Box::new(error) },
        }
    }

    /// Adds a path that is found later from its anchor.
    pub(super) fn anchored(self, anchor: Anchor) -> Self {
        let path = EntryPath::anchored(anchor);
        match self {
            Self::At { path: known, error } => Self::At { path: path.with_key(known.key()), error },
            error => Self::At { path, error: Box::new(error) },
        }
    }

    /// Marks the path as one in the resources, which the server adds to every description.
    pub(super) fn in_resources(self) -> Self {
        match self {
            Self::At { path, error } => Self::At { path: path.in_resources(), error },
            error => error,
        }
    }

    /// The text between a path and the error.
    fn gap(path: &EntryPath, error: &Self) -> &'static str {
        match error.names_key() {
            _ if path.is_empty() => "",
            true => " ",
            false => ": ",
        }
    }

    /// Whether its text begins with the key.
    fn names_key(&self) -> bool {
        matches!(self.cause(), Self::Type { .. } | Self::Range { .. })
    }
}

/// The plain name of a data type.
fn plain(data_type: &str) -> String {
    data_type.replace("PMIX_", "").to_lowercase().replace('_', " ")
}

/// Returns `found` if it is within `max`.
///
/// # Errors
/// [`RegisterError::Limit`], naming `limit`, if it is not.
pub(super) fn within(limit: &'static str, found: u64, max: u64) -> Result<(), RegisterError> {
    if found > max { Err(RegisterError::Limit { limit, found, max }) } else { Ok(()) }
}
