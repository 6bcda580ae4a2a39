use std::borrow::{Borrow, Cow};
use std::fmt;

use super::archive::archived_as_string;

/// The name of a key: 1 to 511 bytes of UTF-8 without a NUL.
///
/// The key of an [`Info`](super::Info) may also be empty ([`Key::of_info`]). No lookup finds such an info.
///
/// Names that stores use internally begin with a NUL, so no user's key equals one.
///
/// Source: PMIx Standard, "Data Structures and Types" (`pmix_key_t`).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Cow<'static, str>);

/// Why a key was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// An empty name.
    #[error("a key must not be empty")]
    Empty,
    /// Longer than the standard's limit.
    #[error("key of {size_bytes} bytes exceeds the limit of {} bytes", Key::SIZE_BYTES_MAX)]
    TooLong {
        /// Length of the refused key.
        size_bytes: usize,
    },
    /// A NUL byte or bytes that are not UTF-8.
    #[error("key has an invalid byte at {position}; use UTF-8 without NUL")]
    InvalidByte {
        /// Index of the first invalid byte.
        position: usize,
    },
    /// The application tried to set a key that belongs to the host and the library.
    #[error("key {key:?} is reserved: only the host may set keys that begin with \"pmix\"")]
    Reserved {
        /// The reserved key.
        key: String,
    },
}

impl Key {
    /// Longest key in bytes, without the terminating NUL.
    pub const SIZE_BYTES_MAX: usize = 511;

    /// Checks and takes a key.
    ///
    /// # Errors
    /// [`KeyError`] when empty, too long, or holding a NUL.
    pub fn new(key: impl Into<Cow<'static, str>>) -> Result<Self, KeyError> {
        let key = key.into();
        Self::check(&key).map(|()| Self(key))
    }

    /// Whether a text can be a key.
    pub(super) fn check(key: &str) -> Result<(), KeyError> {
        if key.is_empty() {
            return Err(KeyError::Empty);
        }
        if key.len() > Self::SIZE_BYTES_MAX {
            return Err(KeyError::TooLong { size_bytes: key.len() });
        }
        match key.find('\0') {
            Some(position) => Err(KeyError::InvalidByte { position }),
            None => Ok(()),
        }
    }

    /// Takes a key that [`Key::check`] has admitted.
    pub(super) const fn of_checked(key: String) -> Self {
        Self(Cow::Owned(key))
    }

    /// A name for a store's internal use: a NUL, and this text.
    ///
    /// # Panics
    /// If the text is longer than a key.
    pub(crate) fn internal(text: &str) -> Self {
        assert!(text.len() < Self::SIZE_BYTES_MAX, "{text:?} is too long for a name");
        Self(Cow::Owned(format!("\0{text}")))
    }

    /// Checks and takes a key given as bytes.
    ///
    /// # Errors
    /// [`KeyError`] when empty, too long, not UTF-8, or holding a NUL.
    pub fn from_bytes(key: &[u8]) -> Result<Self, KeyError> {
        match std::str::from_utf8(key) {
            Ok(key) => Self::new(key.to_owned()),
            Err(e) => Err(KeyError::InvalidByte { position: e.valid_up_to() }),
        }
    }

    /// Checks and takes the key of an info, which may be empty. OpenPMIx passes infos without a key on. Programs have
    /// such infos in arrays that are larger than needed.
    ///
    /// # Errors
    /// As [`Key::from_bytes`] for a key that is not empty.
    pub fn of_info(key: &[u8]) -> Result<Self, KeyError> {
        if key.is_empty() { Ok(Self(Cow::Borrowed(""))) } else { Self::from_bytes(key) }
    }

    /// Takes a key for an application's put; it must not be reserved.
    ///
    /// # Errors
    /// [`KeyError::Reserved`] for keys that begin with `pmix`, else as [`Key::new`].
    pub fn for_put(key: impl Into<Cow<'static, str>>) -> Result<Self, KeyError> {
        let key = Self::new(key)?;
        if key.is_reserved() {
            return Err(KeyError::Reserved { key: key.0.into_owned() });
        }
        Ok(key)
    }

    /// A key known at compile time to be valid. For tables of constants.
    ///
    /// # Panics
    /// At compile time, if the text is empty or too long.
    #[must_use]
    pub const fn from_static(key: &'static str) -> Self {
        assert!(!key.is_empty() && key.len() <= Self::SIZE_BYTES_MAX);
        Self(Cow::Borrowed(key))
    }

    /// The key's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether only the host and the library may set this key.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        Self::is_reserved_name(&self.0)
    }

    /// Whether a key of this name is a reserved one.
    #[must_use]
    pub fn is_reserved_name(name: &str) -> bool {
        name.starts_with("pmix")
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

archived_as_string!(Key, Key::of_info, Key::from_static("?"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_511_bytes() {
        assert!(Key::new("k".repeat(511)).is_ok());
        assert_eq!(Key::new("k".repeat(512)), Err(KeyError::TooLong { size_bytes: 512 }));
    }

    #[test]
    fn an_application_cannot_put_a_reserved_key() {
        assert!(matches!(Key::for_put("pmix.rank"), Err(KeyError::Reserved { .. })));
        assert!(matches!(Key::for_put("pmixed"), Err(KeyError::Reserved { .. })));
        assert!(Key::for_put("btl.tcp").is_ok());
    }

    #[test]
    fn nobodys_key_is_a_name_that_a_store_makes_for_itself() {
        let name = Key::internal("qualified.1");
        assert_eq!(Key::for_put(name.as_str().to_owned()), Err(KeyError::InvalidByte { position: 0 }));
        assert_eq!(Key::from_bytes(name.as_str().as_bytes()), Err(KeyError::InvalidByte { position: 0 }));
    }
}
