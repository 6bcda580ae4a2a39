//! Packing and unpacking.

use modex::bfrops::{Codec, DecodeError, DecodeLimits, DecodeProblem, EncodeError, Reader, Writer};
use modex::runtime::DataForm;
use modex::types::{DataType, Status, Value};

use super::{buffer, peer};
use crate::argument::{Data, DataCount, DataPlace, Filled, In, InOut, TypeCode};
use crate::error::CError;
use crate::form::element::{self, Element, Place};
use crate::form::{Depth, bare_regex};
use crate::guard::{Failure, guard};
use crate::types::{c_char, c_void, pmix_data_buffer_t, pmix_proc_t, pmix_status_t};
use crate::{memory, pointer};

/// Appends `num_vals` elements of a type to a buffer, in the form of the target's library. Map expressions are passed
/// as an array of bare pointers.
///
/// The target is NULL for a process with this library. For the library of an unknown target this function returns
/// `PMIX_ERR_NOT_FOUND`. `PMIX_ERR_UNKNOWN_DATA_TYPE` means that the target's library does not have the type.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Data_pack<'a>(
    target: In<'a, pmix_proc_t>,
    buffer: InOut<'a, pmix_data_buffer_t>,
    src: Data<'a>,
    num_vals: DataCount<'a>,
    type_: TypeCode<'a>,
) -> pmix_status_t {
    guard(|| {
        let buffer = buffer.own("buffer")?;
        let count = num_vals.get().ok_or(Failure(Status::ERR_BAD_PARAM))?;
        let data_type = known(type_)?;
        // SAFETY: so many elements of this type are there (the promises of `Data` and `DataCount`).
        let values = unsafe { read_all(data_type, src.as_ptr(), count) }?;
        let packed = pack(peer::form(target)?, data_type, &values).map_err(|error| Failure(error.status()))?;
        Ok(buffer::append(buffer, &packed)?)
    })
}

/// Unpacks the next elements of a buffer, which `source` has packed; see [`PMIx_Data_pack`]. `max_num_values` is the
/// room, then the number of elements. If more elements were packed than fit, the caller gets as many as fit, with the
/// status `PMIX_ERR_UNPACK_INADEQUATE_SPACE`.
///
/// After an error the read position stands behind the part that was read, as in OpenPMIx. The caller may set
/// `unpack_ptr` back. An operation of 0 integers at the end of the data fails with
/// `PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER`, and PRRTE reads such data.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Data_unpack<'a>(
    source: In<'a, pmix_proc_t>,
    buffer: InOut<'a, pmix_data_buffer_t>,
    dest: DataPlace<'a>,
    mut max_num_values: Filled<'a, DataCount<'a>>,
    type_: TypeCode<'a>,
) -> pmix_status_t {
    guard(|| {
        let buffer = buffer.own("buffer")?;
        let count = max_num_values.place("number of values")?;
        let given = *count;
        let room = given.get().ok_or(Failure(Status::ERR_BAD_PARAM))?;
        *count = given.at_most(0);
        if dest.is_null() {
            return Err(CError::Null { what: "place for values" }.into());
        }
        if room == 0 {
            return Err(Failure(Status::ERR_UNPACK_INADEQUATE_SPACE));
        }
        let form = peer::form_of_source(source)?;
        let unread = buffer::unread(buffer.whole())?;
        let data_type = known(type_);
        let Unpacked { values, size_bytes, status } = match &data_type {
            Ok(data_type) => unpack(form, *data_type, unread, room),
            // Only the count is read.
            Err(_) => unpack(form, DataType::Byte, unread, 0),
        };
        buffer::advance(buffer, size_bytes);
        // SAFETY: there is room for so many elements of this type (the promises of `DataPlace` and `DataCount`).
        unsafe { write_all(data_type?, &values, dest.as_ptr()) }?;
        *count = given.at_most(values.len());
        if status == Status::SUCCESS { Ok(()) } else { Err(Failure(status)) }
    })
}

fn known(code: TypeCode<'_>) -> Result<DataType, CError> {
    let data_type = code.known()?;
    // Types without a structure can't be passed.
    element::size(data_type)?;
    Ok(data_type)
}

fn pack(form: DataForm, data_type: DataType, values: &[Value]) -> Result<Vec<u8>, EncodeError> {
    let pack = |codec| {
        let mut writer = Writer::new(codec);
        writer.pack_elements(data_type, values)?;
        Ok(writer.into_bytes())
    };
    match (pack(form.codec), form.younger) {
        (Err(EncodeError::UnregisteredType { .. }), Some(younger)) => pack(younger),
        (packed, _) => packed,
    }
}

/// The next operation of a buffer.
struct Unpacked {
    values: Vec<Value>,
    /// Size of the part that was read.
    size_bytes: usize,
    status: Status,
}

