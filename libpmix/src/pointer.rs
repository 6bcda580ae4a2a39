//! Checks of foreign pointers before they are followed.
//!
//! - **P1** The caller of these functions promises what C requires. A pointer that is neither NULL nor plainly wrong points to
//!   its type. The target is alive, and nothing else changes it until the call ends. Checks that need no access to the target
//!   happen here: NULL, the first page, alignment, impossible counts.
//! - **P2** Data of a type that the caller names may lie at any address, such as in a packed structure; OpenPMIx copies its
//!   bytes. [`with_data`] and [`with_place`] take such pointers. Pointers to the interface's own structures are aligned.

use std::ffi::CStr;

use super::error::CError;
use super::types::{c_char, c_void};

/// Limit of the bytes of one array: 64 GiB. A larger count is an error.
pub const ARRAY_BYTES_MAX: usize = 1 << 36;

/// Addresses below this are never mapped.
const FIRST_PAGE_BYTES: usize = 4096;

/// Refuses a pointer that can't be the address of a `T`.
///
/// # Errors
/// When the pointer is NULL or an impossible address; `what` names it.
pub fn check<T>(pointer: *const T, what: &'static str) -> Result<(), CError> {
    check_address(pointer, what)?;
    if pointer.is_aligned() { Ok(()) } else { Err(CError::BadPointer { what, address: pointer.addr() }) }
}

/// As [`check`], without the alignment.
///
/// # Errors
/// When the pointer is NULL or in the first page; `what` names it.
pub fn check_address<T>(pointer: *const T, what: &'static str) -> Result<(), CError> {
    if is_possible(pointer) {
        return Ok(());
    }
    Err(if pointer.is_null() { CError::Null { what } } else { CError::BadPointer { what, address: pointer.addr() } })
}

/// Whether a pointer is neither NULL nor in the first page.
#[inline]
pub fn is_possible<T>(pointer: *const T) -> bool {
    pointer.addr() >= FIRST_PAGE_BYTES
}

/// Refuses a pointer that can't be the address of so many `T`.
///
/// # Errors
/// As [`check`], or when the count is impossible.
pub fn check_array<T>(pointer: *const T, count: usize, what: &'static str) -> Result<(), CError> {
    let limit = ARRAY_BYTES_MAX / size_of::<T>().max(1);
    if count > limit {
        return Err(CError::TooMany { what, count, limit });
    }
    check(pointer, what)
}

/// The target of a pointer.
///
/// # Errors
/// When the pointer is NULL or an impossible address; `what` names it.
///
/// # Safety
/// P1.
pub unsafe fn shared<'a, T>(pointer: *const T, what: &'static str) -> Result<&'a T, CError> {
    check(pointer, what)?;
    // SAFETY: not null and aligned (checked); alive and unchanged (P1).
    Ok(unsafe { &*pointer })
}

/// The target of a pointer; `None` for NULL.
///
/// # Errors
/// When the pointer is an impossible address; `what` names it.
///
/// # Safety
/// P1.
pub unsafe fn optional<'a, T>(pointer: *const T, what: &'static str) -> Result<Option<&'a T>, CError> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: P1 (the contract of this function).
    unsafe { shared(pointer, what) }.map(Some)
}

/// The target of a pointer, for writing.
///
/// # Errors
/// As [`shared`].
///
/// # Safety
/// P1, and nobody else uses it during the call.
pub unsafe fn unique<'a, T>(pointer: *mut T, what: &'static str) -> Result<&'a mut T, CError> {
    check(pointer, what)?;
    // SAFETY: not null and aligned (checked); alive (P1), and nobody else uses it (the second promise).
    Ok(unsafe { &mut *pointer })
}

/// Reads data at any address (P2).
///
/// # Errors
/// When the pointer is NULL or an impossible address; `what` names it.
///
/// # Safety
/// P1, but for the alignment.
pub unsafe fn with_data<T: Copy, R>(
    pointer: *const T,
    what: &'static str,
    read: impl FnOnce(&T) -> R,
) -> Result<R, CError> {
    check_address(pointer, what)?;
    if pointer.is_aligned() {
        // SAFETY: not null and aligned (checked); alive and unchanged (P1).
        return Ok(read(unsafe { &*pointer }));
    }
    // SAFETY: not null (checked), alive and unchanged (P1).
    let copy = unsafe { pointer.read_unaligned() };
    Ok(read(&copy))
}

