//! The form of each data type.
//!
//! An *element* is one entry of an array of the type. Functions like `PMIx_Data_pack` take its address. A
//! `pmix_value_t` holds the element itself if it fits, else a pointer to one.
//!
//! - **E1** An [`Element`] and a [`Place`] have the type of the element at their address. The address may be NULL, plainly
//!   wrong, or not aligned (P2).

use std::marker::PhantomData;

use modex::types::{DataType, Value};

use super::{
    Address, Bool, Depth, Form, Moment, NamespaceField, Own, Pid, Plain, RankNumber, Regex, Size, Str, Time, Whole,
};
use crate::error::CError;
use crate::types::{
    c_void, pmix_app_t, pmix_byte_object_t, pmix_coord_t, pmix_cpuset_t, pmix_data_array_t, pmix_data_buffer_t,
    pmix_device_distance_t, pmix_device_t, pmix_disk_stats_t, pmix_endpoint_t, pmix_envar_t, pmix_geometry_t,
    pmix_info_t, pmix_net_stats_t, pmix_node_pid_t, pmix_node_stats_t, pmix_pdata_t, pmix_proc_info_t,
    pmix_proc_stats_t, pmix_proc_t, pmix_query_t, pmix_regattr_t, pmix_regex2_t, pmix_resource_unit_t, pmix_topology_t,
    pmix_value_data_t, pmix_value_t,
};
use crate::{memory, pointer};

/// Gives the form of each type to another macro. `held` elements fit into a value, `pointed` ones do not.
///
/// Strings are special because they have two Rust values; they are held in the value. `absent` types
/// have no public structure.
macro_rules! elements {
    ($macro:ident!($($argument:tt)*)) => {
        $macro! {
            ($($argument)*)
            held {
                Bool: Bool, Byte: Plain<u8>, Size: Size, Pid: Pid, Int: Plain<i32>, Int8: Plain<i8>,
                Int16: Plain<i16>, Int32: Plain<i32>, Int64: Plain<i64>, Uint: Plain<u32>, Uint8: Plain<u8>,
                Uint16: Plain<u16>, Uint32: Plain<u32>, Uint64: Plain<u64>, Float: Plain<f32>, Double: Plain<f64>,
                Timeval: Moment, Time: Time, Status: Plain<i32>, ByteObject: pmix_byte_object_t, Pointer: Address,
                Persistence: Plain<u8>, Scope: Plain<u8>, DataRange: Plain<u8>, Command: Plain<u8>,
                InfoDirectives: Plain<u32>, DataType: Plain<u16>, ProcState: Plain<u8>, ProcRank: RankNumber,
                CompressedString: pmix_byte_object_t, AllocDirective: Plain<u8>, IofChannel: Plain<u16>,
                Envar: pmix_envar_t, Regex: Regex, JobState: Plain<u8>, LinkState: Plain<u8>, DeviceType: Plain<u64>,
                LocalityType: Plain<u16>, CompressedByteObject: pmix_byte_object_t, StorageMedium: Plain<u64>,
                StorageAccess: Plain<u64>, StoragePersistence: Plain<u64>, StorageAccessType: Plain<u16>,
                ResblockDirective: Plain<u8>,
            }
            pointed {
                Value: pmix_value_t, Proc: pmix_proc_t, App: pmix_app_t, Info: pmix_info_t, Pdata: pmix_pdata_t,
                ProcInfo: pmix_proc_info_t, DataArray: pmix_data_array_t, Query: pmix_query_t, Coord: pmix_coord_t,
                Regattr: pmix_regattr_t, ProcCpuset: pmix_cpuset_t, Geometry: pmix_geometry_t,
                DeviceDistance: pmix_device_distance_t, Endpoint: pmix_endpoint_t, Topology: pmix_topology_t,
                ProcNamespace: NamespaceField, ProcStats: pmix_proc_stats_t, DiskStats: pmix_disk_stats_t,
                NetStats: pmix_net_stats_t, NodeStats: pmix_node_stats_t, DataBuffer: pmix_data_buffer_t,
                Device: pmix_device_t, ResourceUnit: pmix_resource_unit_t, NodePid: pmix_node_pid_t,
                Regex2: pmix_regex2_t,
            }
            absent { Buffer, Kval, }
        }
    };
}

