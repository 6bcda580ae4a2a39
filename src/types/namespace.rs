use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use super::archive::archived_as_string;

/// The name of a job: 1 to 255 bytes of UTF-8 without a NUL. Cheap to clone.
///
/// An unfilled process (`PMIX_PROC_CONSTRUCT`) has no namespace, and a request for it is invalid. In a value, which is
/// kept and passed on unchanged, it has the empty namespace ([`Namespace::in_value`]).
///
/// Source: PMIx Standard, "Data Structures and Types" (`pmix_nspace_t`).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Namespace(Arc<str>);

impl Ord for Namespace {
    /// The order of the names. Clones of one name compare without reading it, which speeds up the sorting of long
    /// lists.
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.cmp(&other.0) }
    }
}

impl PartialOrd for Namespace {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Why a namespace was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamespaceError {
    /// An empty name.
    #[error("a namespace must not be empty")]
    Empty,
    /// Longer than the standard's limit.
    #[error("namespace of {size_bytes} bytes exceeds the limit of {} bytes", Namespace::SIZE_BYTES_MAX)]
    TooLong {
        /// Length of the refused name.
        size_bytes: usize,
    },
    /// A NUL byte or bytes that are not UTF-8.
    #[error("namespace has an invalid byte at {position}; use UTF-8 without NUL")]
    InvalidByte {
        /// Index of the first invalid byte.
        position: usize,
    },
}

impl Namespace {
    /// Longest namespace in bytes, without the terminating NUL.
    pub const SIZE_BYTES_MAX: usize = 255;

    /// Checks and takes a name.
    ///
    /// # Errors
    /// [`NamespaceError`] when empty, too long, or holding a NUL.
    pub fn new(name: &str) -> Result<Self, NamespaceError> {
        if name.is_empty() {
            return Err(NamespaceError::Empty);
        }
        if name.len() > Self::SIZE_BYTES_MAX {
            return Err(NamespaceError::TooLong { size_bytes: name.len() });
        }
        match name.bytes().position(|b| b == 0) {
            Some(position) => Err(NamespaceError::InvalidByte { position }),
            None => Ok(Self(name.into())),
        }
    }

    /// Checks and takes a name given as bytes.
    ///
    /// # Errors
    /// [`NamespaceError`] when empty, too long, not UTF-8, or holding a NUL.
    pub fn from_bytes(name: &[u8]) -> Result<Self, NamespaceError> {
        match std::str::from_utf8(name) {
            Ok(name) => Self::new(name),
            Err(e) => Err(NamespaceError::InvalidByte { position: e.valid_up_to() }),
        }
    }

    /// As [`Namespace::from_bytes`], for a process in a value: the name may be empty.
    ///
    /// # Errors
    /// [`NamespaceError`] when too long, not UTF-8, or holding a NUL.
    pub fn in_value(name: &[u8]) -> Result<Self, NamespaceError> {
        if name.is_empty() { Ok(Self(Arc::from(""))) } else { Self::from_bytes(name) }
    }

    /// Whether it is the empty namespace of an unfilled process.
    #[must_use]
    pub fn is_nobodys(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether both are the same name. Faster than `==` for clones, the usual case.
    #[must_use]
    #[inline]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self == other
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Namespace {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

archived_as_string!(Namespace, Namespace::in_value, Namespace(Arc::from("")));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_255_bytes() {
        assert!(Namespace::new(&"n".repeat(255)).is_ok());
        assert_eq!(Namespace::new(&"n".repeat(256)), Err(NamespaceError::TooLong { size_bytes: 256 }));
    }

    #[test]
    fn empty_and_nul_are_refused() {
        assert_eq!(Namespace::new(""), Err(NamespaceError::Empty));
        assert_eq!(Namespace::new("a\0"), Err(NamespaceError::InvalidByte { position: 1 }));
        assert_eq!(Namespace::from_bytes(b"ok\xff"), Err(NamespaceError::InvalidByte { position: 2 }));
    }
}
