//! Members that own strings and bytes.

use std::ffi::CStr;

use modex::regex::framed_length;
use modex::types::{Key, Namespace, Text};

use super::{Depth, Form, Own, Whole, known_key, new_list};
use crate::error::CError;
use crate::types::{
    PMIX_MAX_KEYLEN, PMIX_MAX_NSLEN, c_char, pmix_byte_object_t, pmix_data_buffer_t, pmix_key_t, pmix_nspace_t,
};
use crate::{memory, pointer};

/// A string; `None` is NULL.
#[derive(Debug)]
pub struct Str;

impl Form for Str {
    type C = *mut c_char;
    type Owned = Option<Text>;

    fn read(from: Whole<'_, Self>, _: Depth) -> Result<Option<Text>, CError> {
        Ok(from.text("string")?.map(Text::from))
    }

    fn write(owned: &Option<Text>, to: &mut *mut c_char) -> Result<(), CError> {
        if let Some(text) = owned {
            *to = memory::new_string(text.as_bytes())?;
        }
        Ok(())
    }

    fn copy(from: Whole<'_, Self>, to: &mut *mut c_char, _: Depth) -> Result<(), CError> {
        if let Some(text) = from.text("string")? {
            *to = memory::new_string(text.to_bytes())?;
        }
        Ok(())
    }

    fn destruct(member: Own<'_, Self>) {
        let member = member.into_place();
        // SAFETY: F1: the string is a block of its own, or there is none.
        unsafe { memory::release(*member) };
        *member = std::ptr::null_mut();
    }
}

impl<'a> Whole<'a, Str> {
    /// The string; `None` for NULL.
    ///
    /// # Errors
    /// When the pointer is an impossible address; `what` names it.
    pub fn text(self, what: &'static str) -> Result<Option<&'a CStr>, CError> {
        // SAFETY: P1 holds for the member, which is a string.
        unsafe { pointer::text(*self.get(), what) }
    }
}

/// Strings in an array that a NULL ends; none are a NULL array.
#[derive(Debug)]
pub struct Argv;

impl Form for Argv {
    type C = *mut *mut c_char;
    type Owned = Vec<Text>;

    fn read(from: Whole<'_, Self>, _: Depth) -> Result<Vec<Text>, CError> {
        Ok(from.texts("string of an array")?.into_iter().map(Text::from).collect())
    }

    fn write(owned: &Vec<Text>, to: &mut *mut *mut c_char) -> Result<(), CError> {
        Self::write_all(owned.iter().map(Text::as_bytes), to)
    }

    fn copy(from: Whole<'_, Self>, to: &mut *mut *mut c_char, _: Depth) -> Result<(), CError> {
        let texts = from.texts("string of an array")?;
        Self::write_all(texts.iter().map(|text| text.to_bytes()), to)
    }

    fn destruct(member: Own<'_, Self>) {
        // An array that can't be one is left alone.
        for text in member.whole().texts("string of an array").unwrap_or_default() {
            // SAFETY: F1: every string is a block of its own.
            unsafe { memory::release(text.as_ptr().cast_mut()) };
        }
        let member = member.into_place();
        // SAFETY: F1: the array is a block of its own, or there is none.
        unsafe { memory::release(*member) };
        *member = std::ptr::null_mut();
    }
}

impl<'a> Whole<'a, Argv> {
    /// The strings; none for NULL.
    ///
    /// # Errors
    /// When a pointer is an impossible address; `what` names it.
    pub fn texts(self, what: &'static str) -> Result<Vec<&'a CStr>, CError> {
        // SAFETY: P1 holds for the member, which is an array of strings that a NULL ends.
        unsafe { pointer::texts(self.get().cast_const(), what) }
    }
}

impl Argv {
    /// Puts strings into an empty member (F1).
    ///
    /// # Errors
    /// When there is no memory.
    pub fn write_all<'a>(
        texts: impl ExactSizeIterator<Item = &'a [u8]>,
        to: &mut *mut *mut c_char,
    ) -> Result<(), CError> {
        let count = texts.len();
        if count == 0 {
            return Ok(());
        }
        let mut entry_count = 0;
        // One entry more, whose NULL ends the array.
        let entries = new_list::<Str>(count.saturating_add(1), to, &mut entry_count)?;
        entries.iter_mut().zip(texts).try_for_each(|(entry, text)| {
            *entry = memory::new_string(text)?;
            Ok(())
        })
    }
}

/// Bytes and their number.
impl Form for pmix_byte_object_t {
    type C = Self;
    type Owned = Vec<u8>;

    fn read(from: Whole<'_, Self>, _: Depth) -> Result<Vec<u8>, CError> {
        Ok(from.content("bytes")?.to_vec())
    }

    fn write(owned: &Vec<u8>, to: &mut Self) -> Result<(), CError> {
        write_bytes(owned, to)
    }

