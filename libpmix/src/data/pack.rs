//! Packing and unpacking.

use modex::bfrops::{Codec, DecodeError, DecodeLimits, DecodeProblem, EncodeError, Generation, Reader, Writer};
use modex::types::{DataType, Status, Value};

use super::buffer;
use crate::error::CError;
use crate::form::{Depth, bare_regex, element};
use crate::guard::{Failure, guard};
use crate::types::{c_char, c_void, pmix_data_buffer_t, pmix_data_type_t, pmix_proc_t, pmix_status_t};
use crate::{memory, pointer};

/// The encoding for types that [`Codec::V41`] does not have: integers look the same.
const YOUNGER: Codec = Codec { generation: Generation::V61, described: false };

/// Appends `num_vals` elements of a type to a buffer. Map expressions are passed as an array of bare pointers.
///
/// Support: implemented.
///
/// # Safety
/// P1: `buffer` points to a buffer of libc's block, `src` to `num_vals` elements of the type. `target` is not used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Data_pack(
    target: *const pmix_proc_t,
    buffer: *mut pmix_data_buffer_t,
    src: *mut c_void,
    num_vals: i32,
    type_: pmix_data_type_t,
) -> pmix_status_t {
    let _ = target;
    guard(|| {
        // SAFETY: the caller's contract.
        let buffer = unsafe { pointer::unique(buffer, "buffer") }?;
        let count = usize::try_from(num_vals).map_err(|_| Failure(Status::ERR_BAD_PARAM))?;
        let data_type = known(type_)?;
        // SAFETY: the caller's contract.
        let values = unsafe { read_all(data_type, src, count) }?;
        let packed = pack(data_type, &values).map_err(|error| Failure(error.status()))?;
        // SAFETY: the caller's contract.
        Ok(unsafe { buffer::append(buffer, &packed) }?)
    })
}

/// Unpacks the next elements of a buffer. `max_num_values` is the room, then the number of elements. If more elements
/// were packed than fit, the caller gets as many as fit, and the read position stays. The status is then
/// `PMIX_ERR_UNPACK_INADEQUATE_SPACE`.
///
/// Support: implemented.
///
/// # Safety
/// P1: `buffer` points to a buffer, `dest` to storage for `max_num_values` elements of the type, whatever is in it.
/// `source` is not used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Data_unpack(
    source: *const pmix_proc_t,
    buffer: *mut pmix_data_buffer_t,
    dest: *mut c_void,
    max_num_values: *mut i32,
    type_: pmix_data_type_t,
) -> pmix_status_t {
    let _ = source;
    guard(|| {
        // SAFETY: the caller's contract.
        let buffer = unsafe { pointer::unique(buffer, "buffer") }?;
        // SAFETY: the caller's contract.
        let count = unsafe { pointer::unique(max_num_values, "number of values") }?;
        let room = usize::try_from(*count).map_err(|_| Failure(Status::ERR_BAD_PARAM))?;
        *count = 0;
        let data_type = known(type_)?;
        if dest.is_null() {
            return Err(CError::Null { what: "place for values" }.into());
        }
        // SAFETY: the caller's contract.
        let unread = unsafe { buffer::unread(buffer) }?;
        let (values, size_bytes) = unpack(data_type, unread).map_err(|error| Failure(error.status()))?;
        let fitting = values.get(..room).unwrap_or(&values);
        // SAFETY: the caller's contract.
        unsafe { write_all(data_type, fitting, dest) }?;
        *count = i32::try_from(fitting.len()).unwrap_or(i32::MAX);
        if fitting.len() < values.len() {
            return Err(Failure(Status::ERR_UNPACK_INADEQUATE_SPACE));
        }
        buffer::advance(buffer, size_bytes);
        Ok(())
    })
}

fn known(code: pmix_data_type_t) -> Result<DataType, CError> {
    let data_type = DataType::from_raw(code).ok_or(CError::UnknownType { code })?;
    // Types without a structure can't be passed.
    element::size(data_type)?;
    Ok(data_type)
}