/// Reads the next operation, and at most `room` of its values.
fn unpack(form: DataForm, data_type: DataType, bytes: &[u8], room: usize) -> Unpacked {
    let unpack = |codec| -> Result<_, DecodeError> {
        // The caller packed the data itself, or got it from a peer that it trusts as much.
        let mut reader = Reader::new(bytes, codec, &DecodeLimits::EXCHANGE)?;
        let (values, packed_count) = reader.unpack_at_most("packed data", data_type, room)?;
        let status = if packed_count > values.len() {
            Status::ERR_UNPACK_INADEQUATE_SPACE
        } else if packed_count == 0 && reader.is_at_end() && is_of_variable_size(codec, data_type) {
            Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER
        } else {
            Status::SUCCESS
        };
        Ok(Unpacked { values, size_bytes: bytes.len() - reader.remaining(), status })
    };
    let is_younger = |error: &DecodeError| matches!(error.problem(), DecodeProblem::UnregisteredType { .. });
    let unpacked = match (unpack(form.codec), form.younger) {
        (Err(error), Some(younger)) if is_younger(&error) => unpack(younger),
        (unpacked, _) => unpacked,
    };
    unpacked.unwrap_or_else(|error| Unpacked {
        values: Vec::new(),
        size_bytes: error.position().min(bytes.len()),
        status: error.status(),
    })
}

/// Whether the type is an integer whose number of bytes depends on its value. OpenPMIx looks for the first byte of such
/// an integer even if there is none.
fn is_of_variable_size(codec: Codec, data_type: DataType) -> bool {
    let is_integer = matches!(
        data_type,
        DataType::Size
            | DataType::Pid
            | DataType::Int
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Uint
            | DataType::Uint16
            | DataType::Uint32
            | DataType::Uint64
            | DataType::Status
            | DataType::InfoDirectives
            | DataType::DataType
            | DataType::ProcRank
            | DataType::IofChannel
            | DataType::DeviceType
            | DataType::LocalityType
            | DataType::StorageMedium
            | DataType::StorageAccess
            | DataType::StoragePersistence
            | DataType::StorageAccessType
    );
    is_integer && !codec.generation.has_fixed_integers()
}

/// Distance of elements in bytes.
const fn stride_of(data_type: DataType) -> Result<usize, CError> {
    match data_type {
        DataType::Regex => Ok(size_of::<*const c_char>()),
        _ => element::size(data_type),
    }
}

/// # Safety
/// P2: `first` points to so many elements of the type; map expressions are bare pointers.
unsafe fn read_all(data_type: DataType, first: *const c_void, count: usize) -> Result<Vec<Value>, CError> {
    let stride = stride_of(data_type)?;
    if count == 0 {
        return Ok(Vec::new());
    }
    pointer::check_array(first.cast::<u8>(), count.saturating_mul(stride), "values")?;
    let at = |index: usize| first.wrapping_byte_add(index.wrapping_mul(stride));
    if data_type == DataType::Regex {
        let read = |index| -> Result<Value, CError> {
            let place = at(index).cast::<*const c_char>();
            // SAFETY: a pointer is there, at any address.
            let expression = unsafe { pointer::with_data(place, "map expression", |expression| *expression) }?;
            // SAFETY: the pointer is an expression, which a NUL or its own size ends.
            Ok(Value::Regex(unsafe { bare_regex(expression) }?.to_vec()))
        };
        return (0..count).map(read).collect();
    }
    // SAFETY: an element of the type is there, at any address.
    (0..count).map(|index| unsafe { Element::new(data_type, at(index)) }.read(Depth::TOP)).collect()
}

/// Writes values; after an error, none are left.
///
/// # Safety
/// P2: `first` points to storage for so many elements of the type, whatever is in it.
unsafe fn write_all(data_type: DataType, values: &[Value], first: *mut c_void) -> Result<(), CError> {
    let stride = stride_of(data_type)?;
    let at = |index: usize| first.wrapping_byte_add(index.wrapping_mul(stride));
    if data_type == DataType::Regex {
        return values.iter().enumerate().try_for_each(|(index, value)| {
            let Value::Regex(expression) = value else { return Ok(()) };
            let (place, expression) = (at(index).cast(), memory::new_string(expression)?);
            // SAFETY: there is room for a pointer, at any address.
            unsafe { pointer::with_place(place, "place for a map expression", |place| *place = expression) }
        });
    }
    // SAFETY: there is room for an element of the type, at any address; one place is in use at a time.
    let place = |index: usize| unsafe { Place::new(data_type, at(index)) };
    (0..values.len()).for_each(|index| place(index).construct());
    for (index, value) in values.iter().enumerate() {
        if let Err(error) = place(index).write(value) {
            // SAFETY: F1: the elements were made empty, and those up to `index` written.
            (0..=index).for_each(|written| unsafe { place(written).destruct() });
            return Err(error);
        }
    }
    Ok(())
}
