//! Buffers: make, load, unload, join, compress.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use modex::bfrops::inflate;

use super::buffer;
use crate::form::{Form, write_bytes};
use crate::guard::{guard, guard_or};
use crate::types::{c_char, pmix_byte_object_t, pmix_data_buffer_t, pmix_status_t};
use crate::{memory, pointer};

/// Limit of the size of decompressed data, in bytes.
const INFLATED_BYTES_MAX: usize = 1 << 30;

/// Makes a buffer empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `b` points to storage for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Data_buffer_construct(b: *mut pmix_data_buffer_t) {
    guard_or((), || {
        // SAFETY: the caller's contract.
        if let Ok(buffer) = unsafe { pointer::unique(b, "buffer") } {
            pmix_data_buffer_t::construct(buffer);
        }
    });
}

/// Creates an empty buffer, for `PMIx_Data_buffer_release`.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Data_buffer_create() -> *mut pmix_data_buffer_t {
    // An empty buffer is all zero.
    guard_or(std::ptr::null_mut(), || memory::zeroed_array(1))
}

/// Releases the content and makes the buffer empty.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for the block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Data_buffer_destruct(b: *mut pmix_data_buffer_t) {
    guard_or((), || {
        // SAFETY: the caller's contract.
        if let Ok(buffer) = unsafe { pointer::unique(b, "buffer") } {
            // SAFETY: the caller's contract.
            unsafe { pmix_data_buffer_t::destruct(buffer) };
        }
    });
}

/// Releases the content and the buffer.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for the blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Data_buffer_release(b: *mut pmix_data_buffer_t) {
    // SAFETY: the caller's contract.
    unsafe { PMIx_Data_buffer_destruct(b) };
    // SAFETY: the caller's contract.
    guard_or((), || unsafe { memory::release(b) });
}

/// Replaces the content by a block, which the buffer then owns.
///
/// Support: implemented.
///
/// # Safety
/// P1: `b` points to a buffer; its block and `bytes` are libc's, `bytes` has `sz` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Data_buffer_load(b: *mut pmix_data_buffer_t, bytes: *mut c_char, sz: usize) {
    guard_or((), || {
        // SAFETY: the caller's contract.
        if let Ok(buffer) = unsafe { pointer::unique(b, "buffer") } {
            // SAFETY: the caller's contract.
            unsafe { buffer::load(buffer, bytes, sz) };
        }
    });
}

/// Takes out the unread bytes, for the caller to free, and leaves the buffer empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `b` points to a buffer of libc's block, `bytes` to a pointer, `sz` to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Data_buffer_unload(b: *mut pmix_data_buffer_t, bytes: *mut *mut c_char, sz: *mut usize) {
    // SAFETY: the caller's contract.
    unsafe { pointer::clear_array(bytes, sz) };
    guard_or((), || {
        // SAFETY: the caller's contract.
        let Ok(bytes) = (unsafe { pointer::unique(bytes, "place for bytes") }) else { return };
        // SAFETY: the caller's contract.
        let Ok(size) = (unsafe { pointer::unique(sz, "place for a size") }) else { return };
        // SAFETY: the caller's contract.
        if let Ok(buffer) = unsafe { pointer::unique(b, "buffer") } {
            // SAFETY: the caller's contract.
            (*bytes, *size) = unsafe { buffer::unload(buffer) }.unwrap_or((std::ptr::null_mut(), 0));
        }
    });
}

/// Replaces the content by that of a byte object, which is empty afterwards.
///
/// Support: implemented.
///
/// # Safety
/// P1: `buffer` points to a buffer, `payload` to a byte object; their blocks are libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Data_load(
    buffer: *mut pmix_data_buffer_t,
    payload: *mut pmix_byte_object_t,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let buffer = unsafe { pointer::unique(buffer, "buffer") }?;
        // SAFETY: the caller's contract.
        let payload = unsafe { pointer::unique(payload, "payload") }?;
        // SAFETY: the caller's contract.
        unsafe { buffer::load(buffer, payload.bytes, payload.size) };
        pmix_byte_object_t::construct(payload);
        Ok(())
    })
}

/// Takes out the unread bytes as a byte object, and leaves the buffer empty. The old content of the byte object is not
/// released.
///
/// Support: implemented.
///
/// # Safety
/// P1: `buffer` points to a buffer of libc's block, `payload` to storage for a byte object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Data_unload(
    buffer: *mut pmix_data_buffer_t,
    payload: *mut pmix_byte_object_t,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let buffer = unsafe { pointer::unique(buffer, "buffer") }?;
        // SAFETY: the caller's contract.
        let payload = unsafe { pointer::unique(payload, "payload") }?;
        pmix_byte_object_t::construct(payload);
        // SAFETY: the caller's contract.
        (payload.bytes, payload.size) = unsafe { buffer::unload(buffer) }?;
        Ok(())
    })
}

