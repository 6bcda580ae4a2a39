/// Why the hardware topology is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// hwloc failed.
    #[error("cannot read the hardware topology: {reason}; run without binding (--bind none)")]
    Detection {
        /// hwloc's reason.
        reason: String,
    },
    /// hwloc found no core that this process may use.
    #[error("hwloc found no core that this process may run on; run without binding (--bind none)")]
    NoCores,
    /// Built without hwloc.
    #[error("this build has no topology support; build with feature `topology` or run without binding (--bind none)")]
    NotBuilt,
    /// libhwloc is not installed.
    #[error("libhwloc.so.15 can't be loaded; install it (Debian: libhwloc15) to {doing}")]
    NoLibrary {
        /// The operation.
        doing: &'static str,
    },
    /// libhwloc failed.
    #[error("libhwloc could not {doing}")]
    Failed {
        /// The operation.
        doing: &'static str,
    },
    /// A setting forbids it.
    #[error("reading the hardware topology is forbidden here (MODEX_TOPOLOGY, modex.topology)")]
    Forbidden,
    /// The server has no source.
    #[error("this server has no source of the hardware topology; its host must set one")]
    NoSource,
    /// The server keeps it to itself.
    #[error("this server does not share the hardware topology (PMIX_SERVER_SHARE_TOPOLOGY)")]
    NotShared,
    /// The result is not a topology, or cannot be shared.
    #[error("the hardware topology can't be used: {reason}")]
    Unusable {
        /// The reason.
        reason: String,
    },
    /// The server can't be asked.
    #[error("the request for the hardware topology failed: {reason}")]
    Unreachable {
        /// The reason.
        reason: String,
    },
    /// The reading has not finished; perhaps it hangs.
    #[error(
        "reading the hardware topology takes too long here; a device or file system may hang (try lstopo on this node), \
         or ask again later"
    )]
    TooSlow,
    /// There is no thread to read it on.
    #[error("no thread can be started to read the hardware topology")]
    NoThread,
}
