//! The support table of the C library: every function that `libpmix.so.2` exports and how far it is supported.
//!
//! The table is generated from the `Support:` lines in the documentation of `libpmix/src` (`libpmix/tests/abi`). It is
//! here, not there, so that a build without the C interface can show it: `modex info --api` prints it.

mod functions_table;

/// How a function of the C interface is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Support {
    /// modex implements the function.
    Implemented,
    /// modex carries the request to the host and the host's answer back. If no host can answer, the function returns
    /// `PMIX_ERR_NOT_SUPPORTED`.
    PassedToHost,
    /// The function returns `PMIX_ERR_NOT_SUPPORTED`.
    NotSupported,
}

/// A function of the C interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Function {
    /// The name in C programs.
    pub name: &'static str,
    /// How far it is supported.
    pub support: Support,
}

impl Support {
    /// Every kind, the most useful first.
    pub const ALL: [Self; 3] = [Self::Implemented, Self::PassedToHost, Self::NotSupported];

    /// The kind in words, as in the documentation of the function.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Implemented => "implemented",
            Self::PassedToHost => "passed to the host",
            Self::NotSupported => "not supported",
        }
    }
}

/// Every exported function, sorted by name.
#[must_use]
pub fn functions() -> &'static [Function] {
    functions_table::FUNCTIONS
}
