//! The storage systems of a node, and the answers to the standard's queries about them.
//!
//! ```text
//! query --> Storage --> Provider: systems (must not wait), usage (may wait) --> infos in the standard's keys
//! directive --> Storage --> Provider: carry_out (may wait) --> infos about the files
//!                          |
//!                          +-- MountTable: mount table, statvfs, block statistics, limits of the cgroup
//!                          +-- a provider of the site
//! ```
//!
//! Promises:
//! - A value that no provider knows has no answer. Nothing is guessed.
//! - A list of systems, and their fixed facts, need no look at a file system. So a dead one can't hold them up.
//! - Systems of two providers with one id are one system: the first provider that knows a fact decides. Those of one provider are never
//!   joined.
//!
//! | file | owns |
//! |---|---|
//! | `provider` | the trait, and what it knows of a system |
//! | `mounts` | the text of the mount table |
//! | `devices` | the texts of block statistics and limits |
//! | `mount_table` | the provider of the node's file systems |
//! | `files` | questions about files: retrieval, dependencies, access |
//! | `elf` | the libraries that a program asks for |
//! | `questions` | the keys and qualifiers |
//! | `directives` | requests to stage, move and cache files, and their results |
//! | `local_files` | the copies and moves of the mount table's provider |
//!
//! Source: PMIx Standard, "Storage Support Definitions".

mod devices;
#[cfg(test)]
mod directive_tests;
mod directives;
pub mod elf;
mod files;
mod local_files;
mod mount_table;
mod mounts;
mod provider;
mod questions;
#[cfg(test)]
mod tests;

pub use devices::{Limit, Observation, Traffic, Work, limits_of, path_of_cgroup, work_of_devices};
pub use directives::{DIRECTIVES, Directive, FileOrder, OrderResult, has_directive};
pub use files::FILE_KEYS;
pub use mount_table::MountTable;
pub use mounts::{Mount, MountList};
pub use provider::{DeviceNumber, FileAction, FileError, FileTask, Provider, Rates, StorageSystem, Usage};
pub use questions::{QUALIFIERS, Storage, is_key, is_qualifier, keys};