/// Replaces the content by a copy of a byte object's.
///
/// Support: implemented.
///
/// # Safety
/// P1: `buffer` points to a buffer of libc's block, `payload` to a byte object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Data_embed(
    buffer: *mut pmix_data_buffer_t,
    payload: *const pmix_byte_object_t,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let buffer = unsafe { pointer::unique(buffer, "buffer") }?;
        // SAFETY: the caller's contract.
        let payload = unsafe { pointer::shared(payload, "payload") }?;
        // SAFETY: the caller's contract.
        let bytes = unsafe { pointer::slice(payload.bytes.cast::<u8>(), payload.size, "payload") }?;
        let block = memory::new_bytes(bytes)?;
        // SAFETY: the block was made just now for these bytes.
        unsafe { buffer::load(buffer, block, bytes.len()) };
        Ok(())
    })
}

/// Appends the unread bytes of `src`, which stays unchanged.
///
/// Support: implemented.
///
/// # Safety
/// P1 for both; their blocks are libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Data_copy_payload(
    dest: *mut pmix_data_buffer_t,
    src: *mut pmix_data_buffer_t,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let source = unsafe { pointer::shared(src.cast_const(), "buffer") }?;
        // Copied first: source and target may be one buffer, whose block moves.
        // SAFETY: the caller's contract.
        let bytes = unsafe { buffer::unread(source) }?.to_vec();
        // SAFETY: the caller's contract.
        let target = unsafe { pointer::unique(dest, "buffer") }?;
        // SAFETY: the caller's contract.
        Ok(unsafe { buffer::append(target, &bytes) }?)
    })
}

/// Compresses bytes into a block for the caller to free; false if compression does not make them fewer.
///
/// Support: implemented.
///
/// # Safety
/// P1: `inbytes` has `size` bytes, `outbytes` points to a pointer, `nbytes` to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Data_compress(
    inbytes: *const u8,
    size: usize,
    outbytes: *mut *mut u8,
    nbytes: *mut usize,
) -> bool {
    // SAFETY: the caller's contract.
    unsafe { pointer::clear_array(outbytes, nbytes) };
    guard_or(false, || {
        // SAFETY: the caller's contract.
        let Ok(bytes) = (unsafe { pointer::slice(inbytes, size, "bytes") }) else { return false };
        let Some(deflated) = deflate(bytes).filter(|deflated| deflated.len() < bytes.len()) else { return false };
        // SAFETY: the caller's contract.
        unsafe { hand_out(&deflated, outbytes, nbytes) }
    })
}

/// Decompresses data of `PMIx_Data_compress` into a block for the caller to free; false for other data.
///
/// Support: implemented.
///
/// # Safety
/// As [`PMIx_Data_compress`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Data_decompress(
    inbytes: *const u8,
    size: usize,
    outbytes: *mut *mut u8,
    nbytes: *mut usize,
) -> bool {
    // SAFETY: the caller's contract.
    unsafe { pointer::clear_array(outbytes, nbytes) };
    guard_or(false, || {
        // SAFETY: the caller's contract.
        let Ok(bytes) = (unsafe { pointer::slice(inbytes, size, "bytes") }) else { return false };
        let Ok(content) = inflate(bytes, INFLATED_BYTES_MAX) else { return false };
        // SAFETY: the caller's contract.
        unsafe { hand_out(&content, outbytes, nbytes) }
    })
}

/// The length in this machine's order, then a zlib stream: the form of compressed values.
fn deflate(bytes: &[u8]) -> Option<Vec<u8>> {
    #[expect(clippy::host_endian_bytes, reason = "the form is the sender's memory; see `bfrops::inflate`")]
    let length = u32::try_from(bytes.len()).ok()?.to_ne_bytes();
    let mut encoder = ZlibEncoder::new(length.to_vec(), Compression::default());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

/// # Safety
/// P1: `to` points to a pointer, `size` to a number.
unsafe fn hand_out(bytes: &[u8], to: *mut *mut u8, size: *mut usize) -> bool {
    // SAFETY: the caller's contract.
    let Ok(to) = (unsafe { pointer::unique(to, "place for bytes") }) else { return false };
    // SAFETY: the caller's contract.
    let Ok(size) = (unsafe { pointer::unique(size, "place for a size") }) else { return false };
    let mut object = pmix_byte_object_t { bytes: std::ptr::null_mut(), size: 0 };
    let is_copied = write_bytes(bytes, &mut object).is_ok();
    (*to, *size) = (object.bytes.cast(), object.size);
    is_copied
}
