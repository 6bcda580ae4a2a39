/// Why the hardware topology is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// hwloc gave up.
    #[error("cannot read the hardware topology: {reason}; run without binding (--bind none)")]
    Detection {
        /// hwloc's reason.
        reason: String,
    },
    /// hwloc found no core this process may use.
    #[error("hwloc found no core that this process may run on; run without binding (--bind none)")]
    NoCores,
    /// Built without hwloc.
    #[error("this build has no topology support; build with feature `topology` or run without binding (--bind none)")]
    NotBuilt,
}
