//! The description of a job, which a host registers.

pub use crate::gds::registration::{
    ColumnId, Description, DescriptionLimits, EntryPath, HostValue, JobDescription, ProcessTable, RegisterError,
    TableCell,
};
pub use crate::regex::{DealtRanks, Excerpt, MapError, MapLimits, RankMap, RankRun};
