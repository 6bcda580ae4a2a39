use std::fmt;

/// An address in this process. It is never written: not to the wire, not to a segment, not to a log.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalAddress(usize);

impl LocalAddress {
    /// The address as a number.
    #[must_use]
    pub const fn new(address: usize) -> Self {
        Self(address)
    }

    /// The number; 0 for a pointer of another process.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0
    }
}

impl fmt::Debug for LocalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{ArchivedValue, Value};

    /// All processes of a job map its segments, so an address there would leak.
    #[test]
    fn an_address_is_not_archived() {
        let value = Value::Pointer(LocalAddress::new(0x1234_5678));
        let bytes = rkyv::to_bytes::<rkyv::rancor::Error>(&value).unwrap();
        let back = rkyv::access::<ArchivedValue, rkyv::rancor::Error>(&bytes).unwrap().to_value().unwrap();
        assert_eq!(back, Value::Pointer(LocalAddress::default()));
        assert_eq!(format!("{value:?}"), "Pointer(_)");
    }
}
