//! Members that own strings and bytes.

use modex::regex::framed_length;
use modex::types::{Key, Namespace, Text};

use super::{Depth, Form, known_key};
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

    unsafe fn read(from: &*mut c_char, _: Depth) -> Result<Option<Text>, CError> {
        // SAFETY: the caller's contract.
        Ok(unsafe { pointer::text(*from, "string") }?.map(Text::from))
    }

    fn write(owned: &Option<Text>, to: &mut *mut c_char) -> Result<(), CError> {
        if let Some(text) = owned {
            *to = memory::new_string(text.as_bytes())?;
        }
        Ok(())
    }

    unsafe fn copy(from: &*mut c_char, to: &mut *mut c_char, _: Depth) -> Result<(), CError> {
        // SAFETY: the caller's contract.
        if let Some(text) = unsafe { pointer::text(*from, "string") }? {
            *to = memory::new_string(text.to_bytes())?;
        }
        Ok(())
    }

    unsafe fn destruct(member: &mut *mut c_char) {
        // SAFETY: F1.
        unsafe { memory::release(*member) };
        *member = std::ptr::null_mut();
    }
}

/// Strings in an array that a NULL ends; none are a NULL array.
#[derive(Debug)]
pub struct Argv;

impl Form for Argv {
    type C = *mut *mut c_char;
    type Owned = Vec<Text>;

    unsafe fn read(from: &*mut *mut c_char, _: Depth) -> Result<Vec<Text>, CError> {
        // SAFETY: the caller's contract.
        let texts = unsafe { pointer::texts(*from, "string of an array") }?;
        Ok(texts.into_iter().map(Text::from).collect())
    }

    fn write(owned: &Vec<Text>, to: &mut *mut *mut c_char) -> Result<(), CError> {
        Self::write_all(owned.iter().map(Text::as_bytes), to)
    }

    unsafe fn copy(from: &*mut *mut c_char, to: &mut *mut *mut c_char, _: Depth) -> Result<(), CError> {
        // SAFETY: the caller's contract.
        let texts = unsafe { pointer::texts(*from, "string of an array") }?;
        Self::write_all(texts.iter().map(|text| text.to_bytes()), to)
    }

