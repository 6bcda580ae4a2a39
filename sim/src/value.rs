//! Values that carry their origin: process, key, scope and version.

use modex::types::{Scope, Value};

/// Keys that processes put: `k0` to `k5`.
pub(super) const KEYS: [&str; 6] = ["k0", "k1", "k2", "k3", "k4", "k5"];

/// The origin of a value, as the value carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Number of the process in the run.
    pub(super) process: u32,
    /// Position in [`KEYS`].
    pub(super) key: u8,
    pub(super) scope: Scope,
    /// Grows with each put of the process.
    pub(super) version: u32,
}

impl Stamp {
    /// The value: a number, or a text long enough not to fit into a cell.
    pub(super) fn value(self) -> Value {
        let bits = self.bits();
        if self.version.is_multiple_of(2) { Value::Uint64(bits) } else { Value::from(Self::text(bits).as_str()) }
    }

    /// The stamp in a value; `None` if the value has none or was changed.
    pub(super) fn of(value: &Value) -> Option<Self> {
        let bits = match value {
            Value::Uint64(bits) => *bits,
            other => {
                let text = other.as_str()?;
                let bits = u64::from_str_radix(text.get(..16)?, 16).ok()?;
                if text != Self::text(bits) {
                    return None;
                }
                bits
            }
        };
        let [low_scope, key, ..] = bits.to_be_bytes();
        let process = u32::try_from((bits >> 24) & 0xFF_FFFF).ok()?;
        let version = u32::try_from(bits & 0xFF_FFFF).ok()?;
        Some(Self { process, key, scope: Scope::from_raw(low_scope)?, version })
    }

    /// One byte of scope, one of key, three of process, three of version.
    fn bits(self) -> u64 {
        let [_, p0, p1, p2] = self.process.to_be_bytes();
        let [_, v0, v1, v2] = self.version.to_be_bytes();
        u64::from_be_bytes([self.scope.to_raw(), self.key, p0, p1, p2, v0, v1, v2])
    }

    fn text(bits: u64) -> String {
        format!(
            "{bits:016x} and {}",
            "enough to need a place of its own".get(..usize::try_from(bits % 30).unwrap_or(0)).unwrap_or("")
        )
    }
}

/// The newest version of one key, for each scope of readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Put {
    pub(super) key: u8,
    pub(super) own: u32,
    pub(super) same_node: u32,
    pub(super) other_nodes: u32,
}

impl Put {
    pub(super) const fn version_for(self, is_same_node: bool) -> u32 {
        if is_same_node { self.same_node } else { self.other_nodes }
    }

    /// Whether a version of the value ever leaves the process.
    pub(super) const fn is_for_others(self) -> bool {
        self.same_node > 0 || self.other_nodes > 0
    }
}

/// Values that the participants of an exchange had committed when their servers handed it over.
#[derive(Debug, Default)]
pub(super) struct Promise {
    pub(super) values: Vec<Promised>,
}

/// One participant's part.
#[derive(Debug)]
pub(super) struct Promised {
    pub(super) process: u32,
    pub(super) node: u32,
    pub(super) committed: Vec<Put>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_says_what_was_put_into_it() {
        for version in [1, 2, 65_537] {
            let stamp = Stamp { process: 999_999, key: 5, scope: Scope::Remote, version };
            assert_eq!(Stamp::of(&stamp.value()), Some(stamp));
        }
        assert_eq!(Stamp::of(&Value::from("0300000000000001 and so on")), None);
        assert_eq!(Stamp::of(&Value::Uint64(7)), None);
    }
}
