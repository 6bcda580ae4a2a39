//! Conversion between structures of the C interface and Rust values.
//!
//! One implementation of [`Form`] for each structure and each kind of member reads, writes, copies and releases it, so
//! the four can't drift apart. `record!` builds the forms of structures from those of their members.
//! [`element`] lists the form of each data type: in an array of that type, and in a `pmix_value_t`.
//!
//! Invariants:
//! - **F1** A member that owns a block is NULL or points to a block of libc's allocator. [`Form::write`] and
//!   [`Form::copy`] get an *empty* target (as [`Form::construct`] leaves it) and keep F1 at every moment. So
//!   [`Form::destruct`] releases the finished part after an error.
//! - **F2** [`Form::destruct`] leaves the target empty: releasing twice is harmless.

pub mod data_array;
pub mod element;
mod hardware;
mod known_key;
mod plain;
mod record;
mod records;
mod statistics;
#[cfg(test)]
pub(crate) mod tests;
mod text;
mod value;

use modex::bfrops::DecodeLimits;
use modex::types::BARE_NESTING_MAX;
pub use plain::*;
pub use text::*;

use super::error::CError;
use super::{memory, pointer};

/// A kind of member of C structures, or a structure.
pub trait Form {
    /// The C type in memory.
    type C: Copy;
    /// The Rust value.
    type Owned;

    /// Reads the value.
    ///
    /// # Errors
    /// [`CError`] when the memory is no valid value of the Rust type.
    ///
    /// # Safety
    /// P1 for every pointer inside.
    unsafe fn read(from: &Self::C, depth: Depth) -> Result<Self::Owned, CError>;

    /// Puts a value into an empty target (F1).
    ///
    /// # Errors
    /// [`CError`] when the C type cannot hold it.
    fn write(owned: &Self::Owned, to: &mut Self::C) -> Result<(), CError>;

    /// Puts a deep copy into an empty target (F1). Members without a Rust type (pointers, members that are never sent)
    /// are copied, too.
    ///
    /// # Errors
    /// [`CError`] when there is no memory, or values are nested too deep.
    ///
    /// # Safety
    /// P1 for every pointer inside `from`.
    unsafe fn copy(from: &Self::C, to: &mut Self::C, depth: Depth) -> Result<(), CError>;

    /// Releases the memory that a member owns and empties it (F2).
    ///
    /// # Safety
    /// F1 holds.
    unsafe fn destruct(member: &mut Self::C);

    /// Makes a member empty, whatever its old bytes: zero, unless the standard says otherwise.
    fn construct(to: &mut Self::C) {
        // SAFETY: every type of the C interface (numbers, pointers, arrays and structures of them) may be all zero.
        *to = unsafe { std::mem::zeroed() };
    }
}

/// Depth of nesting inside values.
#[derive(Clone, Copy, Debug)]
pub struct Depth {
    levels: u32,
    /// Number of the last levels without an array between.
    bare: u32,
}

impl Depth {
    /// Outside any value.
    pub const TOP: Self = Self { levels: 0, bare: 0 };

    /// One level further down.
    ///
    /// # Errors
    /// When the value is nested deeper than decoders accept.
    pub const fn deeper(self) -> Result<Self, CError> {
        Self { levels: self.levels + 1, bare: self.bare + 1 }.within_limits()
    }

    /// As [`Depth::deeper`], into an array.
    ///
    /// # Errors
    /// As [`Depth::deeper`].
    pub const fn into_array(self) -> Result<Self, CError> {
        Self { levels: self.levels + 1, bare: 0 }.within_limits()
    }

    const fn within_limits(self) -> Result<Self, CError> {
        match self {
            Self { levels, .. } if levels > DecodeLimits::NESTING_MAX => {
                Err(CError::TooDeep { limit: DecodeLimits::NESTING_MAX })
            }
            Self { bare, .. } if bare > BARE_NESTING_MAX => Err(CError::TooDeep { limit: BARE_NESTING_MAX }),
            within => Ok(within),
        }
    }
}

/// Reads an array.
///
/// # Errors
/// Errors of the elements.
///
/// # Safety
/// P1 for the array and every pointer inside.
pub unsafe fn read_list<F: Form>(
    array: *const F::C,
    count: usize,
    what: &'static str,
    depth: Depth,
) -> Result<Vec<F::Owned>, CError> {
    // SAFETY: the caller's contract.
    let elements = unsafe { pointer::slice(array, count, what) }?;
    // SAFETY: the caller's contract, for every element.
    elements.iter().map(|element| unsafe { F::read(element, depth) }).collect()
}

/// Puts values into a new array. `array` and `count` are empty before.
///
/// # Errors
/// Errors of the elements; the caller must then destruct the array (F1).
pub fn write_list<F: Form>(owned: &[F::Owned], array: &mut *mut F::C, count: &mut usize) -> Result<(), CError> {
    *array = memory::zeroed(owned.len())?;
    *count = owned.len();
    // SAFETY: the block was made just now for so many elements; zero is valid for all of them.
    let elements = unsafe { pointer::slice_mut(*array, owned.len(), "array") }?;
    owned.iter().zip(elements).try_for_each(|(value, element)| F::write(value, element))
}

/// Copies an array.
///
/// # Errors
/// Errors of the elements; the caller must then destruct the copy (F1).
///
/// # Safety
/// P1 for the array and every pointer inside.
pub unsafe fn copy_list<F: Form>(
    from: *const F::C,
    from_count: usize,
    to: &mut *mut F::C,
    to_count: &mut usize,
    depth: Depth,
) -> Result<(), CError> {
    // SAFETY: the caller's contract.
    let source = unsafe { pointer::slice(from, from_count, "array") }?;
    *to = memory::zeroed(source.len())?;
    *to_count = source.len();
    // SAFETY: the block was made just now for so many elements; zero is valid for all of them.
    let target = unsafe { pointer::slice_mut(*to, source.len(), "array") }?;
    source.iter().zip(target).try_for_each(|(element, copy)| {
        // SAFETY: the caller's contract, for every element.
        unsafe { F::copy(element, copy, depth) }
    })
}

/// Releases an array and its elements.
///
/// # Safety
/// F1 for the array and its elements.
pub unsafe fn destruct_list<F: Form>(array: &mut *mut F::C, count: &mut usize) {
    // SAFETY: F1.
    if let Ok(elements) = unsafe { pointer::slice_mut(*array, *count, "array") } {
        for element in elements {
            // SAFETY: F1 for the elements.
            unsafe { F::destruct(element) };
        }
    }
    // SAFETY: F1.
    unsafe { memory::release(*array) };
    *array = std::ptr::null_mut();
    *count = 0;
}
