//! The form of each data type.
//!
//! An *element* is one entry of an array of the type. Functions like `PMIx_Data_pack` take its address. A
//! `pmix_value_t` holds the element itself if it fits, else a pointer to one.

use modex::types::{DataType, Value};

use super::{Address, Bool, Depth, Form, Moment, NamespaceText, Pid, Plain, RankNumber, Regex, Size, Str, Time};
use crate::error::CError;
use crate::types::{
    c_void, pmix_app_t, pmix_byte_object_t, pmix_coord_t, pmix_cpuset_t, pmix_data_array_t, pmix_data_buffer_t,
    pmix_device_distance_t, pmix_device_t, pmix_disk_stats_t, pmix_endpoint_t, pmix_envar_t, pmix_geometry_t,
    pmix_info_t, pmix_net_stats_t, pmix_node_pid_t, pmix_node_stats_t, pmix_pdata_t, pmix_proc_info_t,
    pmix_proc_stats_t, pmix_proc_t, pmix_query_t, pmix_regattr_t, pmix_regex2_t, pmix_resource_unit_t, pmix_topology_t,
    pmix_value_data_t, pmix_value_t,
};
use crate::{memory, pointer};

/// Declares the form of each type, and writes the functions that select by type.
///
/// Strings are special because they have two Rust values; they are held in the value. `absent` types
/// have no public structure.
macro_rules! elements {
    (
        held { $($held:ident: $held_form:ty,)* }
        pointed { $($pointed:ident: $pointed_form:ty,)* }
        absent { $($absent:ident,)* }
    ) => {
        /// Size of one element in bytes.
        ///
        /// # Errors
        /// When the C interface has no structure for the type.
        pub const fn size(data_type: DataType) -> Result<usize, CError> {
            match data_type {
                DataType::String => Ok(size_of::<<Str as Form>::C>()),
                $(DataType::$held => Ok(size_of::<<$held_form as Form>::C>()),)*
                $(DataType::$pointed => Ok(size_of::<<$pointed_form as Form>::C>()),)*
                DataType::Undefined $(| DataType::$absent)* => Err(CError::NoForm { data_type }),
            }
        }

        /// Whether a value of the type holds a pointer to the element.
        pub const fn is_pointed(data_type: DataType) -> bool {
            matches!(data_type, $(DataType::$pointed)|*)
        }

        /// Reads the element at this address.
        ///
        /// # Errors
        /// [`CError`] when it is no such element.
        ///
        /// # Safety
        /// P1: an element of the type is there, with P1 for every pointer inside.
        pub unsafe fn read(data_type: DataType, at: *const c_void, depth: Depth) -> Result<Value, CError> {
            match data_type {
                DataType::Undefined => Ok(Value::Undefined),
                DataType::String => {
                    // SAFETY: the caller's contract.
                    let string = unsafe { read_as::<Str>(data_type, at, depth) }?;
                    Ok(string.map_or(Value::NullString, Value::String))
                }
                // SAFETY: the caller's contract.
                $(DataType::$held => Ok(Value::$held(unsafe { read_as::<$held_form>(data_type, at, depth) }?.into())),)*
                $(
                    DataType::$pointed => {
                        // SAFETY: the caller's contract.
                        Ok(Value::$pointed(unsafe { read_as::<$pointed_form>(data_type, at, depth) }?.into()))
                    }
                )*
                $(DataType::$absent)|* => Err(CError::NoForm { data_type }),
            }
        }

        /// Writes an element to this address.
        ///
        /// # Errors
        /// [`CError`] when the C type cannot hold it.
        ///
        /// # Safety
        /// An empty element of the value's type is there, and nobody else uses it.
        pub unsafe fn write(value: &Value, at: *mut c_void) -> Result<(), CError> {
            match value {
                Value::Undefined | Value::NullString => Ok(()),
                Value::String(text) => {
                    let string: <Str as Form>::C = memory::new_string(text.as_bytes())?;
                    // SAFETY: the caller's contract.
                    unsafe { pointer::with_place(at.cast(), "string", |to| *to = string) }
                }
                // SAFETY: the caller's contract.
                $(Value::$held(content) => unsafe { write_as::<$held_form>(content, at) },)*
                // SAFETY: the caller's contract.
                $(Value::$pointed(content) => unsafe { write_as::<$pointed_form>(content, at) },)*
                $(Value::$absent(..))|* => Err(CError::NoForm { data_type: value.data_type() }),
            }
        }

        /// Copies an element.
        ///
        /// # Errors
        /// As [`Form::copy`].
        ///
        /// # Safety
        /// P1 for the source; an empty element of the type is at `to`, and nobody else uses it.
        pub unsafe fn copy(
            data_type: DataType,
            from: *const c_void,
            to: *mut c_void,
            depth: Depth,
        ) -> Result<(), CError> {
            match data_type {
                DataType::Undefined => Ok(()),
                // SAFETY: the caller's contract.
                DataType::String => unsafe { copy_as::<Str>(from, to, depth) },
                // SAFETY: the caller's contract.
                $(DataType::$held => unsafe { copy_as::<$held_form>(from, to, depth) },)*
                // SAFETY: the caller's contract.
                $(DataType::$pointed => unsafe { copy_as::<$pointed_form>(from, to, depth) },)*
                $(DataType::$absent)|* => Err(CError::NoForm { data_type }),
            }
        }

        /// Releases the memory that an element owns.
        ///
        /// # Safety
        /// F1 for the element at `at`, or the address is plainly none.
        pub unsafe fn destruct(data_type: DataType, at: *mut c_void) {
            match data_type {
                // SAFETY: the caller's contract.
                DataType::String => unsafe { destruct_as::<Str>(at) },
                DataType::Undefined => {}
                // SAFETY: the caller's contract.
                $(DataType::$held => unsafe { destruct_as::<$held_form>(at) },)*
                // SAFETY: the caller's contract.
                $(DataType::$pointed => unsafe { destruct_as::<$pointed_form>(at) },)*
                $(DataType::$absent)|* => {}
            }
        }

        /// Makes an element empty, whatever its old bytes.
        ///
        /// # Safety
        /// An element of the type may be written there.
        pub unsafe fn construct(data_type: DataType, at: *mut c_void) {
            match data_type {
                // SAFETY: the caller's contract.
                DataType::String => unsafe { construct_as::<Str>(at) },
                // SAFETY: the caller's contract.
                $(DataType::$held => unsafe { construct_as::<$held_form>(at) },)*
                // SAFETY: the caller's contract.
                $(DataType::$pointed => unsafe { construct_as::<$pointed_form>(at) },)*
                DataType::Undefined $(| DataType::$absent)* => {}
            }
        }
    };
}

