//! Removals for the runtime.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Files and directories to remove together, in the name of the server's own user.
///
/// Source: PMIx Standard, "Job Management and Reporting" (cleanup attributes of `PMIx_Job_control`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleanup {
    /// The server's own user; files of other users stay.
    pub uid: u32,
    /// Files, by absolute path without repeated slashes.
    pub files: BTreeSet<String>,
    /// Directories, by absolute path, grouped by their rules.
    pub directories: BTreeMap<DirectoryRules, BTreeSet<String>>,
    /// Paths to keep, absolute.
    pub ignored: BTreeSet<String>,
    /// More paths to keep: those registered for the whole job of an ended process.
    pub ignored_by_job: Arc<BTreeSet<String>>,
}

/// How a directory is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirectoryRules {
    /// Whether its subdirectories are removed, too, not only its files.
    pub is_recursive: bool,
    /// Whether only empty directories are removed.
    pub only_empty: bool,
    /// Whether the directory itself stays.
    pub leaves_top: bool,
}

impl Cleanup {
    /// Whether a path must stay.
    #[must_use]
    pub fn keeps(&self, path: &str) -> bool {
        self.ignored.contains(path) || self.ignored_by_job.contains(path)
    }

    /// Approximate memory, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let removed = [&self.files].into_iter().chain(self.directories.values());
        let paths = removed.chain([&self.ignored, &*self.ignored_by_job]).flatten();
        paths.map(|path| path.len().saturating_add(PATH_OVERHEAD_BYTES)).fold(0, usize::saturating_add)
    }
}

/// Approximate memory of a path in a set besides its text.
const PATH_OVERHEAD_BYTES: usize = 64;
