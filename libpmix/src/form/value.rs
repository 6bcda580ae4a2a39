//! Values, and the structures that hold them.

use std::ffi::CStr;

use modex::types::{App, DataType, Info, InfoFlags, Pdata, Query, Value};

use super::record::record;
use super::text::info_key;
use super::{Argv, Depth, Form, KeyField, List, Own, Plain, Str, Whole, element};
use crate::error::CError;
use crate::pointer;
use crate::types::{
    pmix_app_t, pmix_data_array_t, pmix_info_t, pmix_pdata_t, pmix_proc_t, pmix_query_t, pmix_topology_t, pmix_value_t,
};

impl Form for pmix_value_t {
    type C = Self;
    type Owned = Value;

    fn read(from: Whole<'_, Self>, depth: Depth) -> Result<Value, CError> {
        element::read_payload(from, depth)
    }

    fn write(owned: &Value, to: &mut Self) -> Result<(), CError> {
        element::write_payload(owned, to)
    }

    fn copy(from: Whole<'_, Self>, to: &mut Self, depth: Depth) -> Result<(), CError> {
        element::copy_payload(from, to, depth)
    }

    fn destruct(member: Own<'_, Self>) {
        element::destruct_payload(member);
    }
}

impl<'a> Whole<'a, pmix_value_t> {
    /// The string of a value of this type; `None` for NULL.
    ///
    /// # Errors
    /// When the value has another type, or the pointer is an impossible address.
    pub fn string(self) -> Result<Option<&'a CStr>, CError> {
        self.expect(DataType::String)?;
        // SAFETY: the type says that the value holds a string, and P1 holds for it.
        unsafe { pointer::text(self.get().data.string(), "string") }
    }

    /// The array of a value of this type.
    ///
    /// # Errors
    /// When the value has another type, or the pointer is NULL or an impossible address.
    pub fn data_array(self) -> Result<Whole<'a, pmix_data_array_t>, CError> {
        self.expect(DataType::DataArray)?;
        // SAFETY: the type says that the value points to an array, and P1 holds for it.
        let array = unsafe { pointer::shared(self.get().data.darray(), "data array") }?;
        // SAFETY: P1 holds for the pointers inside the array, too.
        Ok(unsafe { Whole::new(array) })
    }

    /// The topology of a value of this type; `None` for NULL.
    ///
    /// # Errors
    /// When the value has another type, or the pointer is an impossible address.
    pub fn topology(self) -> Result<Option<Whole<'a, pmix_topology_t>>, CError> {
        self.expect(DataType::Topology)?;
        // SAFETY: the type says that the value points to a topology, and P1 holds for it.
        let topology = unsafe { pointer::optional(self.get().data.topo(), "topology") }?;
        // SAFETY: P1 holds for the members of the topology, too.
        Ok(topology.map(|topology| unsafe { Whole::new(topology) }))
    }

    fn expect(self, expected: DataType) -> Result<(), CError> {
        if self.type_ == expected.to_raw() {
            return Ok(());
        }
        Err(CError::MixedArray { expected, found: element::type_of(self.get())? })
    }
}

impl Form for pmix_info_t {
    type C = Self;
    type Owned = Info;

    fn read(from: Whole<'_, Self>, depth: Depth) -> Result<Info, CError> {
        let key = info_key(&from.key)?;
        let value = element::read_payload(from.value(), depth)?;
        Ok(Info { key, flags: from.flags, value })
    }

    fn write(owned: &Info, to: &mut Self) -> Result<(), CError> {
        KeyField::write(&owned.key, &mut to.key)?;
        // The written value belongs to the structure.
        to.flags = owned.flags & !InfoFlags::PERSISTENT.bits();
        element::write_payload(&owned.value, &mut to.value)
    }

    fn copy(from: Whole<'_, Self>, to: &mut Self, depth: Depth) -> Result<(), CError> {
        to.key = from.key;
        to.flags = from.flags & !InfoFlags::PERSISTENT.bits();
        element::copy_payload(from.value(), &mut to.value, depth)
    }

    /// Releases the value unless it is persistent: a persistent value belongs to another owner.
    fn destruct(member: Own<'_, Self>) {
        let member = member.into_place();
        if member.flags & InfoFlags::PERSISTENT.bits() == 0 {
            // SAFETY: F1 holds for the info, and a value that is not persistent belongs to it.
            element::destruct_payload(unsafe { Own::new(&mut member.value) });
        }
        Self::construct(member);
    }
}

impl<'a> Whole<'a, pmix_info_t> {
    /// The value.
    #[must_use]
    pub const fn value(self) -> Whole<'a, pmix_value_t> {
        // SAFETY: P1 holds for the info, so for its value.
        unsafe { Whole::new(&self.get().value) }
    }

    /// The entries of a value that is an array of infos; `None` for other values.
    ///
    /// # Errors
    /// When the pointer or the count is impossible.
    pub fn entries(self) -> Result<Option<List<'a, pmix_info_t>>, CError> {
        if self.value.type_ == DataType::DataArray.to_raw() { self.value().data_array()?.infos() } else { Ok(None) }
    }
}

impl<'a> Whole<'a, pmix_pdata_t> {
    /// The value.
    #[must_use]
    pub const fn value(self) -> Whole<'a, pmix_value_t> {
        // SAFETY: P1 holds for the structure, so for its value.
        unsafe { Whole::new(&self.get().value) }
    }
}

record! {
    Pdata as pmix_pdata_t {
        proc = proc: pmix_proc_t,
        key = key: KeyField,
        value = value: pmix_value_t,
    }
    App as pmix_app_t {
        command = cmd: Str,
        argv = argv: Argv,
        environment = env: Argv,
        working_directory = cwd: Str,
        processes_max = maxprocs: Plain<i32>,
        ; lists { info = info[ninfo]: pmix_info_t, }
    }
    Query as pmix_query_t {
        keys = keys: Argv,
        ; lists { qualifiers = qualifiers[nqual]: pmix_info_t, }
    }
}