    unsafe fn destruct(member: &mut *mut *mut c_char) {
        // SAFETY: F1; an array that can't be one is left alone.
        let texts = unsafe { pointer::texts(*member, "string of an array") }.unwrap_or_default();
        for text in texts {
            // SAFETY: F1 for every string.
            unsafe { memory::release(text.as_ptr().cast_mut()) };
        }
        // SAFETY: F1.
        unsafe { memory::release(*member) };
        *member = std::ptr::null_mut();
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
        *to = memory::zeroed(count.saturating_add(1))?;
        // SAFETY: the block was made just now, one entry longer than `count`; NULL pointers are valid ones.
        let entries = unsafe { pointer::slice_mut(*to, count, "array of strings") }?;
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

    unsafe fn read(from: &Self, _: Depth) -> Result<Vec<u8>, CError> {
        // SAFETY: the caller's contract.
        Ok(unsafe { pointer::slice(from.bytes.cast::<u8>(), from.size, "bytes") }?.to_vec())
    }

    fn write(owned: &Vec<u8>, to: &mut Self) -> Result<(), CError> {
        write_bytes(owned, to)
    }

    unsafe fn copy(from: &Self, to: &mut Self, _: Depth) -> Result<(), CError> {
        // SAFETY: the caller's contract.
        write_bytes(unsafe { pointer::slice(from.bytes.cast::<u8>(), from.size, "bytes") }?, to)
    }

    unsafe fn destruct(member: &mut Self) {
        // SAFETY: F1.
        unsafe { memory::release(member.bytes) };
        Self::construct(member);
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

    unsafe fn read(from: &pmix_byte_object_t, _: Depth) -> Result<Vec<u8>, CError> {
        // SAFETY: the caller's contract.
        Ok(unsafe { regex_bytes(from) }?.to_vec())
    }

    fn write(owned: &Vec<u8>, to: &mut pmix_byte_object_t) -> Result<(), CError> {
        write_bytes(owned, to)
    }

    unsafe fn copy(from: &pmix_byte_object_t, to: &mut pmix_byte_object_t, _: Depth) -> Result<(), CError> {
        // SAFETY: the caller's contract.
        write_bytes(unsafe { regex_bytes(from) }?, to)
    }

    unsafe fn destruct(member: &mut pmix_byte_object_t) {
        // SAFETY: F1.
        unsafe { pmix_byte_object_t::destruct(member) };
    }
}

/// # Safety
/// P1, and a NUL or its own size ends the expression.
unsafe fn regex_bytes<'a>(object: &pmix_byte_object_t) -> Result<&'a [u8], CError> {
    if object.size != 0 || object.bytes.is_null() {
        // SAFETY: the caller's contract.
        return unsafe { pointer::slice(object.bytes.cast::<u8>(), object.size, "map expression") };
    }
    // SAFETY: the caller's contract.
    unsafe { bare_regex(object.bytes) }
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
    // SAFETY: the caller's contract.
    let text =
        unsafe { pointer::text(expression, "map expression") }?.ok_or(CError::Null { what: "map expression" })?;
    if text.to_bytes() != b"blob:" {
        return Ok(text.to_bytes_with_nul());
    }
    let mut length = text.count_bytes() + 1;
    let mut size_seen = false;
    // The header: "blob:" NUL "component=zlib:" NUL "size=N:" NUL; each part is a text.
    for _ in 0..2 {
        // SAFETY: the part before ended with a NUL inside the expression, and another part follows (caller's contract).
        let next = unsafe { expression.add(length) };
        // SAFETY: as above.
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
    // SAFETY: the expression is as long as its own size says (the caller's contract).
    let bytes = unsafe { pointer::slice(expression.cast::<u8>(), length, "map expression") }?;
    if framed_length(bytes) == Ok(length) { Ok(bytes) } else { Err(CError::Regex) }
}

/// Packed data as bytes: all bytes of the buffer from its start, read or not.
impl Form for pmix_data_buffer_t {
    type C = Self;
    type Owned = Vec<u8>;

    unsafe fn read(from: &Self, _: Depth) -> Result<Vec<u8>, CError> {
        // SAFETY: the caller's contract.
        Ok(unsafe { pointer::slice(from.base_ptr.cast::<u8>(), from.bytes_used, "packed data") }?.to_vec())
    }

    fn write(owned: &Vec<u8>, to: &mut Self) -> Result<(), CError> {
        write_buffer(owned, to)
    }

    unsafe fn copy(from: &Self, to: &mut Self, _: Depth) -> Result<(), CError> {
        // SAFETY: the caller's contract.
        write_buffer(unsafe { pointer::slice(from.base_ptr.cast::<u8>(), from.bytes_used, "packed data") }?, to)
    }

    unsafe fn destruct(member: &mut Self) {
        // SAFETY: F1.
        unsafe { memory::release(member.base_ptr) };
        Self::construct(member);
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
pub struct KeyText;

impl Form for KeyText {
    type C = pmix_key_t;
    type Owned = Key;

    unsafe fn read(from: &pmix_key_t, _: Depth) -> Result<Key, CError> {
        Ok(known_key::key(pointer::fixed_text(from, "key")?)?)
    }

    fn write(owned: &Key, to: &mut pmix_key_t) -> Result<(), CError> {
        // The array is empty: zero up to its end.
        const { assert!(Key::SIZE_BYTES_MAX == PMIX_MAX_KEYLEN) };
        let text = owned.as_str().as_bytes();
        to.iter_mut().zip(text).for_each(|(to, from)| *to = from.cast_signed());
        Ok(())
    }

    unsafe fn copy(from: &pmix_key_t, to: &mut pmix_key_t, _: Depth) -> Result<(), CError> {
        *to = *from;
        Ok(())
    }

    unsafe fn destruct(member: &mut pmix_key_t) {
        *member = [0; PMIX_MAX_KEYLEN + 1];
    }
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
pub struct NamespaceText;

impl Form for NamespaceText {
    type C = pmix_nspace_t;
    type Owned = Namespace;

    unsafe fn read(from: &pmix_nspace_t, _: Depth) -> Result<Namespace, CError> {
        Ok(Namespace::in_value(pointer::fixed_text(from, "namespace")?)?)
    }

    fn write(owned: &Namespace, to: &mut pmix_nspace_t) -> Result<(), CError> {
        const { assert!(Namespace::SIZE_BYTES_MAX == PMIX_MAX_NSLEN) };
        let text = owned.as_str().as_bytes();
        to.iter_mut().zip(text).for_each(|(to, from)| *to = from.cast_signed());
        Ok(())
    }

    unsafe fn copy(from: &pmix_nspace_t, to: &mut pmix_nspace_t, _: Depth) -> Result<(), CError> {
        *to = *from;
        Ok(())
    }

    unsafe fn destruct(member: &mut pmix_nspace_t) {
        *member = [0; PMIX_MAX_NSLEN + 1];
    }
}

/// The key string of an attribute's description, which need not be a key.
#[derive(Debug)]
pub struct KeyString;

impl Form for KeyString {
    type C = pmix_key_t;
    type Owned = Text;

    unsafe fn read(from: &pmix_key_t, _: Depth) -> Result<Text, CError> {
        Ok(Text::until_nul(pointer::fixed_text(from, "attribute's key")?))
    }

    fn write(owned: &Text, to: &mut pmix_key_t) -> Result<(), CError> {
        pointer::put_fixed_text(owned.as_bytes(), to, "attribute's key")
    }

    unsafe fn copy(from: &pmix_key_t, to: &mut pmix_key_t, _: Depth) -> Result<(), CError> {
        *to = *from;
        Ok(())
    }

    unsafe fn destruct(member: &mut pmix_key_t) {
        *member = [0; PMIX_MAX_KEYLEN + 1];
    }
}
