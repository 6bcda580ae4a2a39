use std::borrow::Cow;

use super::{Key, KeyError, Kval, Text, TextError, Value};

/// A borrowed entry.
#[derive(Clone, Debug, PartialEq)]
pub struct LentEntry<'a> {
    /// Its key.
    pub key: LentKey<'a>,
    /// The value.
    pub value: LentValue<'a>,
}

/// A borrowed name of a key; as valid as a [`Key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LentKey<'a>(&'a str);

/// A value whose bytes, if there are many, are borrowed.
#[derive(Clone, Debug, PartialEq)]
pub enum LentValue<'a> {
    /// A string.
    String(LentText<'a>),
    /// A byte object.
    ByteObject(&'a [u8]),
    /// Anything else.
    Value(Cow<'a, Value>),
}

/// A borrowed string: bytes without a NUL, as in a [`Text`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LentText<'a>(&'a [u8]);

impl<'a> LentKey<'a> {
    /// Checks a key.
    ///
    /// # Errors
    /// As [`Key::from_bytes`].
    pub fn new(key: &'a [u8]) -> Result<Self, KeyError> {
        let text = std::str::from_utf8(key).map_err(|e| KeyError::InvalidByte { position: e.valid_up_to() })?;
        Key::check(text)?;
        Ok(Self(text))
    }

    /// Checks a key; `self` is the expected one.
    ///
    /// # Errors
    /// As [`LentKey::new`].
    pub fn or_new(self, key: &'a [u8]) -> Result<Self, KeyError> {
        if self.0.as_bytes() == key { Ok(self) } else { Self::new(key) }
    }

    /// The key's text.
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        self.0
    }

    /// A key of its own.
    #[must_use]
    pub fn to_key(self) -> Key {
        Key::of_checked(self.0.to_owned())
    }
}

impl<'a> LentText<'a> {
    /// Takes bytes without a NUL.
    ///
    /// # Errors
    /// [`TextError`] names the position of the first NUL.
    pub fn new(bytes: &'a [u8]) -> Result<Self, TextError> {
        match bytes.contains(&0) {
            true => Err(Text::new(bytes).err().unwrap_or(TextError { position: 0, size_bytes: bytes.len() })),
            false => Ok(Self(bytes)),
        }
    }

    /// The bytes, without a terminating NUL.
    #[must_use]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

impl LentValue<'_> {
    /// Whether it is the undefined value, which removes a posted one.
    #[must_use]
    pub fn is_undefined(&self) -> bool {
        matches!(self, Self::Value(value) if **value == Value::Undefined)
    }

    /// A value of its own.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match self {
            // A lent text holds no NUL.
            Self::String(text) => Value::String(Text::until_nul(text.0)),
            Self::ByteObject(bytes) => Value::ByteObject(bytes.to_vec()),
            Self::Value(value) => value.clone().into_owned(),
        }
    }
}

impl<'a> From<&'a Kval> for LentEntry<'a> {
    fn from(entry: &'a Kval) -> Self {
        Self { key: LentKey(entry.key.as_str()), value: LentValue::Value(Cow::Borrowed(&entry.value)) }
    }
}

impl LentEntry<'_> {
    /// An entry of its own.
    #[must_use]
    pub fn to_kval(&self) -> Kval {
        Kval { key: self.key.to_key(), value: self.value.to_value() }
    }
}