elements! {
    held {
        Bool: Bool, Byte: Plain<u8>, Size: Size, Pid: Pid, Int: Plain<i32>, Int8: Plain<i8>, Int16: Plain<i16>,
        Int32: Plain<i32>, Int64: Plain<i64>, Uint: Plain<u32>, Uint8: Plain<u8>, Uint16: Plain<u16>,
        Uint32: Plain<u32>, Uint64: Plain<u64>, Float: Plain<f32>, Double: Plain<f64>, Timeval: Moment, Time: Time,
        Status: Plain<i32>, ByteObject: pmix_byte_object_t, Pointer: Address, Persistence: Plain<u8>, Scope: Plain<u8>,
        DataRange: Plain<u8>, Command: Plain<u8>, InfoDirectives: Plain<u32>, DataType: Plain<u16>,
        ProcState: Plain<u8>, ProcRank: RankNumber, CompressedString: pmix_byte_object_t, AllocDirective: Plain<u8>,
        IofChannel: Plain<u16>, Envar: pmix_envar_t, Regex: Regex, JobState: Plain<u8>, LinkState: Plain<u8>,
        DeviceType: Plain<u64>, LocalityType: Plain<u16>, CompressedByteObject: pmix_byte_object_t,
        StorageMedium: Plain<u64>, StorageAccess: Plain<u64>, StoragePersistence: Plain<u64>,
        StorageAccessType: Plain<u16>, ResblockDirective: Plain<u8>,
    }
    pointed {
        Value: pmix_value_t, Proc: pmix_proc_t, App: pmix_app_t, Info: pmix_info_t, Pdata: pmix_pdata_t,
        ProcInfo: pmix_proc_info_t, DataArray: pmix_data_array_t, Query: pmix_query_t, Coord: pmix_coord_t,
        Regattr: pmix_regattr_t, ProcCpuset: pmix_cpuset_t, Geometry: pmix_geometry_t,
        DeviceDistance: pmix_device_distance_t, Endpoint: pmix_endpoint_t, Topology: pmix_topology_t,
        ProcNamespace: NamespaceText, ProcStats: pmix_proc_stats_t, DiskStats: pmix_disk_stats_t,
        NetStats: pmix_net_stats_t, NodeStats: pmix_node_stats_t, DataBuffer: pmix_data_buffer_t,
        Device: pmix_device_t, ResourceUnit: pmix_resource_unit_t, NodePid: pmix_node_pid_t, Regex2: pmix_regex2_t,
    }
    absent { Buffer, Kval, }
}

/// # Safety
/// P1: an element is there.
unsafe fn read_as<F: Form>(data_type: DataType, at: *const c_void, depth: Depth) -> Result<F::Owned, CError> {
    // SAFETY: the caller's contract.
    let read = |element: &F::C| unsafe { F::read(element, depth) };
    // SAFETY: the caller's contract.
    unsafe { pointer::with_data(at.cast(), data_type.name(), read) }?
}

/// # Safety
/// An empty element is there, and nobody else uses it.
unsafe fn write_as<F: Form>(owned: &F::Owned, at: *mut c_void) -> Result<(), CError> {
    // SAFETY: the caller's contract.
    unsafe { pointer::with_place(at.cast(), "element", |to| F::write(owned, to)) }?
}