/// Changes data at any address (P2).
///
/// # Errors
/// As [`with_data`].
///
/// # Safety
/// P1, but for the alignment, and nobody else uses it during the call.
pub unsafe fn with_place<T: Copy, R>(
    pointer: *mut T,
    what: &'static str,
    change: impl FnOnce(&mut T) -> R,
) -> Result<R, CError> {
    check_address(pointer, what)?;
    if pointer.is_aligned() {
        // SAFETY: not null and aligned (checked); alive (P1), and nobody else uses it (the second promise).
        return Ok(change(unsafe { &mut *pointer }));
    }
    // SAFETY: not null (checked); alive (P1), and nobody else uses it (the second promise).
    let mut copy = unsafe { pointer.read_unaligned() };
    let result = change(&mut copy);
    // SAFETY: the same address as the read before.
    unsafe { pointer.write_unaligned(copy) };
    Ok(result)
}

/// An array; zero elements need no pointer.
///
/// # Errors
/// As [`shared`], or when the count is impossible.
///
/// # Safety
/// P1, for `count` elements.
pub unsafe fn slice<'a, T>(pointer: *const T, count: usize, what: &'static str) -> Result<&'a [T], CError> {
    if count == 0 {
        return Ok(&[]);
    }
    check_array(pointer, count, what)?;
    // SAFETY: not null, aligned, and shorter than isize::MAX (checked); alive and unchanged (P1).
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// An array for writing; zero elements need no pointer.
///
/// # Errors
/// As [`slice()`].
///
/// # Safety
/// P1, for `count` elements, and nobody else uses them during the call.
pub unsafe fn slice_mut<'a, T>(pointer: *mut T, count: usize, what: &'static str) -> Result<&'a mut [T], CError> {
    if count == 0 {
        return Ok(&mut []);
    }
    check_array(pointer, count, what)?;
    // SAFETY: not null, aligned, and shorter than isize::MAX (checked); alive (P1), and used by nobody else.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer, count) })
}

/// A string; `None` for NULL.
///
/// # Errors
/// When the pointer is an impossible address.
///
/// # Safety
/// P1, and a NUL ends it.
pub unsafe fn text<'a>(pointer: *const c_char, what: &'static str) -> Result<Option<&'a CStr>, CError> {
    if pointer.is_null() {
        return Ok(None);
    }
    check(pointer, what)?;
    // SAFETY: not null (checked); alive and unchanged (P1), and a NUL ends it (the second promise).
    Ok(Some(unsafe { CStr::from_ptr(pointer) }))
}

/// A string that is usually in an array of this size and may lack its NUL there. It is read no further than the array.
/// `None` for NULL.
///
/// # Errors
/// When the pointer is an impossible address, or no NUL comes within the array.
///
/// # Safety
/// P1: a string, or an array of this size; alive and unchanged as long as the result.
pub unsafe fn text_within<'a>(
    pointer: *const c_char,
    size_bytes: usize,
    what: &'static str,
) -> Result<Option<&'a [u8]>, CError> {
    if pointer.is_null() {
        return Ok(None);
    }
    check(pointer, what)?;
    // SAFETY: not null (checked); strnlen looks no further than the NUL or the end of the array.
    let length = unsafe { nix::libc::strnlen(pointer, size_bytes) };
    if length == size_bytes {
        return Err(CError::TooLong { what, size_bytes });
    }
    // SAFETY: strnlen has seen so many bytes.
    unsafe { slice(pointer.cast::<u8>(), length, what) }.map(Some)
}

/// A string or an array, read up to its NUL or to the limit. `None` for NULL, and for an impossible address.
///
/// # Safety
/// P1: a string, or as many bytes as the limit says; alive and unchanged as long as the result.
pub unsafe fn text_up_to<'a>(pointer: *const c_char, limit: usize, what: &'static str) -> Option<&'a [u8]> {
    check(pointer, what).ok()?;
    // SAFETY: not null (checked); strnlen looks no further than the NUL or the limit.
    let length = unsafe { nix::libc::strnlen(pointer, limit) };
    // SAFETY: strnlen has seen so many bytes.
    unsafe { slice(pointer.cast::<u8>(), length, what) }.ok()
}

