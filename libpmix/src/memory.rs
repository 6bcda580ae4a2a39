//! Blocks that cross the border. They are always libc's memory, because the other side frees them with `free`, or
//! expects this side to do so.

use nix::libc;

use super::error::CError;
use super::types::{c_char, c_void};

/// A zeroed array of `count` elements, to be released with `free`; null when there is no memory, or `count` is 0.
pub fn zeroed_array<T>(count: usize) -> *mut T {
    if count == 0 {
        return std::ptr::null_mut();
    }
    // SAFETY: calloc takes any numbers and says null when they are too large.
    unsafe { libc::calloc(count, size_of::<T>()) }.cast()
}

/// As [`zeroed_array`], with an error when there is no memory; null for no elements.
pub fn zeroed<T>(count: usize) -> Result<*mut T, CError> {
    let block: *mut T = zeroed_array(count);
    if block.is_null() && count != 0 {
        return Err(CError::NoMemory { size_bytes: count.saturating_mul(size_of::<T>()) });
    }
    Ok(block)
}

/// As [`zeroed`], for one element. It avoids calloc: in glibc calloc is much slower than malloc for small blocks,
/// because it does not use the thread's cache.
pub fn zeroed_one<T>() -> Result<*mut T, CError> {
    const { assert!(align_of::<T>() <= 16, "malloc aligns to 16 bytes") };
    let block: *mut T = raw_block(size_of::<T>()).cast();
    if block.is_null() {
        return Err(CError::NoMemory { size_bytes: size_of::<T>() });
    }
    // SAFETY: the block is as large as a T, aligned for it, and was made just now.
    unsafe { block.write_bytes(0, 1) };
    Ok(block)
}

/// A block of uninitialised bytes; null when there is no memory. Not inlined: the compiler would replace malloc and
/// zeroing by calloc (see [`zeroed_one`]).
#[inline(never)]
fn raw_block(size_bytes: usize) -> *mut u8 {
    // SAFETY: malloc takes any number and says null when it is too large.
    unsafe { libc::malloc(size_bytes) }.cast()
}

/// A copy of these bytes with a NUL behind them, for release with `free`; null when there is no memory.
pub fn string(bytes: &[u8]) -> *mut c_char {
    let copy = raw_block(bytes.len().saturating_add(1));
    if copy.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: the block is longer than `bytes` and was made just now, so they can't overlap.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len()) };
    // SAFETY: the block is one byte longer than `bytes`.
    let end = unsafe { copy.add(bytes.len()) };
    // SAFETY: `end` is the last byte of the block.
    unsafe { end.write(0) };
    copy.cast()
}

/// As [`string`], with an error when there is no memory.
pub fn new_string(bytes: &[u8]) -> Result<*mut c_char, CError> {
    let copy = string(bytes);
    if copy.is_null() { Err(CError::NoMemory { size_bytes: bytes.len() }) } else { Ok(copy) }
}

/// A copy of these bytes (with a NUL behind them, which is not counted), for release with `free`. Null when there is no
/// memory, or there are no bytes.
pub fn bytes(bytes: &[u8]) -> *mut c_char {
    if bytes.is_empty() { std::ptr::null_mut() } else { string(bytes) }
}

/// As [`bytes`], with an error when there is no memory; null for no bytes.
pub fn new_bytes(content: &[u8]) -> Result<*mut c_char, CError> {
    if content.is_empty() { Ok(std::ptr::null_mut()) } else { new_string(content) }
}

/// Resizes a block to `count` elements and keeps its content.
///
/// # Safety
/// `block` is null or came from libc's allocator; it is not used after a success.
pub unsafe fn resized<T>(block: *mut T, count: usize) -> Result<*mut T, CError> {
    let size_bytes = count.saturating_mul(size_of::<T>());
    // SAFETY: the block is null or libc's (the contract of this function); realloc says null for too large a size.
    let moved: *mut T = unsafe { libc::realloc(block.cast::<c_void>(), size_bytes.max(1)) }.cast();
    if moved.is_null() { Err(CError::NoMemory { size_bytes }) } else { Ok(moved) }
}

/// Gives a block back.
///
/// # Safety
/// `block` is null or came from libc's allocator and is not used afterwards.
pub unsafe fn release<T>(block: *mut T) {
    // SAFETY: the block is null or libc's, and not used afterwards (the contract of this function).
    unsafe { libc::free(block.cast::<c_void>()) };
}