    fn copy(from: Whole<'_, Self>, to: &mut Self, _: Depth) -> Result<(), CError> {
        write_bytes(from.content("bytes")?, to)
    }

    fn destruct(member: Own<'_, Self>) {
        let member = member.into_place();
        // SAFETY: F1: the bytes are a block of their own, or there are none.
        unsafe { memory::release(member.bytes) };
        Self::construct(member);
    }
}

impl<'a> Whole<'a, pmix_byte_object_t> {
    /// The bytes.
    ///
    /// # Errors
    /// When NULL has bytes, or the pointer or the number is impossible; `what` names the bytes.
    pub fn content(self, what: &'static str) -> Result<&'a [u8], CError> {
        // SAFETY: P1 holds for the pointer, which has so many bytes.
        unsafe { pointer::slice(self.bytes.cast::<u8>(), self.size, what) }
    }
}

/// Puts bytes into an empty byte object.
pub fn write_bytes(bytes: &[u8], to: &mut pmix_byte_object_t) -> Result<(), CError> {
    to.bytes = memory::new_bytes(bytes)?;
    to.size = bytes.len();
    Ok(())
}

/// A map expression in a byte object. Hosts may fill in the pointer alone; the end then follows from the text.
#[derive(Debug)]
pub struct Regex;

impl Form for Regex {
    type C = pmix_byte_object_t;
    type Owned = Vec<u8>;

    fn read(from: Whole<'_, Self>, _: Depth) -> Result<Vec<u8>, CError> {
        Ok(from.expression()?.to_vec())
    }

    fn write(owned: &Vec<u8>, to: &mut pmix_byte_object_t) -> Result<(), CError> {
        write_bytes(owned, to)
    }

    fn copy(from: Whole<'_, Self>, to: &mut pmix_byte_object_t, _: Depth) -> Result<(), CError> {
        write_bytes(from.expression()?, to)
    }

    fn destruct(member: Own<'_, Self>) {
        // SAFETY: F1 holds for the expression, whose only block is that of its bytes.
        pmix_byte_object_t::destruct(unsafe { Own::new(member.into_place()) });
    }
}

impl<'a> Whole<'a, Regex> {
    /// The expression, with the NUL that ends a text.
    fn expression(self) -> Result<&'a [u8], CError> {
        if self.size == 0 && !self.bytes.is_null() {
            // SAFETY: P1 holds for the pointer; without a number of bytes a NUL or its own size ends the expression.
            return unsafe { bare_regex(self.bytes) };
        }
        // SAFETY: P1 holds for the pointer, which has so many bytes.
        unsafe { pointer::slice(self.bytes.cast::<u8>(), self.size, "map expression") }
    }
}

/// A map expression given as a bare pointer, with the NUL that ends it. It is a text, or the sized form with its size
/// behind two texts.
///
/// # Errors
/// When it is NULL, or in the sized form without a size.
///
/// # Safety
/// P1, and a NUL or its own size ends the expression.
pub unsafe fn bare_regex<'a>(expression: *const c_char) -> Result<&'a [u8], CError> {
    // SAFETY: the expression begins with a text, which a NUL ends.
    let text =
        unsafe { pointer::text(expression, "map expression") }?.ok_or(CError::Null { what: "map expression" })?;
    if text.to_bytes() != b"blob:" {
        return Ok(text.to_bytes_with_nul());
    }
    let mut length = text.count_bytes() + 1;
    let mut size_seen = false;
    // The header: "blob:" NUL "component=zlib:" NUL "size=N:" NUL; each part is a text.
    for _ in 0..2 {
        let next = expression.wrapping_add(length);
        // SAFETY: the part before ended with a NUL inside the expression, and another text follows (its form).
        let part = unsafe { pointer::text(next, "map expression") }?.ok_or(CError::Regex)?;
        length += part.count_bytes() + 1;
        if let Some(size) = part.to_bytes().strip_prefix(b"size=").and_then(|rest| rest.strip_suffix(b":")) {
            let size: usize = std::str::from_utf8(size).ok().and_then(|text| text.parse().ok()).ok_or(CError::Regex)?;
            length = length.checked_add(size).ok_or(CError::Regex)?;
            size_seen = true;
            break;
        }
    }
    if !size_seen {
        return Err(CError::Regex);
    }
    // SAFETY: the expression is as long as its own size says.
    let bytes = unsafe { pointer::slice(expression.cast::<u8>(), length, "map expression") }?;
    if framed_length(bytes) == Ok(length) { Ok(bytes) } else { Err(CError::Regex) }
}

/// Packed data as bytes: all bytes of the buffer from its start, read or not.
impl Form for pmix_data_buffer_t {
    type C = Self;
    type Owned = Vec<u8>;

    fn read(from: Whole<'_, Self>, _: Depth) -> Result<Vec<u8>, CError> {
        Ok(from.content()?.to_vec())
    }

    fn write(owned: &Vec<u8>, to: &mut Self) -> Result<(), CError> {
        write_buffer(owned, to)
    }