/// The strings of an array that a NULL ends; none for NULL.
///
/// # Errors
/// When a pointer is an impossible address, or there are too many.
///
/// # Safety
/// P1, for the array up to its NULL and each string in it.
pub unsafe fn texts<'a>(pointer: *const *mut c_char, what: &'static str) -> Result<Vec<&'a CStr>, CError> {
    if pointer.is_null() {
        return Ok(Vec::new());
    }
    check(pointer, what)?;
    let mut texts = Vec::new();
    loop {
        // SAFETY: no entry before this one is the NULL that ends the array; aligned (checked) and alive (P1).
        let entry = unsafe { pointer.wrapping_add(texts.len()).read() };
        // SAFETY: the entry is NULL or a string of the array (P1).
        match unsafe { text(entry, what) }? {
            Some(string) => texts.push(string),
            None => return Ok(texts),
        }
    }
}

/// Prefetches memory that is read soon. Any address is permitted.
pub fn fetch<T>(pointer: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which does nothing for an address where nothing is.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(pointer.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = pointer;
}

/// A fixed array of characters as bytes.
pub fn bytes(array: &[c_char]) -> &[u8] {
    // SAFETY: c_char and u8 are both one byte without invalid patterns.
    unsafe { std::slice::from_raw_parts(array.as_ptr().cast::<u8>(), array.len()) }
}

/// The bytes of a text in a fixed array, up to its NUL.
///
/// # Errors
/// When there is no NUL.
pub fn fixed_text<'a>(array: &'a [c_char], what: &'static str) -> Result<&'a [u8], CError> {
    let text =
        CStr::from_bytes_until_nul(bytes(array)).map_err(|_| CError::TooLong { what, size_bytes: array.len() })?;
    Ok(text.to_bytes())
}

/// Puts a text and a NUL into a fixed array; the rest becomes zero.
///
/// # Errors
/// When it does not fit.
pub fn put_fixed_text(text: &[u8], array: &mut [c_char], what: &'static str) -> Result<(), CError> {
    if text.len() >= array.len() {
        return Err(CError::TooLong { what, size_bytes: array.len() });
    }
    let (head, rest) = array.split_at_mut(text.len());
    head.iter_mut().zip(text).for_each(|(to, from)| *to = from.cast_signed());
    rest.fill(0);
    Ok(())
}

/// Data of a C caller for its callback. The library never follows the pointer.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct CallerData(*mut c_void);

// SAFETY: the library never follows the pointer; that it may be used on the library's thread is part of every contract
// with a callback.
unsafe impl Send for CallerData {}
// SAFETY: a shared reference gives the pointer alone.
unsafe impl Sync for CallerData {}

impl CallerData {
    pub(crate) const fn of(data: *mut c_void) -> Self {
        Self(data)
    }

    pub(crate) const fn get(self) -> *mut c_void {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impossible_address_is_refused_and_not_followed() {
        // SAFETY: none of these addresses passes the checks, so none is followed.
        let target = |address| unsafe { shared::<u64>(std::ptr::without_provenance(address), "number") };
        // SAFETY: as above.
        let optional = |address| unsafe { optional::<u64>(std::ptr::without_provenance(address), "number") };
        assert_eq!(target(0), Err(CError::Null { what: "number" }));
        assert_eq!(optional(0), Ok(None));
        for address in [64, 0x10001] {
            let error = CError::BadPointer { what: "number", address };
            assert_eq!((target(address), optional(address)), (Err(error.clone()), Err(error)));
        }
        // SAFETY: the count is impossible, so the address is not followed.
        let huge = unsafe { slice::<u64>(std::ptr::without_provenance(0x10000), usize::MAX, "numbers") };
        assert!(matches!(huge, Err(CError::TooMany { .. })));
    }

    #[test]
    fn a_fixed_array_needs_its_nul() {
        let full = [b'x'.cast_signed(); 8];
        assert_eq!(fixed_text(&full, "key"), Err(CError::TooLong { what: "key", size_bytes: 8 }));
        let mut array = full;
        assert_eq!(put_fixed_text(b"12345678", &mut array, "key"), Err(CError::TooLong { what: "key", size_bytes: 8 }));
        put_fixed_text(b"1234567", &mut array, "key").unwrap();
        assert_eq!(fixed_text(&array, "key").unwrap(), b"1234567");
    }
}