fn pack(data_type: DataType, values: &[Value]) -> Result<Vec<u8>, EncodeError> {
    let pack = |codec| {
        let mut writer = Writer::new(codec);
        writer.pack_elements(data_type, values)?;
        Ok(writer.into_bytes())
    };
    match pack(Codec::V41) {
        Err(EncodeError::UnregisteredType { .. }) => pack(YOUNGER),
        packed => packed,
    }
}

/// The values of the next operation, and its size in bytes.
fn unpack(data_type: DataType, bytes: &[u8]) -> Result<(Vec<Value>, usize), DecodeError> {
    let unpack = |codec| -> Result<_, DecodeError> {
        // The caller packed the data itself, or got it from a peer that it trusts as much.
        let mut reader = Reader::new(bytes, codec, &DecodeLimits::EXCHANGE)?;
        let values = reader.unpack_elements("packed data", data_type)?;
        Ok((values, bytes.len() - reader.remaining()))
    };
    match unpack(Codec::V41) {
        Err(error) if matches!(error.problem(), DecodeProblem::UnregisteredType { .. }) => unpack(YOUNGER),
        unpacked => unpacked,
    }
}

/// Distance of elements in bytes.
const fn stride_of(data_type: DataType) -> Result<usize, CError> {
    match data_type {
        DataType::Regex => Ok(size_of::<*const c_char>()),
        _ => element::size(data_type),
    }
}

/// # Safety
/// P1: `first` points to so many elements of the type; map expressions are bare pointers.
unsafe fn read_all(data_type: DataType, first: *const c_void, count: usize) -> Result<Vec<Value>, CError> {
    let stride = stride_of(data_type)?;
    // SAFETY: the slice is not looked at: this checks pointer and count.
    unsafe { pointer::slice(first.cast::<u8>(), count.saturating_mul(stride), "values") }?;
    let at = |index: usize| first.wrapping_byte_add(index.wrapping_mul(stride));
    if data_type == DataType::Regex {
        let read = |index| -> Result<Value, CError> {
            let expression = at(index).cast::<*const c_char>();
            // SAFETY: the caller's contract.
            let expression = unsafe { pointer::with_data(expression, "map expression", |expression| *expression) }?;
            // SAFETY: the caller's contract.
            Ok(Value::Regex(unsafe { bare_regex(expression) }?.to_vec()))
        };
        return (0..count).map(read).collect();
    }
    // SAFETY: the caller's contract.
    (0..count).map(|index| unsafe { element::read(data_type, at(index), Depth::TOP) }).collect()
}

/// Writes values; after an error, none are left.
///
/// # Safety
/// P1: `first` points to storage for so many elements of the type, whatever is in it.
unsafe fn write_all(data_type: DataType, values: &[Value], first: *mut c_void) -> Result<(), CError> {
    let stride = stride_of(data_type)?;
    let at = |index: usize| first.wrapping_byte_add(index.wrapping_mul(stride));
    if data_type == DataType::Regex {
        return values.iter().enumerate().try_for_each(|(index, value)| {
            let Value::Regex(expression) = value else { return Ok(()) };
            let (place, expression) = (at(index).cast(), memory::new_string(expression)?);
            // SAFETY: the caller's contract.
            unsafe { pointer::with_place(place, "place for a map expression", |place| *place = expression) }
        });
    }
    for index in 0..values.len() {
        // SAFETY: the caller's contract.
        unsafe { element::construct(data_type, at(index)) };
    }
    for (index, value) in values.iter().enumerate() {
        // SAFETY: made empty above.
        if let Err(error) = unsafe { element::write(value, at(index)) } {
            for written in 0..=index {
                // SAFETY: F1: made empty and written above.
                unsafe { element::destruct(data_type, at(written)) };
            }
            return Err(error);
        }
    }
    Ok(())
}
