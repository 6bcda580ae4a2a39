//! Buffers: make, load, unload, join, compress.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use modex::bfrops::inflate;

use super::buffer;
use crate::argument::{Count, Freed, GivenBlock, In, InOut, Items, Out, OutArray};
use crate::form::{Form, Plain, write_bytes};
use crate::guard::{guard, guard_or};
use crate::memory;
use crate::types::{c_char, pmix_byte_object_t, pmix_data_buffer_t, pmix_status_t};

/// Limit of the size of decompressed data, in bytes.
const INFLATED_BYTES_MAX: usize = 1 << 30;

/// Makes a buffer empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Data_buffer_construct(mut b: Out<'_, pmix_data_buffer_t>) {
    guard_or((), || {
        if let Ok(buffer) = b.place("buffer") {
            pmix_data_buffer_t::construct(buffer);
        }
    });
}

/// Creates an empty buffer, for `PMIx_Data_buffer_release`.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Data_buffer_create() -> *mut pmix_data_buffer_t {
    // An empty buffer is all zero.
    guard_or(std::ptr::null_mut(), || memory::zeroed_array(1))
}

/// Releases the content and makes the buffer empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Data_buffer_destruct(b: InOut<'_, pmix_data_buffer_t>) {
    guard_or((), || {
        if let Ok(buffer) = b.own("buffer") {
            pmix_data_buffer_t::destruct(buffer);
        }
    });
}

/// Releases the content and the buffer.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Data_buffer_release(b: Freed<'_, pmix_data_buffer_t>) {
    guard_or((), || b.free_one());
}

/// Replaces the content by a block, which the buffer then owns.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Data_buffer_load<'a>(
    b: InOut<'a, pmix_data_buffer_t>,
    bytes: GivenBlock<'a>,
    sz: Count<'a, u8>,
) {
    guard_or((), || {
        if let Ok(buffer) = b.own("buffer") {
            let (block, size_bytes) = bytes.into_block(sz);
            // SAFETY: NULL or a block of libc's with so many bytes, which the caller gives up (the promise of
            // `GivenBlock`).
            unsafe { buffer::load(buffer, block, size_bytes) };
        }
    });
}

/// Takes out the unread bytes, for the caller to free, and leaves the buffer empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Data_buffer_unload<'a>(
    b: InOut<'a, pmix_data_buffer_t>,
    bytes: Out<'a, *mut c_char>,
    sz: Out<'a, usize>,
) {
    let mut places = OutArray::cleared(bytes, sz);
    guard_or((), || {
        let Ok((bytes, size)) = places.places("place for bytes", "place for a size") else { return };
        if let Ok(buffer) = b.own("buffer") {
            (*bytes, *size) = buffer::unload(buffer).unwrap_or((std::ptr::null_mut(), 0));
        }
    });
}

/// Replaces the content by that of a byte object, which is empty afterwards.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Data_load(
    buffer: InOut<'_, pmix_data_buffer_t>,
    payload: InOut<'_, pmix_byte_object_t>,
) -> pmix_status_t {
    guard(|| {
        let buffer = buffer.own("buffer")?;
        let payload = payload.own("payload")?.into_place();
        // SAFETY: the bytes are a block of libc's (F1), and the payload gives them up.
        unsafe { buffer::load(buffer, payload.bytes, payload.size) };
        pmix_byte_object_t::construct(payload);
        Ok(())
    })
}

/// Takes out the unread bytes as a byte object, and leaves the buffer empty. The old content of the byte object is not
/// released.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Data_unload(
    buffer: InOut<'_, pmix_data_buffer_t>,
    mut payload: Out<'_, pmix_byte_object_t>,
) -> pmix_status_t {
    guard(|| {
        let buffer = buffer.own("buffer")?;
        let payload = payload.place("payload")?;
        pmix_byte_object_t::construct(payload);
        (payload.bytes, payload.size) = buffer::unload(buffer)?;
        Ok(())
    })
}

/// Replaces the content by a copy of a byte object's.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Data_embed(
    buffer: InOut<'_, pmix_data_buffer_t>,
    payload: In<'_, pmix_byte_object_t>,
) -> pmix_status_t {
    guard(|| {
        let buffer = buffer.own("buffer")?;
        Ok(buffer::load_copy(buffer, payload.get("payload")?.content("payload")?)?)
    })
}

/// Appends the unread bytes of `src`, which stays unchanged.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Data_copy_payload(
    dest: InOut<'_, pmix_data_buffer_t>,
    src: In<'_, pmix_data_buffer_t>,
) -> pmix_status_t {
    guard(|| {
        // Copied first: source and target may be one buffer, whose block moves.
        let bytes = buffer::unread(src.get("buffer")?)?.to_vec();
        Ok(buffer::append(dest.own("buffer")?, &bytes)?)
    })
}

/// Compresses bytes into a block for the caller to free; false if compression does not make them fewer.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Data_compress<'a>(
    inbytes: Items<'a, Plain<u8>>,
    size: Count<'a, Plain<u8>>,
    outbytes: Out<'a, *mut u8>,
    nbytes: Out<'a, usize>,
) -> bool {
    let mut places = OutArray::cleared(outbytes, nbytes);
    guard_or(false, || {
        let Ok(bytes) = inbytes.counted(size).list("bytes") else { return false };
        let deflated = deflate(bytes.get()).filter(|deflated| deflated.len() < bytes.get().len());
        deflated.is_some_and(|deflated| hand_out(&deflated, &mut places))
    })
}

/// Decompresses data of `PMIx_Data_compress` into a block for the caller to free; false for other data.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Data_decompress<'a>(
    inbytes: Items<'a, Plain<u8>>,
    size: Count<'a, Plain<u8>>,
    outbytes: Out<'a, *mut u8>,
    nbytes: Out<'a, usize>,
) -> bool {
    let mut places = OutArray::cleared(outbytes, nbytes);
    guard_or(false, || {
        let Ok(bytes) = inbytes.counted(size).list("bytes") else { return false };
        inflate(bytes.get(), INFLATED_BYTES_MAX).is_ok_and(|content| hand_out(&content, &mut places))
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

fn hand_out(bytes: &[u8], places: &mut OutArray<'_, u8>) -> bool {
    let Ok((to, size)) = places.places("place for bytes", "place for a size") else { return false };
    let mut object = pmix_byte_object_t { bytes: std::ptr::null_mut(), size: 0 };
    let is_copied = write_bytes(bytes, &mut object).is_ok();
    (*to, *size) = (object.bytes.cast(), object.size);
    is_copied
}
