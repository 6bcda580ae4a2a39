//! Arrays of strings that a NULL ends, and environments.
//!
//! The arrays and all their strings are libc's blocks: callers grow, shorten and free them themselves.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;

use modex::types::Status;

use crate::error::CError;
use crate::form::{Argv, Form};
use crate::guard::{Failure, guard, guard_or};
use crate::types::{c_char, c_int, pmix_status_t};
use crate::{memory, pointer};

const WHAT: &str = "array of strings";

/// Appends a copy of the string.
///
/// Support: implemented.
///
/// # Safety
/// P1: `argv` points to an array of libc's blocks or to NULL; `arg` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Argv_append_nosize(argv: *mut *mut *mut c_char, arg: *const c_char) -> pmix_status_t {
    // SAFETY: the caller's contract.
    guard(|| unsafe { insert(argv, arg, Place::Back) })
}

/// Appends a copy of the string, unless an equal one is there.
///
/// Support: implemented.
///
/// # Safety
/// As [`PMIx_Argv_append_nosize`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Argv_append_unique_nosize(
    argv: *mut *mut *mut c_char,
    arg: *const c_char,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let array = *unsafe { pointer::shared(argv, WHAT) }?;
        // SAFETY: the caller's contract.
        let new = unsafe { pointer::text(arg, "string") }?;
        // SAFETY: the caller's contract.
        let texts = unsafe { pointer::texts(array, WHAT) }?;
        if texts.iter().any(|text| Some(*text) == new) {
            return Ok(());
        }
        // SAFETY: the caller's contract.
        unsafe { insert(argv, arg, Place::Back) }
    })
}

/// Puts a copy of the string before the others.
///
/// Support: implemented.
///
/// # Safety
/// As [`PMIx_Argv_append_nosize`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Argv_prepend_nosize(argv: *mut *mut *mut c_char, arg: *const c_char) -> pmix_status_t {
    // SAFETY: the caller's contract.
    guard(|| unsafe { insert(argv, arg, Place::Front) })
}

/// A copy of the array and its strings; NULL for NULL. A copy of an empty array is an empty array.
///
/// Support: implemented.
///
/// # Safety
/// P1: `argv` is an array of strings or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Argv_copy(argv: *mut *mut c_char) -> *mut *mut c_char {
    guard_or(std::ptr::null_mut(), || {
        if argv.is_null() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's contract.
        let texts = unsafe { pointer::texts(argv, WHAT) }.unwrap_or_default();
        new_array(texts.iter().map(|text| text.to_bytes())).unwrap_or(std::ptr::null_mut())
    })
}

/// Number of strings.
///
/// Support: implemented.
///
/// # Safety
/// P1: `a` is an array of strings or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Argv_count(a: *mut *mut c_char) -> c_int {
    guard_or(0, || {
        // SAFETY: the caller's contract.
        let texts = unsafe { pointer::texts(a, WHAT) }.unwrap_or_default();
        c_int::try_from(texts.len()).unwrap_or(c_int::MAX)
    })
}

/// Releases the array and its strings.
///
/// Support: implemented.
///
/// # Safety
/// `argv` is NULL or an array of libc's blocks, not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Argv_free(argv: *mut *mut c_char) {
    guard_or((), || {
        let mut argv = argv;
        // SAFETY: the caller's contract.
        unsafe { Argv::destruct(&mut argv) };
    });
}

/// The strings with the delimiter between them, for the caller to free; an empty string for none.
///
/// Support: implemented.
///
/// # Safety
/// P1: `argv` is an array of strings or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Argv_join(argv: *mut *mut c_char, delimiter: c_int) -> *mut c_char {
    guard_or(std::ptr::null_mut(), || {
        // SAFETY: the caller's contract.
        let texts = unsafe { pointer::texts(argv, WHAT) }.unwrap_or_default();
        let texts: Vec<&[u8]> = texts.iter().map(|text| text.to_bytes()).collect();
        memory::string(&texts.join(&delimiter_byte(delimiter)))
    })
}