/// Does the same with the form of each type: `$form` is a name for it in `$action`.
macro_rules! with_form {
    (
        ($data_type:expr, $form:ident => $action:expr, else $without:expr)
        held { $($held:ident: $held_form:ty,)* }
        pointed { $($pointed:ident: $pointed_form:ty,)* }
        absent { $($absent:ident,)* }
    ) => {
        match $data_type {
            DataType::String => { type $form = Str; $action }
            $(DataType::$held => { type $form = $held_form; $action })*
            $(DataType::$pointed => { type $form = $pointed_form; $action })*
            DataType::Undefined $(| DataType::$absent)* => $without,
        }
    };
}

/// Reads an element as the value of its type.
macro_rules! read_as {
    (
        ($element:ident, $depth:ident)
        held { $($held:ident: $held_form:ty,)* }
        pointed { $($pointed:ident: $pointed_form:ty,)* }
        absent { $($absent:ident,)* }
    ) => {
        match $element.data_type {
            DataType::Undefined => Ok(Value::Undefined),
            DataType::String => {
                // SAFETY: strings have this form.
                let string = unsafe { $element.read_form::<Str>($depth) }?;
                Ok(string.map_or(Value::NullString, Value::String))
            }
            $(
                DataType::$held => {
                    // SAFETY: the table names the form of this type.
                    let content = unsafe { $element.read_form::<$held_form>($depth) }?;
                    Ok(Value::$held(content.into()))
                }
            )*
            $(
                DataType::$pointed => {
                    // SAFETY: the table names the form of this type.
                    let content = unsafe { $element.read_form::<$pointed_form>($depth) }?;
                    Ok(Value::$pointed(content.into()))
                }
            )*
            $(DataType::$absent)|* => Err(CError::NoForm { data_type: $element.data_type }),
        }
    };
}

/// Writes a value as an element.
macro_rules! write_as {
    (
        ($value:ident, $place:ident)
        held { $($held:ident: $held_form:ty,)* }
        pointed { $($pointed:ident: $pointed_form:ty,)* }
        absent { $($absent:ident,)* }
    ) => {
        match $value {
            Value::Undefined | Value::NullString => Ok(()),
            Value::String(text) => {
                let string: <Str as Form>::C = memory::new_string(text.as_bytes())?;
                // SAFETY: strings have this form.
                unsafe { $place.change_form::<Str, _>("string", |to| *to = string) }
            }
            $(
                Value::$held(content) => {
                    let write = |to: &mut <$held_form as Form>::C| <$held_form>::write(content, to);
                    // SAFETY: the table names the form of this type, and the value is of the place's type (checked).
                    unsafe { $place.change_form::<$held_form, _>("element", write) }?
                }
            )*
            $(
                Value::$pointed(content) => {
                    let write = |to: &mut <$pointed_form as Form>::C| <$pointed_form>::write(content, to);
                    // SAFETY: the table names the form of this type, and the value is of the place's type (checked).
                    unsafe { $place.change_form::<$pointed_form, _>("element", write) }?
                }
            )*
            $(Value::$absent(..))|* => Err(CError::NoForm { data_type: $value.data_type() }),
        }
    };
}

/// Whether a type is in the second part of the table.
macro_rules! is_in_pointed {
    (
        ($data_type:expr)
        held { $($held:ident: $held_form:ty,)* }
        pointed { $($pointed:ident: $pointed_form:ty,)* }
        absent { $($absent:ident,)* }
    ) => {
        matches!($data_type, $(DataType::$pointed)|*)
    };
}

/// Size of one element in bytes.
///
/// # Errors
/// When the C interface has no structure for the type.
pub const fn size(data_type: DataType) -> Result<usize, CError> {
    elements!(with_form!(data_type, F => Ok(size_of::<<F as Form>::C>()), else Err(CError::NoForm { data_type })))
}

/// Whether a value of the type holds a pointer to the element.
pub const fn is_pointed(data_type: DataType) -> bool {
    elements!(is_in_pointed!(data_type))
}

/// An element to read (E1).
#[derive(Clone, Copy, Debug)]
pub struct Element<'a> {
    data_type: DataType,
    at: *const c_void,
    lifetime: PhantomData<&'a c_void>,
}

impl<'a> Element<'a> {
    /// Asserts that an element is at this address.
    ///
    /// # Safety
    /// E1: an element of the type is there, and P1 holds for every pointer inside.
    pub const unsafe fn new(data_type: DataType, at: *const c_void) -> Self {
        Self { data_type, at, lifetime: PhantomData }
    }

