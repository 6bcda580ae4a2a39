//! The form of data that a process packs for another one.

use crate::bfrops::{Codec, Generation};

/// How data is packed, for the library that unpacks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataForm {
    /// The encoding.
    pub codec: Codec,
    /// The encoding of data with types that `codec` does not have. Integers look the same.
    pub younger: Option<Codec>,
}

impl DataForm {
    /// The form of this library: that of releases 4.1 to 5.0, and of 6.1 for younger types.
    pub const OWN: Self =
        Self { codec: Codec::V41, younger: Some(Codec { generation: Generation::V61, described: false }) };

    /// The form of the library at the other end of a connection. Another library has no types beyond its encoding.
    pub(in crate::runtime) const fn of_peer(codec: Codec, is_ours: bool) -> Self {
        if is_ours { Self::OWN } else { Self { codec, younger: None } }
    }

    /// The form of libraries that name this module of their encoding (`PMIX_BFROPS_MODULE`). `None` for unknown ones.
    #[must_use]
    pub fn of_module(name: &str) -> Option<Self> {
        let generation = Generation::from_module_name(name.as_bytes())?;
        Some(Self::of_peer(Codec { generation, described: false }, false))
    }
}
