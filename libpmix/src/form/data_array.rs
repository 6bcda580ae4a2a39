//! Arrays with a type for their elements.

use modex::types::{DataArray, DataType, descend};

use super::element::{self, Element, Place};
use super::{Counted, Depth, Form, List, Own, Whole};
use crate::error::CError;
use crate::types::{c_void, pmix_data_array_t, pmix_info_t};
use crate::{memory, pointer};

/// Limit of elements of an array: more than the processes of the largest job.
pub const ELEMENT_COUNT_MAX: usize = 1 << 28;

impl Form for pmix_data_array_t {
    type C = Self;
    type Owned = DataArray;

    fn read(from: Whole<'_, Self>, depth: Depth) -> Result<DataArray, CError> {
        let depth = depth.into_array()?;
        let (row, elements) = elements_of(from)?;
        // A damaged count must not exhaust memory before the first element is read.
        let mut read = Vec::with_capacity(row.count.min(1 << 16));
        descend(|| {
            elements.into_iter().try_for_each(|element| {
                read.push(element.read(depth)?);
                Ok::<(), CError>(())
            })
        })?;
        Ok(DataArray { element_type: row.data_type, elements: read })
    }

    fn write(owned: &DataArray, to: &mut Self) -> Result<(), CError> {
        let places = allocate(owned.element_type, owned.elements.len(), to)?;
        descend(|| owned.elements.iter().zip(places).try_for_each(|(value, mut place)| place.write(value)))
    }

    fn copy(from: Whole<'_, Self>, to: &mut Self, depth: Depth) -> Result<(), CError> {
        let depth = depth.into_array()?;
        let (row, elements) = elements_of(from)?;
        let places = allocate(row.data_type, row.count, to)?;
        descend(|| elements.zip(places).try_for_each(|(element, mut place)| place.copy(element, depth)))
    }

    fn destruct(member: Own<'_, Self>) {
        let member = member.into_place();
        // An invalid array (no type, no size) is left alone: its content is unknown.
        if let Ok(row) = Row::of(member) {
            descend(|| {
                for at in row.addresses() {
                    // SAFETY: an element of the array, which is ours alone.
                    let mut element = unsafe { Place::new(row.data_type, at) };
                    // SAFETY: F1 holds for the array, so for every element.
                    unsafe { element.destruct() };
                }
            });
        }
        // SAFETY: F1: the elements are one block of libc's, or there is none.
        unsafe { memory::release(member.array) };
        Self::construct(member);
    }
}

/// Gives an empty array a block of zeroed elements, and returns their places.
///
/// # Errors
/// When the C interface has no structure for the type, or there is no memory.
pub fn allocate(
    data_type: DataType,
    count: usize,
    to: &mut pmix_data_array_t,
) -> Result<impl Iterator<Item = Place<'_>>, CError> {
    to.type_ = data_type.to_raw();
    if count != 0 {
        let size_bytes = element::size(data_type)?.saturating_mul(count);
        to.array = memory::zeroed::<u8>(size_bytes)?.cast();
        to.size = count;
    }
    let row = Row::of(to)?;
    // SAFETY: the block was made just now for so many elements of this type, and the array stays borrowed.
    Ok(row.addresses().map(move |at| unsafe { Place::new(data_type, at) }))
}

/// As [`allocate`], for infos.
///
/// # Errors
/// When there is no memory.
pub fn allocate_infos(count: usize, to: &mut pmix_data_array_t) -> Result<&mut [pmix_info_t], CError> {
    to.type_ = DataType::Info.to_raw();
    let block: *mut pmix_info_t = memory::zeroed(count)?;
    (to.array, to.size) = (block.cast(), count);
    // SAFETY: the block was made just now for so many infos, and the array stays borrowed.
    unsafe { pointer::slice_mut(block, count, "infos") }
}

/// The elements of an array.
fn elements_of(array: Whole<'_, pmix_data_array_t>) -> Result<(Row, impl Iterator<Item = Element<'_>>), CError> {
    let row = Row::of(array.get())?;
    // SAFETY: the array has so many elements of its type, and P1 holds for them.
    let elements = row.addresses().map(move |at| unsafe { Element::new(row.data_type, at) });
    Ok((row, elements))
}

impl<'a> Whole<'a, pmix_data_array_t> {
    /// The elements of an array of infos; `None` for arrays of another type.
    ///
    /// # Errors
    /// When the pointer or the count is impossible.
    pub fn infos(self) -> Result<Option<List<'a, pmix_info_t>>, CError> {
        let array = self.get();
        if array.type_ != DataType::Info.to_raw() {
            return Ok(None);
        }
        // SAFETY: the type says that the elements are infos, and P1 holds for them.
        unsafe { Counted::new(array.array.cast(), array.size) }.list("array of infos").map(Some)
    }
}

/// Addresses of an array's elements.
#[derive(Clone, Copy)]
struct Row {
    data_type: DataType,
    first: *mut c_void,
    count: usize,
    stride: usize,
}

impl Row {
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
        pointer::check_array(first.cast::<u8>(), count.saturating_mul(stride), "data array")?;
        Ok(Self { data_type, first, count, stride })
    }

    fn addresses(self) -> impl Iterator<Item = *mut c_void> {
        (0..self.count).map(move |index| self.first.wrapping_byte_add(index.wrapping_mul(self.stride)))
    }
}