    /// The type.
    #[must_use]
    pub const fn data_type(self) -> DataType {
        self.data_type
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_null(self) -> bool {
        self.at.is_null()
    }

    /// Reads the element.
    ///
    /// # Errors
    /// [`CError`] when it is no such element.
    pub fn read(self, depth: Depth) -> Result<Value, CError> {
        elements!(read_as!(self, depth))
    }

    /// # Safety
    /// The element has this form.
    unsafe fn read_form<F: Form>(self, depth: Depth) -> Result<F::Owned, CError> {
        // SAFETY: P1 holds for every pointer inside (E1).
        let read = |element: &F::C| F::read(unsafe { Whole::new(element) }, depth);
        // SAFETY: an element is there, at any address (E1).
        unsafe { pointer::with_data(self.at.cast(), self.data_type.name(), read) }?
    }

    /// # Safety
    /// The element and the place have this form.
    unsafe fn copy_form<F: Form>(self, to: &mut Place<'_>, depth: Depth) -> Result<(), CError> {
        let copied = |from: &F::C| {
            // SAFETY: P1 holds for every pointer inside (E1).
            let copy = |to: &mut F::C| F::copy(unsafe { Whole::new(from) }, to, depth);
            // SAFETY: the place has this form (the caller's promise).
            unsafe { to.change_form::<F, _>("element", copy) }
        };
        // SAFETY: an element is there, at any address (E1).
        unsafe { pointer::with_data(self.at.cast(), "element", copied) }??
    }
}

/// Storage for an element (E1), which nobody else uses. Its content may be anything until it is constructed.
#[derive(Debug)]
pub struct Place<'a> {
    data_type: DataType,
    at: *mut c_void,
    lifetime: PhantomData<&'a mut c_void>,
}

impl Place<'_> {
    /// Asserts that there is storage at this address.
    ///
    /// # Safety
    /// E1: an element of the type may be written there, and nobody else uses the storage.
    pub const unsafe fn new(data_type: DataType, at: *mut c_void) -> Self {
        Self { data_type, at, lifetime: PhantomData }
    }

    /// Makes the element empty, whatever its old bytes.
    pub fn construct(&mut self) {
        // An invalid address has no place for an element, and is left alone.
        let _: Result<(), CError> = elements!(with_form!(
            self.data_type,
            // SAFETY: the table names the form of this type.
            F => unsafe { self.change_form::<F, _>("element", F::construct) },
            else Ok(())
        ));
    }

    /// Writes into an empty element.
    ///
    /// # Errors
    /// [`CError`] when the value has another type, or the C type cannot hold it.
    pub fn write(&mut self, value: &Value) -> Result<(), CError> {
        let found = value.data_type();
        if found != self.data_type {
            return Err(CError::MixedArray { expected: self.data_type, found });
        }
        elements!(write_as!(value, self))
    }

    /// Copies into an empty element.
    ///
    /// # Errors
    /// As [`Form::copy`], and when the element has another type.
    pub fn copy(&mut self, from: Element<'_>, depth: Depth) -> Result<(), CError> {
        if from.data_type != self.data_type {
            return Err(CError::MixedArray { expected: self.data_type, found: from.data_type });
        }
        elements!(with_form!(
            self.data_type,
            // SAFETY: the table names the form of both; their types are equal (checked).
            F => unsafe { from.copy_form::<F>(self, depth) },
            else self.without_form()
        ))
    }

    /// The result for an element of a type without a structure.
    const fn without_form(&self) -> Result<(), CError> {
        match self.data_type {
            DataType::Undefined => Ok(()),
            data_type => Err(CError::NoForm { data_type }),
        }
    }

    /// Releases the memory that the element owns.
    ///
    /// # Safety
    /// F1 holds for the element, or the address is plainly none.
    pub unsafe fn destruct(&mut self) {
        // An invalid address holds no element.
        let _: Result<(), CError> = elements!(with_form!(
            self.data_type,
            // SAFETY: the table names the form of this type; F1 is the promise of this function.
            F => unsafe { self.destruct_form::<F>() },
            else Ok(())
        ));
    }

    /// # Safety
    /// The place has this form, and F1 holds for the element.
    unsafe fn destruct_form<F: Form>(&mut self) -> Result<(), CError> {
        // SAFETY: F1 holds (the caller's promise), and nobody else uses the element (E1).
        let destruct = |element: &mut F::C| F::destruct(unsafe { Own::new(element) });
        // SAFETY: the place has this form (the caller's promise).
        unsafe { self.change_form::<F, _>("element", destruct) }
    }

    /// # Safety
    /// The place has this form. If `change` relies on the element, it is one.
    unsafe fn change_form<F: Form, R>(
        &mut self,
        what: &'static str,
        change: impl FnOnce(&mut F::C) -> R,
    ) -> Result<R, CError> {
        // SAFETY: storage of this form, at any address (E1), which nobody else uses.
        unsafe { pointer::with_place(self.at.cast(), what, change) }
    }
}

