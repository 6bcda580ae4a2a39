/// Visibility of a value that a process puts. The numbers of the standard form a bit set: global = local + remote.
///
/// Source: PMIx Standard, "Data Access and Sharing" (`pmix_scope_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Processes on the same node.
    Local,
    /// Processes on other nodes.
    Remote,
    /// Everyone.
    Global,
    /// This process only: never leaves it.
    Internal,
}

/// Distance of a scope's number from the number of its removal.
const REMOVALS_AFTER: u8 = 4;

impl Scope {
    /// Reads the number used on the wire and in the C ABI; `None` for an unknown one.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        match raw {
            1 => Some(Self::Local),
            2 => Some(Self::Remote),
            3 => Some(Self::Global),
            4 => Some(Self::Internal),
            _ => None,
        }
    }

    /// The scope from which a number of OpenPMIx 7.0 removes a value (`PMIX_DEL_LOCAL` to `PMIX_DEL_INTERNAL`); `None`
    /// for other numbers.
    #[must_use]
    pub const fn of_removal(raw: u8) -> Option<Self> {
        match raw.checked_sub(REMOVALS_AFTER) {
            Some(scope) => Self::from_raw(scope),
            None => None,
        }
    }

    /// The number that removes a value from this scope.
    #[must_use]
    pub const fn to_removal(self) -> u8 {
        self.to_raw() + REMOVALS_AFTER
    }

    /// The number used on the wire and in the C ABI.
    #[must_use]
    pub const fn to_raw(self) -> u8 {
        match self {
            Self::Local => 1,
            Self::Remote => 2,
            Self::Global => 3,
            Self::Internal => 4,
        }
    }

    /// Whether a value of this scope may be seen by a process on the publisher's node.
    #[must_use]
    pub const fn is_visible_locally(self) -> bool {
        matches!(self, Self::Local | Self::Global)
    }

    /// Whether a value of this scope may leave the publisher's node.
    #[must_use]
    pub const fn is_visible_remotely(self) -> bool {
        matches!(self, Self::Remote | Self::Global)
    }
}
