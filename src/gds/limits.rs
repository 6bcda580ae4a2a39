//! Limits of a namespace's data.

/// Limits of the data in one namespace. Each is checked before any write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Bytes of a namespace's segment, header and superseded data included. Local processes may post at most half of
    /// them together. Half of that is guaranteed to them in equal parts.
    pub segment_bytes_max: u64,
    /// Different keys in a namespace; more than [`StoreLimits::KEYS_MAX`] count as that. Half of them are guaranteed to
    /// local processes, in equal parts.
    pub keys_max: u32,
    /// Bytes of one value as stored.
    pub value_bytes_max: u32,
    /// Values in one commit.
    pub commit_entries_max: u32,
    /// Processes of a job; also bounds the ranks that may commit before the job is described.
    pub ranks_max: u32,
    /// Nodes of a job.
    pub nodes_max: u32,
}

impl StoreLimits {
    /// With more keys a process could have more blocks of values than a reader follows.
    pub const KEYS_MAX: u32 = 1 << 21;
}

impl Default for StoreLimits {
    /// Room for 10^6 ranks on 10^5 nodes and 1 GiB of modex, with a margin.
    fn default() -> Self {
        Self {
            segment_bytes_max: 4 << 30,
            keys_max: Self::KEYS_MAX,
            value_bytes_max: 64 << 20,
            commit_entries_max: 1 << 20,
            ranks_max: 1 << 24,
            nodes_max: 1 << 20,
        }
    }
}
