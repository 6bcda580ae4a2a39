use std::fmt;

use crate::types::DataType;

/// The encoding of values on one connection. The client chooses; both directions use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Codec {
    /// Encoding of integers, and known data types.
    pub generation: Generation,
    /// Whether every pack operation states the type of its values.
    pub described: bool,
}

/// Generations of the encoding, oldest first. Later ones only add data types, except that integers changed after V3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    /// Releases 2.1 to 3.x: integers of fixed width in network order.
    V3,
    /// Release 4.0: integers of as many 7-bit groups as needed.
    V4,
    /// Releases 4.1 to 5.0.
    V41,
    /// Release 6.0.
    V51,
    /// Release 6.1.
    V61,
}

impl Codec {
    /// The encoding that 4.1 and all later releases know and this library offers: V41, not described.
    pub const V41: Self = Self { generation: Generation::V41, described: false };

    /// Whether peers of this generation can read values of the given type. They refuse a whole message for one type
    /// they don't know.
    #[must_use]
    pub const fn registers(self, data_type: DataType) -> bool {
        let code = data_type.to_raw();
        if code <= LAST_CODE_OF_V3 {
            return true;
        }
        match self.generation {
            Generation::V3 => false,
            Generation::V4 => code <= LAST_CODE_OF_V4,
            Generation::V41 => code <= LAST_CODE_OF_V41,
            Generation::V51 => code <= LAST_CODE_OF_V51 && !is_statistics(code),
            Generation::V61 => code <= LAST_CODE_OF_V61 && !is_statistics(code),
        }
    }
}

impl Generation {
    /// Every generation, oldest first.
    pub const ALL: [Self; 5] = [Self::V3, Self::V4, Self::V41, Self::V51, Self::V61];

    /// Reads the module name that a client sends in its connect message; `None` if it is not supported. These are `v20`
    /// and `v12`, with other widths of commands, buffers and types in infos, and modules after `v61`. Releases with an
    /// unsupported module also have a supported one, and choose it if the server offers it.
    #[must_use]
    pub fn from_module_name(name: &[u8]) -> Option<Self> {
        // v21 lacks two data types of v3 and is otherwise the same.
        if name == b"v21" {
            return Some(Self::V3);
        }
        Self::ALL.into_iter().find(|generation| generation.module_name().as_bytes() == name)
    }

    /// The name for the connect message.
    #[must_use]
    pub const fn module_name(self) -> &'static str {
        match self {
            Self::V3 => "v3",
            Self::V4 => "v4",
            Self::V41 => "v41",
            Self::V51 => "v51",
            Self::V61 => "v61",
        }
    }

    /// Whether integers have a fixed width.
    #[must_use]
    pub const fn has_fixed_integers(self) -> bool {
        matches!(self, Self::V3)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.module_name())
    }
}

/// The statistics types (61 to 64) were withdrawn in 6.0.
const fn is_statistics(code: u16) -> bool {
    matches!(code, 61..=64)
}

const LAST_CODE_OF_V3: u16 = 46;
const LAST_CODE_OF_V4: u16 = 59;
const LAST_CODE_OF_V41: u16 = 69;
const LAST_CODE_OF_V51: u16 = 72;
const LAST_CODE_OF_V61: u16 = 74;
