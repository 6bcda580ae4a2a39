//! Operations on a buffer, with a check of its members first.

use crate::error::CError;
use crate::form::{Form, Own, Whole};
use crate::memory;
use crate::types::{c_char, pmix_data_buffer_t};

/// First size of a buffer's block, in bytes.
const ROOM_FIRST: usize = 128;

/// Number of bytes already read.
///
/// # Errors
/// When the members contradict each other.
fn position(buffer: &pmix_data_buffer_t) -> Result<usize, CError> {
    if buffer.base_ptr.is_null() {
        return if buffer.bytes_used == 0 { Ok(0) } else { Err(CError::Null { what: "packed data" }) };
    }
    let number = buffer.unpack_ptr.addr();
    let position = number.checked_sub(buffer.base_ptr.addr()).filter(|&position| position <= buffer.bytes_used);
    position.ok_or(CError::BadPointer { what: "unread data", address: number })
}

/// The unread bytes.
///
/// # Errors
/// When the members contradict each other.
pub(super) fn unread(buffer: Whole<'_, pmix_data_buffer_t>) -> Result<&[u8], CError> {
    let position = position(&buffer)?;
    Ok(buffer.content()?.get(position..).unwrap_or_default())
}

/// Moves the read position on by `size_bytes`.
pub(super) fn advance(buffer: Own<'_, pmix_data_buffer_t>, size_bytes: usize) {
    let buffer = buffer.into_place();
    buffer.unpack_ptr = buffer.unpack_ptr.wrapping_add(size_bytes);
}

/// Appends bytes; the block grows as it must.
///
/// # Errors
/// When the members contradict each other, or there is no memory; the buffer is then as it was.
pub(super) fn append(buffer: Own<'_, pmix_data_buffer_t>, bytes: &[u8]) -> Result<(), CError> {
    let buffer = buffer.into_place();
    let position = position(buffer)?;
    let needed = buffer.bytes_used.saturating_add(bytes.len());
    if needed > buffer.bytes_allocated || buffer.base_ptr.is_null() {
        let room = needed.max(buffer.bytes_allocated.saturating_mul(2)).max(ROOM_FIRST);
        // SAFETY: the block is libc's or NULL (F1); the new block replaces it at once.
        buffer.base_ptr = unsafe { memory::resized(buffer.base_ptr, room) }?;
        buffer.bytes_allocated = room;
    }
    let end = buffer.base_ptr.wrapping_add(buffer.bytes_used);
    // SAFETY: the block has room for them behind what is used, and they are not in it.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), end.cast::<u8>(), bytes.len()) };
    buffer.bytes_used = needed;
    buffer.pack_ptr = buffer.base_ptr.wrapping_add(needed);
    buffer.unpack_ptr = buffer.base_ptr.wrapping_add(position);
    Ok(())
}

/// Replaces the content by a block, which the buffer then owns.
///
/// # Safety
/// `block` is NULL or a block of libc's with so many bytes, and belongs to nobody else.
pub(super) unsafe fn load(buffer: Own<'_, pmix_data_buffer_t>, block: *mut c_char, size_bytes: usize) {
    let buffer = buffer.emptied();
    let size_bytes = if block.is_null() { 0 } else { size_bytes };
    *buffer = pmix_data_buffer_t {
        base_ptr: block,
        pack_ptr: block.wrapping_add(size_bytes),
        unpack_ptr: block,
        bytes_allocated: size_bytes,
        bytes_used: size_bytes,
    };
}

/// Replaces the content by a copy of bytes.
///
/// # Errors
/// When there is no memory; the buffer is then as it was.
pub(super) fn load_copy(buffer: Own<'_, pmix_data_buffer_t>, bytes: &[u8]) -> Result<(), CError> {
    let block = memory::new_bytes(bytes)?;
    // SAFETY: the block was made just now for these bytes.
    unsafe { load(buffer, block, bytes.len()) };
    Ok(())
}

/// Takes out the unread bytes, as a block for the caller to free (NULL for none), and leaves the buffer empty.
///
/// # Errors
/// When the members contradict each other, or there is no memory; the buffer is then as it was.
pub(super) fn unload(buffer: Own<'_, pmix_data_buffer_t>) -> Result<(*mut c_char, usize), CError> {
    let rest = unread(buffer.whole())?;
    if rest.len() == buffer.whole().bytes_used && !rest.is_empty() {
        let buffer = buffer.into_place();
        let whole = (buffer.base_ptr, buffer.bytes_used);
        pmix_data_buffer_t::construct(buffer);
        return Ok(whole);
    }
    let (copy, size_bytes) = (memory::new_bytes(rest)?, rest.len());
    pmix_data_buffer_t::destruct(buffer);
    Ok((copy, size_bytes))
}