/// The non-empty pieces between delimiters, for `PMIx_Argv_free`; NULL for none.
///
/// Support: implemented.
///
/// # Safety
/// P1: `src_string` is a string or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Argv_split(src_string: *const c_char, delimiter: c_int) -> *mut *mut c_char {
    // SAFETY: the caller's contract.
    unsafe { PMIx_Argv_split_inter(src_string, delimiter, false) }
}

/// The pieces between delimiters, for `PMIx_Argv_free`; NULL for none.
///
/// Support: implemented.
///
/// # Safety
/// As [`PMIx_Argv_split`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Argv_split_with_empty(src_string: *const c_char, delimiter: c_int) -> *mut *mut c_char {
    // SAFETY: the caller's contract.
    unsafe { PMIx_Argv_split_inter(src_string, delimiter, true) }
}

/// The pieces between delimiters, with or without the empty ones, for `PMIx_Argv_free`; NULL for none.
///
/// Support: implemented.
///
/// # Safety
/// As [`PMIx_Argv_split`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Argv_split_inter(
    src_string: *const c_char,
    delimiter: c_int,
    include_empty: bool,
) -> *mut *mut c_char {
    guard_or(std::ptr::null_mut(), || {
        // SAFETY: the caller's contract.
        let Ok(Some(text)) = (unsafe { pointer::text(src_string, "string") }) else { return std::ptr::null_mut() };
        let delimiter = delimiter_byte(delimiter);
        let pieces = text.to_bytes().split(|byte| *byte == delimiter);
        // An empty text has no pieces, not one empty piece.
        let keeps_empty = include_empty && !text.is_empty();
        let pieces: Vec<&[u8]> = pieces.filter(|piece| keeps_empty || !piece.is_empty()).collect();
        if pieces.is_empty() {
            return std::ptr::null_mut();
        }
        new_array(pieces.into_iter()).unwrap_or(std::ptr::null_mut())
    })
}

/// Sets a variable in an environment: of the process when `env` is its `environ`, else of the array. A NULL value means
/// an empty one. `PMIX_ERR_EXISTS` when the variable exists and may not be overwritten.
///
/// Support: implemented.
///
/// # Safety
/// P1: `env` points to an array of libc's blocks or to NULL; `name` and `value` are strings, `value` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Setenv(
    name: *const c_char,
    value: *const c_char,
    overwrite: bool,
    env: *mut *mut *mut c_char,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let name = unsafe { pointer::text(name, "name of a variable") }?.ok_or(CError::Null { what: "name" })?;
        // SAFETY: the caller's contract.
        let value = unsafe { pointer::text(value, "value of a variable") }?.unwrap_or_default();
        if name.is_empty() || name.to_bytes().contains(&b'=') {
            return Err(Failure(Status::ERR_BAD_PARAM));
        }
        // SAFETY: the caller's contract.
        let array = unsafe { pointer::unique(env, WHAT) }?;
        // SAFETY: the variable is libc's; its value is only compared.
        if std::ptr::eq(*array, unsafe { environ }) && !array.is_null() {
            let (name, value) = (OsStr::from_bytes(name.to_bytes()), OsStr::from_bytes(value.to_bytes()));
            return set_in_process(name, value, overwrite);
        }
        // SAFETY: the caller's contract.
        unsafe { set_in_array(name.to_bytes(), value.to_bytes(), overwrite, array) }
    })
}

unsafe extern "C" {
    /// The process's environment.
    static mut environ: *mut *mut c_char;
}

/// libc's functions are not used: this library's own threads read the environment under the standard library's lock.
#[expect(clippy::disallowed_methods, reason = "the caller's wish is to change the environment")]
fn set_in_process(name: &OsStr, value: &OsStr, overwrite: bool) -> Result<(), Failure> {
    if !overwrite && std::env::var_os(name).is_some() {
        return Err(Failure(Status::ERR_EXISTS));
    }
    // SAFETY: that no other thread of the program's looks at the environment meanwhile is for the caller to see to, as with
    // `setenv`.
    unsafe { std::env::set_var(name, value) };
    Ok(())
}