/// The type of a value in C's hands.
pub fn type_of(value: &pmix_value_t) -> Result<DataType, CError> {
    DataType::from_raw(value.type_).ok_or(CError::UnknownType { code: value.type_ })
}

/// Address of a value's element; NULL if the value holds a NULL pointer to it.
fn address(data_type: DataType, data: &pmix_value_data_t) -> *const c_void {
    if is_pointed(data_type) { data.ptr() } else { (&raw const *data).cast() }
}

impl<'a> Whole<'a, pmix_value_t> {
    /// The element of the value.
    ///
    /// # Errors
    /// When the type is unknown.
    pub fn element(self) -> Result<Element<'a>, CError> {
        let data_type = type_of(self.get())?;
        // SAFETY: the type says which element the value holds or points to, and P1 holds for it.
        Ok(unsafe { Element::new(data_type, address(data_type, &self.get().data)) })
    }
}

/// Reads a value.
///
/// # Errors
/// [`CError`] when its type is unknown, or it is no valid value of the Rust type.
pub fn read_payload(value: Whole<'_, pmix_value_t>, depth: Depth) -> Result<Value, CError> {
    let element = value.element()?;
    element.read(depth.deeper()?)
}

/// Writes a value into an empty one (F1).
///
/// # Errors
/// [`CError`] when the C type cannot hold it.
pub fn write_payload(value: &Value, to: &mut pmix_value_t) -> Result<(), CError> {
    prepare(value.data_type(), to)?.write(value)
}

/// Copies a value into an empty one (F1).
///
/// # Errors
/// As [`Form::copy`].
pub fn copy_payload(from: Whole<'_, pmix_value_t>, to: &mut pmix_value_t, depth: Depth) -> Result<(), CError> {
    copy_into(from.element()?, to, depth)
}

/// Makes an empty value hold a copy of an element (F1).
///
/// # Errors
/// As [`Form::copy`].
pub fn copy_into(from: Element<'_>, to: &mut pmix_value_t, depth: Depth) -> Result<(), CError> {
    let depth = depth.deeper()?;
    if is_pointed(from.data_type) && from.is_null() {
        return Err(CError::Null { what: from.data_type.name() });
    }
    prepare(from.data_type, to)?.copy(from, depth)
}

/// Gives an empty value its type. If values of the type hold a pointer, it gets an empty element, too.
fn prepare(data_type: DataType, to: &mut pmix_value_t) -> Result<Place<'_>, CError> {
    let at = if is_pointed(data_type) {
        let block: *mut c_void = memory::zeroed::<u8>(size(data_type)?)?.cast();
        to.data.ptr = block;
        block
    } else {
        if data_type != DataType::Undefined {
            size(data_type)?;
        }
        (&raw mut to.data).cast()
    };
    to.type_ = data_type.to_raw();
    // SAFETY: a block made just now for one element, or the value's own bytes, which hold every element of such a type.
    Ok(unsafe { Place::new(data_type, at) })
}

/// Releases a value and leaves it undefined. The content of a value of unknown type is not released.
pub fn destruct_payload(value: Own<'_, pmix_value_t>) {
    let value = value.into_place();
    if let Ok(data_type) = type_of(value) {
        let at = if is_pointed(data_type) { value.data.ptr() } else { (&raw mut value.data).cast() };
        // SAFETY: the type says which element the value holds or points to, and the value is ours alone.
        let mut element = unsafe { Place::new(data_type, at) };
        // SAFETY: F1 holds for the value, so for its element.
        unsafe { element.destruct() };
        if is_pointed(data_type) {
            // SAFETY: F1: the element is a block of its own.
            unsafe { memory::release(at) };
        }
    }
    pmix_value_t::construct(value);
}
