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
mod whole;

use modex::bfrops::DecodeLimits;
use modex::types::BARE_NESTING_MAX;
pub use plain::*;
pub use text::*;
pub use whole::{Counted, List, Own, Shallow, Whole};

use super::error::CError;
use super::{memory, pointer};

/// A kind of member of C structures, or a structure.
pub trait Form: Sized {
    /// The C type in memory: numbers, pointers, and arrays and structures of them.
    type C: Copy + 'static;
    /// The Rust value.
    type Owned;

    /// Reads the value.
    ///
    /// # Errors
    /// [`CError`] when the memory is no valid value of the Rust type.
    fn read(from: Whole<'_, Self>, depth: Depth) -> Result<Self::Owned, CError>;

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
    fn copy(from: Whole<'_, Self>, to: &mut Self::C, depth: Depth) -> Result<(), CError>;

    /// Releases the memory that a member owns and empties it (F2).
    fn destruct(member: Own<'_, Self>);

    /// Makes a member empty, whatever its old bytes: zero, unless the standard says otherwise.
    fn construct(to: &mut Self::C) {
        *to = zeroed::<Self>();
    }
}

/// A structure or member of zeros.
#[must_use]
pub fn zeroed<F: Form>() -> F::C {
    // SAFETY: every type of the C interface (numbers, pointers, arrays and structures of them) may be all zero.
    unsafe { std::mem::zeroed() }
}

/// An empty structure or member.
#[must_use]
pub fn empty<F: Form>() -> F::C {
    let mut member = zeroed::<F>();
    F::construct(&mut member);
    member
}

/// Writes a value to storage whose old content is not released.
///
/// # Errors
/// As [`Form::write`]; the storage is then empty.
pub fn write_anew<F: Form>(owned: &F::Owned, to: &mut F::C) -> Result<(), CError> {
    F::construct(to);
    let outcome = F::write(owned, to);
    if outcome.is_err() {
        // SAFETY: F1: it was empty, and only `write` has touched it.
        F::destruct(unsafe { Own::new(to) });
    }
    outcome
}

/// Copies to storage whose old content is not released.
///
/// # Errors
/// As [`Form::copy`]; the storage is then empty.
pub fn copy_anew<F: Form>(from: Whole<'_, F>, to: &mut F::C) -> Result<(), CError> {
    F::construct(to);
    let outcome = F::copy(from, to, Depth::TOP);
    if outcome.is_err() {
        // SAFETY: F1: it was empty, and only `copy` has touched it.
        F::destruct(unsafe { Own::new(to) });
    }
    outcome
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
/// When the pointer or the count is impossible, and errors of the elements.
pub fn read_list<F: Form>(array: Counted<'_, F>, what: &'static str, depth: Depth) -> Result<Vec<F::Owned>, CError> {
    array.list(what)?.iter().map(|element| F::read(element, depth)).collect()
}

/// Puts values into a new array. `array` and `count` are empty before.
///
/// # Errors
/// Errors of the elements; the caller must then destruct the array (F1).
pub fn write_list<F: Form>(owned: &[F::Owned], array: &mut *mut F::C, count: &mut usize) -> Result<(), CError> {
    let elements = new_list::<F>(owned.len(), array, count)?;
    owned.iter().zip(elements).try_for_each(|(value, element)| F::write(value, element))
}

/// Copies an array.
///
/// # Errors
/// Errors of the elements; the caller must then destruct the copy (F1).
pub fn copy_list<F: Form>(
    from: Counted<'_, F>,
    to: &mut *mut F::C,
    to_count: &mut usize,
    depth: Depth,
) -> Result<(), CError> {
    let source = from.list("array")?;
    let target = new_list::<F>(source.get().len(), to, to_count)?;
    source.iter().zip(target).try_for_each(|(element, copy)| F::copy(element, copy, depth))
}

/// Makes an array of zeroed elements.
///
/// # Errors
/// When there is no memory.
pub fn new_list<'a, F: Form>(
    count: usize,
    array: &'a mut *mut F::C,
    array_count: &mut usize,
) -> Result<&'a mut [F::C], CError> {
    *array = memory::zeroed(count)?;
    *array_count = count;
    // SAFETY: the block was made just now for so many elements; zero is valid for all of them.
    unsafe { pointer::slice_mut(*array, count, "array") }
}

/// Releases an array and its elements.
///
/// # Safety
/// F1 for the array and its elements.
pub unsafe fn destruct_list<F: Form>(array: &mut *mut F::C, count: &mut usize) {
    // SAFETY: F1: the block has so many elements, which are ours alone.
    if let Ok(elements) = unsafe { pointer::slice_mut(*array, *count, "array") } {
        for element in elements {
            // SAFETY: F1 holds for every element.
            F::destruct(unsafe { Own::new(element) });
        }
    }
    // SAFETY: F1: the elements are one block of libc's, or there is none.
    unsafe { memory::release(*array) };
    *array = std::ptr::null_mut();
    *count = 0;
}
