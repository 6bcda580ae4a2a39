//! Storage systems of a node: what providers know of them.
//!
//! [`crate::ServerBuilder::storage`] makes a server answer queries about them. [`MountTable`] knows the mounted file
//! systems. A site with other storage, or with more knowledge, implements [`Provider`].

pub use crate::storage::{
    DeviceNumber, FileAction, FileError, FileTask, MountTable, Provider, Rates, StorageSystem, Usage,
};
