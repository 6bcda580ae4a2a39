//! Arrays of strings that a NULL ends, and environments.
//!
//! The arrays and all their strings are libc's blocks: callers grow, shorten and free them themselves.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;

use modex::types::Status;

use crate::argument::{CText, FreedTexts, InOut, TextArray};
use crate::error::CError;
use crate::form::{Argv, Own, Str};
use crate::guard::{Failure, guard, guard_or};
use crate::to_c::{self, Single};
use crate::types::{c_char, c_int, pmix_status_t};
use crate::{memory, pointer};

const WHAT: &str = "array of strings";

/// Appends a copy of the string.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Argv_append_nosize(argv: InOut<'_, Argv>, arg: CText<'_>) -> pmix_status_t {
    guard(|| insert(argv, arg, Place::Back))
}

/// Appends a copy of the string, unless an equal one is there.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Argv_append_unique_nosize(argv: InOut<'_, Argv>, arg: CText<'_>) -> pmix_status_t {
    guard(|| {
        let texts = argv.whole(WHAT)?.texts(WHAT)?;
        let new = arg.get("string")?;
        if texts.iter().any(|text| Some(*text) == new) {
            return Ok(());
        }
        insert(argv, arg, Place::Back)
    })
}

/// Puts a copy of the string before the others.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Argv_prepend_nosize(argv: InOut<'_, Argv>, arg: CText<'_>) -> pmix_status_t {
    guard(|| insert(argv, arg, Place::Front))
}

/// A copy of the array and its strings; NULL for NULL. A copy of an empty array is an empty array.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Argv_copy(argv: TextArray<'_>) -> *mut *mut c_char {
    guard_or(std::ptr::null_mut(), || {
        if argv.is_null() {
            return std::ptr::null_mut();
        }
        let texts = argv.get(WHAT).unwrap_or_default();
        new_array(texts.iter().map(|text| text.to_bytes())).unwrap_or(std::ptr::null_mut())
    })
}

/// Number of strings.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Argv_count(a: TextArray<'_>) -> c_int {
    guard_or(0, || c_int::try_from(a.get(WHAT).unwrap_or_default().len()).unwrap_or(c_int::MAX))
}

/// Releases the array and its strings.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Argv_free(argv: FreedTexts<'_>) {
    guard_or((), || argv.free());
}

/// The strings with the delimiter between them, for the caller to free; an empty string for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Argv_join(argv: TextArray<'_>, delimiter: c_int) -> *mut c_char {
    guard_or(std::ptr::null_mut(), || {
        let texts = argv.get(WHAT).unwrap_or_default();
        let texts: Vec<&[u8]> = texts.iter().map(|text| text.to_bytes()).collect();
        memory::string(&texts.join(&delimiter_byte(delimiter)))
    })
}

/// The non-empty pieces between delimiters, for `PMIx_Argv_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Argv_split(src_string: CText<'_>, delimiter: c_int) -> *mut *mut c_char {
    PMIx_Argv_split_inter(src_string, delimiter, false)
}

/// The pieces between delimiters, for `PMIx_Argv_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Argv_split_with_empty(src_string: CText<'_>, delimiter: c_int) -> *mut *mut c_char {
    PMIx_Argv_split_inter(src_string, delimiter, true)
}

/// The pieces between delimiters, with or without the empty ones, for `PMIx_Argv_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Argv_split_inter(
    src_string: CText<'_>,
    delimiter: c_int,
    include_empty: bool,
) -> *mut *mut c_char {
    guard_or(std::ptr::null_mut(), || {
        let Ok(Some(text)) = src_string.get("string") else { return std::ptr::null_mut() };
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
/// `&environ` is permitted although its type demands libc's blocks: the blocks of `environ` are only read here.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Setenv(
    name: CText<'_>,
    value: CText<'_>,
    overwrite: bool,
    env: InOut<'_, Argv>,
) -> pmix_status_t {
    guard(|| {
        let name = name.get("name of a variable")?.ok_or(CError::Null { what: "name" })?;
        let value = value.get("value of a variable")?.unwrap_or_default();
        if name.is_empty() || name.to_bytes().contains(&b'=') {
            return Err(Failure(Status::ERR_BAD_PARAM));
        }
        let array = *env.whole(WHAT)?;
        // SAFETY: the variable is libc's; its value is only compared.
        if std::ptr::eq(array, unsafe { environ }) && !array.is_null() {
            let (name, value) = (OsStr::from_bytes(name.to_bytes()), OsStr::from_bytes(value.to_bytes()));
            return set_in_process(name, value, overwrite);
        }
        set_in_array(name.to_bytes(), value.to_bytes(), overwrite, env.own(WHAT)?)
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
    // SAFETY: no other thread of the program's looks at the environment meanwhile, as `setenv` demands of its caller,
    // too.
    unsafe { std::env::set_var(name, value) };
    Ok(())
}

fn set_in_array(name: &[u8], value: &[u8], overwrite: bool, array: Own<'_, Argv>) -> Result<(), Failure> {
    let assignment = [name, b"=", value].concat();
    let texts = array.whole().texts(WHAT)?;
    let is_this = |text: &&CStr| text.to_bytes().strip_prefix(name).is_some_and(|rest| rest.starts_with(b"="));
    let found = texts.iter().position(is_this);
    let count = texts.len();
    if found.is_some() && !overwrite {
        return Err(Failure(Status::ERR_EXISTS));
    }
    let string = to_c::string(&assignment)?;
    let Some(index) = found else { return insert_block(array, string, Place::Back) };
    // SAFETY: so many strings precede the NULL of the array, which is ours alone (F1).
    let entries = unsafe { pointer::slice_mut(*array.into_place(), count, WHAT) }?;
    if let Some(entry) = entries.get_mut(index) {
        // SAFETY: the old string is a block of its own (F1).
        string.replace(unsafe { Own::new(entry) });
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Front,
    Back,
}

fn insert(argv: InOut<'_, Argv>, arg: CText<'_>, place: Place) -> Result<(), Failure> {
    let array = argv.own(WHAT)?;
    let text = arg.get("string")?.ok_or(CError::Null { what: "string" })?;
    insert_block(array, to_c::string(text.to_bytes())?, place)
}

/// Inserts a string, which then belongs to the array.
fn insert_block(array: Own<'_, Argv>, string: Single<Str>, place: Place) -> Result<(), Failure> {
    let count = array.whole().texts(WHAT)?.len();
    let array = array.into_place();
    // SAFETY: the array is a block of libc's or NULL (F1); the new block replaces it at once.
    *array = unsafe { memory::resized(*array, count.saturating_add(2)) }?;
    // SAFETY: the block has room for so many pointers; every one is written below or was there.
    let entries = unsafe { pointer::slice_mut(*array, count.saturating_add(2), WHAT) }?;
    if let [strings @ .., end] = entries {
        *end = std::ptr::null_mut();
        if let Some(last) = strings.last_mut() {
            *last = string.into_raw();
        }
        if place == Place::Front {
            strings.rotate_right(1);
        }
    }
    Ok(())
}

/// A new array with its NULL, even without strings.
fn new_array<'a>(texts: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<*mut *mut c_char, CError> {
    if texts.len() == 0 {
        return memory::zeroed(1);
    }
    Ok(to_c::texts(texts)?.into_raw())
}

/// C's `char` in an `int`. A number out of range becomes a delimiter that no string can hold.
fn delimiter_byte(delimiter: c_int) -> u8 {
    u8::try_from(delimiter).or_else(|_| i8::try_from(delimiter).map(i8::cast_unsigned)).unwrap_or(0)
}
