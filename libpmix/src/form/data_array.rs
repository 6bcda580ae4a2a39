//! Arrays with a type for their elements.

use modex::types::{DataArray, DataType, descend};

use super::{Depth, Form, element};
use crate::error::CError;
use crate::types::{c_void, pmix_data_array_t};
use crate::{memory, pointer};

/// Limit of elements of an array: more than the processes of the largest job.
pub const ELEMENT_COUNT_MAX: usize = 1 << 28;

impl Form for pmix_data_array_t {
    type C = Self;
    type Owned = DataArray;

    unsafe fn read(from: &Self, depth: Depth) -> Result<DataArray, CError> {
        let depth = depth.into_array()?;
        let elements = Elements::of(from)?;
        // A damaged count must not exhaust memory before the first element is read.
        let mut read = Vec::with_capacity(elements.count.min(1 << 16));
        descend(|| {
            elements.addresses().try_for_each(|at| {
                // SAFETY: the caller's contract for every element.
                read.push(unsafe { element::read(elements.data_type, at, depth) }?);
                Ok::<(), CError>(())
            })
        })?;
        Ok(DataArray { element_type: elements.data_type, elements: read })
    }

    fn write(owned: &DataArray, to: &mut Self) -> Result<(), CError> {
        let expected = owned.element_type;
        allocate(expected, owned.elements.len(), to)?;
        let target = Elements::of(to)?;
        descend(|| {
            owned.elements.iter().zip(target.addresses()).try_for_each(|(value, at)| {
                let found = value.data_type();
                if found != expected {
                    return Err(CError::MixedArray { expected, found });
                }
                // SAFETY: the block was made just now, zeroed, for so many elements of this type.
                unsafe { element::write(value, at) }
            })
        })
    }

    unsafe fn copy(from: &Self, to: &mut Self, depth: Depth) -> Result<(), CError> {
        let depth = depth.into_array()?;
        let source = Elements::of(from)?;
        allocate(source.data_type, source.count, to)?;
        let target = Elements::of(to)?;
        descend(|| {
            source.addresses().zip(target.addresses()).try_for_each(|(from, to)| {
                // SAFETY: the caller's contract for the source; the target was made just now, zeroed.
                unsafe { element::copy(source.data_type, from, to, depth) }
            })
        })
    }

    unsafe fn destruct(member: &mut Self) {
        // An invalid array (no type, no size) is left alone: its content is unknown.
        if let Ok(elements) = Elements::of(member) {
            descend(|| {
                for at in elements.addresses() {
                    // SAFETY: F1 for every element.
                    unsafe { element::destruct(elements.data_type, at) };
                }
            });
        }
        // SAFETY: F1.
        unsafe { memory::release(member.array) };
        Self::construct(member);
    }
}

/// Gives an empty array a block of empty elements.
pub fn allocate(data_type: DataType, count: usize, to: &mut pmix_data_array_t) -> Result<(), CError> {
    to.type_ = data_type.to_raw();
    if count == 0 {
        return Ok(());
    }
    let size_bytes = element::size(data_type)?.saturating_mul(count);
    to.array = memory::zeroed::<u8>(size_bytes)?.cast();
    to.size = count;
    Ok(())
}

/// Place of an array's elements.
struct Elements {
    data_type: DataType,
    first: *mut c_void,
    count: usize,
    stride: usize,
}

impl Elements {
    /// Checks all that can be checked without following the pointer.
    fn of(array: &pmix_data_array_t) -> Result<Self, CError> {
        let data_type = DataType::from_raw(array.type_).ok_or(CError::UnknownType { code: array.type_ })?;
        let (first, count) = (array.array, array.size);
        if count == 0 {
            return Ok(Self { data_type, first, count, stride: 0 });
        }
        if count > ELEMENT_COUNT_MAX {
            return Err(CError::TooMany { what: "data array", count, limit: ELEMENT_COUNT_MAX });
        }
        let stride = element::size(data_type)?;
        // SAFETY: the slice is not looked at: this checks pointer and count.
        unsafe { pointer::slice(first.cast::<u8>(), count.saturating_mul(stride), "data array") }?;
        Ok(Self { data_type, first, count, stride })
    }

    fn addresses(&self) -> impl Iterator<Item = *mut c_void> + use<> {
        let (first, stride) = (self.first, self.stride);
        (0..self.count).map(move |index| first.wrapping_byte_add(index.wrapping_mul(stride)))
    }
}
