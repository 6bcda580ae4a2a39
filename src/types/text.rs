use std::ffi::CStr;
use std::fmt;
use std::str::Utf8Error;

use rkyv::Deserialize;
use rkyv::rancor::Fallible;

use super::archive::Checking;

/// A PMIx string: bytes without a NUL, in any encoding (usually UTF-8).
///
/// PMIx strings are C strings. Environment values, file names and arguments need not be UTF-8. So the bytes are kept
/// unchanged, and [`Text::to_str`] returns a `str` if they are UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, rkyv::Archive, rkyv::Serialize)]
pub struct Text(Box<[u8]>);

/// A string was refused because it holds a NUL byte, where every C reader would stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("string of {size_bytes} bytes has a NUL byte at {position}; pass it as a byte object instead")]
pub struct TextError {
    /// Index of the first NUL byte.
    pub position: usize,
    /// Length of the refused string.
    pub size_bytes: usize,
}

/// An archive is foreign data: a NUL in it is refused.
impl<D> Deserialize<Text, D> for ArchivedText
where
    D: Fallible + Checking + ?Sized,
{
    fn deserialize(&self, copier: &mut D) -> Result<Text, D::Error> {
        Ok(copier.checked(Text::new(&*self.0), Text::default()))
    }
}

impl Text {
    /// Takes bytes without a NUL.
    ///
    /// # Errors
    /// [`TextError`] names the position of the first NUL.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Result<Self, TextError> {
        let bytes = bytes.into();
        // The search for one byte is many times as fast as the search for a position.
        if !bytes.contains(&0) {
            return Ok(Self(bytes));
        }
        let position = bytes.iter().position(|&b| b == 0).unwrap_or_default();
        Err(TextError { position, size_bytes: bytes.len() })
    }

    /// Takes the bytes before the first NUL, as a C reader would.
    #[must_use]
    pub fn until_nul(bytes: &[u8]) -> Self {
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        Self(bytes.get(..end).unwrap_or(bytes).into())
    }

    /// The bytes, without a terminating NUL.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The string as UTF-8.
    ///
    /// # Errors
    /// The position of the first byte that is not UTF-8.
    pub fn to_str(&self) -> Result<&str, Utf8Error> {
        std::str::from_utf8(&self.0)
    }

    /// The string with every invalid sequence replaced, for messages to people.
    #[must_use]
    pub fn to_string_lossy(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

/// Text literals and formatted strings; everything after a NUL is cut, as a C reader would.
impl From<&str> for Text {
    fn from(s: &str) -> Self {
        Self::until_nul(s.as_bytes())
    }
}

/// A C string has no NUL inside, so no check is needed.
impl From<&CStr> for Text {
    fn from(s: &CStr) -> Self {
        Self(s.to_bytes().into())
    }
}

impl From<String> for Text {
    fn from(s: String) -> Self {
        Self::from(s.as_str())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nul_is_refused_with_its_position() {
        let refused = Text::new(*b"ab\0c").unwrap_err();
        assert_eq!(refused, TextError { position: 2, size_bytes: 4 });
    }

    #[test]
    fn until_nul_cuts_like_a_c_reader() {
        assert_eq!(Text::until_nul(b"ab\0c").as_bytes(), b"ab");
        assert_eq!(Text::from("whole").as_bytes(), b"whole");
    }

    #[test]
    fn both_conversions_from_strings_cut_at_a_nul() {
        assert_eq!(Text::from("a\0b"), Text::from(String::from("a\0b")));
    }
}
