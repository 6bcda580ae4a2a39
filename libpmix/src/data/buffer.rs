//! Operations on a buffer, with a check of its members first.

use crate::error::CError;
use crate::form::Form;
use crate::types::{c_char, pmix_data_buffer_t};
use crate::{memory, pointer};

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
///
/// # Safety
/// P1: the block has `bytes_used` bytes.
pub(super) unsafe fn unread<'a>(buffer: &pmix_data_buffer_t) -> Result<&'a [u8], CError> {
    let position = position(buffer)?;
    // SAFETY: the caller's contract.
    let used = unsafe { pointer::slice(buffer.base_ptr.cast::<u8>(), buffer.bytes_used, "packed data") }?;
    Ok(used.get(position..).unwrap_or_default())
}

/// Moves the read position on by `size_bytes`.
pub(super) fn advance(buffer: &mut pmix_data_buffer_t, size_bytes: usize) {
    buffer.unpack_ptr = buffer.unpack_ptr.wrapping_add(size_bytes);
}

/// Appends bytes; the block grows as it must.
///
/// # Errors
/// When the members contradict each other, or there is no memory; the buffer is then as it was.
///
/// # Safety
/// P1, and F1 for the block.
pub(super) unsafe fn append(buffer: &mut pmix_data_buffer_t, bytes: &[u8]) -> Result<(), CError> {
    let position = position(buffer)?;
    let needed = buffer.bytes_used.saturating_add(bytes.len());
    if needed > buffer.bytes_allocated || buffer.base_ptr.is_null() {
        let room = needed.max(buffer.bytes_allocated.saturating_mul(2)).max(ROOM_FIRST);
        // SAFETY: the block is libc's (F1).
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
/// F1: the buffer's block and `block` are libc's; `block` has so many bytes.
pub(super) unsafe fn load(buffer: &mut pmix_data_buffer_t, block: *mut c_char, size_bytes: usize) {
    // SAFETY: the caller's contract.
    unsafe { pmix_data_buffer_t::destruct(buffer) };
    let size_bytes = if block.is_null() { 0 } else { size_bytes };
    *buffer = pmix_data_buffer_t {
        base_ptr: block,
        pack_ptr: block.wrapping_add(size_bytes),
        unpack_ptr: block,
        bytes_allocated: size_bytes,
        bytes_used: size_bytes,
    };
}

/// Takes out the unread bytes, as a block for the caller to free (NULL for none), and leaves the buffer empty.
///
/// # Errors
/// When the members contradict each other, or there is no memory; the buffer is then as it was.
///
/// # Safety
/// P1, and F1 for the block.
pub(super) unsafe fn unload(buffer: &mut pmix_data_buffer_t) -> Result<(*mut c_char, usize), CError> {
    // SAFETY: the caller's contract.
    let rest = unsafe { unread(buffer) }?;
    if rest.len() == buffer.bytes_used && !rest.is_empty() {
        let whole = (buffer.base_ptr, buffer.bytes_used);
        pmix_data_buffer_t::construct(buffer);
        return Ok(whole);
    }
    let (copy, size_bytes) = (memory::new_bytes(rest)?, rest.len());
    // SAFETY: F1.
    unsafe { pmix_data_buffer_t::destruct(buffer) };
    Ok((copy, size_bytes))
}