/// # Safety
/// P1: `array` holds an array of libc's blocks or NULL.
unsafe fn set_in_array(
    name: &[u8],
    value: &[u8],
    overwrite: bool,
    array: &mut *mut *mut c_char,
) -> Result<(), Failure> {
    let assignment = [name, b"=", value].concat();
    // SAFETY: the caller's contract.
    let texts = unsafe { pointer::texts(*array, WHAT) }?;
    let is_this = |text: &&CStr| text.to_bytes().strip_prefix(name).is_some_and(|rest| rest.starts_with(b"="));
    let Some(index) = texts.iter().position(is_this) else {
        let string = memory::new_string(&assignment)?;
        // SAFETY: the caller's contract; the string was made just now.
        return unsafe { insert_block(array, string, Place::Back) };
    };
    if !overwrite {
        return Err(Failure(Status::ERR_EXISTS));
    }
    let string = memory::new_string(&assignment)?;
    // SAFETY: the index is that of one of the array's strings.
    let entry = unsafe { (*array).add(index) };
    // SAFETY: as above.
    let old = unsafe { entry.replace(string) };
    // SAFETY: the string was the array's, and is in it no longer.
    unsafe { memory::release(old) };
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Front,
    Back,
}

/// # Safety
/// P1: `argv` points to an array of libc's blocks or to NULL; `arg` is a string.
unsafe fn insert(argv: *mut *mut *mut c_char, arg: *const c_char, place: Place) -> Result<(), Failure> {
    // SAFETY: the caller's contract.
    let array = unsafe { pointer::unique(argv, WHAT) }?;
    // SAFETY: the caller's contract.
    let text = unsafe { pointer::text(arg, "string") }?.ok_or(CError::Null { what: "string" })?;
    let string = memory::new_string(text.to_bytes())?;
    // SAFETY: the caller's contract; the string was made just now.
    unsafe { insert_block(array, string, place) }
}

/// # Safety
/// P1: `array` holds an array of libc's blocks or NULL; `string` is a block of its own, which the array takes.
unsafe fn insert_block(array: &mut *mut *mut c_char, string: *mut c_char, place: Place) -> Result<(), Failure> {
    // SAFETY: the caller's contract.
    let count = unsafe { pointer::texts(*array, WHAT) }?.len();
    // SAFETY: the caller's contract.
    let grown = unsafe { memory::resized(*array, count.saturating_add(2)) };
    if grown.is_err() {
        // SAFETY: nobody else has it.
        unsafe { memory::release(string) };
    }
    *array = grown?;
    // SAFETY: the block has room for so many pointers; every one is written below or was there.
    let entries = unsafe { pointer::slice_mut(*array, count.saturating_add(2), WHAT) }?;
    if let [strings @ .., end] = entries {
        *end = std::ptr::null_mut();
        if let Some(last) = strings.last_mut() {
            *last = string;
        }
        if place == Place::Front {
            strings.rotate_right(1);
        }
    }
    Ok(())
}

/// A new array with its NULL, even without strings.
fn new_array<'a>(texts: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<*mut *mut c_char, CError> {
    let mut array = std::ptr::null_mut();
    if texts.len() == 0 {
        return memory::zeroed(1);
    }
    let outcome = Argv::write_all(texts, &mut array);
    if outcome.is_err() {
        // SAFETY: F1: only `write_all` has touched it.
        unsafe { Argv::destruct(&mut array) };
    }
    outcome.map(|()| array)
}

/// C's `char` in an `int`. A number out of range becomes a delimiter that no string can hold.
fn delimiter_byte(delimiter: c_int) -> u8 {
    u8::try_from(delimiter).or_else(|_| i8::try_from(delimiter).map(i8::cast_unsigned)).unwrap_or(0)
}