/// # Safety
/// P1 for the source; an empty element is at `to`, and nobody else uses it.
unsafe fn copy_as<F: Form>(from: *const c_void, to: *mut c_void, depth: Depth) -> Result<(), CError> {
    let copy = |from: &F::C, to: &mut F::C| {
        // SAFETY: the caller's contract.
        unsafe { F::copy(from, to, depth) }
    };
    // SAFETY: the caller's contract.
    let copied = |from: &F::C| unsafe { pointer::with_place(to.cast(), "element", |to| copy(from, to)) };
    // SAFETY: the caller's contract.
    unsafe { pointer::with_data(from.cast(), "element", copied) }??
}

/// # Safety
/// F1 for the element there, or the address is plainly none.
unsafe fn destruct_as<F: Form>(at: *mut c_void) {
    // SAFETY: the caller's contract.
    let destruct = |element: &mut F::C| unsafe { F::destruct(element) };
    // An invalid address holds no element.
    // SAFETY: the caller's contract.
    let _ = unsafe { pointer::with_place(at.cast(), "element", destruct) };
}

/// # Safety
/// An element may be written there.
unsafe fn construct_as<F: Form>(at: *mut c_void) {
    // An invalid address has no place for an element.
    // SAFETY: the caller's contract.
    let _ = unsafe { pointer::with_place(at.cast(), "element", F::construct) };
}

/// The type of a value in C's hands.
pub fn type_of(value: &pmix_value_t) -> Result<DataType, CError> {
    DataType::from_raw(value.type_).ok_or(CError::UnknownType { code: value.type_ })
}

/// Address of a value's element; NULL if the value holds a NULL pointer to it.
#[must_use]
pub fn address(value: &pmix_value_t, data_type: DataType) -> *const c_void {
    place(data_type, &value.data)
}

/// Address of a value's element.
fn place(data_type: DataType, data: &pmix_value_data_t) -> *mut c_void {
    if is_pointed(data_type) {
        // SAFETY: values of these types hold a pointer; any eight bytes are one.
        return unsafe { data.ptr };
    }
    (&raw const *data).cast_mut().cast()
}

/// Reads a value.
///
/// # Errors
/// [`CError`] when its type is unknown, or it is no valid value of the Rust type.
///
/// # Safety
/// P1 for every pointer inside.
pub unsafe fn read_payload(value: &pmix_value_t, depth: Depth) -> Result<Value, CError> {
    let data_type = type_of(value)?;
    let depth = depth.deeper()?;
    // SAFETY: the caller's contract.
    unsafe { read(data_type, place(data_type, &value.data), depth) }
}

/// Writes a value into an empty one (F1).
///
/// # Errors
/// [`CError`] when the C type cannot hold it.
pub fn write_payload(value: &Value, to: &mut pmix_value_t) -> Result<(), CError> {
    let data_type = value.data_type();
    let at = prepare(data_type, to)?;
    // SAFETY: `prepare` has made an empty element there.
    unsafe { write(value, at) }
}

/// Copies a value into an empty one (F1).
///
/// # Errors
/// As [`Form::copy`].
///
/// # Safety
/// P1 for every pointer inside `from`.
pub unsafe fn copy_payload(from: &pmix_value_t, to: &mut pmix_value_t, depth: Depth) -> Result<(), CError> {
    let data_type = type_of(from)?;
    // SAFETY: the caller's contract.
    unsafe { copy_into(data_type, place(data_type, &from.data), to, depth) }
}

/// Makes an empty value hold a copy of an element (F1).
///
/// # Errors
/// As [`Form::copy`].
///
/// # Safety
/// P1: an element of the type is there, with P1 for every pointer inside.
pub unsafe fn copy_into(
    data_type: DataType,
    from: *const c_void,
    to: &mut pmix_value_t,
    depth: Depth,
) -> Result<(), CError> {
    let depth = depth.deeper()?;
    if is_pointed(data_type) && from.is_null() {
        return Err(CError::Null { what: data_type.name() });
    }
    let at = prepare(data_type, to)?;
    // SAFETY: the caller's contract; `prepare` has made an empty element at `at`.
    unsafe { copy(data_type, from, at, depth) }
}

/// Gives an empty value its type. If values of the type hold a pointer, it gets an empty element, too.
fn prepare(data_type: DataType, to: &mut pmix_value_t) -> Result<*mut c_void, CError> {
    if is_pointed(data_type) {
        to.data.ptr = memory::zeroed::<u8>(size(data_type)?)?.cast();
    } else if data_type != DataType::Undefined {
        size(data_type)?;
    }
    to.type_ = data_type.to_raw();
    Ok(place(data_type, &to.data))
}

/// Releases a value and leaves it undefined. The content of a value of unknown type is not released.
///
/// # Safety
/// F1.
pub unsafe fn destruct_payload(value: &mut pmix_value_t) {
    if let Ok(data_type) = type_of(value) {
        let at = if is_pointed(data_type) { place(data_type, &value.data) } else { (&raw mut value.data).cast() };
        // SAFETY: the caller's contract.
        unsafe { destruct(data_type, at) };
        if is_pointed(data_type) {
            // SAFETY: F1: the element is a block of its own.
            unsafe { memory::release(at) };
        }
    }
    pmix_value_t::construct(value);
}