    fn copy(from: Whole<'_, Self>, to: &mut Self, _: Depth) -> Result<(), CError> {
        write_buffer(from.content()?, to)
    }

    fn destruct(member: Own<'_, Self>) {
        let member = member.into_place();
        // SAFETY: F1: the packed data is a block of its own, or there is none.
        unsafe { memory::release(member.base_ptr) };
        Self::construct(member);
    }
}

impl<'a> Whole<'a, pmix_data_buffer_t> {
    /// All bytes of the buffer from its start, read or not.
    ///
    /// # Errors
    /// When NULL has bytes, or the pointer or the number is impossible.
    pub fn content(self) -> Result<&'a [u8], CError> {
        // SAFETY: P1 holds for the block, which is filled up to `bytes_used`.
        unsafe { pointer::slice(self.base_ptr.cast::<u8>(), self.bytes_used, "packed data") }
    }
}

fn write_buffer(bytes: &[u8], to: &mut pmix_data_buffer_t) -> Result<(), CError> {
    to.base_ptr = memory::new_bytes(bytes)?;
    to.unpack_ptr = to.base_ptr;
    to.pack_ptr = to.base_ptr.wrapping_add(bytes.len());
    to.bytes_allocated = bytes.len();
    to.bytes_used = bytes.len();
    Ok(())
}

/// A key in place.
#[derive(Debug)]
pub struct KeyField;

impl Form for KeyField {
    type C = pmix_key_t;
    type Owned = Key;

    fn read(from: Whole<'_, Self>, _: Depth) -> Result<Key, CError> {
        key_in(from.get())
    }

    fn write(owned: &Key, to: &mut pmix_key_t) -> Result<(), CError> {
        // The array is empty: zero up to its end.
        const { assert!(Key::SIZE_BYTES_MAX == PMIX_MAX_KEYLEN) };
        let text = owned.as_str().as_bytes();
        to.iter_mut().zip(text).for_each(|(to, from)| *to = from.cast_signed());
        Ok(())
    }

    fn copy(from: Whole<'_, Self>, to: &mut pmix_key_t, _: Depth) -> Result<(), CError> {
        *to = *from;
        Ok(())
    }

    fn destruct(member: Own<'_, Self>) {
        *member.into_place() = [0; PMIX_MAX_KEYLEN + 1];
    }
}

/// A key in place.
///
/// # Errors
/// When no NUL ends it, or it is no key.
pub fn key_in(from: &pmix_key_t) -> Result<Key, CError> {
    Ok(known_key::key(pointer::fixed_text(from, "key")?)?)
}

/// The key of an info, which may be empty.
pub(crate) fn info_key(from: &pmix_key_t) -> Result<Key, CError> {
    match pointer::fixed_text(from, "key")? {
        b"" => Ok(Key::of_info(b"")?),
        text => Ok(known_key::key(text)?),
    }
}

/// A namespace in place, as an element of its own.
#[derive(Debug)]
pub struct NamespaceField;

impl Form for NamespaceField {
    type C = pmix_nspace_t;
    type Owned = Namespace;

    fn read(from: Whole<'_, Self>, _: Depth) -> Result<Namespace, CError> {
        Ok(Namespace::in_value(pointer::fixed_text(from.get(), "namespace")?)?)
    }

    fn write(owned: &Namespace, to: &mut pmix_nspace_t) -> Result<(), CError> {
        const { assert!(Namespace::SIZE_BYTES_MAX == PMIX_MAX_NSLEN) };
        let text = owned.as_str().as_bytes();
        to.iter_mut().zip(text).for_each(|(to, from)| *to = from.cast_signed());
        Ok(())
    }

    fn copy(from: Whole<'_, Self>, to: &mut pmix_nspace_t, _: Depth) -> Result<(), CError> {
        *to = *from;
        Ok(())
    }

    fn destruct(member: Own<'_, Self>) {
        *member.into_place() = [0; PMIX_MAX_NSLEN + 1];
    }
}

/// The key string of an attribute's description, which need not be a key.
#[derive(Debug)]
pub struct KeyString;

impl Form for KeyString {
    type C = pmix_key_t;
    type Owned = Text;

    fn read(from: Whole<'_, Self>, _: Depth) -> Result<Text, CError> {
        Ok(Text::until_nul(pointer::fixed_text(from.get(), "attribute's key")?))
    }

    fn write(owned: &Text, to: &mut pmix_key_t) -> Result<(), CError> {
        pointer::put_fixed_text(owned.as_bytes(), to, "attribute's key")
    }

    fn copy(from: Whole<'_, Self>, to: &mut pmix_key_t, _: Depth) -> Result<(), CError> {
        *to = *from;
        Ok(())
    }

    fn destruct(member: Own<'_, Self>) {
        *member.into_place() = [0; PMIX_MAX_KEYLEN + 1];
    }
}
