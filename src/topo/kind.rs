//! Kinds of the parts of a machine.

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $number:literal, $name:literal;)*) => {
        /// The kind of an object of a topology. The numbers are stored in segments; the names are hwloc's.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
            /// A kind that this release does not know.
            Other,
        }

        impl Kind {
            /// The kind that hwloc calls so.
            #[must_use]
            pub fn of_name(name: &str) -> Self {
                match name {
                    $($name => Self::$kind,)*
                    _ => Self::Other,
                }
            }

            /// hwloc's name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                    Self::Other => "Other",
                }
            }

            pub(super) const fn of_number(number: u16) -> Self {
                match number {
                    $($number => Self::$kind,)*
                    _ => Self::Other,
                }
            }

            pub(super) const fn number(self) -> u16 {
                match self {
                    $(Self::$kind => $number,)*
                    Self::Other => 0,
                }
            }
        }
    };
}

kinds! {
    /// The whole node.
    Machine = 1, "Machine";
    /// Content of a socket.
    Package = 2, "Package";
    /// A part of a package.
    Die = 3, "Die";
    /// Any other group of processors.
    Group = 4, "Group";
    /// A core.
    Core = 5, "Core";
    /// A hardware thread.
    Processor = 6, "PU";
    /// First-level data or unified cache.
    L1Cache = 7, "L1Cache";
    /// Second-level data or unified cache.
    L2Cache = 8, "L2Cache";
    /// Third-level data or unified cache.
    L3Cache = 9, "L3Cache";
    /// Fourth-level data or unified cache.
    L4Cache = 10, "L4Cache";
    /// Fifth-level data or unified cache.
    L5Cache = 11, "L5Cache";
    /// First-level instruction cache.
    L1InstructionCache = 12, "L1iCache";
    /// Second-level instruction cache.
    L2InstructionCache = 13, "L2iCache";
    /// Third-level instruction cache.
    L3InstructionCache = 14, "L3iCache";
    /// Memory of some processors.
    NumaNode = 15, "NUMANode";
    /// A cache of memory.
    MemoryCache = 16, "MemCache";
    /// A bridge of buses.
    Bridge = 17, "Bridge";
    /// A device on the PCI bus.
    PciDevice = 18, "PCIDev";
    /// A device as the operating system names it.
    OsDevice = 19, "OSDev";
    /// An annotation.
    Misc = 20, "Misc";
}

impl Kind {
    /// Whether objects of this kind are beside the hierarchy of processors and caches instead of a level in it.
    #[must_use]
    pub const fn is_beside(self) -> bool {
        matches!(
            self,
            Self::NumaNode | Self::MemoryCache | Self::Bridge | Self::PciDevice | Self::OsDevice | Self::Misc
        )
    }

    /// The level of a data or unified cache.
    #[must_use]
    pub const fn cache_level(self) -> Option<u8> {
        match self {
            Self::L1Cache => Some(1),
            Self::L2Cache => Some(2),
            Self::L3Cache => Some(3),
            Self::L4Cache => Some(4),
            Self::L5Cache => Some(5),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_known_by_its_name_and_by_its_number() {
        for kind in (0..32).map(Kind::of_number) {
            assert_eq!((Kind::of_name(kind.name()), Kind::of_number(kind.number())), (kind, kind));
        }
        assert_eq!((Kind::of_name("Socket"), Kind::of_number(999)), (Kind::Other, Kind::Other));
    }
}
